#include "metrics/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *results_evaluation(const cell *c) {
    if (c->held_out == c->n) return "leave-one-out";
    return strcmp(c->level, "raw") == 0 || strcmp(c->level, "L0") == 0 ? "no labels used" : "not held out";
}

status results_cell_id(const cell *c, buf *out, err *e) {
    buf_printf(out, "%s/%s", c->question, c->level);
    return buf_ok(out, e);
}

static status warn(warnings *w, buf *text, err *e) {
    char *t = buf_take(text);
    if (!t || !mem_grow((void **)&w->items, &w->cap, w->n + 1, sizeof *w->items)) {
        free(t);
        return err_memory(e, (w->n + 1) * sizeof *w->items);
    }
    w->items[w->n++] = t;
    return ST_OK;
}

status results_warnings(const report *r, warnings *w, err *e) {
    const cell *c = r->cell;
    buf b = {0};
    status s = ST_OK;
    if (r->negatives < METRIC_NEGATIVES) {
        buf_printf(&b, "rests on %zu negatives; fewer than %d carry no threshold", r->negatives, METRIC_NEGATIVES);
        s = warn(w, &b, e);
    }
    if (!s && r->model.groups < 2) {
        buf_text(&b, "one group: no intervals and no baselines");
        s = warn(w, &b, e);
    }
    if (!s && isnan(r->model.m[METRIC_AUROC].value) && c->k == 2) {
        buf_text(&b, "one class among the labels: no AUROC");
        s = warn(w, &b, e);
    }
    if (!s && c->missing) {
        buf_printf(&b, "%zu decisions with a missing label", c->missing);
        s = warn(w, &b, e);
    }
    if (!s && strcmp(results_evaluation(c), "not held out") == 0) {
        buf_text(&b, "decided by a head that may have seen these labels: not held out");
        s = warn(w, &b, e);
    }
    buf_free(&b);
    return s;
}

void warnings_free(warnings *w) {
    for (size_t i = 0; i < w->n; i++) free(w->items[i]);
    free(w->items);
    *w = (warnings){0};
}

static void put_number(jw *w, double v) {
    if (isnan(v)) jw_null(w);
    else jw_real(w, v);
}

static void put_metrics(jw *w, const measured *m) {
    jw_open(w, '{');
    for (int i = 0; i < METRIC_COUNT; i++) {
        jw_key(w, metric_name((metric)i));
        jw_open(w, '{');
        jw_key(w, "value");
        put_number(w, m->m[i].value);
        if (m->replicates) {
            jw_key(w, "low");
            put_number(w, m->m[i].low);
            jw_key(w, "high");
            put_number(w, m->m[i].high);
        }
        jw_close(w, '}');
    }
    jw_close(w, '}');
}

static void put_classes(jw *w, const cell *c, const measured *m) {
    jw_open(w, '{');
    for (size_t i = 0; i < c->k; i++) {
        jw_key(w, c->options[i]);
        jw_size(w, m->classes[i]);
    }
    jw_close(w, '}');
}

static void put_baselines(jw *w, const measured *majority, const measured *lookup) {
    jw_key(w, "baselines");
    jw_open(w, '{');
    jw_key(w, "majority");
    if (majority->n) put_metrics(w, majority);
    else jw_text(w, "does not apply: one group");
    jw_key(w, "lookup");
    if (lookup->n) put_metrics(w, lookup);
    else jw_text(w, majority->n ? "does not apply: no decision has a target or an option in its meta" : "does not apply: one group");
    jw_close(w, '}');
}

static void put_curves(jw *w, const measured *m) {
    jw_key(w, "reliability");
    jw_open(w, '[');
    for (size_t b = 0; b < METRIC_BINS; b++) {
        if (!m->bins[b].n) continue;
        jw_open(w, '{');
        jw_key(w, "n");
        jw_size(w, m->bins[b].n);
        jw_key(w, "confidence");
        jw_real(w, m->bins[b].confidence);
        jw_key(w, "accuracy");
        jw_real(w, (double)m->bins[b].right / (double)m->bins[b].n);
        jw_close(w, '}');
    }
    jw_close(w, ']');
    jw_key(w, "risk_coverage");
    jw_open(w, '[');
    for (size_t i = 0; i < m->n_curve; i++) {
        jw_open(w, '[');
        jw_real(w, m->curve[i].coverage);
        jw_real(w, m->curve[i].risk);
        jw_close(w, ']');
    }
    jw_close(w, ']');
}

