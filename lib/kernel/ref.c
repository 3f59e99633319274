/* ref.c: the plain C reference. What it does, in which order and with which roundings, is the definition of
 * every result; the vector variants are tested against it byte by byte. */
#include <math.h>
#include <string.h>

#include "kernel/internal.h"

static void ref_mul_panel(const float *x, size_t m, const float *b, size_t b_stride, size_t k, float *c, size_t c_stride,
                          bool add) {
    for (size_t r = 0; r < m; r++)
        for (size_t n = 0; n < PANEL; n++) {
            float s = 0;
            for (size_t i = 0; i < k; i++) s = fmaf(x[r * XSTRIDE + i], b[i * b_stride + n], s);
            float *y = &c[r * c_stride + n];
            *y = add ? *y + s : s;
        }
}

static void ref_transpose(const float *src, size_t src_stride, size_t k, float *dst) {
    for (size_t n = 0; n < PANEL; n++)
        for (size_t i = 0; i < k; i++) dst[i * PANEL + n] = src[n * src_stride + i];
}

static void ref_mul_int8(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c,
                         size_t c_stride) {
    for (size_t r = 0; r < m; r++)
        for (size_t n = 0; n < PANEL; n++) {
            float sum = 0;
            for (size_t b = 0; b < blocks; b++) {
                const int8_t *q = x + (r * blocks + b) * QBLOCK;
                int32_t s = 0;
                for (int i = 0; i < QBLOCK; i++) s += q[i] * w[b].q[i / 4][n][i % 4];
                sum = fmaf((float)s, x_scale[r * blocks + b] * w[b].scale[n], sum);
            }
            c[r * c_stride + n] = sum;
        }
}

/* The last block may be short; its missing elements are zero. */
static void ref_quant_row(const float *x, size_t n, int8_t *q, float *scale) {
    const float magic = 0x1.8p23f; /* v + magic - magic rounds to an integer, ties to even */
    for (; n > 0; q += QBLOCK, scale++) {
        size_t len = n < QBLOCK ? n : QBLOCK;
        float max = 0;
        for (size_t i = 0; i < len; i++)
            if (fabsf(x[i]) > max) max = fabsf(x[i]);
        memset(q, 0, QBLOCK);
        *scale = 0;
        if (max >= 1e-30f) {
            *scale = max / 127;
            float inv = 127 / max;
            for (size_t i = 0; i < len; i++) {
                float v = x[i] * inv;
                v = v > -127 ? v : -127;
                v = v < 127 ? v : 127;
                q[i] = (int8_t)(v + magic - magic);
            }
        }
        x += len;
        n -= len;
    }
}

/* Sixteen running sums, element i in sum i % 16, folded in halves. */
static float fold16(float *s) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) s[i] = s[i] + s[i + half];
    return s[0];
}

static void ref_rmsnorm(float *y, const float *x, size_t n, const float *w, float eps) {
    float s[16] = {0};
    for (size_t i = 0; i < n; i++) s[i % 16] = fmaf(x[i], x[i], s[i % 16]);
    float r = 1.0f / sqrtf(fold16(s) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * r * w[i];
}

float kernel_expf(float x) {
    if (!(x > -87.0f)) return x == x ? 0.0f : x;
    if (x > 88.0f) x = 88.0f;
    const float magic = 0x1.8p23f;
    float t = fmaf(x, 0x1.715476p0f, magic), n = t - magic;
    float r = fmaf(-n, -0x1.05c61p-29f, fmaf(-n, 0x1.62e43p-1f, x));
    float p = 1.0f / 5040;
    p = fmaf(p, r, 1.0f / 720);
    p = fmaf(p, r, 1.0f / 120);
    p = fmaf(p, r, 1.0f / 24);
    p = fmaf(p, r, 1.0f / 6);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    uint32_t u;
    memcpy(&u, &t, sizeof u);
    u = (u << 23) + 0x3f800000;
    float scale;
    memcpy(&scale, &u, sizeof scale);
    return p * scale;
}

static void ref_swiglu(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] / (1.0f + kernel_expf(-gate[i])) * up[i];
}

static void ref_rope_half(float *x, const float *cos, const float *sin, size_t half) {
    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = fmaf(a, cos[i], -(b * sin[i]));
        x[i + half] = fmaf(b, cos[i], a * sin[i]);
    }
}

static float ref_attn_block(float *s, uint64_t mask, float *max, float *sum) {
    float m = *max;
    for (int i = 0; i < ABLOCK; i++)
        if (mask >> i & 1 && s[i] > m) m = s[i];
    float part[16] = {0};
    for (int i = 0; i < ABLOCK; i++) {
        s[i] = mask >> i & 1 ? kernel_expf(s[i] - m) : 0.0f;
        part[i % 16] = part[i % 16] + s[i];
    }
    float factor = kernel_expf(*max - m);
    *max = m;
    *sum = fmaf(*sum, factor, fold16(part));
    return factor;
}

static void ref_attn_merge(float *o, float factor, const float *pv, size_t n) {
    for (size_t i = 0; i < n; i++) o[i] = fmaf(o[i], factor, pv[i]);
}

const kernel_ops kernel_ops_ref = {
    .isa = KERNEL_REF,
    .mul_panel = ref_mul_panel,
    .transpose = ref_transpose,
    .widen = kmat_widen,
    .mul_int8 = ref_mul_int8,
    .quant_row = ref_quant_row,
    .rmsnorm = ref_rmsnorm,
    .swiglu = ref_swiglu,
    .rope_half = ref_rope_half,
    .attn_block = ref_attn_block,
    .attn_merge = ref_attn_merge,
};
