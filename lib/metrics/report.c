#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "metrics/cells.h"

/* Label counts: of all, by group, by lookup key, and by (key, group). Kept as counts so that "the others" is a difference. */
typedef struct counts {
    size_t k, all[OPTIONS_MAX];
    size_t *group;  /* [n_groups][k] */
    size_t *lookup; /* [n_lookups][k] */
    intern pairs;   /* (lookup, group) */
    size_t *pair;   /* [pairs][k] */
    size_t cap_pair;
} counts;

static void counts_free(counts *c) {
    free(c->group);
    free(c->lookup);
    free(c->pair);
    intern_free(&c->pairs);
}

static strv pair_of(const decided *d, uint32_t pair[2]) {
    pair[0] = d->lookup;
    pair[1] = d->s.group;
    return (strv){(const char *)pair, 2 * sizeof *pair};
}

static status count(counts *c, const cells *all, const cell *x, err *e) {
    c->k = x->k;
    c->group = mem_zero(all->groups.n, x->k * sizeof *c->group);
    c->lookup = mem_zero(all->lookups.n, x->k * sizeof *c->lookup);
    if (!c->group || !c->lookup) return err_memory(e, all->groups.n * x->k * sizeof *c->group);
    for (size_t i = 0; i < x->n; i++) {
        const decided *d = &x->d[i];
        uint32_t pair[2];
        bool fresh;
        c->all[d->s.label]++;
        c->group[d->s.group * x->k + d->s.label]++;
        if (d->lookup == UINT32_MAX) continue;
        c->lookup[d->lookup * x->k + d->s.label]++;
        size_t p = intern_put(&c->pairs, pair_of(d, pair), &fresh);
        if (p == INTERN_NONE || (fresh && !mem_grow((void **)&c->pair, &c->cap_pair, (p + 1) * x->k, sizeof *c->pair))) return err_memory(e, (p + 1) * x->k * sizeof *c->pair);
        if (fresh) memset(c->pair + p * x->k, 0, x->k * sizeof *c->pair);
        c->pair[p * x->k + d->s.label]++;
    }
    return ST_OK;
}

/* Shares of (all - mine); false when nothing is left. */
static bool shares(const size_t *all, const size_t *mine, size_t k, double *p) {
    size_t total = 0;
    for (size_t i = 0; i < k; i++) total += all[i] - mine[i];
    for (size_t i = 0; i < k; i++) p[i] = total ? (double)(all[i] - mine[i]) / (double)total : 1 / (double)k;
    return total > 0;
}

static void baseline(const decided *d, const double *p, size_t k, scored *out) {
    scored_set(out, p, k, d->s.label);
    out->group = d->s.group;
}

/* The decisions, and what the baselines say to them; novel ones are marked. */
static void predict(const cell *x, const counts *c, scored *model, scored *majority, scored *lookup, bool *novel, report *r) {
    for (size_t i = 0; i < x->n; i++) {
        const decided *d = &x->d[i];
        double p[OPTIONS_MAX];
        uint32_t pair[2];
        model[i] = d->s;
        shares(c->all, c->group + d->s.group * x->k, x->k, p);
        baseline(d, p, x->k, &majority[i]);
        novel[i] = true;
        if (d->lookup != UINT32_MAX) {
            double q[OPTIONS_MAX];
            size_t at = intern_find(&c->pairs, pair_of(d, pair));
            novel[i] = !shares(c->lookup + d->lookup * x->k, c->pair + at * x->k, x->k, q);
            if (!novel[i]) memcpy(p, q, sizeof p), r->lookup_found++;
        }
        baseline(d, p, x->k, &lookup[i]);
    }
}

static size_t keep(scored *x, const bool *flag, size_t n) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (flag[i]) x[m++] = x[i];
    return m;
}

static status groups_of(report *r, const cells *all, const scored *x, const measure_options *o, err *e) {
    const cell *c = r->cell;
    size_t *start = mem_zero(all->groups.n + 1, sizeof *start);
    scored *sorted = mem_alloc(c->n, sizeof *sorted);
    measure_options plain = *o;
    plain.plain = true;
    r->by_group = mem_zero(r->model.groups, sizeof *r->by_group);
    r->group_number = mem_zero(r->model.groups, sizeof *r->group_number);
    status s = start && sorted && r->by_group && r->group_number ? ST_OK : err_memory(e, c->n * sizeof *sorted);
    if (!s) {
        for (size_t i = 0; i < c->n; i++) start[x[i].group + 1]++;
        for (size_t g = 0; g < all->groups.n; g++) start[g + 1] += start[g];
        for (size_t i = 0; i < c->n; i++) sorted[start[x[i].group]++] = x[i]; /* start[g] ends as the end of g */
    }
    for (size_t g = 0, from = 0; !s && g < all->groups.n; from = start[g++]) {
        if (start[g] == from) continue;
        s = measure(sorted + from, start[g] - from, c->k, all->groups.n, &plain, &r->by_group[r->n_by_group], e);
        r->group_number[r->n_by_group++] = g;
    }
    free(start);
    free(sorted);
    return s;
}

status report_make(report *r, const cells *all, const cell *x, const measure_options *o, bool by_group, err *e) {
    *r = (report){.cell = x};
    counts c = {0};
    scored *model = mem_alloc(x->n, sizeof *model), *majority = mem_alloc(x->n, sizeof *majority), *lookup = mem_alloc(x->n, sizeof *lookup);
    bool *novel = mem_alloc(x->n, sizeof *novel), keyed = false;
    status s = model && majority && lookup && novel ? ST_OK : err_memory(e, x->n * sizeof *model);
    size_t groups = all->groups.n, most = 0;
    if (!s) s = count(&c, all, x, e);
    if (!s) predict(x, &c, model, majority, lookup, novel, r);
    if (!s) s = measure(model, x->n, x->k, groups, o, &r->model, e);
    if (!s && by_group) s = groups_of(r, all, model, o, e);
    for (size_t i = 0; i < x->n; i++) keyed |= x->d[i].lookup != UINT32_MAX;
    bool compared = !s && r->model.groups > 1; /* from one group nothing can be copied */
    if (compared) s = measure(majority, x->n, x->k, groups, o, &r->majority, e);
    if (!s && compared && keyed) {
        s = measure(lookup, x->n, x->k, groups, o, &r->lookup, e);
        size_t m = keep(model, novel, x->n);
        keep(majority, novel, x->n);
        keep(lookup, novel, x->n);
        if (!s && m) s = measure(model, m, x->k, groups, o, &r->novel, e);
        if (!s && m) s = measure(majority, m, x->k, groups, o, &r->novel_majority, e);
        if (!s && m) s = measure(lookup, m, x->k, groups, o, &r->novel_lookup, e);
    }
    for (size_t i = 0; i < x->k; i++)
        if (r->model.classes[i] > most) most = r->model.classes[i];
    r->negatives = x->kind == QUESTION_NOUL ? r->model.classes[1] : x->n - most;
    counts_free(&c);
    free(model);
    free(majority);
    free(lookup);
    free(novel);
    if (s) report_free(r);
    return s;
}

void report_free(report *r) {
    measured *all[] = {&r->model, &r->majority, &r->lookup, &r->novel, &r->novel_majority, &r->novel_lookup};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) measured_free(all[i]);
    for (size_t i = 0; i < r->n_by_group; i++) measured_free(&r->by_group[i]);
    free(r->by_group);
    free(r->group_number);
    r->by_group = NULL;
    r->n_by_group = 0;
}
