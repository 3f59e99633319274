#include "fit/folds.h"

#include <stdlib.h>

#include "base/mem.h"

enum { STATE = 624, SHIFT = 397 };

typedef struct mt {
    uint32_t key[STATE];
    size_t at;
} mt;

static void mt_seed(mt *m, uint32_t seed) {
    for (uint32_t i = 0; i < STATE; i++) {
        m->key[i] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
    m->at = STATE;
}

static uint32_t mt_next(mt *m) {
    if (m->at == STATE) {
        for (size_t i = 0; i < STATE; i++) {
            uint32_t y = (m->key[i] & 0x80000000u) | (m->key[(i + 1) % STATE] & 0x7FFFFFFFu);
            m->key[i] = m->key[(i + SHIFT) % STATE] ^ y >> 1 ^ (y & 1 ? 0x9908B0DFu : 0);
        }
        m->at = 0;
    }
    uint32_t y = m->key[m->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9D2C5680u;
    y ^= y << 15 & 0xEFC60000u;
    return y ^ y >> 18;
}

/* Uniform in [0, max]. */
static size_t interval(mt *m, size_t max) {
    uint32_t mask = (uint32_t)max, v;
    for (int s = 1; s < 32; s *= 2) mask |= mask >> s;
    do v = mt_next(m) & mask;
    while (v > max);
    return v;
}

void numpy_permutation(uint32_t seed, size_t n, size_t *perm) {
    mt m;
    mt_seed(&m, seed);
    for (size_t i = 0; i < n; i++) perm[i] = i;
    for (size_t i = n; i-- > 1;) {
        size_t j = interval(&m, i), t = perm[j];
        perm[j] = perm[i];
        perm[i] = t;
    }
}

status folds_make(uint32_t seed, size_t n, size_t k, size_t *fold, err *e) {
    if (k > n) k = n;
    size_t *perm = mem_alloc(n, sizeof *perm);
    if (!perm) return err_memory(e, n * sizeof *perm);
    if (n > UINT32_MAX) {
        free(perm);
        return err_set(e, ST_INPUT, "more labels than can be split into folds");
    }
    numpy_permutation(seed, n, perm);
    for (size_t f = 0, i = 0; f < k; f++)
        for (size_t end = i + n / k + (f < n % k ? 1 : 0); i < end; i++) fold[perm[i]] = f;
    free(perm);
    return ST_OK;
}
