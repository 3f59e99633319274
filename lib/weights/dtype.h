/* dtype.h: the forms in which weights lie in files. */
#ifndef ANYJEV_WEIGHTS_DTYPE_H
#define ANYJEV_WEIGHTS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum dtype {
    DT_F32, DT_F16, DT_BF16, DT_Q8_0, DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q4_K, DT_Q5_K, DT_Q6_K,
    DT_COUNT
} dtype;

const char *dtype_name(dtype t);
size_t dtype_block(dtype t);       /* values per block: 1, 32 or 256 */
size_t dtype_block_bytes(dtype t); /* bytes per block */
/* Bytes of n values; false when n is no multiple of the block or the product overflows. */
bool dtype_bytes(dtype t, size_t n, size_t *bytes);

#endif
