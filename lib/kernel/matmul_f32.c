/* matmul_f32.c: Y = X W^T in float32.
 *
 * The bits: y[n] is the sum, in order, over blocks of KBLOCK inputs; each block is one fmaf chain from zero;
 * then the bias, then what stood in y. Vector lanes run across outputs, so no sum is ever split.
 * The speed: X is copied once into blocks of KBLOCK columns (every worker reads it); a task is a group of
 * panels for a chunk of rows: each panel's block is widened to float32 once into the worker's scratch, where
 * it stays in the second-level cache while all rows of the chunk pass over it. */
#include <string.h>

#include "base/mem.h"
#include "kernel/internal.h"

enum {
    ROWS = 256,  /* rows of X that pass over one widened group */
    GROUP = 4,   /* panels in a group, at most */
    STEP = 1024  /* rows of X packed at a time: bounds the scratch */
};

typedef struct mul_job {
    kernel *kn;
    const kmat *w;
    float *y;
    const float *x, *bias;
    size_t y_stride, x_stride, m;
    int flags;
    float *packed; /* [blocks][m][XSTRIDE] */
    float *own;    /* [threads][OWN] */
    size_t panels, group, groups;
} mul_job;

enum { OWN_WIDE = KBLOCK * PANEL, OWN_SUM = ROWS * GROUP * PANEL, OWN_ROWS = PANEL * KBLOCK };
enum { OWN = OWN_WIDE + OWN_SUM + OWN_ROWS };

static void mul_pack(void *arg, size_t begin, size_t end, unsigned worker) {
    mul_job *j = arg;
    (void)worker;
    size_t n_in = j->w->n_in;
    for (size_t r = begin; r < end; r++)
        for (size_t k = 0, b = 0; k < n_in; k += KBLOCK, b++) {
            size_t len = n_in - k < KBLOCK ? n_in - k : KBLOCK;
            memcpy(j->packed + (b * j->m + r) * XSTRIDE, j->x + r * j->x_stride + k, len * sizeof(float));
        }
}

