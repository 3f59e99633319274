/* head-fit: labelled, filled prompts in; held-out decisions out, and a file of what was learnt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "fit/learn.h"
#include "json/record.h"
#include "json/run.h"
#include "kernel/kernel.h"

typedef struct settings {
    record_opts rec;
    const char *level, *artifact, *leave_one_out, *prior, *calibrate;
    double strength, risk, delta;
    size_t seed, threads;
} settings;

typedef struct job {
    const settings *o;
    records *r;
    items all;
    learn_options how;
    buf inputs;    /* JSON: what was read */
    output *file;  /* of --artifact */
    size_t unlabelled;
    err *e;
} job;

static status read_all(job *j) {
    json *rec;
    status s;
    j->all.keep_hidden = j->how.level == LEVEL_L2;
    while (!(s = records_next(j->r, &rec, j->e)) && rec) {
        record_where at = records_where(j->r);
        if ((s = items_add(&j->all, rec, at.file, at.line, j->e)) && (s = records_bad(j->r, j->e))) return s;
    }
    return s;
}

static status hash_inputs(job *j, char *const *files, size_t n) {
    jw w = jw_of(&j->inputs);
    status s = ST_OK;
    jw_open(&w, '{');
    for (size_t i = 0; !s && i < n; i++) {
        char hex[SHA256_HEX_SIZE];
        const char *slash = strrchr(files[i], '/');
        if (strcmp(files[i], "-") == 0) continue;
        s = sha256_file(files[i], hex, j->e);
        jw_key(&w, slash ? slash + 1 : files[i]);
        jw_text(&w, hex);
    }
    jw_close(&w, '}');
    return s ? s : buf_ok(&j->inputs, j->e);
}

/* --- held-out decisions --- */

static status put_decisions(job *j, const learn_set *s, const learn_report *r) {
    buf line = {0};
    status st = ST_OK;
    for (size_t i = 0; !st && r->verdicts && i < s->n; i++) {
        const verdict *v = &r->verdicts[i];
        if (!v->level) continue;
        buf_clear(&line);
        decision_put(&j->all.items[s->item[i]], v, strv_of(j->all.model), &line);
        st = records_put(j->r, &line, j->e);
    }
    buf_free(&line);
    return st;
}

static void say_folds(const learn_set *s, const learn_report *r) {
    for (size_t f = 0; f < r->n_folds; f++)
        if (r->folds[f].skipped) fprintf(stderr, "head-fit: %s: fold '%s' skipped: %s\n", s->first->question, r->folds[f].group, r->folds[f].skipped);
}

/* --- the artifact file --- */

static void put_folds(const learn_report *r, jw *w) {
    jw_key(w, "folds");
    jw_open(w, '[');
    for (size_t f = 0; f < r->n_folds; f++) {
        jw_open(w, '{');
        jw_key(w, "group");
        jw_text(w, r->folds[f].group);
        jw_key(w, "n");
        jw_size(w, r->folds[f].n);
        if (r->folds[f].skipped) {
            jw_key(w, "skipped");
            jw_text(w, r->folds[f].skipped);
        } else {
            jw_key(w, "accuracy");
            jw_real(w, (double)r->folds[f].right / (double)r->folds[f].n);
        }
        jw_close(w, '}');
    }
    jw_close(w, ']');
}

/* What the manifest of a bundle will say of it. */
static status put_fit(job *j, const learn_set *s, const learn_report *r, const artifact *a) {
    buf line = {0};
    jw w = jw_of(&line);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "fit");
    jw_key(&w, "question_id");
    jw_text(&w, a->question_id);
    jw_key(&w, "key");
    jw_text(&w, a->key);
    jw_key(&w, "level");
    jw_text(&w, artifact_level(a));
    jw_key(&w, "n");
    jw_size(&w, s->n);
    jw_key(&w, "classes");
    jw_open(&w, '{');
    for (size_t c = 0; c < s->k; c++) {
        size_t n = 0;
        for (size_t i = 0; i < s->n; i++) n += s->label[i] == c;
        jw_key(&w, s->first->options[c]);
        jw_size(&w, n);
    }
    jw_close(&w, '}');
    if (a->is_head) {
        jw_key(&w, "block");
        jw_size(&w, a->head.block);
        jw_key(&w, "solver");
        jw_text(&w, a->head.solver);
    }
    jw_key(&w, "calibrator");
    jw_text(&w, calibrator_name(a->calibration.kind));
    if (r->n_folds) put_folds(r, &w);
    jw_key(&w, "identity");
    jw_raw(&w, strv_of(a->identity));
    jw_key(&w, "inputs");
    jw_raw(&w, buf_strv(&j->inputs));
    run_put(&w);
    jw_close(&w, '}');
    status st = buf_ok(&line, j->e);
    if (!st) st = output_line(j->file, &line, j->e);
    buf_free(&line);
    return st;
}

