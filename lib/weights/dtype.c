#include "weights/dtype.h"

#include "base/mem.h"

/* Block layouts: the GGUF specification. */
static const struct {
    const char *name;
    size_t block, bytes;
} forms[DT_COUNT] = {
    [DT_F32] = {"F32", 1, 4},    [DT_F16] = {"F16", 1, 2},    [DT_BF16] = {"BF16", 1, 2},    [DT_Q8_0] = {"Q8_0", 32, 34},
    [DT_Q4_0] = {"Q4_0", 32, 18}, [DT_Q4_1] = {"Q4_1", 32, 20}, [DT_Q5_0] = {"Q5_0", 32, 22},  [DT_Q5_1] = {"Q5_1", 32, 24},
    [DT_Q4_K] = {"Q4_K", 256, 144}, [DT_Q5_K] = {"Q5_K", 256, 176}, [DT_Q6_K] = {"Q6_K", 256, 210},
};

const char *dtype_name(dtype t) {
    return forms[t].name;
}

size_t dtype_block(dtype t) {
    return forms[t].block;
}

size_t dtype_block_bytes(dtype t) {
    return forms[t].bytes;
}

bool dtype_bytes(dtype t, size_t n, size_t *bytes) {
    return n % forms[t].block == 0 && size_mul(n / forms[t].block, forms[t].bytes, bytes);
}
