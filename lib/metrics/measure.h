/* measure.h: how right and how calibrated a set of labelled decisions is (DESIGN 7). Sums in double, in the order of
 * confidence. Nothing here is weighted by the weight of a label. Sources: ECE with bins of equal mass, Nguyen and O'Connor 2015
 * ("Posterior calibration and exploratory analysis for NLP models"); risk, coverage and the area under them, Geifman and
 * El-Yaniv 2017 ("Selective classification for deep neural networks"); Brier 1950; AUROC by ranks, Hanley and McNeil 1982. */
#ifndef ANYJEV_METRICS_MEASURE_H
#define ANYJEV_METRICS_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "question/question.h"

typedef enum metric {
    METRIC_ACCURACY,
    METRIC_MACRO_F1,    /* mean F1 over the options that occur among labels or answers */
    METRIC_BRIER,       /* squared distance to the label, summed over options; mean */
    METRIC_NLL,         /* natural log, probabilities clipped at 1e-12 */
    METRIC_ECE,         /* of the answer's probability, bins of equal mass: METRIC_BINS of them, the first ones larger by one */
    METRIC_COVERAGE_5,  /* largest share kept, most confident first and ties together, with an error of at most 5 % */
    METRIC_COVERAGE_10, /* of at most 10 % */
    METRIC_AURC,        /* area under risk over coverage, trapezoid over the ends of ties, flat down to coverage 0 */
    METRIC_AUROC,       /* two options: of the first one's probability, ties count half */
    METRIC_FLIPS,       /* mean share of permutations whose answer differs from that of the listing */
    METRIC_REVERSED,    /* share whose answer differs when the options are listed in reverse */
    METRIC_COUNT
} metric;

enum { METRIC_BINS = 15, METRIC_NEGATIVES = 30 /* fewer carry no figure */ };

const char *metric_name(metric m);  /* as in results: "accuracy", "coverage_at_5", ... */
const char *metric_title(metric m); /* as in tables */

/* One decision, reduced to what the metrics need. */
typedef struct scored {
    double confidence, p_label, brier, p_first;
    double flips;       /* NaN: not said */
    signed char reversed; /* 1 the answer differs, 0 it does not, -1 not known */
    unsigned char answer, label;
    uint32_t group;
} scored;

/* From a distribution over k options; the rest is the caller's. */
void scored_set(scored *x, const double *probs, size_t k, size_t label);

typedef struct interval {
    double value, low, high; /* NaN: not defined, or no interval */
} interval;

typedef struct bin {
    size_t n, right;
    double confidence; /* mean */
} bin;

typedef struct point {
    double coverage, risk;
} point;

typedef struct measured {
    size_t n, groups; /* groups that occur */
    size_t classes[OPTIONS_MAX];
    interval m[METRIC_COUNT];
    size_t replicates; /* of the bootstrap; 0: none was made */
    bin bins[METRIC_BINS];
    point *curve; /* risk over coverage at the ends of ties, thinned; owned */
    size_t n_curve;
} measured;

typedef struct measure_options {
    size_t replicates; /* wanted; 0: 1000, fewer for large sets (measure_replicates) */
    uint64_t seed;
    struct kernel *kernel; /* whose threads share the resamples; NULL: none */
    bool plain; /* the figures alone: no intervals, no curve */
} measure_options;

/* Replicates made for n decisions when none were asked for: 1000, or as many as visit 5 x 10^7 decisions, at least 50. */
size_t measure_replicates(size_t n);

/* x[n] decisions with k options; groups are numbered below n_groups (not all need occur). Percentile intervals (2.5 and
 * 97.5 %, interpolated linearly) from resampled groups. ST_INPUT when n is 0. measured_free ends out. */
status measure(const scored *x, size_t n, size_t k, size_t n_groups, const measure_options *o, measured *out, err *e);
void measured_free(measured *m);

/* Wilson's interval of 95 % for `right` of n (Wilson 1927); n > 0. */
void wilson(size_t right, size_t n, double *low, double *high);

#endif
