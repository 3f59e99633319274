/* term.h: terms of ontologies: read from the files that ontologies are published in, kept in an index, searched. */
#ifndef ANYJEV_TERM_TERM_H
#define ANYJEV_TERM_TERM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct term_list {
    char **items; /* owned */
    size_t n, cap;
} term_list;
status term_list_add(term_list *l, strv text, err *e);

/* One term as a file has it. Texts are owned; term_free empties it for the next. */
typedef struct term {
    char *curie, *iri, *label, *description;
    term_list synonyms, parents, alternates; /* parents and alternates as CURIEs */
    bool obsolete, root, has_children;
} term;
void term_free(term *t);

/* "ENVO:00000020" of ".../obo/ENVO_00000020", "ENVO_00000020" or the CURIE itself; NULL for anything else (or no memory). The
 * prefix is spelt as its ontology spells it: upper case, but for those that mix (NCBITaxon). The caller frees. */
char *curie_of(strv text);
/* "ENVO" of a CURIE. */
strv curie_prefix(const char *curie);

/* What was read and what was left out. */
typedef struct term_counts {
    size_t kept, obsolete, imported, roots, nameless;
} term_counts;

/* Calls put for every term of a file: OBO 1.4, OBO Graphs JSON, or a dump of an OLS (an array of terms, or pages of them), told by
 * its content. The ontology is that of the file (its header, or the prefix that most of its terms have). Obsolete terms, terms imported
 * from another ontology, roots and terms without a label are counted and left out. */
typedef status term_put(void *ctx, const term *t, const char *ontology, err *e);
status term_read_file(const char *path, term_put *put, void *ctx, term_counts *counts, err *e);

/* --- for readers --- */
typedef struct term_file {
    term *terms; /* owned */
    size_t n, cap;
    char *ontology; /* as the file says, or NULL */
} term_file;
status term_file_add(term_file *f, term *t, err *e); /* takes t over and empties it */
status term_read_obo(term_file *f, strv text, err *e);
status term_read_json(term_file *f, strv text, err *e);

#endif
