#include "term/term.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/intern.h"
#include "base/io.h"
#include "base/mem.h"

status term_list_add(term_list *l, strv text, err *e) {
    if (!mem_grow((void **)&l->items, &l->cap, l->n + 1, sizeof *l->items)) return err_memory(e, (l->n + 1) * sizeof *l->items);
    if (!(l->items[l->n] = mem_text(text.p, text.n))) return err_memory(e, text.n);
    l->n++;
    return ST_OK;
}

static void list_free(term_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->items[i]);
    free(l->items);
}

void term_free(term *t) {
    free(t->curie);
    free(t->iri);
    free(t->label);
    free(t->description);
    list_free(&t->synonyms);
    list_free(&t->parents);
    list_free(&t->alternates);
    *t = (term){0};
}

static bool is_alnum(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Prefixes that are not all upper case. */
static const char *const mixed[] = {"NCBITaxon", "FBbt", "FBdv", "FBcv", "WBbt", "WBls", "WBPhenotype", "TAIR", "Orphanet", "dcterms"};

static void put_prefix(strv prefix, buf *out) {
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        if (strlen(mixed[i]) == prefix.n && strncasecmp(mixed[i], prefix.p, prefix.n) == 0) {
            buf_text(out, mixed[i]);
            return;
        }
    for (size_t i = 0; i < prefix.n; i++) buf_byte(out, (char)(prefix.p[i] >= 'a' && prefix.p[i] <= 'z' ? prefix.p[i] - 32 : prefix.p[i]));
}

char *curie_of(strv text) {
    size_t from = text.n;
    while (from && text.p[from - 1] != '/' && text.p[from - 1] != '#') from--;
    strv last = {text.p + from, text.n - from};
    size_t cut = 0;
    while (cut < last.n && last.p[cut] != ':' && last.p[cut] != '_') cut++;
    /* APOLLO_SV_00000796: the last underscore before the number */
    for (size_t i = cut + 1; i < last.n && cut < last.n && last.p[cut] == '_'; i++)
        if (last.p[i] == '_' || last.p[i] == ':') cut = i;
    if (!cut || cut + 1 >= last.n) return NULL;
    for (size_t i = 0; i < last.n; i++)
        if (!is_alnum(last.p[i]) && last.p[i] != '_' && last.p[i] != '-' && last.p[i] != '.' && i != cut) return NULL;
    buf b = {0};
    put_prefix((strv){last.p, cut}, &b);
    buf_byte(&b, ':');
    buf_put(&b, last.p + cut + 1, last.n - cut - 1);
    return buf_take(&b);
}

strv curie_prefix(const char *curie) {
    const char *colon = strchr(curie, ':');
    return (strv){curie, colon ? (size_t)(colon - curie) : 0};
}

status term_file_add(term_file *f, term *t, err *e) {
    if (!mem_grow((void **)&f->terms, &f->cap, f->n + 1, sizeof *f->terms)) return err_memory(e, (f->n + 1) * sizeof *t);
    f->terms[f->n++] = *t;
    *t = (term){0};
    return ST_OK;
}

static void file_free(term_file *f) {
    for (size_t i = 0; i < f->n; i++) term_free(&f->terms[i]);
    free(f->terms);
    free(f->ontology);
}

/* The prefix that most terms have. */
static status majority(term_file *f, err *e) {
    intern t = {0};
    size_t *count = mem_zero(f->n, sizeof *count), best = 0;
    status s = count ? ST_OK : err_memory(e, f->n * sizeof *count);
    for (size_t i = 0; !s && i < f->n; i++) {
        size_t k = intern_put(&t, curie_prefix(f->terms[i].curie), NULL);
        if (k == INTERN_NONE) s = err_memory(e, 16);
        else if (++count[k] > count[best]) best = k;
    }
    if (!s && t.n && !(f->ontology = mem_text(intern_text(&t, best).p, intern_text(&t, best).n))) s = err_memory(e, 16);
    free(count);
    intern_free(&t);
    return s;
}

/* Who is somebody's parent has children. */
static status mark_parents(term_file *f, err *e) {
    intern t = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < f->n; i++)
        if (intern_put(&t, strv_of(f->terms[i].curie), NULL) == INTERN_NONE) s = err_memory(e, 16);
    /* of equal CURIEs the first is meant; numbers follow the order of arrival only when none repeats */
    size_t *first = mem_alloc(t.n, sizeof *first);
    if (!s && !first) s = err_memory(e, t.n * sizeof *first);
    for (size_t i = f->n; !s && i-- > 0;) first[intern_find(&t, strv_of(f->terms[i].curie))] = i;
    for (size_t i = 0; !s && i < f->n; i++) {
        if (f->terms[i].obsolete) continue;
        for (size_t p = 0; p < f->terms[i].parents.n; p++) {
            size_t k = intern_find(&t, strv_of(f->terms[i].parents.items[p]));
            if (k != INTERN_NONE) f->terms[first[k]].has_children = true;
        }
    }
    free(first);
    intern_free(&t);
    return s;
}

static bool obsolete(const term *t) {
    return t->obsolete || strncasecmp(t->label, "obsolete ", 9) == 0 || strncasecmp(t->label, "obsolete_", 9) == 0;
}

static status put_all(const term_file *f, term_put *put, void *ctx, term_counts *c, err *e) {
    status s = ST_OK;
    for (size_t i = 0; !s && i < f->n; i++) {
        const term *t = &f->terms[i];
        strv prefix = curie_prefix(t->curie);
        if (!t->label || !*t->label) c->nameless++;
        else if (obsolete(t)) c->obsolete++;
        else if (strlen(f->ontology) != prefix.n || strncasecmp(f->ontology, prefix.p, prefix.n) != 0) c->imported++;
        else if (t->root) c->roots++;
        else if (!(s = put(ctx, t, f->ontology, e))) c->kept++;
    }
    return s;
}

status term_read_file(const char *path, term_put *put, void *ctx, term_counts *counts, err *e) {
    buf text = {0};
    term_file f = {0};
    status s = file_read_zst(path, &text, e);
    strv all = buf_strv(&text), body = strv_trim(all);
    if (!s && !body.n) s = err_set(e, ST_INPUT, "the file is empty");
    if (!s) s = *body.p == '{' || *body.p == '[' ? term_read_json(&f, body, e) : term_read_obo(&f, all, e);
    if (!s && !f.n) s = err_set(e, ST_INPUT, "no terms: expected OBO, OBO Graphs JSON, or terms of an OLS");
    if (!s && !f.ontology) s = majority(&f, e);
    /* a header that names no prefix among the terms is an address, not an ontology */
    if (!s) {
        bool among = false;
        for (size_t i = 0; i < f.n && !among; i++) {
            strv p = curie_prefix(f.terms[i].curie);
            among = strlen(f.ontology) == p.n && strncasecmp(f.ontology, p.p, p.n) == 0;
        }
        if (!among) {
            free(f.ontology);
            f.ontology = NULL;
            s = majority(&f, e);
        }
    }
    if (!s) s = mark_parents(&f, e);
    if (!s) s = put_all(&f, put, ctx, counts, e);
    if (s && s != ST_WRITE && s != ST_INCOMPLETE) err_prefix(e, "%s", path);
    file_free(&f);
    buf_free(&text);
    return s;
}
