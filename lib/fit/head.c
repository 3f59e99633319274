#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fit/fit.h"
#include "fit/folds.h"
#include "fit/gram.h"
#include "fit/solve.h"
#include "kernel/kernel.h"

/* What is tried, in this order; of equal ones the first stays. */
static const struct {
    solver solver;
    double param;
} grid[] = {{SOLVER_LDA, 0.3}, {SOLVER_LDA, 0.6}, {SOLVER_LDA, 0.9}, {SOLVER_RIDGE, 0.1}, {SOLVER_RIDGE, 1}, {SOLVER_RIDGE, 10}, {SOLVER_RIDGE, 100}};
enum { GRID = sizeof grid / sizeof *grid, LDAS = 3 };

size_t fit_blocks(size_t n_blocks, size_t block[FIT_BLOCKS]) {
    static const double share[FIT_BLOCKS] = {0.5, 0.6, 0.7, 0.85, 1.0};
    size_t n = 0;
    for (size_t i = 0; i < FIT_BLOCKS; i++) {
        size_t b = (size_t)rint(share[i] * (double)n_blocks); /* halves to even, as Python rounds */
        if (b < 1) b = 1;
        if (!n || block[n - 1] != b) block[n++] = b;
    }
    return n;
}

size_t fit_least(size_t k) {
    return 2 * k > 8 ? 2 * k : 8;
}

/* The cross-validation: out-of-fold scores of every block and grid point. */
typedef struct search {
    const fit_set *set;
    const size_t *fold;
    size_t folds;
    double *scores; /* [block][grid][n][k] */
    bool *failed;   /* [block][grid]; set by any fold */
    double *scratch; /* per worker: see scratch_size */
    unsigned char *in;
    size_t each; /* doubles of scratch per worker */
} search;

static size_t scratch_size(const fit_set *s) {
    return 2 * s->d + gram_scratch(s->n) + s->n * s->n + dual_work(s->n, s->k) + s->n * s->k + s->k;
}

/* One (block, fold). */
static void one_fold(const search *x, size_t block, size_t fold, unsigned worker) {
    const fit_set *s = x->set;
    size_t n = s->n, k = s->k;
    double *mean = x->scratch + worker * x->each, *scale = mean + s->d, *panel = scale + s->d, *g = panel + gram_scratch(n);
    double *work = g + n * n, *scores = work + dual_work(n, k), *bias = scores + n * k;
    unsigned char *in = x->in + worker * n;
    for (size_t i = 0; i < n; i++) in[i] = x->fold[i] != fold;
    gram_standardise(s->features[block], n, s->d, in, mean, scale);
    gram_make(s->features[block], n, s->d, mean, scale, panel, g);
    dual problem = {.n = n, .k = k, .d = s->d, .g = g, .labels = s->labels, .in = in, .work = work};
    for (size_t p = 0; p < GRID; p++) {
        double *out = x->scores + (block * GRID + p) * n * k;
        bool ok = dual_solve(&problem, grid[p].solver, grid[p].param, scores, NULL, bias);
        for (size_t i = 0; i < n; i++)
            if (!in[i])
                for (size_t c = 0; c < k; c++) out[i * k + c] = ok ? scores[i * k + c] : NAN;
    }
}

static void search_part(void *arg, size_t begin, size_t end, unsigned worker) {
    const search *x = arg;
    for (size_t i = begin; i < end; i++) one_fold(x, i / x->folds, i % x->folds, worker);
}

typedef struct choice {
    size_t block, point;
    double nll, accuracy, temperature;
    bool found;
} choice;

/* Softmaxed scores into probs; false when a fold could not be solved. */
static bool softmaxed(const double *scores, size_t n, size_t k, double *probs) {
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < k; c++)
            if (!isfinite(scores[i * k + c])) return false;
        decide_softmax(probs + i * k, scores + i * k, k);
    }
    return true;
}

static double accuracy_of(const double *scores, const size_t *labels, size_t n, size_t k) {
    size_t right = 0;
    for (size_t i = 0; i < n; i++) {
        size_t best = 0;
        for (size_t c = 1; c < k; c++)
            if (scores[i * k + c] > scores[i * k + best]) best = c;
        right += best == labels[i];
    }
    return (double)right / (double)n;
}

/* AnyJev fits each kind of head over all blocks and parameters, then keeps the better kind: lda wins ties. */
static choice choose(const search *x, double *probs) {
    const fit_set *s = x->set;
    choice best[2] = {{.found = false}, {.found = false}};
    for (size_t kind = 0; kind < 2; kind++)
        for (size_t b = 0; b < s->blocks; b++)
            for (size_t p = kind ? LDAS : 0; p < (kind ? GRID : LDAS); p++) {
                const double *scores = x->scores + (b * GRID + p) * s->n * s->k;
                if (!softmaxed(scores, s->n, s->k, probs)) continue;
                double t = fit_temperature(probs, s->labels, s->n, s->k), nll = fit_nll(probs, s->labels, s->n, s->k, t);
                if (isfinite(nll) && (!best[kind].found || nll < best[kind].nll))
                    best[kind] = (choice){b, p, nll, accuracy_of(scores, s->labels, s->n, s->k), t, true};
            }
    return !best[0].found || (best[1].found && best[1].nll < best[0].nll) ? best[1] : best[0];
}

