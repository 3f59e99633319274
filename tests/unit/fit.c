/* lib/fit: anyjev's folds, temperatures and heads; degenerate sets; threads do not show. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/random.h"
#include "fit/fit.h"
#include "fit/folds.h"
#include "json/lines.h"
#include "kernel/kernel.h"

static double real(const json *d, const char *key) {
    err e = {0};
    double v = NAN;
    json_real(d, json_get(d, JREF_ROOT, key), key, &v, &e);
    return v;
}

static size_t whole(const json *d, const char *key) {
    return (size_t)real(d, key);
}

static size_t reals(const json *d, jref list, double *out) {
    size_t n = 0;
    err e = {0};
    for (jref r = json_first(d, list); r != JREF_NONE; r = json_next(d, list, r)) {
        if (json_kind_of(d, r) == JSON_ARRAY) n += reals(d, r, out + n);
        else json_real(d, r, "number", &out[n++], &e);
    }
    return n;
}

static void permutation(const json *d) {
    size_t n = whole(d, "n"), *perm = calloc(n, sizeof *perm), differ = 0;
    double *want = calloc(n, sizeof *want);
    reals(d, json_get(d, JREF_ROOT, "perm"), want);
    numpy_permutation((uint32_t)real(d, "seed"), n, perm);
    for (size_t i = 0; i < n; i++) differ += perm[i] != (size_t)want[i];
    CHECK(differ == 0, "permutation(%zu) of seed %.0f is NumPy's", n, real(d, "seed"));
    free(perm);
    free(want);
}

static void temperature(const json *d) {
    size_t k = whole(d, "k"), n = json_count(d, json_get(d, JREF_ROOT, "labels")), *labels = calloc(n, sizeof *labels);
    double *p = calloc(n * k, sizeof *p), *y = calloc(n, sizeof *y);
    reals(d, json_get(d, JREF_ROOT, "probs"), p);
    reals(d, json_get(d, JREF_ROOT, "labels"), y);
    for (size_t i = 0; i < n; i++) labels[i] = (size_t)y[i];
    double t = fit_temperature(p, labels, n, k), nll = fit_nll(p, labels, n, k, t);
    CHECK(fabs(log(t) - log(real(d, "temperature"))) < 1e-6 && fabs(nll - real(d, "nll")) < 1e-12, "temperature %.12g, anyjev says %.12g", t, real(d, "temperature"));
    free(p);
    free(y);
    free(labels);
}

typedef struct golden {
    fit_set set;
    const float *blocks[8];
    size_t block[8], *labels;
    buf bytes;
} golden;

static bool golden_read(golden *g, const json *d) {
    err e = {0};
    buf scratch = {0};
    strv text;
    *g = (golden){.set = {.n = whole(d, "n"), .d = whole(d, "d"), .k = whole(d, "k"), .blocks = whole(d, "blocks")}};
    bool ok = json_text(d, json_get(d, JREF_ROOT, "features"), &scratch, &text, &e) == ST_OK && base64_get(text, &g->bytes, &e) == ST_OK;
    double *y = calloc(g->set.n, sizeof *y);
    g->labels = calloc(g->set.n, sizeof *g->labels);
    reals(d, json_get(d, JREF_ROOT, "labels"), y);
    for (size_t i = 0; i < g->set.n; i++) g->labels[i] = (size_t)y[i];
    for (size_t b = 0; b < g->set.blocks; b++) {
        g->blocks[b] = (const float *)(const void *)g->bytes.p + b * g->set.n * g->set.d;
        g->block[b] = b;
    }
    g->set.features = g->blocks;
    g->set.block = g->block;
    g->set.labels = g->labels;
    free(y);
    buf_free(&scratch);
    return ok && g->bytes.len == g->set.blocks * g->set.n * g->set.d * sizeof(float);
}

static double worst_of(const double *a, const double *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(a[i] - b[i]) / fmax(1, fabs(b[i])));
    return worst;
}

static void head_of(const json *d, kernel *kn) {
    golden g;
    err e = {0};
    char *name = NULL;
    json_text_copy(d, json_get(d, JREF_ROOT, "name"), "name", &name, &e);
    CHECK(golden_read(&g, d), "%s: read", name);
    size_t n = g.set.n, k = g.set.k, dim = g.set.d;
    uint32_t seed = (uint32_t)(json_get(d, JREF_ROOT, "seed") == JREF_NONE ? 0 : whole(d, "seed"));
    artifact a = {.k = k}, b = {.k = k};
    double *oof = calloc(n * k, sizeof *oof), *probs = calloc(n * k, sizeof *probs), *want = calloc(n * k > dim * k ? n * k : dim * k, sizeof *want);
    status s = fit_head(&g.set, seed, NULL, &a, oof, &e);
    CHECK(s == ST_OK, "%s: fitted: %s", name, e.text);
    jref solver = json_get(d, JREF_ROOT, "solver");
    CHECK(json_is(d, solver, a.head.solver) && a.head.param == real(d, "param") && a.head.block == whole(d, "layer"), "%s: %s %g at block %zu; anyjev: %.*s %g at %zu", name, a.head.solver,
          a.head.param, a.head.block, (int)json_raw(d, solver).n, json_raw(d, solver).p, real(d, "param"), whole(d, "layer"));
    /* where the NLL is 0 to rounding it is flat, and any temperature is as good */
    bool flat = a.head.oof_nll < 1e-9 && real(d, "oof_nll") < 1e-9;
    CHECK(flat || fabs(a.temperature - real(d, "temperature")) < 1e-6 * real(d, "temperature"), "%s: temperature %.12g, anyjev %.12g", name, a.temperature, real(d, "temperature"));
    CHECK(fabs(a.head.oof_nll - real(d, "oof_nll")) < 1e-8 && fabs(a.head.oof_accuracy - real(d, "oof_acc")) < 1e-12, "%s: out-of-fold NLL %.12g and accuracy", name, a.head.oof_nll);
    for (size_t i = 0; i < n; i++) head_probs(&a, g.blocks[a.head.block] + i * dim, a.head.mean, a.head.scale, probs + i * k);
    reals(d, json_get(d, JREF_ROOT, "probs"), want);
    CHECK(worst_of(probs, want, n * k) < (flat ? 1e-4 : 1e-7), "%s: probabilities differ by %g", name, worst_of(probs, want, n * k));
    reals(d, json_get(d, JREF_ROOT, "W"), want);
    CHECK(worst_of(a.head.W, want, dim * k) < 1e-7, "%s: weights differ by %g", name, worst_of(a.head.W, want, dim * k));
    CHECK(fit_head(&g.set, seed, kn, &b, NULL, &e) == ST_OK && memcmp(a.head.W, b.head.W, dim * k * sizeof *a.head.W) == 0 && a.temperature == b.temperature, "%s: three threads give the same bits", name);
    artifact_free(&a);
    artifact_free(&b);
    free(oof);
    free(probs);
    free(want);
    free(g.labels);
    buf_free(&g.bytes);
    free(name);
}

