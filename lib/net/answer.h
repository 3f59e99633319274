/* answer.h: what a server answered, whatever its shape: the most probable next tokens with their log-probabilities;
 * and what that says of a question's labels. Shapes are recognised by their form:
 *   choices[0].logprobs.top_logprobs[0]          an object {token: logprob}, or a list
 *   choices[0].logprobs.content[0].top_logprobs  a list of {token, bytes, id, logprob}
 *   completion_probabilities[0].top_logprobs     the same; also top_probs and probs, with a linear prob
 *   answers.NAME                                 a decision's probabilities ({noul}, {probabilities})
 * Tokens named "token_id:N" are ids. Null, sentinels and numbers that are no log-probabilities are errors. */
#ifndef ANYJEV_NET_ANSWER_H
#define ANYJEV_NET_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"

typedef struct answer_entry {
    size_t text, text_n; /* where its text stands in answer.texts */
    bool has_text, has_id;
    uint32_t id;
    double logprob;
} answer_entry;

/* Starts as {0}; answer_free ends it. */
typedef struct answer {
    answer_entry *list;
    size_t n, cap;
    size_t sampled; /* the entry of the token that was drawn, which servers add to the list; n: not known */
    buf texts, scratch;
    bool has_tokens;
    bool undrawn; /* no token was drawn: some servers draw the end of the text and then tell nothing; another draw may do */
    size_t prompt_tokens; /* as the server counted them, when has_tokens */
} answer;

/* ST_INPUT names what was missing or wrong. Replaces what a held. */
status answer_read(answer *a, const json *doc, err *e);
void answer_free(answer *a);
strv answer_text(const answer *a, const answer_entry *x);
/* The most probable entry; NULL when there is none. */
const answer_entry *answer_top(const answer *a);

/* A label: its exact text (" A" is not "A"), and its id where that is known. */
typedef struct answer_label {
    strv text;
    bool has_id;
    uint32_t id;
} answer_label;

typedef struct answer_score {
    double logprob; /* of a missing label: the smallest one in the list (but for a drawn token that was added), a bound from above */
    bool missing;
    bool has_id; /* the server gave the id */
    uint32_t id;
} answer_score;

/* Matches labels by id where both sides have ids, else by exact text; several entries of one text are summed.
 * *mass: the probability of the labels that were found. ST_REFUSED when the server's id of a label is another. */
status answer_match(const answer *a, const answer_label *labels, size_t n, answer_score *out, double *mass, err *e);

/* A System One answer: the probability of each of n options (their texts), as logs in their order; what is below
 * 1e-6 counts as that, since servers round. A noul answer is of two options, the first of which it affirms. */
status answer_decision(const json *doc, const char *name, const strv *options, size_t n, answer_score *out, err *e);

#endif
