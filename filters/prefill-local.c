/* prefill-local: prompts in, the same with label log-probabilities and hidden states out, from weights on this
 * host. As many prompts as memory is given for are laid into one prefix tree; the records come out in input order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/npy.h"
#include "json/record.h"
#include "kernel/kernel.h"
#include "model/cuda.h"
#include "model/model.h"
#include "question/question.h"
#include "token/prompt.h"
#include "weights/locate.h"

enum { LABELS_MAX = OPTIONS_MAX };

typedef struct settings {
    record_opts rec;
    const char *model, *template, *isa, *only, *device, *compute, *features;
    size_t threads, batch_tokens, cache_mib;
    bool keep_prompt, pack, verify;
} settings;

typedef struct prompt {
    record_where at;
    char *line; /* owned, with its length */
    size_t len;
    tok_ids ids;
    uint32_t labels[LABELS_MAX];
    size_t n_labels, n_blocks;
    size_t *blocks;
    bool logprobs;
    bool kept, pass; /* with --only hidden: a server's log-probabilities stay; nothing is asked of this program */
    double *found; /* [n_labels] */
    float *hidden; /* [n_blocks][hidden_dim] */
    size_t blocks_run, n_reused;
} prompt;

typedef struct job {
    const settings *o;
    records *r;
    model *m;
    tokenizer *t;
    kernel *kn;
    model_cuda *cuda; /* NULL: on the CPU */
    int ordinal;      /* of the CUDA device */
    chat chat;
    buf identity; /* the JSON of the field model */
    buf server;   /* with --only hidden: the field model of who gave the log-probabilities */
    npy_set *features; /* NULL: hidden states go on the record */
    prompt *prompts;
    size_t n, cap;
    size_t room, text_room; /* bytes for the pass, and for prompts that wait; without a limit on a GPU, which plans its own */
    size_t batch_tokens;
    progress bar;
    err *e;
} job;

static status read_labels(job *j, const json *rec, prompt *p) {
    jref labels = json_get(rec, JREF_ROOT, "labels");
    size_t n = json_count(rec, labels);
    if (json_kind_of(rec, labels) != JSON_ARRAY || n < 1 || n > LABELS_MAX)
        return err_set(j->e, ST_INPUT, "field 'labels': expected an array of 1 to %d strings", LABELS_MAX);
    buf scratch = {0};
    status s = ST_OK;
    for (jref l = json_first(rec, labels); !s && l != JREF_NONE; l = json_next(rec, labels, l)) {
        strv v;
        uint32_t id = TOKEN_NONE;
        if ((s = json_text(rec, l, &scratch, &v, j->e))) {
            err_prefix(j->e, "field 'labels'");
            break;
        }
        s = tokenizer_single(j->t, v, &id, j->e);
        if (!s && id == TOKEN_NONE) s = err_set(j->e, ST_REFUSED, "label '%.*s' is not a single token of this model's tokenizer", (int)(v.n > 60 ? 60 : v.n), v.p);
        for (size_t i = 0; !s && i < p->n_labels; i++)
            if (p->labels[i] == id) s = err_set(j->e, ST_INPUT, "field 'labels': '%.*s' comes twice", (int)(v.n > 60 ? 60 : v.n), v.p);
        if (!s) p->labels[p->n_labels++] = id;
    }
    buf_free(&scratch);
    return s;
}

