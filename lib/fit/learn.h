/* learn.h: labelled items to an artifact, and the evaluation that leaves one group out at a time. */
#ifndef ANYJEV_FIT_LEARN_H
#define ANYJEV_FIT_LEARN_H

#include "decide/level.h"
#include "fit/fit.h"

typedef struct learn_options {
    level level; /* LEVEL_L1 or LEVEL_L2 */
    decide_source source; /* of L1's prior */
    double strength;
    uint32_t seed;
    bool calibrate; /* look for a calibrator that beats the temperature */
    struct kernel *kernel;
} learn_options;

/* The items of one question, labelled: indices into items, and their labels. */
typedef struct learn_set {
    const items *all;
    size_t *item, *label; /* [n], owned */
    size_t n, k;
    const item *first;
} learn_set;

/* The labelled items of a group (question key) that can be fitted on. ST_INPUT: an item lacks what the level needs. *unlabelled:
 * how many have no label. learn_set_free ends it. */
status learn_set_make(learn_set *s, const items *all, size_t group, level at, size_t *unlabelled, err *e);
void learn_set_free(learn_set *s);

/* Fits on the members of in (NULL: all). out need not be initialised; artifact_free ends it. */
status learn(const learn_set *s, const unsigned char *in, const learn_options *o, artifact *out, err *e);

/* One fold of leave-one-group-out. */
typedef struct learn_fold {
    const char *group; /* borrowed from the items */
    size_t n, right;
    char *skipped; /* why, or NULL; owned */
} learn_fold;

typedef struct learn_report {
    learn_fold *folds; /* [n_folds], in order of first appearance */
    size_t n_folds, cap;
    verdict *verdicts; /* [n of the set]; level NULL where the fold was skipped */
    size_t classes[OPTIONS_MAX];
} learn_report;

/* Decides every group by an artifact fitted on the others. A fold is skipped (and says why) when a yes/no question has fewer than
 * 30 labels per class to train on or 5 to test on, when there are fewer than max(8, 2k) labels to train on, or when nothing can be
 * fitted. ST_INPUT: an item has no group. learn_report_free ends r. */
status learn_leave_one_out(const learn_set *s, const learn_options *o, learn_report *r, err *e);
void learn_report_free(learn_report *r);

#endif
