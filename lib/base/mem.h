/* mem.h: allocation with checked sizes. Every function returns NULL when the product overflows or
 * memory is short; the caller frees with free(). */
#ifndef ANYJEV_BASE_MEM_H
#define ANYJEV_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* true and *out = a op b, or false on overflow. */
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);

void *mem_alloc(size_t n, size_t size);            /* uninitialised; n * size == 0 gives one byte */
void *mem_zero(size_t n, size_t size);             /* zeroed */
void *mem_resize(void *p, size_t n, size_t size);  /* as realloc; p stays valid on failure */
void *mem_aligned(size_t n, size_t size);          /* on a 64-byte boundary, uninitialised */
char *mem_text(const char *s, size_t n);           /* n bytes and a final NUL */

/* Grows *p (elements of `size` bytes, *cap of them) to hold at least `need`; doubles. */
bool mem_grow(void **p, size_t *cap, size_t need, size_t size);

#endif
