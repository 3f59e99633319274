/* label-ingest: label files in, labelled items out, one per question and state. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/share.h"
#include "json/record.h"
#include "label/label.h"

typedef struct settings {
    record_opts rec;
    const char *cards, *terms, *questions, *question, *only;
} settings;

typedef struct job {
    const settings *o;
    registry questions;
    labels all;
    silver *silver;
    const question *fallback, *only;
    output *out, *errors;
    size_t bad;
    err *e;
} job;

/* A bad label ends the run, or with --keep-going goes to the errors file. */
static status bad(job *j, const char *file, size_t line, strv raw) {
    record_where at = {file, line};
    if (!j->o->rec.keep_going || (j->e->status != ST_INPUT && j->e->status != ST_REFUSED)) return err_prefix(j->e, "%s:%zu", file, line);
    j->bad++;
    if (j->errors) return record_error_put(j->errors, at, raw, j->e, j->e);
    fprintf(stderr, "label-ingest: %s:%zu: %s\n", file, line, j->e->text);
    return ST_OK;
}

static status one_object(job *j, const json *doc, jref r, const char *where) {
    if (json_get(doc, r, "avus") != JREF_NONE) return silver_add(j->silver, doc, r, where, j->e);
    json row = {0};
    strv raw = json_raw(doc, r);
    status s = json_parse(&row, raw.p, raw.n, j->e);
    if (!s) s = label_row(&j->all, &row, j->fallback, where, j->e);
    json_free(&row);
    return s;
}

static status take_object(job *j, const json *doc, jref r, const char *file, size_t line) {
    buf where = {0};
    strv raw = json_raw(doc, r);
    buf_printf(&where, "%s:%zu", file, line);
    status s = buf_ok(&where, j->e);
    if (!s && (s = one_object(j, doc, r, where.p))) s = bad(j, file, line, raw);
    buf_free(&where);
    return s;
}

static size_t line_of(const char *text, const char *at) {
    size_t line = 1;
    for (; text < at; text++) line += *text == '\n';
    return line;
}

/* A JSON array of runs or rows. */
static status take_array(job *j, strv text, const char *file) {
    json doc = {0};
    status s = json_parse(&doc, text.p, text.n, j->e);
    if (s) err_prefix(j->e, "%s", file);
    for (jref r = s ? JREF_NONE : json_first(&doc, JREF_ROOT); !s && r != JREF_NONE; r = json_next(&doc, JREF_ROOT, r)) s = take_object(j, &doc, r, file, line_of(text.p, json_raw(&doc, r).p));
    json_free(&doc);
    return s;
}

static status take_json_line(job *j, strv line, const char *file, size_t number) {
    json doc = {0};
    status s = json_parse(&doc, line.p, line.n, j->e);
    if (!s && json_kind_of(&doc, JREF_ROOT) != JSON_OBJECT) s = err_set(j->e, ST_INPUT, "expected an object");
    s = s ? bad(j, file, number, line) : take_object(j, &doc, JREF_ROOT, file, number);
    json_free(&doc);
    return s;
}

/* The field at the start of *rest, which moves on; false behind the last one. */
static bool next_field(strv *rest, bool *more, strv *field) {
    if (!*more) return false;
    const char *tab = memchr(rest->p, '\t', rest->n);
    *field = (strv){rest->p, tab ? (size_t)(tab - rest->p) : rest->n};
    *more = tab != NULL;
    *rest = tab ? (strv){tab + 1, rest->n - field->n - 1} : (strv){0};
    return true;
}

/* A row of tab-separated values as an object; empty fields are left out. */
static status row_object(strv head, strv line, buf *out, err *e) {
    bool more_names = true, more = true;
    strv name, field;
    jw w = jw_of(out);
    jw_open(&w, '{');
    while (next_field(&head, &more_names, &name)) {
        if (!next_field(&line, &more, &field)) return err_set(e, ST_INPUT, "too few fields: '%.*s' is missing", (int)name.n, name.p);
        field = strv_trim(field);
        if (!field.n) continue;
        jw_key_view(&w, strv_trim(name));
        jw_view(&w, field);
    }
    if (more) return err_set(e, ST_INPUT, "more fields than the heading has");
    jw_close(&w, '}');
    return buf_ok(out, e);
}

static status take_row(job *j, strv head, strv line, const char *file, size_t number) {
    buf text = {0};
    size_t at;
    status s = utf8_valid(line.p, line.n, &at) ? ST_OK : err_set(j->e, ST_INPUT, "invalid UTF-8 at byte %zu", at + 1);
    if (!s) s = row_object(head, line, &text, j->e);
    s = s ? bad(j, file, number, (strv){0}) : take_json_line(j, buf_strv(&text), file, number);
    buf_free(&text);
    return s;
}

static status check_head(strv head, const char *file, err *e) {
    bool more = true, there = false;
    strv name, rest = head;
    while (next_field(&rest, &more, &name)) there |= strv_is(strv_trim(name), "label");
    return there ? ST_OK : err_set(e, ST_INPUT, "%s:1: expected a heading of tab-separated names with 'label' among them, JSON Lines, or an array of runs", file);
}

