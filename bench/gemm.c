/* gemm: our matrix products against OpenBLAS and oneDNN on the shapes of the models, in one run, contestants in
 * alternation; medians. JSON lines on stdout, the table of ratios on stderr. Usage: gemm [ROUNDS [THREADS]].
 * With one thread the clock is that thread's own processor time, so that a busy machine disturbs less.
 * The libraries are opened at run time, so that nothing else of the project can come to need them. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "kernel/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef void sgemm_fn(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                      const int *, const float *, const int *, const float *, float *, const int *);
typedef int dnnl_sgemm_fn(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                          float, float *, int64_t);
typedef int dnnl_u8s8_fn(char, char, char, int64_t, int64_t, int64_t, float, const uint8_t *, int64_t, uint8_t,
                         const int8_t *, int64_t, int8_t, float, int32_t *, int64_t, const int32_t *);

static kernel *kn;

static double now(void) {
    struct timespec t;
    clock_gettime(kernel_threads(kn) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *library(const char *file, const char *symbol) {
    void *so = dlopen(file, RTLD_NOW | RTLD_LOCAL), *f = so ? dlsym(so, symbol) : NULL;
    if (!f) fprintf(stderr, "gemm: %s of %s is not here; its columns stay empty\n", symbol, file);
    return f;
}

/* Independent chains of fused multiply-adds: what the processor can do at most. */
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void peak_f32(void *arg, size_t b, size_t e, unsigned w) {
    __m512 a[14], x = _mm512_set1_ps(1e-9f);
    UNROLL for (int i = 0; i < 14; i++) a[i] = _mm512_set1_ps((float)i);
    for (size_t n = 0; n < 1000000; n++)
        UNROLL for (int i = 0; i < 14; i++) a[i] = _mm512_fmadd_ps(x, x, a[i]);
    UNROLL for (int i = 1; i < 14; i++) a[0] = _mm512_add_ps(a[0], a[i]);
    ((volatile float *)arg)[w] = _mm512_cvtss_f32(a[0]);
    (void)b, (void)e;
}
__attribute__((target("avx512f,avx512vnni"))) static void peak_i8(void *arg, size_t b, size_t e, unsigned w) {
    __m512i a[14], x = _mm512_set1_epi32(0x01020304);
    UNROLL for (int i = 0; i < 14; i++) a[i] = _mm512_set1_epi32(i);
    for (size_t n = 0; n < 1000000; n++)
        UNROLL for (int i = 0; i < 14; i++) a[i] = _mm512_dpbusd_epi32(a[i], x, x);
    UNROLL for (int i = 1; i < 14; i++) a[0] = _mm512_add_epi32(a[0], a[i]);
    ((volatile float *)arg)[w] = (float)_mm_cvtsi128_si32(_mm512_castsi512_si128(a[0]));
    (void)b, (void)e;
}
static double peak(bool int8) {
    float out[1024];
    double best = 0;
    for (int i = 0; i < 7; i++) {
        double t = now();
        kernel_for(kn, kernel_threads(kn), 1, int8 ? peak_i8 : peak_f32, out);
        double rate = kernel_threads(kn) * 14e6 * 16 * (int8 ? 8 : 2) / (now() - t) / 1e9;
        if (rate > best) best = rate;
    }
    return best;
}
#else
static double peak(bool int8) { return (void)int8, 0; }
#endif

static float *noise(size_t n) {
    float *p = mem_aligned(n, sizeof *p);
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) s = s * 1664525 + 1013904223, p[i] = (float)(int32_t)s * 0x1p-31f;
    return p;
}

enum { OURS_F32, OURS_BF16, OURS_ROWS, OURS_Q8, OURS_INT8, OPENBLAS, ONEDNN, ONEDNN_U8, SIDES };
static const char *const side_names[SIDES] = {"f32 panels", "bf16 panels", "bf16 rows", "q8_0 rows", "int8", "openblas", "onednn", "onednn u8s8"};

typedef struct shape {
    size_t n, k;
} shape;

typedef struct layer {
    float *w;
    int8_t *w8;
    kmat *mats[5], *raw[3];
} layer;

