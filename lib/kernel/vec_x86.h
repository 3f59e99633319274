/* vec_x86.h: what AVX2 and AVX-512 share: moving data about, which rounds nothing. */
#ifndef ANYJEV_KERNEL_VEC_X86_H
#define ANYJEV_KERNEL_VEC_X86_H

#include "kernel/vec_ops.h"
#include "kernel/widen_x86.h"

/* Eight rows of eight floats; the halves are joined while loading. */
INLINE void transpose8(const float *s, size_t stride, float *d) {
    __m256 r[8], t[8];
    UNROLL for (size_t i = 0; i < 4; i++) {
        const float *lo = s + i * stride, *hi = s + (i + 4) * stride;
        r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(lo)), _mm_loadu_ps(hi), 1);
        r[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(lo + 4)), _mm_loadu_ps(hi + 4), 1);
    }
    UNROLL for (size_t i = 0; i < 8; i += 4) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
        t[i + 2] = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
        t[i + 3] = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        _mm256_storeu_ps(d + i * PANEL, _mm256_shuffle_ps(t[i], t[i + 2], 0x44));
        _mm256_storeu_ps(d + (i + 1) * PANEL, _mm256_shuffle_ps(t[i], t[i + 2], 0xee));
        _mm256_storeu_ps(d + (i + 2) * PANEL, _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44));
        _mm256_storeu_ps(d + (i + 3) * PANEL, _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee));
    }
}

static void vec_transpose(const float *src, size_t src_stride, size_t k, float *dst) {
    size_t i = 0;
    for (; k - i >= 8; i += 8)
        for (size_t n = 0; n < PANEL; n += 8) transpose8(src + n * src_stride + i, src_stride, dst + i * PANEL + n);
    for (; i < k; i++)
        for (size_t n = 0; n < PANEL; n++) dst[i * PANEL + n] = src[n * src_stride + i];
}

#endif
