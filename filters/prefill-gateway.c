/* prefill-gateway: prompts in, the same with label log-probabilities out, from a server that speaks one of the usual
 * APIs. Many requests fly at once; the records come out in input order, and memory is bounded by a window of them. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/share.h"
#include "json/record.h"
#include "net/host.h"
#include "net/journal.h"
#include "net/task.h"
#include "weights/locate.h"

typedef struct settings {
    record_opts rec;
    const char *url, *served_model, *api, *key_file, *proxy, *tokenizer, *only, *journal;
    size_t workers, retries, breaker, max_choice_k;
    double connect_timeout, read_timeout, retry_cap, min_mass;
    bool insecure, allow_control_tokens, keep_prompt;
} settings;

typedef enum stage { EMPTY, ASKED, DONE, BAD, MISSING, PASSED } stage;

/* A record between reading and writing. */
typedef struct slot {
    stage stage;
    record_where at;
    char *line; /* owned */
    size_t len;
    task task;
    unsigned version; /* of the ask that the request was made with */
    char key[SHA256_HEX_SIZE];
    buf fields; /* what the answer gives: a JSON object */
    err why;    /* BAD, MISSING */
} slot;

typedef struct job {
    const settings *o;
    records *r;
    net *n;
    char *base, *key, *url, *path; /* path: of the tokenizer's model */
    tokenizer *t;
    registry questions;
    served start;
    ask ask, first_ask; /* as learned, and as it was: the journal's keys must not change with what is learned */
    task_rules rules;
    journal *journal;
    strv identity, probe; /* views into start; the probe into held_probe when a journal goes on */
    buf held_probe;
    slot *slots; /* a ring */
    size_t window, head, count;
    answer room;
    json doc, reply, fields_doc;
    buf body, line;
    size_t missing, reasoning, low, with_missing_labels, from_journal, resumed;
    err last; /* why a prompt is missing */
    err *e;
} job;

static slot *slot_at(const job *j, size_t i) {
    return &j->slots[(j->head + i) % j->window];
}

/* --- asking --- */

static status make_key(job *j, const json *rec, slot *s) {
    jref id = json_get(rec, JREF_ROOT, "id"), labels = json_get(rec, JREF_ROOT, "labels");
    buf_clear(&j->body);
    buf_view(&j->body, json_raw(rec, id));
    buf_byte(&j->body, '\0');
    buf_view(&j->body, json_raw(rec, labels));
    buf_byte(&j->body, '\0');
    status st = ask_body(&j->first_ask, rec, &j->body, j->e);
    return st ? st : sha256_hex(j->body.p, j->body.len, s->key, j->e);
}

static status send(job *j, const json *rec, slot *s) {
    buf_clear(&j->body);
    s->version = j->ask.version;
    s->stage = ASKED;
    status st = ask_body(&j->ask, rec, &j->body, j->e);
    return st ? st : net_send(j->n, j->url, &j->body, s, j->e);
}

/* The record's id before the message. */
static void name_record(const json *rec, err *e) {
    strv raw = json_raw(rec, json_get(rec, JREF_ROOT, "id"));
    if (raw.n) err_prefix(e, "prompt %.*s", (int)(raw.n > 80 ? 80 : raw.n), raw.p);
}

/* A slot's own trouble, told when its turn to be written comes; other failures end the run. */
static status settle(slot *s, const json *rec, err *e) {
    if (e->status != ST_INPUT && e->status != ST_REFUSED) return e->status;
    name_record(rec, e);
    s->stage = BAD;
    s->why = *e;
    *e = (err){0};
    return ST_OK;
}

