#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

strv strv_of(const char *text) {
    return (strv){text, text ? strlen(text) : 0};
}

bool strv_eq(strv a, strv b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool strv_is(strv a, const char *text) {
    return strv_eq(a, strv_of(text));
}

bool strv_starts(strv a, const char *text) {
    size_t n = strlen(text);
    return a.n >= n && memcmp(a.p, text, n) == 0;
}

int strv_cmp(strv a, strv b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    if (c) return c;
    return (a.n > b.n) - (a.n < b.n);
}

static bool ascii_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

strv strv_line(strv *rest) {
    const char *end = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    strv line = {rest->p, end ? (size_t)(end - rest->p) : rest->n};
    *rest = end ? (strv){end + 1, rest->n - line.n - 1} : (strv){NULL, 0};
    if (line.n && line.p[line.n - 1] == '\r') line.n--;
    return line;
}

strv strv_trim(strv a) {
    while (a.n && ascii_space(a.p[0])) a.p++, a.n--;
    while (a.n && ascii_space(a.p[a.n - 1])) a.n--;
    return a;
}

void buf_free(buf *b) {
    free(b->p);
    *b = (buf){0};
}

void buf_clear(buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->p) b->p[0] = '\0';
}

bool buf_reserve(buf *b, size_t more) {
    size_t need;
    if (b->failed) return false;
    if (!size_add(b->len, more, &need) || !size_add(need, 1, &need) ||
        !mem_grow((void **)&b->p, &b->cap, need, 1)) {
        b->failed = true;
        return false;
    }
    return true;
}

void buf_put(buf *b, const void *bytes, size_t n) {
    if (!buf_reserve(b, n)) return;
    if (n) memcpy(b->p + b->len, bytes, n);
    b->len += n;
    b->p[b->len] = '\0';
}

void buf_text(buf *b, const char *text) {
    buf_put(b, text, strlen(text));
}

void buf_view(buf *b, strv v) {
    buf_put(b, v.p, v.n);
}

void buf_byte(buf *b, char c) {
    buf_put(b, &c, 1);
}

void buf_printf(buf *b, const char *fmt, ...) {
    char small[256];
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    if (n < 0) b->failed = true;
    else if ((size_t)n < sizeof small) buf_put(b, small, (size_t)n);
    else if (buf_reserve(b, (size_t)n)) {
        vsnprintf(b->p + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

status buf_ok(const buf *b, err *e) {
    return b->failed ? err_memory(e, b->cap * 2) : ST_OK;
}

strv buf_strv(const buf *b) {
    return (strv){b->p, b->len};
}

char *buf_take(buf *b) {
    if (!b->failed) buf_reserve(b, 0);
    char *p = b->failed ? NULL : b->p;
    if (!p) {
        free(b->p);
    } else {
        p[b->len] = '\0';
    }
    *b = (buf){0};
    return p;
}
