/* prompts.h: an item (a question about a state) to prompt records, one per permutation. */
#ifndef ANYJEV_QUESTION_PROMPTS_H
#define ANYJEV_QUESTION_PROMPTS_H

#include "base/intern.h"
#include "question/question.h"
#include "question/readout.h"
#include "token/chat.h"

/* Ids that were made for items without one, with how often: equal items get -2, -3, ... Starts as {0}. */
typedef struct prompts_ids {
    intern made;
    size_t *times;
    size_t cap;
} prompts_ids;
void prompts_ids_free(prompts_ids *ids);

/* How prompts are made; borrowed. */
typedef struct prompts_style {
    const readout *readout;
    chat chat;
    bool one;                  /* the first permutation only (level raw) */
    bool allow_control_tokens; /* said on the record */
    listing listing;           /* of the options */
    size_t seed;               /* of a random one */
    prompts_ids *ids;
    const size_t *hidden; /* [n_hidden]: the blocks whose hidden state is needed, of the prompt as listed; then one prompt is made */
    size_t n_hidden;
} prompts_style;

typedef struct prompts_item {
    const question *q;
    strv id;           /* "": made from the question's key and the state's hash */
    const json *doc;   /* of the state */
    jref state;
    const json *extra; /* an object whose members (but for type, id, question, state) go onto the prompts; or NULL */
    strv group, meta;  /* JSON text, or empty: where extra does not say */
    int probe;         /* number of a content-free probe, from 1 on; 0: an item */
    strv request;      /* of which request it is a part; may be empty */
} prompts_item;

/* Calls put(ctx, record) for every permutation in order. An item's label must be one of the options. */
typedef status prompts_put(void *ctx, const buf *record, err *e);
status prompts_make(const prompts_style *style, const prompts_item *item, prompts_put *put, void *ctx, err *e);

#endif
