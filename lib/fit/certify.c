#include <math.h>

#include "fit/fit.h"
#include "kernel/kernel.h"
#include "metrics/measure.h"

/* P(Bin(n, p) <= errors), summed from the largest term down. */
static double binomial_below(size_t errors, size_t n, double p) {
    if (errors >= n) return 1;
    double log_p = kernel_log(p), log_q = kernel_log(1 - p), term = (double)n * log_q, top = term, sum = 0;
    /* log C(n, i) p^i q^(n - i), by the ratio of neighbours; twice: the maximum, then the sum under it */
    for (size_t i = 1; i <= errors; i++) {
        term += kernel_log((double)(n - i + 1) / (double)i) + log_p - log_q;
        if (term > top) top = term;
    }
    term = (double)n * log_q;
    for (size_t i = 0; i <= errors; i++) {
        if (i) term += kernel_log((double)(n - i + 1) / (double)i) + log_p - log_q;
        sum += kernel_exp(term - top);
    }
    double log_total = top + kernel_log(sum);
    return log_total >= 0 ? 1 : kernel_exp(log_total);
}

double clopper_pearson(size_t errors, size_t n, double delta) {
    double low = 0, high = 1;
    if (errors >= n) return 1;
    for (int i = 0; i < 100; i++) {
        double mid = (low + high) / 2;
        if (mid <= 0 || mid >= 1) break;
        if (binomial_below(errors, n, mid) > delta) low = mid;
        else high = mid;
    }
    return high;
}

/* Thresholds are fixed before any label is seen: STEPS of them between 1/k and 1, closer together near 1. */
enum { STEPS = 20 };

static double threshold_at(size_t step, size_t k) {
    double rest = 1 - 1 / (double)k, x = 1 - (double)step / STEPS;
    return 1 - rest * x * x;
}

void certify(const double *confidence, const bool *right, size_t n, size_t negatives, size_t k, double risk, double delta, certificate *out) {
    *out = (certificate){.made = true, .risk = risk, .delta = delta, .n = n, .negatives = negatives};
    /* without a single error this many decisions are needed; a negative is one at least */
    double least = ceil(log(delta / STEPS) / log(1 - risk));
    if (negatives < METRIC_NEGATIVES) out->missing_negatives = METRIC_NEGATIVES - negatives;
    else if ((double)n < least) out->missing_negatives = (size_t)least - n;
    if (out->missing_negatives) return;
    size_t kept_at = 0;
    for (size_t s = STEPS; s-- > 0;) {
        double t = threshold_at(s, k);
        size_t kept = 0, errors = 0;
        for (size_t i = 0; i < n; i++) {
            if (confidence[i] < t) continue;
            kept++;
            errors += !right[i];
        }
        /* the bound lies at or below the risk when so few errors are this unlikely under it */
        if (!kept || binomial_below(errors, kept, risk) > delta / STEPS) continue;
        out->found = true;
        out->threshold = t;
        out->coverage = (double)kept / (double)n;
        out->errors = errors;
        kept_at = kept;
    }
    if (out->found) out->bound = clopper_pearson(out->errors, kept_at, delta / STEPS);
}
