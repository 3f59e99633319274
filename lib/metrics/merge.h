/* merge.h: results of several runs in one table. */
#ifndef ANYJEV_METRICS_MERGE_H
#define ANYJEV_METRICS_MERGE_H

#include "json/json.h"

/* Starts as {0}; merge_free ends it. */
typedef struct merge {
    buf rows; /* of the table */
    char *lock;  /* lock_sha of the first results; the others must have the same */
    buf cells;   /* of the merged record */
    size_t n;
} merge;

/* Adds a results record. ST_REFUSED: it was made under another lock, so its questions are not those of the others. */
status merge_add(merge *m, const json *results, err *e);
/* format: json, md or tsv. */
status merge_put(const merge *m, const char *format, buf *out, err *e);
void merge_free(merge *m);

#endif
