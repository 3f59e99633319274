/* probe.h: a question with a known answer: two states, one that says yes and one that says no, each asked in both
 * orders of the labels. A model (or server) that is set up well tells them apart. */
#ifndef ANYJEV_DOCTOR_PROBE_H
#define ANYJEV_DOCTOR_PROBE_H

#include "doctor/findings.h"
#include "token/chat.h"

enum { PROBES = 4 }; /* yes, yes turned, no, no turned */

/* Prompt records, rendered for the template. The caller frees the buffers, which start as {0}. */
status probe_prompts(chat family, buf records[PROBES], err *e);

/* What was answered to the four: log-probabilities by position. */
typedef struct probe_answers {
    double logprobs[PROBES][2];
} probe_answers;

typedef struct probe_verdict {
    bool finite;          /* all eight numbers are log-probabilities */
    double yes, no;       /* P(Yes) after the state that says yes, and after the other one */
    double mass;          /* the smallest probability of both labels together */
    bool told_apart;      /* finite, and yes > no */
} probe_verdict;

probe_verdict probe_judge(const probe_answers *a);
/* Reports the checks `finite`, `label mass` and `known answer`. */
void probe_report(findings *r, const probe_answers *a);

/* Does the judgement itself notice a good, a reversed and a broken answer? Comes first, so that an instrument that cannot
 * fail is noticed. */
void probe_instrument(findings *r);

#endif
