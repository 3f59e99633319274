/* vec_ops.h: the vector variants of ref.c, for the vectors of vec.h; each *_avx2.c, *_avx512.c and *_neon.c
 * includes it once. Lanes run across outputs or across the sixteen running sums of the reference, so each
 * float sees the operations of ref.c in its order. */
#ifndef ANYJEV_KERNEL_VEC_OPS_H
#define ANYJEV_KERNEL_VEC_OPS_H

#include <math.h>
#include <string.h>

#include "kernel/internal.h"
#include "kernel/vec.h"

/* rows by TILE_VECS accumulators; rows is a constant where it is inlined. */
INLINE void tile(const size_t rows, const float *x, const float *b, size_t b_stride, size_t k, float *c, size_t c_stride,
                 bool add) {
    vec acc[TILE_ROWS][TILE_VECS];
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < TILE_VECS; v++) acc[r][v] = v_all(0);
    }
    for (; k > 0; k--, x++, b += b_stride) {
        vec w[TILE_VECS];
        UNROLL for (size_t v = 0; v < TILE_VECS; v++) __builtin_prefetch(b + 12 * b_stride + v * VL);
        UNROLL for (size_t v = 0; v < TILE_VECS; v++) w[v] = v_load(b + v * VL);
        UNROLL for (size_t r = 0; r < rows; r++) {
            vec a = v_all(x[r * XSTRIDE]);
            UNROLL for (size_t v = 0; v < TILE_VECS; v++) acc[r][v] = v_fma(a, w[v], acc[r][v]);
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < TILE_VECS; v++) {
            float *y = c + r * c_stride + v * VL;
            v_store(y, add ? v_add(v_load(y), acc[r][v]) : acc[r][v]);
        }
    }
}

static void vec_mul_panel(const float *x, size_t m, const float *b, size_t b_stride, size_t k, float *c, size_t c_stride,
                          bool add) {
    for (size_t r = 0; r < m;) {
        size_t rows = m - r < TILE_ROWS ? m - r : TILE_ROWS;
        for (size_t n = 0; n < PANEL; n += TILE_VECS * VL) {
            const float *xr = x + r * XSTRIDE, *bn = b + n;
            float *y = c + r * c_stride + n;
            switch (rows) {
#define ROWS_CASE(R) \
    case R: tile(R, xr, bn, b_stride, k, y, c_stride, add); break;
#if defined(__AVX512F__)
                ROWS_CASE(14)
                ROWS_CASE(13)
                ROWS_CASE(12)
                ROWS_CASE(11)
                ROWS_CASE(10)
                ROWS_CASE(9)
                ROWS_CASE(8)
                ROWS_CASE(7)
#endif
                ROWS_CASE(6)
                ROWS_CASE(5)
                ROWS_CASE(4)
                ROWS_CASE(3)
                ROWS_CASE(2)
            default: tile(1, xr, bn, b_stride, k, y, c_stride, add);
#undef ROWS_CASE
            }
        }
        r += rows;
    }
}

INLINE vec vec_exp(vec x0) {
    const vec magic = v_all(0x1.8p23f);
    vec x = v_min(x0, v_all(88.0f));
    vec t = v_fma(x, v_all(0x1.715476p0f), magic), n = v_sub(t, magic);
    vec r = v_fma(v_neg(n), v_all(-0x1.05c61p-29f), v_fma(v_neg(n), v_all(0x1.62e43p-1f), x));
    vec p = v_all(1.0f / 5040);
    p = v_fma(p, r, v_all(1.0f / 720));
    p = v_fma(p, r, v_all(1.0f / 120));
    p = v_fma(p, r, v_all(1.0f / 24));
    p = v_fma(p, r, v_all(1.0f / 6));
    p = v_fma(p, r, v_all(0.5f));
    p = v_fma(p, r, v_all(1.0f));
    p = v_fma(p, r, v_all(1.0f));
    p = v_select(v_greater(x0, v_all(-87.0f)), v_mul(p, v_exponent(t)), v_all(0));
    return v_select(v_isnan(x0), x0, p);
}

static void vec_rmsnorm(float *y, const float *x, size_t n, const float *w, float eps) {
    vec s[16 / VL];
    size_t i = 0;
    for (size_t v = 0; v < 16 / VL; v++) s[v] = v_all(0);
    for (; n - i >= 16; i += 16)
        UNROLL for (size_t v = 0; v < 16 / VL; v++) {
            vec a = v_load(x + i + v * VL);
            s[v] = v_fma(a, a, s[v]);
        }
    if (i < n) {
        float tail[16] = {0}; /* the square of 0 changes no sum */
        memcpy(tail, x + i, (n - i) * sizeof *x);
        for (size_t v = 0; v < 16 / VL; v++) s[v] = v_fma(v_load(tail + v * VL), v_load(tail + v * VL), s[v]);
    }
    float r = 1.0f / sqrtf(v_fold16(s) / (float)n + eps);
    for (i = 0; n - i >= VL; i += VL) v_store(y + i, v_mul(v_mul(v_load(x + i), v_all(r)), v_load(w + i)));
    for (; i < n; i++) y[i] = x[i] * r * w[i];
}

static void vec_swiglu(float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; n - i >= VL; i += VL) {
        vec g = v_load(gate + i);
        v_store(gate + i, v_mul(v_div(g, v_add(v_all(1.0f), vec_exp(v_neg(g)))), v_load(up + i)));
    }
    kernel_ops_ref.swiglu(gate + i, up + i, n - i);
}

static void vec_rope_half(float *x, const float *cos, const float *sin, size_t half) {
    size_t i = 0;
    for (; half - i >= VL; i += VL) {
        vec a = v_load(x + i), b = v_load(x + half + i), c = v_load(cos + i), s = v_load(sin + i);
        v_store(x + i, v_fma(a, c, v_neg(v_mul(b, s))));
        v_store(x + half + i, v_fma(b, c, v_mul(a, s)));
    }
    for (; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = fmaf(a, cos[i], -(b * sin[i]));
        x[i + half] = fmaf(b, cos[i], a * sin[i]);
    }
}

static float vec_attn_block(float *s, uint64_t mask, float *max, float *sum) {
    vec top = v_all(*max), part[16 / VL], none = v_all(-INFINITY);
    for (size_t i = 0; i < ABLOCK; i += VL) top = v_max(v_select(v_bits(mask >> i), v_load(s + i), none), top);
    const float m = v_top(top);
    for (size_t v = 0; v < 16 / VL; v++) part[v] = v_all(0);
    for (size_t i = 0; i < ABLOCK; i += 16)
        UNROLL for (size_t v = 0; v < 16 / VL; v++) {
            vec p = vec_exp(v_sub(v_load(s + i + v * VL), v_all(m)));
            p = v_select(v_bits(mask >> (i + v * VL)), p, v_all(0));
            v_store(s + i + v * VL, p);
            part[v] = v_add(part[v], p);
        }
    float factor = kernel_expf(*max - m);
    *max = m;
    *sum = fmaf(*sum, factor, v_fold16(part));
    return factor;
}

static void vec_attn_merge(float *o, float factor, const float *pv, size_t n) {
    size_t i = 0;
    for (; n - i >= VL; i += VL) v_store(o + i, v_fma(v_load(o + i), v_all(factor), v_load(pv + i)));
    kernel_ops_ref.attn_merge(o + i, factor, pv + i, n - i);
}

#endif
