#include "decide/level.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char *const names[] = {"raw", "L0", "L1", "L2", "auto"};

const char *level_name(level l) {
    return names[l];
}

level level_parse(const char *name) {
    int l = LEVEL_RAW;
    while (l < LEVEL_AUTO && strcmp(name, names[l]) != 0) l++;
    return (level)l;
}

/* --- artifacts --- */

bool identity_same(strv a, strv b) {
    static const char *const keys[] = {"backend", "fingerprint", "compute", "served_model", "tokenizer_sha256"};
    json x = {0}, y = {0};
    err ignored = {0};
    bool same = a.n && b.n && json_parse(&x, a.p, a.n, &ignored) == ST_OK && json_parse(&y, b.p, b.n, &ignored) == ST_OK;
    for (size_t i = 0; same && i < sizeof keys / sizeof *keys; i++) same = strv_eq(json_raw(&x, json_get(&x, JREF_ROOT, keys[i])), json_raw(&y, json_get(&y, JREF_ROOT, keys[i])));
    json_free(&x);
    json_free(&y);
    return same;
}

static size_t option_of(char *const *options, size_t k, const char *text) {
    size_t i = 0;
    while (i < k && strcmp(options[i], text) != 0) i++;
    return i;
}

static bool same_order(const artifact *a, char *const *options) {
    for (size_t i = 0; i < a->k; i++)
        if (strcmp(a->options[i], options[i]) != 0) return false;
    return true;
}

static bool same_set(const artifact *a, char *const *options) {
    for (size_t i = 0; i < a->k; i++)
        if (option_of(a->options, a->k, options[i]) == a->k) return false;
    return true;
}

/* How well an artifact serves: 3 its own question, 2 the options in another order, 1 another wording, 0 not at all. */
static int serves(const artifact *a, const char *key, question_kind kind, char *const *options, size_t k, const char *text, bool reword) {
    if (strcmp(a->key, key) == 0) return 3;
    if (!a->is_head || a->kind != kind || a->k != k) return 0;
    bool ordered = same_order(a, options), same_text = text && a->text && strcmp(a->text, text) == 0;
    if (!ordered && !(a->head.random_listing && same_set(a, options))) return 0;
    if (same_text) return 2;
    return reword ? 1 : 0;
}

const artifact *artifact_find(const artifact *list, size_t n, level want, const char *key, question_kind kind, char *const *options, size_t k, const char *text, bool reword,
                              bool *reordered, bool *reworded) {
    const artifact *best = NULL;
    int best_rank = 0;
    for (size_t i = 0; i < n; i++) {
        const artifact *a = &list[i];
        if ((want == LEVEL_L1 && a->is_head) || (want == LEVEL_L2 && !a->is_head)) continue;
        int rank = serves(a, key, kind, options, k, text, reword);
        if (rank) rank += a->is_head ? 10 : 0;
        if (rank > best_rank) best = a, best_rank = rank;
    }
    best_rank %= 10;
    *reordered = best && best_rank < 3 && !same_order(best, options);
    *reworded = best && best_rank == 1;
    return best;
}

/* --- plans --- */

static status make_more(level_plan *p, err *e) {
    const artifact *a = p->artifact;
    buf b = {0};
    jw w = jw_of(&b);
    jw_open(&w, '{');
    jw_key(&w, "method");
    if (a->is_head) {
        buf method = {0};
        buf_printf(&method, "head:%s", a->head.solver);
        jw_view(&w, buf_strv(&method));
        buf_free(&method);
        jw_key(&w, "block");
        jw_size(&w, a->head.block);
    } else {
        jw_text(&w, "temperature");
    }
    if (a->calibration.kind != CALIBRATOR_TEMPERATURE) {
        jw_key(&w, "calibrator");
        jw_text(&w, calibrator_name(a->calibration.kind));
    }
    jw_key(&w, "n_calib");
    jw_size(&w, a->n_calib);
    if (p->reordered) {
        jw_key(&w, "reordered");
        jw_bool(&w, true);
    }
    if (p->reworded) {
        jw_key(&w, "routed_from");
        jw_text(&w, a->key);
        jw_key(&w, "adapted");
        jw_bool(&w, p->adapted);
        jw_key(&w, "adapt_n");
        jw_size(&w, p->states);
    }
    jw_close(&w, '}');
    status s = buf_ok(&b, e);
    free(p->more);
    p->more = NULL;
    if (!s) {
        /* members with a leading comma: {"a":1} becomes ,"a":1 */
        b.p[0] = ',';
        b.p[b.len - 1] = '\0';
        if (!(p->more = buf_take(&b))) s = err_memory(e, 64);
    }
    buf_free(&b);
    return s;
}

