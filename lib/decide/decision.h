/* decision.h: a decided item, and how it is written: the decision record, the System One answers, a table to read. */
#ifndef ANYJEV_DECIDE_DECISION_H
#define ANYJEV_DECIDE_DECISION_H

#include "decide/items.h"
#include "json/json.h"

/* What was decided about an item, and on what grounds. */
typedef struct verdict {
    decide_result result;
    const char *level; /* that it was served at */
    bool permuted;     /* several prompts were combined: flips mean something */
    size_t permutations;
    decide_source source; /* of the prior that was divided out */
    double strength;
    size_t prior_items; /* that the prior rests on; 0: none was divided out */
    double temperature; /* 0: none */
    double masked_mass;
    strv more;     /* JSON members of calibration, each with a leading comma; may be empty */
    strv bundle;   /* JSON; empty writes null */
    bool held_out; /* by a fit that did not see the item's group */
    int certified; /* 1, 0; -1: there is no certificate to hold it against */
} verdict;

/* One decision record. model: JSON. */
void decision_put(const item *x, const verdict *v, strv model, buf *out);

/* One System One answer object: {"type": ..., ...}. */
void decision_answer(const item *x, const verdict *v, jw *w);
/* The model's name, for the answers of a request. */
status decision_model_name(strv model, buf *out, err *e);

/* The table: decision_rows widens what it has seen; then the lines. Starts as {0}; decision_table_free ends it. */
enum { TABLE_COLUMNS = 6 };
typedef struct decision_table {
    char *(*rows)[TABLE_COLUMNS]; /* owned texts */
    size_t n, cap;
    size_t width[TABLE_COLUMNS];
} decision_table;
status decision_table_add(decision_table *t, const item *x, const verdict *v, err *e);
/* Line 0 is the heading, the others those added. */
void decision_table_line(const decision_table *t, size_t i, buf *line);
void decision_table_free(decision_table *t);

#endif