/* Asks for what will be read next, past what the hardware foresees: it ends at pages and at rows. */
static void prefetch(const unsigned char *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

/* The block [k0, k0 + len) of panel p as float32 [len][PANEL]: where it is, or in dst. */
static const float *mul_widen(const mul_job *j, size_t p, size_t k0, size_t len, float *dst, float *rows) {
    const kmat *w = j->w;
    const kernel_ops *ops = &j->kn->ops;
    size_t elems = kmat_block_elems(w->type), size = kmat_block_bytes(w->type), k1 = k0 + len;
    size_t after = w->n_in - k1 < KBLOCK ? w->n_in - k1 : KBLOCK; /* elements of the block after this; 0 = the last */
    if (w->form == KMAT_PANELS) {
        const unsigned char *src = w->data + (p * w->n_in + k0) * PANEL * size;
        if (w->type == KMAT_F32 && (uintptr_t)src % sizeof(float) == 0) return (const float *)(const void *)src;
        prefetch(src + len * PANEL * size, after * PANEL * size);
        ops->widen(w->type, src, len * PANEL, dst);
        return dst;
    }
    size_t first = p * PANEL, n = w->n_out - first < PANEL ? w->n_out - first : PANEL;
    const unsigned char *src = w->data + first * w->row_bytes + k0 / elems * size;
    for (size_t r = 0; r < n; r++) {
        const unsigned char *row = src + r * w->row_bytes;
        if (after > 0)
            prefetch(row + len / elems * size, after / elems * size);
        else if (first + r + PANEL < w->n_out)
            prefetch(w->data + (first + r + PANEL) * w->row_bytes, (w->n_in < KBLOCK ? w->n_in : KBLOCK) / elems * size);
        ops->widen(w->type, row, len, rows + r * KBLOCK);
    }
    for (size_t r = n; r < PANEL; r++) memset(rows + r * KBLOCK, 0, len * sizeof *rows);
    ops->transpose(rows, KBLOCK, len, dst);
    return dst;
}

void kernel_finish(float *y, const float *t, const float *bias, size_t n, int flags) {
    if (flags & KMAT_ADD) {
        if (bias)
            for (size_t i = 0; i < n; i++) y[i] = y[i] + (t[i] + bias[i]);
        else
            for (size_t i = 0; i < n; i++) y[i] = y[i] + t[i];
    } else if (bias) {
        for (size_t i = 0; i < n; i++) y[i] = t[i] + bias[i];
    } else {
        memcpy(y, t, n * sizeof *y);
    }
}

static void mul_task(const mul_job *j, size_t row0, size_t p0, float *own) {
    size_t n_in = j->w->n_in, n_out = j->w->n_out;
    size_t rows = j->m - row0 < ROWS ? j->m - row0 : ROWS;
    size_t np = j->panels - p0 < j->group ? j->panels - p0 : j->group;
    float *wide = own, *sum = own + OWN_WIDE, *lines = sum + OWN_SUM;
    for (size_t k = 0, b = 0; k < n_in; k += KBLOCK, b++) {
        size_t len = n_in - k < KBLOCK ? n_in - k : KBLOCK;
        const float *x = j->packed + (b * j->m + row0) * XSTRIDE;
        for (size_t p = 0; p < np; p++) {
            const float *panel = mul_widen(j, p0 + p, k, len, wide, lines);
            j->kn->ops.mul_panel(x, rows, panel, PANEL, len, sum + p * PANEL, GROUP * PANEL, k > 0);
        }
    }
    size_t first = p0 * PANEL, n = n_out - first < np * PANEL ? n_out - first : np * PANEL;
    for (size_t r = 0; r < rows; r++)
        kernel_finish(j->y + (row0 + r) * j->y_stride + first, sum + r * GROUP * PANEL, j->bias ? j->bias + first : NULL, n,
                      j->flags);
}

static void mul_some(void *arg, size_t begin, size_t end, unsigned worker) {
    mul_job *j = arg;
    for (size_t i = begin; i < end; i++)
        mul_task(j, i / j->groups * ROWS, i % j->groups * j->group, j->own + worker * (size_t)OWN);
}

static status mul_step(mul_job *j, err *e) {
    kernel *kn = j->kn;
    size_t blocks = j->w->n_in / KBLOCK + (j->w->n_in % KBLOCK != 0), bytes;
    unsigned threads = kernel_threads(kn);
    if (!size_mul(blocks, j->m * XSTRIDE * sizeof(float), &bytes)) return err_memory(e, SIZE_MAX);
    j->packed = scratch_need(&kn->shared, bytes, e);
    j->own = scratch_need(&kn->own, threads * (size_t)OWN * sizeof(float), e);
    if (!j->packed || !j->own) return e->status;
    j->panels = (j->w->n_out + PANEL - 1) / PANEL;
    size_t chunks = (j->m + ROWS - 1) / ROWS;
    j->group = GROUP;
    while (j->group > 1 && j->panels / j->group * chunks < 4 * threads) j->group--;
    j->groups = (j->panels + j->group - 1) / j->group;
    size_t copied = j->m * j->w->n_in;
    kernel_for(kn, j->m, copied < 65536 ? j->m : (j->m + threads - 1) / threads, mul_pack, j);
    kernel_for(kn, j->groups * chunks, 1, mul_some, j);
    return ST_OK;
}

status kmat_mul(kernel *kn, const kmat *w, float *y, size_t y_stride, const float *x, size_t x_stride, size_t m,
                const float *bias, int flags, err *e) {
    if (w->form == KMAT_INT8) return int8_mul(kn, w, y, y_stride, x, x_stride, m, bias, flags, e);
    for (size_t r = 0; r < m; r += STEP) {
        mul_job j = {.kn = kn, .w = w, .y = y + r * y_stride, .x = x + r * x_stride, .bias = bias, .flags = flags};
        j.y_stride = y_stride;
        j.x_stride = x_stride;
        j.m = m - r < STEP ? m - r : STEP;
        status st = mul_step(&j, e);
        if (st != ST_OK) return st;
    }
    return ST_OK;
}
