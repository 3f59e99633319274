/* items.h: filled prompts gathered into items, and what a decision record says of an item. */
#ifndef ANYJEV_DECIDE_ITEMS_H
#define ANYJEV_DECIDE_ITEMS_H

#include "decide/decide.h"
#include "question/question.h"

typedef struct item_shift {
    size_t shift; /* of the cyclic shift: the option at the first position */
    double logprobs[]; /* [k], by position */
} item_shift;

/* One item: what its prompts say, once. Texts are owned. */
typedef struct item {
    char *id;      /* the prompts' item, or their id when they carry none */
    char *head;    /* JSON members of the decision: question, key, kind, options (no braces, no leading comma) */
    char *tail;    /* JSON members that pass through, each with a leading comma; may be empty */
    char *name;    /* how the table calls it: card and column when the prompts say so, else the id */
    char *question;
    char **options; /* [k] */
    double centers[DECIDE_MAX];
    size_t group; /* of items with the same question key: the prior is theirs */
    question_kind kind;
    size_t k;
    item_shift **shifts; /* [n_shifts], in the order of arrival */
    size_t n_shifts;
    double mass;   /* sum of answer_mass over shifts */
    size_t n_mass;
    char *missing; /* JSON array of labels outside the server's list, or NULL */
    bool bad;      /* set aside: nothing is decided on it */
    size_t line;   /* of its first prompt */
    const char *file;
} item;

typedef struct items {
    item *items; /* in order of first appearance */
    size_t n, cap;
    size_t *slots; /* open addressing on id and key: index + 1 */
    size_t n_slots;
    char **keys; /* of the groups */
    size_t *first; /* of each group: its first item; n_keys of them */
    size_t n_keys, cap_keys, cap_first;
    char *model; /* the field model of all prompts, as JSON */
} items;

/* Adds one filled prompt. Refuses (ST_INPUT) what cannot be decided on: wrong lengths, positive or non-numeric
 * log-probabilities, a permutation that is no cyclic shift, a prompt that comes twice; ST_REFUSED: another model
 * than the prompts before. */
status items_add(items *all, const json *rec, const char *file, size_t line, err *e);
void items_free(items *all);
/* Prompts that an item needs at level L0. */
size_t item_full(const item *x);

#endif
