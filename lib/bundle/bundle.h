/* bundle.h: versioned files of artifacts (DESIGN 9): <home>/<model slug>/<first 8 of lock_sha>/vN.jsonl.zst, a zstd file with a
 * content checksum of JSON Lines: a manifest, artifacts, observations. Versions never change; CURRENT names the one in service. */
#ifndef ANYJEV_BUNDLE_BUNDLE_H
#define ANYJEV_BUNDLE_BUNDLE_H

#include "decide/artifact.h"

/* A bundle that was read. Starts as {0}; bundle_free ends it. */
typedef struct bundle {
    char *path;
    char *manifest; /* JSON */
    char *lock_sha;
    char *identity; /* JSON of the model */
    size_t version;
    artifact *artifacts; /* [n] */
    size_t n, cap;
    buf artifact_lines, observations; /* as they stand */
} bundle;

/* Reads and checks everything: the zstd checksum, the hash that the manifest carries, every artifact. ST_INPUT names the file. */
status bundle_read(bundle *b, const char *path, err *e);
void bundle_free(bundle *b);

/* The file that path means: itself, or the version in service of the folder. ST_REFUSED when nothing is in service. *file is the
 * caller's. */
status bundle_locate(const char *path, char **file, err *e);
/* {"version": N, "sha256": ..., "lock_sha": ...}: how a decision names its bundle. */
status bundle_name(const bundle *b, buf *out, err *e);

/* --- the store --- */

/* <home>/<slug of the model's name>/<first 8 of lock_sha>; the caller frees. */
status store_folder(const char *home, strv model_name, const char *lock_sha, char **folder, err *e);

/* What goes into a new version. */
typedef struct bundle_parts {
    const char *identity, *lock_sha; /* JSON; hex */
    strv questions;  /* JSON object: {id/level: what the fit said} */
    strv inputs;     /* JSON object: {name: sha256} */
    strv artifact_lines, observations; /* JSON Lines, each line ended */
} bundle_parts;

/* Writes the next version into the folder (made when it is not there), beside it, synced and renamed; takes the folder's lock
 * meanwhile. *version: its number. */
status store_create(const char *folder, const bundle_parts *parts, size_t *version, err *e);
/* 0: none. */
status store_current(const char *folder, size_t *version, err *e);
/* Moves CURRENT to a version (write, fsync, rename), under the lock. checked: refuse (ST_REFUSED) a version that has no held-out
 * figures, or whose accuracy or ECE at a question is worse than that of the version in service, or that lacks a question of it. */
status store_promote(const char *folder, size_t version, bool checked, err *e);
/* CURRENT to the highest version below it; ST_REFUSED when there is none. *version: that one. */
status store_rollback(const char *folder, size_t *version, err *e);
/* Removes all but the newest `keep` versions; the one in service stays. */
status store_prune(const char *folder, size_t keep, size_t *removed, err *e);
/* Versions in the folder, ascending; *list is the caller's. */
status store_versions(const char *folder, size_t **list, size_t *n, err *e);
status store_path(const char *folder, size_t version, char **path, err *e);

#endif
