#include "label/label.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "json/lines.h"
#include "question/state.h"

/* What a label is worth by who said it: people before agreement, agreement before a teacher model. */
static const struct {
    const char *source;
    double weight;
} sources[] = {{"curator", 1.0}, {"gold", 1.0}, {"accepted_avu", 0.8}, {"curator_implicit", 0.7}, {"silver", 0.6}, {"teacher", 0.5}};

bool label_weight(strv source, double *weight) {
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strv_is(source, sources[i].source)) {
            *weight = sources[i].weight;
            return true;
        }
    return false;
}

static status keep_card(void *ctx, const json *doc, err *e) {
    labels *l = ctx;
    label_card c = {0};
    buf name = {0};
    if (!json_is(doc, json_get(doc, JREF_ROOT, "type"), "card")) return err_set(e, ST_INPUT, "expected a record of type 'card'");
    status s = card_dataset(doc, JREF_ROOT, &name, e);
    c.dataset = buf_take(&name);
    c.text = mem_text(doc->text, doc->len);
    if (!s && (!c.dataset || !c.text)) s = err_memory(e, doc->len);
    if (!s) s = json_parse(&c.doc, c.text, doc->len, e);
    if (!s && label_card_find(l, strv_of(c.dataset)) && strv_is(strv_of(label_card_find(l, strv_of(c.dataset))->dataset), c.dataset)) s = err_set(e, ST_INPUT, "the card '%s' comes twice", c.dataset);
    if (!s && !mem_grow((void **)&l->cards, &l->cap_cards, l->n_cards + 1, sizeof *l->cards)) s = err_memory(e, (l->n_cards + 1) * sizeof c);
    if (!s) {
        l->cards[l->n_cards++] = c;
    } else {
        free(c.dataset);
        free(c.text);
        json_free(&c.doc);
    }
    buf_free(&name);
    return s;
}

status label_cards(labels *l, const char *path, err *e) {
    return json_lines(path, keep_card, l, e);
}

const label_card *label_card_find(const labels *l, strv name) {
    const label_card *by_code = NULL;
    size_t n = 0;
    for (size_t i = 0; i < l->n_cards; i++) {
        const label_card *c = &l->cards[i];
        if (strv_is(name, c->dataset)) return c;
        buf sha = {0};
        strv v;
        err ignored = {0};
        bool hit = json_text(&c->doc, json_get(&c->doc, JREF_ROOT, "sha256"), &sha, &v, &ignored) == ST_OK && strv_eq(v, name);
        buf_free(&sha);
        if (hit) return c;
        size_t dot = strlen(c->dataset);
        while (dot && c->dataset[dot] != '.') dot--;
        if (name.n == dot && memcmp(name.p, c->dataset, dot) == 0) by_code = c, n++;
    }
    return n == 1 ? by_code : NULL;
}

static status keep_term(void *ctx, const json *doc, err *e) {
    labels *l = ctx;
    buf scratch = {0};
    strv curie;
    bool fresh = false;
    jref at = json_get(doc, JREF_ROOT, "curie");
    status s = json_text(doc, at, &scratch, &curie, e);
    if (s) err_prefix(e, "field 'curie'");
    size_t i = s ? 0 : intern_put(&l->curies, curie, &fresh);
    if (!s && (i == INTERN_NONE || !mem_grow((void **)&l->terms, &l->cap_terms, i + 1, sizeof *l->terms))) s = err_memory(e, (i + 1) * sizeof *l->terms);
    if (!s && fresh) {
        l->terms[i].text = mem_text(doc->text, doc->len);
        if (!l->terms[i].text) s = err_memory(e, doc->len);
    }
    buf_free(&scratch);
    return s;
}

status label_terms(labels *l, const char *path, err *e) {
    return json_lines(path, keep_term, l, e);
}

/* The prefix of a CURIE in lower case is the ontology's id. */
static void put_ontology_id(strv curie, jw *w) {
    buf b = {0};
    for (size_t i = 0; i < curie.n && curie.p[i] != ':'; i++) buf_byte(&b, (char)(curie.p[i] >= 'A' && curie.p[i] <= 'Z' ? curie.p[i] + 32 : curie.p[i]));
    jw_view(w, buf_strv(&b));
    buf_free(&b);
}