static status take_record(job *j, const json *rec) {
    slot *s = slot_at(j, j->count++);
    s->at = records_where(j->r);
    s->len = rec->len;
    free(s->line);
    if (!(s->line = mem_text(rec->text, rec->len))) return err_memory(j->e, rec->len);
    buf_clear(&s->fields);
    status st = task_read(&s->task, &j->rules, &j->ask, rec, j->e);
    if (!st && s->task.pass) {
        s->stage = PASSED;
        return ST_OK;
    }
    bool found = false;
    if (!st && j->journal && !(st = make_key(j, rec, s))) st = journal_find(j->journal, s->key, &s->fields, &found, j->e);
    if (found) {
        s->stage = DONE;
        j->from_journal++;
    } else if (!st) {
        st = send(j, rec, s);
    }
    return st ? settle(s, rec, j->e) : ST_OK;
}

/* --- answers --- */

/* A body that stops in the middle was torn on the way; one that is whole and no JSON is the server's own doing. */
static bool torn(strv body) {
    strv v = strv_trim(body);
    return v.n == 0 || (v.p[0] == '{' && v.p[v.n - 1] != '}');
}

static void lost(job *j, slot *s, const char *why) {
    s->stage = MISSING;
    err_set(&s->why, ST_INCOMPLETE, "%s", why);
    j->last = s->why;
    j->missing++;
}

static status take_answer(job *j, slot *s, const net_reply *r, bool *again) {
    if (json_parse(&j->reply, r->body.p ? r->body.p : "", r->body.n, j->e)) {
        if (torn(r->body) || j->e->status != ST_INPUT) {
            *again = true;
            if (net_again(j->n, false)) {
                *j->e = (err){0};
                return ST_OK;
            }
            err why = *j->e;
            *j->e = (err){0};
            buf_clear(&j->line);
            buf_printf(&j->line, "the answer is no whole JSON: %s", why.text);
            lost(j, s, j->line.p ? j->line.p : why.text);
            return ST_OK;
        }
        bool html = strv_starts(strv_trim(r->body), "<");
        return html ? err_set(j->e, ST_INPUT, "the server answered with a web page, not with JSON") : err_prefix(j->e, "the answer is no JSON");
    }
    status st = task_answer(&s->task, &j->rules, &j->ask, &j->reply, &j->room, &s->fields, j->e);
    if (!st || !j->room.undrawn || !net_again(j->n, true)) return st;
    *again = true;
    *j->e = (err){0};
    return ST_OK;
}

static status take_reply(job *j, const net_reply *r) {
    slot *s = r->tag;
    if (r->status == ST_INCOMPLETE) {
        lost(j, s, r->why);
        return ST_OK;
    }
    status st = ST_OK;
    bool again = false;
    if (r->status) {
        bool learned = r->status == ST_INPUT && ask_learn(&j->ask, s->version, r->body);
        st = learned ? ST_OK : err_set(j->e, r->status, "%s", r->why);
        again = learned;
        if (learned && !(st = json_parse(&j->doc, s->line, s->len, j->e))) st = send(j, &j->doc, s);
    } else {
        st = take_answer(j, s, r, &again);
    }
    if (!st && !again) {
        s->stage = DONE;
        if (j->journal) return journal_add(j->journal, s->key, buf_strv(&s->fields), j->e);
    }
    if (!st) return ST_OK;
    err ignored = {0};
    if (json_parse(&j->doc, s->line, s->len, &ignored)) return st;
    return settle(s, &j->doc, j->e);
}

/* --- writing --- */

static const char *const names[] = {"logprobs", "answer_mass", "missing", "label_ids", "n_tokens", "server_notes"};
enum { NAMES = sizeof names / sizeof *names };

static void count_notes(job *j) {
    jref notes = json_get(&j->fields_doc, JREF_ROOT, "server_notes");
    for (jref x = json_first(&j->fields_doc, notes); x != JREF_NONE; x = json_next(&j->fields_doc, notes, x)) {
        j->reasoning += json_is(&j->fields_doc, x, "reasoning");
        j->low += json_is(&j->fields_doc, x, "low mass");
    }
    j->with_missing_labels += json_count(&j->fields_doc, json_get(&j->fields_doc, JREF_ROOT, "missing")) > 0;
}

