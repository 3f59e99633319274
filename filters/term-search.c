/* term-search: queries in, ranked candidate terms of ontologies out, from a local index; and the making of that index. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/record.h"
#include "term/index.h"

typedef struct settings {
    record_opts rec;
    const char *index, *build;
    opt_list query, ontology;
    size_t limit;
} settings;

typedef struct job {
    const settings *o;
    records *r;
    term_index *ix;
    buf line;
    strv query, passed; /* of the query at hand: text, and JSON members that its record has besides */
    size_t found;
    err *e;
} job;

/* Ontologies go by their lower-case names in states; CURIEs keep their spelling. */
static void put_lower(jw *w, const char *name) {
    buf b = {0};
    for (; *name; name++) buf_byte(&b, (char)(*name >= 'A' && *name <= 'Z' ? *name + 32 : *name));
    jw_view(w, buf_strv(&b));
    buf_free(&b);
}

static status put_candidate(void *ctx, const term_found *t, err *e) {
    job *j = ctx;
    jw w = jw_of(&j->line);
    buf_clear(&j->line);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "candidate");
    jw_key(&w, "query");
    jw_view(&w, j->query);
    jw_key(&w, "rank");
    jw_size(&w, t->rank);
    jw_key(&w, "label");
    jw_text(&w, t->label);
    jw_key(&w, "curie");
    jw_text(&w, t->curie);
    jw_key(&w, "iri");
    jw_text(&w, t->iri);
    jw_key(&w, "ontology_id");
    put_lower(&w, t->ontology);
    jw_key(&w, "description");
    jw_text(&w, t->description);
    jw_key(&w, "synonyms");
    jw_raw(&w, strv_of(t->synonyms));
    jw_key(&w, "has_children");
    jw_bool(&w, t->has_children);
    buf_view(&j->line, j->passed);
    jw_close(&w, '}');
    j->found++;
    (void)e;
    return records_put(j->r, &j->line, j->e);
}

/* Members of a query record that candidates carry along. */
static void pass(const json *rec, buf *out) {
    static const char *const ours[] = {"type", "query", "ontologies", "ontology", "rank", "label", "curie", "iri", "ontology_id", "description", "synonyms", "has_children"};
    buf_clear(out);
    for (jref k = json_first(rec, JREF_ROOT); k != JREF_NONE; k = json_next(rec, JREF_ROOT, k)) {
        bool taken = false;
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) taken |= json_is(rec, k, ours[i]);
        if (taken) continue;
        buf_byte(out, ',');
        buf_view(out, json_raw(rec, k));
        buf_byte(out, ':');
        buf_view(out, json_raw(rec, json_value(rec, k)));
    }
}

static status read_ontologies(job *j, const json *rec, term_list *list) {
    jref many = json_get(rec, JREF_ROOT, "ontologies"), one = json_get(rec, JREF_ROOT, "ontology");
    buf scratch = {0};
    strv v;
    status s = ST_OK;
    if (many != JREF_NONE && json_kind_of(rec, many) != JSON_ARRAY) return err_set(j->e, ST_INPUT, "field 'ontologies': expected an array of names");
    for (jref x = json_first(rec, many); !s && x != JREF_NONE; x = json_next(rec, many, x))
        if (!(s = json_text(rec, x, &scratch, &v, j->e))) s = term_list_add(list, v, j->e);
    if (!s && json_kind_of(rec, one) == JSON_STRING && !(s = json_text(rec, one, &scratch, &v, j->e))) s = term_list_add(list, v, j->e);
    for (size_t i = 0; !s && !list->n && i < j->o->ontology.n; i++) s = term_list_add(list, strv_of(j->o->ontology.items[i]), j->e);
    buf_free(&scratch);
    return s;
}

