/* int8_neon.c: int8 products with the dot product instruction where the processor has it (ARMv8.2), with
 * widening products elsewhere; integer sums are exact, so both give the same bytes. */
#include "kernel/internal.h"

#if defined(__aarch64__)
#include <string.h>
#include <sys/auxv.h>

#include "kernel/vec.h"

#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1 << 20)
#endif

/* 16 columns from `col` of up to ROWS rows, for all blocks. */
enum { ROWS = 4 };

/* acc + the products of four columns by four inputs, summed over the inputs. */
INLINE int32x4_t dot_plain(int32x4_t acc, int8x16_t w, int8x16_t x) {
    int16x8_t lo = vmull_s8(vget_low_s8(w), vget_low_s8(x)), hi = vmull_s8(vget_high_s8(w), vget_high_s8(x));
    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(lo), vpaddlq_s16(hi)));
}

/* The instruction by its name, so that no compiler flag is needed for the one file. */
INLINE int32x4_t dot_fast(int32x4_t acc, int8x16_t w, int8x16_t x) {
    __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(w), "w"(x));
    return acc;
}

INLINE void tile_int8(const bool fast, const size_t rows, const int8_t *x, const float *scale, size_t blocks,
                      const int8_block *w, size_t col, float *c, size_t c_stride) {
    float32x4_t sum[ROWS][4];
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < 4; v++) sum[r][v] = vdupq_n_f32(0);
    }
    for (size_t b = 0; b < blocks; b++) {
        int32x4_t acc[ROWS][4];
        UNROLL for (size_t r = 0; r < rows; r++) {
            UNROLL for (size_t v = 0; v < 4; v++) acc[r][v] = vdupq_n_s32(0);
        }
        for (size_t k = 0; k < QBLOCK / 4; k++) {
            int8x16_t q[4];
            UNROLL for (size_t v = 0; v < 4; v++) q[v] = vld1q_s8(w[b].q[k][col + v * 4]);
            UNROLL for (size_t r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, x + (r * blocks + b) * QBLOCK + k * 4, 4);
                int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(four));
                UNROLL for (size_t v = 0; v < 4; v++) acc[r][v] = fast ? dot_fast(acc[r][v], q[v], a) : dot_plain(acc[r][v], q[v], a);
            }
        }
        UNROLL for (size_t r = 0; r < rows; r++) {
            UNROLL for (size_t v = 0; v < 4; v++) {
                float32x4_t s = vmulq_f32(vdupq_n_f32(scale[r * blocks + b]), vld1q_f32(w[b].scale + col + v * 4));
                sum[r][v] = vfmaq_f32(sum[r][v], vcvtq_f32_s32(acc[r][v]), s);
            }
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < 4; v++) vst1q_f32(c + r * c_stride + col + v * 4, sum[r][v]);
    }
}

INLINE void mul_rows(const bool fast, const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w,
                     float *c, size_t c_stride) {
    for (size_t r = 0; r < m;) {
        size_t rows = m - r < ROWS ? m - r : ROWS;
        const int8_t *q = x + r * blocks * QBLOCK;
        const float *s = x_scale + r * blocks;
        for (size_t col = 0; col < PANEL; col += 16) switch (rows) {
            case 4: tile_int8(fast, 4, q, s, blocks, w, col, c + r * c_stride, c_stride); break;
            case 3: tile_int8(fast, 3, q, s, blocks, w, col, c + r * c_stride, c_stride); break;
            case 2: tile_int8(fast, 2, q, s, blocks, w, col, c + r * c_stride, c_stride); break;
            default: tile_int8(fast, 1, q, s, blocks, w, col, c + r * c_stride, c_stride);
            }
        r += rows;
    }
}

static void mul_plain(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c,
                      size_t c_stride) {
    mul_rows(false, x, x_scale, m, blocks, w, c, c_stride);
}

static void mul_fast(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c,
                     size_t c_stride) {
    mul_rows(true, x, x_scale, m, blocks, w, c, c_stride);
}

void int8_mul_neon(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c,
                   size_t c_stride) {
    (getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? mul_fast : mul_plain)(x, x_scale, m, blocks, w, c, c_stride);
}

static void quant_block(const float *x, int8_t *q, float *scale) {
    float32x4_t top = vdupq_n_f32(0);
    for (size_t i = 0; i < QBLOCK; i += 4) top = vmaxnmq_f32(top, vabsq_f32(vld1q_f32(x + i)));
    float max = vmaxvq_f32(top);
    *scale = 0;
    memset(q, 0, QBLOCK);
    if (!(max >= 1e-30f)) return;
    *scale = max / 127;
    float32x4_t inv = vdupq_n_f32(127 / max);
    for (size_t i = 0; i < QBLOCK; i += 8) {
        int32x4_t n[2];
        for (size_t h = 0; h < 2; h++) {
            float32x4_t v = vmaxnmq_f32(vmulq_f32(vld1q_f32(x + i + h * 4), inv), vdupq_n_f32(-127));
            n[h] = vcvtnq_s32_f32(vminnmq_f32(v, vdupq_n_f32(127)));
        }
        vst1_s8(q + i, vmovn_s16(vcombine_s16(vmovn_s32(n[0]), vmovn_s32(n[1]))));
    }
}

void int8_quant_neon(const float *x, size_t n, int8_t *q, float *scale) {
    for (; n >= QBLOCK; n -= QBLOCK, x += QBLOCK, q += QBLOCK, scale++) quant_block(x, q, scale);
    if (n > 0) {
        float tail[QBLOCK] = {0};
        memcpy(tail, x, n * sizeof *x);
        quant_block(tail, q, scale);
    }
}
#endif