static status plan(levels *l, const items *all, size_t group, err *e) {
    level_plan *p = &l->plans[group];
    if (all->first[group] == SIZE_MAX) return ST_OK;
    const item *x = &all->items[all->first[group]];
    p->base = SIZE_MAX;
    p->level = l->level;
    if (l->level >= LEVEL_L1) {
        p->artifact = artifact_find(l->artifacts, l->n_artifacts, l->level, all->keys[group], x->kind, x->options, x->k, x->text, l->reword, &p->reordered, &p->reworded);
        if (!p->artifact && l->level != LEVEL_AUTO)
            return err_set(e, ST_REFUSED, "level %s is asked for, and the bundle has nothing at it for question '%s' (key %s)", names[l->level], x->question, all->keys[group]);
        p->level = !p->artifact ? LEVEL_L0 : p->artifact->is_head ? LEVEL_L2 : LEVEL_L1;
    }
    if (p->artifact && !identity_same(strv_of(p->artifact->identity), strv_of(all->model)))
        return err_set(e, ST_REFUSED, "question '%s': the bundle was fitted on %.600s; these prompts were filled by %.600s", x->question,
                       p->artifact->identity ? p->artifact->identity : "a model that it does not name", all->model);
    if (p->level < l->require && l->require != LEVEL_AUTO)
        return err_set(e, ST_REFUSED, "level %s is required, the decisions on '%s' would be at level %s", names[l->require], x->question, names[p->level]);
    for (size_t i = 0; p->artifact && i < x->k; i++) p->map[i] = option_of(p->artifact->options, p->artifact->k, x->options[i]);
    if (p->artifact && p->artifact->is_head) {
        p->mean = p->artifact->head.mean;
        p->scale = p->artifact->head.scale;
    }
    if (p->level == LEVEL_L0) {
        p->batch = mem_zero(1, sizeof *p->batch);
        p->probes = mem_zero(1, sizeof *p->probes);
        if (!p->batch || !p->probes) return err_memory(e, sizeof *p->batch);
    }
    return p->artifact ? make_more(p, e) : ST_OK;
}

status levels_begin(levels *l, const items *all, err *e) {
    l->n_plans = all->n_keys;
    if (!(l->plans = mem_zero(all->n_keys, sizeof *l->plans))) return err_memory(e, all->n_keys * sizeof *l->plans);
    status s = ST_OK;
    for (size_t g = 0; !s && g < all->n_keys; g++) s = plan(l, all, g, e);
    return s;
}

void levels_free(levels *l) {
    for (size_t g = 0; l->plans && g < l->n_plans; g++) {
        level_plan *p = &l->plans[g];
        free(p->more);
        free(p->batch);
        free(p->probes);
        if (p->adapted) {
            free(p->mean);
            free(p->scale);
        }
    }
    free(l->plans);
}

/* --- what an item needs --- */

static size_t asked_of(const item *x) {
    size_t n = 0;
    for (size_t i = 0; i < x->n_shifts; i++) n += x->shifts[i]->asked;
    return n;
}

static const item_hidden *hidden_of(const item *x, size_t block) {
    for (size_t i = 0; i < x->n_hidden; i++)
        if (x->hidden[i].block == block) return &x->hidden[i];
    return NULL;
}

/* The prior holds a mean per shift and position: it only means something when all items list their options alike. */
static status check_listing(level_plan *p, const items *all, const item *x, err *e) {
    if (p->base == SIZE_MAX) p->base = (size_t)(x - all->items);
    if (item_same_listing(&all->items[p->base], x)) return ST_OK;
    return err_set(e, ST_INPUT, "item '%s' lists its options in another order than the item '%s' of the same question: their priors do not line up", x->id, all->items[p->base].id);
}

