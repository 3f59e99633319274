/* rows.c: what is done to each row by itself; rows are shared out over the pool. */
#include <math.h>

#include "kernel/internal.h"

typedef struct row_job {
    const kernel_ops *ops;
    float *y;
    const float *x, *w, *cos, *sin;
    size_t y_stride, x_stride, n, heads, half;
    float eps;
    bool interleaved;
} row_job;

/* Rows in a piece: small jobs are not worth waking anybody. */
static size_t row_grain(size_t n) { return n >= 16384 ? 1 : 16384 / (n ? n : 1); }

static void rmsnorm_some(void *arg, size_t begin, size_t end, unsigned worker) {
    row_job *j = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++)
        for (size_t h = 0; h < j->heads; h++)
            j->ops->rmsnorm(j->y + r * j->y_stride + h * j->n, j->x + r * j->x_stride + h * j->n, j->n, j->w, j->eps);
}

void kernel_rmsnorm(kernel *kn, float *y, size_t y_stride, const float *x, size_t x_stride, size_t rows, size_t n,
                    const float *w, float eps) {
    row_job j = {.ops = &kn->ops, .y = y, .y_stride = y_stride, .x = x, .x_stride = x_stride, .n = n, .heads = 1, .w = w};
    j.eps = eps;
    kernel_for(kn, rows, row_grain(n), rmsnorm_some, &j);
}

void kernel_rmsnorm_heads(kernel *kn, float *x, size_t x_stride, size_t rows, size_t heads, size_t head_dim,
                          const float *w, float eps) {
    row_job j = {.ops = &kn->ops, .y = x, .y_stride = x_stride, .x = x, .x_stride = x_stride, .n = head_dim, .w = w};
    j.heads = heads;
    j.eps = eps;
    kernel_for(kn, rows, row_grain(heads * head_dim), rmsnorm_some, &j);
}

static void swiglu_some(void *arg, size_t begin, size_t end, unsigned worker) {
    row_job *j = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++) j->ops->swiglu(j->y + r * j->y_stride, j->x + r * j->x_stride, j->n);
}

void kernel_swiglu(kernel *kn, float *gate, size_t gate_stride, const float *up, size_t up_stride, size_t rows, size_t n) {
    row_job j = {.ops = &kn->ops, .y = gate, .y_stride = gate_stride, .x = up, .x_stride = up_stride, .n = n};
    kernel_for(kn, rows, row_grain(n), swiglu_some, &j);
}

void kernel_add(kernel *kn, float *x, const float *y, size_t n) {
    (void)kn;
    for (size_t i = 0; i < n; i++) x[i] = x[i] + y[i];
}

static void rope_some(void *arg, size_t begin, size_t end, unsigned worker) {
    row_job *j = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++)
        for (size_t h = 0; h < j->heads; h++) {
            float *x = j->y + r * j->y_stride + h * j->n;
            const float *cos = j->cos + r * j->half, *sin = j->sin + r * j->half;
            if (!j->interleaved) {
                j->ops->rope_half(x, cos, sin, j->half);
                continue;
            }
            for (size_t i = 0; i < j->half; i++) {
                float a = x[2 * i], b = x[2 * i + 1];
                x[2 * i] = fmaf(a, cos[i], -(b * sin[i]));
                x[2 * i + 1] = fmaf(b, cos[i], a * sin[i]);
            }
        }
}

void kernel_rope(kernel *kn, float *x, size_t x_stride, size_t rows, size_t heads, size_t head_dim, const float *cos,
                 const float *sin, size_t half, bool interleaved) {
    row_job j = {.ops = &kn->ops, .y = x, .y_stride = x_stride, .n = head_dim, .heads = heads, .cos = cos, .sin = sin};
    j.half = half;
    j.interleaved = interleaved;
    kernel_for(kn, rows, row_grain(heads * head_dim), rope_some, &j);
}