static sgemm_fn *blas;
static dnnl_sgemm_fn *dnnl;
static dnnl_u8s8_fn *dnnl8;

static void check(status st, const err *e) {
    if (st != ST_OK) exit(err_report(stderr, "gemm", e));
}

static void layer_open(layer *l, shape s) {
    err e = {0};
    size_t n = s.n * s.k;
    l->w = noise(n);
    uint16_t *bf = mem_alloc(n, 2);
    unsigned char *q8 = mem_zero(n / 32, 34);
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &l->w[i], 4);
        bf[i] = (uint16_t)(u >> 16);
        q8[i / 32 * 34 + 2 + i % 32] = (unsigned char)u;
        q8[i / 32 * 34 + 1] = 0x18;
    }
    l->w8 = mem_alloc(n, 1);
    for (size_t i = 0; i < n; i++) l->w8[i] = (int8_t)(l->w[i] * 127);
    check(kmat_open(&l->raw[0], KMAT_F32, l->w, n * 4, s.n, s.k, &e), &e);
    check(kmat_open(&l->raw[1], KMAT_BF16, bf, n * 2, s.n, s.k, &e), &e);
    check(kmat_open(&l->raw[2], KMAT_Q8_0, q8, n / 32 * 34, s.n, s.k, &e), &e);
    check(kmat_pack(kn, &l->mats[OURS_F32], l->raw[0], KMAT_PANELS, &e), &e);
    check(kmat_pack(kn, &l->mats[OURS_BF16], l->raw[1], KMAT_PANELS, &e), &e);
    l->mats[OURS_ROWS] = l->raw[1];
    l->mats[OURS_Q8] = l->raw[2];
    check(kmat_pack(kn, &l->mats[OURS_INT8], l->raw[0], KMAT_INT8, &e), &e);
}

static void run_side(int side, const layer *l, shape s, size_t m, const float *x, const uint8_t *x8, float *y) {
    err e = {0};
    int in = (int)s.n, im = (int)m, ik = (int)s.k;
    float one = 1, zero = 0;
    int32_t offset = 0;
    switch (side) {
    case OPENBLAS: blas("T", "N", &in, &im, &ik, &one, l->w, &ik, x, &ik, &zero, y, &in); break;
    case ONEDNN: dnnl('N', 'T', im, in, ik, 1, x, ik, l->w, ik, 0, y, in); break;
    case ONEDNN_U8: dnnl8('N', 'T', 'F', im, in, ik, 1, x8, ik, 0, l->w8, ik, 0, 0, (int32_t *)(void *)y, in, &offset); break;
    default: check(kmat_mul(kn, l->mats[side], y, s.n, x, s.k, m, NULL, KMAT_SET, &e), &e);
    }
}

