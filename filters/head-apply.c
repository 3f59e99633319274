/* head-apply: filled prompts in, one decision per item out, at a level. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "base/version.h"
#include "decide/items.h"
#include "json/record.h"

typedef struct settings {
    record_opts rec;
    const char *level, *prior, *format, *require;
    double strength;
} settings;

typedef struct job {
    const settings *o;
    records *r;
    items all;
    decide_prior *priors; /* by group */
    err *e;
} job;

/* A decided item. */
typedef struct verdict {
    decide_result result;
    size_t prior_items; /* that the correction rests on; 0: none was made */
} verdict;

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

static bool at_raw(const job *j) {
    return strcmp(j->o->level, "raw") == 0;
}

/* Distributions by shift; row s is the shift whose first option is s. */
static void distributions(const item *x, double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX]) {
    for (size_t i = 0; i < x->n_shifts; i++) {
        size_t s = x->shifts[i]->shift;
        decide_softmax(p[s], x->shifts[i]->logprobs, x->k);
        for (size_t k = 0; k < x->k; k++) perm[s][k] = (s + k) % x->k;
    }
}

static const item_shift *listed(const item *x) {
    for (size_t i = 0; i < x->n_shifts; i++)
        if (x->shifts[i]->shift == 0) return x->shifts[i];
    return NULL;
}

/* What the level needs of an item; an item that lacks it is bad. */
static status check_item(const job *j, const item *x) {
    if (at_raw(j) && !listed(x)) return err_set(j->e, ST_INPUT, "item '%s' lacks the prompt with the options as listed", x->id);
    if (!at_raw(j) && x->n_shifts != item_full(x))
        return err_set(j->e, ST_INPUT, "item '%s' has %zu of the %zu permutations that level L0 needs (prompt-build --level L0 makes them)", x->id, x->n_shifts, item_full(x));
    return ST_OK;
}

static status set_aside(job *j) {
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->all.n; i++) {
        item *x = &j->all.items[i];
        if ((s = check_item(j, x))) {
            record_where at = {x->file, x->line};
            s = records_bad_at(j->r, at, (strv){NULL, 0}, j->e);
            x->bad = true;
        }
    }
    return s;
}

static status gather_priors(job *j) {
    j->priors = mem_zero(j->all.n_keys, sizeof *j->priors);
    if (!j->priors) return err_memory(j->e, j->all.n_keys * sizeof *j->priors);
    for (size_t i = 0; i < j->all.n; i++) {
        const item *x = &j->all.items[i];
        decide_prior *prior = &j->priors[x->group];
        if (x->bad) continue;
        double p[DECIDE_MAX][DECIDE_MAX];
        size_t perm[DECIDE_MAX][DECIDE_MAX];
        prior->k = x->k;
        prior->shifts = item_full(x);
        distributions(x, p, perm);
        decide_prior_add(prior, p);
    }
    return ST_OK;
}

static void decide(const job *j, const item *x, verdict *v) {
    double p[DECIDE_MAX][DECIDE_MAX];
    size_t perm[DECIDE_MAX][DECIDE_MAX];
    *v = (verdict){0};
    distributions(x, p, perm);
    if (at_raw(j)) {
        decide_raw(p[0], perm[0], x->k, &v->result);
        return;
    }
    const decide_prior *prior = strcmp(j->o->prior, "batch") == 0 ? &j->priors[x->group] : NULL;
    if (prior && prior->items >= DECIDE_PRIOR_ITEMS && j->o->strength > 0) v->prior_items = prior->items;
    decide_l0(p, perm, item_full(x), x->k, prior, j->o->strength, &v->result);
}

static double value_of(const item *x, const verdict *v) {
    double value = 0;
    for (size_t i = 0; i < x->k; i++) value += x->centers[i] * v->result.probs[i];
    return value;
}

/* --- JSON Lines --- */

static void put_run(jw *w) {
    jw_key(w, "run");
    jw_open(w, '{');
    jw_key(w, "version");
    jw_text(w, version_number());
    jw_key(w, "commit");
    jw_text(w, version_commit());
    jw_key(w, "dirty");
    jw_bool(w, version_dirty());
    jw_close(w, '}');
}

static void put_calibration(const job *j, const item *x, const verdict *v, jw *w) {
    jw_key(w, "calibration");
    if (at_raw(j)) {
        jw_null(w);
    } else {
        jw_open(w, '{');
        jw_key(w, "prior");
        jw_text(w, v->prior_items ? "batch" : "none");
        jw_key(w, "prior_strength");
        jw_real(w, v->prior_items ? j->o->strength : 0);
        jw_key(w, "prior_items");
        jw_size(w, v->prior_items);
        jw_close(w, '}');
    }
    jw_key(w, "diagnostics");
    jw_open(w, '{');
    jw_key(w, "permutations");
    jw_size(w, at_raw(j) ? 1 : item_full(x));
    if (x->n_mass) {
        jw_key(w, "answer_mass");
        jw_real(w, x->mass / (double)x->n_mass);
    }
    if (!at_raw(j)) {
        jw_key(w, "flips_raw");
        jw_real(w, v->result.flips_raw);
        jw_key(w, "flips");
        jw_real(w, v->result.flips);
    }
    jw_close(w, '}');
}

