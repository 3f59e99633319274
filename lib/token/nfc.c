/* Decomposition and composition are utf8proc's. Its ordering of combining marks swaps neighbours, which takes
 * quadratic time on a long run of marks: here the runs are sorted by counting. */
#include "token/nfc.h"

#include <stdbool.h>
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

/* Characters that stand alone for the reference tokenizers' normaliser, whose data is Unicode 9's: marks and one
 * vowel (U+11938 = U+11935 U+11930) that came later. And U+11A7, which stands before the first final consonant of
 * Hangul and is none: utf8proc 2.8 swallows it behind a syllable. */
static const utf8proc_int32_t alone[][2] = {
    {0x7FD, 0x7FD}, {0x898, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE}, {0xC3C, 0xC3C}, {0xD3B, 0xD3C}, {0xEBA, 0xEBA},
    {0xECE, 0xECE}, {0x11A7, 0x11A7}, {0x1715, 0x1715}, {0x1ABF, 0x1ACE}, {0x1DF6, 0x1DFA}, {0xA82C, 0xA82C},
    {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930},
    {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

static bool is_alone(utf8proc_int32_t c) {
    size_t lo = 0, hi = sizeof alone / sizeof *alone;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (alone[mid][1] < c) lo = mid + 1;
        else hi = mid;
    }
    return lo < sizeof alone / sizeof *alone && c >= alone[lo][0];
}

static unsigned class_of(utf8proc_int32_t c) {
    return is_alone(c) ? 0 : (unsigned)utf8proc_get_property(c)->combining_class;
}

static status decompose(strv text, points *out, err *e) {
    for (size_t i = 0; i < text.n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)text.p + i, (utf8proc_ssize_t)(text.n - i), &c);
        if (k <= 0) return err_set(e, ST_INPUT, "the text holds invalid UTF-8 at byte %zu", i + 1);
        i += (size_t)k;
        if (is_alone(c)) {
            if (!mem_grow((void **)&out->p, &out->cap, out->n + 1, sizeof *out->p)) return err_memory(e, out->n * sizeof *out->p);
            out->p[out->n++] = c;
            continue;
        }
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

/* Composes and encodes: the stretches between the characters that stand alone, which compose with nothing. */
static status compose(points *x, buf *out, err *e) {
    for (size_t i = 0; i < x->n;) {
        size_t k = i;
        while (k < x->n && !is_alone(x->p[k])) k++;
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
