/* served.h: who answers: the model as the server lists it, a fixed probe's numbers, the ids of the labels. Asked at
 * the start and at the end of a run: an alias may have moved in between. */
#ifndef ANYJEV_NET_SERVED_H
#define ANYJEV_NET_SERVED_H

#include "net/ask.h"
#include "net/http.h"
#include "token/tokenizer.h"

enum { SERVED_LABELS = 26 + 2 + 9, SERVED_PROBE = 5 };

/* Starts as {0}; served_free ends it. */
typedef struct served {
    char *name;
    buf entry;    /* the server's entry of the model without what changes from call to call, sorted */
    buf identity; /* JSON of a record's field `model` */
    buf probe;    /* JSON of a record's field `server_probe`: the largest log-probabilities after a fixed prompt */
    double numbers[SERVED_PROBE];
    size_t n_numbers, context; /* context: 0 when the server does not tell */
    bool has_ids;
    uint32_t ids[SERVED_LABELS]; /* TOKEN_NONE: no single token */
} served;

void served_free(served *v);

/* GET /v1/models. want NULL: the only one there is. ST_REFUSED when the server lists no such model. */
status served_list(served *v, net *n, const char *base, const char *want, err *e);
/* The fixed probe, through the API of a (which learns what the server refuses). */
status served_probe(served *v, net *n, const char *base, ask *a, err *e);
/* The record's field `model`. tokenizer_sha256 may be NULL. */
status served_identify(served *v, const ask *a, const char *tokenizer_sha256, err *e);
/* ST_INCOMPLETE when now is not what start was. */
status served_same(const served *start, const served *now, err *e);
/* Compares probes: the numbers of one answer may differ by 0.05 between two batches, not more. */
bool served_probe_same(const double *a, size_t n, const double *b, size_t m);

/* The ids of A..Z, Yes, No, 1..9 by the server's tokenizer, when it has a path for that (/tokenize, /extras/tokenize);
 * has_ids stays false when it has none. */
status served_ids(served *v, net *n, const char *base, const char *model, err *e);
const char *served_label(size_t i, char text[4]); /* the i-th of them */
/* Index of a label among them, or SERVED_LABELS. */
size_t served_label_index(strv label);
/* ST_REFUSED, naming the labels, when the server's ids are not the tokenizer's. */
status served_ids_check(const served *v, const tokenizer *t, err *e);

#endif
