#include "fit/learn.h"

#include <stdarg.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/kernel.h"

enum { TRAIN_PER_CLASS = 30, TEST_LABELS = 5 };

/* --- the set --- */

static status read_label(const item *x, size_t *label, bool *labelled, err *e) {
    json doc = {0};
    *labelled = false;
    if (!x->label || strcmp(x->label, "null") == 0) return ST_OK;
    status s = json_parse(&doc, x->label, strlen(x->label), e);
    if (!s) {
        for (*label = 0; *label < x->k && !json_is(&doc, JREF_ROOT, x->options[*label]); ++*label) {}
        *labelled = true;
        if (*label == x->k) s = err_set(e, ST_INPUT, "%s:%zu: item '%s': label %.100s is none of the options", x->file, x->line, x->id, x->label);
    }
    json_free(&doc);
    return s;
}

/* L2: the same blocks at every item; L1: all permutations, in one listing. */
static status check_item(const item *first, const item *x, level at, err *e) {
    if (at == LEVEL_L2) {
        bool same = x->n_hidden == first->n_hidden && x->n_hidden;
        for (size_t i = 0; same && i < x->n_hidden; i++) same = x->hidden[i].block == first->hidden[i].block && x->hidden[i].d == first->hidden[i].d;
        if (same) return ST_OK;
        return err_set(e, ST_INPUT, "%s:%zu: item '%s' does not have the hidden states of the others (prompt-build --hidden fit asks for them)", x->file, x->line, x->id);
    }
    bool asked = x->n_shifts == item_full(x);
    for (size_t i = 0; asked && i < x->n_shifts; i++) asked = x->shifts[i]->asked;
    if (!asked) return err_set(e, ST_INPUT, "%s:%zu: item '%s' lacks permutations that L1 needs (prompt-build --level L1 makes them)", x->file, x->line, x->id);
    if (!item_same_listing(first, x)) return err_set(e, ST_INPUT, "%s:%zu: item '%s' lists its options in another order than the others", x->file, x->line, x->id);
    return ST_OK;
}

status learn_set_make(learn_set *s, const items *all, size_t group, level at, size_t *unlabelled, err *e) {
    *s = (learn_set){.all = all};
    s->item = mem_alloc(all->n, sizeof *s->item);
    s->label = mem_alloc(all->n, sizeof *s->label);
    *unlabelled = 0;
    if (!s->item || !s->label) return err_memory(e, all->n * sizeof *s->item);
    for (size_t i = 0; i < all->n; i++) {
        const item *x = &all->items[i];
        bool labelled;
        size_t label = 0;
        if (x->group != group || x->bad || x->probe >= 0) continue;
        status st = read_label(x, &label, &labelled, e);
        if (!st && !labelled) ++*unlabelled;
        if (!st && labelled) {
            if (!s->first) s->first = x;
            st = check_item(s->first, x, at, e);
        }
        if (st) return st;
        if (!labelled) continue;
        s->k = x->k;
        s->item[s->n] = i;
        s->label[s->n++] = label;
    }
    return ST_OK;
}

void learn_set_free(learn_set *s) {
    free(s->item);
    free(s->label);
    *s = (learn_set){0};
}

/* --- fitting --- */

static status describe(const learn_set *s, artifact *out, err *e) {
    const item *x = s->first;
    const char *key = s->all->keys[x->group];
    *out = (artifact){.kind = x->kind, .temperature = 1};
    out->key = mem_text(key, strlen(key));
    out->question_id = mem_text(x->question, strlen(x->question));
    if (x->text) out->text = mem_text(x->text, strlen(x->text));
    out->identity = mem_text(s->all->model, strlen(s->all->model));
    if (!out->key || !out->question_id || (x->text && !out->text) || !out->identity) return err_memory(e, strlen(s->all->model));
    for (; out->k < x->k; out->k++)
        if (!(out->options[out->k] = mem_text(x->options[out->k], strlen(x->options[out->k])))) return err_memory(e, 16);
    return ST_OK;
}