status label_term_put(const labels *l, strv curie, strv name, buf *out, err *e) {
    size_t i = intern_find(&l->curies, curie);
    if (i != INTERN_NONE) {
        buf_text(out, l->terms[i].text);
        return buf_ok(out, e);
    }
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "label");
    jw_view(&w, name.n ? name : curie);
    jw_key(&w, "curie");
    jw_view(&w, curie);
    jw_key(&w, "ontology_id");
    put_ontology_id(curie, &w);
    jw_key(&w, "description");
    jw_text(&w, "");
    jw_key(&w, "synonyms");
    jw_raw(&w, strv_of("[]"));
    jw_key(&w, "has_children");
    jw_bool(&w, false);
    jw_close(&w, '}');
    return buf_ok(out, e);
}

/* question:card:target:option, with -2, -3, ... where other states have the same. */
static status make_id(labels *l, const label *x, buf *id, err *e) {
    strv parts[] = {x->card ? strv_of(x->card->dataset) : x->group, x->target, x->option};
    buf_text(id, x->q->id);
    for (size_t i = 0; i < 3; i++) {
        if (!parts[i].n) continue;
        buf_byte(id, ':');
        buf_view(id, parts[i]);
    }
    size_t n = id->len;
    bool fresh = false;
    for (size_t again = 1; !fresh; again++) {
        if (again > 1) {
            id->len = n;
            buf_printf(id, "-%zu", again);
        }
        if (intern_put(&l->ids, buf_strv(id), &fresh) == INTERN_NONE) return err_memory(e, n);
    }
    return buf_ok(id, e);
}

static void put_meta(const label *x, jw *w) {
    static const char *const ours[] = {"card", "scope", "target", "option"};
    strv values[] = {x->card ? strv_of(x->card->dataset) : (strv){0}, x->scope, x->target, x->option};
    json doc = {0};
    err ignored = {0};
    jw_key(w, "meta");
    jw_open(w, '{');
    for (size_t i = 0; i < 4; i++) {
        if (!values[i].n) continue;
        jw_key(w, ours[i]);
        jw_view(w, values[i]);
        if (i == 2 && strv_is(x->scope, "column")) {
            jw_key(w, "column");
            jw_view(w, values[i]);
        }
    }
    if (x->meta.n && json_parse(&doc, x->meta.p, x->meta.n, &ignored) == ST_OK)
        for (jref k = json_first(&doc, JREF_ROOT); k != JREF_NONE; k = json_next(&doc, JREF_ROOT, k)) {
            bool taken = json_is(&doc, k, "column");
            for (size_t i = 0; i < 4; i++) taken |= json_is(&doc, k, ours[i]);
            if (taken) continue;
            jw_key_raw(w, json_raw(&doc, k));
            jw_raw(w, json_raw(&doc, json_value(&doc, k)));
        }
    jw_close(w, '}');
    json_free(&doc);
}

static status put_item(labels *l, const label *x, strv state, labelled *out, err *e) {
    buf b = {0}, id = {0};
    strv group = x->group.n || !x->card ? x->group : strv_of(x->card->dataset);
    status s = make_id(l, x, &id, e);
    jw w = jw_of(&b);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "item");
    jw_key(&w, "id");
    jw_view(&w, buf_strv(&id));
    jw_key(&w, "question");
    jw_text(&w, x->q->id);
    jw_key(&w, "state");
    jw_raw(&w, state);
    if (group.n) {
        jw_key(&w, "group");
        jw_view(&w, group);
    }
    jw_key(&w, "label");
    jw_view(&w, x->label);
    jw_key(&w, "weight");
    jw_real(&w, x->weight);
    if (x->source.n) {
        jw_key(&w, "source");
        jw_view(&w, x->source);
    }
    put_meta(x, &w);
    jw_close(&w, '}');
    if (!s) s = buf_ok(&b, e);
    if (!s) {
        out->text = buf_take(&b);
        out->label = mem_text(x->label.p, x->label.n);
        out->where = mem_text(x->where, strlen(x->where));
        out->weight = x->weight;
        if (!out->text || !out->label || !out->where) s = err_memory(e, b.len);
    }
    buf_free(&b);
    buf_free(&id);
    return s;
}

static void labelled_free(labelled *x) {
    free(x->text);
    free(x->label);
    free(x->where);
    *x = (labelled){0};
}

