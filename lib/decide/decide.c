#include "decide/decide.h"

#include "kernel/kernel.h"

#define LOG_CLIP 1e-12
#define PRIOR_CLIP 1e-8

void decide_softmax(double *p, const double *logp, size_t n) {
    double top = logp[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        if (logp[i] > top) top = logp[i];
    for (size_t i = 0; i < n; i++) sum += p[i] = kernel_exp(logp[i] - top);
    for (size_t i = 0; i < n; i++) p[i] /= sum;
}

void decide_prior_add(decide_prior *prior, double p[][DECIDE_MAX]) {
    for (size_t s = 0; s < prior->shifts; s++)
        for (size_t j = 0; j < prior->k; j++) prior->sum[s][j] += p[s][j];
    prior->items++;
}

static void normalise(double *p, size_t k, double clip) {
    double sum = 0;
    for (size_t i = 0; i < k; i++) {
        if (p[i] < clip) p[i] = clip;
        sum += p[i];
    }
    for (size_t i = 0; i < k; i++) p[i] /= sum;
}

static size_t first_max(const double *p, size_t k) {
    size_t best = 0;
    for (size_t i = 1; i < k; i++)
        if (p[i] > p[best]) best = i;
    return best;
}

void decide_finish(decide_result *out, size_t k) {
    out->answer = first_max(out->probs, k);
    out->confidence = out->probs[out->answer];
    double second = 0;
    for (size_t i = 0; i < k; i++)
        if (i != out->answer && out->probs[i] > second) second = out->probs[i];
    out->margin = out->confidence - second;
}

void decide_raw(const double *p, const size_t *perm, size_t k, decide_result *out) {
    *out = (decide_result){0};
    for (size_t j = 0; j < k; j++) out->probs[perm[j]] = p[j];
    decide_finish(out, k);
}

/* Divides one shift's distribution by the prior of that shift. */
static void correct(double *q, const decide_prior *prior, size_t shift, size_t k, double strength) {
    double mean[DECIDE_MAX];
    for (size_t j = 0; j < k; j++) mean[j] = prior->sum[shift][j] / (double)prior->items;
    normalise(mean, k, PRIOR_CLIP);
    for (size_t j = 0; j < k; j++) q[j] /= strength == 1 ? mean[j] : kernel_pow(mean[j], strength);
    normalise(q, k, PRIOR_CLIP);
}

void decide_l0(double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX], size_t shifts, size_t k, const decide_prior *prior, double strength,
               bool mean, decide_result *out) {
    bool corrects = prior && prior->items && strength > 0;
    double logs[DECIDE_MAX] = {0}, sum[DECIDE_MAX] = {0};
    size_t raw_first = 0, first = 0, raw_flips = 0, flips = 0;
    *out = (decide_result){0};
    for (size_t s = 0; s < shifts; s++) {
        double q[DECIDE_MAX];
        for (size_t j = 0; j < k; j++) q[j] = p[s][j];
        size_t raw_best = perm[s][first_max(q, k)];
        if (corrects) correct(q, prior, s, k, strength);
        size_t best = perm[s][first_max(q, k)];
        if (s == 0) raw_first = raw_best, first = best;
        raw_flips += raw_best != raw_first;
        flips += best != first;
        for (size_t j = 0; j < k; j++) {
            logs[perm[s][j]] += kernel_log(q[j] > LOG_CLIP ? q[j] : LOG_CLIP);
            sum[perm[s][j]] += q[j];
        }
    }
    for (size_t i = 0; i < k; i++) logs[i] /= (double)shifts;
    decide_softmax(out->probs, logs, k);
    if (mean) {
        double total = 0;
        for (size_t i = 0; i < k; i++) total += sum[i];
        for (size_t i = 0; i < k; i++) out->probs[i] = sum[i] / total;
    }
    decide_finish(out, k);
    if (shifts > 1) {
        out->flips_raw = (double)raw_flips / (double)(shifts - 1);
        out->flips = (double)flips / (double)(shifts - 1);
    }
}

double decide_strength(decide_source s) {
    return s == DECIDE_BATCH ? 0.75 : s == DECIDE_CONTENT_FREE ? 1 : 0;
}

double decide_mask(decide_result *r, const bool *masked, size_t k) {
    double gone = 0, left = 0;
    for (size_t i = 0; i < k; i++) *(masked[i] ? &gone : &left) += r->probs[i];
    if (!(left > 0)) return gone;
    for (size_t i = 0; i < k; i++) r->probs[i] = masked[i] ? 0 : r->probs[i] / left;
    decide_finish(r, k);
    return gone;
}
