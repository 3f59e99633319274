/* Every instruction set that this CPU has, every number of threads and every batch gives the bytes of the
 * plain C reference. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kernel/internal.h"
#include "test.h"

static uint64_t rng = 1;
static uint32_t noise_bits(void) {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 32);
}

static float uniform(void) { return (float)(int32_t)noise_bits() * 0x1p-31f; }

static float *noise(size_t n) {
    float *p = mem_alloc(n, sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = uniform();
    return p;
}

typedef struct engines {
    kernel *ref, *other[16];
    char name[16][24];
    int n;
} engines;

static void engines_open(engines *g) {
    err e = {0};
    static const unsigned threads[] = {1, 2, 3, 7};
    kernel_open(&g->ref, KERNEL_REF, 1, &e);
    for (int isa = KERNEL_REF; isa <= KERNEL_NEON; isa++)
        for (int t = 0; t < 4; t++)
            if (kernel_isa_supported((kernel_isa)isa) && (isa != KERNEL_REF || t == 2)) {
                kernel_open(&g->other[g->n], (kernel_isa)isa, threads[t], &e);
                snprintf(g->name[g->n], sizeof *g->name, "%s x %u", kernel_isa_name((kernel_isa)isa), threads[t]);
                g->n++;
            }
}

/* Weights of type t: random bytes, but the 16-bit floats in the blocks are small and finite. */
static unsigned char *weights(kmat_type t, size_t n) {
    static const int halves[KMAT_TYPES][2] = {
        [KMAT_Q4_0] = {0, -1}, [KMAT_Q4_1] = {0, 2},  [KMAT_Q5_0] = {0, -1}, [KMAT_Q5_1] = {0, 2},
        [KMAT_Q8_0] = {0, -1}, [KMAT_Q4_K] = {0, 2}, [KMAT_Q5_K] = {0, 2},  [KMAT_Q6_K] = {208, -1}};
    size_t bytes = 0, elems = kmat_block_elems(t), size = kmat_block_bytes(t);
    kmat_bytes(t, n, &bytes);
    unsigned char *p = mem_alloc(bytes + 1, 1);
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)noise_bits();
    for (size_t b = 0; b * elems < n; b++) {
        unsigned char *block = p + b * size;
        if (t == KMAT_F32) {
            float f = uniform();
            memcpy(block, &f, 4);
        } else if (elems == 1) {
            block[1] = (unsigned char)((noise_bits() & 0x80) | (t == KMAT_F16 ? 0x30 : 0x3e) | (block[1] & 3));
        } else {
            for (int i = 0; i < 2; i++)
                if (halves[t][i] >= 0) block[halves[t][i] + 1] = (unsigned char)((noise_bits() & 0x80) | 0x18);
        }
    }
    return p;
}

static void test_mul(const engines *g, kmat_type t, kmat_form form, size_t m, size_t n_out, size_t n_in) {
    err e = {0};
    size_t bytes, stride = n_out + 3, xs = n_in + 5;
    kmat_bytes(t, n_out * n_in, &bytes);
    unsigned char *w = weights(t, n_out * n_in);
    float *x = noise(m * xs), *bias = noise(n_out), *y0 = noise(m * stride);
    float *want = mem_alloc(m * stride, 4), *got = mem_alloc(m * stride, 4);
    kmat *rows = NULL, *mat = NULL;
    int flags = m % 2 ? KMAT_ADD : KMAT_SET;
    const float *b = m % 3 ? bias : NULL;
    kmat_open(&rows, t, w, bytes, n_out, n_in, &e);
    mat = rows;
    if (form != KMAT_ROWS && kmat_pack(g->ref, &mat, rows, form, &e) != ST_OK) abort();
    memcpy(want, y0, m * stride * 4);
    kmat_mul(g->ref, mat, want, stride, x, xs, m, b, flags, &e);
    int bad = 0, alone = 0;
    const char *who = "";
    for (int i = 0; i < g->n; i++) {
        memcpy(got, y0, m * stride * 4);
        kmat_mul(g->other[i], mat, got, stride, x, xs, m, b, flags, &e);
        if (memcmp(want, got, m * stride * 4) != 0) bad++, who = g->name[i];
        memcpy(got, y0, m * stride * 4);
        for (size_t r = 0; r < m; r++)
            kmat_mul(g->other[i], mat, got + r * stride, stride, x + r * xs, xs, 1, b, flags, &e);
        alone += memcmp(want, got, m * stride * 4) != 0;
    }
    double size = 0;
    for (size_t i = 0; i < m * stride; i++) size += fabs(want[i]);
    CHECK(bad == 0 && isfinite(size), "%s form %d, %zu x %zu x %zu: the bytes of the reference %s", kmat_type_name(t), form, m,
          n_out, n_in, who);
    CHECK(alone == 0, "%s form %d: each row alone", kmat_type_name(t), form);
    if (mat != rows) kmat_close(mat);
    kmat_close(rows);
    free(w), free(x), free(bias), free(y0), free(want), free(got);
}

