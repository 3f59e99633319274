/* The report to read, and the rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/results.h"

/* In Markdown a bar would end the cell. */
static void put_text(buf *out, const char *s) {
    for (; *s; s++) {
        if (*s == '|') buf_byte(out, '\\');
        buf_byte(out, *s == '\n' ? ' ' : *s);
    }
}

static void put_interval(buf *out, const interval *v) {
    if (isnan(v->value)) buf_text(out, " \xE2\x80\x93 |");
    else if (isnan(v->low)) buf_printf(out, " %.3f |", v->value);
    else buf_printf(out, " %.3f [%.3f, %.3f] |", v->value, v->low, v->high);
}

/* A metric that no row defines takes no column. */
static void used_metrics(const results *r, const char *asked, bool used[METRIC_COUNT]) {
    memset(used, 0, METRIC_COUNT * sizeof *used);
    for (size_t i = 0; i < r->n; i++)
        for (int m = 0; m < METRIC_COUNT; m++)
            if (strcmp(r->reports[i].cell->question, asked) == 0 && !isnan(r->reports[i].model.m[m].value)) used[m] = true;
}

static void put_heads(buf *out, const bool used[METRIC_COUNT]) {
    buf_text(out, "| | n |");
    for (int m = 0; m < METRIC_COUNT; m++)
        if (used[m]) buf_printf(out, " %s |", metric_title((metric)m));
    buf_text(out, "\n| --- | ---: |");
    for (int m = 0; m < METRIC_COUNT; m++)
        if (used[m]) buf_text(out, " --- |");
    buf_byte(out, '\n');
}

static void put_row(buf *out, const char *name, const measured *x, const bool used[METRIC_COUNT]) {
    if (!x->n) return;
    buf_text(out, "| ");
    put_text(out, name);
    buf_printf(out, " | %zu |", x->n);
    for (int m = 0; m < METRIC_COUNT; m++)
        if (used[m]) put_interval(out, &x->m[m]);
    buf_byte(out, '\n');
}

static void put_class_counts(buf *out, const report *p) {
    const cell *c = p->cell;
    for (size_t i = 0; i < c->k; i++) {
        buf_text(out, i ? ", " : "");
        put_text(out, c->options[i]);
        buf_printf(out, " %zu", p->model.classes[i]);
    }
}

/* Baselines are the same at every level when the decisions are the same; they are shown once per number of decisions. */
static bool first_with_n(const results *r, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (strcmp(r->reports[i].cell->question, r->reports[at].cell->question) == 0 && r->reports[i].model.n == r->reports[at].model.n) return false;
    return true;
}

static status put_notes(buf *out, const results *r, const char *asked, err *e) {
    for (size_t i = 0; i < r->n; i++) {
        const report *p = &r->reports[i];
        warnings w = {0};
        if (strcmp(p->cell->question, asked) != 0) continue;
        status s = results_warnings(p, &w, e);
        for (size_t k = 0; !s && k < w.n; k++) buf_printf(out, "- **%s**: %s\n", p->cell->level, w.items[k]);
        warnings_free(&w);
        if (s) return s;
    }
    return ST_OK;
}

static status put_question(buf *out, const results *r, size_t at, err *e) {
    const report *first = &r->reports[at];
    const char *asked = first->cell->question;
    bool used[METRIC_COUNT], novel = false;
    used_metrics(r, asked, used);
    buf_text(out, "\n## ");
    put_text(out, asked);
    buf_printf(out, "\n\n%zu decisions in %zu groups; labels: ", first->model.n, first->model.groups);
    put_class_counts(out, first);
    buf_printf(out, ". Key `%s`.\n\n", first->cell->key);
    put_heads(out, used);
    for (size_t i = at; i < r->n; i++) {
        const report *p = &r->reports[i];
        if (strcmp(p->cell->question, asked) != 0) continue;
        put_row(out, p->cell->level, &p->model, used);
        novel |= p->novel.n > 0;
    }
    for (size_t i = at; i < r->n; i++) {
        const report *p = &r->reports[i];
        if (strcmp(p->cell->question, asked) != 0 || !first_with_n(r, i)) continue;
        put_row(out, "*majority*", &p->majority, used);
        put_row(out, "*lookup*", &p->lookup, used);
    }
    if (novel) {
        buf_text(out, "\nKeys that no other group carries:\n\n");
        put_heads(out, used);
        for (size_t i = at; i < r->n; i++)
            if (strcmp(r->reports[i].cell->question, asked) == 0) put_row(out, r->reports[i].cell->level, &r->reports[i].novel, used);
        for (size_t i = at; i < r->n; i++)
            if (strcmp(r->reports[i].cell->question, asked) == 0 && first_with_n(r, i)) put_row(out, "*majority*", &r->reports[i].novel_majority, used);
    }
    buf_byte(out, '\n');
    return put_notes(out, r, asked, e);
}

