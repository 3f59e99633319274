/* Decomposition and composition are utf8proc's. Its ordering of combining marks swaps neighbours, which takes
 * quadratic time on a long run of marks: here the runs are sorted by counting. */
#include "token/nfc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"

#define NFC_OPTIONS ((utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE))
enum { FEW = 16 };

typedef struct points {
    utf8proc_int32_t *p;
    size_t n, cap;
} points;

static unsigned class_of(utf8proc_int32_t c) {
    return (unsigned)utf8proc_get_property(c)->combining_class;
}

static status decompose(strv text, points *out, err *e) {
    for (size_t i = 0; i < text.n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)text.p + i, (utf8proc_ssize_t)(text.n - i), &c);
        if (k <= 0) return err_set(e, ST_INPUT, "the text holds invalid UTF-8 at byte %zu", i + 1);
        i += (size_t)k;
        size_t room = 8; /* the longest canonical decomposition takes four */
        for (;;) {
            if (!mem_grow((void **)&out->p, &out->cap, out->n + room, sizeof *out->p)) return err_memory(e, out->n * sizeof *out->p);
            int boundary = 0;
            utf8proc_ssize_t got = utf8proc_decompose_char(c, out->p + out->n, (utf8proc_ssize_t)room, NFC_OPTIONS, &boundary);
            if (got < 0) return err_set(e, ST_INPUT, "cannot normalise the text: %s", utf8proc_errmsg(got));
            if ((size_t)got > room) {
                room = (size_t)got;
                continue;
            }
            out->n += (size_t)got;
            break;
        }
    }
    return ST_OK;
}

/* Stable, by combining class. */
static status sort_run(utf8proc_int32_t *p, size_t n, err *e) {
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            utf8proc_int32_t x = p[i];
            size_t k = i;
            for (; k && class_of(p[k - 1]) > class_of(x); k--) p[k] = p[k - 1];
            p[k] = x;
        }
        return ST_OK;
    }
    size_t start[257] = {0};
    utf8proc_int32_t *copy = mem_alloc(n, sizeof *copy);
    if (!copy) return err_memory(e, n * sizeof *copy);
    memcpy(copy, p, n * sizeof *copy);
    for (size_t i = 0; i < n; i++) start[class_of(p[i]) + 1]++;
    for (size_t c = 0; c < 256; c++) start[c + 1] += start[c];
    for (size_t i = 0; i < n; i++) p[start[class_of(copy[i])]++] = copy[i];
    free(copy);
    return ST_OK;
}

static status order(points *x, err *e) {
    status s = ST_OK;
    for (size_t i = 0; !s && i < x->n;) {
        size_t k = i;
        while (k < x->n && class_of(x->p[k])) k++;
        if (k - i > 1) s = sort_run(x->p + i, k - i, e);
        i = k + 1;
    }
    return s;
}

/* Composes and encodes. utf8proc 2.8 swallows U+11A7, which stands before the first final consonant of Hangul
 * and is none, behind a syllable; as nothing composes with it, the stretches around it are composed apart. */
static status compose(points *x, buf *out, err *e) {
    for (size_t i = 0; i < x->n;) {
        size_t k = i;
        while (k < x->n && x->p[k] != 0x11A7) k++;
        utf8proc_ssize_t n = utf8proc_normalize_utf32(x->p + i, (utf8proc_ssize_t)(k - i), NFC_OPTIONS);
        if (n < 0) return err_set(e, ST_INPUT, "cannot normalise the text: %s", utf8proc_errmsg(n));
        if (k < x->n) x->p[i + (size_t)n++] = x->p[k];
        for (size_t j = i; j < i + (size_t)n; j++) {
            utf8proc_uint8_t c[4];
            buf_put(out, c, (size_t)utf8proc_encode_char(x->p[j], c));
        }
        i = k + 1;
    }
    return buf_ok(out, e);
}

status nfc_normalize(strv text, buf *space, strv *out, err *e) {
    *out = text;
    /* Nothing below U+0300 composes with anything below it, and U+0300 starts with the byte 0xCC. */
    size_t low = 0;
    while (low < text.n && (unsigned char)text.p[low] < 0xCC) low++;
    if (low == text.n) return ST_OK;
    points x = {0};
    buf_clear(space);
    status s = decompose(text, &x, e);
    if (!s) s = order(&x, e);
    if (!s) s = compose(&x, space, e);
    free(x.p);
    if (!s) *out = buf_strv(space);
    return s;
}
