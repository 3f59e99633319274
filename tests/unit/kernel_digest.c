/* Prints one digest of what every kernel computes from fixed inputs, for each instruction set that this CPU
 * has. `make check-bits` builds this by several compilers, levels and for aarch64: all digests are equal. */
#include <stdlib.h>

#include "base/mem.h"
#include "kernel/kernel.h"
#include "test.h"

static uint64_t rng, digest;

static uint32_t noise_bits(void) {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 32);
}

static float *noise(size_t n, float size) {
    float *p = mem_alloc(n, sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(int32_t)noise_bits() * 0x1p-31f * size;
    return p;
}

static void eat(const void *p, size_t n) {
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++) digest = (digest ^ b[i]) * 0x100000001b3;
}

/* Quantised blocks of random bytes whose 16-bit floats are small: each byte that may be the high half of one
 * is masked to a small exponent. */
static void digest_mul(kernel *kn, kmat_type t, kmat_form form, size_t m, size_t n_out, size_t n_in) {
    err e = {0};
    size_t bytes = 0, size = kmat_block_bytes(t);
    kmat_bytes(t, n_out * n_in, &bytes);
    unsigned char *w = mem_alloc(bytes, 1);
    for (size_t i = 0; i < bytes; i++) {
        w[i] = (unsigned char)noise_bits();
        size_t at = i % size;
        if (at == 1 || (size != 2 && at == 3) || (size == 210 && at == 209)) w[i] = (w[i] & 0x83) | 0x18;
    }
    float *x = noise(m * n_in, 3), *y = noise(m * n_out, 1);
    kmat *rows = NULL, *mat = NULL;
    kmat_open(&rows, t, w, bytes, n_out, n_in, &e);
    mat = rows;
    if (form != KMAT_ROWS) kmat_pack(kn, &mat, rows, form, &e);
    kmat_mul(kn, mat, y, n_out, x, n_in, m, x, KMAT_ADD, &e);
    eat(y, m * n_out * sizeof *y);
    kmat_row(mat, n_out / 2, x);
    eat(x, n_in * sizeof *x);
    if (mat != rows) kmat_close(mat);
    kmat_close(rows);
    free(w), free(x), free(y);
}

static void digest_rows(kernel *kn) {
    enum { R = 7, H = 3, D = 74, N = H * D };
    float *x = noise(R * N, 9), *w = noise(N, 1), *up = noise(R * N, 2), freq[D / 2], cos[R * D / 2], sin[R * D / 2];
    uint32_t pos[R] = {0, 1, 5, 100, 4095, 32767, 131071};
    kernel_rope_freqs(freq, D / 2, 1e6);
    kernel_rope_table(cos, sin, pos, R, freq, D / 2, 1);
    eat(cos, sizeof cos), eat(sin, sizeof sin);
    kernel_rmsnorm(kn, x, N, x, N, R, N, w, 1e-6f);
    kernel_rmsnorm_heads(kn, x, N, R, H, D, w, 1e-6f);
    kernel_rope(kn, x, N, R, H, D, cos, sin, D / 2, false);
    kernel_rope(kn, x, N, R, H, D, cos, sin, D / 2, true);
    eat(x, R * N * sizeof *x);
    kernel_swiglu(kn, x, N, up, N, R, N);
    eat(x, R * N * sizeof *x);
    double l = kernel_logsumexp(x, R * N), p = kernel_pow(5e5, -0.37), dot = kernel_dot(x, up, R * N);
    kernel_softmax(x, x, R * N);
    eat(&l, sizeof l), eat(&p, sizeof p), eat(&dot, sizeof dot), eat(x, R * N * sizeof *x);
    free(x), free(w), free(up);
}

static void digest_attn(kernel *kn, size_t heads, size_t kv, size_t d, size_t keys, size_t n) {
    err e = {0};
    float *q = noise(n * heads * d, 4), *k = noise(keys * kv * d, 1), *v = noise(keys * kv * d, 1);
    float *out = noise(n * heads * d, 1);
    kernel_run run = {k, v, 0, keys, kv * d, d};
    kernel_branch br = {.q = q, .out = out, .q_stride = heads * d, .out_stride = heads * d, .n_rows = n, .pos = keys - n};
    br.runs = &run;
    br.n_runs = 1;
    kernel_attn(kn, &br, 1, heads, kv, d, 0.2f, &e);
    eat(out, n * heads * d * sizeof *out);
    free(q), free(k), free(v), free(out);
}

static uint64_t digest_of(kernel *kn) {
    rng = 7, digest = 0xcbf29ce484222325;
    digest_mul(kn, KMAT_F16, KMAT_ROWS, 3, 45, 300);
    digest_mul(kn, KMAT_F16, KMAT_PANELS, 17, 45, 300);
    digest_mul(kn, KMAT_BF16, KMAT_PANELS, 30, 65, 600);
    for (int t = KMAT_Q4_0; t < KMAT_TYPES; t++) {
        digest_mul(kn, (kmat_type)t, KMAT_ROWS, 5, 35, 512);
        digest_mul(kn, (kmat_type)t, KMAT_INT8, 9, 35, 512);
    }
    digest_rows(kn);
    digest_attn(kn, 6, 2, 64, 150, 40);
    digest_attn(kn, 2, 1, 41, 70, 33);
    return digest;
}

int main(void) {
    uint64_t want = 0;
    for (int isa = KERNEL_REF; isa <= KERNEL_NEON; isa++) {
        if (!kernel_isa_supported((kernel_isa)isa)) continue;
        err e = {0};
        kernel *kn = NULL;
        if (kernel_open(&kn, (kernel_isa)isa, 2, &e) != ST_OK) return 1;
        uint64_t got = digest_of(kn);
        kernel_close(kn);
        if (isa == KERNEL_REF) want = got;
        printf("# %s digest %016llx\n", kernel_isa_name((kernel_isa)isa), (unsigned long long)got);
        CHECK(got == want, "%s: the digest of the reference", kernel_isa_name((kernel_isa)isa));
    }
    return test_end();
}
