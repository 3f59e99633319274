#include "question/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

static status check_twins(const registry *r, err *e) {
    for (size_t i = 0; i < r->n; i++) {
        const question *q = &r->items[i], *twin = q->twin ? registry_find(r, strv_of(q->twin)) : NULL;
        if (q->twin && (!twin || twin->kind != QUESTION_NOUL))
            return err_set(e, ST_INPUT, "question '%s': its twin '%s' is no noul question of this registry", q->id, q->twin);
    }
    return ST_OK;
}

static int by_id(const void *a, const void *b) {
    return strcmp((*(const question *const *)a)->id, (*(const question *const *)b)->id);
}

/* {id: {key, kind, options, text, twin}} with sorted keys. */
static status put_lock(const registry *r, buf *out, err *e) {
    const question **sorted = mem_alloc(r->n, sizeof *sorted);
    if (!sorted) return err_memory(e, r->n * sizeof *sorted);
    for (size_t i = 0; i < r->n; i++) sorted[i] = &r->items[i];
    qsort(sorted, r->n, sizeof *sorted, by_id);
    buf_byte(out, '{');
    for (size_t i = 0; i < r->n; i++) {
        const question *q = sorted[i];
        if (i) buf_byte(out, ',');
        json_quote(out, strv_of(q->id), false);
        buf_printf(out, ":{\"key\":\"%s\",\"kind\":\"%s\",\"options\":", q->key, question_kind_name(q->kind));
        question_options_put(q, ",", false, out);
        buf_text(out, ",\"text\":");
        json_quote(out, strv_of(q->text), false);
        buf_text(out, ",\"twin\":");
        if (q->twin) json_quote(out, strv_of(q->twin), false);
        else buf_text(out, "null");
        buf_byte(out, '}');
    }
    buf_byte(out, '}');
    free(sorted);
    return buf_ok(out, e);
}

static int by_string(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static status read_ontology(ontology *o, const json *doc, jref obj, err *e) {
    jref list = json_get(doc, obj, "aspects");
    status s = json_text_copy(doc, json_get(doc, obj, "id"), "id", &o->id, e);
    if (!s) s = json_text_copy(doc, json_get(doc, obj, "description"), "description", &o->description, e);
    if (!s && json_kind_of(doc, list) != JSON_ARRAY) s = err_set(e, ST_INPUT, "field 'aspects': expected an array");
    if (!s && !(o->aspects = mem_zero(json_count(doc, list), sizeof *o->aspects))) s = err_memory(e, json_count(doc, list) * sizeof *o->aspects);
    for (jref a = json_first(doc, list); !s && a != JREF_NONE; a = json_next(doc, list, a))
        if (!(s = json_text_copy(doc, a, "aspects", &o->aspects[o->n], e))) o->n++;
    if (!s && o->n) qsort(o->aspects, o->n, sizeof *o->aspects, by_string);
    return s;
}

static status load_ontologies(registry *r, const json *doc, err *e) {
    jref list = json_get(doc, JREF_ROOT, "ontologies");
    status s = ST_OK;
    if (list == JREF_NONE) return ST_OK;
    if (json_kind_of(doc, list) != JSON_ARRAY) return err_set(e, ST_INPUT, "field 'ontologies': expected an array");
    if (!(r->ontologies = mem_zero(json_count(doc, list), sizeof *r->ontologies))) return err_memory(e, json_count(doc, list) * sizeof *r->ontologies);
    for (jref x = json_first(doc, list); !s && x != JREF_NONE; x = json_next(doc, list, x)) {
        r->n_ontologies++; /* freed even when only half read */
        if ((s = read_ontology(&r->ontologies[r->n_ontologies - 1], doc, x, e))) err_prefix(e, "ontology %zu", r->n_ontologies);
    }
    return s;
}

bool ontology_serves(const ontology *o, strv aspect) {
    for (size_t i = 0; i < o->n; i++)
        if (strv_is(aspect, o->aspects[i])) return true;
    return false;
}

void ontology_put(const ontology *o, jw *w) {
    jw_open(w, '{');
    jw_key(w, "id");
    jw_text(w, o->id);
    jw_key(w, "description");
    jw_text(w, o->description);
    jw_key(w, "aspects");
    jw_open(w, '[');
    for (size_t i = 0; i < o->n; i++) jw_text(w, o->aspects[i]);
    jw_close(w, ']');
    jw_close(w, '}');
}

static status load(registry *r, const json *doc, err *e) {
    jref list = json_get(doc, JREF_ROOT, "questions");
    if (json_kind_of(doc, list) != JSON_ARRAY) return err_set(e, ST_INPUT, "field 'questions': expected an array");
    status s = ST_OK;
    for (jref x = json_first(doc, list); !s && x != JREF_NONE; x = json_next(doc, list, x)) {
        if (!mem_grow((void **)&r->items, &r->cap, r->n + 1, sizeof *r->items)) return err_memory(e, (r->n + 1) * sizeof *r->items);
        s = question_read(&r->items[r->n], doc, x, e);
        if (s) return err_prefix(e, "question %zu", r->n + 1);
        const char *id = r->items[r->n].id;
        bool again = id && registry_find(r, strv_of(id));
        r->n++;
        if (!id) s = err_set(e, ST_INPUT, "question %zu has no id", r->n);
        else if (again) s = err_set(e, ST_INPUT, "question '%s' comes twice", id);
    }
    if (!s) s = check_twins(r, e);
    if (!s) s = load_ontologies(r, doc, e);
    buf lock = {0};
    if (!s) s = put_lock(r, &lock, e);
    if (!s) s = sha256_hex(lock.p, lock.len, r->lock_sha, e);
    buf_free(&lock);
    return s;
}

status registry_load(registry *r, const char *path, err *e) {
    buf text = {0};
    json doc = {0};
    status s = json_read_file(&doc, &text, path, e);
    if (!s && (s = load(r, &doc, e))) err_prefix(e, "%s", path);
    json_free(&doc);
    buf_free(&text);
    return s;
}

void registry_free(registry *r) {
    for (size_t i = 0; i < r->n; i++) question_free(&r->items[i]);
    free(r->items);
    for (size_t i = 0; i < r->n_ontologies; i++) {
        ontology *o = &r->ontologies[i];
        for (size_t k = 0; k < o->n; k++) free(o->aspects[k]);
        free(o->aspects);
        free(o->id);
        free(o->description);
    }
    free(r->ontologies);
    *r = (registry){0};
}

const question *registry_find(const registry *r, strv id) {
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].id && strv_is(id, r->items[i].id)) return &r->items[i];
    return NULL;
}