static status write_slot(job *j, slot *s) {
    status st = json_parse(&j->doc, s->line, s->len, j->e);
    json_field fields[NAMES + 8];
    size_t n = 0;
    if (!st && s->stage == DONE) {
        if ((st = json_parse(&j->fields_doc, s->fields.p, s->fields.len, j->e))) return err_prefix(j->e, "%s", j->o->journal ? j->o->journal : "answer");
        count_notes(j);
        for (size_t i = 0; i < NAMES; i++) {
            jref r = json_get(&j->fields_doc, JREF_ROOT, names[i]);
            fields[n++] = (json_field){names[i], r == JREF_NONE ? (strv){NULL, 0} : json_raw(&j->fields_doc, r)};
        }
        /* An earlier run's numbers must not stand beside this model's name. */
        static const char *const stale[] = {"n_reused", "blocks", "hidden"};
        for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) fields[n++] = (json_field){stale[i], {NULL, 0}};
        fields[n++] = (json_field){"server_probe", j->probe};
    }
    if (st) return st;
    fields[n++] = (json_field){"model", j->identity};
    if (!j->o->keep_prompt && !s->task.keep_prompt) {
        fields[n++] = (json_field){"prefix", {NULL, 0}};
        fields[n++] = (json_field){"suffix", {NULL, 0}};
    }
    buf_clear(&j->line);
    json_edit(&j->line, &j->doc, JREF_ROOT, fields, n);
    return records_put(j->r, &j->line, j->e);
}

/* What is finished at the head of the window goes out. */
static status write_ready(job *j) {
    status st = j->journal ? journal_sync(j->journal, j->e) : ST_OK;
    while (!st && j->count && slot_at(j, 0)->stage != ASKED) {
        slot *s = slot_at(j, 0);
        if (s->stage == BAD) {
            *j->e = s->why;
            st = records_bad_at(j->r, s->at, (strv){s->line, s->len}, j->e);
        } else if (s->stage != MISSING) {
            st = write_slot(j, s);
        }
        s->stage = EMPTY;
        j->head = (j->head + 1) % j->window;
        j->count--;
    }
    return st;
}

/* --- the run --- */

/* Reads while there is room. *end: there is no more. A failure to read stops the reading only. */
static status read_some(job *j, bool *end, err *stopped) {
    while (!*end && j->count < j->window && net_room(j->n)) {
        json *rec;
        if (records_next(j->r, &rec, stopped) || !rec) {
            *end = true;
            return ST_OK;
        }
        status st = take_record(j, rec);
        if (st) return st;
    }
    return ST_OK;
}

/* What was not answered when the run stopped, the unread records included. */
static void count_missing(job *j) {
    json *rec;
    err ignored = {0};
    for (size_t i = 0; i < j->count; i++) j->missing += slot_at(j, i)->stage == ASKED;
    while (records_next(j->r, &rec, &ignored) == ST_OK && rec) j->missing++;
}

static status run(job *j) {
    bool end = false;
    err stopped = {0};
    status st = ST_OK;
    while (!st) {
        st = read_some(j, &end, &stopped);
        if (!st) st = write_ready(j);
        if (st || (end && !j->count)) break;
        if (!net_flying(j->n)) continue;
        st = net_wait(j->n, j->e);
        bool gone = st == ST_INCOMPLETE;
        err why = *j->e;
        if (gone) *j->e = (err){0}, st = ST_OK;
        net_reply r;
        while (!st && net_take(j->n, &r)) st = take_reply(j, &r);
        if (!gone || st) continue;
        if (!(st = write_ready(j))) {
            count_missing(j);
            st = err_set(j->e, ST_INCOMPLETE, "incomplete: %zu prompt%s without an answer: %s", j->missing, j->missing == 1 ? " is" : "s are", why.text);
        }
    }
    if (!st && stopped.status) {
        *j->e = stopped;
        st = stopped.status;
    }
    if (!st && j->missing)
        st = err_set(j->e, ST_INCOMPLETE, "incomplete: %zu prompt%s without an answer; the last one: %s", j->missing, j->missing == 1 ? " is" : "s are", j->last.text);
    return st;
}

