/* A wide choice asked as yes/no questions, one per option. */
#include <string.h>

#include "question/ask.h"
#include "question/state.h"

typedef struct twin_of {
    asker *a;
    const json *rec; /* the item or case of the wide question */
    const question *wide;
    const char *option;
    const ontology *ontology; /* for a case of column.ontology */
} twin_of;

/* "id/option", or nothing when the record has no id. */
static status put_id(const twin_of *t, jw *w, err *e) {
    jref id = json_get(t->rec, JREF_ROOT, "id");
    json_kind k = json_kind_of(t->rec, id);
    buf text = {0}, scratch = {0};
    strv v = {0};
    status s = ST_OK;
    if (k == JSON_STRING) s = json_text(t->rec, id, &scratch, &v, e);
    else if (k == JSON_NUMBER) v = json_raw(t->rec, id);
    if (!s && v.n) {
        buf_view(&text, v);
        buf_printf(&text, "/%s", t->option);
        jw_key(w, "id");
        jw_view(w, buf_strv(&text));
    }
    buf_free(&text);
    buf_free(&scratch);
    return s;
}

/* The record's meta (a case's: its card and column) and the option. */
static void put_meta(const twin_of *t, jw *w) {
    jref meta = json_get(t->rec, JREF_ROOT, "meta"), card = json_get(t->rec, JREF_ROOT, "card"), column = json_get(t->rec, JREF_ROOT, "column");
    jw_key(w, "meta");
    jw_open(w, '{');
    for (jref k = json_first(t->rec, meta); k != JREF_NONE; k = json_next(t->rec, meta, k)) {
        if (json_is(t->rec, k, "option")) continue;
        jw_key_raw(w, json_raw(t->rec, k));
        jw_raw(w, json_raw(t->rec, json_value(t->rec, k)));
    }
    if (meta == JREF_NONE && json_kind_of(t->rec, card) == JSON_OBJECT) {
        buf dataset = {0};
        err ignored = {0};
        if (card_dataset(t->rec, card, &dataset, &ignored) == ST_OK) {
            jw_key(w, "card");
            jw_view(w, buf_strv(&dataset));
        }
        buf_free(&dataset);
    }
    if (meta == JREF_NONE && json_kind_of(t->rec, column) == JSON_STRING) {
        jw_key(w, "column");
        jw_raw(w, json_raw(t->rec, column));
    }
    jw_key(w, "option");
    jw_text(w, t->option);
    jw_close(w, '}');
}

/* An object's members and the option; anything else beside it. */
static void put_state(const twin_of *t, jw *w) {
    jref state = json_get(t->rec, JREF_ROOT, "state");
    jw_key(w, "state");
    jw_open(w, '{');
    if (json_kind_of(t->rec, state) == JSON_OBJECT) {
        for (jref k = json_first(t->rec, state); k != JREF_NONE; k = json_next(t->rec, state, k)) {
            jw_key_raw(w, json_raw(t->rec, k));
            jw_raw(w, json_raw(t->rec, json_value(t->rec, k)));
        }
    } else {
        jw_key(w, "state");
        jw_raw(w, json_raw(t->rec, state));
    }
    jw_key(w, "option");
    jw_text(w, t->option);
    jw_close(w, '}');
}

static bool made_anew(const json *rec, jref key) {
    static const char *const names[] = {"type", "id", "question", "meta", "label", "state", "ontology", "mask"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_is(rec, key, names[i])) return true;
    return false;
}

static status ask_option(const twin_of *t, err *e) {
    const json *rec = t->rec;
    bool is_case = json_is(rec, json_get(rec, JREF_ROOT, "type"), "case");
    jref label = json_get(rec, JREF_ROOT, "label");
    const question *twin = registry_find(t->a->questions, strv_of(t->wide->twin));
    buf text = {0};
    json doc = {0};
    jw w = jw_of(&text);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, is_case ? "case" : "item");
    status s = put_id(t, &w, e);
    jw_key(&w, "question");
    jw_text(&w, t->wide->twin);
    for (jref k = json_first(rec, JREF_ROOT); k != JREF_NONE; k = json_next(rec, JREF_ROOT, k)) {
        if (made_anew(rec, k)) continue;
        jw_key_raw(&w, json_raw(rec, k));
        jw_raw(&w, json_raw(rec, json_value(rec, k)));
    }
    if (t->ontology) {
        jw_key(&w, "ontology");
        ontology_put(t->ontology, &w);
    }
    if (!is_case) put_state(t, &w);
    put_meta(t, &w);
    if (json_kind_of(rec, label) == JSON_STRING) {
        jw_key(&w, "label");
        jw_text(&w, json_is(rec, label, t->option) ? twin->options[0] : twin->options[1]);
    }
    jw_close(&w, '}');
    if (!s) s = buf_ok(&text, e);
    if (!s) s = json_parse(&doc, text.p, text.len, e);
    if (!s) s = asker_take(t->a, &doc, e);
    json_free(&doc);
    buf_free(&text);
    return s;
}

static bool out_of_play(const json *rec, const char *option) {
    jref mask = json_get(rec, JREF_ROOT, "mask");
    for (jref m = json_first(rec, mask); m != JREF_NONE; m = json_next(rec, mask, m))
        if (json_is(rec, m, option)) return true;
    return false;
}

static status ask_ontologies(asker *a, const json *rec, const question *q, err *e) {
    buf scratch = {0};
    strv aspect;
    size_t asked = 0;
    status s = json_text(rec, json_get(rec, JREF_ROOT, "aspect"), &scratch, &aspect, e);
    if (s) err_prefix(e, "field 'aspect'");
    for (size_t i = 0; !s && i < a->questions->n_ontologies; i++) {
        const ontology *o = &a->questions->ontologies[i];
        if (!ontology_serves(o, aspect) || question_option(q, strv_of(o->id)) == q->n_options || out_of_play(rec, o->id)) continue;
        s = ask_option(&(twin_of){a, rec, q, o->id, o}, e);
        asked++;
    }
    if (!s && !asked) s = err_set(e, ST_INPUT, "no ontology of the registry serves the aspect '%.*s'", (int)(aspect.n > 60 ? 60 : aspect.n), aspect.p);
    buf_free(&scratch);
    return s;
}

status ask_twins(asker *a, const json *rec, const question *q, err *e) {
    if (json_is(rec, json_get(rec, JREF_ROOT, "type"), "case")) {
        if (strcmp(q->id, "column.ontology") == 0) return ask_ontologies(a, rec, q, e);
        return err_set(e, ST_INPUT, "question '%s': a case has no twin; give an item", q->id);
    }
    status s = ST_OK;
    for (size_t i = 0; !s && i < q->n_options; i++)
        if (!out_of_play(rec, q->options[i])) s = ask_option(&(twin_of){a, rec, q, q->options[i], NULL}, e);
    return s;
}
