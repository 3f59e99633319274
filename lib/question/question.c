#include "question/question.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

static const char *const kinds[] = {"choice", "noul", "score"};

const char *question_kind_name(question_kind k) {
    return kinds[k];
}

status question_kind_read(const json *doc, jref r, question_kind *k, err *e) {
    for (int i = 0; i < 3; i++)
        if (json_is(doc, r, kinds[i])) {
            *k = (question_kind)i;
            return ST_OK;
        }
    return err_set(e, ST_INPUT, "field 'kind': expected choice, noul or score");
}

status question_noul_check(const char *first, const char *second, err *e) {
    if (strcmp(first, "No") != 0 && strcmp(second, "Yes") != 0) return ST_OK;
    return err_set(e, ST_INPUT, "field 'options': a noul question lists first the one answered Yes");
}

static status read_options(question *q, const json *doc, jref obj, err *e) {
    static const size_t most[] = {OPTIONS_MAX, 2, 10};
    jref list = json_get(doc, obj, "options");
    size_t n = json_count(doc, list);
    if (list == JREF_NONE && q->kind == QUESTION_NOUL) {
        q->options[0] = mem_text("Yes", 3);
        q->options[1] = mem_text("No", 2);
        q->n_options = 2;
        return q->options[0] && q->options[1] ? ST_OK : err_memory(e, 4);
    }
    if (json_kind_of(doc, list) != JSON_ARRAY) return err_set(e, ST_INPUT, "field 'options': found %s, expected an array of strings", json_kind_name(json_kind_of(doc, list)));
    if (n < 2 || n > most[q->kind]) {
        if (q->kind == QUESTION_NOUL) return err_set(e, ST_INPUT, "field 'options': a noul question has 2 options, found %zu", n);
        return err_set(e, ST_INPUT, "field 'options': a %s question has 2 to %zu options, found %zu", kinds[q->kind], most[q->kind], n);
    }
    for (jref o = json_first(doc, list); o != JREF_NONE; o = json_next(doc, list, o)) {
        status s = json_text_copy(doc, o, "options", &q->options[q->n_options], e);
        if (s) return s;
        const char *text = q->options[q->n_options];
        if (!*text) {
            free(q->options[q->n_options]);
            q->options[q->n_options] = NULL;
            return err_set(e, ST_INPUT, "field 'options': an option is empty");
        }
        if (question_option(q, strv_of(text)) < q->n_options) {
            free(q->options[q->n_options]);
            q->options[q->n_options] = NULL;
            return err_set(e, ST_INPUT, "field 'options': an option comes twice");
        }
        q->n_options++;
    }
    return q->kind == QUESTION_NOUL ? question_noul_check(q->options[0], q->options[1], e) : ST_OK;
}

size_t question_option(const question *q, strv text) {
    size_t i = 0;
    while (i < q->n_options && !strv_is(text, q->options[i])) i++;
    return i;
}

static bool there(const json *doc, jref r) {
    json_kind k = json_kind_of(doc, r);
    return k != JSON_NONE && k != JSON_NULL;
}

static status read_json(const json *doc, jref r, char **out, err *e) {
    static const json_style style = {.sort = true, .ascii = true, .item = ", ", .key = ": "};
    buf b = {0};
    if (!there(doc, r)) return ST_OK;
    status s = json_render(&b, doc, r, &style, e);
    if (!s && !(*out = buf_take(&b))) s = err_memory(e, 1);
    buf_free(&b);
    return s;
}

static status read_centers(question *q, const json *doc, jref obj, err *e) {
    jref c = json_get(doc, obj, "centers"), scale = json_get(doc, obj, "scale");
    if (there(doc, c)) {
        if (q->kind != QUESTION_SCORE || json_kind_of(doc, c) != JSON_ARRAY || json_count(doc, c) != q->n_options)
            return err_set(e, ST_INPUT, "field 'centers': expected one number per option of a score question");
        for (jref x = json_first(doc, c); x != JREF_NONE; x = json_next(doc, c, x)) {
            double v;
            status s = json_real(doc, x, "centers", &v, e);
            if (s) return s;
        }
    }
    if (there(doc, scale) && json_count(doc, scale) != 2) return err_set(e, ST_INPUT, "field 'scale': expected two numbers");
    status s = read_json(doc, c, &q->centers, e);
    return s ? s : read_json(doc, scale, &q->scale, e);
}