static status read_need(job *j, const json *rec, prompt *p) {
    const model_config *c = model_shape(j->m);
    jref need = json_get(rec, JREF_ROOT, "need"), hidden = json_get(rec, need, "hidden");
    p->logprobs = need == JREF_NONE || json_true(rec, json_get(rec, need, "logprobs"));
    size_t n = json_count(rec, hidden), room;
    if (need != JREF_NONE && json_kind_of(rec, need) != JSON_OBJECT) return err_set(j->e, ST_INPUT, "field 'need': expected an object");
    if (hidden != JREF_NONE && json_kind_of(rec, hidden) != JSON_ARRAY) return err_set(j->e, ST_INPUT, "field 'need': 'hidden' is no array of blocks");
    if (!p->logprobs && !n) return err_set(j->e, ST_INPUT, "field 'need': expected \"logprobs\": true or blocks under \"hidden\"");
    if (n > c->n_blocks + 1) return err_set(j->e, ST_INPUT, "field 'need': %zu blocks under 'hidden', the model has %zu", n, c->n_blocks);
    p->blocks = mem_zero(n, sizeof *p->blocks);
    if (!p->blocks || !size_mul(n, c->hidden_dim, &room) || !(p->hidden = mem_zero(room, sizeof *p->hidden))) return err_memory(j->e, n * sizeof *p->blocks);
    for (jref b = json_first(rec, hidden); b != JREF_NONE; b = json_next(rec, hidden, b)) {
        status s = json_size(rec, b, "need", &p->blocks[p->n_blocks], j->e);
        if (s) return s;
        if (p->blocks[p->n_blocks] > c->n_blocks)
            return err_set(j->e, ST_INPUT, "field 'need': the hidden state of block %zu is asked for, the model has %zu blocks", p->blocks[p->n_blocks], c->n_blocks);
        for (size_t i = 0; i < p->n_blocks; i++)
            if (p->blocks[i] == p->blocks[p->n_blocks]) return err_set(j->e, ST_INPUT, "field 'need': block %zu comes twice under 'hidden'", p->blocks[i]);
        p->n_blocks++;
    }
    return ST_OK;
}

/* --- composite: log-probabilities of a server, hidden states of this host --- */

/* The server's ids of the labels must be those of this tokenizer, or the two are not one model. */
static status compare_labels(job *j, const json *rec, const prompt *p) {
    jref ids = json_get(rec, JREF_ROOT, "label_ids"), list = json_get(rec, JREF_ROOT, "labels"), l = json_first(rec, list);
    if (json_count(rec, ids) != p->n_labels)
        return err_set(j->e, ST_REFUSED, "field 'label_ids': the server does not tell the ids of the labels, so that nobody knows whether its tokenizer is this one");
    buf differ = {0};
    status s = ST_OK;
    size_t i = 0;
    for (jref x = json_first(rec, ids); !s && x != JREF_NONE; x = json_next(rec, ids, x), l = json_next(rec, list, l), i++) {
        size_t id;
        s = json_size(rec, x, "label_ids", &id, j->e);
        if (!s && id != p->labels[i]) buf_printf(&differ, "%s%.*s (%zu there, %u here)", differ.len ? ", " : "", (int)(json_raw(rec, l).n > 60 ? 60 : json_raw(rec, l).n), json_raw(rec, l).p, id, p->labels[i]);
    }
    if (!s && differ.len) s = err_set(j->e, ST_REFUSED, "the server's tokenizer and this one give different ids for the labels %s", differ.p);
    buf_free(&differ);
    return s;
}

/* The field model becomes both: who gave the log-probabilities, and this model. */
static status compose(job *j, const json *rec) {
    jref server = json_get(rec, JREF_ROOT, "model");
    strv raw = json_raw(rec, server);
    if (!json_is(rec, json_get(rec, server, "backend"), "gateway"))
        return err_set(j->e, ST_REFUSED, "field 'model': --only hidden goes behind prefill-gateway --only logprobs; this prompt did not pass it");
    if (j->server.len)
        return strv_eq(raw, buf_strv(&j->server)) ? ST_OK : err_set(j->e, ST_REFUSED, "the log-probabilities are of another model than those of the prompts before: %.*s", (int)(raw.n > 300 ? 300 : raw.n), raw.p);
    char hex[SHA256_HEX_SIZE];
    buf both = {0}, scratch = {0};
    strv name = {0};
    buf_view(&j->server, raw);
    buf_view(&both, raw);
    buf_view(&both, buf_strv(&j->identity));
    status s = buf_ok(&j->server, j->e);
    if (!s) s = buf_ok(&both, j->e);
    if (!s) s = sha256_hex(both.p, both.len, hex, j->e);
    if (!s) s = json_text(rec, json_get(rec, server, "name"), &scratch, &name, j->e);
    buf_clear(&both);
    jw w = jw_of(&both);
    jw_open(&w, '{');
    jw_key(&w, "name");
    jw_view(&w, name);
    jw_key(&w, "backend");
    jw_text(&w, "composite");
    jw_key(&w, "fingerprint");
    jw_text(&w, hex);
    jw_key(&w, "logprobs");
    jw_raw(&w, raw);
    jw_key(&w, "hidden");
    jw_raw(&w, buf_strv(&j->identity));
    jw_close(&w, '}');
    if (!s) s = buf_ok(&both, j->e);
    if (!s) {
        buf_free(&j->identity);
        j->identity = both;
    } else {
        buf_free(&both);
    }
    buf_free(&scratch);
    return s;
}

