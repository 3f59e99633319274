#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "json/json.h"

jw jw_of(buf *out) {
    return (jw){.out = out};
}

static void due(jw *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    uint64_t bit = (uint64_t)1 << w->depth;
    if (w->some & bit) buf_byte(w->out, ',');
    w->some |= bit;
}

void jw_open(jw *w, char bracket) {
    due(w);
    buf_byte(w->out, bracket);
    if (w->depth + 1 >= JW_DEPTH_MAX) {
        w->out->failed = true;
        return;
    }
    w->depth++;
    w->some &= ~((uint64_t)1 << w->depth);
}

void jw_close(jw *w, char bracket) {
    w->depth--;
    buf_byte(w->out, bracket);
}

void jw_key_view(jw *w, strv key) {
    due(w);
    json_quote(w->out, key, false);
    buf_byte(w->out, ':');
    w->after_key = true;
}

void jw_key_raw(jw *w, strv quoted) {
    due(w);
    buf_view(w->out, quoted);
    buf_byte(w->out, ':');
    w->after_key = true;
}

void jw_key(jw *w, const char *key) {
    jw_key_view(w, strv_of(key));
}

void jw_view(jw *w, strv s) {
    due(w);
    json_quote(w->out, s, false);
}

void jw_text(jw *w, const char *s) {
    if (s) jw_view(w, strv_of(s));
    else jw_null(w);
}

void jw_size(jw *w, size_t v) {
    due(w);
    char t[NUM_TEXT_MAX];
    buf_put(w->out, t, (size_t)snprintf(t, sizeof t, "%zu", v));
}

void jw_int(jw *w, int64_t v) {
    due(w);
    char t[NUM_TEXT_MAX];
    buf_put(w->out, t, (size_t)snprintf(t, sizeof t, "%lld", (long long)v));
}

void jw_real(jw *w, double v) {
    due(w);
    if (!isfinite(v)) {
        w->out->failed = true;
        return;
    }
    char t[NUM_TEXT_MAX];
    buf_put(w->out, t, num_repr(v, t));
}

void jw_bool(jw *w, bool v) {
    due(w);
    buf_text(w->out, v ? "true" : "false");
}

void jw_null(jw *w) {
    due(w);
    buf_text(w->out, "null");
}

void jw_raw(jw *w, strv json_text) {
    due(w);
    buf_view(w->out, json_text);
}

/* Reads one code point of valid UTF-8 at p; its length goes to *k. */
static uint32_t utf8_decode(const char *p, size_t *k) {
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) return *k = 1, u[0];
    if (u[0] < 0xE0) return *k = 2, (u[0] & 31u) << 6 | (u[1] & 63u);
    if (u[0] < 0xF0) return *k = 3, (u[0] & 15u) << 12 | (u[1] & 63u) << 6 | (u[2] & 63u);
    return *k = 4, (u[0] & 7u) << 18 | (u[1] & 63u) << 12 | (u[2] & 63u) << 6 | (u[3] & 63u);
}

void json_quote(buf *out, strv s, bool ascii) {
    if (!buf_reserve(out, s.n + 2)) return;
    buf_byte(out, '"');
    size_t plain = 0;
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        bool escape = c < 0x20 || c == '"' || c == '\\' || (ascii && c >= 0x7F);
        if (!escape) {
            i++;
            continue;
        }
        buf_put(out, s.p + plain, i - plain);
        static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
        const char *f = c ? strchr(from, c) : NULL;
        size_t k = 1;
        if (f) {
            char two[2] = {'\\', to[f - from]};
            buf_put(out, two, 2);
        } else {
            uint32_t u = utf8_decode(s.p + i, &k);
            if (u >= 0x10000)
                buf_printf(out, "\\u%04x\\u%04x", 0xD800 + ((u - 0x10000) >> 10), 0xDC00 + ((u - 0x10000) & 0x3FF));
            else buf_printf(out, "\\u%04x", u);
        }
        i += k;
        plain = i;
    }
    buf_put(out, s.p + plain, s.n - plain);
    buf_byte(out, '"');
}

static const json_field *field_find(const json *doc, jref key, const json_field *fields, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (json_is(doc, key, fields[i].key)) return &fields[i];
    return NULL;
}

void json_edit(buf *out, const json *doc, jref obj, const json_field *fields, size_t n) {
    bool some = false;
    buf_byte(out, '{');
    for (jref k = json_first(doc, obj); k != JREF_NONE; k = json_next(doc, obj, k)) {
        const json_field *f = field_find(doc, k, fields, n);
        if (f && !f->raw.p) continue;
        if (some) buf_byte(out, ',');
        some = true;
        buf_view(out, json_raw(doc, k));
        buf_byte(out, ':');
        buf_view(out, f ? f->raw : json_raw(doc, json_value(doc, k)));
    }
    for (size_t i = 0; i < n; i++) {
        if (!fields[i].raw.p || json_get(doc, obj, fields[i].key) != JREF_NONE) continue;
        if (some) buf_byte(out, ',');
        some = true;
        json_quote(out, strv_of(fields[i].key), false);
        buf_byte(out, ':');
        buf_view(out, fields[i].raw);
    }
    buf_byte(out, '}');
}