/* The alias may have moved while the run went on: then nobody knows who answered what. */
static status check_end(job *j) {
    served now = {0};
    status s = served_list(&now, j->n, j->base, j->start.name, j->e);
    if (!s) s = served_probe(&now, j->n, j->base, &j->ask, j->e);
    if (!s) s = served_same(&j->start, &now, j->e);
    served_free(&now);
    if (!s) return ST_OK;
    err_prefix(j->e, "incomplete: at the end of the run");
    return j->e->status = ST_INCOMPLETE;
}

/* --- the start --- */

static status same_journal(job *j, const json *d) {
    jref model = json_get(d, JREF_ROOT, "model"), probe = json_get(d, JREF_ROOT, "probe");
    double was[SERVED_PROBE];
    size_t n = 0;
    status s = ST_OK;
    if (!strv_eq(json_raw(d, model), buf_strv(&j->start.identity)))
        return err_set(j->e, ST_REFUSED, "%s: the journal holds answers of another model: %.*s; the server has %s", j->o->journal, (int)(json_raw(d, model).n > 300 ? 300 : json_raw(d, model).n),
                       json_raw(d, model).p, j->start.identity.p);
    for (jref x = json_first(d, probe); !s && x != JREF_NONE && n < SERVED_PROBE; x = json_next(d, probe, x)) s = json_real(d, x, "probe", &was[n++], j->e);
    if (!s && !served_probe_same(was, n, j->start.numbers, j->start.n_numbers))
        s = err_set(j->e, ST_REFUSED, "%s: the server answers the probe otherwise than when the journal began (%.*s, now %s): another model may stand behind the name", j->o->journal,
                    (int)json_raw(d, probe).n, json_raw(d, probe).p, j->start.probe.p);
    if (s) return s;
    /* The records of one run carry one identity, also when it went on on another day. */
    buf_view(&j->held_probe, json_raw(d, probe));
    j->probe = buf_strv(&j->held_probe);
    return buf_ok(&j->held_probe, j->e);
}

static status open_journal(job *j) {
    status s = journal_open(&j->journal, j->o->journal, j->e);
    if (s) return s;
    strv head = journal_header(j->journal);
    if (head.n) {
        json d = {0};
        s = json_parse(&d, head.p, head.n, j->e);
        s = s ? err_prefix(j->e, "%s:1", j->o->journal) : same_journal(j, &d);
        json_free(&d);
        j->resumed = journal_count(j->journal);
        return s;
    }
    buf b = {0};
    buf_printf(&b, "{\"type\":\"journal\",\"version\":1,\"model\":%s,\"probe\":%s}", j->start.identity.p, j->start.probe.p);
    s = buf_ok(&b, j->e);
    if (!s) s = journal_start(j->journal, buf_strv(&b), j->e);
    buf_free(&b);
    return s;
}

static status open_tokenizer(job *j) {
    status s = model_locate(j->o->tokenizer, &j->path, j->e);
    if (!s) s = tokenizer_open(&j->t, j->path, j->e);
    if (!s) s = chat_of_model(j->path, &j->rules.family, j->e);
    j->rules.tokenizer = j->t;
    return s;
}

static status open_questions(job *j) {
    char *path = NULL;
    status s = share_path("questions.json", &path, j->e);
    if (!s) s = registry_load(&j->questions, path, j->e);
    free(path);
    j->rules.questions = &j->questions;
    return s;
}

