/* json.h: one JSON value per text, read with jsmn behind a checker that refuses what jsmn lets through
 * (RFC 8259, strictly: two values, missing values, trailing commas, leading zeros, bare words, control
 * bytes, bad UTF-8, lone surrogates, nesting deeper than JSON_DEPTH_MAX). Values are views into the text,
 * so that what a program does not know passes on as the bytes that were read. Nothing here depends on
 * the locale. Of equal keys in one object the last one counts, as in jq and Python. */
#ifndef ANYJEV_JSON_JSON_H
#define ANYJEV_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define JSON_DEPTH_MAX 512

typedef enum json_kind { JSON_NONE, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

/* A place in a document. JREF_NONE stands for "not there" and every reader accepts it. */
typedef uint32_t jref;
#define JREF_NONE UINT32_MAX
#define JREF_ROOT 0u

/* Starts as {0}; json_free ends it; one may parse again and again (memory is kept).
 * The text is borrowed and must outlive the use of the document. */
typedef struct json {
    const char *text;
    size_t len;
    struct json_token *tokens; /* owned */
    size_t n, cap;
} json;

/* Parses the whole text. A message says the byte offset (from 1) and what was expected there. */
status json_parse(json *doc, const char *text, size_t len, err *e);
void json_free(json *doc);
/* A file that is one JSON text: read into text (which must outlive the use of doc) and parsed; messages name the file. */
status json_read_file(json *doc, buf *text, const char *path, err *e);

json_kind json_kind_of(const json *doc, jref r);
const char *json_kind_name(json_kind k); /* "an object", "a string", ... for messages */
/* Number of elements of an array or members of an object; else 0. */
size_t json_count(const json *doc, jref r);
/* Children: first element (or first key of an object), then the next. JREF_NONE at the end. */
jref json_first(const json *doc, jref r);
jref json_next(const json *doc, jref container, jref child);
jref json_value(const json *doc, jref key); /* the value of a key that json_first/json_next gave */
jref json_at(const json *doc, jref array, size_t i); /* walks; for loops use first/next */
/* The value of a member; JREF_NONE when obj is no object or has no such key. */
jref json_get(const json *doc, jref obj, const char *key);
jref json_get_view(const json *doc, jref obj, strv key);

strv json_raw(const json *doc, jref r); /* as it stands in the text, quotes included */
/* The string's bytes: a view into the text when nothing is escaped, else decoded into scratch (cleared
 * first). r must be a string or a key. May hold NUL bytes. */
status json_text(const json *doc, jref r, buf *scratch, strv *out, err *e);
/* A NUL-terminated copy (the caller frees); refuses strings with a NUL inside. */
status json_text_copy(const json *doc, jref r, const char *what, char **out, err *e);
/* true when r is a string equal to text (escapes decoded). */
bool json_is(const json *doc, jref r, const char *text);
status json_real(const json *doc, jref r, const char *what, double *out, err *e); /* finite */
status json_size(const json *doc, jref r, const char *what, size_t *out, err *e); /* a whole number >= 0 */
bool json_true(const json *doc, jref r);

/* --- writing: appends compact JSON to a buffer; commas come by themselves --- */
#define JW_DEPTH_MAX 64
typedef struct jw {
    buf *out;
    int depth;
    uint64_t some; /* bit d: something was written at depth d, a comma is due */
    bool after_key;
} jw;

jw jw_of(buf *out);
void jw_open(jw *w, char bracket); /* '{' or '[' */
void jw_close(jw *w, char bracket);
void jw_key(jw *w, const char *key);
void jw_key_view(jw *w, strv key);
/* A key as it stands in a document, quotes and escapes included (json_raw of a key). */
void jw_key_raw(jw *w, strv quoted);
void jw_text(jw *w, const char *s); /* NULL writes null */
void jw_view(jw *w, strv s);
void jw_size(jw *w, size_t v);
void jw_int(jw *w, int64_t v);
/* The shortest form that reads back the same. A number that is not finite cannot be written: the
 * buffer is marked failed. */
void jw_real(jw *w, double v);
void jw_bool(jw *w, bool v);
void jw_null(jw *w);
void jw_raw(jw *w, strv json_text); /* a value that is JSON already */

/* A string with quotes and escapes; ascii writes everything beyond 7 bits as \uXXXX. */
void json_quote(buf *out, strv s, bool ascii);

/* --- records with some fields changed --- */
typedef struct json_field {
    const char *key;
    strv raw; /* JSON text of the new value; p NULL drops the field */
} json_field;

/* Appends obj (an object) with fields replaced in place, dropped, or added at the end in the order given;
 * everything else as its bytes stand. */
void json_edit(buf *out, const json *doc, jref obj, const json_field *fields, size_t n);

/* --- other renderings (DESIGN 5) --- */
typedef struct json_style {
    bool sort;              /* keys by code point */
    bool ascii;             /* \uXXXX beyond 7 bits */
    const char *item, *key; /* separators after an item and after a key: ", " and ": "; with indent item ends in no space */
    int indent;             /* 0: one line; else spaces per level, as Python's json.dumps(indent=) */
} json_style;

/* Renders the value again: integers as written, other numbers in their shortest form (1.0 stays 1.0, 1e16
 * becomes 1e+16), strings with the fewest escapes. Numbers out of the range of a double are refused. */
status json_render(buf *out, const json *doc, jref r, const json_style *style, err *e);

/* true when the bytes are valid UTF-8 (no surrogates, no overlong forms, up to U+10FFFF); *at: the offset of the first bad byte. */
bool utf8_valid(const char *s, size_t n, size_t *at);
/* Bytes that the first `points` code points of valid UTF-8 take. */
size_t utf8_prefix(strv s, size_t points);

#endif
