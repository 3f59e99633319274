/* head-apply: filled prompts in, one decision per item out, at a level. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bundle/bundle.h"
#include "decide/decision.h"
#include "decide/level.h"
#include "json/record.h"

typedef struct settings {
    record_opts rec;
    const char *level, *prior, *format, *require, *combine, *bundle, *route;
    double strength;
} settings;

typedef struct job {
    const settings *o;
    records *r;
    items all;
    levels levels;
    bundle bundle;
    buf bundle_name;
    err *e;
} job;

static status read_all(job *j) {
    json *rec;
    status s;
    while (!(s = records_next(j->r, &rec, j->e)) && rec) {
        record_where at = records_where(j->r);
        if (!(s = items_add(&j->all, rec, at.file, at.line, j->e))) continue;
        jref id = json_get(rec, JREF_ROOT, "id");
        if (json_kind_of(rec, id) == JSON_STRING) err_prefix(j->e, "prompt %.*s", (int)(json_raw(rec, id).n > 80 ? 80 : json_raw(rec, id).n), json_raw(rec, id).p);
        if ((s = records_bad(j->r, j->e))) return s;
    }
    return s;
}

/* Items that lack what their level needs. */
static status set_aside(job *j) {
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->all.n; i++) {
        item *x = &j->all.items[i];
        if (x->bad || !(s = levels_check(&j->levels, &j->all, x, j->e))) continue;
        record_where at = {x->file, x->line};
        s = records_bad_at(j->r, at, (strv){NULL, 0}, j->e);
        x->bad = true;
    }
    return s;
}

/* An item that can be decided on after all it came to; a verdict that is no number is a bad record. */
static status decide(job *j, item *x, verdict *v, bool *there) {
    *there = false;
    if (x->bad || x->probe >= 0) return ST_OK;
    status s = levels_decide(&j->levels, x, v, j->e);
    if (!s) {
        *there = true;
        return ST_OK;
    }
    record_where at = {x->file, x->line};
    x->bad = true;
    return records_bad_at(j->r, at, (strv){NULL, 0}, j->e);
}

static status write_table(job *j) {
    decision_table t = {0};
    buf line = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->all.n; i++) {
        verdict v;
        bool there;
        s = decide(j, &j->all.items[i], &v, &there);
        if (!s && there) s = decision_table_add(&t, &j->all.items[i], &v, j->e);
    }
    for (size_t i = 0; !s && i <= t.n; i++) {
        decision_table_line(&t, i, &line);
        s = records_put(j->r, &line, j->e);
    }
    decision_table_free(&t);
    buf_free(&line);
    return s;
}

static status write_records(job *j) {
    buf line = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->all.n; i++) {
        item *x = &j->all.items[i];
        verdict v;
        bool there;
        if ((s = decide(j, x, &v, &there)) || !there) continue;
        buf_clear(&line);
        decision_put(x, &v, strv_of(j->all.model), &line);
        s = records_put(j->r, &line, j->e);
    }
    buf_free(&line);
    return s;
}

/* The next item that is to be decided, from i on. */
static size_t next_item(const items *all, size_t i) {
    while (i < all->n && (all->items[i].bad || all->items[i].probe >= 0)) i++;
    return i;
}

static bool same_request(const item *a, const item *b) {
    return a->request && b->request && strcmp(a->request, b->request) == 0;
}

/* The answers of one request stand together: one line per request, or per item that came from none. */
static status write_systemone(job *j) {
    buf line = {0}, name = {0};
    items *all = &j->all;
    status s = all->n ? decision_model_name(strv_of(all->model), &name, j->e) : ST_OK;
    for (size_t i = next_item(all, 0); !s && i < all->n;) {
        const item *first = &all->items[i];
        size_t answers = 0;
        buf_clear(&line);
        jw w = jw_of(&line);
        jw_open(&w, '{');
        jw_key(&w, "id");
        jw_text(&w, first->request ? first->request : first->id);
        jw_key(&w, "model");
        jw_view(&w, buf_strv(&name));
        jw_key(&w, "answers");
        jw_open(&w, '{');
        do {
            item *x = &all->items[i];
            verdict v;
            bool there;
            s = decide(j, x, &v, &there);
            if (!s && there) {
                jw_key(&w, x->question);
                decision_answer(x, &v, &w);
                answers++;
            }
            i = next_item(all, i + 1);
        } while (!s && i < all->n && same_request(first, &all->items[i]));
        jw_close(&w, '}');
        jw_close(&w, '}');
        if (!s && answers) s = records_put(j->r, &line, j->e);
    }
    buf_free(&line);
    buf_free(&name);
    return s;
}

