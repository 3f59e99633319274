/* prompt-build: card, case and item records and System One requests in, prompt records out, one per item and permutation. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/share.h"
#include "bundle/bundle.h"
#include "decide/level.h"
#include "fit/fit.h"
#include "json/record.h"
#include "model/config.h"
#include "question/ask.h"
#include "weights/locate.h"

typedef struct settings {
    record_opts rec;
    const char *model, *template, *questions, *readout, *level, *question, *where, *cards, *lock, *bundle, *route, *hidden;
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
    bundle bundle;
    size_t *hidden; /* of --hidden; owned */
    size_t n_hidden;
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

/* What a question needs: every hidden state that was asked for, or the one that its head reads, or log-probabilities. */
static void plan(const void *ctx, const question *q, prompts_style *style) {
    const job *j = ctx;
    bool reordered, reworded;
    if (j->n_hidden) {
        style->hidden = j->hidden;
        style->n_hidden = j->n_hidden;
        return;
    }
    const artifact *a = artifact_find(j->bundle.artifacts, j->bundle.n, level_parse(j->o->level), q->key, q->kind, q->options, q->n_options, q->text,
                                      strcmp(j->o->route, "wording") == 0, &reordered, &reworded);
    if (!a || !a->is_head) return;
    style->hidden = &a->head.block;
    style->n_hidden = 1;
}

/* "12,24", or "fit" for the blocks at which heads are looked for. */
static status take_hidden(job *j, const char *model) {
    const char *text = j->o->hidden;
    size_t room = strlen(text) / 2 + 1 + FIT_BLOCKS;
    if (!(j->hidden = mem_alloc(room, sizeof *j->hidden))) return err_memory(j->e, room * sizeof *j->hidden);
    if (strcmp(text, "fit") == 0) {
        model_config c;
        if (!model) return err_set(j->e, ST_USAGE, "option --hidden fit: the number of blocks is the model's; name it with --model");
        status s = config_of_model(model, &c, j->e);
        if (!s) j->n_hidden = fit_blocks(c.n_blocks, j->hidden);
        return s;
    }
    status s = ST_OK;
    for (const char *p = text; !s; p++) {
        const char *end = p + strcspn(p, ",");
        char *number = mem_text(p, (size_t)(end - p));
        s = number ? num_size(number, 0, 1 << 20, "option --hidden: block", &j->hidden[j->n_hidden++], j->e) : err_memory(j->e, 16);
        free(number);
        p = end;
        if (!*p) break;
    }
    if (s) j->e->status = s = ST_USAGE;
    return s;
}

static status take_bundle(job *j) {
    char *path = NULL;
    level l = level_parse(j->o->level);
    if (!j->o->bundle) {
        if ((l == LEVEL_L2 || l == LEVEL_AUTO) && !j->o->hidden) return err_set(j->e, ST_USAGE, "level %s needs a --bundle", j->o->level);
        return ST_OK;
    }
    status s = bundle_locate(j->o->bundle, &path, j->e);
    if (!s) s = bundle_read(&j->bundle, path, j->e);
    if (!s && strcmp(j->bundle.lock_sha, j->questions.lock_sha) != 0)
        s = err_set(j->e, ST_REFUSED, "%s: fitted under lock %.12s; the registry at hand has %.12s: its questions are others", path, j->bundle.lock_sha, j->questions.lock_sha);
    free(path);
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
    if (!s) s = take_bundle(j);
    if (!s && o->hidden) s = take_hidden(j, model);
    if (j->bundle.n || j->n_hidden) {
        a->plan = plan;
        a->plan_ctx = j;
    }
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
    bundle_free(&j->bundle);
    free(j->hidden);
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
        {.name = "level", .letter = 'l', .kind = OPT_CHOICE, .arg = "LEVEL", .to = &o.level, .initial = "L0", .choices = "raw|L0|L1|L2|auto",
         .help = "the level that the decisions are to reach: raw and L2 make one prompt per item, L0 and L1 one per permutation; auto asks the bundle"},
        {.name = "bundle", .letter = 'b', .kind = OPT_TEXT, .arg = "PATH", .to = &o.bundle,
         .help = "a bundle, or a folder of them with a version in service: hidden states are asked for where one of its heads answers"},
        {.name = "route", .kind = OPT_CHOICE, .arg = "ROUTE", .to = &o.route, .choices = "exact|wording", .initial = "exact", .help = "which heads may answer, as head-apply takes them"},
        {.name = "hidden", .kind = OPT_TEXT, .arg = "BLOCKS", .to = &o.hidden,
         .help = "ask for the hidden states after these blocks instead (12,24), or after those that head-fit looks at (fit)"},
        {.name = "question", .letter = 'q', .kind = OPT_TEXT, .arg = "ID", .to = &o.question,
         .help = "the question for records that name none, and for the columns of card records"},
        {.name = "questions", .kind = OPT_TEXT, .arg = "FILE", .to = &o.questions, .help = "take the registry of FILE instead of the suite's own"},
        {.name = "readout", .kind = OPT_TEXT, .arg = "FILE", .to = &o.readout, .help = "take the wording of FILE instead of the suite's own"},
        {.name = "where", .kind = OPT_TEXT, .arg = "FILE", .to = &o.where, .help = "of card records, ask only about columns that the decisions in FILE say Yes to at column.annotate"},
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
