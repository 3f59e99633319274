/* math.c: exponentials, logarithms and sines of the library's own, so that their bits do not come from
 * whichever libm is there. Every fma is written; everything else is rounded once per operation. The
 * polynomials are Taylor series cut where the next term is under the rounding. */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"

static double bits_double(uint64_t u) {
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static uint64_t double_bits(double d) {
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

#define LN2_HI 0x1.62e42fefa39efp-1
#define LN2_LO 0x1.abc9e3b39803fp-56
#define ROUND_MAGIC 0x1.8p52 /* x + this - this = x rounded to an integer, to even */

double kernel_exp(double x) {
    static const double c[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                               1.0 / 40320,      1.0 / 5040,      1.0 / 720,      1.0 / 120,     1.0 / 24,
                               1.0 / 6,          0.5};
    if (x != x) return x;
    if (x > 709.78) return INFINITY;
    if (x < -745.2) return 0;
    double n = x * 0x1.71547652b82fep0 + ROUND_MAGIC - ROUND_MAGIC;
    double r = fma(-n, LN2_LO, fma(-n, LN2_HI, x));
    double p = c[0];
    for (size_t i = 1; i < sizeof c / sizeof *c; i++) p = fma(p, r, c[i]);
    p = fma(p * r, r, r) + 1.0;
    int k = (int)n;
    int half = k / 2; /* two steps, so that results near the ends of the range stay right */
    return p * bits_double((uint64_t)(half + 1023) << 52) * bits_double((uint64_t)(k - half + 1023) << 52);
}

double kernel_log(double x) {
    if (x != x || x < 0) return NAN;
    if (x == 0) return -INFINITY;
    if (x == INFINITY) return x;
    int e = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        e = -54;
    }
    uint64_t u = double_bits(x);
    e += (int)(u >> 52) - 1023;
    double m = bits_double((u & 0xfffffffffffff) | 0x3ff0000000000000);
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        e++;
    }
    /* log(1+f) = f - f^2/2 + s (f^2/2 + R), s = f/(2+f), R = 2 s^2 (1/3 + s^2/5 + ...) */
    double f = m - 1, s = f / (2 + f), z = s * s, p = 2.0 / 23;
    for (int i = 21; i >= 3; i -= 2) p = fma(p, z, 2.0 / i);
    double h = 0.5 * f * f, d = e;
    return fma(d, LN2_HI, -((h - fma(s, fma(p, z, h), d * LN2_LO)) - f));
}

double kernel_pow(double x, double y) { return kernel_exp(y * kernel_log(x)); }

void kernel_sincos(double x, double *sine, double *cosine) {
    double n = x * 0x1.45f306dc9c883p-1 + ROUND_MAGIC - ROUND_MAGIC;
    double r = fma(-n, 0x1.1a62633145c07p-54, fma(-n, 0x1.921fb54442d18p0, x));
    double z = r * r;
    double ps = 1.0 / 355687428096000, pc = 1.0 / 20922789888000;
    ps = fma(-ps, z, 1.0 / 1307674368000);
    ps = fma(-ps, z, 1.0 / 6227020800);
    ps = fma(-ps, z, 1.0 / 39916800);
    ps = fma(-ps, z, 1.0 / 362880);
    ps = fma(-ps, z, 1.0 / 5040);
    ps = fma(-ps, z, 1.0 / 120);
    ps = fma(-ps, z, 1.0 / 6);
    double s = fma(-ps * z, r, r);
    pc = fma(-pc, z, 1.0 / 87178291200);
    pc = fma(-pc, z, 1.0 / 479001600);
    pc = fma(-pc, z, 1.0 / 3628800);
    pc = fma(-pc, z, 1.0 / 40320);
    pc = fma(-pc, z, 1.0 / 720);
    pc = fma(-pc, z, 1.0 / 24);
    double c = fma(pc * z, z, fma(-0.5, z, 1.0));
    switch ((long long)n & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
    }
}

void kernel_rope_freqs(float *inv_freq, size_t half, double theta) {
    for (size_t i = 0; i < half; i++) {
        float e = (float)(2 * i) / (float)(2 * half);
        inv_freq[i] = 1.0f / (float)kernel_pow(theta, e);
    }
}

void kernel_rope_table(float *cos, float *sin, const uint32_t *pos, size_t n, const float *inv_freq, size_t half,
                       float scale) {
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < half; i++) {
            float angle = (float)pos[r] * inv_freq[i];
            double s, c;
            kernel_sincos(angle, &s, &c);
            cos[r * half + i] = (float)c * scale;
            sin[r * half + i] = (float)s * scale;
        }
}

/* Eight running sums, then a fixed tree. */
double kernel_logsumexp(const float *x, size_t n) {
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        if (x[i] > max) max = x[i];
    double s[8] = {0};
    for (size_t i = 0; i < n; i++) s[i % 8] += kernel_exp((double)x[i] - (double)max);
    return (double)max + kernel_log(((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
}

void kernel_softmax(float *p, const float *x, size_t n) {
    double l = kernel_logsumexp(x, n);
    for (size_t i = 0; i < n; i++) p[i] = (float)kernel_exp((double)x[i] - l);
}

size_t kernel_argmax(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

double kernel_dot(const float *a, const float *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s = fma(a[i], b[i], s);
    return s;
}
