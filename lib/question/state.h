/* state.h: the states of the registry's questions, and how a state is written and hashed (DESIGN 5). */
#ifndef ANYJEV_QUESTION_STATE_H
#define ANYJEV_QUESTION_STATE_H

#include "base/hash.h"
#include "json/json.h"

/* A state as compact JSON, keys in their order, from a card record and a case: an object with what the question
 * needs by name (column, site, scope, aspect, ontology, candidate, n_candidates, term, avu, siblings, target).
 * question: id of a registry question with a builder; others are ST_INPUT. */
status state_build(const char *question, const json *card, jref card_at, const json *c, jref case_at, buf *out, err *e);

/* The state of column.annotate and column.aspect for a column of the card record (an element of its columns). */
status state_column(const json *card, jref card_at, jref column, buf *out, err *e);

/* How a state stands in the prompt: JSON indented by two; a string as it is; a list of {role, content} as
 * "role: content" lines; null as nothing. */
status state_text(const json *doc, jref state, buf *out, err *e);
/* SHA-256 of the state with sorted keys, separators "," and ":", non-ASCII as UTF-8. */
status state_sha256(const json *doc, jref state, char hex[SHA256_HEX_SIZE], err *e);

/* The column of this name, or JREF_NONE. */
jref card_column(const json *card, jref card_at, strv name);
/* "<product>.<table>" of a card record. */
status card_dataset(const json *card, jref card_at, buf *out, err *e);

#endif