static status check_hidden(const artifact *a, const item *x, err *e) {
    const item_hidden *h = hidden_of(x, a->head.block);
    if (!h) return err_set(e, ST_INPUT, "item '%s' lacks the hidden state of block %zu that its head reads (prompt-build --bundle asks for it)", x->id, a->head.block);
    if (h->d != a->head.d) return err_set(e, ST_INPUT, "item '%s': a hidden state of %zu numbers, the head reads %zu", x->id, h->d, a->head.d);
    return ST_OK;
}

status levels_check(levels *l, const items *all, const item *x, err *e) {
    level_plan *p = &l->plans[x->group];
    if (p->level == LEVEL_L2) return x->probe >= 0 ? ST_OK : check_hidden(p->artifact, x, e);
    const item_shift *listed = item_listed(x);
    if (p->level == LEVEL_RAW) return listed && listed->asked ? ST_OK : err_set(e, ST_INPUT, "item '%s' lacks the prompt with the options as listed", x->id);
    if (asked_of(x) != item_full(x))
        return err_set(e, ST_INPUT, "item '%s' has %zu of the %zu permutations that level %s needs (prompt-build --level L0 makes them)", x->id, asked_of(x), item_full(x), names[p->level]);
    return check_listing(p, all, x, e);
}

/* --- what all items tell together --- */

/* Mean and scale of the states of a reworded question, from ADAPT_STATES on. */
static status adapt(level_plan *p, const items *all, size_t group, err *e) {
    enum { ADAPT_STATES = 30 };
    size_t d = p->artifact->head.d, n = 0;
    double *sum = mem_zero(d, sizeof *sum), *squares = mem_zero(d, sizeof *squares);
    if (!sum || !squares) {
        free(sum);
        free(squares);
        return err_memory(e, d * sizeof *sum);
    }
    for (size_t i = 0; i < all->n; i++) {
        const item *x = &all->items[i];
        if (x->group != group || x->bad || x->probe >= 0) continue;
        const float *h = hidden_of(x, p->artifact->head.block)->h;
        for (size_t j = 0; j < d; j++) {
            sum[j] += (double)h[j];
            squares[j] += (double)h[j] * (double)h[j];
        }
        n++;
    }
    p->states = n;
    if (n < ADAPT_STATES) {
        free(sum);
        free(squares);
        return ST_OK;
    }
    for (size_t j = 0; j < d; j++) {
        double m = sum[j] / (double)n, var = squares[j] / (double)n - m * m;
        sum[j] = m;
        squares[j] = sqrt(var > 0 ? var : 0) + 1e-6;
    }
    p->mean = sum;
    p->scale = squares;
    p->adapted = true;
    return ST_OK;
}

status levels_gather(levels *l, const items *all, err *e) {
    for (size_t i = 0; i < all->n; i++) {
        const item *x = &all->items[i];
        level_plan *p = &l->plans[x->group];
        if (x->bad || p->level != LEVEL_L0) continue;
        decide_prior *prior = x->probe >= 0 ? p->probes : p->batch;
        double dist[DECIDE_MAX][DECIDE_MAX];
        size_t perm[DECIDE_MAX][DECIDE_MAX];
        prior->k = x->k;
        prior->shifts = item_full(x);
        item_distributions(x, dist, perm);
        decide_prior_add(prior, dist);
    }
    for (size_t i = 0; l->source == DECIDE_CONTENT_FREE && i < all->n; i++) {
        const level_plan *p = &l->plans[all->items[i].group];
        if (!all->items[i].bad && p->level == LEVEL_L0 && !p->probes->items)
            return err_set(e, ST_INPUT, "%s:%zu: question '%s' has no probes (prompt-build --probes makes them)", all->items[i].file, all->items[i].line, all->items[i].question);
    }
    status s = ST_OK;
    for (size_t g = 0; !s && g < l->n_plans; g++)
        if (l->plans[g].reworded && !(s = adapt(&l->plans[g], all, g, e))) s = make_more(&l->plans[g], e);
    return s;
}

/* --- the decision --- */

