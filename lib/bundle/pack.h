/* pack.h: what head-fit wrote, and AnyJev's own files, to the parts of a bundle; and back. */
#ifndef ANYJEV_BUNDLE_PACK_H
#define ANYJEV_BUNDLE_PACK_H

#include "bundle/bundle.h"

/* The parts of a new version, gathered. Starts as {0}; pack_free ends it. */
typedef struct pack {
    char *identity; /* JSON of the model; all parts must have the same */
    char **names;   /* [n] question/level, owned */
    buf *fits, *artifacts, *observations; /* [n] JSON, JSON, JSON Lines */
    size_t n, cap;
    buf inputs;     /* members of a JSON object */
    json results;   /* of pack_results */
    buf results_text;
} pack;

/* A file of head-fit: what it says of a question and level replaces what is there. ST_REFUSED: fitted on another model. */
status pack_artifacts(pack *p, const char *path, err *e);
/* What the bundle in service has stays, where the new parts say nothing (call first). */
status pack_carry(pack *p, const bundle *b, err *e);
/* The results record whose cells give the held-out figures. ST_REFUSED: made under another lock. */
status pack_results(pack *p, const char *path, const char *lock_sha, err *e);
/* The parts as store_create takes them; texts (five buffers) hold them. */
status pack_parts(pack *p, const char *lock_sha, bundle_parts *parts, buf texts[4], err *e);
void pack_free(pack *p);

/* AnyJev's JSON {"model", "artifacts": {key: ...}, "heads": {key: ...}}. plain: arrays as numbers. */
status pack_export(const bundle *b, bool plain, buf *out, err *e);
/* The other way: lines as head-fit writes them (a fit and an artifact each), bound to the model of `identity` (JSON). */
status pack_import(const json *doc, const char *identity, buf *out, err *e);

#endif
