/* buf.h: growable bytes and views of bytes. Lengths, not terminators: a NUL is a byte like others. */
#ifndef ANYJEV_BASE_BUF_H
#define ANYJEV_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A view: n bytes at p, owned by someone else. p may be NULL when n is 0. */
typedef struct strv {
    const char *p;
    size_t n;
} strv;

strv strv_of(const char *text); /* of a C string; NULL gives an empty view */
bool strv_eq(strv a, strv b);
bool strv_is(strv a, const char *text);
bool strv_starts(strv a, const char *text);
int strv_cmp(strv a, strv b); /* by bytes, then by length: UTF-8 in code point order */
/* The first line of *rest (without its "\n", and without a "\r" before that), which moves behind it. */
strv strv_line(strv *rest);
strv strv_trim(strv a);       /* without ASCII white space at both ends */

/* Starts as {0}; buf_free ends it. When memory runs out the buffer keeps what it has and remembers:
 * appending to it is harmless from then on, and buf_ok (asked once, before the bytes are used) fails.
 * The bytes are always followed by a NUL that len does not count (p is NULL while nothing was put). */
typedef struct buf {
    char *p;
    size_t len;
    size_t cap;
    bool failed;
} buf;

void buf_free(buf *b);
void buf_clear(buf *b); /* empty again, memory kept, failure forgotten */
bool buf_reserve(buf *b, size_t more);
void buf_put(buf *b, const void *bytes, size_t n);
void buf_text(buf *b, const char *text);
void buf_view(buf *b, strv v);
void buf_byte(buf *b, char c);
void buf_printf(buf *b, const char *fmt, ...) ERR_PRINTF(2, 3);
status buf_ok(const buf *b, err *e);
strv buf_strv(const buf *b);
/* Hands the bytes over (the caller frees); NULL if the buffer failed. The buffer is empty then. */
char *buf_take(buf *b);

#endif