typedef struct context {
    kernel *kn;
    size_t lines;
} context;

static status take(void *ctx, const json *d, err *e) {
    context *c = ctx;
    jref what = json_get(d, JREF_ROOT, "what");
    (void)e;
    if (json_is(d, what, "permutation")) permutation(d);
    else if (json_is(d, what, "temperature")) temperature(d);
    else head_of(d, c->kn);
    c->lines++;
    return ST_OK;
}

static void degenerate(void) {
    enum { N = 12, D = 4 };
    float x[N * D];
    const float *blocks[] = {x};
    size_t block[] = {3}, labels[N];
    fit_set s = {.features = blocks, .block = block, .blocks = 1, .d = D, .n = N, .k = 2, .labels = labels};
    artifact a = {.k = 2};
    err e = {0};
    for (size_t i = 0; i < N; i++) labels[i] = 1;
    for (size_t i = 0; i < N * D; i++) x[i] = (float)(i % 7) - 3;
    CHECK(fit_head(&s, 0, NULL, &a, NULL, &e) == ST_INPUT && strstr(e.text, "one class"), "one class: %s", e.text);
    artifact_free(&a);
    a.k = 2;
    for (size_t i = 0; i < N; i++) labels[i] = i % 2;
    s.n = 7;
    CHECK(fit_head(&s, 0, NULL, &a, NULL, &e) == ST_INPUT && strstr(e.text, "needs at least 8"), "too few labels: %s", e.text);
    s.n = N;
    for (size_t i = 0; i < N * D; i++) x[i] = 1;
    status st = fit_head(&s, 0, NULL, &a, NULL, &e);
    CHECK(st == ST_OK && strcmp(a.head.solver, "ridge") == 0 && isfinite(a.temperature) && isfinite(a.head.b[0]), "constant features: only ridge can be solved, and nothing is NaN");
    double p[2];
    head_probs(&a, x, a.head.mean, a.head.scale, p);
    CHECK(fabs(p[0] - 0.5) < 1e-9 && fabs(p[0] + p[1] - 1) < 1e-12, "constant features tell nothing: %g", p[0]);
    artifact_free(&a);
}

