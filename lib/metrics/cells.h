/* cells.h: labelled decisions gathered into cells, one per question, key and level, beside the baselines that need no model
 * (DESIGN 7). */
#ifndef ANYJEV_METRICS_CELLS_H
#define ANYJEV_METRICS_CELLS_H

#include "base/intern.h"
#include "json/json.h"
#include "metrics/measure.h"

/* A decision of a cell. */
typedef struct decided {
    scored s;
    uint32_t lookup; /* number of its (question, scope, target, option), or UINT32_MAX when it has none of them */
} decided;

typedef struct cell {
    char *question, *key, *level, *model; /* model: JSON */
    question_kind kind;
    char *options[OPTIONS_MAX];
    size_t k;
    decided *d;
    size_t n, cap;
    size_t missing, held_out; /* decisions with a missing label; that say that their card took no part in the fit */
} cell;

/* Starts as {0}; cells_free ends it. */
typedef struct cells {
    cell *list; /* in order of first appearance */
    size_t n, cap;
    intern groups, lookups, seen, names, reversed;
    size_t *reversed_answer; /* by number in reversed: number of the answer's text in names */
    size_t cap_reversed;
    size_t unlabelled, unmatched, last; /* unmatched: decisions without a partner in the reversed run */
    bool any_reversed;
    buf scratch, path;
} cells;

/* A decision of the run whose options were listed in reverse: call for all of them before the first cells_add. */
status cells_reversed(cells *c, const json *rec, err *e);

/* Adds a decision record. One without a label is counted and left out. ST_INPUT: probabilities that are none, a label
 * outside the options, a decision that comes twice; ST_REFUSED: another model under the same question and level. */
status cells_add(cells *c, const json *rec, err *e);
void cells_free(cells *c);

/* --- what is reported of a cell --- */
typedef struct report {
    const cell *cell;
    measured model, majority, lookup;                /* over all; lookup.n is 0 when no decision has a key */
    measured novel, novel_majority, novel_lookup;    /* over keys that no other group carries; n is 0 when there are none */
    size_t lookup_found;                             /* decisions whose key another group carries */
    measured *by_group;                              /* [n_by_group], plain; NULL unless asked for */
    size_t *group_number;                            /* of by_group */
    size_t n_by_group;
    size_t negatives; /* decisions outside the most frequent class (yes/no: labelled No) */
} report;

/* Baselines: for every decision, from the labels of the other groups alone. The majority answers with the shares of the
 * labels; the lookup with the shares among those of the same (question, scope, target, option), else with the majority's. */
status report_make(report *r, const cells *all, const cell *c, const measure_options *o, bool by_group, err *e);
void report_free(report *r);

#endif