/* Only the first report of a question opens its section. */
static bool opens(const results *r, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (strcmp(r->reports[i].cell->question, r->reports[at].cell->question) == 0) return false;
    return true;
}

static void put_json_text(buf *out, const json *doc, jref r) {
    strv v = json_raw(doc, r);
    if (json_kind_of(doc, r) == JSON_STRING && v.n >= 2) v = (strv){v.p + 1, v.n - 2};
    buf_view(out, v);
}

static status put_environment(buf *out, const results *r, err *e) {
    json doc = {0};
    if (!r->environment.n) return ST_OK;
    status s = json_parse(&doc, r->environment.p, r->environment.n, e);
    if (!s) buf_text(out, "\n## Environment\n\n");
    for (jref k = json_first(&doc, JREF_ROOT); !s && k != JREF_NONE; k = json_next(&doc, JREF_ROOT, k)) {
        buf_text(out, "- ");
        put_json_text(out, &doc, k);
        buf_text(out, ": ");
        put_json_text(out, &doc, json_value(&doc, k));
        buf_byte(out, '\n');
    }
    json_free(&doc);
    return s;
}

status results_markdown(const results *r, buf *out, err *e) {
    status s = ST_OK;
    size_t replicates = r->n ? r->reports[0].model.replicates : 0;
    buf_text(out, "# Results\n\nIn brackets: 95 % intervals from ");
    buf_printf(out, "%zu resamples of the groups (seed %lu). ", replicates, (unsigned long)r->options.seed);
    buf_text(out, "cov@5%: the share that can be decided automatically with at most 5 % errors, most confident first. "
                  "*majority* and *lookup* need no model: they answer with the shares of the labels in the other groups, overall and for the same question, scope, target and option.\n");
    if (r->cells->unlabelled) buf_printf(out, "%zu decisions had no label and were left out.\n", r->cells->unlabelled);
    if (r->cells->unmatched) buf_printf(out, "%zu decisions have no partner in the reversed run.\n", r->cells->unmatched);
    for (size_t i = 0; !s && i < r->n; i++)
        if (opens(r, i)) s = put_question(out, r, i, e);
    if (!s) s = put_environment(out, r, e);
    return s ? s : buf_ok(out, e);
}

static void put_tsv(buf *out, const report *p, const char *what, const char *group, const measured *x) {
    for (int m = 0; m < METRIC_COUNT && x->n; m++) {
        const interval *v = &x->m[m];
        if (isnan(v->value)) continue;
        buf_printf(out, "%s\t%s\t%s\t%s\t%zu\t%s\t%.17g\t", p->cell->question, p->cell->level, what, group, x->n, metric_name((metric)m), v->value);
        if (isnan(v->low)) buf_text(out, "\t\n");
        else buf_printf(out, "%.17g\t%.17g\n", v->low, v->high);
    }
}

status results_tsv(const results *r, buf *out, err *e) {
    buf_text(out, "question\tlevel\twhat\tgroup\tn\tmetric\tvalue\tlow\thigh\n");
    for (size_t i = 0; i < r->n; i++) {
        const report *p = &r->reports[i];
        put_tsv(out, p, "model", "", &p->model);
        put_tsv(out, p, "majority", "", &p->majority);
        put_tsv(out, p, "lookup", "", &p->lookup);
        put_tsv(out, p, "novel", "", &p->novel);
        put_tsv(out, p, "novel_majority", "", &p->novel_majority);
        put_tsv(out, p, "novel_lookup", "", &p->novel_lookup);
        for (size_t g = 0; g < p->n_by_group; g++) put_tsv(out, p, "model", intern_text(&r->cells->groups, p->group_number[g]).p, &p->by_group[g]);
    }
    return buf_ok(out, e);
}
