#include "base/mem.h"

#include <stdint.h>
#include <string.h>

bool size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

void *mem_alloc(size_t n, size_t size) {
    size_t bytes;
    if (!size_mul(n, size, &bytes)) return NULL;
    return malloc(bytes ? bytes : 1);
}

void *mem_zero(size_t n, size_t size) {
    return calloc(n ? n : 1, size ? size : 1);
}

void *mem_resize(void *p, size_t n, size_t size) {
    size_t bytes;
    if (!size_mul(n, size, &bytes)) return NULL;
    return realloc(p, bytes ? bytes : 1);
}

void *mem_aligned(size_t n, size_t size) {
    size_t bytes;
    if (!size_mul(n, size, &bytes) || bytes > SIZE_MAX - 64) return NULL;
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes ? 0 : 64));
}

char *mem_text(const char *s, size_t n) {
    if (n == SIZE_MAX) return NULL;
    char *t = malloc(n + 1);
    if (!t) return NULL;
    if (n) memcpy(t, s, n);
    t[n] = '\0';
    return t;
}

bool mem_grow(void **p, size_t *cap, size_t need, size_t size) {
    if (need <= *cap) return true;
    size_t n = *cap ? *cap : 16;
    while (n < need) {
        if (n > SIZE_MAX / 2) return false;
        n *= 2;
    }
    void *q = mem_resize(*p, n, size);
    if (!q) return false;
    *p = q;
    *cap = n;
    return true;
}
