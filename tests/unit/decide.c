/* lib/decide at L0: anyjev's values on the same log-probabilities; masks. */
#include "test.h"

#include <math.h>

#include "decide/decide.h"
#include "json/lines.h"

static bool row(const json *d, jref r, double *out, size_t n) {
    err e = {0};
    size_t i = 0;
    for (jref x = json_first(d, r); x != JREF_NONE && i < n; x = json_next(d, r, x), i++)
        if (json_real(d, x, "number", &out[i], &e)) return false;
    return i == n;
}

/* Distributions of item i of a list, and its permutations. */
static bool item(const json *d, jref list, size_t i, size_t k, size_t shifts, double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX]) {
    jref at = json_at(d, list, i);
    for (size_t s = 0; s < shifts; s++) {
        double lp[DECIDE_MAX];
        if (!row(d, json_at(d, at, s), lp, k)) return false;
        decide_softmax(p[s], lp, k);
        for (size_t j = 0; j < k; j++) perm[s][j] = (j + s) % k;
    }
    return true;
}

static status take(void *ctx, const json *d, err *e) {
    size_t *runs = ctx, k, shifts;
    double strength, flips_raw[32], flips[32];
    double p[DECIDE_MAX][DECIDE_MAX];
    size_t perm[DECIDE_MAX][DECIDE_MAX];
    jref items = json_get(d, JREF_ROOT, "logprobs"), probes = json_get(d, JREF_ROOT, "probes"), want = json_get(d, JREF_ROOT, "probs"), prior_at = json_get(d, JREF_ROOT, "prior");
    status s = json_size(d, json_get(d, JREF_ROOT, "k"), "k", &k, e);
    if (!s) s = json_real(d, json_get(d, JREF_ROOT, "strength"), "strength", &strength, e);
    if (s) return s;
    size_t n = json_count(d, items);
    bool mean = json_is(d, json_get(d, JREF_ROOT, "combine"), "mean"), free_of_content = json_is(d, prior_at, "content_free");
    shifts = json_is(d, json_get(d, JREF_ROOT, "kind"), "score") ? 1 : k;
    decide_prior prior = {.k = k, .shifts = shifts};
    jref from = free_of_content ? probes : items;
    for (size_t i = 0; i < json_count(d, from); i++) {
        if (!item(d, from, i, k, shifts, p, perm)) return err_set(e, ST_INPUT, "item %zu", i);
        decide_prior_add(&prior, p);
    }
    bool used = free_of_content || (json_is(d, prior_at, "batch") && n >= DECIDE_PRIOR_ITEMS);
    double worst = 0;
    bool flips_same = row(d, json_get(d, JREF_ROOT, "flips_raw"), flips_raw, n) && row(d, json_get(d, JREF_ROOT, "flips"), flips, n);
    for (size_t i = 0; i < n; i++) {
        double expected[DECIDE_MAX];
        decide_result r;
        if (!item(d, items, i, k, shifts, p, perm) || !row(d, json_at(d, want, i), expected, k)) return err_set(e, ST_INPUT, "item %zu", i);
        decide_l0(p, perm, shifts, k, used ? &prior : NULL, strength, mean, &r);
        for (size_t o = 0; o < k; o++) worst = fmax(worst, fabs(r.probs[o] - expected[o]));
        flips_same &= fabs(r.flips_raw - flips_raw[i]) < 1e-15 && fabs(r.flips - flips[i]) < 1e-15;
    }
    CHECK(worst <= 1e-12, "run %zu: %zu options, largest difference to anyjev %g", *runs, k, worst);
    CHECK(flips_same, "run %zu: flips raw and corrected", *runs);
    ++*runs;
    return ST_OK;
}

static void masks(void) {
    decide_result r = {.probs = {0.5, 0.3, 0.2}, .answer = 0, .confidence = 0.5};
    bool out[] = {true, false, false}, all[] = {true, true, true};
    CHECK(decide_mask(&r, out, 3) == 0.5 && r.answer == 1 && r.probs[0] == 0 && fabs(r.probs[1] - 0.6) < 1e-15 && fabs(r.margin - 0.2) < 1e-15, "a mask takes its options' mass away");
    decide_result same = r;
    CHECK(fabs(decide_mask(&r, all, 3) - 1) < 1e-15 && memcmp(&r, &same, sizeof r) == 0, "a mask of everything changes nothing");
}

int main(void) {
    size_t runs = 0;
    err e = {0};
    CHECK(json_lines("tests/golden/decide.jsonl", take, &runs, &e) == ST_OK, "golden runs: %s", e.text);
    CHECK(runs == 31, "thirty-one runs: %zu", runs);
    masks();
    return test_end();
}