static void put_decision(const job *j, const item *x, const verdict *v, buf *out) {
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "decision");
    jw_key(&w, "id");
    jw_text(&w, x->id);
    buf_byte(out, ',');
    buf_text(out, x->head);
    jw_key(&w, "probs");
    jw_open(&w, '[');
    for (size_t i = 0; i < x->k; i++) jw_real(&w, v->result.probs[i]);
    jw_close(&w, ']');
    jw_key(&w, "answer");
    jw_text(&w, x->options[v->result.answer]);
    jw_key(&w, "answer_index");
    jw_size(&w, v->result.answer);
    jw_key(&w, "confidence");
    jw_real(&w, v->result.confidence);
    jw_key(&w, "margin");
    jw_real(&w, v->result.margin);
    if (x->kind == QUESTION_NOUL) {
        jw_key(&w, "p_true");
        jw_real(&w, v->result.probs[0]);
    }
    if (x->kind == QUESTION_SCORE) {
        jw_key(&w, "value");
        jw_real(&w, value_of(x, v));
    }
    jw_key(&w, "level");
    jw_text(&w, j->o->level);
    put_calibration(j, x, v, &w);
    jw_key(&w, "missing_labels");
    if (x->missing) jw_raw(&w, strv_of(x->missing));
    else jw_raw(&w, strv_of("[]"));
    jw_key(&w, "model");
    jw_raw(&w, strv_of(j->all.model));
    jw_key(&w, "bundle");
    jw_null(&w);
    buf_text(out, x->tail);
    put_run(&w);
    jw_close(&w, '}');
}

/* --- System One: the answers under the questions' names --- */

static void put_systemone(const job *j, const item *x, const verdict *v, buf *out) {
    const char *kind = question_kind_name(x->kind);
    json doc = {0};
    err ignored = {0};
    strv name = {0};
    buf scratch = {0};
    if (json_parse(&doc, j->all.model, strlen(j->all.model), &ignored) == ST_OK) json_text(&doc, json_get(&doc, JREF_ROOT, "name"), &scratch, &name, &ignored);
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "id");
    jw_text(&w, x->id);
    jw_key(&w, "model");
    jw_view(&w, name);
    jw_key(&w, "level");
    jw_text(&w, j->o->level);
    jw_key(&w, "answers");
    jw_open(&w, '{');
    jw_key(&w, x->question);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, kind);
    jw_key(&w, kind);
    if (x->kind == QUESTION_NOUL) jw_real(&w, v->result.probs[0]);
    else if (x->kind == QUESTION_SCORE) jw_real(&w, value_of(x, v));
    else jw_text(&w, x->options[v->result.answer]);
    if (x->kind != QUESTION_NOUL) {
        jw_key(&w, "confidence");
        jw_real(&w, v->result.confidence);
        jw_key(&w, "probabilities");
        jw_open(&w, '{');
        for (size_t i = 0; i < x->k; i++) {
            jw_key(&w, x->options[i]);
            jw_real(&w, v->result.probs[i]);
        }
        jw_close(&w, '}');
    }
    for (int i = 0; i < 3; i++) jw_close(&w, '}');
    json_free(&doc);
    buf_free(&scratch);
}

/* --- the table --- */

enum { COLUMNS = 6, WIDEST = 60 };
typedef char *row[COLUMNS];

static size_t display_width(const char *s) {
    size_t width = 0;
    while (*s) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c);
        if (k <= 0) break;
        int w = utf8proc_charwidth(c);
        width += w > 0 ? (size_t)w : 0;
        s += k;
    }
    return width;
}

/* A cell's text: control bytes (which would move the cursor) as dots, cut to WIDEST columns of the terminal. */
static char *cell(const char *s) {
    buf b = {0};
    size_t width = 0;
    while (*s) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c);
        if (k <= 0) break;
        int w = utf8proc_charwidth(c);
        bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
        if (width + (size_t)(w > 0 ? w : 0) > WIDEST - 1) {
            buf_text(&b, "\xE2\x80\xA6");
            break;
        }
        if (control) buf_byte(&b, '.');
        else buf_put(&b, s, (size_t)k);
        width += control ? 1 : (size_t)(w > 0 ? w : 0);
        s += k;
    }
    return buf_take(&b);
}

static char *probability(double p) {
    buf b = {0};
    buf_printf(&b, "%.3f", p);
    return buf_take(&b);
}

