/* internal.h: what the files of lib/kernel share. Nobody else includes it. */
#ifndef ANYJEV_KERNEL_INTERNAL_H
#define ANYJEV_KERNEL_INTERNAL_H

#include "kernel/kernel.h"

/* Weights lie little-endian in files, hidden states in records: both are read and written as they are in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a little-endian machine");

/* The fixed cuts of every sum; changing one changes the bits of results. */
enum {
    PANEL = 32,   /* columns (outputs) of a weight panel */
    KBLOCK = 256, /* inputs summed by one chain of fmaf; the sums of the blocks are added in order */
    QBLOCK = 32,  /* int8: elements that share a scale */
    ABLOCK = 64,  /* attention: positions summed by one chain, cut by absolute position */
    XSTRIDE = KBLOCK + 16 /* row stride of packed activations: not a power of two, rows spread over the cache */
};

/* Form INT8: per panel, per block of QBLOCK inputs. Four neighbouring inputs of a column lie together. */
typedef struct int8_block {
    float scale[PANEL];
    int8_t q[QBLOCK / 4][PANEL][4];
} int8_block;

/* What differs between instruction sets. Every function of every table gives the same bits as ref.c. */
typedef struct kernel_ops {
    kernel_isa isa;
    /* c[m][PANEL] = sum, or c + sum when add; sum = fmaf chain from 0 over k of x[m][k] * b[k][PANEL].
     * x has row stride XSTRIDE, k <= KBLOCK; b has row stride b_stride, c c_stride. */
    void (*mul_panel)(const float *x, size_t m, const float *b, size_t b_stride, size_t k, float *c, size_t c_stride,
                      bool add);
    /* dst[k][PANEL] from src[PANEL][k], row stride src_stride. */
    void (*transpose)(const float *src, size_t src_stride, size_t k, float *dst);
    void (*widen)(kmat_type t, const void *src, size_t n, float *dst);
    /* c[m][PANEL] from quantised rows x[m][blocks][QBLOCK], x_scale[m][blocks] and one packed panel. */
    void (*mul_int8)(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c,
                     size_t c_stride);
    /* Quantises a row into blocks as matmul_int8.c says; the bytes are what this table's mul_int8 wants. */
    void (*quant_row)(const float *x, size_t n, int8_t *q, float *scale);
    void (*rmsnorm)(float *y, const float *x, size_t n, const float *w, float eps);
    void (*swiglu)(float *gate, const float *up, size_t n);
    void (*rope_half)(float *x, const float *cos, const float *sin, size_t half);
    /* One row of scores s[ABLOCK] of which those of `mask` count: becomes the exponentials (others 0); the
     * running maximum and sum are updated; returns the factor for what was summed before. mask is not 0. */
    float (*attn_block)(float *s, uint64_t mask, float *max, float *sum);
    void (*attn_merge)(float *o, float factor, const float *pv, size_t n); /* o = fmaf(o, factor, pv) */
} kernel_ops;

extern const kernel_ops kernel_ops_ref;
#if defined(__x86_64__)
extern const kernel_ops kernel_ops_avx2, kernel_ops_avx512;
#elif defined(__aarch64__)
extern const kernel_ops kernel_ops_neon;
#endif

/* The int8 functions of a table stand in files of their own: int8_avx2.c and so on. */
#define INT8_FUNCTIONS(isa)                                                                                           \
    void int8_mul_##isa(const int8_t *x, const float *x_scale, size_t m, size_t blocks, const int8_block *w, float *c, \
                        size_t c_stride);                                                                             \
    void int8_quant_##isa(const float *x, size_t n, int8_t *q, float *scale)
INT8_FUNCTIONS(avx2);
INT8_FUNCTIONS(avx512);
INT8_FUNCTIONS(neon);

typedef struct kernel_pool kernel_pool;
status kernel_pool_open(kernel_pool **out, unsigned threads, err *e);
void kernel_pool_close(kernel_pool *p);
unsigned kernel_pool_threads(const kernel_pool *p);
void kernel_pool_run(kernel_pool *p, size_t n, size_t grain, kernel_fn *fn, void *arg);

/* Scratch memory grows and is kept; 64-byte aligned. */
typedef struct scratch {
    void *p;
    size_t bytes;
} scratch;
void *scratch_need(scratch *s, size_t bytes, err *e); /* NULL and e when memory is short */

struct kernel {
    kernel_ops ops;
    kernel_pool *pool;
    scratch shared, own; /* packed activations; per-worker pieces, cut by the user */
};

struct kmat {
    kmat_type type;
    kmat_form form;
    size_t n_out, n_in;
    const unsigned char *data;
    size_t row_bytes; /* form ROWS */
    void *owned;
};

/* The layout of form INT8: see matmul_int8.c. */
size_t int8_bytes(size_t n_out, size_t n_in);
void int8_pack_panel(const kmat *src, size_t panel, unsigned char *dst, float *row);
void int8_row(const kmat *m, size_t row, float *out);
status int8_mul(kernel *kn, const kmat *w, float *y, size_t y_stride, const float *x, size_t x_stride, size_t m,
                const float *bias, int flags, err *e);

/* y = or += t + bias for rows of `n` columns. */
void kernel_finish(float *y, const float *t, const float *bias, size_t n, int flags);

#endif