static status meet_server(job *j) {
    const settings *o = j->o;
    status s = served_list(&j->start, j->n, j->base, o->served_model, j->e);
    if (s) return s;
    j->ask = j->first_ask = ask_of(o->api, j->start.name);
    if (!s) s = served_probe(&j->start, j->n, j->base, &j->ask, j->e);
    if (!s) s = served_identify(&j->start, &j->ask, j->t ? tokenizer_sha256(j->t) : NULL, j->e);
    if (!s && j->ask.api != ASK_SYSTEMONE && (j->t || o->only)) s = served_ids(&j->start, j->n, j->base, j->start.name, j->e);
    if (!s && j->t && j->start.has_ids) s = served_ids_check(&j->start, j->t, j->e);
    if (s) return s;
    j->identity = buf_strv(&j->start.identity);
    j->probe = buf_strv(&j->start.probe);
    j->rules.served = &j->start;
    buf url = {0};
    buf_text(&url, j->base);
    buf_text(&url, ask_path(&j->ask));
    j->url = buf_take(&url);
    return j->url ? ST_OK : err_memory(j->e, 1);
}

static status prepare(job *j) {
    const settings *o = j->o;
    if (!o->url) return err_set(j->e, ST_USAGE, "option --url is missing");
    status s = host_base(o->url, o->insecure, &j->base, j->e);
    if (!s) s = host_key(o->key_file, &j->key, j->e);
    if (!s && o->tokenizer) s = open_tokenizer(j);
    if (!s) s = open_questions(j);
    net_options no = {.key = j->key, .proxy = o->proxy, .workers = o->workers, .retries = o->retries, .breaker = o->breaker,
                      .connect_timeout = o->connect_timeout, .read_timeout = o->read_timeout, .retry_cap = o->retry_cap};
    if (!s) s = net_open(&j->n, &no, j->e);
    j->window = 4 * o->workers < 16 ? 16 : 4 * o->workers;
    if (!s && !(j->slots = mem_zero(j->window, sizeof *j->slots))) s = err_memory(j->e, j->window * sizeof *j->slots);
    if (!s) s = meet_server(j);
    if (!s && o->journal) s = open_journal(j);
    return s;
}

static void say(const job *j) {
    if (j->resumed) fprintf(stderr, "prefill-gateway: %zu answers were in the journal, %zu of them are used\n", j->resumed, j->from_journal);
    if (j->reasoning)
        fprintf(stderr, "prefill-gateway: warning: %zu answers begin with a chain of thought: the model reasons before it answers, its numbers for the labels are not the answer's\n", j->reasoning);
    if (j->low) fprintf(stderr, "prefill-gateway: warning: in %zu answers the labels have less than %g of the probability (--min-mass)\n", j->low, j->o->min_mass);
    if (j->with_missing_labels) fprintf(stderr, "prefill-gateway: warning: %zu answers lack labels in the server's list; they are bounded from above and marked in 'missing'\n", j->with_missing_labels);
}