static double uniform(rng *r) {
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* Confidence c is uniform on [0.5, 1], an answer is wrong with probability 1.5 (1 - c): above a threshold t the error is
 * 0.75 (1 - t). A certificate at risk 0.1 may promise too much in at most delta of the draws. */
static void promise(void) {
    enum { DRAWS = 2000, N = 1500 };
    static double confidence[N];
    static bool right[N];
    const double risk = 0.1, delta = 0.1;
    size_t broken = 0, found = 0;
    rng r = {42};
    for (size_t draw = 0; draw < DRAWS; draw++) {
        certificate c;
        for (size_t i = 0; i < N; i++) {
            confidence[i] = 0.5 + uniform(&r) / 2;
            right[i] = uniform(&r) >= 1.5 * (1 - confidence[i]);
        }
        certify(confidence, right, N, 100, 2, risk, delta, &c);
        found += c.found;
        broken += c.found && 0.75 * (1 - c.threshold) > risk;
    }
    CHECK(found > DRAWS / 2, "a threshold is found in %zu of %d draws", found, DRAWS);
    CHECK((double)broken <= delta * DRAWS, "the promise is broken in %zu of %d draws", broken, DRAWS);
}

static void certificates(void) {
    enum { N = 200 };
    static double confidence[N];
    static bool right[N];
    certificate c;
    CHECK(fabs(clopper_pearson(0, 100, 0.05) - 0.029513049607039925) < 1e-12 && fabs(clopper_pearson(3, 50, 0.05) - 0.14783717636418123) < 1e-12 &&
              fabs(clopper_pearson(10, 200, 0.01) - 0.09818191660329778) < 1e-12 && fabs(clopper_pearson(49, 50, 0.1) - 0.9978950082958632) < 1e-12,
          "Clopper and Pearson's bounds are SciPy's");
    CHECK(clopper_pearson(5, 5, 0.1) == 1 && clopper_pearson(0, 0, 0.1) == 1, "all wrong, or none at all: 1");
    for (size_t i = 0; i < N; i++) confidence[i] = 0.99, right[i] = true;
    certify(confidence, right, N, 29, 2, 0.05, 0.1, &c);
    CHECK(!c.found && c.missing_negatives == 1, "29 negatives certify nothing: %zu is missing", c.missing_negatives);
    certify(confidence, right, 40, 30, 2, 0.05, 0.1, &c);
    CHECK(!c.found && c.missing_negatives == 64, "40 decisions cannot certify 5 %%: %zu more are needed", c.missing_negatives);
    certify(confidence, right, N, 30, 2, 0.05, 0.1, &c);
    CHECK(c.found && c.coverage == 1 && c.bound <= 0.05 && c.errors == 0, "200 right ones certify");
    for (size_t i = 0; i < N; i += 5) right[i] = false;
    certify(confidence, right, N, 30, 2, 0.05, 0.1, &c);
    CHECK(!c.found && !c.missing_negatives, "a fifth wrong certifies nothing");
}

/* Probabilities that a temperature cannot mend: over-confident on one side only. */
static void calibrators(void) {
    enum { N = 600 };
    static double two[N * 2], three[N * 3];
    static size_t y2[N], y3[N];
    rng r = {5};
    artifact a = {.k = 2}, b = {.k = 3};
    double nll[2];
    err e = {0};
    for (size_t i = 0; i < N; i++) {
        double p = uniform(&r), truth = p < 0.5 ? 0.05 : 0.6;
        two[i * 2] = 0.001 + 0.998 * p;
        two[i * 2 + 1] = 1 - two[i * 2];
        y2[i] = uniform(&r) < truth ? 0 : 1;
        y3[i] = i % 3;
        for (size_t c = 0; c < 3; c++) three[i * 3 + c] = (c == y3[i] ? 1 : 0.4) + uniform(&r) + (c == 0 ? 2 : 0);
        double sum = three[i * 3] + three[i * 3 + 1] + three[i * 3 + 2];
        for (size_t c = 0; c < 3; c++) three[i * 3 + c] /= sum;
    }
    a.temperature = fit_temperature(two, y2, N, 2);
    CHECK(fit_calibration(two, y2, N, 2, 0, &a, nll, &e) == ST_OK && a.calibration.kind >= CALIBRATOR_ISOTONIC && nll[1] < nll[0] - 0.05, "two options: %s beats the temperature, %.4f to %.4f",
          calibrator_name(a.calibration.kind), nll[1], nll[0]);
    bool rises = true;
    double last = 0;
    for (int i = 0; i <= 100; i++) {
        double p[2] = {i / 100.0, 1 - i / 100.0};
        artifact_calibrate(&a, p);
        rises &= p[0] > 0 && p[0] < 1 && fabs(p[0] + p[1] - 1) < 1e-12 && (a.calibration.kind == CALIBRATOR_HISTOGRAM || p[0] >= last);
        last = p[0];
    }
    CHECK(rises, "its probabilities rise, and none is 0 or 1");
    b.temperature = fit_temperature(three, y3, N, 3);
    CHECK(fit_calibration(three, y3, N, 3, 0, &b, nll, &e) == ST_OK && b.calibration.kind == CALIBRATOR_VECTOR && nll[1] < nll[0] - 0.05, "three options: vector scaling beats the temperature, %.4f to %.4f",
          nll[1], nll[0]);
    for (size_t i = 0; i < N * 3; i++) three[i] = 1.0 / 3;
    CHECK(fit_calibration(three, y3, N, 3, 0, &b, nll, &e) == ST_OK && isfinite(nll[0]) && isfinite(nll[1]), "uniform probabilities are no trouble");
}

static void blocks(void) {
    size_t b[FIT_BLOCKS];
    CHECK(fit_blocks(36, b) == 5 && b[0] == 18 && b[1] == 22 && b[2] == 25 && b[3] == 31 && b[4] == 36, "of 36 blocks: 18 22 25 31 36");
    CHECK(fit_blocks(30, b) == 5 && b[3] == 26 && b[1] == 18, "25.5 goes to the even 26");
    CHECK(fit_blocks(5, b) == 4 && b[0] == 2 && b[1] == 3 && b[2] == 4 && b[3] == 5, "of 5 blocks: 2 3 4 5");
    CHECK(fit_blocks(1, b) == 1 && b[0] == 1, "of one block: itself");
}

int main(void) {
    err e = {0};
    context c = {0};
    CHECK(kernel_open(&c.kn, KERNEL_REF, 3, &e) == ST_OK, "threads");
    CHECK(json_lines("tests/golden/heads.jsonl", take, &c, &e) == ST_OK, "golden values: %s", e.text);
    CHECK(c.lines == 24, "twenty-four lines: %zu", c.lines);
    degenerate();
    blocks();
    certificates();
    promise();
    calibrators();
    kernel_close(c.kn);
    return test_end();
}
