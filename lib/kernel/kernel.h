/* kernel.h: the arithmetic of a forward pass on a CPU.
 *
 * What the caller may know: every result is the same bits for every instruction set, every number of
 * threads, and every batch: a row of Y does not depend on which other rows were computed with it, and
 * attention does not depend on where its runs of keys were cut. The plain C functions (ref.c) fix the
 * order of every sum and every fused multiply-add; the vector variants obey it.
 * All floats are IEEE binary32 in memory order, all strides count elements, all matrices are row-major.
 * A context is used by one thread at a time (its own workers aside); a kmat may be shared by all. */
#ifndef ANYJEV_KERNEL_KERNEL_H
#define ANYJEV_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* --- context: instruction set, thread pool, scratch ------------------------------------------- */

typedef enum kernel_isa { KERNEL_AUTO, KERNEL_REF, KERNEL_AVX2, KERNEL_AVX512, KERNEL_NEON } kernel_isa;

/* "auto", "ref", "avx2", "avx512", "neon"; false for another name. */
bool kernel_isa_parse(const char *name, kernel_isa *out);
const char *kernel_isa_name(kernel_isa isa);
/* Does this CPU (and this build) run it? AUTO and REF always. */
bool kernel_isa_supported(kernel_isa isa);
/* "ref avx2 avx512": what this CPU runs, worst first; a constant text. */
const char *kernel_isa_list(void);

typedef struct kernel kernel;

/* threads: 0 = as many as the affinity mask allows. ST_REFUSED for an ISA that this CPU lacks, with the
 * list of those it has. Free with kernel_close(), which waits for the workers. */
status kernel_open(kernel **out, kernel_isa isa, unsigned threads, err *e);
void kernel_close(kernel *kn);
unsigned kernel_threads(const kernel *kn);
kernel_isa kernel_used_isa(const kernel *kn); /* never AUTO */

/* Calls fn(arg, begin, end, worker) over [0, n) in pieces of at most `grain`, on all threads including
 * the caller; returns when all are done. worker < kernel_threads(). Not to be called from inside fn. */
typedef void kernel_fn(void *arg, size_t begin, size_t end, unsigned worker);
void kernel_for(kernel *kn, size_t n, size_t grain, kernel_fn *fn, void *arg);

/* --- weight matrices -------------------------------------------------------------------------- */

/* The element types of weight files. Quantised ones are GGUF blocks along n_in. */
typedef enum kmat_type {
    KMAT_F32, KMAT_F16, KMAT_BF16,
    KMAT_Q4_0, KMAT_Q4_1, KMAT_Q5_0, KMAT_Q5_1, KMAT_Q8_0, /* 32 to a block */
    KMAT_Q4_K, KMAT_Q5_K, KMAT_Q6_K,                       /* 256 to a block */
    KMAT_TYPES
} kmat_type;

const char *kmat_type_name(kmat_type t);
/* GGUF's ggml_type number to ours; false when it is one we do not read. */
bool kmat_type_of_ggml(uint32_t ggml_type, kmat_type *out);
size_t kmat_block_elems(kmat_type t); /* 1, 32 or 256 */
size_t kmat_block_bytes(kmat_type t);
/* Bytes of n elements; false when n is no multiple of the block or the product overflows. */
bool kmat_bytes(kmat_type t, size_t n, size_t *bytes);

/* How the elements lie. ROWS: as in the file. PANELS: 32 rows side by side, [n_in][32], same element
 * type (F32, F16, BF16 only). INT8: blocks of 32 int8 with a float scale, for compute mode int8. */
typedef enum kmat_form { KMAT_ROWS, KMAT_PANELS, KMAT_INT8 } kmat_form;

/* W[n_out][n_in]; the product is X times W transposed. */
typedef struct kmat kmat;

/* Borrows data (e.g. a mapped file; any alignment), which must outlive the kmat and hold exactly `bytes`.
 * ST_INPUT when the size does not fit the shape. Free with kmat_close(). */
status kmat_open(kmat **out, kmat_type t, const void *data, size_t bytes, size_t n_out, size_t n_in, err *e);
/* The same for data that kmat_pack_into() wrote: the bytes are compared with kmat_pack_bytes(); form INT8 must
 * begin on a multiple of 4 bytes (of 64, to be fast). */
status kmat_open_packed(kmat **out, kmat_form form, kmat_type t, const void *data, size_t bytes, size_t n_out,
                        size_t n_in, err *e);
/* Bytes of the packed form, 0 when that type has no such form (PANELS of a quantised type) or on overflow. */
size_t kmat_pack_bytes(kmat_form form, kmat_type t, size_t n_out, size_t n_in);
/* Writes exactly that many bytes; the source is in form ROWS. dst 64-byte aligned. Uses the pool. */
status kmat_pack_into(kernel *kn, const kmat *src, kmat_form form, void *dst, size_t bytes, err *e);
/* Packs into memory that the new kmat owns; `src` and its data are not needed afterwards. */
status kmat_pack(kernel *kn, kmat **out, const kmat *src, kmat_form form, err *e);
void kmat_close(kmat *m);

size_t kmat_n_out(const kmat *m);
size_t kmat_n_in(const kmat *m);
kmat_type kmat_type_in(const kmat *m);
kmat_form kmat_form_in(const kmat *m);
const void *kmat_data(const kmat *m); /* the bytes, as they lie in that form */

