/* Silver labels: what several annotating models agree on. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "label/label.h"
#include "question/state.h"

/* What agreement is worth: all models, two or more, one, none. */
static const double all_agree = 0.8, some_agree = 0.6, one_alone = 0.5;

/* A valid AVU of a run. An AVU may name several columns; each is a use of its own, the AVU's number tells them apart. */
typedef struct use {
    size_t card, model, column, aspect, curie, name, ontology, avu; /* column: INTERN_NONE when it names none */
} use;

typedef struct run_of {
    size_t card, model;
} run_of;

struct silver {
    intern words; /* every text: cards, models, columns, aspects, CURIEs, labels */
    use *uses;
    size_t n, cap;
    run_of *runs;
    size_t n_runs, cap_runs, avus;
    char *where; /* of the first run */
};

status silver_create(silver **out, err *e) {
    *out = mem_zero(1, sizeof **out);
    return *out ? ST_OK : err_memory(e, sizeof **out);
}

void silver_free(silver *s) {
    if (!s) return;
    intern_free(&s->words);
    free(s->uses);
    free(s->runs);
    free(s->where);
    free(s);
}

static status word(silver *s, strv v, size_t *number, err *e) {
    *number = intern_put(&s->words, v, NULL);
    return *number == INTERN_NONE ? err_memory(e, v.n) : ST_OK;
}

static status word_at(silver *s, const json *doc, jref obj, const char *key, size_t *number, err *e) {
    buf scratch = {0};
    strv v;
    jref r = json_get(doc, obj, key);
    status st = json_text(doc, r, &scratch, &v, e);
    if (st) err_prefix(e, "field '%s'", key);
    else st = word(s, v, number, e);
    buf_free(&scratch);
    return st;
}

static bool valid(const json *doc, jref avu) {
    return json_true(doc, json_get(doc, avu, "resolves")) && !json_true(doc, json_get(doc, avu, "obsolete")) &&
           json_kind_of(doc, json_get(doc, avu, "canonical")) == JSON_OBJECT;
}

static status add_use(silver *s, use u, err *e) {
    if (!mem_grow((void **)&s->uses, &s->cap, s->n + 1, sizeof *s->uses)) return err_memory(e, (s->n + 1) * sizeof u);
    s->uses[s->n++] = u;
    return ST_OK;
}

/* "a" or "a, b": a use for every column named, or one without a column. */
static status add_columns(silver *s, use u, strv columns, err *e) {
    status st = ST_OK;
    u.column = INTERN_NONE;
    if (!columns.n) return add_use(s, u, e);
    while (!st && columns.n) {
        const char *comma = memchr(columns.p, ',', columns.n);
        size_t n = comma ? (size_t)(comma - columns.p) : columns.n;
        st = word(s, strv_trim((strv){columns.p, n}), &u.column, e);
        if (!st) st = add_use(s, u, e);
        columns = comma ? (strv){comma + 1, columns.n - n - 1} : (strv){0};
    }
    return st;
}

static status add_avu(silver *s, const json *doc, jref avu, run_of run, err *e) {
    use u = {.card = run.card, .model = run.model, .avu = s->avus++};
    buf scratch = {0};
    strv v = {0};
    jref column = json_get(doc, avu, "column"), ols = json_get(doc, avu, "ols_label");
    status st = word_at(s, doc, avu, "aspect", &u.aspect, e);
    if (!st) st = word_at(s, doc, avu, "curie", &u.curie, e);
    if (!st) st = word_at(s, doc, avu, json_kind_of(doc, ols) == JSON_STRING ? "ols_label" : "value", &u.name, e);
    if (st) return st;
    strv curie = intern_text(&s->words, u.curie);
    const char *colon = memchr(curie.p, ':', curie.n);
    if (!colon) return err_set(e, ST_INPUT, "field 'curie': '%.*s' has no prefix", (int)(curie.n > 60 ? 60 : curie.n), curie.p);
    st = word(s, (strv){curie.p, (size_t)(colon - curie.p)}, &u.ontology, e);
    if (!st && json_kind_of(doc, column) == JSON_STRING) st = json_text(doc, column, &scratch, &v, e);
    if (!st) st = add_columns(s, u, v, e);
    buf_free(&scratch);
    return st;
}