static status read_composite(job *j, const json *rec, prompt *p) {
    if (p->logprobs && json_get(rec, JREF_ROOT, "logprobs") == JREF_NONE) return err_set(j->e, ST_INPUT, "field 'logprobs' is missing: the server did not fill this prompt");
    status s = compose(j, rec);
    if (!s && p->logprobs) s = compare_labels(j, rec, p);
    p->kept = p->logprobs;
    p->logprobs = false;
    p->pass = p->n_blocks == 0;
    return s;
}

static void prompt_free(prompt *p) {
    free(p->line);
    tok_ids_free(&p->ids);
    free(p->blocks);
    free(p->found);
    free(p->hidden);
}

/* A quarter of --cache-mib holds prompts and what was found for them, the rest the pass. */
static void share_room(job *j) {
    size_t cache = j->o->cache_mib << 20;
    j->text_room = cache / 4;
    j->room = j->cuda ? SIZE_MAX : cache - cache / 4;
    j->batch_tokens = j->o->batch_tokens;
    if (j->cuda) return;
    size_t none = model_run_bytes(j->m, kernel_threads(j->kn), 0), row = model_run_bytes(j->m, kernel_threads(j->kn), 1) - none;
    size_t fit = j->room > none ? (j->room - none) / row : 0;
    if (fit < j->batch_tokens) j->batch_tokens = fit;
}

static status check_room(const job *j, size_t tokens) {
    size_t need = j->cuda ? 0 : model_run_bytes(j->m, kernel_threads(j->kn), tokens);
    if (need <= j->room) return ST_OK;
    size_t mib = (need / 3 * 4 >> 20) + 1;
    return err_set(j->e, ST_REFUSED, "a prompt of %zu tokens needs --cache-mib %zu; it is %zu", tokens, mib, j->o->cache_mib);
}

static size_t prompt_bytes(const job *j, const prompt *p) {
    return sizeof *p + p->len + p->ids.cap * sizeof *p->ids.id + LABELS_MAX * sizeof *p->found + p->n_blocks * (sizeof *p->blocks + model_shape(j->m)->hidden_dim * sizeof *p->hidden);
}

static status read_prompt(job *j, const json *rec, prompt *p) {
    const model_config *c = model_shape(j->m);
    if (!json_is(rec, json_get(rec, JREF_ROOT, "type"), "prompt")) return err_set(j->e, ST_INPUT, "expected a record of type 'prompt'");
    p->at = records_where(j->r);
    p->len = rec->len;
    p->line = mem_text(rec->text, rec->len);
    p->found = mem_zero(LABELS_MAX, sizeof *p->found);
    if (!p->line || !p->found) return err_memory(j->e, rec->len);
    status s = prompt_encode(j->t, j->chat, rec, false, &p->ids, j->e);
    if (!s) s = read_labels(j, rec, p);
    if (!s) s = read_need(j, rec, p);
    if (!s && j->o->only) s = read_composite(j, rec, p);
    if (!s && p->ids.n == 0) s = err_set(j->e, ST_INPUT, "the prompt is empty");
    if (!s && !p->pass && p->ids.n > c->context) s = err_set(j->e, ST_INPUT, "the prompt has %zu tokens, the model's context holds %zu", p->ids.n, c->context);
    if (!s && !p->pass) s = check_room(j, p->ids.n);
    return s;
}

/* Puts the record's id before the message. */
static void name_record(const json *rec, err *e) {
    jref id = json_get(rec, JREF_ROOT, "id");
    if (id == JREF_NONE) return;
    strv raw = json_raw(rec, id);
    err_prefix(e, "prompt %.*s", (int)(raw.n > 80 ? 80 : raw.n), raw.p);
}

