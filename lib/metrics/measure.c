#include "metrics/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "kernel/kernel.h"

static const struct {
    const char *name, *title;
} metrics[METRIC_COUNT] = {
    [METRIC_ACCURACY] = {"accuracy", "accuracy"},      [METRIC_MACRO_F1] = {"macro_f1", "macro F1"},
    [METRIC_BRIER] = {"brier", "Brier"},               [METRIC_NLL] = {"nll", "NLL"},
    [METRIC_ECE] = {"ece", "ECE"},                     [METRIC_COVERAGE_5] = {"coverage_at_5", "cov@5%"},
    [METRIC_COVERAGE_10] = {"coverage_at_10", "cov@10%"}, [METRIC_AURC] = {"aurc", "AURC"},
    [METRIC_AUROC] = {"auroc", "AUROC"},               [METRIC_FLIPS] = {"flip_rate", "flips"},
    [METRIC_REVERSED] = {"reversal_flip_rate", "flips reversed"},
};

enum { DECISIONS_MAX = 1 << 28 }; /* products of two counts stay whole numbers */
static const double nll_clip = 1e-12;

const char *metric_name(metric m) {
    return metrics[m].name;
}

const char *metric_title(metric m) {
    return metrics[m].title;
}

void scored_set(scored *x, const double *probs, size_t k, size_t label) {
    size_t best = 0;
    *x = (scored){.p_label = probs[label], .p_first = probs[0], .flips = NAN, .reversed = -1, .label = (unsigned char)label};
    for (size_t i = 0; i < k; i++) {
        double d = probs[i] - (i == label ? 1 : 0);
        if (probs[i] > probs[best]) best = i;
        x->brier += d * d;
    }
    x->answer = (unsigned char)best;
    x->confidence = probs[best];
}

/* Where a decision stands in the order of a sort: group, and flags. */
typedef struct ranked {
    uint32_t group;
    bool good; /* by confidence: the answer is right; by the first option's probability: the label is the first option */
    bool tied; /* with the one before */
} ranked;

/* What means need of a group: sums over its decisions. */
typedef struct group_sums {
    double nll, brier, flips;
    size_t n, flips_n, reversed, reversed_n;
} group_sums;

/* The decisions made ready for many walks with other multiplicities of the groups. */
typedef struct sample {
    ranked *by_confidence, *by_first; /* [n], ascending; by_first only for two options */
    double *confidence;               /* [n], ascending */
    size_t n, k, n_groups;
    group_sums *sums; /* [n_groups] */
    size_t *counts;   /* [n_groups][3][k]: labels, answers, both */
} sample;

typedef struct keyed {
    uint64_t bits; /* of a double >= 0: they order as the numbers do */
    uint32_t place;
} keyed;

/* Stable, by 16 bits at a time: LSD radix. x and spare have room for n; the result is in x. */
static void sort_keyed(keyed *x, keyed *spare, size_t n, size_t *count) {
    for (int shift = 0; shift < 64; shift += 16) {
        memset(count, 0, ((size_t)1 << 16) * sizeof *count);
        for (size_t i = 0; i < n; i++) count[x[i].bits >> shift & 0xFFFF]++;
        for (size_t d = 0, sum = 0; d < (size_t)1 << 16; d++) {
            size_t c = count[d];
            count[d] = sum;
            sum += c;
        }
        for (size_t i = 0; i < n; i++) spare[count[x[i].bits >> shift & 0xFFFF]++] = x[i];
        keyed *t = x;
        x = spare;
        spare = t;
    }
}

static uint64_t bits_of(double v) {
    uint64_t b;
    v += 0.0; /* -0 would sort last */
    memcpy(&b, &v, sizeof b);
    return b;
}

static void sum_groups(sample *s, const scored *x) {
    for (size_t i = 0; i < s->n; i++) {
        const scored *d = &x[i];
        group_sums *g = &s->sums[d->group];
        size_t *c = s->counts + d->group * 3 * s->k;
        g->n++;
        g->nll -= kernel_log(d->p_label > nll_clip ? d->p_label : nll_clip);
        g->brier += d->brier;
        if (!isnan(d->flips)) g->flips += d->flips, g->flips_n++;
        if (d->reversed >= 0) g->reversed += (size_t)d->reversed, g->reversed_n++;
        c[d->label]++;
        c[s->k + d->answer]++;
        if (d->label == d->answer) c[2 * s->k + d->label]++;
    }
}

