/* items.h: filled prompts gathered into items, and what a decision record says of an item. */
#ifndef ANYJEV_DECIDE_ITEMS_H
#define ANYJEV_DECIDE_ITEMS_H

#include "decide/decide.h"
#include "question/question.h"

/* A hidden state that came with a prompt. */
typedef struct item_hidden {
    size_t block, d;
    float *h; /* [d], owned */
} item_hidden;

typedef struct item_shift {
    bool asked; /* it has log-probabilities; else they are 0 and mean nothing */
    size_t shift;                   /* how far the listing was turned: 0 is as listed */
    unsigned char perm[DECIDE_MAX]; /* option at each position */
    double logprobs[];              /* [k], by position */
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
    item_hidden *hidden; /* [n_hidden], of the prompt with the options as listed; only with items.keep_hidden */
    size_t n_hidden;
    double mass;   /* sum of answer_mass over shifts */
    size_t n_mass;
    bool masked[DECIDE_MAX]; /* options out of play */
    size_t n_masked;
    int probe;     /* a content-free probe: its number; -1: an item to decide */
    char *request; /* the System One request that the item came from, or NULL */
    char *label;   /* JSON, or NULL */
    char *text;    /* the question's wording, or NULL */
    double weight; /* of the label; 1 when the prompt says nothing */
    char *cluster; /* the field group (what an evaluation may not tear apart), or NULL */
    char *state_sha256; /* or NULL */
    char *missing; /* JSON array of labels outside the server's list, or NULL */
    bool bad;      /* set aside: nothing is decided on it */
    size_t line;   /* of its first prompt */
    const char *file;
} item;

/* Starts as {0} but for keep_hidden. */
typedef struct items {
    bool keep_hidden; /* for heads; otherwise hidden states are passed over */
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
 * log-probabilities, a listing that is no permutation or not a turn of the item's others, a prompt that comes twice, another
 * label than the item's other prompts; ST_REFUSED: another model than the prompts before. */
status items_add(items *all, const json *rec, const char *file, size_t line, err *e);
void items_free(items *all);
/* Prompts that an item needs at level L0. */
size_t item_full(const item *x);
/* The prompt with the options as listed, or NULL. */
const item_shift *item_listed(const item *x);
/* Softmaxed log-probabilities of its prompts by shift: p[shift][position], and perm[shift][position] = option. */
void item_distributions(const item *x, double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX]);
/* Were the options of both listed in the same order, up to a turn? */
bool item_same_listing(const item *a, const item *b);

#endif
