/* artifact.h: what was learnt from labels about one question and one model: a temperature over L0 (L1), or a linear head on a
 * hidden state (L2); how it is applied, and how it is written (AnyJev's JSON, with members of our own beside it). */
#ifndef ANYJEV_DECIDE_ARTIFACT_H
#define ANYJEV_DECIDE_ARTIFACT_H

#include "decide/decide.h"
#include "json/json.h"

/* p = softmax(((h - mean) / scale . W + b) / T). Arrays are float64 [d], [d][k]; owned. */
typedef struct head {
    char *solver;    /* lda or ridge */
    double param;    /* shrinkage or lambda */
    size_t block, n_blocks, d;
    bool random_listing; /* fitted on items whose options were listed in random orders */
    double *W, *b, *mean, *scale;
    double oof_nll, oof_accuracy;
} head;

/* A calibrator that stands where a temperature would, when it won out of fold. */
typedef enum calibrator { CALIBRATOR_TEMPERATURE, CALIBRATOR_VECTOR, CALIBRATOR_ISOTONIC, CALIBRATOR_HISTOGRAM } calibrator;
enum { CALIBRATOR_STEPS = 64 };
typedef struct calibration {
    calibrator kind;
    double w[DECIDE_MAX], b[DECIDE_MAX];                   /* vector: z_i w_i + b_i */
    double edge[CALIBRATOR_STEPS], value[CALIBRATOR_STEPS]; /* steps of p_true: value below edge, the last to the end */
    size_t steps;
} calibration;

/* The largest coverage whose error bound is under the risk. */
typedef struct certificate {
    bool made, found; /* made: it was asked for; found: a threshold certifies */
    double risk, delta, threshold, bound, coverage;
    size_t n, errors, negatives, missing_negatives;
} certificate;

typedef struct artifact {
    char *key, *question_id, *text, *identity; /* identity: the model's JSON; owned */
    question_kind kind;
    char *options[DECIDE_MAX];
    size_t k, n_calib;
    bool is_head;
    head head;
    /* L1: the prior of the labelled set, frozen */
    decide_source source;
    double strength;
    size_t shifts;
    double prior[DECIDE_MAX][DECIDE_MAX]; /* [shift][position] */
    double temperature;
    calibration calibration;
    certificate certificate;
} artifact;

/* probs[k] of a hidden state h[d]. */
void head_probs(const artifact *a, const float *h, const double *mean, const double *scale, double *probs);
/* Applies the temperature (or what won over it) to a distribution, in place. */
void artifact_calibrate(const artifact *a, double *probs);
const char *artifact_level(const artifact *a); /* L1 or L2 */
const char *calibrator_name(calibrator c);

/* One JSON object: {"type":"artifact", ...AnyJev's members..., "identity", "certificate", "calibrator"}. plain: arrays as
 * numbers instead of base64. */
status artifact_put(const artifact *a, bool plain, buf *out, err *e);
/* Reads it back, or AnyJev's own (no type, no identity). a need not be initialised; artifact_free ends it. */
status artifact_read(artifact *a, const json *doc, jref obj, err *e);
void artifact_free(artifact *a);

#endif
