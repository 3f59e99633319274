/* question.h: typed questions, their keys, the registry and its lock. */
#ifndef ANYJEV_QUESTION_QUESTION_H
#define ANYJEV_QUESTION_QUESTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "json/json.h"

typedef enum question_kind { QUESTION_CHOICE, QUESTION_NOUL, QUESTION_SCORE } question_kind;

enum { OPTIONS_MAX = 26, KEY_SIZE = 17 };

typedef struct question {
    char *id; /* NULL for an inline question without one */
    question_kind kind;
    char *text;
    char *options[OPTIONS_MAX];
    size_t n_options;
    char *centers; /* JSON, or NULL */
    char *scale;   /* JSON, or NULL */
    char *twin;    /* id, or NULL */
    char key[KEY_SIZE];
} question;

/* From a JSON object {id, kind, text, options, centers, scale, twin}. A noul question without options has Yes and
 * No. Sets the key (DESIGN 5). question_free ends it; q need not be initialised. */
status question_read(question *q, const json *doc, jref obj, err *e);
void question_free(question *q);
const char *question_kind_name(question_kind k);
/* The kind that a JSON string names. */
status question_kind_read(const json *doc, jref r, question_kind *k, err *e);
/* Of a noul question the first option is the one that the label Yes stands for: ST_INPUT when the texts say otherwise. */
status question_noul_check(const char *first, const char *second, err *e);
/* Prompts that show every option at every position: k cyclic shifts (both orders of two), one for a score. */
size_t question_full(question_kind kind, size_t k);
/* Index of the option with this text, or n_options. */
size_t question_option(const question *q, strv text);

/* A label by position (choice, score) or by option (noul): A..Z; Yes, No; 1..9, or letters above nine bins. */
const char *question_label(const question *q, size_t i);

/* How many permutations a question has: K cyclic shifts, both orders, or one. */
size_t question_shifts(const question *q);
/* Option at position j under shift s. */
size_t question_at(const question *q, size_t s, size_t j);

typedef struct registry {
    question *items;
    size_t n, cap;
    char lock_sha[SHA256_HEX_SIZE];
} registry;

/* A file {"questions": [...]}; ids must differ, twins must exist and be noul. registry starts as {0}. */
status registry_load(registry *r, const char *path, err *e);
void registry_free(registry *r);
const question *registry_find(const registry *r, strv id);

/* The lock: {"lock_sha": ..., "questions": {id: {key, kind, options, text, twin}}}. */
status registry_lock_write(const registry *r, const char *path, err *e);
/* ST_REFUSED, naming every question that drifted: "key A -> B: labels and bundles of A no longer apply". */
status registry_lock_check(const registry *r, const char *path, err *e);

#endif