/* The root mean square error against sums in double, of the first rows and columns. */
static double error_of(int side, const layer *l, shape s, const float *x, float *y) {
    enum { M = 16, N = 64 };
    double sum = 0;
    run_side(side, l, s, M, x, NULL, y);
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            double want = 0;
            for (size_t k = 0; k < s.k; k++) want += (double)x[m * s.k + k] * l->w[n * s.k + k];
            sum += (want - y[m * s.n + n]) * (want - y[m * s.n + n]) / (M * N);
        }
    return sqrt(sum);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 15;
    const char *threads = argc > 2 ? argv[2] : "0";
    err e = {0};
    setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
    setenv("OMP_WAIT_POLICY", "passive", 0);
    check(kernel_open(&kn, KERNEL_AUTO, (unsigned)atoi(threads), &e), &e);
    char count[16];
    snprintf(count, sizeof count, "%u", kernel_threads(kn));
    setenv("OPENBLAS_NUM_THREADS", count, 1);
    setenv("OMP_NUM_THREADS", count, 1);
    *(void **)&blas = library("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", "sgemm_");
    *(void **)&dnnl = library("libdnnl.so.2", "dnnl_sgemm");
    *(void **)&dnnl8 = library("libdnnl.so.2", "dnnl_gemm_u8s8s32");
    static const struct {
        const char *name;
        shape s[5];
        size_t n;
    } models[] = {{"Qwen3-0.6B", {{2048, 1024}, {1024, 1024}, {1024, 2048}, {3072, 1024}, {1024, 3072}}, 5},
                  {"SmolLM2-135M", {{576, 576}, {192, 576}, {1536, 576}, {576, 1536}}, 4}};
    static const size_t ms[] = {1, 16, 64, 256, 512};
    double fma = peak(false), vnni = peak(true);
    printf("{\"isa\":\"%s\",\"threads\":%u,\"peak_gflops\":%.1f,\"peak_int8_gops\":%.1f}\n", kernel_isa_name(kernel_used_isa(kn)),
           kernel_threads(kn), fma, vnni);
    fprintf(stderr, "| model | M |");
    for (int s = 0; s < SIDES; s++) fprintf(stderr, " %s |", side_names[s]);
    fprintf(stderr, " f32 / best library | f32 / peak | int8 / onednn |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    double *times = mem_alloc((size_t)rounds, sizeof *times * SIDES);
    float *x = noise(512 * 3072), *y = noise(512 * 3072);
    uint8_t *x8 = mem_zero(512 * 3072, 1);
    for (size_t i = 0; i < 512 * 3072; i++) x8[i] = (uint8_t)(i * 7 % 251);
    for (size_t model = 0; model < 2; model++) {
        layer layers[5];
        for (size_t i = 0; i < models[model].n; i++) layer_open(&layers[i], models[model].s[i]);
        size_t longest = models[model].n - 1;
        printf("{\"model\":\"%s\",\"k\":%zu,\"rms_error_ours\":%.3g,\"rms_error_openblas\":%.3g,\"rms_error_onednn\":%.3g}\n", models[model].name,
               models[model].s[longest].k, error_of(OURS_F32, &layers[longest], models[model].s[longest], x, y),
               blas ? error_of(OPENBLAS, &layers[longest], models[model].s[longest], x, y) : 0,
               dnnl ? error_of(ONEDNN, &layers[longest], models[model].s[longest], x, y) : 0);
        for (size_t mi = 0; mi < sizeof ms / sizeof *ms; mi++) {
            double ops = 0, rate[SIDES] = {0};
            for (size_t i = 0; i < models[model].n; i++)
                ops += 2.0 * (double)(ms[mi] * models[model].s[i].n * models[model].s[i].k);
            for (int round = -1; round < rounds; round++)
                for (int side = 0; side < SIDES; side++) {
                    if ((side == OPENBLAS && !blas) || (side == ONEDNN && !dnnl) || (side == ONEDNN_U8 && !dnnl8)) continue;
                    double t = now();
                    for (size_t i = 0; i < models[model].n; i++)
                        run_side(side, &layers[i], models[model].s[i], ms[mi], x, x8, y);
                    if (round >= 0) times[side * rounds + round] = now() - t;
                }
            fprintf(stderr, "| %s | %zu |", models[model].name, ms[mi]);
            printf("{\"model\":\"%s\",\"m\":%zu", models[model].name, ms[mi]);
            for (int side = 0; side < SIDES; side++) {
                qsort(times + side * rounds, (size_t)rounds, sizeof *times, by_size);
                bool there = !((side == OPENBLAS && !blas) || (side == ONEDNN && !dnnl) || (side == ONEDNN_U8 && !dnnl8));
                rate[side] = there ? ops / times[side * rounds + rounds / 2] / 1e9 : 0;
                printf(",\"%s\":[%.1f,%.1f]", side_names[side], rate[side], there ? ops / times[side * rounds] / 1e9 : 0);
                fprintf(stderr, " %.0f |", rate[side]);
            }
            double best = rate[OPENBLAS] > rate[ONEDNN] ? rate[OPENBLAS] : rate[ONEDNN];
            printf("}\n");
            fprintf(stderr, " %.2f | %.2f | %.2f |\n", best > 0 ? rate[OURS_BF16] / best : 0, fma > 0 ? rate[OURS_BF16] / fma : 0,
                    rate[ONEDNN_U8] > 0 ? rate[OURS_INT8] / rate[ONEDNN_U8] : 0);
            fflush(stdout);
        }
    }
    kernel_close(kn);
    return 0;
}
