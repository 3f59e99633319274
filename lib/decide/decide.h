/* decide.h: from label log-probabilities to a distribution over options (DESIGN 6, raw and L0).
 * Sources: position bias by cyclic shifts, Zheng et al. 2024 ("Large Language Models Are Not Robust Multiple Choice
 * Selectors"); batch prior, Zhou et al. 2024 ("Batch Calibration"). Everything in double, sums in index order. */
#ifndef ANYJEV_DECIDE_DECIDE_H
#define ANYJEV_DECIDE_DECIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "question/question.h"

enum { DECIDE_MAX = OPTIONS_MAX };

/* p[n] = softmax of logp[n]; p may be logp. Needs at least one value that is finite. */
void decide_softmax(double *p, const double *logp, size_t n);

/* The mean of the distributions by shift and position; starts as {0} but for k and shifts. */
typedef struct decide_prior {
    size_t k, shifts, items;
    double sum[DECIDE_MAX][DECIDE_MAX]; /* [shift][position] */
} decide_prior;

/* p[shift][position]: an item's softmaxed distributions, shift s at row s. */
void decide_prior_add(decide_prior *prior, double p[][DECIDE_MAX]);

/* The prior's batch rule: it counts from this many items on. */
enum { DECIDE_PRIOR_ITEMS = 8 };
#define DECIDE_PRIOR_STRENGTH "0.75" /* the default, as it is typed */

typedef struct decide_result {
    double probs[DECIDE_MAX]; /* by option */
    size_t answer;            /* the first of the most probable */
    double confidence, margin;
    double flips_raw, flips; /* share of the other shifts whose answer differs from that of the first: before and after the prior */
} decide_result;

/* p[shift][position], perm[shift][position] = option. prior NULL (or with too few items) and strength 0 correct nothing.
 * Per shift: divide by prior^strength, renormalise; then the mean of logs over shifts by option (clip 1e-12); softmax. */
void decide_l0(double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX], size_t shifts, size_t k, const decide_prior *prior, double strength,
               decide_result *out);
/* One prompt: its distribution, by option. */
void decide_raw(const double *p, const size_t *perm, size_t k, decide_result *out);

#endif