static void rank(const scored *x, keyed *order, size_t n, bool first, ranked *out, double *key) {
    for (size_t i = 0; i < n; i++) {
        const scored *d = &x[order[i].place];
        out[i] = (ranked){.group = d->group, .good = first ? d->label == 0 : d->answer == d->label, .tied = i && order[i].bits == order[i - 1].bits};
        if (key) key[i] = d->confidence;
    }
}

static status sample_make(sample *s, const scored *x, err *e) {
    if (s->n > DECISIONS_MAX) return err_set(e, ST_INPUT, "more than %d decisions in a cell", DECISIONS_MAX);
    keyed *order = mem_alloc(s->n, sizeof *order), *spare = mem_alloc(s->n, sizeof *spare);
    size_t *count = mem_alloc((size_t)1 << 16, sizeof *count);
    s->by_confidence = mem_alloc(s->n, sizeof *s->by_confidence);
    s->confidence = mem_alloc(s->n, sizeof *s->confidence);
    s->by_first = s->k == 2 ? mem_alloc(s->n, sizeof *s->by_first) : NULL;
    s->sums = mem_zero(s->n_groups, sizeof *s->sums);
    s->counts = mem_zero(s->n_groups, 3 * s->k * sizeof *s->counts);
    bool ok = order && spare && count && s->by_confidence && s->confidence && (s->k != 2 || s->by_first) && s->sums && s->counts;
    if (ok) {
        sum_groups(s, x);
        for (size_t i = 0; i < s->n; i++) order[i] = (keyed){bits_of(x[i].confidence), (uint32_t)i};
        sort_keyed(order, spare, s->n, count);
        rank(x, order, s->n, false, s->by_confidence, s->confidence);
        if (s->by_first) {
            for (size_t i = 0; i < s->n; i++) order[i] = (keyed){bits_of(x[i].p_first), (uint32_t)i};
            sort_keyed(order, spare, s->n, count);
            rank(x, order, s->n, true, s->by_first, NULL);
        }
    }
    free(order);
    free(spare);
    free(count);
    return ok ? ST_OK : err_memory(e, s->n * sizeof *order);
}

static void sample_free(sample *s) {
    free(s->by_confidence);
    free(s->by_first);
    free(s->confidence);
    free(s->sums);
    free(s->counts);
}

/* Sizes of the bins as numpy.array_split(range(n), METRIC_BINS) makes them. */
static size_t bin_size(size_t n, size_t b) {
    return n / METRIC_BINS + (b < n % METRIC_BINS ? 1 : 0);
}

/* Means and F1, from the groups' sums. Returns the size of the sample. */
static size_t means(const sample *s, const uint32_t *mult, double v[METRIC_COUNT]) {
    size_t c[3 * OPTIONS_MAX] = {0}, total = 0, right = 0, flips_n = 0, reversed = 0, reversed_n = 0;
    double nll = 0, brier = 0, flips = 0, f1 = 0, classes = 0;
    for (size_t g = 0; g < s->n_groups; g++) {
        const group_sums *x = &s->sums[g];
        size_t w = mult ? mult[g] : 1;
        if (!w || !x->n) continue;
        total += w * x->n;
        nll += (double)w * x->nll;
        brier += (double)w * x->brier;
        flips += (double)w * x->flips;
        flips_n += w * x->flips_n;
        reversed += w * x->reversed;
        reversed_n += w * x->reversed_n;
        for (size_t i = 0; i < 3 * s->k; i++) c[i] += w * s->counts[g * 3 * s->k + i];
    }
    for (size_t i = 0; i < s->k; i++) {
        size_t truth = c[i], said = c[s->k + i], both = c[2 * s->k + i];
        right += both;
        if (!truth && !said) continue;
        classes++;
        f1 += 2 * (double)both / (double)(truth + said);
    }
    v[METRIC_ACCURACY] = (double)right / (double)total;
    v[METRIC_MACRO_F1] = f1 / classes;
    v[METRIC_BRIER] = brier / (double)total;
    v[METRIC_NLL] = nll / (double)total;
    v[METRIC_FLIPS] = flips_n ? flips / (double)flips_n : NAN;
    v[METRIC_REVERSED] = reversed_n ? (double)reversed / (double)reversed_n : NAN;
    return total;
}

static size_t times(const uint32_t *mult, const ranked *r) {
    return mult ? mult[r->group] : 1;
}

/* Calibration: one walk in ascending confidence. The loops below run once per resample over everything, so their bodies do
 * without branches that depend on the data. */
