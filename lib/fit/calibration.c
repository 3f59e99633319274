/* Calibrators that may beat the temperature. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fit/fit.h"
#include "fit/folds.h"
#include "kernel/kernel.h"

static const double clip = 1e-12;

/* --- steps of p_true, for two options --- */

typedef struct pair {
    double p;
    size_t place;
    bool yes;
} pair;

static int by_p(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* A share of Yes that is never 0 or 1 (Laplace's rule of succession). */
static double share(double yes, double n) {
    return (yes + 1) / (n + 2);
}

/* Equal-mass bins; equal probabilities stay together. */
static void histogram(const pair *x, size_t n, calibration *c) {
    enum { BINS = 10 };
    c->steps = 0;
    for (size_t i = 0; i < n && c->steps < CALIBRATOR_STEPS;) {
        size_t end = i + (n - i + (BINS - c->steps) - 1) / (c->steps < BINS ? BINS - c->steps : 1), yes = 0, from = i;
        if (end > n) end = n;
        while (end < n && x[end].p == x[end - 1].p) end++;
        for (; i < end; i++) yes += x[i].yes;
        if (c->steps) c->edge[c->steps - 1] = (x[from - 1].p + x[from].p) / 2;
        c->value[c->steps++] = share((double)yes, (double)(end - from));
    }
}

/* Pool adjacent violators: blocks whose shares rise. */
static bool isotonic(const pair *x, size_t n, calibration *c) {
    double *yes = mem_alloc(n, sizeof *yes), *size = mem_alloc(n, sizeof *size);
    size_t *end = mem_alloc(n, sizeof *end), m = 0;
    bool ok = yes && size && end;
    for (size_t i = 0; ok && i < n;) {
        size_t from = i;
        yes[m] = 0;
        for (; i < n && x[i].p == x[from].p; i++) yes[m] += x[i].yes;
        size[m] = (double)(i - from);
        end[m++] = i;
        while (m > 1 && yes[m - 2] * size[m - 1] >= yes[m - 1] * size[m - 2]) {
            yes[m - 2] += yes[m - 1];
            size[m - 2] += size[m - 1];
            end[m - 2] = end[m - 1];
            m--;
        }
    }
    ok = ok && m <= CALIBRATOR_STEPS;
    c->steps = ok ? m : 0;
    for (size_t b = 0; ok && b < m; b++) {
        c->value[b] = share(yes[b], size[b]);
        if (b) c->edge[b - 1] = (x[end[b - 1] - 1].p + x[end[b - 1]].p) / 2;
        /* smoothing may disturb the order of small blocks */
        if (b && c->value[b] < c->value[b - 1]) c->value[b] = c->value[b - 1];
    }
    free(yes);
    free(size);
    free(end);
    return ok;
}

/* --- vector scaling, for more options: gradient descent on a convex loss with an L2 pull towards the temperature --- */

static double vector_loss(const double *z, const size_t *labels, const unsigned char *in, size_t n, size_t k, const double *w, const double *b, double *grad) {
    enum { PULL = 1 };
    double loss = 0;
    size_t m = 0;
    memset(grad, 0, 2 * k * sizeof *grad);
    for (size_t i = 0; i < n; i++) {
        double p[DECIDE_MAX];
        if (!in[i]) continue;
        m++;
        for (size_t c = 0; c < k; c++) p[c] = z[i * k + c] * w[c] + b[c];
        decide_softmax(p, p, k);
        loss -= kernel_log(p[labels[i]] > clip ? p[labels[i]] : clip);
        for (size_t c = 0; c < k; c++) {
            double d = p[c] - (labels[i] == c ? 1 : 0);
            grad[c] += d * z[i * k + c];
            grad[k + c] += d;
        }
    }
    double mean_w = 0;
    for (size_t c = 0; c < k; c++) mean_w += w[c] / (double)k;
    for (size_t c = 0; c < k; c++) {
        loss += PULL * ((w[c] - mean_w) * (w[c] - mean_w) + b[c] * b[c]);
        grad[c] += 2 * PULL * (w[c] - mean_w);
        grad[k + c] += 2 * PULL * b[c];
    }
    for (size_t c = 0; c < 2 * k; c++) grad[c] /= (double)(m ? m : 1);
    return loss / (double)(m ? m : 1);
}

static void vector_scaling(const double *z, const size_t *labels, const unsigned char *in, size_t n, size_t k, double temperature, calibration *out) {
    double grad[2 * DECIDE_MAX], next_grad[2 * DECIDE_MAX], w[DECIDE_MAX], b[DECIDE_MAX], step = 0.5;
    for (size_t c = 0; c < k; c++) {
        out->w[c] = 1 / temperature;
        out->b[c] = 0;
    }
    double loss = vector_loss(z, labels, in, n, k, out->w, out->b, grad);
    for (int i = 0; i < 500 && step > 1e-10; i++) {
        double slope = 0;
        for (size_t c = 0; c < 2 * k; c++) slope += grad[c] * grad[c];
        for (size_t c = 0; c < k; c++) {
            w[c] = out->w[c] - step * grad[c];
            b[c] = out->b[c] - step * grad[k + c];
        }
        double next = vector_loss(z, labels, in, n, k, w, b, next_grad);
        if (!(next <= loss - 1e-4 * step * slope)) { /* Armijo */
            step /= 2;
            continue;
        }
        memcpy(out->w, w, k * sizeof *w);
        memcpy(out->b, b, k * sizeof *b);
        memcpy(grad, next_grad, 2 * k * sizeof *grad);
        if (loss - next < 1e-12) break;
        loss = next;
        step *= 1.5;
    }
}

/* --- the choice --- */

/* Fits one kind on the rows that take part. */
static bool fit_one(calibrator kind, const double *probs, const double *z, const size_t *labels, const unsigned char *in, size_t n, size_t k, pair *scratch, artifact *a) {
    size_t m = 0;
    double temperature = a->temperature;
    a->calibration = (calibration){.kind = kind};
    if (kind == CALIBRATOR_VECTOR) {
        vector_scaling(z, labels, in, n, k, temperature, &a->calibration);
        return true;
    }
    for (size_t i = 0; i < n; i++)
        if (in[i]) scratch[m] = (pair){probs[i * k], i, labels[i] == 0}, m++;
    qsort(scratch, m, sizeof *scratch, by_p);
    if (kind == CALIBRATOR_ISOTONIC) return isotonic(scratch, m, &a->calibration);
    histogram(scratch, m, &a->calibration);
    return a->calibration.steps > 0;
}

/* Temperature of the rows that take part. */
static double temperature_of(const double *probs, const size_t *labels, const unsigned char *in, size_t n, size_t k, double *some, size_t *some_labels) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (!in[i]) continue;
        memcpy(some + m * k, probs + i * k, k * sizeof *some);
        some_labels[m++] = labels[i];
    }
    return fit_temperature(some, some_labels, m, k);
}

