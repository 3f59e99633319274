#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/share.h"
#include "doctor/doctor.h"
#include "doctor/probe.h"
#include "model/model.h"
#include "net/served.h"
#include "question/registry.h"
#include "token/prompt.h"
#include "weights/locate.h"

void doctor_share(findings *r) {
    char *path = NULL;
    registry q = {0};
    buf lock = {0};
    err why = {0};
    status s = share_path("questions.json", &path, &why);
    if (!s) s = registry_load(&q, path, &why);
    if (!s) {
        buf_put(&lock, path, strlen(path) - strlen(".json"));
        buf_text(&lock, ".lock.json");
        s = buf_ok(&lock, &why);
    }
    if (!s) s = registry_lock_check(&q, lock.p, &why);
    if (s) findings_put(r, FINDING_FAIL, "questions", s == ST_REFUSED ? "prompt-build --write-lock, when the change is meant" : "set ANYJEV_SHARE, or install again", "%s", why.text);
    else findings_put(r, FINDING_OK, "questions", NULL, "%zu questions, as locked (%.8s)", q.n, q.lock_sha);
    registry_free(&q);
    buf_free(&lock);
    free(path);
}

typedef struct local {
    findings *r;
    const doctor_options *o;
    char *path;
    tokenizer *t;
    model *m;
    kernel *kn;
    chat family;
    bool family_known;
} local;

static void check_cpu(local *l) {
    err why = {0};
    if (kernel_open(&l->kn, KERNEL_AUTO, (unsigned)l->o->threads, &why)) {
        findings_put(l->r, FINDING_FAIL, "processor", NULL, "%s", why.text);
        return;
    }
    bool plain = kernel_used_isa(l->kn) == KERNEL_REF;
    findings_put(l->r, plain ? FINDING_WARN : FINDING_OK, "processor", plain ? "expect it to be slow" : NULL, "runs %s; chosen: %s, %u thread%s", kernel_isa_list(), kernel_isa_name(kernel_used_isa(l->kn)),
               kernel_threads(l->kn), kernel_threads(l->kn) == 1 ? "" : "s");
    /* A known answer of the arithmetic: exp and log undo each other. */
    double worst = 0;
    for (double x = -20; x < 20; x += 0.37) {
        double d = fabs(kernel_log(kernel_exp(x)) - x);
        if (!(d <= worst)) worst = d;
    }
    findings_put(l->r, worst < 1e-12 ? FINDING_OK : FINDING_FAIL, "arithmetic", worst < 1e-12 ? NULL : "this build is broken: make clean all check", "exp and log agree to %.1e", worst);
    bool device = access("/dev/nvidia0", F_OK) == 0;
    findings_put(l->r, FINDING_OK, "cuda", NULL, "%s", device ? "an NVIDIA device is here" : "no NVIDIA device here; the processor computes");
}

static double weight_bytes(const char *path) {
    struct stat st;
    if (stat(path, &st)) return 0;
    if (!S_ISDIR(st.st_mode)) return (double)st.st_size;
    DIR *d = opendir(path);
    double sum = 0;
    for (struct dirent *x; d && (x = readdir(d));) {
        buf b = {0};
        size_t n = strlen(x->d_name);
        buf_printf(&b, "%s/%s", path, x->d_name);
        if (n > 12 && strcmp(x->d_name + n - 12, ".safetensors") == 0 && !b.failed && stat(b.p, &st) == 0) sum += (double)st.st_size;
        buf_free(&b);
    }
    if (d) closedir(d);
    return sum;
}

static double available_memory(void) {
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    double kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1) break;
    if (f) fclose(f);
    return kib * 1024;
}

static void check_memory(local *l) {
    const model_config *c = model_shape(l->m);
    const size_t tokens = 4096;
    double row = 4.0 * (double)(3 * c->hidden_dim + 2 * c->heads * c->head_dim + 2 * c->kv_heads * c->head_dim + 2 * c->ffn_dim);
    double need = weight_bytes(l->path) + row * (double)tokens, have = available_memory();
    bool tight = have > 0 && need > have;
    if (have <= 0) findings_put(l->r, FINDING_WARN, "memory", NULL, "needs about %.0f MiB for %zu tokens at once; how much is free cannot be told here", need / 1048576, tokens);
    else findings_put(l->r, tight ? FINDING_FAIL : FINDING_OK, "memory", tight ? "take a smaller model, or quantised weights" : NULL, "needs about %.0f MiB for %zu tokens at once, %.0f MiB are free",
                    need / 1048576, tokens, have / 1048576);
}