/* L0 with the prior of the set itself, which is frozen into the artifact. probs[m][k] of the members. */
static void fit_l1(const learn_set *s, const size_t *member, const size_t *label, size_t m, const learn_options *o, artifact *out, double *probs) {
    double p[DECIDE_MAX][DECIDE_MAX];
    size_t perm[DECIDE_MAX][DECIDE_MAX], shifts = item_full(s->first);
    decide_prior prior = {.k = s->k, .shifts = shifts};
    for (size_t i = 0; i < m; i++) {
        item_distributions(&s->all->items[member[i]], p, perm);
        decide_prior_add(&prior, p);
    }
    out->shifts = shifts;
    if (o->source == DECIDE_BATCH && prior.items >= DECIDE_PRIOR_ITEMS && o->strength > 0) {
        out->source = DECIDE_BATCH;
        out->strength = o->strength;
        for (size_t r = 0; r < shifts; r++)
            for (size_t j = 0; j < s->k; j++) out->prior[r][j] = prior.sum[r][j] / (double)prior.items;
    }
    for (size_t i = 0; i < m; i++) {
        decide_result r;
        item_distributions(&s->all->items[member[i]], p, perm);
        decide_l0(p, perm, shifts, s->k, out->source ? &prior : NULL, out->strength, false, &r);
        memcpy(probs + i * s->k, r.probs, s->k * sizeof *probs);
    }
    out->temperature = fit_temperature(probs, label, m, s->k);
    out->n_calib = m;
}

static bool any_random(const learn_set *s) {
    for (size_t i = 1; i < s->n; i++)
        if (!item_same_listing(s->first, &s->all->items[s->item[i]])) return true;
    return false;
}

/* probs[m][k]: out of fold, before the temperature. */
static status fit_l2(const learn_set *s, const size_t *member, const size_t *label, size_t m, const learn_options *o, artifact *out, double *probs, err *e) {
    const item *x = s->first;
    size_t blocks = x->n_hidden, d = x->hidden[0].d;
    size_t *block = mem_alloc(blocks, sizeof *block);
    const float **features = mem_zero(blocks, sizeof *features);
    float *copy = mem_alloc(blocks * m, d * sizeof *copy);
    status st = block && features && copy ? ST_OK : err_memory(e, blocks * m * d * sizeof *copy);
    for (size_t b = 0; !st && b < blocks; b++) {
        block[b] = x->hidden[b].block;
        features[b] = copy + b * m * d;
        for (size_t i = 0; i < m; i++) memcpy(copy + (b * m + i) * d, s->all->items[member[i]].hidden[b].h, d * sizeof *copy);
    }
    fit_set set = {.features = features, .block = block, .blocks = blocks, .d = d, .n = m, .k = s->k, .labels = label};
    if (!st) st = fit_head(&set, o->seed, o->kernel, out, probs, e);
    if (!st) out->head.random_listing = any_random(s);
    free(block);
    free((void *)features);
    free(copy);
    return st;
}

status learn(const learn_set *s, const unsigned char *in, const learn_options *o, artifact *out, err *e) {
    size_t *member = mem_alloc(s->n, sizeof *member), *label = mem_alloc(s->n, sizeof *label), m = 0;
    double *probs = mem_alloc(s->n, s->k * sizeof *probs), nll[2];
    status st = member && label && probs ? describe(s, out, e) : err_memory(e, s->n * s->k * sizeof *probs);
    if (!member || !label || !probs) *out = (artifact){0};
    for (size_t i = 0; !st && i < s->n; i++) {
        if (in && !in[i]) continue;
        member[m] = s->item[i];
        label[m++] = s->label[i];
    }
    if (!st && m < fit_least(s->k)) st = err_set(e, ST_INPUT, "%zu labels; %zu options need at least %zu", m, s->k, fit_least(s->k));
    if (!st && o->level == LEVEL_L1) fit_l1(s, member, label, m, o, out, probs);
    else if (!st) st = fit_l2(s, member, label, m, o, out, probs, e);
    if (!st && o->calibrate) st = fit_calibration(probs, label, m, s->k, o->seed, out, nll, e);
    free(member);
    free(label);
    free(probs);
    if (st) artifact_free(out);
    return st;
}