static void release(job *j) {
    for (size_t i = 0; j->slots && i < j->window; i++) {
        free(j->slots[i].line);
        task_free(&j->slots[i].task);
        buf_free(&j->slots[i].fields);
    }
    free(j->slots);
    net_close(j->n);
    journal_close(j->journal);
    served_free(&j->start);
    registry_free(&j->questions);
    tokenizer_close(j->t);
    answer_free(&j->room);
    json_free(&j->doc);
    json_free(&j->reply);
    json_free(&j->fields_doc);
    buf *all[] = {&j->body, &j->line, &j->held_probe};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    char *texts[] = {j->base, j->key, j->url, j->path};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free(texts[i]);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "url", .letter = 'u', .kind = OPT_TEXT, .arg = "URL", .to = &o.url, .help = "the server: https://HOST, or http://127.0.0.1:PORT; needed"},
        {.name = "served-model", .letter = 's', .kind = OPT_TEXT, .arg = "NAME", .to = &o.served_model, .help = "the model's name at the server; may be left out when it has one only"},
        {.name = "api", .kind = OPT_CHOICE, .arg = "API", .to = &o.api, .initial = "completions", .choices = ASK_APIS,
         .help = "/v1/completions (the prompt goes as it was rendered here), /v1/chat/completions (the server renders) or /v1/systemone"},
        {.name = "workers", .letter = 'w', .kind = OPT_SIZE, .arg = "N", .to = &o.workers, .initial = "8", .min = 1, .max = 1024, .help = "requests in flight; the order of the output does not depend on it"},
        {.name = "tokenizer", .letter = 't', .kind = OPT_TEXT, .arg = "MODEL", .to = &o.tokenizer,
         .help = "the served model's tokenizer (as prefill-local's --model): label ids are compared, and prompts that the server cut are noticed"},
        {.name = "only", .kind = OPT_CHOICE, .arg = "NEED", .to = &o.only, .choices = "logprobs", .help = "serve this need and pass on what needs something else, for prefill-local --only hidden"},
        {.name = "journal", .letter = 'j', .kind = OPT_TEXT, .arg = "FILE", .to = &o.journal, .help = "append every answer to FILE, and do not ask again what stands in it"},
        {.name = "max-choice-k", .kind = OPT_SIZE, .arg = "N", .to = &o.max_choice_k, .initial = "8", .min = 2, .max = OPTIONS_MAX, .help = "refuse choices with more options, whose labels a server's list may lack"},
        {.name = "min-mass", .kind = OPT_REAL, .arg = "P", .to = &o.min_mass, .initial = "0.1", .max = 1, .help = "say so when the labels together have less probability"},
        {.name = "allow-control-tokens", .kind = OPT_FLAG, .to = &o.allow_control_tokens, .help = "send prompts whose text holds control tokens, which the server will parse"},
        {.name = "key-file", .kind = OPT_TEXT, .arg = "FILE", .to = &o.key_file, .help = "the key, in a file that only you can read; otherwise it is taken from ANYJEV_API_KEY"},
        {.name = "proxy", .kind = OPT_TEXT, .arg = "URL", .to = &o.proxy, .help = "go through this proxy; those of the environment are ignored"},
        {.name = "allow-insecure", .kind = OPT_FLAG, .to = &o.insecure, .help = "permit http to another host"},
        {.name = "connect-timeout", .kind = OPT_REAL, .arg = "SECONDS", .to = &o.connect_timeout, .initial = "10", .min = 0.01, .max = 3600, .help = "give a connection up after so long"},
        {.name = "read-timeout", .kind = OPT_REAL, .arg = "SECONDS", .to = &o.read_timeout, .initial = "120", .min = 0.01, .max = 86400, .help = "give an answer up after so long"},
        {.name = "retries", .kind = OPT_SIZE, .arg = "N", .to = &o.retries, .initial = "5", .max = 100, .help = "attempts after the first, with growing pauses"},
        {.name = "retry-cap", .kind = OPT_REAL, .arg = "SECONDS", .to = &o.retry_cap, .initial = "60", .max = 3600, .help = "never pause for longer, whatever the server asks for"},
        {.name = "breaker", .kind = OPT_SIZE, .arg = "N", .to = &o.breaker, .initial = "5", .max = 1000000, .help = "stop when so many requests in a row were given up; 0 goes on"},
        {.name = "keep-prompt", .kind = OPT_FLAG, .to = &o.keep_prompt, .help = "keep the fields prefix and suffix"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "prefill-gateway", .operands = "--url URL [FILE ...]", .summary = "prompts to label log-probabilities, from a server",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  prompt-build --model m.gguf items.jsonl | prefill-gateway --url http://127.0.0.1:8000 | head-apply --level L0\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    j.rules = (task_rules){.allow_control_tokens = o.allow_control_tokens, .only_logprobs = o.only != NULL, .max_choice_k = o.max_choice_k, .min_mass = o.min_mass};
    status s = record_opts_check(&o.rec, &e);
    if (!s) s = prepare(&j);
    if (!s) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
    if (!s) s = run(&j);
    if (!s) s = check_end(&j);
    s = records_close(j.r, s, &e);
    say(&j);
    release(&j);
    return opt_finish(&program, s, &e);
}
