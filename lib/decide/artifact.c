#include "decide/artifact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/kernel.h"

static const double clip = 1e-12;

const char *artifact_level(const artifact *a) {
    return a->is_head ? "L2" : "L1";
}

const char *calibrator_name(calibrator c) {
    static const char *const names[] = {"temperature", "vector", "isotonic", "histogram"};
    return names[c];
}

/* Softmax of log p / T; logs clipped as the fit did. */
static void temper(double *p, size_t k, double temperature) {
    double z[DECIDE_MAX];
    for (size_t i = 0; i < k; i++) z[i] = kernel_log(p[i] > clip ? p[i] : clip) / temperature;
    decide_softmax(p, z, k);
}

static double step_value(const calibration *c, double p) {
    size_t i = 0;
    while (i + 1 < c->steps && p >= c->edge[i]) i++;
    return c->value[i];
}

void artifact_calibrate(const artifact *a, double *p) {
    const calibration *c = &a->calibration;
    if (c->kind == CALIBRATOR_TEMPERATURE) {
        temper(p, a->k, a->temperature);
    } else if (c->kind == CALIBRATOR_VECTOR) {
        double z[DECIDE_MAX];
        for (size_t i = 0; i < a->k; i++) z[i] = kernel_log(p[i] > clip ? p[i] : clip) * c->w[i] + c->b[i];
        decide_softmax(p, z, a->k);
    } else {
        p[0] = step_value(c, p[0]);
        p[1] = 1 - p[0];
    }
}

void head_probs(const artifact *a, const float *h, const double *mean, const double *scale, double *probs) {
    const head *x = &a->head;
    double score[DECIDE_MAX];
    for (size_t c = 0; c < a->k; c++) score[c] = 0;
    for (size_t i = 0; i < x->d; i++) {
        double v = ((double)h[i] - mean[i]) / scale[i];
        const double *w = x->W + i * a->k;
        for (size_t c = 0; c < a->k; c++) score[c] += v * w[c];
    }
    for (size_t c = 0; c < a->k; c++) score[c] += x->b[c];
    if (a->calibration.kind == CALIBRATOR_TEMPERATURE) {
        for (size_t c = 0; c < a->k; c++) score[c] /= a->temperature;
        decide_softmax(probs, score, a->k);
    } else {
        decide_softmax(probs, score, a->k);
        artifact_calibrate(a, probs);
    }
}

void artifact_free(artifact *a) {
    free(a->key);
    free(a->question_id);
    free(a->text);
    free(a->identity);
    for (size_t i = 0; i < a->k; i++) free(a->options[i]);
    free(a->head.solver);
    free(a->head.W);
    free(a->head.b);
    free(a->head.mean);
    free(a->head.scale);
    *a = (artifact){0};
}
