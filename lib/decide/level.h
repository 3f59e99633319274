/* level.h: which level an item is decided at, what it needs for that, and the decision (DESIGN 6). */
#ifndef ANYJEV_DECIDE_LEVEL_H
#define ANYJEV_DECIDE_LEVEL_H

#include "decide/decision.h"

/* Starts as {0} but for what was asked for; levels_free ends it. */
typedef struct levels {
    const char *level; /* raw or L0 */
    decide_source source;
    double strength;
    bool mean; /* combine probabilities instead of logs */
    decide_prior *batch, *probes; /* by group; owned */
    size_t *base;                 /* by group: an item whose listing all must share at L0, or SIZE_MAX */
    size_t n_groups;
} levels;

/* Once, when all prompts are read: room for every question. */
status levels_begin(levels *l, const items *all, err *e);
/* Does the item have what its level needs? ST_INPUT says what is missing. Probes are items here. */
status levels_check(levels *l, const items *all, const item *x, err *e);
/* The priors, from all items that are not bad. ST_INPUT: content-free, and a question has no probes. */
status levels_gather(levels *l, const items *all, err *e);
/* ST_INPUT when the probabilities are no numbers (every log-probability is minus infinity, the mask leaves nothing). */
status levels_decide(const levels *l, const item *x, verdict *v, err *e);
void levels_free(levels *l);

#endif
