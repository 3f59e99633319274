#include "json/json.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

#include "base/io.h"
#include "base/mem.h"
#include "json/check.h"

/* jsmn's token, whose parent link (needed only while parsing) becomes the index behind the subtree. */
struct json_token {
    jsmntok_t t;
};

static const jsmntok_t *tok(const json *doc, jref r) {
    return &doc->tokens[r].t;
}

static jref behind(const json *doc, jref r) {
    return (jref)tok(doc, r)->parent;
}

status json_parse(json *doc, const char *text, size_t len, err *e) {
    size_t n;
    doc->n = 0;
    if (len > (size_t)INT_MAX) return err_set(e, ST_INPUT, "a JSON text of %zu bytes: at most %d", len, INT_MAX);
    status s = json_check(text, len, &n, e);
    if (s) return s;
    if (!mem_grow((void **)&doc->tokens, &doc->cap, n, sizeof *doc->tokens)) return err_memory(e, n * sizeof *doc->tokens);
    strv bare = strv_trim((strv){text, len});
    int got;
    if (bare.p[0] != '{' && bare.p[0] != '[' && bare.p[0] != '"') {
        /* jsmn's strict mode knows no number, true, false or null outside a container. */
        int start = (int)(bare.p - text);
        doc->tokens[0].t = (jsmntok_t){.type = JSMN_PRIMITIVE, .start = start, .end = start + (int)bare.n};
        got = 1;
    } else {
        jsmn_parser p;
        jsmn_init(&p);
        got = jsmn_parse(&p, text, len, &doc->tokens[0].t, (unsigned)n);
    }
    if (got < 0 || (size_t)got != n) return err_set(e, ST_INPUT, "not JSON: found %d tokens, expected %zu", got, n);
    doc->text = text;
    doc->len = len;
    doc->n = n;
    for (size_t i = n; i-- > 0;) {
        jref next = (jref)i + 1;
        for (int c = 0; c < tok(doc, (jref)i)->size; c++) next = behind(doc, next);
        doc->tokens[i].t.parent = (int)next;
    }
    return ST_OK;
}

status json_read_file(json *doc, buf *text, const char *path, err *e) {
    status s = file_read(path, text, e);
    if (!s && (s = json_parse(doc, text->p, text->len, e))) err_prefix(e, "%s", path);
    return s;
}

void json_free(json *doc) {
    free(doc->tokens);
    *doc = (json){0};
}

json_kind json_kind_of(const json *doc, jref r) {
    if (r == JREF_NONE || r >= doc->n) return JSON_NONE;
    const jsmntok_t *t = tok(doc, r);
    switch (t->type) {
    case JSMN_OBJECT: return JSON_OBJECT;
    case JSMN_ARRAY: return JSON_ARRAY;
    case JSMN_STRING: return JSON_STRING;
    default: break;
    }
    char c = doc->text[t->start];
    return c == 'n' ? JSON_NULL : c == 't' || c == 'f' ? JSON_BOOL : JSON_NUMBER;
}

const char *json_kind_name(json_kind k) {
    switch (k) {
    case JSON_NULL: return "null";
    case JSON_BOOL: return "true or false";
    case JSON_NUMBER: return "a number";
    case JSON_STRING: return "a string";
    case JSON_ARRAY: return "an array";
    case JSON_OBJECT: return "an object";
    default: return "nothing";
    }
}

static bool is_container(const json *doc, jref r) {
    json_kind k = json_kind_of(doc, r);
    return k == JSON_ARRAY || k == JSON_OBJECT;
}

size_t json_count(const json *doc, jref r) {
    return is_container(doc, r) ? (size_t)tok(doc, r)->size : 0;
}

jref json_first(const json *doc, jref r) {
    return json_count(doc, r) ? r + 1 : JREF_NONE;
}

jref json_next(const json *doc, jref container, jref child) {
    jref next = behind(doc, child);
    return next < behind(doc, container) ? next : JREF_NONE;
}

jref json_value(const json *doc, jref key) {
    return key == JREF_NONE || key + 1 >= doc->n ? JREF_NONE : key + 1;
}

jref json_at(const json *doc, jref array, size_t i) {
    jref r = json_first(doc, array);
    while (r != JREF_NONE && i--) r = json_next(doc, array, r);
    return r;
}

strv json_raw(const json *doc, jref r) {
    if (r == JREF_NONE || r >= doc->n) return (strv){0};
    const jsmntok_t *t = tok(doc, r);
    size_t q = t->type == JSMN_STRING; /* jsmn leaves the quotes out */
    return (strv){doc->text + t->start - q, (size_t)(t->end - t->start) + 2 * q};
}

static size_t utf8_encode(uint32_t u, char out[4]) {
    if (u < 0x80) return out[0] = (char)u, 1;
    if (u < 0x800) return out[0] = (char)(0xC0 | u >> 6), out[1] = (char)(0x80 | (u & 63)), 2;
    if (u < 0x10000)
        return out[0] = (char)(0xE0 | u >> 12), out[1] = (char)(0x80 | (u >> 6 & 63)), out[2] = (char)(0x80 | (u & 63)), 3;
    out[0] = (char)(0xF0 | u >> 18);
    out[1] = (char)(0x80 | (u >> 12 & 63));
    out[2] = (char)(0x80 | (u >> 6 & 63));
    out[3] = (char)(0x80 | (u & 63));
    return 4;
}

