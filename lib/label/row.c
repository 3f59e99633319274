/* Rows of the user's own. */
#include <string.h>

#include "base/num.h"
#include "label/label.h"
#include "question/state.h"

/* The texts of a row; a number stands as it is written, null and "" are nothing. */
typedef struct row {
    strv card, question, target, option, label, weight, source, scope, aspect, group, option_label;
    buf scratch[11];
} row;

static status take(const json *doc, const char *name, buf *scratch, strv *out, err *e) {
    jref r = json_get(doc, JREF_ROOT, name);
    json_kind k = json_kind_of(doc, r);
    *out = (strv){0};
    if (k == JSON_NONE || k == JSON_NULL) return ST_OK;
    if (k == JSON_NUMBER || k == JSON_BOOL) {
        *out = json_raw(doc, r);
        return ST_OK;
    }
    status s = json_text(doc, r, scratch, out, e);
    return s ? err_prefix(e, "field '%s'", name) : ST_OK;
}

static status read_row(row *x, const json *doc, err *e) {
    static const char *const names[] = {"card", "question", "target", "option", "label", "weight", "source", "scope", "aspect", "group", "option_label"};
    strv *to[] = {&x->card, &x->question, &x->target, &x->option, &x->label, &x->weight, &x->source, &x->scope, &x->aspect, &x->group, &x->option_label};
    status s = ST_OK;
    for (size_t i = 0; !s && i < sizeof to / sizeof *to; i++) s = take(doc, names[i], &x->scratch[i], to[i], e);
    return s;
}

/* What the target is: a column of the card, one of its sites, or the dataset. */
static strv scope_of(const row *x, const label_card *card) {
    if (x->scope.n) return x->scope;
    if (!x->target.n || strv_is(x->target, "dataset")) return strv_of("dataset");
    if (card_column(&card->doc, JREF_ROOT, x->target) != JREF_NONE) return strv_of("column");
    return strv_of("site");
}

static void put(jw *w, const char *key, strv v) {
    jw_key(w, key);
    jw_view(w, v);
}

/* Members of the row that a case has too are taken as they stand. */
static const char *const own[] = {"ontology", "candidate", "n_candidates", "term", "avu", "siblings", "column", "site"};

static status put_made(const labels *l, const row *x, const question *q, const json *doc, jw *w, err *e) {
    buf term = {0};
    status s = ST_OK;
    if (strcmp(q->id, "column.ontology_fits") == 0 && json_get(doc, JREF_ROOT, "ontology") == JREF_NONE) {
        size_t i = 0;
        while (i < l->registry->n_ontologies && !strv_is(x->option, l->registry->ontologies[i].id)) i++;
        if (i == l->registry->n_ontologies) return err_set(e, ST_INPUT, "option '%.*s' is no ontology of the registry", (int)x->option.n, x->option.p);
        jw_key(w, "ontology");
        ontology_put(&l->registry->ontologies[i], w);
    }
    bool fits = strcmp(q->id, "term.fits") == 0;
    if ((fits || strcmp(q->id, "avu.value_kind") == 0) && json_get(doc, JREF_ROOT, fits ? "candidate" : "term") == JREF_NONE) {
        if (!x->option.n) return err_set(e, ST_INPUT, "field 'option' is missing: the term's CURIE");
        s = label_term_put(l, x->option, x->option_label, &term, e);
        jw_key(w, fits ? "candidate" : "term");
        jw_raw(w, buf_strv(&term));
    }
    if (fits && json_get(doc, JREF_ROOT, "n_candidates") == JREF_NONE) {
        jw_key(w, "n_candidates");
        jw_size(w, 1);
    }
    buf_free(&term);
    return s;
}

static status put_case(const labels *l, const row *x, strv scope, const question *q, const json *doc, buf *out, err *e) {
    jw w = jw_of(out);
    jw_open(&w, '{');
    put(&w, "scope", scope);
    if (strv_is(scope, "column") || strv_is(scope, "site")) put(&w, strv_is(scope, "site") ? "site" : "column", x->target);
    if (x->target.n) put(&w, "target", x->target);
    if (x->aspect.n) put(&w, "aspect", x->aspect);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        jref r = json_get(doc, JREF_ROOT, own[i]);
        bool made = (strcmp(own[i], "column") == 0 && strv_is(scope, "column")) || (strcmp(own[i], "site") == 0 && strv_is(scope, "site"));
        if (r == JREF_NONE || made) continue;
        jw_key(&w, own[i]);
        jw_raw(&w, json_raw(doc, r));
    }
    status s = put_made(l, x, q, doc, &w, e);
    jw_close(&w, '}');
    return s ? s : buf_ok(out, e);
}

static status read_weight(const row *x, double *weight, err *e) {
    buf b = {0};
    *weight = 1;
    if (x->weight.n) {
        buf_view(&b, x->weight);
        status s = num_real(b.p, 0, 1e6, "weight", weight, e);
        buf_free(&b);
        return s;
    }
    if (x->source.n && !label_weight(x->source, weight))
        return err_set(e, ST_INPUT, "source '%.*s' has no weight of its own: give one, or a source among curator, gold, accepted_avu, curator_implicit, silver, teacher",
                       (int)(x->source.n > 60 ? 60 : x->source.n), x->source.p);
    return ST_OK;
}

static status add_row(labels *l, const row *x, const json *doc, const question *q, const char *where, err *e) {
    jref state = json_get(doc, JREF_ROOT, "state"), meta = json_get(doc, JREF_ROOT, "meta");
    label one = {.q = q, .label = x->label, .source = x->source, .group = x->group, .scope = x->scope, .target = x->target, .option = x->option, .where = where};
    buf text = {0};
    if (json_kind_of(doc, meta) == JSON_OBJECT) one.meta = json_raw(doc, meta);
    status s = read_weight(x, &one.weight, e);
    if (!s && state != JREF_NONE) {
        one.case_text = json_raw(doc, state);
        if (!one.group.n) one.group = x->card;
    } else if (!s) {
        if (!x->card.n) s = err_set(e, ST_INPUT, "a label needs a card (of --cards), or a state of its own");
        else if (!(one.card = label_card_find(l, x->card)))
            s = err_set(e, ST_INPUT, "card '%.*s' is not among those of --cards", (int)(x->card.n > 100 ? 100 : x->card.n), x->card.p);
        if (!s) one.scope = scope_of(x, one.card);
        if (!s) s = put_case(l, x, one.scope, q, doc, &text, e);
        one.case_text = buf_strv(&text);
    }
    if (!s) s = label_add(l, &one, e);
    buf_free(&text);
    return s;
}

status label_row(labels *l, const json *doc, const question *fallback, const char *where, err *e) {
    row x = {.card = {0}};
    const question *q = fallback;
    status s = read_row(&x, doc, e);
    if (!s && x.question.n && !(q = registry_find(l->registry, x.question)))
        s = err_set(e, ST_INPUT, "field 'question': the registry has no question '%.*s'", (int)(x.question.n > 100 ? 100 : x.question.n), x.question.p);
    if (!s && !q) s = err_set(e, ST_INPUT, "field 'question' is missing, and --question names none");
    if (!s && !x.label.n) s = err_set(e, ST_INPUT, "field 'label' is missing");
    if (!s) s = add_row(l, &x, doc, q, where, e);
    for (size_t i = 0; i < sizeof x.scratch / sizeof *x.scratch; i++) buf_free(&x.scratch[i]);
    return s;
}
