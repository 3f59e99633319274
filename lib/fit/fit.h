/* fit.h: learning from labels in closed form (DESIGN 6, L1 and L2). Everything in double; sums in index order; which thread
 * computes what never shows. */
#ifndef ANYJEV_FIT_FIT_H
#define ANYJEV_FIT_FIT_H

#include "decide/artifact.h"

struct kernel;

/* --- temperature (Guo et al. 2017, "On calibration of modern neural networks") --- */

/* Golden-section search on log T in [-3, 3], 60 steps, minimising the NLL of softmax(log p / T). probs[n][k], labels[n]. */
double fit_temperature(const double *probs, const size_t *labels, size_t n, size_t k);
/* Mean NLL of probs under a temperature. */
double fit_nll(const double *probs, const size_t *labels, size_t n, size_t k, double temperature);

/* --- heads --- */

typedef struct fit_set {
    const float *const *features; /* [blocks]: [n][d], in the order of `block` */
    const size_t *block;          /* [blocks], ascending */
    size_t blocks, d, n, k;
    const size_t *labels; /* [n] */
} fit_set;

/* The blocks that a head is looked for at: 50, 60, 70, 85 and 100 % of the depth, ascending, each once. Returns how many. */
enum { FIT_BLOCKS = 5 };
size_t fit_blocks(size_t n_blocks, size_t block[FIT_BLOCKS]);

/* Fewest labels for a head. */
size_t fit_least(size_t k);

/* Chooses block, solver and parameter by out-of-fold NLL after temperature scaling (5 folds, seed), then refits on all: shrunk
 * LDA (Friedman 1989, "Regularized discriminant analysis"; shrinkage 0.3, 0.6, 0.9) and ridge regression onto the labels (Hoerl
 * and Kennard 1970; lambda 0.1, 1, 10, 100), both solved in the n-by-n dual (Woodbury) by LAPACK's Cholesky. Sets head and
 * temperature of `out`, and oof[n][k]: the out-of-fold probabilities before the temperature. ST_INPUT: fewer than
 * max(8, 2k) labels, one class, or nothing that can be solved. kn may be NULL (one thread). */
status fit_head(const fit_set *set, uint32_t seed, struct kernel *kn, artifact *out, double *oof, err *e);

/* --- calibration beyond a temperature --- */

/* What beats the temperature out of fold, by NLL: vector scaling (Guo et al. 2017) for more than two options; isotonic
 * regression (Zadrozny and Elkan 2002) or histogram binning (Zadrozny and Elkan 2001) for two. probs[n][k] are those that the
 * temperature would be applied to. Nothing wins: out->calibration stays a temperature. *nll: before and after. */
status fit_calibration(const double *probs, const size_t *labels, size_t n, size_t k, uint32_t seed, artifact *out, double nll[2], err *e);

/* --- certified abstention --- */

/* Clopper and Pearson's (1934) upper bound at confidence 1 - delta on the error rate, of `errors` among n; 1 for n = 0. */
double clopper_pearson(size_t errors, size_t n, double delta);

/* The lowest threshold on the confidence whose kept decisions have an error bound of at most `risk`, over a fixed grid of
 * thresholds with delta split evenly over it (Bonferroni), from held-out decisions. Fewer than 30 negatives certify nothing; so do
 * too few decisions: missing_negatives says how many more would be needed. */
void certify(const double *confidence, const bool *right, size_t n, size_t negatives, size_t k, double risk, double delta, certificate *out);

#endif