static const decide_prior *prior_of(const levels *l, const level_plan *p) {
    if (l->source == DECIDE_CONTENT_FREE) return p->probes;
    return l->source == DECIDE_BATCH && p->batch->items >= DECIDE_PRIOR_ITEMS ? p->batch : NULL;
}

static void decide_l1(const artifact *a, const item *x, verdict *v) {
    double p[DECIDE_MAX][DECIDE_MAX];
    size_t perm[DECIDE_MAX][DECIDE_MAX];
    decide_prior prior = {.k = a->k, .shifts = a->shifts, .items = a->source == DECIDE_NONE ? 0 : 1};
    for (size_t s = 0; s < a->shifts; s++) memcpy(prior.sum[s], a->prior[s], a->k * sizeof *a->prior[s]);
    item_distributions(x, p, perm);
    decide_l0(p, perm, item_full(x), x->k, &prior, a->strength, false, &v->result);
    artifact_calibrate(a, v->result.probs);
    decide_finish(&v->result, x->k);
    v->permuted = true;
    v->permutations = item_full(x);
    v->source = a->source;
    v->strength = a->strength;
    v->prior_items = prior.items ? a->n_calib : 0;
}

static status decide_l2(const artifact *a, const item *x, const size_t *map, const double *mean, const double *scale, verdict *v, err *e) {
    double probs[DECIDE_MAX];
    status s = check_hidden(a, x, e);
    if (s) return s;
    head_probs(a, hidden_of(x, a->head.block)->h, mean, scale, probs);
    for (size_t i = 0; i < x->k; i++) v->result.probs[i] = probs[map ? map[i] : i];
    decide_finish(&v->result, x->k);
    v->permutations = 1;
    return ST_OK;
}

status artifact_decide(const artifact *a, const item *x, const size_t *map, const double *mean, const double *scale, verdict *v, err *e) {
    *v = (verdict){.level = artifact_level(a), .certified = -1, .temperature = a->temperature};
    status s = ST_OK;
    if (a->is_head) s = decide_l2(a, x, map, mean, scale, v, e);
    else decide_l1(a, x, v);
    if (!s && a->certificate.made) v->certified = a->certificate.found && v->result.confidence >= a->certificate.threshold;
    return s;
}

static void decide_free_of_labels(const levels *l, const level_plan *plan_of, const item *x, verdict *v) {
    double p[DECIDE_MAX][DECIDE_MAX];
    size_t perm[DECIDE_MAX][DECIDE_MAX];
    *v = (verdict){.level = names[plan_of->level], .certified = -1};
    item_distributions(x, p, perm);
    if (plan_of->level == LEVEL_RAW) {
        v->permutations = 1;
        decide_raw(p[0], perm[0], x->k, &v->result);
        return;
    }
    const decide_prior *prior = l->strength > 0 ? prior_of(l, plan_of) : NULL;
    if (prior) {
        v->source = l->source;
        v->strength = l->strength;
        v->prior_items = prior->items;
    }
    v->permuted = true;
    v->permutations = item_full(x);
    decide_l0(p, perm, item_full(x), x->k, prior, l->strength, l->mean, &v->result);
}

status levels_decide(const levels *l, const item *x, verdict *v, err *e) {
    const level_plan *p = &l->plans[x->group];
    status s = ST_OK;
    if (p->artifact) {
        s = artifact_decide(p->artifact, x, p->map, p->mean, p->scale, v, e);
        v->more = strv_of(p->more);
        v->bundle = l->bundle;
        if (p->reworded && v->certified > 0) v->certified = 0; /* the certificate is about its own wording */
    } else {
        decide_free_of_labels(l, p, x, v);
    }
    if (s) return s;
    if (x->n_masked) v->masked_mass = decide_mask(&v->result, x->masked, x->k);
    for (size_t i = 0; i < x->k; i++)
        if (!isfinite(v->result.probs[i])) return err_set(e, ST_INPUT, "item '%s': its log-probabilities give no distribution", x->id);
    if (x->n_masked && x->masked[v->result.answer]) return err_set(e, ST_INPUT, "item '%s': all probability lies on options out of play", x->id);
    return ST_OK;
}