/* As many prompts as there is room for. */
static status read_some(job *j, bool *more) {
    json *rec = NULL;
    status s = ST_OK;
    size_t held = 0;
    while (held < j->text_room && !(s = records_next(j->r, &rec, j->e)) && rec) {
        prompt p = {0};
        s = read_prompt(j, rec, &p);
        if (!s && !mem_grow((void **)&j->prompts, &j->cap, j->n + 1, sizeof *j->prompts)) s = err_memory(j->e, (j->n + 1) * sizeof *j->prompts);
        if (!s) {
            j->prompts[j->n++] = p;
            held += prompt_bytes(j, &p);
            continue;
        }
        prompt_free(&p);
        name_record(rec, j->e);
        if ((s = records_bad(j->r, j->e))) return s;
    }
    *more = rec != NULL;
    return s;
}

static void forget_all(job *j) {
    for (size_t i = 0; i < j->n; i++) prompt_free(&j->prompts[i]);
    j->n = 0;
}

static void on_progress(void *ctx, size_t more) {
    progress_step(ctx, more);
}

/* The prompts at hand. */
static status run_all(job *j) {
    model_prompt *all = mem_zero(j->n, sizeof *all);
    if (!all) return err_memory(j->e, j->n * sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < j->n; i++) {
        prompt *p = &j->prompts[i];
        if (p->pass) continue;
        all[n++] = (model_prompt){.index = i, .ids = p->ids.id, .n_ids = p->ids.n, .want_logits = p->logprobs, .labels = p->labels, .n_labels = p->n_labels,
                                  .blocks = p->blocks, .n_blocks = p->n_blocks, .logprobs = p->found, .hidden = p->hidden};
    }
    model_sort(all, n);
    size_t blocks = model_shape(j->m)->n_blocks, total = 0, most = 0, longest = 0;
    for (size_t at = 0, k; at < n; at += k) {
        k = model_batch(all + at, n - at, j->batch_tokens);
        size_t tokens = model_tokens(all + at, k);
        total += tokens * blocks;
        if (tokens > most) most = tokens;
        for (size_t i = at; i < at + k; i++)
            if (all[i].n_ids > longest) longest = all[i].n_ids;
    }
    /* Whether the largest batch fits is known before the first one runs. */
    status s = j->cuda && j->n ? model_cuda_prepare(j->cuda, most, longest, j->e) : ST_OK;
    progress_start(&j->bar, "prefill-local", "tokens x blocks", total, j->o->rec.progress);
    for (size_t at = 0, k; !s && at < n; at += k) {
        model_stats stats;
        size_t bad;
        k = model_batch(all + at, n - at, j->batch_tokens);
        s = j->cuda ? model_cuda_run(j->cuda, all + at, k, &stats, on_progress, &j->bar, &bad, j->e)
                    : model_run(j->m, j->kn, all + at, k, &stats, on_progress, &j->bar, &bad, j->e);
        if (s == ST_INPUT) {
            const prompt *p = &j->prompts[all[at + bad].index];
            err_prefix(j->e, "%s:%zu", p->at.file, p->at.line);
        }
        for (size_t i = at; !s && i < at + k; i++) {
            j->prompts[all[i].index].blocks_run = all[i].blocks_run;
            j->prompts[all[i].index].n_reused = all[i].n_reused;
        }
    }
    progress_end(&j->bar);
    free(all);
    return s;
}

/* --- writing --- */

/* The new fields, each as JSON text in a buffer of its own. */
enum { F_LOGPROBS, F_MASS, F_MISSING, F_IDS, F_TOKENS, F_REUSED, F_BLOCKS, F_HIDDEN, F_FILE, F_MODEL, F_COUNT };
static const char *const field_names[F_COUNT] = {"logprobs", "answer_mass", "missing", "label_ids", "n_tokens", "n_reused", "blocks", "hidden", "hidden_file", "model"};

