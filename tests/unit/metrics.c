/* lib/metrics: the golden figures and intervals of NumPy and scikit-learn; edges; threads do not show. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "json/lines.h"
#include "kernel/kernel.h"
#include "metrics/measure.h"

enum { MOST = 300 };

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * fmax(1, fabs(b));
}

static void check_figures(const json *doc, const measured *m, const char *name) {
    jref figures = json_get(doc, JREF_ROOT, "figures"), intervals = json_get(doc, JREF_ROOT, "intervals");
    err e = {0};
    for (int i = 0; i < METRIC_COUNT; i++) {
        jref want = json_get(doc, figures, metric_name((metric)i)), ends = json_get(doc, intervals, metric_name((metric)i));
        double v, low, high;
        if (want == JREF_NONE) continue; /* flips are not in the golden sets */
        if (json_kind_of(doc, want) == JSON_NULL) {
            CHECK(isnan(m->m[i].value), "%s: %s is not defined", name, metric_name((metric)i));
            continue;
        }
        CHECK(json_real(doc, want, "figure", &v, &e) == ST_OK && near(m->m[i].value, v), "%s: %s is %.17g, NumPy says %.17g", name, metric_name((metric)i), m->m[i].value, v);
        if (json_kind_of(doc, ends) != JSON_ARRAY) {
            CHECK(isnan(m->m[i].low) && isnan(m->m[i].high), "%s: %s has no interval", name, metric_name((metric)i));
            continue;
        }
        bool read = json_real(doc, json_at(doc, ends, 0), "low", &low, &e) == ST_OK && json_real(doc, json_at(doc, ends, 1), "high", &high, &e) == ST_OK;
        CHECK(read && near(m->m[i].low, low) && near(m->m[i].high, high), "%s: %s lies in [%.17g, %.17g], NumPy says [%.17g, %.17g]", name, metric_name((metric)i), m->m[i].low,
              m->m[i].high, low, high);
    }
}

static size_t read_set(const json *doc, scored *x, size_t *k, err *e) {
    size_t n = 0, label, group;
    jref list = json_get(doc, JREF_ROOT, "decisions");
    if (json_size(doc, json_get(doc, JREF_ROOT, "k"), "k", k, e)) return 0;
    for (jref d = json_first(doc, list); d != JREF_NONE && n < MOST; d = json_next(doc, list, d), n++) {
        double p[OPTIONS_MAX];
        for (size_t i = 0; i < *k; i++)
            if (json_real(doc, json_at(doc, d, i), "p", &p[i], e)) return 0;
        if (json_size(doc, json_at(doc, d, *k), "label", &label, e) || json_size(doc, json_at(doc, d, *k + 1), "group", &group, e)) return 0;
        scored_set(&x[n], p, *k, label);
        x[n].group = (uint32_t)group;
    }
    return n;
}

static status take(void *ctx, const json *doc, err *e) {
    size_t *sets = ctx, k = 0, reps, seed;
    scored x[MOST];
    char *name = NULL;
    measured one = {0}, three = {0};
    kernel *kn = NULL;
    size_t n = read_set(doc, x, &k, e);
    status s = json_text_copy(doc, json_get(doc, JREF_ROOT, "name"), "name", &name, e);
    if (!s) s = json_size(doc, json_get(doc, JREF_ROOT, "replicates"), "replicates", &reps, e);
    if (!s) s = json_size(doc, json_get(doc, JREF_ROOT, "seed"), "seed", &seed, e);
    if (!s) s = kernel_open(&kn, KERNEL_REF, 3, e);
    if (s) return s;
    measure_options o = {.replicates = reps, .seed = seed};
    CHECK(n > 0 && measure(x, n, k, 6, &o, &one, e) == ST_OK, "%s: measured", name);
    check_figures(doc, &one, name);
    o.kernel = kn;
    CHECK(measure(x, n, k, 6, &o, &three, e) == ST_OK && memcmp(one.m, three.m, sizeof one.m) == 0, "%s: three threads give the same", name);
    measured_free(&one);
    measured_free(&three);
    kernel_close(kn);
    free(name);
    ++*sets;
    return ST_OK;
}

static void edges(void) {
    err e = {0};
    measured m;
    measure_options o = {0};
    scored x[4];
    double p[3] = {0.5, 0.25, 0.25}, low, high;
    CHECK(measure(x, 0, 2, 1, &o, &m, &e) == ST_INPUT && strstr(e.text, "no labelled decision"), "nothing cannot be measured: %s", e.text);
    scored_set(&x[0], p, 3, 2);
    CHECK(x[0].answer == 0 && x[0].confidence == 0.5 && x[0].p_label == 0.25 && fabs(x[0].brier - 0.875) < 1e-15 && isnan(x[0].flips) && x[0].reversed == -1, "a decision reduced");
    for (int i = 0; i < 4; i++) {
        x[i] = x[0];
        x[i].group = (uint32_t)(i % 2);
        x[i].flips = i * 0.25;
        x[i].reversed = (signed char)(i == 3 ? -1 : i == 1);
    }
    CHECK(measure(x, 4, 3, 2, &o, &m, &e) == ST_OK && m.m[METRIC_FLIPS].value == 0.375 && near(m.m[METRIC_REVERSED].value, 1.0 / 3), "flips are means of what is said");
    CHECK(m.groups == 2 && m.classes[2] == 4 && m.replicates == 1000, "groups, classes, replicates");
    measured_free(&m);
    CHECK(measure_replicates(1) == 1000 && measure_replicates(50000) == 1000 && measure_replicates(500000) == 100 && measure_replicates((size_t)1 << 40) == 50, "replicates by size");
    wilson(0, 10, &low, &high);
    CHECK(low == 0 && fabs(high - 0.2775327998628891) < 1e-12, "Wilson's interval of 0 of 10 (SciPy): %.16g", high);
    wilson(7, 10, &low, &high);
    CHECK(fabs(low - 0.39677814746114537) < 1e-12 && fabs(high - 0.8922087325936989) < 1e-12, "Wilson's interval of 7 of 10: %.16g %.16g", low, high);
}

int main(void) {
    err e = {0};
    size_t sets = 0;
    CHECK(json_lines("tests/golden/metrics.jsonl", take, &sets, &e) == ST_OK, "golden sets: %s", e.text);
    CHECK(sets == 10, "ten sets: %zu", sets);
    edges();
    return test_end();
}
