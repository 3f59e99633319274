/* task.h: one prompt on its way through a server: what is checked before it is sent, and what an answer makes of it. */
#ifndef ANYJEV_NET_TASK_H
#define ANYJEV_NET_TASK_H

#include "net/answer.h"
#include "net/ask.h"
#include "net/served.h"
#include "question/registry.h"
#include "token/chat.h"

/* The same for a whole run; borrowed. */
typedef struct task_rules {
    const tokenizer *tokenizer; /* the model's own, or NULL */
    chat family;                /* its chat template */
    const served *served;       /* whose label ids are known, when has_ids */
    const registry *questions;  /* to name twins; or NULL */
    bool allow_control_tokens, only_logprobs;
    size_t max_choice_k;
    double min_mass;
} task_rules;

/* Starts as {0}; task_free ends it, task_read uses it again. */
typedef struct task {
    bool pass; /* nothing is asked for that a gateway gives: the record passes through */
    bool keep_prompt; /* a later program needs prefix and suffix */
    size_t n;
    answer_label labels[OPTIONS_MAX];
    strv options[OPTIONS_MAX];
    size_t perm[OPTIONS_MAX];
    size_t tokens; /* of the prompt by the local tokenizer, at least; 0: not known */
    buf texts;     /* of labels and options */
} task;

void task_free(task *t);
/* ST_INPUT or ST_REFUSED for a prompt that must not be sent. */
status task_read(task *t, const task_rules *r, const ask *a, const json *rec, err *e);
/* The fields that the answer gives, as one JSON object: logprobs, answer_mass, missing, label_ids, n_tokens, server_notes. */
status task_answer(const task *t, const task_rules *r, const ask *a, const json *reply, answer *room, buf *fields, err *e);

/* The most probable first token opens a chain of thought: the labels' numbers are then those of another question. */
bool task_reasoning(const answer *a);

#endif
