#include "model/rope.h"

#include "kernel/kernel.h"

#define PI 3.14159265358979323846

/* Llama 3.1: long wavelengths are stretched by the factor, short ones kept, those between blended. */
static double llama3(const model_config *c, double f) {
    double wave = 2 * PI / f, low = c->rope_original / c->rope_low, high = c->rope_original / c->rope_high;
    if (wave < high) return f;
    if (wave > low) return f / c->rope_factor;
    double smooth = (c->rope_original / wave - c->rope_low) / (c->rope_high - c->rope_low);
    return (1 - smooth) * f / c->rope_factor + smooth * f;
}

static double yarn_dim(const model_config *c, double rotations) {
    return (double)c->head_dim * kernel_log(c->rope_original / (rotations * 2 * PI)) / (2 * kernel_log(c->rope_theta));
}

static double floor_of(double x) {
    double t = (double)(long long)x;
    return t > x ? t - 1 : t;
}

static double between(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* YaRN (Peng et al. 2023), section 3.2: a ramp over the dimensions between interpolation and none. */
static double yarn(const model_config *c, double f, size_t i) {
    double low = yarn_dim(c, c->rope_fast), high = yarn_dim(c, c->rope_slow);
    if (c->rope_truncate) {
        low = floor_of(low);
        high = -floor_of(-high);
    }
    if (low < 0) low = 0;
    if (high > (double)c->head_dim - 1) high = (double)c->head_dim - 1;
    if (low == high) high += 0.001;
    double ramp = between(((double)i - low) / (high - low), 0, 1);
    return f / c->rope_factor * ramp + f * (1 - ramp);
}

void rope_frequencies(const model_config *c, const float *factors, float *inv_freq, float *scale) {
    size_t half = c->head_dim / 2;
    kernel_rope_freqs(inv_freq, half, c->rope_theta);
    *scale = 1;
    for (size_t i = 0; i < half; i++) {
        double f = (double)inv_freq[i];
        if (factors) f /= (double)factors[i];
        if (c->rope == ROPE_LINEAR) f /= c->rope_factor;
        if (c->rope == ROPE_LLAMA3) f = llama3(c, f);
        if (c->rope == ROPE_YARN) f = yarn(c, f, i);
        inv_freq[i] = (float)f;
    }
    if (c->rope == ROPE_YARN) *scale = (float)(c->rope_attention > 0 ? c->rope_attention : 0.1 * kernel_log(c->rope_factor) + 1);
}