/* The item's text with the new label, weight and source. */
static status relabel(labelled *old, const label *x, err *e) {
    json doc = {0};
    buf text = {0}, label_json = {0}, weight = {0}, source = {0};
    char number[NUM_TEXT_MAX];
    json_quote(&label_json, x->label, false);
    json_quote(&source, x->source, false);
    num_repr(x->weight, number);
    buf_text(&weight, number);
    json_field fields[] = {{"label", buf_strv(&label_json)}, {"weight", buf_strv(&weight)}, {"source", x->source.n ? buf_strv(&source) : (strv){0}}};
    status s = json_parse(&doc, old->text, strlen(old->text), e);
    if (!s) json_edit(&text, &doc, JREF_ROOT, fields, 3);
    if (!s) s = buf_ok(&text, e);
    json_free(&doc);
    if (!s) {
        labelled_free(old);
        old->text = buf_take(&text);
        old->label = mem_text(x->label.p, x->label.n);
        old->where = mem_text(x->where, strlen(x->where));
        old->weight = x->weight;
        if (!old->text || !old->label || !old->where) s = err_memory(e, x->label.n);
    }
    buf *all[] = {&text, &label_json, &weight, &source};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    return s;
}

static status again(labels *l, labelled *old, const label *x, err *e) {
    bool agrees = strv_is(x->label, old->label);
    if (x->weight > old->weight) {
        if (!agrees) l->outweighed++;
        return relabel(old, x, e);
    }
    if (agrees) {
        l->repeated++;
    } else if (x->weight < old->weight) {
        l->outweighed++;
    } else {
        l->conflicts++;
        buf_printf(&l->notes, "%s: label '%.*s' disagrees with '%s' of %s (both of weight %g) on the same state of '%s': the first stays\n", x->where, (int)x->label.n, x->label.p,
                   old->label, old->where, x->weight, x->q->id);
    }
    return buf_ok(&l->notes, e);
}

static status place(labels *l, const label *x, strv state, err *e) {
    json doc = {0};
    char sha[SHA256_HEX_SIZE];
    buf key = {0};
    bool fresh = false;
    status s = json_parse(&doc, state.p, state.n, e);
    if (!s) s = state_sha256(&doc, JREF_ROOT, sha, e);
    if (!s) buf_printf(&key, "%s %s", x->q->key, sha);
    size_t i = s ? 0 : intern_put(&l->states, buf_strv(&key), &fresh);
    if (!s && (i == INTERN_NONE || !mem_grow((void **)&l->items, &l->cap_items, i + 1, sizeof *l->items))) s = err_memory(e, (i + 1) * sizeof *l->items);
    if (!s && fresh) {
        l->items[i] = (labelled){.q = x->q};
        s = put_item(l, x, state, &l->items[i], e);
    } else if (!s) {
        s = again(l, &l->items[i], x, e);
    }
    json_free(&doc);
    buf_free(&key);
    return s;
}

status label_add(labels *l, const label *x, err *e) {
    json doc = {0};
    buf state = {0};
    if (question_option(x->q, x->label) == x->q->n_options)
        return err_set(e, ST_INPUT, "label '%.*s' is none of the options of '%s'", (int)(x->label.n > 100 ? 100 : x->label.n), x->label.p, x->q->id);
    if (!(x->weight > 0)) return err_set(e, ST_INPUT, "weight %g: expected a positive number", x->weight);
    if (!x->card) return place(l, x, x->case_text, e);
    status s = json_parse(&doc, x->case_text.p, x->case_text.n, e);
    if (!s) s = state_build(x->q->id, &x->card->doc, JREF_ROOT, &doc, JREF_ROOT, &state, e);
    if (!s) s = place(l, x, buf_strv(&state), e);
    json_free(&doc);
    buf_free(&state);
    return s;
}

void label_free(labels *l) {
    for (size_t i = 0; i < l->n_cards; i++) {
        free(l->cards[i].dataset);
        free(l->cards[i].text);
        json_free(&l->cards[i].doc);
    }
    free(l->cards);
    for (size_t i = 0; i < l->curies.n; i++) free(l->terms[i].text);
    free(l->terms);
    for (size_t i = 0; i < l->states.n; i++) labelled_free(&l->items[i]);
    free(l->items);
    intern_free(&l->curies);
    intern_free(&l->states);
    intern_free(&l->ids);
    buf_free(&l->notes);
}
