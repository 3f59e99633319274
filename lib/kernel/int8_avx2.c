/* int8_avx2.c: int8 products without VNNI. maddubs takes unsigned by signed bytes and adds pairs in 16 bits:
 * |w| (at most 128, as unsigned) by the activation (within 127) with the weight's sign is at most
 * 2 * 128 * 127 = 32512, so that it cannot saturate. */
#include "kernel/internal.h"

#if defined(__x86_64__)
#include "kernel/int8_x86.h"

enum { ROWS = 4 };

/* 16 columns for all blocks. */
INLINE void tile_int8(const size_t rows, const int8_t *x, const float *scale, size_t blocks, const int8_block *w, size_t col,
                      float *c, size_t c_stride) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 sum[ROWS][2];
    UNROLL for (size_t r = 0; r < rows; r++) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    for (size_t b = 0; b < blocks; b++) {
        __m256i acc[ROWS][2];
        UNROLL for (size_t r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
        for (size_t k = 0; k < QBLOCK / 4; k++) {
            UNROLL for (size_t v = 0; v < 2; v++) {
                __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)w[b].q[k][col + v * 8]);
                __m256i size = _mm256_abs_epi8(q);
                UNROLL for (size_t r = 0; r < rows; r++) {
                    int32_t four;
                    memcpy(&four, x + (r * blocks + b) * QBLOCK + k * 4, 4);
                    __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(_mm256_set1_epi32(four), q));
                    acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        UNROLL for (size_t r = 0; r < rows; r++) {
            UNROLL for (size_t v = 0; v < 2; v++) {
                __m256 s = _mm256_mul_ps(_mm256_set1_ps(scale[r * blocks + b]), _mm256_loadu_ps(w[b].scale + col + v * 8));
                sum[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc[r][v]), s, sum[r][v]);
            }
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < 2; v++) _mm256_storeu_ps(c + r * c_stride + col + v * 8, sum[r][v]);
    }
}

void int8_mul_avx2(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c,
                   size_t c_stride) {
    for (size_t r = 0; r < m;) {
        size_t rows = m - r < ROWS ? m - r : ROWS;
        const int8_t *q = x + r * blocks * QBLOCK;
        const float *s = x_scale + r * blocks;
        for (size_t col = 0; col < PANEL; col += 16) switch (rows) {
            case 4: tile_int8(4, q, s, blocks, w, col, c + r * c_stride, c_stride); break;
            case 3: tile_int8(3, q, s, blocks, w, col, c + r * c_stride, c_stride); break;
            case 2: tile_int8(2, q, s, blocks, w, col, c + r * c_stride, c_stride); break;
            default: tile_int8(1, q, s, blocks, w, col, c + r * c_stride, c_stride);
            }
        r += rows;
    }
}

void int8_quant_avx2(const float *x, size_t n, int8_t *q, float *scale) { quant_blocks(x, n, q, scale, 0); }
#endif
