/* journal.h: what was answered already, so that a run that was killed goes on where it was. JSON Lines: a header that
 * says of whom the answers are, then {"key": ..., "answer": ...}. Every line is appended whole and synced; a torn last
 * line is dropped when the file is opened again. */
#ifndef ANYJEV_NET_JOURNAL_H
#define ANYJEV_NET_JOURNAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct journal journal;

enum { JOURNAL_KEY = 32 }; /* hex digits */

/* Opens or makes the file; no other run may have it open (ST_REFUSED). */
status journal_open(journal **j, const char *path, err *e);
void journal_close(journal *j);
/* The header's text; empty when the file is new. */
strv journal_header(const journal *j);
status journal_start(journal *j, strv header, err *e); /* of a new file; one line, {"type":"journal", ...} */
size_t journal_count(const journal *j);

/* Appends the answer (JSON text) that stands under the key to out; *found tells whether there was one. */
status journal_find(journal *j, const char *key, buf *out, bool *found, err *e);
/* Adds a line; it is safe after journal_sync. */
status journal_add(journal *j, const char *key, strv answer, err *e);
status journal_sync(journal *j, err *e);

#endif
