/* where.h: which columns an earlier stage said Yes to. */
#ifndef ANYJEV_QUESTION_WHERE_H
#define ANYJEV_QUESTION_WHERE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* The (meta.card, meta.column) pairs of the decisions on column.annotate in a file whose answer is "Yes". Starts as {0}. */
typedef struct where {
    char **pairs; /* "card\ncolumn", sorted */
    size_t n, cap;
} where;

status where_load(where *w, const char *path, err *e);
bool where_has(const where *w, strv card, strv column);
void where_free(where *w);

#endif