static bool check_model(local *l) {
    static const char *const later[] = {"memory", "labels", "finite", "label mass", "known answer", "early exit", "bundle"};
    err why = {0};
    const char *remedy = "name a Hugging Face folder, a GGUF file, or a name in the local cache with --model";
    status s = l->o->model ? model_locate(l->o->model, &l->path, &why) : err_set(&why, ST_USAGE, "no --model was given");
    if (!s) {
        remedy = "the model's files are incomplete or of a kind that is not supported";
        s = tokenizer_open(&l->t, l->path, &why);
    }
    if (!s) s = model_open(&l->m, l->path, &why);
    if (s) {
        findings_put(l->r, FINDING_FAIL, "model", remedy, "%s", why.text);
        for (size_t i = 0; i < sizeof later / sizeof *later; i++) findings_put(l->r, FINDING_NOT_RUN, later[i], NULL, "there is no model");
        return false;
    }
    const model_config *c = model_shape(l->m);
    findings_put(l->r, FINDING_OK, "model", NULL, "%s: %s, %zu blocks, hidden size %zu, vocabulary %zu, context %zu; all tensors are there", l->o->model, c->arch, c->n_blocks, c->hidden_dim, c->vocab, c->context);
    check_memory(l);
    return true;
}

static void check_labels(local *l) {
    buf bad = {0};
    err why = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < SERVED_LABELS; i++) {
        char text[4];
        uint32_t id;
        const char *label = served_label(i, text);
        s = tokenizer_single(l->t, strv_of(label), &id, &why);
        if (!s && id == TOKEN_NONE) buf_printf(&bad, "%s%s", bad.len ? ", " : "", label);
    }
    if (s) findings_put(l->r, FINDING_FAIL, "labels", NULL, "%s", why.text);
    else if (bad.len) findings_put(l->r, FINDING_FAIL, "labels", "questions that need them cannot be asked of this model", "no single tokens: %s", bad.p);
    else findings_put(l->r, FINDING_OK, "labels", NULL, "A to Z, Yes, No and 1 to 9 are single tokens");
    buf_free(&bad);
}

static void check_template(local *l) {
    err why = {0};
    status s = l->o->template ? chat_named(l->o->template, &l->family, &why) : chat_of_model(l->path, &l->family, &why);
    l->family_known = s == ST_OK;
    if (s) findings_put(l->r, FINDING_FAIL, "template", "name one with --template", "%s", why.text);
    else if (l->family == CHAT_NONE) findings_put(l->r, FINDING_WARN, "template", "a base model answers worse; take an instruction-tuned one", "the model has no chat template");
    else findings_put(l->r, FINDING_OK, "template", NULL, "%s", chat_name(l->family));
}

/* --- the probe --- */

typedef struct passed {
    tok_ids ids[PROBES];
    uint32_t labels[PROBES][2];
    double logprobs[PROBES][2];
    float *full, *early; /* [hidden_dim] of the first prompt */
} passed;

static status encode_probes(const local *l, const buf records[PROBES], passed *x, err *e) {
    json doc = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < PROBES; i++) {
        if ((s = json_parse(&doc, records[i].p, records[i].len, e)) || (s = prompt_encode(l->t, l->family, &doc, false, &x->ids[i], e))) break;
        jref labels = json_get(&doc, JREF_ROOT, "labels");
        for (size_t k = 0; !s && k < 2; k++) {
            bool yes = json_is(&doc, json_at(&doc, labels, k), "Yes");
            s = tokenizer_single(l->t, strv_of(yes ? "Yes" : "No"), &x->labels[i][k], e);
            if (!s && x->labels[i][k] == TOKEN_NONE) s = err_set(e, ST_REFUSED, "Yes or No is no single token");
        }
    }
    json_free(&doc);
    return s;
}