static status one_query(job *j, const json *rec, buf *passed) {
    buf scratch = {0};
    term_list ontologies = {0};
    status s = json_text(rec, json_get(rec, JREF_ROOT, "query"), &scratch, &j->query, j->e);
    if (s) err_prefix(j->e, "field 'query'");
    if (!s) s = read_ontologies(j, rec, &ontologies);
    if (!s) {
        pass(rec, passed);
        j->passed = buf_strv(passed);
        s = term_index_search(j->ix, j->query, ontologies.items, ontologies.n, j->o->limit, put_candidate, j, j->e);
    }
    for (size_t i = 0; i < ontologies.n; i++) free(ontologies.items[i]);
    free(ontologies.items);
    buf_free(&scratch);
    return s;
}

static status search_records(job *j) {
    json *rec;
    buf passed = {0};
    status s;
    while (!(s = records_next(j->r, &rec, j->e)) && rec)
        if ((s = one_query(j, rec, &passed)) && (s = records_bad(j->r, j->e))) break;
    buf_free(&passed);
    return s;
}

static status search_options(job *j) {
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->o->query.n; i++) {
        j->query = strv_of(j->o->query.items[i]);
        s = term_index_search(j->ix, j->query, (char *const *)(const void *)j->o->ontology.items, j->o->ontology.n, j->o->limit, put_candidate, j, j->e);
    }
    return s;
}

static status search(job *j, const opt_rest *rest) {
    char none[] = "/dev/null", *nothing[] = {none};
    bool typed = j->o->query.n > 0;
    status s = term_index_open(&j->ix, j->o->index, j->e);
    if (!s && typed && rest->n) s = err_set(j->e, ST_USAGE, "queries come from --query or from files, not both");
    if (!s) s = records_open(&j->r, "term-search", &j->o->rec, typed ? nothing : rest->files, typed ? 1 : rest->n, j->e);
    if (!s) s = typed ? search_options(j) : search_records(j);
    s = records_close(j->r, s, j->e);
    term_index_close(j->ix);
    return s;
}

static status build(const settings *o, const opt_rest *rest, err *e) {
    term_counts c;
    if (!rest->n) return err_set(e, ST_USAGE, "--build needs files of terms: OBO, OBO Graphs JSON, or terms of an OLS");
    status s = term_index_build(o->build, rest->files, rest->n, &c, e);
    if (!s)
        fprintf(stderr, "term-search: %zu terms in %s; left out: %zu obsolete, %zu imported from other ontologies, %zu roots, %zu without a label\n", c.kept, o->build, c.obsolete, c.imported, c.roots,
                c.nameless);
    return s;
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "index", .letter = 'i', .kind = OPT_TEXT, .arg = "FILE", .to = &o.index, .help = "search this index; needed"},
        {.name = "build", .kind = OPT_TEXT, .arg = "INDEX", .to = &o.build, .help = "make an index of the terms in the files instead; it appears whole or not at all"},
        {.name = "query", .letter = 'q', .kind = OPT_LIST, .arg = "TEXT", .to = &o.query, .help = "search for TEXT instead of reading query records; may be given again"},
        {.name = "ontology", .kind = OPT_LIST, .arg = "ID", .to = &o.ontology, .help = "only terms of this ontology, where the record names none; may be given again"},
        {.name = "limit", .letter = 'n', .kind = OPT_SIZE, .arg = "N", .to = &o.limit, .initial = "10", .min = 1, .max = 1000, .help = "candidates per query"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "term-search", .operands = "[FILE ...]", .summary = "queries to ranked terms of ontologies, from a local index",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  term-search --build terms.db envo.obo uo.obo\n  term-search --index terms.db --ontology ENVO --query 'freshwater lake'\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    status s = o.build ? build(&o, &rest, &e) : o.index ? search(&j, &rest) : err_set(&e, ST_USAGE, "--index FILE is needed, or --build INDEX");
    buf_free(&j.line);
    opt_list_free(&o.query);
    opt_list_free(&o.ontology);
    return opt_finish(&program, s, &e);
}
