/* OBO Graphs JSON and terms of an OLS. */
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "json/json.h"
#include "term/term.h"

static status copy(const json *d, jref r, char **to, err *e) {
    buf scratch = {0};
    strv v;
    status s = ST_OK;
    if (json_kind_of(d, r) == JSON_STRING && !(s = json_text(d, r, &scratch, &v, e)) && !(*to = mem_text(v.p, v.n))) s = err_memory(e, v.n);
    buf_free(&scratch);
    return s;
}

static status add(const json *d, jref r, term_list *l, err *e) {
    buf scratch = {0};
    strv v;
    status s = json_kind_of(d, r) == JSON_STRING ? json_text(d, r, &scratch, &v, e) : ST_OK;
    if (!s && json_kind_of(d, r) == JSON_STRING) s = term_list_add(l, v, e);
    buf_free(&scratch);
    return s;
}

static status copy_curie(const json *d, jref r, char **to, err *e) {
    char *text = NULL;
    status s = copy(d, r, &text, e);
    if (!s && text) *to = curie_of(strv_of(text));
    free(text);
    return s;
}

/* --- OBO Graphs --- */

static status graph_node(term_file *f, const json *d, jref node, intern *at, err *e) {
    term t = {0};
    jref meta = json_get(d, node, "meta"), list = json_get(d, meta, "synonyms"), basic = json_get(d, meta, "basicPropertyValues");
    if (json_get(d, node, "type") != JREF_NONE && !json_is(d, json_get(d, node, "type"), "CLASS")) return ST_OK;
    status s = copy_curie(d, json_get(d, node, "id"), &t.curie, e);
    if (!s) s = copy(d, json_get(d, node, "id"), &t.iri, e);
    if (!s) s = copy(d, json_get(d, node, "lbl"), &t.label, e);
    if (!s) s = copy(d, json_get(d, json_get(d, meta, "definition"), "val"), &t.description, e);
    for (jref x = json_first(d, list); !s && x != JREF_NONE; x = json_next(d, list, x)) s = add(d, json_get(d, x, "val"), &t.synonyms, e);
    for (jref x = json_first(d, basic); !s && x != JREF_NONE; x = json_next(d, basic, x)) {
        char *alternate = NULL;
        buf scratch = {0};
        strv pred;
        if (json_text(d, json_get(d, x, "pred"), &scratch, &pred, e) == ST_OK && pred.n >= 16 && memcmp(pred.p + pred.n - 16, "hasAlternativeId", 16) == 0)
            s = copy_curie(d, json_get(d, x, "val"), &alternate, e);
        if (!s && alternate) s = term_list_add(&t.alternates, strv_of(alternate), e);
        free(alternate);
        buf_free(&scratch);
    }
    t.obsolete = json_true(d, json_get(d, meta, "deprecated"));
    t.root = true; /* until an edge says otherwise */
    if (!s && t.curie) {
        bool fresh;
        if (intern_put(at, strv_of(t.curie), &fresh) == INTERN_NONE) s = err_memory(e, 16);
        if (!s && fresh) s = term_file_add(f, &t, e);
    }
    term_free(&t);
    return s;
}

static status graph_edge(term_file *f, const json *d, jref edge, const intern *at, err *e) {
    char *sub = NULL, *obj = NULL;
    if (!json_is(d, json_get(d, edge, "pred"), "is_a")) return ST_OK;
    status s = copy_curie(d, json_get(d, edge, "sub"), &sub, e);
    if (!s) s = copy_curie(d, json_get(d, edge, "obj"), &obj, e);
    size_t i = sub ? intern_find(at, strv_of(sub)) : INTERN_NONE;
    if (!s && i != INTERN_NONE && obj) {
        f->terms[i].root = false;
        s = term_list_add(&f->terms[i].parents, strv_of(obj), e);
    }
    free(sub);
    free(obj);
    return s;
}

static status read_graphs(term_file *f, const json *d, jref graphs, err *e) {
    intern at = {0}; /* numbers are places in f->terms */
    status s = ST_OK;
    for (jref g = json_first(d, graphs); !s && g != JREF_NONE; g = json_next(d, graphs, g)) {
        jref nodes = json_get(d, g, "nodes"), edges = json_get(d, g, "edges");
        for (jref n = json_first(d, nodes); !s && n != JREF_NONE; n = json_next(d, nodes, n)) s = graph_node(f, d, n, &at, e);
        for (jref x = json_first(d, edges); !s && x != JREF_NONE; x = json_next(d, edges, x)) s = graph_edge(f, d, x, &at, e);
    }
    intern_free(&at);
    return s;
}

/* --- OLS --- */

/* A text, or the first of a list of texts. */
static jref one_text(const json *d, jref r) {
    return json_kind_of(d, r) == JSON_ARRAY ? json_first(d, r) : r;
}

static status ols_term(term_file *f, const json *d, jref x, err *e) {
    term t = {0};
    jref id = json_get(d, x, "obo_id"), list = json_get(d, x, "synonyms");
    if (json_kind_of(d, id) != JSON_STRING) id = json_get(d, x, "iri");
    status s = copy_curie(d, id, &t.curie, e);
    if (!s) s = copy(d, json_get(d, x, "iri"), &t.iri, e);
    if (!s) s = copy(d, one_text(d, json_get(d, x, "label")), &t.label, e);
    if (!s) s = copy(d, one_text(d, json_get(d, x, "description")), &t.description, e);
    for (jref y = json_first(d, list); !s && y != JREF_NONE; y = json_next(d, list, y)) s = add(d, y, &t.synonyms, e);
    t.obsolete = json_true(d, json_get(d, x, "is_obsolete"));
    t.root = json_true(d, json_get(d, x, "is_root"));
    t.has_children = json_true(d, json_get(d, x, "has_children"));
    if (!s && !f->ontology && json_kind_of(d, json_get(d, x, "ontology_name")) == JSON_STRING) s = copy(d, json_get(d, x, "ontology_name"), &f->ontology, e);
    if (!s && t.curie) s = term_file_add(f, &t, e);
    term_free(&t);
    return s;
}

/* Terms, or pages {"_embedded": {"terms": [...]}} of them. */
static status read_ols(term_file *f, const json *d, jref list, err *e) {
    status s = ST_OK;
    if (json_kind_of(d, list) == JSON_OBJECT) {
        jref inner = json_get(d, json_get(d, list, "_embedded"), "terms");
        if (inner != JREF_NONE) return read_ols(f, d, inner, e);
        return ols_term(f, d, list, e);
    }
    for (jref x = json_first(d, list); !s && x != JREF_NONE; x = json_next(d, list, x)) s = read_ols(f, d, x, e);
    return s;
}

status term_read_json(term_file *f, strv text, err *e) {
    json d = {0};
    status s = json_parse(&d, text.p, text.n, e);
    jref graphs = s ? JREF_NONE : json_get(&d, JREF_ROOT, "graphs");
    if (!s) s = graphs != JREF_NONE ? read_graphs(f, &d, graphs, e) : read_ols(f, &d, JREF_ROOT, e);
    json_free(&d);
    return s;
}
