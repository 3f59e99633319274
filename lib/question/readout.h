/* readout.h: the wording around state, question and options, which is data (readout.json, readout(5) of the records page). */
#ifndef ANYJEV_QUESTION_READOUT_H
#define ANYJEV_QUESTION_READOUT_H

#include "question/question.h"

typedef struct readout {
    char *system, *state, *question, *options;
    char *line[3], *closing[3]; /* by kind */
} readout;

/* readout starts as {0}. */
status readout_load(readout *r, const char *path, err *e);
void readout_free(readout *r);

/* The user's text for one permutation (perm[j]: the option at position j): everything before *split is the same for all permutations of the item.
 * state: the text of the state as it stands in the prompt (may be empty). */
status readout_user(const readout *r, const question *q, const size_t *perm, strv state, buf *out, size_t *split, err *e);

#endif
