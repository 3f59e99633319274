/* prompt-build: card, case and item records and System One requests in, prompt records out, one per item and permutation. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/share.h"
#include "json/record.h"
#include "question/ask.h"
#include "weights/locate.h"

typedef struct settings {
    record_opts rec;
    const char *model, *template, *questions, *readout, *level, *question, *where, *cards, *lock;
    size_t seed;
    bool allow_control_tokens, check_lock, write_lock, twins, probes, canonical, reversed, random;
} settings;

typedef struct job {
    const settings *o;
    records *r;
    registry questions;
    readout readout;
    where where;
    asker asker;
    err *e;
} job;

static status put_record(void *ctx, const buf *record, err *e) {
    job *j = ctx;
    (void)e;
    return records_put(j->r, record, j->e);
}

static status run(job *j) {
    json *rec;
    status s;
    while (!(s = records_next(j->r, &rec, j->e)) && rec) {
        if (!(s = asker_take(&j->asker, rec, j->e))) continue;
        jref id = json_get(rec, JREF_ROOT, "id");
        if (json_kind_of(rec, id) == JSON_STRING) err_prefix(j->e, "record %.*s", (int)(json_raw(rec, id).n > 80 ? 80 : json_raw(rec, id).n), json_raw(rec, id).p);
        if ((s = records_bad(j->r, j->e))) return s;
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

static status take_listing(const settings *o, prompts_style *style, err *e) {
    if (o->canonical + o->reversed + o->random > 1) return err_set(e, ST_USAGE, "--canonical-order, --reverse-order and --random-order exclude each other");
    if (o->random && o->probes) return err_set(e, ST_USAGE, "--probes needs one order for all items; --random-order has one for each");
    style->listing = o->canonical ? LISTING_CANONICAL : o->reversed ? LISTING_REVERSED : o->random ? LISTING_RANDOM : LISTING_GIVEN;
    style->seed = o->seed;
    return ST_OK;
}

static status prepare(job *j) {
    const settings *o = j->o;
    char *readout_path = NULL, *model = NULL;
    status s = load_shared(o->readout, "readout.json", &readout_path, j->e);
    if (!s) s = readout_load(&j->readout, readout_path, j->e);
    asker *a = &j->asker;
    if (!s && o->template) s = chat_named(o->template, &a->style.chat, j->e);
    else if (!s && !o->model) s = err_set(j->e, ST_USAGE, "--model (whose chat template is taken) or --template is needed");
    else if (!s && !(s = model_locate(o->model, &model, j->e))) s = chat_of_model(model, &a->style.chat, j->e);
    if (!s && o->question && !(a->fallback = registry_find(&j->questions, strv_of(o->question))))
        s = err_set(j->e, ST_USAGE, "option --question: the registry has no question '%s'", o->question);
    if (!s && o->where) s = where_load(&j->where, o->where, j->e);
    if (!s && o->cards) s = asker_cards(a, o->cards, j->e);
    if (!s) s = take_listing(o, &a->style, j->e);
    a->questions = &j->questions;
    a->where = o->where ? &j->where : NULL;
    a->twins = o->twins;
    a->probes = o->probes;
    a->put = put_record;
    a->ctx = j;
    a->style.readout = &j->readout;
    a->style.one = strcmp(o->level, "raw") == 0;
    a->style.allow_control_tokens = o->allow_control_tokens;
    free(readout_path);
    free(model);
    return s;
}

static void release(job *j) {
    asker_free(&j->asker);
    registry_free(&j->questions);
    readout_free(&j->readout);
    where_free(&j->where);
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
        {.name = "twins", .kind = OPT_FLAG, .to = &o.twins, .help = "ask the yes/no twin of a wide question instead, once per option (of ontologies: once per one that serves the aspect)"},
        {.name = "probes", .kind = OPT_FLAG, .to = &o.probes, .help = "ask every question about nothing, too, for head-apply --prior content_free"},
        {.name = "canonical-order", .kind = OPT_FLAG, .to = &o.canonical, .help = "list the options sorted by their text, so that the order they were given in does not matter"},
        {.name = "reverse-order", .kind = OPT_FLAG, .to = &o.reversed, .help = "list the options in reverse, to see how many answers it changes (score --reversed)"},
        {.name = "random-order", .kind = OPT_FLAG, .to = &o.random, .help = "list up to eight options in an order drawn for each item, for fitting heads"},
        {.name = "seed", .kind = OPT_SIZE, .arg = "N", .to = &o.seed, .initial = "0", .help = "seed of --random-order"},
        {.name = "allow-control-tokens", .kind = OPT_FLAG, .to = &o.allow_control_tokens,
         .help = "let text that looks like a control token be one, as naive clients do"},
        {.name = "check-lock", .kind = OPT_FLAG, .to = &o.check_lock, .help = "only compare the registry with its lock file; 4 when it drifted"},
        {.name = "write-lock", .kind = OPT_FLAG, .to = &o.write_lock, .help = "only write the registry's lock file, beside it"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "prompt-build", .operands = "[FILE ...]", .summary = "cards, cases, items and requests to prompts, one per item and permutation",
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
