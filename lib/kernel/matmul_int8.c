/* matmul_int8.c: compute mode int8.
 *
 * The bits: activations are cut in blocks of 32; the scale of a block is max|x| / 127, its elements
 * x * (127 / max|x|) rounded to the nearest integer, ties to even (a block whose maximum is under 1e-30 is
 * zero). Weights likewise, except that Q8_0 keeps its own integers and scales. Per block the sum of products
 * is an exact integer s; then sum = fmaf(s, x_scale * w_scale, sum), in block order. */
#include <string.h>

#include "base/mem.h"
#include "kernel/internal.h"

static size_t blocks_of(size_t n_in) { return n_in / QBLOCK + (n_in % QBLOCK != 0); }

size_t int8_bytes(size_t n_out, size_t n_in) {
    size_t n;
    size_t panels = n_out / PANEL + (n_out % PANEL != 0);
    return size_mul(panels, blocks_of(n_in), &n) && size_mul(n, sizeof(int8_block), &n) ? n : 0;
}

void int8_pack_panel(const kmat *src, size_t panel, unsigned char *dst, float *row) {
    int8_block *blocks = (int8_block *)(void *)dst;
    size_t nb = blocks_of(src->n_in), first = panel * PANEL;
    size_t rows = src->n_out - first < PANEL ? src->n_out - first : PANEL;
    memset(dst, 0, nb * sizeof *blocks);
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *bytes = src->data + (first + r) * src->row_bytes;
        if (src->type != KMAT_Q8_0) kmat_row(src, first + r, row);
        for (size_t b = 0; b < nb; b++) {
            int8_t q[QBLOCK] = {0};
            size_t n = src->n_in - b * QBLOCK < QBLOCK ? src->n_in - b * QBLOCK : QBLOCK;
            if (src->type == KMAT_Q8_0) {
                kmat_widen(KMAT_F16, bytes + b * 34, 1, &blocks[b].scale[r]);
                memcpy(q, bytes + b * 34 + 2, QBLOCK);
            } else {
                kernel_ops_ref.quant_row(row + b * QBLOCK, n, q, &blocks[b].scale[r]);
            }
            for (int i = 0; i < QBLOCK; i++) blocks[b].q[i / 4][r][i % 4] = q[i];
        }
    }
}

void int8_row(const kmat *m, size_t row, float *out) {
    const int8_block *blocks = (const int8_block *)(const void *)m->data + row / PANEL * blocks_of(m->n_in);
    for (size_t k = 0; k < m->n_in; k++) {
        const int8_block *b = &blocks[k / QBLOCK];
        out[k] = (float)b->q[k % QBLOCK / 4][row % PANEL][k % 4] * b->scale[row % PANEL];
    }
}

enum { ROWS = 256 };

typedef struct int8_job {
    kernel *kn;
    const kmat *w;
    float *y, *sums;
    const float *x, *bias;
    size_t y_stride, x_stride, m, blocks, panels;
    int flags;
    int8_t *q;     /* [m][blocks][QBLOCK] */
    float *scale;  /* [m][blocks] */
} int8_job;

static void int8_quant(void *arg, size_t begin, size_t end, unsigned worker) {
    int8_job *j = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++)
        j->kn->ops.quant_row(j->x + r * j->x_stride, j->w->n_in, j->q + r * j->blocks * QBLOCK, j->scale + r * j->blocks);
}

static void int8_some(void *arg, size_t begin, size_t end, unsigned worker) {
    int8_job *j = arg;
    float *sum = j->sums + worker * (size_t)(ROWS * PANEL);
    const int8_block *w = (const int8_block *)(const void *)j->w->data;
    for (size_t i = begin; i < end; i++) {
        size_t row0 = i / j->panels * ROWS, p = i % j->panels, first = p * PANEL;
        size_t rows = j->m - row0 < ROWS ? j->m - row0 : ROWS;
        size_t n = j->w->n_out - first < PANEL ? j->w->n_out - first : PANEL;
        const int8_t *q = j->q + row0 * j->blocks * QBLOCK;
        const float *scale = j->scale + row0 * j->blocks;
        if (n == PANEL && !j->bias && !(j->flags & KMAT_ADD)) { /* nothing to finish: straight to where it goes */
            j->kn->ops.mul_int8(q, scale, rows, j->blocks, w + p * j->blocks, j->y + row0 * j->y_stride + first, j->y_stride);
            continue;
        }
        j->kn->ops.mul_int8(q, scale, rows, j->blocks, w + p * j->blocks, sum, PANEL);
        for (size_t r = 0; r < rows; r++)
            kernel_finish(j->y + (row0 + r) * j->y_stride + first, sum + r * PANEL, j->bias ? j->bias + first : NULL, n,
                          j->flags);
    }
}

status int8_mul(kernel *kn, const kmat *w, float *y, size_t y_stride, const float *x, size_t x_stride, size_t m,
                const float *bias, int flags, err *e) {
    unsigned threads = kernel_threads(kn);
    int8_job j = {.kn = kn, .w = w, .y = y, .x = x, .bias = bias, .flags = flags};
    j.y_stride = y_stride;
    j.x_stride = x_stride;
    j.m = m;
    j.blocks = blocks_of(w->n_in);
    j.panels = (w->n_out + PANEL - 1) / PANEL;
    size_t n, bytes;
    if (!size_mul(m, j.blocks, &n) || !size_mul(n, QBLOCK + sizeof(float), &bytes)) return err_memory(e, SIZE_MAX);
    char *p = scratch_need(&kn->shared, bytes + 64, e);
    j.sums = scratch_need(&kn->own, threads * (size_t)(ROWS * PANEL) * sizeof(float), e);
    if (!p || !j.sums) return e->status;
    j.q = (int8_t *)p;
    j.scale = (float *)(void *)(p + n * QBLOCK);
    kernel_for(kn, m, m * w->n_in < 32768 ? m : (m + threads - 1) / threads, int8_quant, &j);
    kernel_for(kn, j.panels * ((m + ROWS - 1) / ROWS), 1, int8_some, &j);
    return ST_OK;
}
