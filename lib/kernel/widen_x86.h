/* widen_x86.h: the blocks of dequant.c widened with vectors: the same products and sums, element by element. */
#ifndef ANYJEV_KERNEL_WIDEN_X86_H
#define ANYJEV_KERNEL_WIDEN_X86_H

#include <string.h>

#include "kernel/internal.h"
#include "kernel/vec.h"

INLINE float widen_half(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

INLINE __m128i widen_load(const unsigned char *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
INLINE __m128i widen_low(__m128i q) { return _mm_and_si128(q, _mm_set1_epi8(15)); }
INLINE __m128i widen_high(__m128i q) { return widen_low(_mm_srli_epi16(q, 4)); }
/* 16 where the byte of `from` has one of the bits of `bits`, else 0. */
INLINE __m128i widen_fifth(__m128i from, __m128i bits) {
    return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(from, bits), bits), _mm_set1_epi8(16));
}

/* y = d * q + m for sixteen signed bytes; without m when there is none (a sum with -0 or 0 is not the same). */
INLINE void widen_put(float *y, __m128i q, float d, float m, const bool with_m) {
#if defined(__AVX512F__)
    __m512 v = _mm512_mul_ps(_mm512_set1_ps(d), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)));
    _mm512_storeu_ps(y, with_m ? _mm512_add_ps(v, _mm512_set1_ps(m)) : v);
#else
    for (size_t i = 0; i < 2; i++, q = _mm_srli_si128(q, 8)) {
        __m256 v = _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
        _mm256_storeu_ps(y + i * 8, with_m ? _mm256_add_ps(v, _mm256_set1_ps(m)) : v);
    }
#endif
}

INLINE void widen_block_4(const unsigned char *b, float *y, const bool with_m) {
    float d = widen_half(b), m = with_m ? widen_half(b + 2) : 0;
    __m128i q = widen_load(b + (with_m ? 4 : 2)), less = _mm_set1_epi8(with_m ? 0 : 8);
    widen_put(y, _mm_sub_epi8(widen_low(q), less), d, m, with_m);
    widen_put(y + 16, _mm_sub_epi8(widen_high(q), less), d, m, with_m);
}

INLINE void widen_block_5(const unsigned char *b, float *y, const bool with_m) {
    float d = widen_half(b), m = with_m ? widen_half(b + 2) : 0;
    const unsigned char *h = b + (with_m ? 4 : 2);
    int32_t high;
    memcpy(&high, h, 4);
    __m128i q = widen_load(h + 4), less = _mm_set1_epi8(with_m ? 0 : 16), bits = _mm_set1_epi64x((int64_t)0x8040201008040201);
    __m128i all = _mm_cvtsi32_si128(high);
    __m128i lo = _mm_shuffle_epi8(all, _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
    __m128i hi = _mm_shuffle_epi8(all, _mm_setr_epi8(2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
    widen_put(y, _mm_sub_epi8(_mm_or_si128(widen_low(q), widen_fifth(lo, bits)), less), d, m, with_m);
    widen_put(y + 16, _mm_sub_epi8(_mm_or_si128(widen_high(q), widen_fifth(hi, bits)), less), d, m, with_m);
}

INLINE void widen_block_45k(const unsigned char *b, float *y, const bool five) {
    float d = widen_half(b), dmin = widen_half(b + 2);
    const unsigned char *s = b + 4, *high = b + 16, *q = five ? b + 48 : b + 16;
    for (int j = 0; j < 8; j++, y += 32) {
        int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        int min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
        float ds = d * (float)scale, ms = dmin * (float)min;
        for (size_t half = 0; half < 32; half += 16) {
            __m128i v = widen_load(q + j / 2 * 32 + half);
            v = j % 2 ? widen_high(v) : widen_low(v);
            if (five) v = _mm_or_si128(v, widen_fifth(widen_load(high + half), _mm_set1_epi8((char)(1 << j))));
            widen_put(y + half, v, ds, -ms, true);
        }
    }
}

INLINE void widen_block_6k(const unsigned char *b, float *y) {
    float d = widen_half(b + 208);
    for (int half = 0; half < 2; half++, y += 128)
        for (int j = 0; j < 4; j++)
            for (int part = 0; part < 2; part++) {
                __m128i low = widen_load(b + 64 * half + 32 * (j % 2) + 16 * part);
                __m128i high = _mm_srli_epi16(widen_load(b + 128 + 32 * half + 16 * part), 2 * j);
                high = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4);
                __m128i v = _mm_or_si128(j < 2 ? widen_low(low) : widen_high(low), high);
                float sc = (float)(signed char)b[192 + 8 * half + 2 * j + part];
                widen_put(y + 32 * j + 16 * part, _mm_sub_epi8(v, _mm_set1_epi8(32)), d * sc, 0, false);
            }
}

static void vec_widen(kmat_type t, const void *src, size_t n, float *dst) {
    const unsigned char *b = src;
    const size_t elems = kmat_block_elems(t), bytes = kmat_block_bytes(t);
    switch (t) {
#define BLOCKS(call) \
    for (; n >= elems; n -= elems, b += bytes, dst += elems) call; \
    break
    case KMAT_BF16:
#if defined(__AVX512F__)
        for (; n >= 16; n -= 16, b += 32, dst += 16) {
            __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)b));
            _mm512_storeu_ps(dst, _mm512_castsi512_ps(_mm512_slli_epi32(u, 16)));
        }
#endif
        for (; n >= 8; n -= 8, b += 16, dst += 8) {
            __m256i u = _mm256_cvtepu16_epi32(widen_load(b));
            _mm256_storeu_ps(dst, _mm256_castsi256_ps(_mm256_slli_epi32(u, 16)));
        }
        break;
    case KMAT_F16:
        for (; n >= 8; n -= 8, b += 16, dst += 8) _mm256_storeu_ps(dst, _mm256_cvtph_ps(widen_load(b)));
        break;
    case KMAT_Q4_0: BLOCKS(widen_block_4(b, dst, false));
    case KMAT_Q4_1: BLOCKS(widen_block_4(b, dst, true));
    case KMAT_Q5_0: BLOCKS(widen_block_5(b, dst, false));
    case KMAT_Q5_1: BLOCKS(widen_block_5(b, dst, true));
    case KMAT_Q4_K: BLOCKS(widen_block_45k(b, dst, false));
    case KMAT_Q5_K: BLOCKS(widen_block_45k(b, dst, true));
    case KMAT_Q6_K: BLOCKS(widen_block_6k(b, dst));
    case KMAT_Q8_0:
        for (; n >= elems; n -= elems, b += bytes, dst += elems) {
            float d = widen_half(b);
            widen_put(dst, widen_load(b + 2), d, 0, false);
            widen_put(dst + 16, widen_load(b + 18), d, 0, false);
        }
        break;
#undef BLOCKS
    default: break;
    }
    kmat_widen(t, b, n, dst);
}

#endif
