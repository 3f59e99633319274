/* registry.h: the file of questions that a run may ask, its lock, and the ontologies that terms come from. */
#ifndef ANYJEV_QUESTION_REGISTRY_H
#define ANYJEV_QUESTION_REGISTRY_H

#include "question/question.h"

/* Where terms come from, and which aspects of a column each serves. */
typedef struct ontology {
    char *id, *description;
    char **aspects; /* [n] sorted */
    size_t n;
} ontology;
bool ontology_serves(const ontology *o, strv aspect);
/* {"id": ..., "description": ..., "aspects": [...]}: as the state of column.ontology_fits holds it. */
void ontology_put(const ontology *o, jw *w);

typedef struct registry {
    question *items;
    size_t n, cap;
    char lock_sha[SHA256_HEX_SIZE];
    ontology *ontologies; /* owned */
    size_t n_ontologies;
} registry;

/* A file {"questions": [...], "ontologies": [...]}; ids must differ, twins must exist and be noul. registry starts as {0}. */
status registry_load(registry *r, const char *path, err *e);
void registry_free(registry *r);
const question *registry_find(const registry *r, strv id);

/* The lock: {"lock_sha": ..., "questions": {id: {key, kind, options, text, twin}}}. */
status registry_lock_write(const registry *r, const char *path, err *e);
/* ST_REFUSED, naming every question that drifted: "key A -> B: labels and bundles of A no longer apply". */
status registry_lock_check(const registry *r, const char *path, err *e);

#endif