status silver_add(silver *s, const json *doc, jref run, const char *where, err *e) {
    run_of r;
    jref list = json_get(doc, run, "avus");
    status st = word_at(s, doc, run, "card", &r.card, e);
    if (!st) st = word_at(s, doc, run, "model", &r.model, e);
    if (!st && json_kind_of(doc, list) != JSON_ARRAY) st = err_set(e, ST_INPUT, "field 'avus': expected an array");
    if (!st && !mem_grow((void **)&s->runs, &s->cap_runs, s->n_runs + 1, sizeof *s->runs)) st = err_memory(e, (s->n_runs + 1) * sizeof r);
    if (!st && !s->where && !(s->where = mem_text(where, strlen(where)))) st = err_memory(e, strlen(where));
    if (!st) s->runs[s->n_runs++] = r;
    size_t n = 0;
    for (jref a = json_first(doc, list); !st && a != JREF_NONE; a = json_next(doc, list, a)) {
        n++;
        if (valid(doc, a) && (st = add_avu(s, doc, a, r, e))) err_prefix(e, "AVU %zu", n);
    }
    return st;
}

/* --- agreement about one card --- */

typedef struct agreement {
    const silver *s;
    labels *l;
    const label_card *card;
    const use *u; /* of this card, [n] */
    size_t n, models;
    err *e;
} agreement;

/* Which uses count: those with these words (INTERN_NONE: any). */
typedef struct filter {
    size_t column, aspect, curie, ontology;
} filter;
static const filter any = {INTERN_NONE, INTERN_NONE, INTERN_NONE, INTERN_NONE};

static bool passes(const use *u, filter f) {
    return (f.column == INTERN_NONE || u->column == f.column) && (f.aspect == INTERN_NONE || u->aspect == f.aspect) && (f.curie == INTERN_NONE || u->curie == f.curie) &&
           (f.ontology == INTERN_NONE || u->ontology == f.ontology);
}

/* How many models there are among the uses that pass. */
static size_t models_of(const agreement *a, filter f) {
    size_t count = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (!passes(&a->u[i], f)) continue;
        size_t j = 0;
        while (j < i && !(passes(&a->u[j], f) && a->u[j].model == a->u[i].model)) j++;
        count += j == i;
    }
    return count;
}

static bool is_column(const agreement *a, size_t column) {
    return column != INTERN_NONE && card_column(&a->card->doc, JREF_ROOT, intern_text(&a->s->words, column)) != JREF_NONE;
}

/* Number of AVUs (a use each, unless an AVU names several columns) that pass. */
static size_t avus_of(const agreement *a, filter f) {
    size_t count = 0, last = INTERN_NONE;
    for (size_t i = 0; i < a->n; i++)
        if (passes(&a->u[i], f) && a->u[i].avu != last) count++, last = a->u[i].avu;
    return count;
}

typedef enum field { COLUMN, ASPECT, ONTOLOGY } field;

static size_t *field_of(filter *f, field which) {
    return which == COLUMN ? &f->column : which == ASPECT ? &f->aspect : &f->ontology;
}

static size_t word_of(const use *u, field which) {
    return which == COLUMN ? u->column : which == ASPECT ? u->aspect : u->ontology;
}

/* The word that stands most often in a field of the uses that pass, counted by AVUs or by models, more than `least` times; only those
 * that allowed (may be NULL) lets through. Ties: the first seen. */
static size_t most_frequent(const agreement *a, filter base, field which, size_t (*count)(const agreement *, filter), size_t least, bool (*allowed)(const agreement *, size_t)) {
    size_t best = INTERN_NONE, most = least;
    for (size_t i = 0; i < a->n; i++) {
        size_t w = word_of(&a->u[i], which);
        if (!passes(&a->u[i], base) || (allowed && !allowed(a, w))) continue;
        filter f = base;
        *field_of(&f, which) = w;
        size_t c = count(a, f);
        if (c > most) most = c, best = w;
    }
    return best;
}

static strv text_of(const agreement *a, size_t word_number) {
    return word_number == INTERN_NONE ? (strv){0} : intern_text(&a->s->words, word_number);
}

static status add(const agreement *a, const char *id, label x, buf *text) {
    status s = buf_ok(text, a->e);
    x.q = registry_find(a->l->registry, strv_of(id));
    if (!s && !x.q) return ST_OK; /* the registry at hand does not ask this */
    x.card = a->card;
    x.case_text = buf_strv(text);
    x.source = strv_of("silver");
    x.where = a->s->where;
    if (!s) s = label_add(a->l, &x, a->e);
    return s ? err_prefix(a->e, "%s of %s", id, a->card->dataset) : ST_OK;
}