static void put_groups(jw *w, const results *r, const report *p) {
    if (!p->by_group) return;
    jw_key(w, "by_group");
    jw_open(w, '[');
    for (size_t i = 0; i < p->n_by_group; i++) {
        strv name = intern_text(&r->cells->groups, p->group_number[i]);
        jw_open(w, '{');
        jw_key(w, "group");
        jw_view(w, (strv){name.p, strnlen(name.p, name.n)});
        jw_key(w, "n");
        jw_size(w, p->by_group[i].n);
        jw_key(w, "classes");
        put_classes(w, p->cell, &p->by_group[i]);
        jw_key(w, "metrics");
        put_metrics(w, &p->by_group[i]);
        jw_close(w, '}');
    }
    jw_close(w, ']');
}

static status put_cell(jw *w, const results *r, const report *p, err *e) {
    const cell *c = p->cell;
    buf id = {0};
    warnings all = {0};
    status s = results_cell_id(c, &id, e);
    if (!s) s = results_warnings(p, &all, e);
    jw_open(w, '{');
    jw_key(w, "cell");
    jw_view(w, buf_strv(&id));
    jw_key(w, "question");
    jw_text(w, c->question);
    jw_key(w, "key");
    jw_text(w, c->key);
    jw_key(w, "kind");
    jw_text(w, question_kind_name(c->kind));
    jw_key(w, "level");
    jw_text(w, c->level);
    jw_key(w, "evaluation");
    jw_text(w, results_evaluation(c));
    jw_key(w, "model");
    jw_raw(w, strv_of(c->model));
    jw_key(w, "n");
    jw_size(w, p->model.n);
    jw_key(w, "groups");
    jw_size(w, p->model.groups);
    jw_key(w, "classes");
    put_classes(w, c, &p->model);
    jw_key(w, "negatives");
    jw_size(w, p->negatives);
    jw_key(w, "replicates");
    jw_size(w, p->model.replicates);
    jw_key(w, "metrics");
    put_metrics(w, &p->model);
    put_baselines(w, &p->majority, &p->lookup);
    jw_key(w, "lookup_found");
    jw_size(w, p->lookup_found);
    jw_key(w, "novel");
    if (p->novel.n) {
        jw_open(w, '{');
        jw_key(w, "n");
        jw_size(w, p->novel.n);
        jw_key(w, "groups");
        jw_size(w, p->novel.groups);
        jw_key(w, "classes");
        put_classes(w, c, &p->novel);
        jw_key(w, "metrics");
        put_metrics(w, &p->novel);
        put_baselines(w, &p->novel_majority, &p->novel_lookup);
        jw_close(w, '}');
    } else {
        jw_null(w);
    }
    jw_key(w, "warnings");
    jw_open(w, '[');
    for (size_t i = 0; i < all.n; i++) jw_text(w, all.items[i]);
    jw_close(w, ']');
    put_curves(w, &p->model);
    put_groups(w, r, p);
    jw_close(w, '}');
    buf_free(&id);
    warnings_free(&all);
    return s;
}

status results_json(const results *r, buf *out, err *e) {
    jw w = jw_of(out);
    status s = ST_OK;
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "results");
    jw_key(&w, "environment");
    if (r->environment.n) jw_raw(&w, r->environment);
    else jw_null(&w);
    jw_key(&w, "seed");
    jw_size(&w, (size_t)r->options.seed);
    jw_key(&w, "unlabelled");
    jw_size(&w, r->cells->unlabelled);
    jw_key(&w, "unmatched");
    jw_size(&w, r->cells->unmatched);
    jw_key(&w, "cells");
    jw_open(&w, '[');
    for (size_t i = 0; !s && i < r->n; i++) s = put_cell(&w, r, &r->reports[i], e);
    jw_close(&w, ']');
    jw_close(&w, '}');
    return s ? s : buf_ok(out, e);
}