static void check_early(local *l, passed *x, size_t block, const model_prompt *early) {
    size_t n = model_shape(l->m)->hidden_dim * sizeof(float);
    bool same = memcmp(x->full, x->early, n) == 0, left = early->blocks_run <= block;
    findings_put(l->r, same && left ? FINDING_OK : FINDING_FAIL, "early exit", same && left ? NULL : "this build is broken: make clean all check",
               "the pass that stops at block %zu ran %zu blocks and %s the full one there", block, early->blocks_run, same ? "equals" : "differs from");
}

static status run_probes(local *l, passed *x, err *e) {
    const size_t block = (model_shape(l->m)->n_blocks + 1) / 2;
    model_prompt p[PROBES];
    model_stats stats;
    size_t bad;
    for (size_t i = 0; i < PROBES; i++)
        p[i] = (model_prompt){.index = i, .ids = x->ids[i].id, .n_ids = x->ids[i].n, .want_logits = true, .labels = x->labels[i], .n_labels = 2,
                              .blocks = &block, .n_blocks = i == 0, .logprobs = x->logprobs[i], .hidden = x->full};
    model_sort(p, PROBES);
    status s = model_run(l->m, l->kn, p, PROBES, &stats, NULL, NULL, &bad, e);
    if (s) return s;
    probe_answers a;
    memcpy(a.logprobs, x->logprobs, sizeof a.logprobs);
    probe_report(l->r, &a);
    model_prompt early = {.ids = x->ids[0].id, .n_ids = x->ids[0].n, .blocks = &block, .n_blocks = 1, .hidden = x->early};
    s = model_run(l->m, l->kn, &early, 1, &stats, NULL, NULL, &bad, e);
    if (!s) check_early(l, x, block, &early);
    return s;
}

static void check_answers(local *l) {
    static const char *const names[] = {"finite", "label mass", "known answer", "early exit"};
    buf records[PROBES] = {{0}};
    passed x = {0};
    err why = {0};
    size_t before = l->r->count[0] + l->r->count[1] + l->r->count[2] + l->r->count[3];
    status s = ST_OK;
    if (!l->family_known) s = err_set(&why, ST_REFUSED, "the chat template is not known");
    if (!s && !l->kn) s = err_set(&why, ST_REFUSED, "the processor could not be set up");
    size_t hidden = model_shape(l->m)->hidden_dim;
    x.full = mem_zero(hidden, sizeof(float));
    x.early = mem_zero(hidden, sizeof(float));
    if (!s && (!x.full || !x.early)) s = err_memory(&why, hidden);
    if (!s) s = probe_prompts(l->family, records, &why);
    if (!s) s = encode_probes(l, records, &x, &why);
    if (!s) s = run_probes(l, &x, &why);
    size_t done = l->r->count[0] + l->r->count[1] + l->r->count[2] + l->r->count[3] - before;
    if (s)
        for (size_t i = done; i < sizeof names / sizeof *names; i++) {
            bool broken = i == 0 && s == ST_INPUT; /* a NaN in a logit is a finding, not a check that could not run */
            findings_put(l->r, broken ? FINDING_FAIL : FINDING_NOT_RUN, names[i], broken ? "the weights are broken" : NULL, "%s", why.text);
        }
    for (size_t i = 0; i < PROBES; i++) {
        buf_free(&records[i]);
        tok_ids_free(&x.ids[i]);
    }
    free(x.full);
    free(x.early);
}

static void check_bundles(local *l) {
    char hex[SHA256_HEX_SIZE];
    err why = {0};
    if (model_fingerprint(l->m, tokenizer_sha256(l->t), hex, &why)) findings_put(l->r, FINDING_NOT_RUN, "bundle", NULL, "%s", why.text);
    else doctor_bundles(l->r, l->o->bundles, hex);
}

void doctor_local(findings *r, const doctor_options *o) {
    local l = {.r = r, .o = o};
    check_cpu(&l);
    if (check_model(&l)) {
        check_labels(&l);
        check_template(&l);
        check_answers(&l);
        check_bundles(&l);
    }
    model_close(l.m);
    tokenizer_close(l.t);
    kernel_close(l.kn);
    free(l.path);
}