static void put_options(const question *q, buf *out, const char *item, bool ascii) {
    buf_byte(out, '[');
    for (size_t i = 0; i < q->n_options; i++) {
        if (i) buf_text(out, item);
        json_quote(out, strv_of(q->options[i]), ascii);
    }
    buf_byte(out, ']');
}

static status make_key(question *q, err *e) {
    buf b = {0};
    char hex[SHA256_HEX_SIZE];
    buf_printf(&b, "{\"centers\": %s, \"kind\": \"%s\", \"options\": ", q->centers ? q->centers : "null", kinds[q->kind]);
    put_options(q, &b, ", ", true);
    buf_printf(&b, ", \"scale\": %s, \"text\": ", q->scale ? q->scale : "[0.0, 1.0]");
    json_quote(&b, strv_of(q->text), true);
    buf_byte(&b, '}');
    status s = buf_ok(&b, e);
    if (!s) s = sha256_hex(b.p, b.len, hex, e);
    if (!s) {
        memcpy(q->key, hex, KEY_SIZE - 1);
        q->key[KEY_SIZE - 1] = '\0';
    }
    buf_free(&b);
    return s;
}

static status read_all(question *q, const json *doc, jref obj, err *e) {
    if (json_kind_of(doc, obj) != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'question': found %s, expected an id or an object", json_kind_name(json_kind_of(doc, obj)));
    jref id = json_get(doc, obj, "id"), twin = json_get(doc, obj, "twin"), text = json_get(doc, obj, "text");
    status s = there(doc, id) ? json_text_copy(doc, id, "id", &q->id, e) : ST_OK;
    if (!s && there(doc, twin)) s = json_text_copy(doc, twin, "twin", &q->twin, e);
    if (!s && !there(doc, text)) s = err_set(e, ST_INPUT, "field 'text' is missing: the question's wording");
    if (!s) s = json_text_copy(doc, text, "text", &q->text, e);
    if (!s && !*q->text) s = err_set(e, ST_INPUT, "field 'text' is empty");
    if (!s) s = question_kind_read(doc, json_get(doc, obj, "kind"), &q->kind, e);
    if (!s) s = read_options(q, doc, obj, e);
    if (!s) s = read_centers(q, doc, obj, e);
    return s ? s : make_key(q, e);
}

status question_read(question *q, const json *doc, jref obj, err *e) {
    *q = (question){0};
    status s = read_all(q, doc, obj, e);
    if (s) question_free(q);
    return s;
}

void question_free(question *q) {
    free(q->id);
    free(q->text);
    for (size_t i = 0; i < q->n_options; i++) free(q->options[i]);
    free(q->centers);
    free(q->scale);
    free(q->twin);
    *q = (question){0};
}

const char *question_label(const question *q, size_t i) {
    static const char *const letters[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M",
                                          "N", "O", "P", "Q", "R", "S", "T", "U", "V", "W", "X", "Y", "Z"};
    static const char *const digits[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    static const char *const yes_no[] = {"Yes", "No"};
    if (q->kind == QUESTION_NOUL) return yes_no[i];
    return q->kind == QUESTION_SCORE && q->n_options <= 9 ? digits[i] : letters[i];
}

size_t question_full(question_kind kind, size_t k) {
    return kind == QUESTION_SCORE ? 1 : k;
}

size_t question_shifts(const question *q) {
    return question_full(q->kind, q->n_options);
}

size_t question_at(const question *q, size_t s, size_t j) {
    return (j + s) % q->n_options; /* for two options the shifts are both orders */
}

/* --- registry --- */

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
        buf_printf(out, ":{\"key\":\"%s\",\"kind\":\"%s\",\"options\":", q->key, kinds[q->kind]);
        put_options(q, out, ",", false);
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
