/* dequant.c: the element types of weight files, widened to float32. The quantised ones are GGUF's blocks:
 * 16-bit floats d (and m or dmin), then packed integers; all little-endian. Each element is computed by the
 * same operations in the same order as the format's own description, with no fused step. */
#include <string.h>

#include "base/mem.h"
#include "kernel/internal.h"

static const struct {
    const char *name;
    uint32_t ggml;
    unsigned short elems, bytes;
} types[KMAT_TYPES] = {
    [KMAT_F32] = {"F32", 0, 1, 4},        [KMAT_F16] = {"F16", 1, 1, 2},        [KMAT_BF16] = {"BF16", 30, 1, 2},
    [KMAT_Q4_0] = {"Q4_0", 2, 32, 18},    [KMAT_Q4_1] = {"Q4_1", 3, 32, 20},    [KMAT_Q5_0] = {"Q5_0", 6, 32, 22},
    [KMAT_Q5_1] = {"Q5_1", 7, 32, 24},    [KMAT_Q8_0] = {"Q8_0", 8, 32, 34},    [KMAT_Q4_K] = {"Q4_K", 12, 256, 144},
    [KMAT_Q5_K] = {"Q5_K", 13, 256, 176}, [KMAT_Q6_K] = {"Q6_K", 14, 256, 210},
};

const char *kmat_type_name(kmat_type t) { return types[t].name; }
size_t kmat_block_elems(kmat_type t) { return types[t].elems; }
size_t kmat_block_bytes(kmat_type t) { return types[t].bytes; }

bool kmat_type_of_ggml(uint32_t ggml_type, kmat_type *out) {
    for (int t = 0; t < KMAT_TYPES; t++)
        if (types[t].ggml == ggml_type) {
            *out = (kmat_type)t;
            return true;
        }
    return false;
}

bool kmat_bytes(kmat_type t, size_t n, size_t *bytes) {
    return n % types[t].elems == 0 && size_mul(n / types[t].elems, types[t].bytes, bytes);
}

static float bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Exact, subnormals, infinities and NaN included. */
static float half_float(const unsigned char *p) {
    uint32_t h = p[0] | (uint32_t)p[1] << 8, sign = (h & 0x8000) << 16, exp = h >> 10 & 31, frac = h & 0x3ff;
    if (exp == 31) return bits_float(sign | 0x7f800000 | (frac ? 0x400000 : 0) | frac << 13); /* NaN is made quiet */
    if (exp > 0) return bits_float(sign | (exp + 112) << 23 | frac << 13);
    float f = (float)frac * 0x1p-24f;
    return sign ? -f : f;
}

static void widen_4(const unsigned char *b, float *y, bool with_min) {
    float d = half_float(b), m = with_min ? half_float(b + 2) : 0;
    const unsigned char *q = b + (with_min ? 4 : 2);
    for (int i = 0; i < 16; i++) {
        int lo = q[i] & 15, hi = q[i] >> 4;
        y[i] = with_min ? d * (float)lo + m : d * (float)(lo - 8);
        y[i + 16] = with_min ? d * (float)hi + m : d * (float)(hi - 8);
    }
}

static void widen_5(const unsigned char *b, float *y, bool with_min) {
    float d = half_float(b), m = with_min ? half_float(b + 2) : 0;
    const unsigned char *h = b + (with_min ? 4 : 2), *q = h + 4;
    uint32_t high = h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24;
    for (int i = 0; i < 16; i++) {
        int lo = (q[i] & 15) | (int)(high >> i & 1) << 4, hi = q[i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
        y[i] = with_min ? d * (float)lo + m : d * (float)(lo - 16);
        y[i + 16] = with_min ? d * (float)hi + m : d * (float)(hi - 16);
    }
}

/* The twelve bytes of Q4_K and Q5_K hold eight scales and eight minima of six bits. */
static void scale_min(const unsigned char *s, int j, int *scale, int *min) {
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

static void widen_45k(const unsigned char *b, float *y, bool five) {
    float d = half_float(b), dmin = half_float(b + 2);
    const unsigned char *scales = b + 4, *high = b + 16, *q = five ? b + 48 : b + 16;
    for (int j = 0; j < 8; j++, y += 32) {
        int sc, mn;
        scale_min(scales, j, &sc, &mn);
        float ds = d * (float)sc, ms = dmin * (float)mn;
        for (int i = 0; i < 32; i++) {
            int v = j % 2 ? q[i] >> 4 : q[i] & 15;
            if (five) v |= (high[i] >> j & 1) << 4;
            y[i] = ds * (float)v - ms;
        }
        if (j % 2) q += 32;
    }
}

static void widen_6k(const unsigned char *b, float *y) {
    const unsigned char *low = b, *high = b + 128;
    float d = half_float(b + 208);
    for (int half = 0; half < 2; half++, low += 64, high += 32, y += 128)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 32; i++) {
                int v = low[i + 32 * (j % 2)];
                v = (j < 2 ? v & 15 : v >> 4) | (high[i] >> (2 * j) & 3) << 4;
                int sc = (signed char)b[192 + 8 * half + 2 * j + i / 16];
                y[32 * j + i] = d * (float)sc * (float)(v - 32);
            }
}

void kmat_widen(kmat_type t, const void *src, size_t n, float *dst) {
    const unsigned char *b = src;
    switch (t) {
    case KMAT_F32: memcpy(dst, src, n * sizeof *dst); return;
    case KMAT_F16:
        for (size_t i = 0; i < n; i++) dst[i] = half_float(b + 2 * i);
        return;
    case KMAT_BF16:
        for (size_t i = 0; i < n; i++) dst[i] = bits_float((uint32_t)b[2 * i] << 16 | (uint32_t)b[2 * i + 1] << 24);
        return;
    default: break;
    }
    size_t elems = types[t].elems, bytes = types[t].bytes;
    for (; n >= elems; n -= elems, b += bytes, dst += elems) switch (t) {
        case KMAT_Q4_0: widen_4(b, dst, false); break;
        case KMAT_Q4_1: widen_4(b, dst, true); break;
        case KMAT_Q5_0: widen_5(b, dst, false); break;
        case KMAT_Q5_1: widen_5(b, dst, true); break;
        case KMAT_Q4_K: widen_45k(b, dst, false); break;
        case KMAT_Q5_K: widen_45k(b, dst, true); break;
        case KMAT_Q6_K: widen_6k(b, dst); break;
        default: {
            float d = half_float(b);
            for (int i = 0; i < 32; i++) dst[i] = d * (float)(signed char)b[2 + i];
        }
        }
}
