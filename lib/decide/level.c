#include "decide/level.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool at_raw(const levels *l) {
    return strcmp(l->level, "raw") == 0;
}

status levels_begin(levels *l, const items *all, err *e) {
    l->n_groups = all->n_keys;
    l->batch = mem_zero(all->n_keys, sizeof *l->batch);
    l->probes = mem_zero(all->n_keys, sizeof *l->probes);
    l->base = mem_alloc(all->n_keys, sizeof *l->base);
    if (!l->batch || !l->probes || !l->base) return err_memory(e, all->n_keys * sizeof *l->batch);
    for (size_t g = 0; g < all->n_keys; g++) l->base[g] = SIZE_MAX;
    return ST_OK;
}

void levels_free(levels *l) {
    free(l->batch);
    free(l->probes);
    free(l->base);
}

/* Distributions by shift. */
static void distributions(const item *x, double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX]) {
    for (size_t i = 0; i < x->n_shifts; i++) {
        const item_shift *s = x->shifts[i];
        decide_softmax(p[s->shift], s->logprobs, x->k);
        for (size_t k = 0; k < x->k; k++) perm[s->shift][k] = s->perm[k];
    }
}

/* The prior holds a mean per shift and position: it only means something when all items list their options alike. */
static status check_listing(levels *l, const items *all, const item *x, err *e) {
    size_t *base = &l->base[x->group];
    if (*base == SIZE_MAX) *base = (size_t)(x - all->items);
    if (item_same_listing(&all->items[*base], x)) return ST_OK;
    return err_set(e, ST_INPUT, "item '%s' lists its options in another order than the item '%s' of the same question: their priors do not line up", x->id, all->items[*base].id);
}

status levels_check(levels *l, const items *all, const item *x, err *e) {
    if (at_raw(l)) return item_listed(x) ? ST_OK : err_set(e, ST_INPUT, "item '%s' lacks the prompt with the options as listed", x->id);
    if (x->n_shifts != item_full(x))
        return err_set(e, ST_INPUT, "item '%s' has %zu of the %zu permutations that level L0 needs (prompt-build --level L0 makes them)", x->id, x->n_shifts, item_full(x));
    return check_listing(l, all, x, e);
}

status levels_gather(levels *l, const items *all, err *e) {
    if (at_raw(l)) return ST_OK;
    for (size_t i = 0; i < all->n; i++) {
        const item *x = &all->items[i];
        decide_prior *prior = &(x->probe >= 0 ? l->probes : l->batch)[x->group];
        if (x->bad) continue;
        double p[DECIDE_MAX][DECIDE_MAX];
        size_t perm[DECIDE_MAX][DECIDE_MAX];
        prior->k = x->k;
        prior->shifts = item_full(x);
        distributions(x, p, perm);
        decide_prior_add(prior, p);
    }
    for (size_t i = 0; l->source == DECIDE_CONTENT_FREE && i < all->n; i++)
        if (!all->items[i].bad && !l->probes[all->items[i].group].items)
            return err_set(e, ST_INPUT, "%s:%zu: question '%s' has no probes (prompt-build --probes makes them)", all->items[i].file, all->items[i].line, all->items[i].question);
    return ST_OK;
}

static const decide_prior *prior_of(const levels *l, const item *x) {
    if (l->source == DECIDE_CONTENT_FREE) return &l->probes[x->group];
    const decide_prior *batch = &l->batch[x->group];
    return l->source == DECIDE_BATCH && batch->items >= DECIDE_PRIOR_ITEMS ? batch : NULL;
}

status levels_decide(const levels *l, const item *x, verdict *v, err *e) {
    double p[DECIDE_MAX][DECIDE_MAX];
    size_t perm[DECIDE_MAX][DECIDE_MAX];
    *v = (verdict){.level = l->level, .certified = -1};
    distributions(x, p, perm);
    if (at_raw(l)) {
        v->permutations = 1;
        decide_raw(p[0], perm[0], x->k, &v->result);
    } else {
        const decide_prior *prior = l->strength > 0 ? prior_of(l, x) : NULL;
        if (prior) {
            v->source = l->source;
            v->strength = l->strength;
            v->prior_items = prior->items;
        }
        v->permuted = true;
        v->permutations = item_full(x);
        decide_l0(p, perm, item_full(x), x->k, prior, l->strength, l->mean, &v->result);
    }
    if (x->n_masked) v->masked_mass = decide_mask(&v->result, x->masked, x->k);
    for (size_t i = 0; i < x->k; i++)
        if (!isfinite(v->result.probs[i])) return err_set(e, ST_INPUT, "item '%s': its log-probabilities give no distribution", x->id);
    if (x->n_masked && x->masked[v->result.answer]) return err_set(e, ST_INPUT, "item '%s': all probability lies on options out of play", x->id);
    return ST_OK;
}
