/* card.h: a dataset card (Markdown) to a card record. */
#ifndef ANYJEV_CARD_CARD_H
#define ANYJEV_CARD_CARD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* The grammar, one item a line, in any order behind the first:
 *   # Dataset: <product> / <table>
 *   Product: <code> - <title>. <description>     (hyphen, en dash or em dash)
 *   Source: ...
 *   Sites: CODE (name, state, domain Dnn name; habitat) and CODE (...)
 *   Rows: N; months covered: A to B ...
 *   - name | description | dtype | unit or - | profile        (the profile may hold bars)
 * CRLF, a byte order mark, blank lines and further headings are accepted; other lines are too, unless strict.
 * text must be the whole file; file names it in messages and in the record. Appends the record (DESIGN 4) to out. */
status card_parse(strv text, const char *file, bool strict, buf *out, err *e);

/* Does a column hold identifiers, bookkeeping or dates, which no ontology term describes? */
bool card_identifier(strv name, strv dtype, strv profile);

#endif
