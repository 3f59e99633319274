/* prefill-fake: prompts in, the same filled from planted answers and biases: for tests and teaching. No model. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/random.h"
#include "decide/decide.h"
#include "json/record.h"
#include "kernel/kernel.h"

typedef struct settings {
    record_opts rec;
    double signal, position, label, noise, mass;
    size_t seed, hidden_dim, code_block;
} settings;

typedef struct job {
    const settings *o;
    records *r;
    buf identity;
    err *e;
} job;

/* About normal: the sum of twelve uniform numbers, less six. */
static double noise(rng *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += (double)(rng_next(state) >> 11) * 0x1p-53;
    return sum;
}

static uint64_t seed_of(const job *j, strv text, uint64_t more) {
    return fnv1a(FNV_START ^ (uint64_t)j->o->seed * 0x9E3779B97F4A7C15u ^ more, text.p, text.n);
}

typedef struct planted {
    size_t k, perm[DECIDE_MAX], answer;
    double logprobs[DECIDE_MAX];
    bool first_label[DECIDE_MAX]; /* the label is A, Yes or 1 */
    strv item;
} planted;

static status read_prompt(job *j, const json *rec, planted *p) {
    jref options = json_get(rec, JREF_ROOT, "options"), perm = json_get(rec, JREF_ROOT, "perm"), labels = json_get(rec, JREF_ROOT, "labels");
    jref label = json_get(rec, JREF_ROOT, "label"), id = json_get(rec, JREF_ROOT, "item");
    if (!json_is(rec, json_get(rec, JREF_ROOT, "type"), "prompt")) return err_set(j->e, ST_INPUT, "expected a record of type 'prompt'");
    if (id == JREF_NONE) id = json_get(rec, JREF_ROOT, "id");
    p->item = json_raw(rec, id);
    p->k = json_count(rec, options);
    if (p->k < 2 || p->k > DECIDE_MAX || json_count(rec, perm) != p->k || json_count(rec, labels) != p->k)
        return err_set(j->e, ST_INPUT, "fields 'options', 'perm' and 'labels': expected 2 to %d of each, equally many", DECIDE_MAX);
    size_t i = 0;
    rng state = {seed_of(j, p->item, 1)};
    p->answer = (size_t)(rng_next(&state) % p->k); /* unless the item is labelled */
    buf a = {0}, b = {0};
    strv want = {0}, have;
    status s = json_kind_of(rec, label) == JSON_STRING ? json_text(rec, label, &a, &want, j->e) : ST_OK;
    for (jref o = json_first(rec, options); !s && o != JREF_NONE; o = json_next(rec, options, o), i++)
        if (want.p && !(s = json_text(rec, o, &b, &have, j->e)) && strv_eq(want, have)) p->answer = i;
    i = 0;
    for (jref x = json_first(rec, perm); !s && x != JREF_NONE; x = json_next(rec, perm, x), i++)
        if (!(s = json_size(rec, x, "perm", &p->perm[i], j->e)) && p->perm[i] >= p->k) s = err_set(j->e, ST_INPUT, "field 'perm': %zu is no option", p->perm[i]);
    i = 0;
    for (jref x = json_first(rec, labels); !s && x != JREF_NONE; x = json_next(rec, labels, x), i++)
        p->first_label[i] = json_is(rec, x, "A") || json_is(rec, x, "Yes") || json_is(rec, x, "1");
    buf_free(&a);
    buf_free(&b);
    return s;
}

/* logit of an option at a position = signal if it is the answer + what is planted on the position (the first has all
 * of it, the last none) + what is planted on the first label + noise of the item and option. */
static void fill(const job *j, planted *p) {
    const settings *o = j->o;
    double logits[DECIDE_MAX], sum = 0;
    for (size_t pos = 0; pos < p->k; pos++) {
        size_t option = p->perm[pos];
        rng state = {seed_of(j, p->item, 2 + option)};
        logits[pos] = (option == p->answer ? o->signal : 0) + o->position * (double)(p->k - 1 - pos) / (double)(p->k - 1) +
                      (p->first_label[pos] ? o->label : 0) + o->noise * noise(&state);
        sum += kernel_exp(logits[pos]);
    }
    for (size_t pos = 0; pos < p->k; pos++) p->logprobs[pos] = logits[pos] - kernel_log(sum) + kernel_log(o->mass);
}

/* A hidden state that tells the answer at the code's block: its first k numbers hold the signal, the rest noise. */
static status put_hidden(job *j, const json *rec, const planted *p, buf *out) {
    jref blocks = json_get(rec, json_get(rec, JREF_ROOT, "need"), "hidden");
    float *h = mem_zero(j->o->hidden_dim, sizeof *h);
    status s = h ? ST_OK : err_memory(j->e, j->o->hidden_dim * sizeof *h);
    buf_byte(out, '{');
    bool some = false;
    for (jref b = json_first(rec, blocks); !s && b != JREF_NONE; b = json_next(rec, blocks, b)) {
        size_t block;
        if ((s = json_size(rec, b, "need", &block, j->e))) break;
        rng state = {seed_of(j, p->item, 1000 + block)};
        for (size_t i = 0; i < j->o->hidden_dim; i++)
            h[i] = (float)(noise(&state) + (block == j->o->code_block && i == p->answer ? j->o->signal : 0));
        buf_printf(out, "%s\"%zu\":\"", some ? "," : "", block);
        base64_put(out, h, j->o->hidden_dim * sizeof *h);
        buf_byte(out, '"');
        some = true;
    }
    buf_byte(out, '}');
    free(h);
    return s ? s : buf_ok(out, j->e);
}