static status put_observation(job *j, const learn_set *s, size_t i) {
    const item *x = &j->all.items[s->item[i]];
    buf line = {0};
    jw w = jw_of(&line);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "observation");
    jw_key(&w, "id");
    jw_text(&w, x->id);
    jw_key(&w, "question");
    jw_text(&w, x->question);
    jw_key(&w, "key");
    jw_text(&w, j->all.keys[x->group]);
    jw_key(&w, "level");
    jw_text(&w, j->o->level);
    jw_key(&w, "group");
    jw_text(&w, x->cluster);
    jw_key(&w, "label");
    jw_raw(&w, strv_of(x->label));
    jw_key(&w, "weight");
    jw_real(&w, x->weight);
    jw_key(&w, "state_sha256");
    jw_text(&w, x->state_sha256);
    jw_close(&w, '}');
    status st = buf_ok(&line, j->e);
    if (!st) st = output_line(j->file, &line, j->e);
    buf_free(&line);
    return st;
}

static status put_artifact(job *j, const learn_set *s, const learn_report *r, const artifact *a) {
    buf line = {0};
    status st = put_fit(j, s, r, a);
    if (!st) st = artifact_put(a, false, &line, j->e);
    if (!st) st = output_line(j->file, &line, j->e);
    for (size_t i = 0; !st && i < s->n; i++) st = put_observation(j, s, i);
    buf_free(&line);
    return st;
}

/* --- one question --- */

static status certify_by(job *j, const learn_set *s, const learn_report *r, artifact *a) {
    double *confidence = mem_alloc(s->n, sizeof *confidence);
    bool *right = mem_alloc(s->n, sizeof *right);
    size_t n = 0, most = 0, classes[OPTIONS_MAX] = {0}, negatives;
    if (!confidence || !right) {
        free(confidence);
        free(right);
        return err_memory(j->e, s->n * sizeof *confidence);
    }
    for (size_t i = 0; i < s->n; i++) {
        if (!r->verdicts[i].level) continue;
        confidence[n] = r->verdicts[i].result.confidence;
        right[n++] = r->verdicts[i].result.answer == s->label[i];
        if (++classes[s->label[i]] > most) most = classes[s->label[i]];
    }
    negatives = s->first->kind == QUESTION_NOUL ? classes[1] : n - most;
    certify(confidence, right, n, negatives, s->k, j->o->risk, j->o->delta, &a->certificate);
    const certificate *c = &a->certificate;
    if (c->found) fprintf(stderr, "head-fit: %s: certified at confidence %.4f: error at most %.3g with probability %.3g, coverage %.3f\n", a->question_id, c->threshold, c->risk, 1 - c->delta, c->coverage);
    else if (c->missing_negatives) fprintf(stderr, "head-fit: %s: nothing can be certified: %zu negatives among %zu held-out decisions, %zu more are needed\n", a->question_id, c->negatives, c->n, c->missing_negatives);
    else fprintf(stderr, "head-fit: %s: no threshold keeps the error at or below %.3g\n", a->question_id, c->risk);
    free(confidence);
    free(right);
    return ST_OK;
}

static status fit_question(job *j, const learn_set *s) {
    learn_report r = {0};
    artifact a = {0};
    status st = ST_OK;
    if (j->o->leave_one_out) st = learn_leave_one_out(s, &j->how, &r, j->e);
    if (!st) say_folds(s, &r);
    if (!st) st = put_decisions(j, s, &r);
    if (!st && j->file) {
        st = learn(s, NULL, &j->how, &a, j->e);
        if (st) err_prefix(j->e, "question '%s'", s->first->question);
        if (!st && j->o->risk > 0) st = certify_by(j, s, &r, &a);
        if (!st) st = put_artifact(j, s, &r, &a);
    }
    artifact_free(&a);
    learn_report_free(&r);
    return st;
}