static char *note(const job *j, const item *x, const verdict *v) {
    buf b = {0};
    if (x->kind == QUESTION_SCORE) buf_printf(&b, "value %.3f", value_of(x, v));
    if (x->missing) buf_printf(&b, "%smissing labels", b.len ? ", " : "");
    if (!at_raw(j) && v->result.flips > 0) buf_printf(&b, "%sthe order matters", b.len ? ", " : "");
    return buf_take(&b);
}

static status make_row(const job *j, const item *x, const verdict *v, row r) {
    r[0] = cell(x->name);
    r[1] = cell(x->question);
    r[2] = cell(x->options[v->result.answer]);
    r[3] = probability(v->result.confidence);
    r[4] = cell(j->o->level);
    r[5] = note(j, x, v);
    for (int c = 0; c < COLUMNS; c++)
        if (!r[c]) return err_memory(j->e, WIDEST);
    return ST_OK;
}

static void put_row(const row r, const size_t width[COLUMNS], buf *line) {
    buf_clear(line);
    for (int c = 0; c < COLUMNS; c++) {
        size_t pad = width[c] - display_width(r[c]);
        if (c) buf_text(line, "  ");
        if (c == 3) /* numbers to the right */
            while (pad) buf_byte(line, ' '), pad--;
        buf_text(line, r[c]);
        while (pad) buf_byte(line, ' '), pad--;
    }
    while (line->len && line->p[line->len - 1] == ' ') line->p[--line->len] = '\0';
}

static status write_table(job *j) {
    static char heads[COLUMNS][9] = {"ITEM", "QUESTION", "ANSWER", "P", "LEVEL", "NOTE"};
    row head = {heads[0], heads[1], heads[2], heads[3], heads[4], heads[5]};
    size_t width[COLUMNS];
    row *rows = mem_zero(j->all.n, sizeof *rows);
    status s = rows ? ST_OK : err_memory(j->e, j->all.n * sizeof *rows);
    buf line = {0};
    for (int c = 0; c < COLUMNS; c++) width[c] = strlen(heads[c]);
    for (size_t i = 0; !s && i < j->all.n; i++) {
        verdict v;
        if (j->all.items[i].bad) continue;
        decide(j, &j->all.items[i], &v);
        s = make_row(j, &j->all.items[i], &v, rows[i]);
        for (int c = 0; !s && c < COLUMNS; c++)
            if (display_width(rows[i][c]) > width[c]) width[c] = display_width(rows[i][c]);
    }
    put_row(head, width, &line);
    if (!s) s = records_put(j->r, &line, j->e);
    for (size_t i = 0; !s && i < j->all.n; i++) {
        if (!rows[i][0]) continue;
        put_row(rows[i], width, &line);
        s = records_put(j->r, &line, j->e);
    }
    for (size_t i = 0; rows && i < j->all.n; i++)
        for (int c = 0; c < COLUMNS; c++) free(rows[i][c]);
    free(rows);
    buf_free(&line);
    return s;
}

static status write_records(job *j) {
    buf line = {0};
    status s = ST_OK;
    bool systemone = strcmp(j->o->format, "systemone") == 0;
    for (size_t i = 0; !s && i < j->all.n; i++) {
        const item *x = &j->all.items[i];
        verdict v;
        if (x->bad) continue;
        decide(j, x, &v);
        buf_clear(&line);
        (systemone ? put_systemone : put_decision)(j, x, &v, &line);
        s = records_put(j->r, &line, j->e);
    }
    buf_free(&line);
    return s;
}

static status check_required(const settings *o, err *e) {
    if (!o->require || strcmp(o->require, "raw") == 0 || strcmp(o->level, o->require) == 0) return ST_OK;
    return err_set(e, ST_REFUSED, "level %s is required, the decisions would be at level %s", o->require, o->level);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "level", .letter = 'l', .kind = OPT_CHOICE, .arg = "LEVEL", .to = &o.level, .initial = "L0", .choices = "raw|L0", .help = "the level to decide at"},
        {.name = "require", .kind = OPT_CHOICE, .arg = "LEVEL", .to = &o.require, .choices = "raw|L0|L1|L2", .help = "refuse (4) when decisions would be below this level"},
        {.name = "prior", .kind = OPT_CHOICE, .arg = "PRIOR", .to = &o.prior, .initial = "batch", .choices = "batch|none",
         .help = "at L0: divide by the mean answer over this run's items of the question, from 8 items on, or by nothing"},
        {.name = "prior-strength", .kind = OPT_REAL, .arg = "X", .to = &o.strength, .initial = DECIDE_PRIOR_STRENGTH, .min = 0, .max = 1, .help = "exponent on the prior"},
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
    status s = check_required(&o, &e);
    if (!s) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
    if (!s) s = read_all(&j);
    if (!s) s = set_aside(&j);
    if (!s && !at_raw(&j)) s = gather_priors(&j);
    if (!s) s = strcmp(o.format, "table") == 0 ? write_table(&j) : write_records(&j);
    s = records_close(j.r, s, &e);
    items_free(&j.all);
    free(j.priors);
    return opt_finish(&program, s, &e);
}
