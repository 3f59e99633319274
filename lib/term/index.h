/* index.h: terms in SQLite, found by their names through FTS5. */
#ifndef ANYJEV_TERM_INDEX_H
#define ANYJEV_TERM_INDEX_H

#include "term/term.h"

/* Writes a new index of the terms of files, beside path, synced and renamed. Counts are summed over the files. */
status term_index_build(const char *path, char *const *files, size_t n, term_counts *counts, err *e);

typedef struct term_index term_index;
/* ST_INPUT: no index, or one of another version. */
status term_index_open(term_index **ix, const char *path, err *e);
void term_index_close(term_index *ix);

/* A term as it is found; texts are valid during the call. synonyms is a JSON array. */
typedef struct term_found {
    const char *curie, *iri, *label, *ontology, *description, *synonyms;
    bool has_children;
    size_t rank; /* from 1 */
} term_found;
typedef status term_take(void *ctx, const term_found *t, err *e);

/* At most `limit` terms, best first: those with the query as label, then as synonym or CURIE, then those whose label or synonyms have
 * all its words, then some of them, by BM25 (Robertson and Zaragoza 2009; a word in the label counts most); ties by CURIE.
 * ontologies[n]: only these, any case; n 0: all. ST_INPUT: the index lacks one of them. */
status term_index_search(term_index *ix, strv query, char *const *ontologies, size_t n, size_t limit, term_take *take, void *ctx, err *e);

#endif