static void put_hidden(const job *j, const prompt *p, buf *out) {
    size_t hd = model_shape(j->m)->hidden_dim;
    buf_byte(out, '{');
    for (size_t b = 0; b < p->n_blocks; b++) {
        buf_printf(out, "%s\"%zu\":\"", b ? "," : "", p->blocks[b]);
        /* Little endian in the record; so is every machine that this is built for (lib/kernel/internal.h asserts it). */
        base64_put(out, p->hidden + b * hd, hd * sizeof *p->hidden);
        buf_byte(out, '"');
    }
    buf_byte(out, '}');
}

static status put_features(job *j, const prompt *p, jw *w) {
    status s = ST_OK;
    char block[24];
    jw_open(w, '{');
    for (size_t b = 0; !s && b < p->n_blocks; b++) {
        size_t hd = model_shape(j->m)->hidden_dim, row;
        const char *file;
        if ((s = npy_set_put(j->features, p->blocks[b], p->hidden + b * hd, hd, &file, &row, j->e))) return s;
        snprintf(block, sizeof block, "%zu", p->blocks[b]);
        jw_key(w, block);
        jw_open(w, '{');
        jw_key(w, "file");
        jw_text(w, file);
        jw_key(w, "row");
        jw_size(w, row);
        jw_close(w, '}');
    }
    jw_close(w, '}');
    return s;
}

static status write_prompt(job *j, const prompt *p, json *doc, buf text[F_COUNT], buf *line) {
    status s = json_parse(doc, p->line, p->len, j->e);
    if (s) return s;
    jw w[F_COUNT];
    for (int f = 0; f < F_COUNT; f++) {
        buf_clear(&text[f]);
        w[f] = jw_of(&text[f]);
    }
    double mass = 0;
    jw_open(&w[F_LOGPROBS], '[');
    jw_open(&w[F_IDS], '[');
    for (size_t i = 0; i < p->n_labels; i++) {
        jw_real(&w[F_LOGPROBS], p->found[i]);
        jw_size(&w[F_IDS], p->labels[i]);
        mass += kernel_exp(p->found[i]);
    }
    jw_close(&w[F_LOGPROBS], ']');
    jw_close(&w[F_IDS], ']');
    jw_real(&w[F_MASS], mass);
    buf_text(&text[F_MISSING], "[]");
    jw_size(&w[F_TOKENS], p->ids.n);
    jw_size(&w[F_REUSED], p->n_reused);
    jw_size(&w[F_BLOCKS], p->blocks_run);
    if (!j->features) put_hidden(j, p, &text[F_HIDDEN]);
    else if ((s = put_features(j, p, &w[F_FILE]))) return s;
    buf_view(&text[F_MODEL], buf_strv(&j->identity));
    json_field fields[F_COUNT + 2];
    size_t n = 0;
    for (int f = 0; f < F_COUNT; f++) {
        /* What was not asked for is dropped: an earlier run's numbers must not stand beside this model's name. */
        bool of_logprobs = f <= F_MISSING, of_run = f >= F_TOKENS && f <= F_BLOCKS;
        if ((p->kept && f <= F_IDS) || (p->pass && of_run)) continue;
        if ((of_logprobs && !p->logprobs) || (f == F_HIDDEN && (!p->n_blocks || j->features)) || (f == F_FILE && (!p->n_blocks || !j->features))) {
            fields[n++] = (json_field){field_names[f], {NULL, 0}};
            continue;
        }
        if ((s = buf_ok(&text[f], j->e))) return s;
        fields[n++] = (json_field){field_names[f], buf_strv(&text[f])};
    }
    if (!j->o->keep_prompt) {
        fields[n++] = (json_field){"prefix", {NULL, 0}};
        fields[n++] = (json_field){"suffix", {NULL, 0}};
    }
    buf_clear(line);
    json_edit(line, doc, JREF_ROOT, fields, n);
    return records_put(j->r, line, j->e);
}

static status write_all(job *j) {
    json doc = {0};
    buf text[F_COUNT] = {{0}}, line = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->n; i++) s = write_prompt(j, &j->prompts[i], &doc, text, &line);
    for (int f = 0; f < F_COUNT; f++) buf_free(&text[f]);
    buf_free(&line);
    json_free(&doc);
    return s;
}