static status write_all(job *j) {
    if (strcmp(j->o->format, "table") == 0) return write_table(j);
    return strcmp(j->o->format, "systemone") == 0 ? write_systemone(j) : write_records(j);
}

/* The artifacts that levels above L0 need. */
static status open_bundle(job *j) {
    levels *l = &j->levels;
    char *path = NULL;
    if (!j->o->bundle) {
        if (l->level == LEVEL_L1 || l->level == LEVEL_L2) return err_set(j->e, ST_USAGE, "level %s needs a --bundle", j->o->level);
        return ST_OK;
    }
    status s = bundle_locate(j->o->bundle, &path, j->e);
    if (!s) s = bundle_read(&j->bundle, path, j->e);
    if (!s) s = bundle_name(&j->bundle, &j->bundle_name, j->e);
    l->artifacts = j->bundle.artifacts;
    l->n_artifacts = j->bundle.n;
    l->bundle = buf_strv(&j->bundle_name);
    j->all.keep_hidden = true;
    free(path);
    return s;
}

static status prepare(job *j) {
    const settings *o = j->o;
    levels *l = &j->levels;
    l->level = level_parse(o->level);
    l->require = o->require ? level_parse(o->require) : LEVEL_RAW;
    l->mean = strcmp(o->combine, "mean") == 0;
    l->reword = o->route && strcmp(o->route, "wording") == 0;
    l->source = strcmp(o->prior, "batch") == 0 ? DECIDE_BATCH : strcmp(o->prior, "content_free") == 0 ? DECIDE_CONTENT_FREE : DECIDE_NONE;
    l->strength = isnan(o->strength) ? decide_strength(l->source) : o->strength;
    if (l->level < l->require && l->level != LEVEL_AUTO)
        return err_set(j->e, ST_REFUSED, "level %s is required, the decisions would be at level %s", o->require, o->level);
    return open_bundle(j);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "level", .letter = 'l', .kind = OPT_CHOICE, .arg = "LEVEL", .to = &o.level, .initial = "L0", .choices = "raw|L0|L1|L2|auto",
         .help = "the level to decide at; auto: per question the best that the bundle offers"},
        {.name = "bundle", .letter = 'b', .kind = OPT_TEXT, .arg = "PATH", .to = &o.bundle, .help = "what was learnt from labels: a bundle, or a folder of them with a version in service"},
        {.name = "route", .kind = OPT_CHOICE, .arg = "ROUTE", .to = &o.route, .choices = "exact|wording", .initial = "exact",
         .help = "which head may answer: one fitted on the question itself (its options in any order, if it was fitted on random orders), or also on another wording"},
        {.name = "require", .kind = OPT_CHOICE, .arg = "LEVEL", .to = &o.require, .choices = "raw|L0|L1|L2", .help = "refuse (4) when decisions would be below this level"},
        {.name = "prior", .kind = OPT_CHOICE, .arg = "PRIOR", .to = &o.prior, .initial = "batch", .choices = "batch|content_free|none",
         .help = "at L0: divide by the mean answer over this run's items of the question, from 8 items on; by that to probes without content; or by nothing"},
        {.name = "prior-strength", .kind = OPT_REAL, .arg = "X", .to = &o.strength, .min = 0, .max = 1,
         .help = "exponent on the prior, instead of 0.75 with batch and 1 with content_free"},
        {.name = "combine", .kind = OPT_CHOICE, .arg = "RULE", .to = &o.combine, .initial = "logmean", .choices = "logmean|mean",
         .help = "at L0: average logarithms over the permutations, or probabilities (to compare; it does not undo the bias)"},
        {.name = "format", .letter = 'f', .kind = OPT_CHOICE, .arg = "FORMAT", .to = &o.format, .initial = "jsonl", .choices = "jsonl|table|systemone",
         .help = "decision records, a table to read, or System One answers"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "head-apply", .operands = "[FILE ...]", .summary = "filled prompts to decisions, one per item, at a level",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  prefill-local --model m.gguf prompts.jsonl | head-apply --level L0 --format table\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    status s = prepare(&j);
    if (!s) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
    if (!s) s = read_all(&j);
    if (!s) s = levels_begin(&j.levels, &j.all, &e);
    if (!s) s = set_aside(&j);
    if (!s) s = levels_gather(&j.levels, &j.all, &e);
    if (!s) s = write_all(&j);
    s = records_close(j.r, s, &e);
    items_free(&j.all);
    levels_free(&j.levels);
    bundle_free(&j.bundle);
    buf_free(&j.bundle_name);
    return opt_finish(&program, s, &e);
}