static void test_rows(const engines *g, size_t rows, size_t n) {
    size_t heads = 3;
    float *x = noise(rows * n * heads), *w = noise(n * heads), *up = noise(rows * n * heads);
    size_t bytes = rows * n * heads * sizeof *x, half = n / 2;
    float *a = mem_alloc(bytes, 1), *b = mem_alloc(bytes, 1), *freq = noise(half + 1);
    float *cos = noise(rows * (half + 1)), *sin = noise(rows * (half + 1));
    for (size_t i = 0; i < rows * n * heads; i++) x[i] *= 40;
    int bad[4] = {0};
    for (int i = 0; i < g->n; i++) {
        kernel *k[2] = {g->ref, g->other[i]};
        float *out[2] = {a, b};
        for (int s = 0; s < 2; s++) kernel_rmsnorm(k[s], out[s], n * heads, x, n * heads, rows, n * heads, w, 1e-6f);
        bad[0] += memcmp(a, b, bytes) != 0;
        for (int s = 0; s < 2; s++) kernel_rmsnorm_heads(k[s], out[s], n * heads, rows, heads, n, w, 1e-6f);
        bad[1] += memcmp(a, b, bytes) != 0;
        for (int s = 0; s < 2; s++) memcpy(out[s], x, bytes), kernel_swiglu(k[s], out[s], n * heads, up, n * heads, rows, n * heads);
        bad[2] += memcmp(a, b, bytes) != 0;
        for (int s = 0; s < 2; s++) memcpy(out[s], x, bytes), kernel_rope(k[s], out[s], n * heads, rows, heads, n, cos, sin, half, false);
        bad[3] += memcmp(a, b, bytes) != 0;
    }
    CHECK(bad[0] + bad[1] == 0, "rmsnorm of %zu x %zu", rows, n);
    CHECK(bad[2] == 0, "swiglu of %zu x %zu", rows, n);
    CHECK(bad[3] == 0, "rope of %zu x %zu", rows, n);
    free(x), free(w), free(up), free(a), free(b), free(freq), free(cos), free(sin);
}

static void test_attn(const engines *g, size_t heads, size_t kv, size_t d, size_t prefix, size_t n, size_t window) {
    err e = {0};
    size_t keys = prefix + 2 * n, row = heads * d, kr = kv * d;
    float *q = noise(2 * n * row), *k = noise(keys * kr), *v = noise(keys * kr);
    float *want = noise(2 * n * row), *got = noise(2 * n * row);
    for (size_t i = 0; i < 2 * n * row; i++) q[i] *= 8;
    kernel_run whole[2] = {{k, v, 0, prefix, kr, d}, {k + prefix * kr, v + prefix * kr, prefix, n, kr, d}};
    kernel_run second[2] = {whole[0], {k + (prefix + n) * kr, v + (prefix + n) * kr, prefix, n, kr, d}};
    kernel_branch br[2] = {{q, want, row, row, n, prefix, whole, 2, window}, {q + n * row, want + n * row, row, row, n, prefix, second, 2, window}};
    kernel_attn(g->ref, br, 2, heads, kv, d, 0.3f, &e);
    int bad = 0, cut = 0, alone = 0;
    for (int i = 0; i < g->n; i++) {
        br[0].out = got, br[1].out = got + n * row;
        kernel_attn(g->other[i], br, 2, heads, kv, d, 0.3f, &e);
        bad += memcmp(want, got, 2 * n * row * sizeof *got) != 0;
        /* The first branch row by row, its runs cut elsewhere. */
        kernel_run pieces[3] = {{k, v, 0, prefix / 2, kr, d},
                                {k + prefix / 2 * kr, v + prefix / 2 * kr, prefix / 2, prefix - prefix / 2, kr, d},
                                whole[1]};
        for (size_t r = 0; r < n; r++) {
            kernel_branch one = {q + r * row, got + r * row, row, row, 1, prefix + r, pieces, 3, window};
            kernel_attn(g->other[i], &one, 1, heads, kv, d, 0.3f, &e);
        }
        alone += memcmp(want, got, n * row * sizeof *got) != 0;
    }
    CHECK(bad == 0, "attention %zu/%zu heads of %zu, %zu + %zu, window %zu: the bytes of the reference", heads, kv, d, prefix, n, window);
    CHECK(alone == 0 && cut == 0, "each row alone, runs cut elsewhere");
    free(q), free(k), free(v), free(want), free(got);
}

