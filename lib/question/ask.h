/* ask.h: from what a user gives (cards, cases, items, System One requests) to prompts. */
#ifndef ANYJEV_QUESTION_ASK_H
#define ANYJEV_QUESTION_ASK_H

#include "question/prompts.h"
#include "question/registry.h"
#include "question/where.h"

/* A card record kept for case records that name it by its hash. */
typedef struct kept_card {
    char *sha, *text;
    size_t len;
} kept_card;

/* Starts as {0} but for what is borrowed and asked for; asker_free ends it. */
typedef struct asker {
    const registry *questions;
    prompts_style style;      /* its ids are the asker's */
    const question *fallback; /* of records that name none; NULL: there is none */
    const where *where;       /* of card records, only these columns; NULL: all */
    bool twins;               /* ask a wide question's yes/no twin instead, once per option */
    bool probes;              /* ask every question about nothing, too, before its first item */
    prompts_put *put;
    void *ctx;
    /* what a question needs may differ from question to question (a head answers some of them): called with the style's copy */
    void (*plan)(const void *ctx, const question *q, prompts_style *style);
    const void *plan_ctx;
    kept_card *cards; /* owned */
    size_t n_cards, cap_cards;
    intern probed;
    prompts_ids ids;
    size_t requests; /* seen so far */
} asker;

/* Keeps the card records of a file for the cases. */
status asker_cards(asker *a, const char *path, err *e);
/* The prompts of one record: item, card, case, or (without a type) a System One request. */
status asker_take(asker *a, const json *rec, err *e);
void asker_free(asker *a);

/* --- for ask_*.c --- */
/* Prompts of an item, its question's probes first. */
status ask_item(asker *a, const prompts_item *item, err *e);
status ask_case(asker *a, const json *rec, err *e);
/* A System One request: {"state": ..., "questions": {name: {type, instructions, criteria}}}, with an id or without; labels
 * {name: answer} when known. Every question becomes an item that carries the request's id. */
status ask_request(asker *a, const json *rec, err *e);
/* The twin's items of an item (or case) whose question has one: one per option, for a case of column.ontology one per ontology
 * that serves the aspect. */
status ask_twins(asker *a, const json *rec, const question *q, err *e);

#endif