/* --- leave one group out --- */

static status skip(learn_fold *f, err *e, const char *fmt, ...) ERR_PRINTF(3, 4);
static status skip(learn_fold *f, err *e, const char *fmt, ...) {
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    f->skipped = mem_text(text, strlen(text));
    return f->skipped ? ST_OK : err_memory(e, sizeof text);
}

static const char *group_of(const learn_set *s, size_t i) {
    return s->all->items[s->item[i]].cluster;
}

static status fold_of(learn_report *r, const char *group, err *e) {
    for (size_t f = 0; f < r->n_folds; f++)
        if (strcmp(r->folds[f].group, group) == 0) return ST_OK;
    if (!mem_grow((void **)&r->folds, &r->cap, r->n_folds + 1, sizeof *r->folds)) return err_memory(e, (r->n_folds + 1) * sizeof *r->folds);
    r->folds[r->n_folds++] = (learn_fold){.group = group};
    return ST_OK;
}

/* Whether the fold is worth fitting; a reason why not goes into it. */
static status check_fold(const learn_set *s, const unsigned char *in, learn_fold *f, err *e) {
    size_t train[OPTIONS_MAX] = {0}, n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (in[i]) train[s->label[i]]++, n++;
        else f->n++;
    }
    if (s->first->kind == QUESTION_NOUL) {
        for (size_t c = 0; c < 2; c++)
            if (train[c] < TRAIN_PER_CLASS) return skip(f, e, "%zu labels '%.40s' to train on, %d needed", train[c], s->first->options[c], TRAIN_PER_CLASS);
        if (f->n < TEST_LABELS) return skip(f, e, "%zu labels to test on, %d needed", f->n, TEST_LABELS);
    }
    if (n < fit_least(s->k)) return skip(f, e, "%zu labels to train on, %zu needed", n, fit_least(s->k));
    return ST_OK;
}

static status run_fold(const learn_set *s, const learn_options *o, learn_report *r, learn_fold *f, unsigned char *in, err *e) {
    for (size_t i = 0; i < s->n; i++) in[i] = strcmp(group_of(s, i), f->group) != 0;
    status st = check_fold(s, in, f, e);
    if (st || f->skipped) return st;
    artifact a;
    err why = {0};
    if ((st = learn(s, in, o, &a, &why))) {
        if (st == ST_INPUT) return skip(f, e, "%.150s", why.text);
        *e = why;
        return st;
    }
    for (size_t i = 0; !st && i < s->n; i++) {
        if (in[i]) continue;
        verdict *v = &r->verdicts[i];
        st = artifact_decide(&a, &s->all->items[s->item[i]], NULL, a.head.mean, a.head.scale, v, e);
        v->held_out = true;
        f->right += v->result.answer == s->label[i];
    }
    artifact_free(&a);
    return st;
}

status learn_leave_one_out(const learn_set *s, const learn_options *o, learn_report *r, err *e) {
    unsigned char *in = mem_alloc(s->n, 1);
    *r = (learn_report){.verdicts = mem_zero(s->n, sizeof *r->verdicts)};
    status st = in && r->verdicts ? ST_OK : err_memory(e, s->n * sizeof *r->verdicts);
    for (size_t i = 0; !st && i < s->n; i++) {
        const item *x = &s->all->items[s->item[i]];
        r->classes[s->label[i]]++;
        if (!x->cluster) st = err_set(e, ST_INPUT, "%s:%zu: item '%s' has no group: nothing says what must not be torn apart", x->file, x->line, x->id);
        else st = fold_of(r, x->cluster, e);
    }
    for (size_t f = 0; !st && f < r->n_folds; f++) st = run_fold(s, o, r, &r->folds[f], in, e);
    free(in);
    return st;
}

void learn_report_free(learn_report *r) {
    for (size_t f = 0; f < r->n_folds; f++) free(r->folds[f].skipped);
    free(r->folds);
    free(r->verdicts);
    *r = (learn_report){0};
}