/* The escapes were checked when the text was parsed. */
static void decode(strv s, buf *out) {
    for (size_t i = 0; i < s.n;) {
        const char *b = memchr(s.p + i, '\\', s.n - i);
        size_t plain = b ? (size_t)(b - s.p) - i : s.n - i;
        buf_put(out, s.p + i, plain);
        i += plain;
        if (!b) break;
        char c = s.p[i + 1], four[4];
        i += 2;
        if (c != 'u') {
            static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
            const char *k = strchr(from, c);
            buf_byte(out, k ? to[k - from] : c);
            continue;
        }
        uint32_t u = json_hex4(s.p + i);
        i += 4;
        if (u >= 0xD800 && u <= 0xDBFF) {
            u = 0x10000 + ((u - 0xD800) << 10) + (json_hex4(s.p + i + 2) - 0xDC00);
            i += 6;
        }
        buf_put(out, four, utf8_encode(u, four));
    }
}

static strv inner(const json *doc, jref r) {
    const jsmntok_t *t = tok(doc, r);
    return (strv){doc->text + t->start, (size_t)(t->end - t->start)};
}

status json_text(const json *doc, jref r, buf *scratch, strv *out, err *e) {
    json_kind k = json_kind_of(doc, r);
    if (k != JSON_STRING) return err_set(e, ST_INPUT, "found %s, expected a string", json_kind_name(k));
    strv s = inner(doc, r);
    if (!s.n || !memchr(s.p, '\\', s.n)) {
        *out = s;
        return ST_OK;
    }
    buf_clear(scratch);
    decode(s, scratch);
    *out = buf_strv(scratch);
    return buf_ok(scratch, e);
}

status json_text_copy(const json *doc, jref r, const char *what, char **out, err *e) {
    buf b = {0};
    strv v;
    *out = NULL;
    status s = json_text(doc, r, &b, &v, e);
    if (s) {
        s = err_prefix(e, "field '%s'", what);
    } else if (v.n && memchr(v.p, '\0', v.n)) {
        s = err_set(e, ST_INPUT, "field '%s': holds U+0000, which it may not", what);
    } else {
        *out = mem_text(v.p, v.n);
        if (!*out) s = err_memory(e, v.n);
    }
    buf_free(&b);
    return s;
}

static bool text_equal(const json *doc, jref r, strv want) {
    strv s = inner(doc, r);
    /* Decoding never makes a string longer; most keys differ in their length or first byte, which needs no search for escapes. */
    if (s.n < want.n || (want.n && *s.p != *want.p && *s.p != '\\')) return false;
    if (!s.n || !memchr(s.p, '\\', s.n)) return strv_eq(s, want);
    if (s.n == want.n) return false; /* an escape makes it shorter */
    buf b = {0};
    decode(s, &b);
    bool same = !b.failed && strv_eq(buf_strv(&b), want);
    buf_free(&b);
    return same;
}

bool json_is(const json *doc, jref r, const char *text) {
    return json_kind_of(doc, r) == JSON_STRING && text_equal(doc, r, strv_of(text));
}

jref json_get_view(const json *doc, jref obj, strv key) {
    jref found = JREF_NONE;
    if (json_kind_of(doc, obj) != JSON_OBJECT) return found;
    for (jref k = json_first(doc, obj); k != JREF_NONE; k = json_next(doc, obj, k))
        if (text_equal(doc, k, key)) found = k + 1;
    return found;
}

jref json_get(const json *doc, jref obj, const char *key) {
    return json_get_view(doc, obj, strv_of(key));
}

status json_real(const json *doc, jref r, const char *what, double *out, err *e) {
    json_kind k = json_kind_of(doc, r);
    if (k != JSON_NUMBER) return err_set(e, ST_INPUT, "field '%s': found %s, expected a number", what, json_kind_name(k));
    strv s = json_raw(doc, r);
    char small[64], *big = NULL, *end;
    if (s.n < sizeof small) {
        memcpy(small, s.p, s.n);
        small[s.n] = '\0';
    } else if (!(big = mem_text(s.p, s.n))) {
        return err_memory(e, s.n);
    }
    *out = strtod(big ? big : small, &end);
    free(big);
    if (!isfinite(*out)) return err_set(e, ST_INPUT, "field '%s': %.*s is out of range", what, (int)(s.n > 40 ? 40 : s.n), s.p);
    return ST_OK;
}

status json_size(const json *doc, jref r, const char *what, size_t *out, err *e) {
    json_kind k = json_kind_of(doc, r);
    strv s = json_raw(doc, r);
    size_t v = 0;
    bool ok = k == JSON_NUMBER;
    for (size_t i = 0; ok && i < s.n; i++) {
        ok = s.p[i] >= '0' && s.p[i] <= '9' && size_mul(v, 10, &v) && size_add(v, (size_t)(s.p[i] - '0'), &v);
    }
    if (!ok)
        return err_set(e, ST_INPUT, "field '%s': found %.*s, expected a whole number", what,
                       k == JSON_NUMBER ? (int)(s.n > 40 ? 40 : s.n) : (int)strlen(json_kind_name(k)),
                       k == JSON_NUMBER ? s.p : json_kind_name(k));
    *out = v;
    return ST_OK;
}

bool json_true(const json *doc, jref r) {
    return json_kind_of(doc, r) == JSON_BOOL && doc->text[tok(doc, r)->start] == 't';
}