/* W = sum over rows of coef times the standardised row. */
static void weights_of(const fit_set *s, const float *x, const double *mean, const double *scale, const double *coef, double *W) {
    memset(W, 0, s->d * s->k * sizeof *W);
    for (size_t t = 0; t < s->n; t++)
        for (size_t j = 0; j < s->d; j++) {
            double z = ((double)x[t * s->d + j] - mean[j]) / scale[j];
            for (size_t c = 0; c < s->k; c++) W[j * s->k + c] += coef[t * s->k + c] * z;
        }
}

static status refit(const search *x, const choice *best, artifact *out, err *e) {
    const fit_set *s = x->set;
    const float *features = s->features[best->block];
    head *h = &out->head;
    const char *name = solver_name(grid[best->point].solver);
    double *panel = x->scratch + 2 * s->d, *g = panel + gram_scratch(s->n), *work = g + s->n * s->n, *scores = work + dual_work(s->n, s->k);
    double *coef = mem_alloc(s->n, s->k * sizeof *coef);
    h->mean = mem_alloc(s->d, sizeof *h->mean);
    h->scale = mem_alloc(s->d, sizeof *h->scale);
    h->W = mem_alloc(s->d, s->k * sizeof *h->W);
    h->b = mem_alloc(s->k, sizeof *h->b);
    h->solver = mem_text(name, strlen(name));
    status st = coef && h->mean && h->scale && h->W && h->b && h->solver ? ST_OK : err_memory(e, s->d * s->k * sizeof *h->W);
    if (!st) {
        gram_standardise(features, s->n, s->d, NULL, h->mean, h->scale);
        gram_make(features, s->n, s->d, h->mean, h->scale, panel, g);
        dual problem = {.n = s->n, .k = s->k, .d = s->d, .g = g, .labels = s->labels, .work = work};
        if (dual_solve(&problem, grid[best->point].solver, grid[best->point].param, scores, coef, h->b)) weights_of(s, features, h->mean, h->scale, coef, h->W);
        else st = err_set(e, ST_INPUT, "the chosen head cannot be solved on all labels");
    }
    h->param = grid[best->point].param;
    h->block = s->block[best->block];
    h->d = s->d;
    h->oof_nll = best->nll;
    h->oof_accuracy = best->accuracy;
    out->is_head = true;
    out->temperature = best->temperature;
    out->n_calib = s->n;
    free(coef);
    return st;
}

static status check(const fit_set *s, err *e) {
    size_t classes = 0;
    if (s->n < fit_least(s->k)) return err_set(e, ST_INPUT, "%zu labels; a head over %zu options needs at least %zu", s->n, s->k, fit_least(s->k));
    for (size_t c = 0; c < s->k; c++) {
        size_t i = 0;
        while (i < s->n && s->labels[i] != c) i++;
        classes += i < s->n;
    }
    if (classes < 2) return err_set(e, ST_INPUT, "one class among the labels: there is nothing to tell apart");
    return ST_OK;
}

status fit_head(const fit_set *s, uint32_t seed, struct kernel *kn, artifact *out, double *oof, err *e) {
    status st = check(s, e);
    if (st) return st;
    size_t workers = kn ? kernel_threads(kn) : 1, cells, total;
    search x = {.set = s, .folds = s->n < FOLDS ? s->n : FOLDS, .each = scratch_size(s)};
    size_t *fold = mem_alloc(s->n, sizeof *fold);
    if (!size_mul(s->n * s->k, s->blocks * GRID, &cells) || !size_mul(x.each, workers, &total)) st = err_memory(e, SIZE_MAX);
    if (!st) {
        x.scores = mem_alloc(cells, sizeof *x.scores);
        x.scratch = mem_alloc(total, sizeof *x.scratch);
        x.in = mem_alloc(s->n, workers);
        if (!fold || !x.scores || !x.scratch || !x.in) st = err_memory(e, (cells + total) * sizeof *x.scores);
    }
    if (!st) st = folds_make(seed, s->n, FOLDS, fold, e);
    x.fold = fold;
    if (!st) {
        if (kn) kernel_for(kn, s->blocks * x.folds, 1, search_part, &x);
        else search_part(&x, 0, s->blocks * x.folds, 0);
        choice best = choose(&x, x.scratch); /* scratch holds n * n doubles: room for n * k */
        if (!best.found) st = err_set(e, ST_INPUT, "no head can be solved: the features do not vary within the classes");
        if (!st && oof) softmaxed(x.scores + (best.block * GRID + best.point) * s->n * s->k, s->n, s->k, oof);
        if (!st) st = refit(&x, &best, out, e);
    }
    free(fold);
    free(x.scores);
    free(x.scratch);
    free(x.in);
    return st;
}