static status write_prompt(job *j, const json *rec, const planted *p) {
    buf logprobs = {0}, mass = {0}, hidden = {0}, line = {0};
    jw w = jw_of(&logprobs), m = jw_of(&mass);
    jw_open(&w, '[');
    for (size_t i = 0; i < p->k; i++) jw_real(&w, p->logprobs[i]);
    jw_close(&w, ']');
    jw_real(&m, j->o->mass);
    status s = put_hidden(j, rec, p, &hidden);
    json_field fields[7] = {{"logprobs", buf_strv(&logprobs)}, {"answer_mass", buf_strv(&mass)}, {"missing", strv_of("[]")},
                            {"model", buf_strv(&j->identity)}, {"prefix", {NULL, 0}},            {"suffix", {NULL, 0}},
                            {"hidden", buf_strv(&hidden)}};
    if (!s) s = buf_ok(&logprobs, j->e);
    if (!s) {
        json_edit(&line, rec, JREF_ROOT, fields, hidden.len > 2 ? 7 : 6);
        s = records_put(j->r, &line, j->e);
    }
    buf_free(&logprobs);
    buf_free(&mass);
    buf_free(&hidden);
    buf_free(&line);
    return s;
}

static status run(job *j) {
    json *rec;
    status s;
    while (!(s = records_next(j->r, &rec, j->e)) && rec) {
        planted p = {0};
        if (!(s = read_prompt(j, rec, &p))) {
            fill(j, &p);
            if ((s = write_prompt(j, rec, &p))) return s;
            continue;
        }
        if ((s = records_bad(j->r, j->e))) return s;
    }
    return s;
}

/* Two runs with other settings are other models. */
static status make_identity(job *j) {
    const settings *o = j->o;
    buf b = {0};
    char hex[SHA256_HEX_SIZE];
    buf_printf(&b, "%.17g %.17g %.17g %.17g %.17g %zu %zu %zu", o->signal, o->position, o->label, o->noise, o->mass, o->seed, o->hidden_dim, o->code_block);
    status s = buf_ok(&b, j->e);
    if (!s) s = sha256_hex(b.p, b.len, hex, j->e);
    buf_free(&b);
    if (!s) buf_printf(&j->identity, "{\"name\":\"fake\",\"backend\":\"fake\",\"compute\":\"f64\",\"fingerprint\":\"%s\"}", hex);
    return s ? s : buf_ok(&j->identity, j->e);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "signal", .kind = OPT_REAL, .arg = "X", .to = &o.signal, .initial = "2", .min = -100, .max = 100,
         .help = "logit of the planted answer: the item's label, or an option drawn by the item's id"},
        {.name = "position-bias", .kind = OPT_REAL, .arg = "X", .to = &o.position, .initial = "0", .min = -100, .max = 100,
         .help = "logit planted on the first position, falling to 0 at the last"},
        {.name = "label-bias", .kind = OPT_REAL, .arg = "X", .to = &o.label, .initial = "0", .min = -100, .max = 100, .help = "logit planted on the label A, Yes or 1"},
        {.name = "noise", .kind = OPT_REAL, .arg = "X", .to = &o.noise, .initial = "0", .min = 0, .max = 100,
         .help = "standard deviation of a noise that each option of an item has, the same in every permutation"},
        {.name = "mass", .kind = OPT_REAL, .arg = "X", .to = &o.mass, .initial = "0.9", .min = 1e-6, .max = 1, .help = "probability of all labels together"},
        {.name = "seed", .kind = OPT_SIZE, .arg = "N", .to = &o.seed, .initial = "0", .help = "seed of everything drawn"},
        {.name = "hidden-dim", .kind = OPT_SIZE, .arg = "N", .to = &o.hidden_dim, .initial = "32", .min = DECIDE_MAX, .max = 65536, .help = "size of the hidden states"},
        {.name = "code-block", .kind = OPT_SIZE, .arg = "N", .to = &o.code_block, .initial = "3", .help = "the block whose hidden state tells the answer; the others are noise"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "prefill-fake", .operands = "[FILE ...]",
                                 .summary = "prompts filled from planted answers, biases and hidden states, for tests and teaching",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  prefill-fake --position-bias 3 prompts.jsonl | head-apply --level L0 --format table\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    status s = make_identity(&j);
    if (!s) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
    if (!s) s = run(&j);
    s = records_close(j.r, s, &e);
    buf_free(&j.identity);
    return opt_finish(&program, s, &e);
}
