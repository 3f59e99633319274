/* prompt-build: card, case and item records in, prompt records out, one per item and permutation. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/share.h"
#include "json/lines.h"
#include "json/record.h"
#include "question/prompts.h"
#include "question/state.h"
#include "question/where.h"
#include "weights/locate.h"

typedef struct settings {
    record_opts rec;
    const char *model, *template, *questions, *readout, *level, *question, *where, *cards, *lock;
    bool allow_control_tokens, check_lock, write_lock;
} settings;

/* A card record kept for case records that name it by its hash. */
typedef struct kept_card {
    char *sha, *text;
    size_t len;
} kept_card;

typedef struct job {
    const settings *o;
    records *r;
    registry questions;
    readout readout;
    prompts_style style;
    where where;
    kept_card *cards;
    size_t n_cards, cap_cards;
    err *e;
} job;

static status put_record(void *ctx, const buf *record, err *e) {
    job *j = ctx;
    (void)e;
    return records_put(j->r, record, j->e);
}

static status find_question(job *j, const json *doc, jref at, const question **found, question *own) {
    buf scratch = {0};
    strv id;
    status s = ST_OK;
    json_kind k = json_kind_of(doc, at);
    *found = NULL;
    if (k == JSON_NONE) {
        if (!j->o->question) return err_set(j->e, ST_INPUT, "field 'question' is missing, and --question names none");
        *found = registry_find(&j->questions, strv_of(j->o->question));
    } else if (k == JSON_STRING) {
        if (!(s = json_text(doc, at, &scratch, &id, j->e)) && !(*found = registry_find(&j->questions, id)))
            s = err_set(j->e, ST_INPUT, "field 'question': the registry has no question '%.*s'", (int)(id.n > 100 ? 100 : id.n), id.p);
    } else if (!(s = question_read(own, doc, at, j->e))) {
        *found = own;
    }
    buf_free(&scratch);
    return s;
}

static status read_item(job *j, const json *rec) {
    question own = {0};
    const question *q;
    buf scratch = {0};
    strv id = {0};
    jref at = json_get(rec, JREF_ROOT, "id");
    status s = find_question(j, rec, json_get(rec, JREF_ROOT, "question"), &q, &own);
    if (!s && json_kind_of(rec, at) == JSON_STRING) s = json_text(rec, at, &scratch, &id, j->e);
    else if (!s && json_kind_of(rec, at) == JSON_NUMBER) id = json_raw(rec, at);
    else if (!s && json_kind_of(rec, at) != JSON_NONE) s = err_set(j->e, ST_INPUT, "field 'id': expected a string");
    jref state = json_get(rec, JREF_ROOT, "state");
    if (!s && state == JREF_NONE) s = err_set(j->e, ST_INPUT, "field 'state' is missing");
    if (!s) {
        prompts_item item = {.q = q, .id = id, .doc = rec, .state = state, .extra = rec};
        s = prompts_make(&j->style, &item, put_record, j, j->e);
    }
    buf_free(&scratch);
    question_free(&own);
    return s;
}

/* One item with a state that was built: its id is readable and the same for the same card and target. */
static status built_item(job *j, const question *q, const buf *state, const json *extra, strv id, strv group, strv meta) {
    json doc = {0};
    status s = json_parse(&doc, state->p, state->len, j->e);
    if (!s) {
        prompts_item item = {.q = q, .id = id, .doc = &doc, .state = JREF_ROOT, .extra = extra, .group = group, .meta = meta};
        s = prompts_make(&j->style, &item, put_record, j, j->e);
    }
    json_free(&doc);
    return s;
}

static void put_meta(buf *out, strv dataset, strv column) {
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "card");
    jw_view(&w, dataset);
    jw_key(&w, "column");
    jw_view(&w, column);
    jw_close(&w, '}');
}