/* Extremes: saturation would show here. */
static void test_int8_extremes(const engines *g) {
    err e = {0};
    enum { M = 5, N = 40, K = 96 };
    unsigned char w[N * K / 32 * 34];
    float x[M * K], want[M * N], got[M * N];
    for (size_t i = 0; i < sizeof w; i++) w[i] = i % 3 ? 0x80 : 0x7f;
    for (size_t b = 0; b < sizeof w; b += 34) w[b] = 0, w[b + 1] = 0x3c;
    for (int i = 0; i < M * K; i++) x[i] = i % 5 == 4 ? 127 : -127;
    kmat *rows = NULL, *mat = NULL;
    kmat_open(&rows, KMAT_Q8_0, w, sizeof w, N, K, &e);
    kmat_pack(g->ref, &mat, rows, KMAT_INT8, &e);
    float line[K];
    int exact = 0, bad = 0;
    kmat_mul(g->ref, mat, want, N, x, K, M, NULL, KMAT_SET, &e);
    for (int n = 0; n < N; n++) {
        kmat_row(rows, (size_t)n, line);
        for (int m = 0; m < M; m++) {
            double s = 0;
            for (int k = 0; k < K; k++) s += (double)line[k] * x[m * K + k];
            exact += s != want[m * N + n];
        }
    }
    for (int i = 0; i < g->n; i++) {
        kmat_mul(g->other[i], mat, got, N, x, K, M, NULL, KMAT_SET, &e);
        bad += memcmp(want, got, sizeof got) != 0;
    }
    CHECK(exact == 0, "int8 at the ends of its range is exact");
    CHECK(bad == 0, "and nothing saturates");
    kmat_close(mat), kmat_close(rows);
}

/* The negative control: the last fmaf of the chain replaced by a product and a sum, as a careless variant would. */
static void careless_mul_panel(const float *x, size_t m, const float *b, size_t b_stride, size_t k, float *c,
                               size_t c_stride, bool add) {
    kernel_ops_ref.mul_panel(x, m, b, b_stride, k - 1, c, c_stride, add);
    for (size_t r = 0; r < m; r++)
        for (size_t n = 0; n < PANEL; n++) c[r * c_stride + n] += x[r * XSTRIDE + k - 1] * b[(k - 1) * b_stride + n];
}

static void test_control(const engines *g) {
    err e = {0};
    enum { M = 4, N = 40, K = 50 };
    float *w = noise(N * K), *x = noise(M * K), want[M * N], got[M * N];
    kmat *a = NULL;
    kmat_open(&a, KMAT_F32, w, N * K * sizeof *w, N, K, &e);
    kmat_mul(g->ref, a, want, N, x, K, M, NULL, KMAT_SET, &e);
    kernel *bad = g->other[0];
    kernel_ops good = bad->ops;
    bad->ops.mul_panel = careless_mul_panel;
    kmat_mul(bad, a, got, N, x, K, M, NULL, KMAT_SET, &e);
    bad->ops = good;
    double worst = 0;
    for (int i = 0; i < M * N; i++) worst = fmax(worst, fabs((double)want[i] - got[i]));
    CHECK(memcmp(want, got, sizeof got) != 0 && worst < 1e-5, "one rounding elsewhere is seen (%g)", worst);
    kmat_close(a);
    free(w), free(x);
}

int main(void) {
    engines g = {0};
    engines_open(&g);
    printf("# %s\n", kernel_isa_list());
    for (size_t m = 1; m <= 40; m += m < 16 ? 1 : 5) test_mul(&g, KMAT_F32, KMAT_ROWS, m, 45, 37);
    test_mul(&g, KMAT_F32, KMAT_ROWS, 3, 161, 700);
    test_mul(&g, KMAT_F32, KMAT_ROWS, 261, 33, 257);
    test_mul(&g, KMAT_F32, KMAT_PANELS, 15, 130, 300);
    test_mul(&g, KMAT_F16, KMAT_ROWS, 4, 70, 301);
    test_mul(&g, KMAT_F16, KMAT_PANELS, 5, 70, 301);
    test_mul(&g, KMAT_BF16, KMAT_ROWS, 4, 70, 301);
    test_mul(&g, KMAT_BF16, KMAT_PANELS, 5, 70, 301);
    for (int t = KMAT_Q4_0; t < KMAT_TYPES; t++) {
        test_mul(&g, (kmat_type)t, KMAT_ROWS, 7, 37, 512);
        test_mul(&g, (kmat_type)t, KMAT_INT8, 8, 37, 512);
    }
    for (size_t m = 1; m <= 16; m++) test_mul(&g, KMAT_F32, KMAT_INT8, m, 70, m % 2 ? 77 : 64);
    test_mul(&g, KMAT_F32, KMAT_INT8, 260, 33, 1100);
    test_rows(&g, 5, 64);
    test_rows(&g, 3, 37);
    test_rows(&g, 200, 100);
    test_attn(&g, 6, 2, 64, 130, 20, 0);
    test_attn(&g, 4, 1, 40, 3, 70, 0);
    test_attn(&g, 2, 2, 270, 60, 9, 0);
    test_attn(&g, 3, 1, 32, 150, 20, 70);
    test_int8_extremes(&g);
    test_control(&g);
    for (int i = 0; i < g.n; i++) kernel_close(g.other[i]);
    kernel_close(g.ref);
    return test_end();
}