/* --- renderings --- */

typedef struct member {
    char *key; /* decoded, owned */
    size_t n;
    jref value;
} member;

static int member_cmp(const void *a, const void *b) {
    const member *x = a, *y = b;
    return strv_cmp((strv){x->key, x->n}, (strv){y->key, y->n});
}

static void newline(buf *out, const json_style *style, int depth) {
    if (!style->indent) return;
    buf_byte(out, '\n');
    for (int i = 0; i < depth * style->indent; i++) buf_byte(out, ' ');
}

static status render_number(buf *out, const json *doc, jref r, err *e) {
    strv s = json_raw(doc, r);
    bool whole = true;
    for (size_t i = 0; i < s.n; i++) whole = whole && s.p[i] != '.' && s.p[i] != 'e' && s.p[i] != 'E';
    if (whole) {
        buf_view(out, s);
        return ST_OK;
    }
    double v;
    char t[NUM_TEXT_MAX];
    status st = json_real(doc, r, "number", &v, e);
    if (!st) buf_put(out, t, num_repr(v, t));
    return st;
}

static status render(buf *out, const json *doc, jref r, const json_style *style, int depth, err *e);

/* The members, of equal keys only the last value at the first one's place (as a Python dict keeps them). */
static status members_read(const json *doc, jref obj, member **out, size_t *n, err *e) {
    size_t count = json_count(doc, obj);
    member *m = mem_zero(count, sizeof *m);
    *out = m;
    *n = 0;
    if (!m) return err_memory(e, count * sizeof *m);
    buf scratch = {0};
    status s = ST_OK;
    for (jref k = json_first(doc, obj); !s && k != JREF_NONE; k = json_next(doc, obj, k)) {
        strv key;
        if ((s = json_text(doc, k, &scratch, &key, e))) break;
        member *x = &m[(*n)++];
        x->key = mem_text(key.p, key.n);
        x->n = key.n;
        x->value = json_value(doc, k);
        if (!x->key) s = err_memory(e, key.n);
    }
    buf_free(&scratch);
    return s;
}

static void members_free(member *m, size_t n) {
    for (size_t i = 0; i < n; i++) free(m[i].key);
    free(m);
}

static status render_object(buf *out, const json *doc, jref r, const json_style *style, int depth, err *e) {
    member *m;
    size_t n;
    status s = members_read(doc, r, &m, &n, e);
    if (!s && style->sort) qsort(m, n, sizeof *m, member_cmp);
    bool some = false;
    buf_byte(out, '{');
    for (size_t i = 0; !s && i < n; i++) {
        strv key = {m[i].key, m[i].n};
        jref value = json_get_view(doc, r, key);
        bool again = false;
        if (value != m[i].value) /* the key comes more than once; only its first place counts */
            for (size_t j = 0; j < i && !again; j++) again = strv_eq(key, (strv){m[j].key, m[j].n});
        else if (style->sort && i > 0)
            again = strv_eq(key, (strv){m[i - 1].key, m[i - 1].n});
        else if (!style->sort)
            for (size_t j = 0; j < i && !again; j++) again = m[j].n == key.n && strv_eq(key, (strv){m[j].key, m[j].n});
        if (again) continue;
        if (some) buf_text(out, style->item);
        some = true;
        newline(out, style, depth + 1);
        json_quote(out, key, style->ascii);
        buf_text(out, style->key);
        s = render(out, doc, value, style, depth + 1, e);
    }
    if (some) newline(out, style, depth);
    buf_byte(out, '}');
    members_free(m, n);
    return s;
}

static status render(buf *out, const json *doc, jref r, const json_style *style, int depth, err *e) {
    json_kind k = json_kind_of(doc, r);
    if (k == JSON_OBJECT) return render_object(out, doc, r, style, depth, e);
    if (k == JSON_NUMBER) return render_number(out, doc, r, e);
    if (k == JSON_STRING) {
        buf scratch = {0};
        strv v;
        status s = json_text(doc, r, &scratch, &v, e);
        if (!s) json_quote(out, v, style->ascii);
        buf_free(&scratch);
        return s;
    }
    if (k != JSON_ARRAY) {
        buf_view(out, json_raw(doc, r));
        return ST_OK;
    }
    bool some = false;
    status s = ST_OK;
    buf_byte(out, '[');
    for (jref c = json_first(doc, r); !s && c != JREF_NONE; c = json_next(doc, r, c)) {
        if (some) buf_text(out, style->item);
        some = true;
        newline(out, style, depth + 1);
        s = render(out, doc, c, style, depth + 1, e);
    }
    if (some) newline(out, style, depth);
    buf_byte(out, ']');
    return s;
}

status json_render(buf *out, const json *doc, jref r, const json_style *style, err *e) {
    status s = render(out, doc, r, style, 0, e);
    return s ? s : buf_ok(out, e);
}