static void calibration(const sample *s, const uint32_t *mult, size_t total, double v[METRIC_COUNT], bin bins[METRIC_BINS]) {
    size_t i = 0, over = 0; /* over: copies of decision i - 1 that belong to the bins after */
    double ece = 0;
    memset(bins, 0, METRIC_BINS * sizeof *bins);
    for (size_t b = 0; b < METRIC_BINS; b++) {
        size_t want = bin_size(total, b), n = 0, right = 0;
        double sum = 0;
        if (!want) continue;
        if (over) {
            n = over;
            right = s->by_confidence[i - 1].good ? over : 0;
            sum = (double)over * s->confidence[i - 1];
        }
        while (n < want) {
            size_t w = times(mult, &s->by_confidence[i]);
            n += w;
            right += w * s->by_confidence[i].good;
            sum += (double)w * s->confidence[i];
            i++;
        }
        over = n - want;
        if (over) {
            right -= s->by_confidence[i - 1].good ? over : 0;
            sum -= (double)over * s->confidence[i - 1];
        }
        bins[b] = (bin){want, right, sum / (double)want};
        ece += (double)want / (double)total * fabs((double)right / (double)want - bins[b].confidence);
    }
    v[METRIC_ECE] = ece;
}

/* Risk over coverage: one walk in descending confidence, ties together. curve (room for n points) may be NULL. */
static size_t selection(const sample *s, const uint32_t *mult, size_t total, double v[METRIC_COUNT], point *curve) {
    size_t kept = 0, wrong = 0, before = 0, points = 0, five = 0, ten = 0;
    double area = 0, risk = 0, n = (double)total;
    for (size_t i = s->n; i-- > 0;) {
        const ranked *r = &s->by_confidence[i];
        size_t w = times(mult, r);
        kept += w;
        wrong += w * !r->good;
        if (r->tied || !kept) continue;
        /* kept may be what it was: then the step has no width, and the rest is as before */
        double here = (double)wrong / (double)kept;
        area += (double)(kept - before) * (before ? here + risk : 2 * here);
        risk = here;
        before = kept;
        five = wrong * 20 <= kept ? kept : five;
        ten = wrong * 10 <= kept ? kept : ten;
        if (curve) curve[points++] = (point){(double)kept / n, risk};
    }
    v[METRIC_AURC] = area / 2 / n;
    v[METRIC_COVERAGE_5] = (double)five / n;
    v[METRIC_COVERAGE_10] = (double)ten / n;
    return points;
}

/* The share of pairs (one of each class) that are in order; ties count half. Twice the count is whole. */
static double auroc(const sample *s, const uint32_t *mult) {
    size_t twice = 0, neg = 0, pos = 0, neg_below = 0, pos_below = 0; /* below: before the tie at hand */
    if (!s->by_first) return NAN;
    for (size_t i = 0; i < s->n; i++) {
        const ranked *r = &s->by_first[i];
        size_t w = times(mult, r), p = r->good ? w : 0;
        neg_below = r->tied ? neg_below : neg;
        pos_below = r->tied ? pos_below : pos;
        twice += p * (neg_below + neg) + (w - p) * (pos - pos_below);
        pos += p;
        neg += w - p;
    }
    return pos && neg ? (double)twice / 2 / ((double)pos * (double)neg) : NAN;
}