/* Every column of the card that is no identifier (and that --where lets through) makes an item. */
static status read_card(job *j, const json *rec) {
    const question *q = j->o->question ? registry_find(&j->questions, strv_of(j->o->question)) : NULL;
    if (!q) return err_set(j->e, ST_INPUT, "a card record; --question must name the question to ask about its columns");
    buf dataset = {0}, scratch = {0}, state = {0}, id = {0}, group = {0}, meta = {0};
    status s = card_dataset(rec, JREF_ROOT, &dataset, j->e);
    jref list = json_get(rec, JREF_ROOT, "columns");
    if (!s && json_kind_of(rec, list) != JSON_ARRAY) s = err_set(j->e, ST_INPUT, "field 'columns': expected an array");
    for (jref c = json_first(rec, list); !s && c != JREF_NONE; c = json_next(rec, list, c)) {
        strv name;
        if (json_true(rec, json_get(rec, c, "identifier"))) continue;
        if ((s = json_text(rec, json_get(rec, c, "name"), &scratch, &name, j->e))) break;
        if (j->o->where && !where_has(&j->where, buf_strv(&dataset), name)) continue;
        buf *all[] = {&state, &id, &group, &meta};
        for (size_t i = 0; i < 4; i++) buf_clear(all[i]);
        if (strcmp(q->id, "column.annotate") == 0 || strcmp(q->id, "column.aspect") == 0) s = state_column(rec, JREF_ROOT, c, &state, j->e);
        else s = err_set(j->e, ST_INPUT, "question '%s' needs more than a card; give case records", q->id);
        buf_printf(&id, "%s:%s:", q->id, dataset.p);
        buf_view(&id, name);
        json_quote(&group, buf_strv(&dataset), false);
        put_meta(&meta, buf_strv(&dataset), name);
        if (!s) s = built_item(j, q, &state, NULL, buf_strv(&id), buf_strv(&group), buf_strv(&meta));
    }
    buf *all[] = {&dataset, &scratch, &state, &id, &group, &meta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    return s;
}

/* The card of a case: an object, or the sha256 of one of --cards. */
static status case_card(job *j, const json *rec, json *held, const json **card, jref *at) {
    jref c = json_get(rec, JREF_ROOT, "card");
    if (json_kind_of(rec, c) == JSON_OBJECT) {
        *card = rec;
        *at = c;
        return ST_OK;
    }
    for (size_t i = 0; i < j->n_cards; i++)
        if (json_is(rec, c, j->cards[i].sha)) {
            *card = held;
            *at = JREF_ROOT;
            return json_parse(held, j->cards[i].text, j->cards[i].len, j->e);
        }
    return err_set(j->e, ST_INPUT, "field 'card': expected a card record, or the sha256 of a card of --cards");
}

static status read_case(job *j, const json *rec) {
    question own = {0};
    const question *q;
    const json *card = NULL;
    jref at = JREF_NONE, column = json_get(rec, JREF_ROOT, "column"), id_at = json_get(rec, JREF_ROOT, "id");
    json held = {0};
    buf state = {0}, dataset = {0}, group = {0}, meta = {0}, scratch = {0}, id_text = {0};
    strv name = {0}, id = {0};
    status s = find_question(j, rec, json_get(rec, JREF_ROOT, "question"), &q, &own);
    if (!s && !q->id) s = err_set(j->e, ST_INPUT, "a case needs a question of the registry");
    if (!s) s = case_card(j, rec, &held, &card, &at);
    if (!s) s = state_build(q->id, card, at, rec, JREF_ROOT, &state, j->e);
    if (!s) s = card_dataset(card, at, &dataset, j->e);
    if (!s && json_kind_of(rec, column) == JSON_STRING) s = json_text(rec, column, &scratch, &name, j->e);
    if (!s && json_kind_of(rec, id_at) == JSON_STRING) s = json_text(rec, id_at, &id_text, &id, j->e);
    if (!s) {
        json_quote(&group, buf_strv(&dataset), false);
        if (name.n) put_meta(&meta, buf_strv(&dataset), name);
        s = built_item(j, q, &state, rec, id, buf_strv(&group), buf_strv(&meta));
    }
    buf *all[] = {&state, &dataset, &group, &meta, &scratch, &id_text};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    json_free(&held);
    question_free(&own);
    return s;
}

static status read_record(job *j, const json *rec) {
    jref type = json_get(rec, JREF_ROOT, "type");
    if (json_is(rec, type, "item")) return read_item(j, rec);
    if (json_is(rec, type, "card")) return read_card(j, rec);
    if (json_is(rec, type, "case")) return read_case(j, rec);
    return err_set(j->e, ST_INPUT, "expected a record of type 'item', 'card' or 'case'");
}

static status run(job *j) {
    json *rec;
    status s;
    while (!(s = records_next(j->r, &rec, j->e)) && rec) {
        if (!(s = read_record(j, rec))) continue;
        jref id = json_get(rec, JREF_ROOT, "id");
        if (json_kind_of(rec, id) == JSON_STRING) err_prefix(j->e, "record %.*s", (int)(json_raw(rec, id).n > 80 ? 80 : json_raw(rec, id).n), json_raw(rec, id).p);
        if ((s = records_bad(j->r, j->e))) return s;
    }
    return s;
}

static status keep_card(void *ctx, const json *doc, err *e) {
    job *j = ctx;
    kept_card c = {.len = doc->len};
    status s = json_text_copy(doc, json_get(doc, JREF_ROOT, "sha256"), "sha256", &c.sha, e);
    if (!s && (!(c.text = mem_text(doc->text, doc->len)) || !mem_grow((void **)&j->cards, &j->cap_cards, j->n_cards + 1, sizeof *j->cards))) s = err_memory(e, doc->len);
    if (!s) {
        j->cards[j->n_cards++] = c;
    } else {
        free(c.sha);
        free(c.text);
    }
    return s;
}

static status load_shared(const char *given, const char *file, char **path, err *e) {
    if (!given) return share_path(file, path, e);
    *path = mem_text(given, strlen(given));
    return *path ? ST_OK : err_memory(e, strlen(given));
}

/* The lock lies beside the registry: questions.json, questions.lock.json. */
static status lock_path(const char *questions, buf *out, err *e) {
    size_t n = strlen(questions);
    if (n > 5 && strcmp(questions + n - 5, ".json") == 0) n -= 5;
    buf_put(out, questions, n);
    buf_text(out, ".lock.json");
    return buf_ok(out, e);
}

static status do_lock(job *j, const char *questions) {
    buf path = {0};
    status s = lock_path(questions, &path, j->e);
    if (!s) s = j->o->write_lock ? registry_lock_write(&j->questions, path.p, j->e) : registry_lock_check(&j->questions, path.p, j->e);
    buf_free(&path);
    return s;
}

static status prepare(job *j) {
    const settings *o = j->o;
    char *readout_path = NULL, *model = NULL;
    status s = load_shared(o->readout, "readout.json", &readout_path, j->e);
    if (!s) s = readout_load(&j->readout, readout_path, j->e);
    if (!s && o->template) s = chat_named(o->template, &j->style.chat, j->e);
    else if (!s && !o->model) s = err_set(j->e, ST_USAGE, "--model (whose chat template is taken) or --template is needed");
    else if (!s && !(s = model_locate(o->model, &model, j->e))) s = chat_of_model(model, &j->style.chat, j->e);
    if (!s && o->question && !registry_find(&j->questions, strv_of(o->question))) s = err_set(j->e, ST_USAGE, "option --question: the registry has no question '%s'", o->question);
    if (!s && o->where) s = where_load(&j->where, o->where, j->e);
    if (!s && o->cards) s = json_lines(o->cards, keep_card, j, j->e);
    j->style.readout = &j->readout;
    j->style.one = strcmp(o->level, "raw") == 0;
    j->style.allow_control_tokens = o->allow_control_tokens;
    free(readout_path);
    free(model);
    return s;
}

static void release(job *j) {
    registry_free(&j->questions);
    readout_free(&j->readout);
    where_free(&j->where);
    for (size_t i = 0; i < j->n_cards; i++) {
        free(j->cards[i].sha);
        free(j->cards[i].text);
    }
    free(j->cards);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "model", .letter = 'm', .kind = OPT_TEXT, .arg = "MODEL", .to = &o.model,
         .help = "take the chat template of this model: a folder, a GGUF file, or a name in the local Hugging Face cache"},
        {.name = "template", .kind = OPT_CHOICE, .arg = "NAME", .to = &o.template, .choices = CHAT_NAMES, .help = "take this chat template instead"},
        {.name = "level", .letter = 'l', .kind = OPT_CHOICE, .arg = "LEVEL", .to = &o.level, .initial = "L0", .choices = "raw|L0",
         .help = "the level that the decisions are to reach: raw makes one prompt per item, L0 one per permutation"},
        {.name = "question", .letter = 'q', .kind = OPT_TEXT, .arg = "ID", .to = &o.question,
         .help = "the question for records that name none, and for the columns of card records"},
        {.name = "questions", .kind = OPT_TEXT, .arg = "FILE", .to = &o.questions, .help = "take the registry of FILE instead of the suite's own"},
        {.name = "readout", .kind = OPT_TEXT, .arg = "FILE", .to = &o.readout, .help = "take the wording of FILE instead of the suite's own"},
        {.name = "where", .kind = OPT_TEXT, .arg = "FILE", .to = &o.where, .help = "of card records, ask only about columns with a decision Yes in FILE"},
        {.name = "cards", .kind = OPT_TEXT, .arg = "FILE", .to = &o.cards, .help = "card records that case records name by sha256"},
        {.name = "allow-control-tokens", .kind = OPT_FLAG, .to = &o.allow_control_tokens,
         .help = "let text that looks like a control token be one, as naive clients do"},
        {.name = "check-lock", .kind = OPT_FLAG, .to = &o.check_lock, .help = "only compare the registry with its lock file; 4 when it drifted"},
        {.name = "write-lock", .kind = OPT_FLAG, .to = &o.write_lock, .help = "only write the registry's lock file, beside it"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "prompt-build", .operands = "[FILE ...]", .summary = "cards, cases and items to prompts, one per item and permutation",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  card-parse cards/*.md | prompt-build --model m.gguf --question column.annotate\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    char *questions = NULL;
    status s = load_shared(o.questions, "questions.json", &questions, &e);
    if (!s) s = registry_load(&j.questions, questions, &e);
    if (!s && (o.check_lock || o.write_lock)) {
        s = do_lock(&j, questions);
    } else {
        if (!s) s = prepare(&j);
        if (!s) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
        if (!s) s = run(&j);
        s = records_close(j.r, s, &e);
    }
    release(&j);
    free(questions);
    return opt_finish(&program, s, &e);
}
