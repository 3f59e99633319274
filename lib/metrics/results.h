/* results.h: what was measured, written down: the results record (JSON), a report to read (Markdown), rows (TSV), plots (SVG). */
#ifndef ANYJEV_METRICS_RESULTS_H
#define ANYJEV_METRICS_RESULTS_H

#include "metrics/cells.h"

typedef struct results {
    const cells *cells;
    const report *reports; /* [n] */
    size_t n;
    measure_options options;
    strv environment; /* a JSON object, or empty */
} results;

/* Why a figure should not be leant on, as texts (owned by the list). list starts as {0}. */
typedef struct warnings {
    char **items;
    size_t n, cap;
} warnings;
status results_warnings(const report *r, warnings *w, err *e);
void warnings_free(warnings *w);

/* How the decisions came by their labels' help: "no labels used", "leave-one-out" or "not held out". */
const char *results_evaluation(const cell *c);
/* "question/level", by which a policy cites the cell. */
status results_cell_id(const cell *c, buf *out, err *e);

status results_json(const results *r, buf *out, err *e); /* one line */
status results_markdown(const results *r, buf *out, err *e);
status results_tsv(const results *r, buf *out, err *e);

/* Diagrams of all levels of one question (the reports of r with this question), as SVG. */
status plot_reliability(const results *r, const char *asked, buf *out, err *e);
status plot_risk_coverage(const results *r, const char *asked, buf *out, err *e);

#endif