/* All figures of the sample under multiplicities of its groups (NULL: once each). */
static size_t figures(const sample *s, const uint32_t *mult, double v[METRIC_COUNT], bin bins[METRIC_BINS], point *curve) {
    size_t total = means(s, mult, v);
    calibration(s, mult, total, v, bins);
    v[METRIC_AUROC] = auroc(s, mult);
    return selection(s, mult, total, v, curve);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* numpy.percentile, linear. v is sorted. */
static double percentile(const double *v, size_t n, double q) {
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? v[i] + (v[i + 1] - v[i]) * (at - (double)i) : v[n - 1];
}

size_t measure_replicates(size_t n) {
    size_t r = n ? (size_t)50000000 / n : 1000;
    return r > 1000 ? 1000 : r < 50 ? 50 : r;
}

/* The resamples: values[metric][replicate], NaN where a figure is not defined. */
typedef struct resampling {
    const sample *s;
    const uint32_t *live; /* groups that occur: they are drawn with replacement */
    size_t n_live, reps;
    uint64_t seed;
    uint32_t *mult; /* [worker][n_groups] */
    double *values;
} resampling;

/* A replicate's draws depend on the seed and its number alone, so that threads do not show. */
static void resample(void *arg, size_t begin, size_t end, unsigned worker) {
    const resampling *x = arg;
    uint32_t *mult = x->mult + worker * x->s->n_groups;
    for (size_t rep = begin; rep < end; rep++) {
        double v[METRIC_COUNT];
        bin bins[METRIC_BINS];
        rng r = {x->seed};
        r.state = rng_next(&r) ^ rep * 0x9FB21C651E98DF25u;
        memset(mult, 0, x->s->n_groups * sizeof *mult);
        for (size_t i = 0; i < x->n_live; i++) mult[x->live[rng_below(&r, x->n_live)]]++;
        figures(x->s, mult, v, bins, NULL);
        for (size_t m = 0; m < METRIC_COUNT; m++) x->values[m * x->reps + rep] = v[m];
    }
}

static status bootstrap(const sample *s, const measure_options *o, measured *out, err *e) {
    resampling x = {.s = s, .reps = o->replicates ? o->replicates : measure_replicates(s->n), .seed = o->seed};
    size_t workers = o->kernel ? kernel_threads(o->kernel) : 1;
    uint32_t *live = mem_alloc(s->n_groups, sizeof *live);
    x.mult = mem_alloc(s->n_groups, workers * sizeof *x.mult);
    x.values = mem_alloc(x.reps, METRIC_COUNT * sizeof *x.values);
    status st = live && x.mult && x.values ? ST_OK : err_memory(e, x.reps * METRIC_COUNT * sizeof *x.values);
    for (size_t g = 0; !st && g < s->n_groups; g++)
        if (s->sums[g].n) live[x.n_live++] = (uint32_t)g;
    x.live = live;
    if (!st && o->kernel) kernel_for(o->kernel, x.reps, 1, resample, &x);
    else if (!st) resample(&x, 0, x.reps, 0);
    for (int m = 0; !st && m < METRIC_COUNT; m++) {
        double *v = x.values + (size_t)m * x.reps;
        size_t n = 0;
        for (size_t i = 0; i < x.reps; i++)
            if (!isnan(v[i])) v[n++] = v[i];
        if (n * 2 <= x.reps) continue; /* mostly undefined: no interval */
        qsort(v, n, sizeof *v, by_value);
        out->m[m].low = percentile(v, n, 0.025);
        out->m[m].high = percentile(v, n, 0.975);
    }
    out->replicates = st ? 0 : x.reps;
    free(live);
    free(x.mult);
    free(x.values);
    return st;
}

/* At most CURVE_MAX points of the curve, the last one among them. */
static status take_curve(measured *out, const point *all, size_t n, err *e) {
    enum { CURVE_MAX = 400 };
    size_t step = n / CURVE_MAX + 1;
    if (!(out->curve = mem_alloc(n / step + 2, sizeof *out->curve))) return err_memory(e, n * sizeof *out->curve);
    for (size_t i = 0; i < n; i += step) out->curve[out->n_curve++] = all[i];
    if (n && (n - 1) % step) out->curve[out->n_curve++] = all[n - 1];
    return ST_OK;
}

status measure(const scored *x, size_t n, size_t k, size_t n_groups, const measure_options *o, measured *out, err *e) {
    *out = (measured){.n = n};
    if (!n) return err_set(e, ST_INPUT, "no labelled decision: nothing can be measured");
    sample s = {.n = n, .k = k, .n_groups = n_groups};
    double v[METRIC_COUNT];
    point *curve = NULL;
    status st = sample_make(&s, x, e);
    if (!st && !o->plain && !(curve = mem_alloc(n, sizeof *curve))) st = err_memory(e, n * sizeof *curve);
    if (!st) {
        size_t points = figures(&s, NULL, v, out->bins, curve);
        for (int m = 0; m < METRIC_COUNT; m++) out->m[m] = (interval){v[m], NAN, NAN};
        for (size_t i = 0; i < n; i++) out->classes[x[i].label]++;
        for (size_t g = 0; g < n_groups; g++) out->groups += s.sums[g].n > 0;
        if (curve) st = take_curve(out, curve, points, e);
    }
    if (!st && !o->plain && out->groups > 1) st = bootstrap(&s, o, out, e);
    free(curve);
    sample_free(&s);
    if (st) measured_free(out);
    return st;
}

void measured_free(measured *m) {
    free(m->curve);
    m->curve = NULL;
    m->n_curve = 0;
}

void wilson(size_t right, size_t n, double *low, double *high) {
    const double z = 1.959963984540054;
    double p = (double)right / (double)n, m = (double)n, d = 1 + z * z / m;
    double mid = (p + z * z / (2 * m)) / d, half = z / d * sqrt(p * (1 - p) / m + z * z / (4 * m * m));
    *low = mid - half > 0 ? mid - half : 0;
    *high = mid + half < 1 ? mid + half : 1;
}