static void member(jw *w, const char *key, strv v) {
    jw_key(w, key);
    jw_view(w, v);
}

/* Where a term hangs: a column, the only site, the dataset. */
typedef struct target {
    strv scope, name, aspect;
} target;

static target target_of(const agreement *a, size_t curie, buf *site) {
    filter of_curie = any;
    of_curie.curie = curie;
    size_t column = most_frequent(a, of_curie, COLUMN, avus_of, 0, is_column);
    target t = {.aspect = text_of(a, most_frequent(a, of_curie, ASPECT, avus_of, 0, NULL))};
    jref sites = json_get(&a->card->doc, JREF_ROOT, "sites");
    err ignored = {0};
    if (column != INTERN_NONE) {
        t.scope = strv_of("column");
        t.name = text_of(a, column);
    } else if ((strv_is(t.aspect, "environment") || strv_is(t.aspect, "location")) && json_count(&a->card->doc, sites) == 1 &&
               json_text(&a->card->doc, json_get(&a->card->doc, json_first(&a->card->doc, sites), "code"), site, &t.name, &ignored) == ST_OK) {
        t.scope = strv_of("site");
    } else {
        t.scope = strv_of("dataset");
        t.name = (strv){0};
    }
    return t;
}

static bool first_of_curie(const agreement *a, size_t i) {
    for (size_t j = 0; j < i; j++)
        if (a->u[j].curie == a->u[i].curie) return false;
    return true;
}

static size_t candidates_of(const agreement *a, target t) {
    size_t n = 0;
    buf site = {0};
    for (size_t i = 0; i < a->n; i++) {
        if (!first_of_curie(a, i)) continue;
        target other = target_of(a, a->u[i].curie, &site);
        n += strv_eq(other.scope, t.scope) && strv_eq(other.name, t.name);
    }
    buf_free(&site);
    return n;
}

static status fits(const agreement *a, size_t i) {
    size_t curie = a->u[i].curie;
    filter f = any;
    f.curie = curie;
    size_t models = models_of(a, f);
    buf text = {0}, term = {0}, site = {0};
    target t = target_of(a, curie, &site);
    status s = label_term_put(a->l, text_of(a, curie), text_of(a, a->u[i].name), &term, a->e);
    jw w = jw_of(&text);
    jw_open(&w, '{');
    member(&w, "scope", t.scope);
    if (!strv_is(t.scope, "dataset")) member(&w, strv_is(t.scope, "site") ? "site" : "column", t.name);
    member(&w, "aspect", t.aspect);
    jw_key(&w, "candidate");
    jw_raw(&w, buf_strv(&term));
    jw_key(&w, "n_candidates");
    jw_size(&w, candidates_of(a, t));
    jw_close(&w, '}');
    label x = {.label = strv_of(models >= 2 ? "Yes" : "No"), .weight = models == a->models ? all_agree : models >= 2 ? some_agree : one_alone,
               .scope = t.scope, .target = t.name, .option = text_of(a, curie)};
    if (!s) s = add(a, "term.fits", x, &text);
    buf_free(&text);
    buf_free(&term);
    buf_free(&site);
    return s;
}

static void column_case(strv name, strv aspect, buf *text) {
    buf_clear(text);
    jw w = jw_of(text);
    jw_open(&w, '{');
    member(&w, "column", name);
    if (aspect.n) member(&w, "aspect", aspect);
    jw_close(&w, '}');
}

/* An option of column.ontology. */
static bool is_choice(const agreement *a, size_t word_number) {
    const question *q = registry_find(a->l->registry, strv_of("column.ontology"));
    return q && question_option(q, text_of(a, word_number)) < q->n_options;
}