/* Row `row` (an embedding) widened: out[n_in]. Any form; row < n_out. */
void kmat_row(const kmat *m, size_t row, float *out);

/* Widens n elements (a multiple of the block) at src: dst[n]. Exact for F16 and BF16; quantised blocks
 * as GGUF defines them, in float32. */
void kmat_widen(kmat_type t, const void *src, size_t n, float *dst);

enum {
    KMAT_SET = 0, /* y = x W^T + bias */
    KMAT_ADD = 1  /* y = y + (x W^T + bias) */
};

/* y[m][n_out] (row stride y_stride) from x[m][n_in] (row stride x_stride); bias[n_out] or NULL.
 * Form INT8 quantises x in blocks of 32 (see matmul_int8.c); the others compute in float32.
 * y and x must not overlap. Only fails when scratch memory is short (ST_INCOMPLETE). */
status kmat_mul(kernel *kn, const kmat *w, float *y, size_t y_stride, const float *x, size_t x_stride, size_t m,
                const float *bias, int flags, err *e);

/* --- rows ------------------------------------------------------------------------------------- */

/* y[r][n] = x[r][n] / sqrt(mean(x[r]^2) + eps) * w[n]. y may be x. */
void kernel_rmsnorm(kernel *kn, float *y, size_t y_stride, const float *x, size_t x_stride, size_t rows, size_t n,
                    const float *w, float eps);
/* The same for each of `heads` pieces of head_dim in every row, in place, w[head_dim] (Qwen3's QK norm). */
void kernel_rmsnorm_heads(kernel *kn, float *x, size_t x_stride, size_t rows, size_t heads, size_t head_dim,
                          const float *w, float eps);

/* gate[r][n] = silu(gate[r][n]) * up[r][n]. */
void kernel_swiglu(kernel *kn, float *gate, size_t gate_stride, const float *up, size_t up_stride, size_t rows,
                   size_t n);

/* x[i] = x[i] + y[i]. */
void kernel_add(kernel *kn, float *x, const float *y, size_t n);

/* inv_freq[half], float32 as transformers has it: 1 / theta^(2i / (2 half)). Scaling (llama3) is the caller's. */
void kernel_rope_freqs(float *inv_freq, size_t half, double theta);
/* cos[n][half], sin[n][half] for positions pos[n]: of the float32 product pos * inv_freq, times `scale`
 * (1 unless the model scales attention by it). */
void kernel_rope_table(float *cos, float *sin, const uint32_t *pos, size_t n, const float *inv_freq, size_t half,
                       float scale);
/* In place on x[rows][heads * head_dim]; row r uses cos/sin row r; half = head_dim / 2 or less (partial
 * rotary: the rest of the head stays). interleaved: pairs (2i, 2i+1), else (i, i + half). */
void kernel_rope(kernel *kn, float *x, size_t x_stride, size_t rows, size_t heads, size_t head_dim, const float *cos,
                 const float *sin, size_t half, bool interleaved);

/* --- attention over a tree -------------------------------------------------------------------- */

/* Keys and values of `len` consecutive positions from `start` on: position p, key head h, element i is
 * k[(p - start) * stride + h * head_stride + i]. */
typedef struct kernel_run {
    const float *k, *v;
    size_t start, len;
    size_t stride, head_stride;
} kernel_run;

/* Rows of one branch: row i (of n_rows) has position pos + i and sees every key of `runs` whose position is
 * not larger. The runs are ascending and do not overlap; each row sees at least one key. Sliding windows: a
 * row sees only the last `window` positions up to its own; 0 = all. */
typedef struct kernel_branch {
    const float *q; /* [n_rows][heads * head_dim], row stride q_stride */
    float *out;     /* the same shape, row stride out_stride */
    size_t q_stride, out_stride;
    size_t n_rows, pos;
    const kernel_run *runs;
    size_t n_runs;
    size_t window;
} kernel_branch;

/* softmax(q K^T * scale) V for all heads of all branches; query head h uses key head h / (heads / kv_heads).
 * Sums run in blocks of 64 absolute positions, merged in position order. */
status kernel_attn(kernel *kn, const kernel_branch *branches, size_t n_branches, size_t heads, size_t kv_heads,
                   size_t head_dim, float scale, err *e);

/* --- distributions ---------------------------------------------------------------------------- */

/* log(sum(exp(x))), in double; n > 0. */
double kernel_logsumexp(const float *x, size_t n);
/* p = softmax(x), sums in double. p may be x. */
void kernel_softmax(float *p, const float *x, size_t n);
size_t kernel_argmax(const float *x, size_t n); /* the first of equals */
/* sum(a * b), double, in index order. */
double kernel_dot(const float *a, const float *b, size_t n);

/* --- elementary functions: the same bits everywhere ------------------------------------------- */

double kernel_exp(double x);              /* error under 1 ulp */
double kernel_log(double x);              /* x > 0, error under 1 ulp; -inf at 0, NaN below */
double kernel_pow(double x, double y);    /* x > 0; relative error under 1e-14 for |y log x| < 100 */
void kernel_sincos(double x, double *s, double *c); /* |x| < 1e6; absolute error under 2e-16 */
float kernel_expf(float x);               /* error under 2 ulp; 0 below -87, clamps above 88 */

#endif