/* Long inputs stream: memory is bounded by --cache-mib. */
static status stream(job *j) {
    bool more = true;
    status s = j->o->features ? npy_set_open(&j->features, j->o->features, j->e) : ST_OK;
    share_room(j);
    while (!s && more) {
        s = read_some(j, &more);
        if (!s) s = run_all(j);
        if (!s) s = write_all(j);
        forget_all(j);
    }
    return npy_set_close(j->features, s, j->e); /* before the records that point there are complete */
}

/* The name in the cache as it was given; of a path the last part, so that records do not tell where it lay. */
static strv model_called(const char *given, const char *path) {
    strv v = strv_of(given);
    if (strcmp(given, path) != 0) return v;
    while (v.n > 1 && v.p[v.n - 1] == '/') v.n--;
    for (size_t i = v.n; i > 1; i--)
        if (v.p[i - 2] == '/') return (strv){v.p + i - 1, v.n - i + 1};
    return v;
}

/* On the CPU. */
static model_compute compute_of(const settings *o) {
    model_compute c = MODEL_F32; /* auto */
    model_compute_parse(o->compute, &c);
    return c;
}

static status make_identity(job *j, const char *path) {
    char hex[SHA256_HEX_SIZE];
    status s = model_fingerprint(j->m, tokenizer_sha256(j->t), hex, j->e);
    if (s) return s;
    strv name = model_called(j->o->model, path);
    jw w = jw_of(&j->identity);
    jw_open(&w, '{');
    jw_key(&w, "name");
    jw_view(&w, name);
    jw_key(&w, "backend");
    jw_text(&w, "local");
    jw_key(&w, "compute");
    jw_text(&w, j->cuda ? model_cuda_compute(strcmp(j->o->compute, "f32") == 0) : model_compute_name(compute_of(j->o)));
    jw_key(&w, "fingerprint");
    jw_text(&w, hex);
    jw_key(&w, "tokenizer_sha256");
    jw_text(&w, tokenizer_sha256(j->t));
    jw_close(&w, '}');
    return buf_ok(&j->identity, j->e);
}

