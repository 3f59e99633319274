/* int8_x86.h: what the AVX2 and AVX-512 int8 products share: activations quantised as matmul_int8.c says. */
#ifndef ANYJEV_KERNEL_INT8_X86_H
#define ANYJEV_KERNEL_INT8_X86_H

#include <string.h>

#include "kernel/internal.h"
#include "kernel/vec.h"

/* flip: 0, or 0x80 to store q + 128 for an unsigned operand. */
INLINE void quant_block(const float *x, int8_t *q, float *scale, int flip) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 v[4], top = _mm256_setzero_ps();
    UNROLL for (size_t i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + i * 8);
        top = _mm256_max_ps(_mm256_andnot_ps(sign, v[i]), top);
    }
    float lanes[8], max = 0;
    _mm256_storeu_ps(lanes, top);
    for (int i = 0; i < 8; i++)
        if (lanes[i] > max) max = lanes[i];
    *scale = 0;
    __m256i bytes = _mm256_setzero_si256();
    if (max >= 1e-30f) {
        *scale = max / 127;
        __m256 inv = _mm256_set1_ps(127 / max);
        __m256i n[4];
        UNROLL for (size_t i = 0; i < 4; i++) {
            __m256 t = _mm256_max_ps(_mm256_mul_ps(v[i], inv), _mm256_set1_ps(-127));
            n[i] = _mm256_cvtps_epi32(_mm256_min_ps(t, _mm256_set1_ps(127)));
        }
        bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    }
    bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)flip));
    _mm256_storeu_si256((__m256i *)(void *)q, bytes);
}

INLINE void quant_blocks(const float *x, size_t n, int8_t *q, float *scale, int flip) {
    for (; n >= QBLOCK; n -= QBLOCK, x += QBLOCK, q += QBLOCK, scale++) quant_block(x, q, scale, flip);
    if (n > 0) {
        float tail[QBLOCK] = {0};
        memcpy(tail, x, n * sizeof *x);
        quant_block(tail, q, scale, flip);
    }
}

#endif