static status fit_all(job *j) {
    status st = ST_OK;
    size_t questions = 0;
    for (size_t g = 0; !st && g < j->all.n_keys; g++) {
        learn_set s;
        size_t unlabelled;
        st = learn_set_make(&s, &j->all, g, j->how.level, &unlabelled, j->e);
        j->unlabelled += unlabelled;
        if (!st && s.n) {
            questions++;
            st = fit_question(j, &s);
        }
        learn_set_free(&s);
    }
    if (!st && !questions) st = err_set(j->e, ST_INPUT, "no labelled item (%zu without a label): nothing can be learnt", j->unlabelled);
    if (!st && j->unlabelled) fprintf(stderr, "head-fit: %zu items without a label were left out\n", j->unlabelled);
    return st;
}

static status prepare(job *j, struct kernel **kn) {
    const settings *o = j->o;
    if (!o->artifact && !o->leave_one_out) return err_set(j->e, ST_USAGE, "nothing to do: give --artifact FILE, --leave-one-out card, or both");
    if (o->risk > 0 && !o->leave_one_out) return err_set(j->e, ST_USAGE, "--risk needs --leave-one-out: a certificate rests on held-out decisions");
    j->how = (learn_options){.level = level_parse(o->level), .source = strcmp(o->prior, "batch") == 0 ? DECIDE_BATCH : DECIDE_NONE, .seed = (uint32_t)o->seed,
                             .calibrate = strcmp(o->calibrate, "auto") == 0};
    j->how.strength = isnan(o->strength) ? decide_strength(j->how.source) : o->strength;
    status s = kernel_open(kn, KERNEL_REF, (unsigned)o->threads, j->e);
    j->how.kernel = *kn;
    return s;
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "level", .letter = 'l', .kind = OPT_CHOICE, .arg = "LEVEL", .to = &o.level, .initial = "L2", .choices = "L1|L2", .help = "a temperature over L0, or a head on a hidden state"},
        {.name = "artifact", .letter = 'a', .kind = OPT_TEXT, .arg = "FILE", .to = &o.artifact, .help = "fit on all labels and write what was learnt to FILE, for bundle-pack"},
        {.name = "leave-one-out", .kind = OPT_CHOICE, .arg = "WHAT", .to = &o.leave_one_out, .choices = "card|group",
         .help = "also decide every card (group) by a fit on the others, and write these held-out decisions"},
        {.name = "prior", .kind = OPT_CHOICE, .arg = "PRIOR", .to = &o.prior, .initial = "batch", .choices = "batch|none", .help = "of L1: the mean answer over the labelled items, frozen, or none"},
        {.name = "prior-strength", .kind = OPT_REAL, .arg = "X", .to = &o.strength, .min = 0, .max = 1, .help = "exponent on the prior, instead of 0.75"},
        {.name = "calibrate", .kind = OPT_CHOICE, .arg = "HOW", .to = &o.calibrate, .initial = "temperature", .choices = "temperature|auto",
         .help = "a temperature, or what is best out of fold of it, vector scaling (more than two options), isotonic regression and histogram binning (two)"},
        {.name = "risk", .kind = OPT_REAL, .arg = "X", .to = &o.risk, .initial = "0", .min = 0, .max = 0.5, .help = "certify the largest coverage whose error is at most X; 0: no certificate"},
        {.name = "delta", .kind = OPT_REAL, .arg = "X", .to = &o.delta, .initial = "0.1", .min = 0.0001, .max = 0.5, .help = "chance that a certificate may be wrong with"},
        {.name = "seed", .kind = OPT_SIZE, .arg = "N", .to = &o.seed, .initial = "0", .max = 4294967295.0, .help = "seed of the folds"},
        {.name = "threads", .letter = 't', .kind = OPT_SIZE, .arg = "N", .to = &o.threads, .initial = "0", .max = 1024,
         .help = "threads; 0 means all cores that this process may use; the result does not depend on it"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "head-fit", .operands = "[FILE ...]", .summary = "labelled, filled prompts to held-out decisions and what was learnt",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  head-fit --level L2 --leave-one-out card --artifact head.jsonl filled.jsonl | score --format md\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    struct kernel *kn = NULL;
    status s = prepare(&j, &kn);
    if (!s) s = hash_inputs(&j, rest.files, rest.n);
    if (!s) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
    if (!s && o.artifact) s = output_open(&j.file, o.artifact, false, &e);
    if (!s) s = read_all(&j);
    if (!s) s = fit_all(&j);
    if (j.file) s = output_end(j.file, s, &e);
    s = records_close(j.r, s, &e);
    kernel_close(kn);
    items_free(&j.all);
    buf_free(&j.inputs);
    return opt_finish(&program, s, &e);
}
