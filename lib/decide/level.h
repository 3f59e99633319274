/* level.h: which level an item is decided at, what it needs for that, and the decision (DESIGN 6). */
#ifndef ANYJEV_DECIDE_LEVEL_H
#define ANYJEV_DECIDE_LEVEL_H

#include "decide/artifact.h"
#include "decide/decision.h"

typedef enum level { LEVEL_RAW, LEVEL_L0, LEVEL_L1, LEVEL_L2, LEVEL_AUTO } level;
const char *level_name(level l);
/* raw, L0, L1, L2 or auto. */
level level_parse(const char *name);

/* How the items of one question are decided. */
typedef struct level_plan {
    level level;
    const artifact *artifact; /* L1, L2 */
    size_t map[DECIDE_MAX];   /* L2: the head's option that is option i here */
    bool reordered, reworded;
    char *more;            /* of calibration; owned */
    double *mean, *scale;  /* L2: the head's, or re-estimated for another wording; owned when adapted */
    bool adapted;
    size_t states;         /* that the re-estimation rests on */
    decide_prior *batch, *probes; /* L0; owned */
    size_t base;           /* an item whose listing all must share at L0 and L1, or SIZE_MAX */
} level_plan;

/* Starts as {0} but for what was asked for; levels_free ends it. */
typedef struct levels {
    level level, require;
    decide_source source;
    double strength;
    bool mean;   /* combine probabilities instead of logs */
    bool reword; /* let a head fitted on another wording answer (--route wording) */
    const artifact *artifacts; /* of the bundle; borrowed */
    size_t n_artifacts;
    strv bundle; /* JSON that names the bundle on decisions */
    level_plan *plans; /* by group; owned */
    size_t n_plans;
} levels;

/* Once, when all prompts are read: a plan for every question. ST_REFUSED: the level asked for or required is not reached, or an
 * artifact was fitted on another model. */
status levels_begin(levels *l, const items *all, err *e);
/* Does the item have what its level needs? ST_INPUT says what is missing. Probes are items here. */
status levels_check(levels *l, const items *all, const item *x, err *e);
/* The priors (and re-estimated means), from all items that are not bad. ST_INPUT: content-free, and a question has no probes. */
status levels_gather(levels *l, const items *all, err *e);
/* ST_INPUT when the probabilities are no numbers (every log-probability is minus infinity, the mask leaves nothing). */
status levels_decide(const levels *l, const item *x, verdict *v, err *e);
void levels_free(levels *l);

/* The artifact that answers a question: exactly its key; else a head fitted on random listings of the same options (set
 * *reordered); else, with reword, one of another wording (*reworded). want: LEVEL_L1, LEVEL_L2, or LEVEL_AUTO for the best. NULL:
 * none. text may be NULL. */
const artifact *artifact_find(const artifact *list, size_t n, level want, const char *key, question_kind kind, char *const *options, size_t k, const char *text, bool reword,
                              bool *reordered, bool *reworded);
/* An item by an artifact: for fitting and serving alike. map NULL: the options are in the artifact's order. */
status artifact_decide(const artifact *a, const item *x, const size_t *map, const double *mean, const double *scale, verdict *v, err *e);
/* Are both the same model: backend, fingerprint, compute mode and what was served? (JSON objects.) */
bool identity_same(strv a, strv b);

#endif
