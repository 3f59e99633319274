/* question.h: typed questions and their keys. */
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

/* From a JSON object {id, kind, text, options, centers, scale, bins, twin}. A noul question without options has Yes and
 * No; a score question without options has equal bins (5, or `bins`) over its scale, named by their ends. Sets the key (DESIGN 5). question_free ends it; q need not be initialised. */
status question_read(question *q, const json *doc, jref obj, err *e);
void question_free(question *q);
const char *question_kind_name(question_kind k);
/* The kind that a JSON string names. */
status question_kind_read(const json *doc, jref r, question_kind *k, err *e);
/* Of a noul question the first option is the one that the label Yes stands for: ST_INPUT when the texts say otherwise. */
status question_noul_check(const char *first, const char *second, err *e);
/* Prompts that show every option at every position: k cyclic shifts (both orders of two), one for a score. */
size_t question_full(question_kind kind, size_t k);
/* The value that each option of a score question stands for: its centers, or the middles of equal bins over its scale. */
status question_centers(const question *q, double centers[OPTIONS_MAX], err *e);
/* The options as a JSON array, `item` between them. */
void question_options_put(const question *q, const char *item, bool ascii, buf *out);
/* Index of the option with this text, or n_options. */
size_t question_option(const question *q, strv text);

/* A label by position (choice, score) or by option (noul): A..Z; Yes, No; 1..9, or letters above nine bins. */
const char *question_label(const question *q, size_t i);

/* How many permutations a question has: K cyclic shifts, both orders, or one. */
size_t question_shifts(const question *q);
/* In which order the options are listed before they are turned. A score question always lists its bins in order. */
typedef enum listing { LISTING_GIVEN, LISTING_REVERSED, LISTING_CANONICAL /* by text */, LISTING_RANDOM } listing;
/* perm[j]: the option at position j under shift s of the listing. Random: drawn from seed and the item's id, for up to eight
 * options (more are listed as given). */
void question_order(const question *q, listing l, size_t seed, strv id, size_t s, size_t perm[OPTIONS_MAX]);

#endif
