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

/* Where the prior comes from: this run's items of the question, probes without content (Zhao et al. 2021, "Calibrate before
 * use"), or nowhere. */
typedef enum decide_source { DECIDE_NONE, DECIDE_BATCH, DECIDE_CONTENT_FREE } decide_source;
/* The batch prior counts from this many items on; the content-free one from the first probe on. */
enum { DECIDE_PRIOR_ITEMS = 8 };
/* The exponent on the prior where none was asked for. */
double decide_strength(decide_source s);

/* The mean of the distributions by shift and position; starts as {0} but for k and shifts. */
typedef struct decide_prior {
    size_t k, shifts, items;
    double sum[DECIDE_MAX][DECIDE_MAX]; /* [shift][position] */
} decide_prior;

/* p[shift][position]: an item's softmaxed distributions, shift s at row s. */
void decide_prior_add(decide_prior *prior, double p[][DECIDE_MAX]);

typedef struct decide_result {
    double probs[DECIDE_MAX]; /* by option */
    size_t answer;            /* the first of the most probable */
    double confidence, margin;
    double flips_raw, flips; /* share of the other shifts whose answer differs from that of the first: before and after the prior */
} decide_result;

/* p[shift][position], perm[shift][position] = option. prior NULL and strength 0 correct nothing. Per shift: divide by
 * prior^strength, renormalise; then over the shifts, by option: the mean of logs (clip 1e-12), softmaxed; or, with mean, the
 * mean of the probabilities (it does not undo a bias that adds to logits, and is there to compare). */
void decide_l0(double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX], size_t shifts, size_t k, const decide_prior *prior, double strength,
               bool mean, decide_result *out);
/* Answer, confidence and margin of r->probs. */
void decide_finish(decide_result *r, size_t k);
/* Options out of play get 0 and the others are renormalised: answer, confidence and margin anew. Returns the mass taken away;
 * all of it (within rounding) leaves nothing to decide on: the result stays as it was. */
double decide_mask(decide_result *r, const bool *masked, size_t k);
/* One prompt: its distribution, by option. */
void decide_raw(const double *p, const size_t *perm, size_t k, decide_result *out);

#endif