static status open_model(job *j, const char *path) {
    kernel_isa isa = KERNEL_AUTO;
    kernel_isa_parse(j->o->isa, &isa); /* the option table let only known names through */
    status s = kernel_open(&j->kn, isa, (unsigned)j->o->threads, j->e);
    if (!s) s = model_open(&j->m, path, j->e);
    const gguf *g = s ? NULL : model_gguf(j->m);
    if (!s) s = g ? tokenizer_of_gguf(&j->t, g, j->e) : tokenizer_open(&j->t, path, j->e);
    if (s) return s;
    buf note = {0};
    if (j->o->pack) {
        s = model_pack_write(j->m, j->kn, compute_of(j->o), tokenizer_sha256(j->t), &note, j->e);
        if (!s) fprintf(stderr, "prefill-local: wrote %s\n", note.p);
        buf_free(&note);
        return s;
    }
    bool cpu = strcmp(j->o->device, "cpu") == 0;
    s = cpu ? model_prepare(j->m, j->kn, compute_of(j->o), tokenizer_sha256(j->t), j->o->verify, &note, j->e)
            : model_cuda_open(&j->cuda, j->m, j->kn, j->ordinal, strcmp(j->o->compute, "f32") == 0, j->o->batch_tokens, j->e);
    if (!s && note.len) fprintf(stderr, "prefill-local: %s\n", note.p);
    buf_free(&note);
    if (!s && j->o->template) s = chat_named(j->o->template, &j->chat, j->e);
    else if (!s) s = g ? chat_of_gguf(g, &j->chat, j->e) : chat_of_model(path, &j->chat, j->e);
    return s ? s : make_identity(j, path);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "model", .letter = 'm', .kind = OPT_TEXT, .arg = "MODEL", .to = &o.model,
         .help = "the model: a Hugging Face folder, a GGUF file, or a name in the local Hugging Face cache"},
        {.name = "threads", .letter = 't', .kind = OPT_SIZE, .arg = "N", .to = &o.threads, .initial = "0", .max = 1024,
         .help = "threads; 0 means all cores that this process may use; the answers do not depend on it"},
        {.name = "isa", .kind = OPT_CHOICE, .arg = "ISA", .to = &o.isa, .initial = "auto", .choices = "auto|ref|avx2|avx512|neon",
         .help = "instruction set; the answers do not depend on it"},
        {.name = "device", .letter = 'd', .kind = OPT_TEXT, .arg = "DEVICE", .to = &o.device, .initial = "cpu",
         .help = "cpu, cuda, or cuda:N for the GPU of that number"},
        {.name = "compute", .kind = OPT_CHOICE, .arg = "MODE", .to = &o.compute, .initial = "auto", .choices = "auto|f32|int8|bf16",
         .help = "f32; int8 by blocks of 32, faster and less exact (cpu); bf16 with sums in f32 (cuda); auto is f32 on the CPU and bf16 on a GPU"},
        {.name = "pack", .kind = OPT_FLAG, .to = &o.pack,
         .help = "write a packed copy for this compute mode beside the model, from which later runs start at once, and end"},
        {.name = "verify", .kind = OPT_FLAG, .to = &o.verify,
         .help = "hash the weights and the packed copy even if their sizes, inodes and times say that nobody wrote to them"},
        {.name = "template", .kind = OPT_CHOICE, .arg = "NAME", .to = &o.template, .choices = CHAT_NAMES,
         .help = "take this chat template instead of the model's own"},
        {.name = "batch-tokens", .kind = OPT_SIZE, .arg = "N", .to = &o.batch_tokens, .initial = "32768", .min = 1,
         .help = "at most so many distinct tokens in memory at once"},
        {.name = "cache-mib", .kind = OPT_SIZE, .arg = "N", .to = &o.cache_mib, .initial = "2048", .min = 1, .max = (size_t)1 << 30,
         .help = "memory for prompts and for the pass, beside the weights; longer inputs stream, the answers do not depend on it"},
        {.name = "features", .kind = OPT_TEXT, .arg = "PREFIX", .to = &o.features,
         .help = "write hidden states to PREFIX.b<block>.npy, a row for each prompt, and their places on the records"},
        {.name = "keep-prompt", .kind = OPT_FLAG, .to = &o.keep_prompt, .help = "keep the fields prefix and suffix"},
        {.name = "only", .kind = OPT_CHOICE, .arg = "NEED", .to = &o.only, .choices = "hidden",
         .help = "add hidden states to what prefill-gateway --only logprobs filled; the label ids of both are compared"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {
        .name = "prefill-local", .operands = "--model MODEL [FILE ...]",
        .summary = "prompts to label log-probabilities and hidden states, from weights on this host",
        .opts = opts, .n_opts = sizeof opts / sizeof *opts,
        .notes = "example:\n  prompt-build --model m.gguf items.jsonl | prefill-local --model m.gguf | head-apply --level L0\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    char *path = NULL;
    status s = o.model ? ST_OK : err_set(&e, ST_USAGE, "option --model is missing");
    bool cpu = strcmp(o.device, "cpu") == 0;
    if (!s && !cpu && !model_cuda_parse(o.device, &j.ordinal)) s = err_set(&e, ST_USAGE, "option --device: '%s' is none of cpu, cuda, cuda:N", o.device);
    if (!s && !cpu && strcmp(o.compute, "int8") == 0) s = err_set(&e, ST_USAGE, "option --compute: int8 needs --device cpu");
    if (!s && cpu && strcmp(o.compute, "bf16") == 0) s = err_set(&e, ST_USAGE, "option --compute: bf16 needs --device cuda");
    if (!s && !cpu && o.pack) s = err_set(&e, ST_USAGE, "option --pack needs --device cpu");
    if (!s && o.pack && rest.n) s = err_set(&e, ST_USAGE, "--pack reads no records: '%s' is too much", rest.files[0]);
    if (!s) s = model_locate(o.model, &path, &e);
    if (!s) s = open_model(&j, path);
    bool run = !s && !o.pack;
    if (run) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
    if (run && !s) s = stream(&j);
    s = records_close(j.r, s, &e);
    free(j.prompts);
    buf_free(&j.identity);
    buf_free(&j.server);
    model_cuda_close(j.cuda);
    model_close(j.m);
    tokenizer_close(j.t);
    kernel_close(j.kn);
    free(path);
    return opt_finish(&program, s, &e);
}