status registry_lock_write(const registry *r, const char *path, err *e) {
    buf b = {0};
    buf_printf(&b, "{\"lock_sha\":\"%s\",\"questions\":", r->lock_sha);
    status s = put_lock(r, &b, e);
    buf_text(&b, "}\n");
    if (!s) s = buf_ok(&b, e);
    if (!s) s = file_write(path, b.p, b.len, e);
    buf_free(&b);
    return s;
}

status registry_lock_check(const registry *r, const char *path, err *e) {
    buf text = {0}, drift = {0}, scratch = {0};
    json doc = {0};
    status s = json_read_file(&doc, &text, path, e);
    jref old = json_get(&doc, JREF_ROOT, "questions");
    for (size_t i = 0; !s && i < r->n; i++) {
        const question *q = &r->items[i];
        jref was = json_get(&doc, json_get(&doc, old, q->id), "key");
        strv key = {0};
        if (json_kind_of(&doc, was) != JSON_STRING) buf_printf(&drift, "; '%s' is new", q->id);
        else if (!(s = json_text(&doc, was, &scratch, &key, e)) && !strv_is(key, q->key))
            buf_printf(&drift, "; '%s': key %.*s -> %s: labels and bundles of %.*s no longer apply", q->id, (int)key.n, key.p, q->key, (int)key.n, key.p);
    }
    for (jref k = json_first(&doc, old); !s && k != JREF_NONE; k = json_next(&doc, old, k)) {
        strv id;
        if (!(s = json_text(&doc, k, &scratch, &id, e)) && !registry_find(r, id)) buf_printf(&drift, "; '%.*s' is gone", (int)id.n, id.p);
    }
    if (!s && !drift.len && !json_is(&doc, json_get(&doc, JREF_ROOT, "lock_sha"), r->lock_sha)) buf_text(&drift, "; a twin changed");
    if (!s) s = buf_ok(&drift, e);
    if (!s && drift.len) s = err_set(e, ST_REFUSED, "%s: the registry drifted from its lock%s", path, drift.p);
    json_free(&doc);
    buf_free(&text);
    buf_free(&drift);
    buf_free(&scratch);
    return s;
}