static status take_lines(job *j, strv text, bool is_json, const char *file) {
    strv head = {0};
    status s = ST_OK;
    for (size_t number = 1; !s && text.n; number++) {
        strv line = strv_line(&text);
        if (!strv_trim(line).n) continue;
        if (is_json) {
            s = take_json_line(j, line, file, number);
        } else if (!head.n) {
            head = line;
            s = check_head(head, file, j->e);
        } else {
            s = take_row(j, head, line, file, number);
        }
    }
    return s;
}

static status take_file(job *j, const char *path) {
    buf text = {0};
    const char *name = strcmp(path, "-") == 0 ? "(standard input)" : path;
    status s = file_read(path, &text, j->e);
    strv all = buf_strv(&text);
    if (strv_starts(all, "\xEF\xBB\xBF")) all = (strv){all.p + 3, all.n - 3};
    strv body = strv_trim(all);
    if (!s && !body.n) s = err_set(j->e, ST_INPUT, "%s: the file is empty", name);
    if (!s) s = *body.p == '[' ? take_array(j, body, name) : take_lines(j, all, *body.p == '{', name);
    buf_free(&text);
    return s;
}

static status prepare(job *j) {
    const settings *o = j->o;
    char *path = NULL;
    status s = record_opts_check(&o->rec, j->e);
    if (!s && !o->questions) s = share_path("questions.json", &path, j->e);
    if (!s) s = registry_load(&j->questions, o->questions ? o->questions : path, j->e);
    free(path);
    if (!s && o->question && !(j->fallback = registry_find(&j->questions, strv_of(o->question))))
        s = err_set(j->e, ST_USAGE, "option --question: the registry has no question '%s'", o->question);
    if (!s && o->only && !(j->only = registry_find(&j->questions, strv_of(o->only))))
        s = err_set(j->e, ST_USAGE, "option --only: the registry has no question '%s'", o->only);
    j->all.registry = &j->questions;
    if (!s && o->cards) s = label_cards(&j->all, o->cards, j->e);
    if (!s && o->terms) s = label_terms(&j->all, o->terms, j->e);
    if (!s) s = silver_create(&j->silver, j->e);
    if (!s) s = output_open(&j->out, o->rec.output, false, j->e);
    if (!s && o->rec.errors) s = output_open(&j->errors, o->rec.errors, false, j->e);
    return s;
}

static status write_items(job *j) {
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->all.states.n; i++) {
        const char *text = j->all.items[i].text;
        if (j->only && j->all.items[i].q != j->only) continue;
        s = output_put(j->out, text, strlen(text), j->e);
        if (!s) s = output_put(j->out, "\n", 1, j->e);
    }
    return s;
}

static void say_notes(const job *j) {
    strv rest = buf_strv(&j->all.notes);
    while (rest.n) {
        strv line = strv_line(&rest);
        fprintf(stderr, "label-ingest: %.*s\n", (int)line.n, line.p);
    }
    if (j->all.outweighed) fprintf(stderr, "label-ingest: %zu labels outweighed by heavier ones on the same state\n", j->all.outweighed);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "cards", .letter = 'c', .kind = OPT_TEXT, .arg = "FILE", .to = &o.cards, .help = "card records of the cards that the labels are about"},
        {.name = "terms", .kind = OPT_TEXT, .arg = "FILE", .to = &o.terms, .help = "candidate records: what is known of a term beyond its label and CURIE"},
        {.name = "question", .letter = 'q', .kind = OPT_TEXT, .arg = "ID", .to = &o.question, .help = "the question of rows that name none"},
        {.name = "only", .kind = OPT_TEXT, .arg = "ID", .to = &o.only, .help = "write the items of this question alone"},
        {.name = "questions", .kind = OPT_TEXT, .arg = "FILE", .to = &o.questions, .help = "take the registry of FILE instead of the suite's own"},
        OUTPUT_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "label-ingest", .operands = "[FILE ...]", .summary = "label files to labelled items, one per question and state",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  card-parse cards/*.md > cards.jsonl\n  label-ingest --cards cards.jsonl labels.tsv | prompt-build --model m.gguf\n"};
    static char dash[] = "-";
    char *standard[] = {dash};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    status s = prepare(&j);
    char **files = rest.n ? rest.files : standard;
    for (size_t i = 0; !s && i < (rest.n ? rest.n : 1); i++) s = take_file(&j, files[i]);
    if (!s) s = silver_finish(j.silver, &j.all, &e);
    if (!s) s = write_items(&j);
    if (!s) say_notes(&j);
    if (!s && j.bad) s = err_set(&e, ST_PARTIAL, "%zu labels were set aside", j.bad);
    if (j.out) s = output_end(j.out, s, &e);
    if (j.errors) s = output_end(j.errors, s, &e);
    silver_free(j.silver);
    label_free(&j.all);
    registry_free(&j.questions);
    return opt_finish(&program, s, &e);
}