status fit_calibration(const double *probs, const size_t *labels, size_t n, size_t k, uint32_t seed, artifact *out, double nll[2], err *e) {
    enum { KINDS = 4 };
    size_t *fold = mem_alloc(n, sizeof *fold), *some_labels = mem_alloc(n, sizeof *some_labels), folds = n < FOLDS ? n : FOLDS;
    double *z = mem_alloc(n, k * sizeof *z), *some = mem_alloc(n, k * sizeof *some), total[KINDS] = {0};
    pair *scratch = mem_alloc(n, sizeof *scratch);
    unsigned char *in = mem_alloc(n, 1);
    bool possible[KINDS] = {true, k > 2, k == 2, k == 2};
    status s = fold && some_labels && z && some && scratch && in ? folds_make(seed, n, FOLDS, fold, e) : err_memory(e, n * k * sizeof *z);
    for (size_t i = 0; !s && i < n * k; i++) z[i] = kernel_log(probs[i] > clip ? probs[i] : clip);
    double temperature = out->temperature;
    for (size_t f = 0; !s && f < folds; f++) {
        for (size_t i = 0; i < n; i++) in[i] = fold[i] != f;
        double t = temperature_of(probs, labels, in, n, k, some, some_labels);
        for (int kind = 0; kind < KINDS; kind++) {
            artifact a = {.k = k, .temperature = t};
            if (!possible[kind]) continue;
            if (kind && !fit_one((calibrator)kind, probs, z, labels, in, n, k, scratch, &a)) {
                possible[kind] = false;
                continue;
            }
            for (size_t i = 0; i < n; i++) {
                double p[DECIDE_MAX];
                if (in[i]) continue;
                memcpy(p, probs + i * k, k * sizeof *p);
                artifact_calibrate(&a, p);
                total[kind] -= kernel_log(p[labels[i]] > clip ? p[labels[i]] : clip);
            }
        }
    }
    int best = 0;
    for (int kind = 1; kind < KINDS; kind++)
        if (possible[kind] && total[kind] < total[best]) best = kind;
    nll[0] = total[0] / (double)n;
    nll[1] = total[best] / (double)n;
    if (!s && best) {
        memset(in, 1, n);
        out->temperature = temperature;
        if (!fit_one((calibrator)best, probs, z, labels, in, n, k, scratch, out)) out->calibration = (calibration){.kind = CALIBRATOR_TEMPERATURE};
    }
    free(fold);
    free(some_labels);
    free(z);
    free(some);
    free(scratch);
    free(in);
    return s;
}
