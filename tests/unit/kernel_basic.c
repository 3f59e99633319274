/* Kernels against sums written plainly in double. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kernel/kernel.h"
#include "test.h"

static uint64_t rng = 1;
static float uniform(void) {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(rng >> 32) * 0x1p-31f;
}

static float *noise(size_t n) {
    float *p = mem_alloc(n, sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = uniform();
    return p;
}

static void test_mul(kernel *kn, size_t m, size_t n_out, size_t n_in) {
    err e = {0};
    float *w = noise(n_out * n_in), *x = noise(m * n_in), *bias = noise(n_out), *y = noise(m * n_out), *y0 = noise(m * n_out);
    memcpy(y0, y, m * n_out * sizeof *y);
    kmat *a = NULL, *panels = NULL, *i8 = NULL;
    CHECK(kmat_open(&a, KMAT_F32, w, n_out * n_in * 4, n_out, n_in, &e) == ST_OK, "open");
    CHECK(kmat_mul(kn, a, y, n_out, x, n_in, m, bias, KMAT_ADD, &e) == ST_OK, "mul");
    double worst = 0, worst8 = 0;
    for (size_t r = 0; r < m; r++)
        for (size_t c = 0; c < n_out; c++) {
            double s = (double)bias[c] + y0[r * n_out + c];
            for (size_t k = 0; k < n_in; k++) s += (double)x[r * n_in + k] * w[c * n_in + k];
            worst = fmax(worst, fabs(s - y[r * n_out + c]));
        }
    CHECK(worst < 1e-4, "%zu x %zu x %zu: largest error %g", m, n_out, n_in, worst);
    CHECK(kmat_pack(kn, &panels, a, KMAT_PANELS, &e) == ST_OK, "pack panels");
    float *y2 = noise(m * n_out);
    memcpy(y2, y0, m * n_out * sizeof *y);
    kmat_mul(kn, panels, y2, n_out, x, n_in, m, bias, KMAT_ADD, &e);
    CHECK(memcmp(y, y2, m * n_out * sizeof *y) == 0, "panels give the same bits as rows");
    CHECK(kmat_pack(kn, &i8, a, KMAT_INT8, &e) == ST_OK, "pack int8");
    memcpy(y2, y0, m * n_out * sizeof *y);
    kmat_mul(kn, i8, y2, n_out, x, n_in, m, bias, KMAT_ADD, &e);
    for (size_t i = 0; i < m * n_out; i++) worst8 = fmax(worst8, fabs((double)y2[i] - y[i]));
    CHECK(worst8 < 0.01 * sqrt((double)n_in) && worst8 > 0, "int8: largest difference %g", worst8);
    kmat_close(a), kmat_close(panels), kmat_close(i8);
    free(w), free(x), free(bias), free(y), free(y0), free(y2);
}

static void test_refusals(kernel *kn) {
    err e = {0};
    kmat *m = NULL;
    static float data[64 * 64];
    CHECK(kmat_open(&m, KMAT_F32, data, 4 * 10 * 9 - 1, 10, 9, &e) == ST_INPUT && !m, "a byte short: %s", e.text);
    CHECK(kmat_open(&m, KMAT_Q4_K, data, 144, 1, 255, &e) == ST_INPUT, "not whole blocks: %s", e.text);
    CHECK(kmat_open(&m, KMAT_F32, data, 0, 0, 9, &e) == ST_INPUT, "no rows: %s", e.text);
    CHECK(kmat_open(&m, KMAT_F32, data, 16, SIZE_MAX / 2, 9, &e) == ST_INPUT, "more than memory: %s", e.text);
    CHECK(kmat_open_packed(&m, KMAT_PANELS, KMAT_F32, data, 33 * 9 * 4, 33, 9, &e) == ST_INPUT, "panels are padded: %s", e.text);
    CHECK(kmat_open_packed(&m, KMAT_PANELS, KMAT_Q8_0, data, 32 * 34, 32, 32, &e) == ST_INPUT, "no panels of blocks: %s", e.text);
    CHECK(kmat_open_packed(&m, KMAT_INT8, KMAT_F32, (char *)data + 1, 1152, 32, 32, &e) == ST_INPUT, "misaligned: %s", e.text);
    CHECK(kmat_open_packed(&m, KMAT_INT8, KMAT_F32, data, 1152, 32, 32, &e) == ST_OK, "and as it should be");
    kmat *again = NULL;
    CHECK(kmat_pack(kn, &again, m, KMAT_PANELS, &e) == ST_INPUT && !again, "packed twice: %s", e.text);
    kmat_close(m);
    kernel *none = NULL;
    kernel_isa isa;
    CHECK(!kernel_isa_parse("sse9", &isa) && kernel_isa_parse("neon", &isa) && isa == KERNEL_NEON, "names of instruction sets");
#if !defined(__aarch64__)
    CHECK(kernel_open(&none, KERNEL_NEON, 1, &e) == ST_REFUSED && !none, "not this processor: %s", e.text);
#endif
    CHECK(kernel_open(&none, KERNEL_AUTO, 5000, &e) == ST_USAGE && !none, "too many threads: %s", e.text);
}

static void test_attn(kernel *kn, size_t heads, size_t kv, size_t d, size_t prefix, size_t n) {
    err e = {0};
    size_t keys = prefix + n, pos0 = prefix;
    float *q = noise(n * heads * d), *k = noise(keys * kv * d), *v = noise(keys * kv * d), *out = noise(n * heads * d);
    float scale = 1 / sqrtf((float)d) * 4;
    kernel_run runs[3] = {{k, v, 0, prefix / 3, kv * d, d},
                          {k + prefix / 3 * kv * d, v + prefix / 3 * kv * d, prefix / 3, prefix - prefix / 3, kv * d, d},
                          {k + prefix * kv * d, v + prefix * kv * d, prefix, n, kv * d, d}};
    kernel_branch br = {.q = q, .out = out, .q_stride = heads * d, .out_stride = heads * d, .n_rows = n, .pos = pos0};
    br.runs = runs;
    br.n_runs = 3;
    CHECK(kernel_attn(kn, &br, 1, heads, kv, d, scale, &e) == ST_OK, "attn");
    double worst = 0, *p = mem_alloc(keys, sizeof *p);
    for (size_t r = 0; r < n; r++)
        for (size_t h = 0; h < heads; h++) {
            size_t g = h / (heads / kv);
            double sum = 0;
            for (size_t i = 0; i <= pos0 + r; i++) {
                double s = 0;
                for (size_t c = 0; c < d; c++) s += (double)q[(r * heads + h) * d + c] * k[(i * kv + g) * d + c];
                sum += p[i] = exp(s * scale);
            }
            for (size_t c = 0; c < d; c++) {
                double o = 0;
                for (size_t i = 0; i <= pos0 + r; i++) o += p[i] / sum * v[(i * kv + g) * d + c];
                worst = fmax(worst, fabs(o - out[(r * heads + h) * d + c]));
            }
        }
    CHECK(worst < 2e-6, "attention %zu/%zu heads of %zu, %zu + %zu: largest error %g", heads, kv, d, prefix, n, worst);
    float *out2 = noise(n * heads * d);
    kernel_run one = {k, v, 0, keys, kv * d, d};
    br.runs = &one, br.n_runs = 1, br.out = out2;
    kernel_attn(kn, &br, 1, heads, kv, d, scale, &e);
    CHECK(memcmp(out, out2, n * heads * d * sizeof *out) == 0, "runs cut elsewhere: the same bits");
    free(p), free(q), free(k), free(v), free(out), free(out2);
}

static void test_rows(kernel *kn) {
    enum { N = 100 };
    float *x = noise(N), *w = noise(N), y[N];
    kernel_rmsnorm(kn, y, N, x, N, 1, N, w, 1e-5f);
    double s = 0, worst = 0;
    for (int i = 0; i < N; i++) s += (double)x[i] * x[i];
    for (int i = 0; i < N; i++) worst = fmax(worst, fabs(y[i] - x[i] / sqrt(s / N + 1e-5) * w[i]));
    CHECK(worst < 1e-6, "rmsnorm: %g", worst);
    float g[N], u[N];
    for (int i = 0; i < N; i++) g[i] = x[i] * 20, u[i] = w[i];
    kernel_swiglu(kn, g, N, u, N, 1, N);
    worst = 0;
    for (int i = 0; i < N; i++) worst = fmax(worst, fabs(g[i] - x[i] * 20. / (1 + exp(-x[i] * 20.)) * w[i]));
    CHECK(worst < 2e-6, "swiglu: %g", worst);
    worst = 0;
    for (int i = 0; i < N; i++) s += exp(x[i]) * (i ? 1 : 0);
    s = 0;
    for (int i = 0; i < N; i++) s += exp(x[i]);
    CHECK(fabs(kernel_logsumexp(x, N) - log(s)) < 1e-15, "logsumexp");
    kernel_softmax(y, x, N);
    CHECK(fabs(y[5] - exp(x[5]) / s) < 1e-8, "softmax");
    free(x), free(w);
}

static double ulps(double got, long double want) {
    int ex;
    (void)frexpl(want, &ex);
    return (double)(fabsl((long double)got - want) / ldexpl(1, ex - 53));
}

static void test_math(void) {
    double we = 0, wl = 0, ws = 0, wf = 0, wp = 0;
    for (int i = 0; i < 200000; i++) {
        double x = (double)uniform() * 700;
        we = fmax(we, ulps(kernel_exp(x), expl(x)));
        double l = kernel_exp((double)uniform() * (i % 2 ? 50 : 0.5));
        if (l != 1) wl = fmax(wl, ulps(kernel_log(l), logl(l)));
        double a = (double)uniform() * (i % 2 ? 1e6 : 10), s, c;
        kernel_sincos(a, &s, &c);
        ws = fmax(ws, (double)fmaxl(fabsl(s - sinl(a)), fabsl(c - cosl(a))));
        float f = uniform() * 87;
        wf = fmax(wf, ulps((double)kernel_expf(f), expl(f)) / 0x1p29);
        double y = (double)uniform();
        wp = fmax(wp, fabs(kernel_pow(1e6, y) / (double)powl(1e6, y) - 1));
    }
    CHECK(we < 1, "exp: %.3f ulp", we);
    CHECK(wl < 1, "log: %.3f ulp", wl);
    CHECK(ws < 2e-16, "sincos: %.3g", ws);
    CHECK(wf < 2, "expf: %.3f ulp", wf);
    CHECK(wp < 1e-14, "pow: %.3g", wp);
    CHECK(kernel_exp(0) == 1 && kernel_exp(-800) == 0 && isinf(kernel_exp(800)) && kernel_log(1) == 0, "exp and log at ends");
    CHECK(kernel_expf(0) == 1 && kernel_expf(-INFINITY) == 0 && kernel_expf(-100) == 0, "expf at ends");
    CHECK(isinf(kernel_log(0)) && isnan(kernel_log(-1)) && isnan(kernel_exp(NAN)), "exp and log outside");
    CHECK(ulps(kernel_log(0x1p-1074), logl(0x1p-1074L)) < 1 && fabs(kernel_exp(-745) - exp(-745)) <= 5e-324, "subnormals");
}

int main(void) {
    err e = {0};
    kernel *kn = NULL;
    CHECK(kernel_open(&kn, KERNEL_AUTO, 2, &e) == ST_OK, "open: %s", kernel_isa_name(kernel_used_isa(kn)));
    test_mul(kn, 1, 33, 31);
    test_mul(kn, 17, 100, 300);
    test_mul(kn, 40, 65, 513);
    test_attn(kn, 6, 2, 64, 100, 30);
    test_attn(kn, 4, 1, 40, 3, 70);
    test_attn(kn, 3, 3, 300, 64, 10);
    test_rows(kn);
    test_math();
    test_refusals(kn);
    kernel_close(kn);
    return test_end();
}
