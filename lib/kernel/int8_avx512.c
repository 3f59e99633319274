/* int8_avx512.c: int8 products with VNNI. The instruction takes unsigned by signed bytes and does not
 * saturate: activations are stored as q + 128, and 128 times the sum of the weights is taken off again,
 * as the value that each integer sum starts from. */
#include "kernel/internal.h"

#if defined(__x86_64__)
#include "kernel/int8_x86.h"

enum { SLICE = 32, ROWS = 7 }; /* blocks whose corrections are kept at hand; rows of a tile */

typedef struct corrections {
    __m512i at[SLICE][2];
} corrections;

/* Continues the sums in c (from zero when first) by n blocks. */
INLINE void tile_int8(const size_t rows, const int8_t *x, size_t x_stride, const float *scale, size_t scale_stride,
                      size_t n, const int8_block *w, const corrections *fix, float *c, size_t c_stride, bool first) {
    __m512 sum[ROWS][2];
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < 2; v++)
            sum[r][v] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + r * c_stride + v * 16);
    }
    for (size_t b = 0; b < n; b++) {
        __m512i acc[ROWS][2];
        UNROLL for (size_t r = 0; r < rows; r++) {
            acc[r][0] = fix->at[b][0];
            acc[r][1] = fix->at[b][1];
        }
        UNROLL for (size_t k = 0; k < QBLOCK / 4; k++) {
            __m512i w0 = _mm512_loadu_si512(w[b].q[k][0]), w1 = _mm512_loadu_si512(w[b].q[k][16]);
            UNROLL for (size_t r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, x + r * x_stride + b * QBLOCK + k * 4, 4);
                __m512i a = _mm512_set1_epi32(four);
                acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], a, w0);
                acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], a, w1);
            }
        }
        __m512 s0 = _mm512_loadu_ps(w[b].scale), s1 = _mm512_loadu_ps(w[b].scale + 16);
        UNROLL for (size_t r = 0; r < rows; r++) {
            __m512 s = _mm512_set1_ps(scale[r * scale_stride + b]);
            sum[r][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][0]), _mm512_mul_ps(s, s0), sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][1]), _mm512_mul_ps(s, s1), sum[r][1]);
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < 2; v++) _mm512_storeu_ps(c + r * c_stride + v * 16, sum[r][v]);
    }
}

void int8_mul_avx512(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c,
                     size_t c_stride) {
    const __m512i all128 = _mm512_set1_epi8((char)0x80);
    corrections fix;
    for (size_t b0 = 0; b0 < blocks; b0 += SLICE) {
        size_t n = blocks - b0 < SLICE ? blocks - b0 : SLICE;
        for (size_t b = 0; b < n; b++)
            for (size_t v = 0; v < 2; v++) {
                __m512i s = _mm512_setzero_si512();
                for (size_t k = 0; k < QBLOCK / 4; k++)
                    s = _mm512_dpbusd_epi32(s, all128, _mm512_loadu_si512(w[b0 + b].q[k][v * 16]));
                fix.at[b][v] = _mm512_sub_epi32(_mm512_setzero_si512(), s);
            }
        for (size_t r = 0; r < m;) {
            size_t rows = m - r < ROWS ? m - r : ROWS;
            const int8_t *q = x + (r * blocks + b0) * QBLOCK;
            const float *s = x_scale + r * blocks + b0;
            float *y = c + r * c_stride;
            switch (rows) {
#define ROWS_CASE(R) \
    case R: tile_int8(R, q, blocks * QBLOCK, s, blocks, n, w + b0, &fix, y, c_stride, b0 == 0); break;
                ROWS_CASE(7)
                ROWS_CASE(6)
                ROWS_CASE(5)
                ROWS_CASE(4)
                ROWS_CASE(3)
                ROWS_CASE(2)
            default: tile_int8(1, q, blocks * QBLOCK, s, blocks, n, w + b0, &fix, y, c_stride, b0 == 0);
#undef ROWS_CASE
            }
            r += rows;
        }
    }
}

void int8_quant_avx512(const float *x, size_t n, int8_t *q, float *scale) { quant_blocks(x, n, q, scale, 0x80); }
#endif