static status ontologies(const agreement *a, size_t column, strv name, strv aspect) {
    buf text = {0};
    filter on_column = any;
    on_column.column = column;
    strv used = text_of(a, most_frequent(a, on_column, ONTOLOGY, models_of, 0, is_choice));
    status s = ST_OK;
    label x = {.label = used, .weight = some_agree, .scope = strv_of("column"), .target = name};
    if (used.n) {
        column_case(name, aspect, &text);
        s = add(a, "column.ontology", x, &text);
    }
    for (size_t i = 0; !s && i < a->l->registry->n_ontologies; i++) {
        const ontology *o = &a->l->registry->ontologies[i];
        filter f = any;
        f.column = column;
        f.ontology = intern_find(&a->s->words, strv_of(o->id));
        bool yes = f.ontology != INTERN_NONE && models_of(a, f) > 0;
        if (!yes && !ontology_serves(o, aspect)) continue;
        buf_clear(&text);
        jw w = jw_of(&text);
        jw_open(&w, '{');
        member(&w, "column", name);
        member(&w, "aspect", aspect);
        jw_key(&w, "ontology");
        ontology_put(o, &w);
        jw_close(&w, '}');
        x.label = strv_of(yes ? "Yes" : "No");
        x.weight = yes ? some_agree : one_alone;
        x.option = strv_of(o->id);
        s = add(a, "column.ontology_fits", x, &text);
    }
    buf_free(&text);
    return s;
}

static status about_column(const agreement *a, jref column) {
    const json *doc = &a->card->doc;
    buf scratch = {0}, text = {0};
    strv name;
    status s = json_text(doc, json_get(doc, column, "name"), &scratch, &name, a->e);
    size_t number = s ? INTERN_NONE : intern_find(&a->s->words, name);
    filter f = any;
    f.column = number;
    size_t models = number == INTERN_NONE ? 0 : models_of(a, f);
    bool identifier = json_true(doc, json_get(doc, column, "identifier"));
    label x = {.scope = strv_of("column"), .target = name, .label = strv_of(models >= 2 ? "Yes" : "No"), .weight = models >= 2 ? some_agree : one_alone};
    if (!s && (models >= 2 || (!models && !identifier))) {
        column_case(name, (strv){0}, &text);
        s = add(a, "column.annotate", x, &text);
    }
    /* an aspect that two models or more give the column */
    size_t aspect = s || !models ? INTERN_NONE : most_frequent(a, f, ASPECT, models_of, 1, NULL);
    if (!s && aspect != INTERN_NONE) {
        x.label = text_of(a, aspect);
        x.weight = some_agree;
        column_case(name, (strv){0}, &text);
        s = add(a, "column.aspect", x, &text);
        if (!s) s = ontologies(a, number, name, text_of(a, aspect));
    }
    buf_free(&scratch);
    buf_free(&text);
    return s;
}

static size_t models_of_card(const silver *s, size_t card) {
    size_t count = 0;
    for (size_t i = 0; i < s->n_runs; i++) {
        size_t j = 0;
        if (s->runs[i].card != card) continue;
        while (j < i && !(s->runs[j].card == card && s->runs[j].model == s->runs[i].model)) j++;
        count += j == i;
    }
    return count;
}

static status about_card(const silver *s, labels *l, size_t card, err *e) {
    agreement a = {.s = s, .l = l, .models = models_of_card(s, card), .e = e};
    strv name = intern_text(&s->words, card);
    use *mine = mem_alloc(s->n, sizeof *mine);
    if (!mine) return err_memory(e, s->n * sizeof *mine);
    for (size_t i = 0; i < s->n; i++)
        if (s->uses[i].card == card) mine[a.n++] = s->uses[i];
    a.u = mine;
    status st = ST_OK;
    if (a.models < 2) buf_printf(&l->notes, "%s: card '%s': one model alone agrees with nobody: no labels\n", s->where, name.p);
    else if (!(a.card = label_card_find(l, name))) st = err_set(e, ST_INPUT, "%s: card '%s' is not among those of --cards", s->where, name.p);
    for (size_t i = 0; !st && a.card && i < a.n; i++)
        if (first_of_curie(&a, i)) st = fits(&a, i);
    jref list = a.card ? json_get(&a.card->doc, JREF_ROOT, "columns") : JREF_NONE;
    for (jref c = a.card ? json_first(&a.card->doc, list) : JREF_NONE; !st && c != JREF_NONE; c = json_next(&a.card->doc, list, c)) st = about_column(&a, c);
    free(mine);
    return st;
}

status silver_finish(silver *s, labels *l, err *e) {
    status st = ST_OK;
    for (size_t i = 0; !st && i < s->n_runs; i++) {
        size_t j = 0;
        while (j < i && s->runs[j].card != s->runs[i].card) j++;
        if (j == i) st = about_card(s, l, s->runs[i].card, e);
    }
    return st;
}
