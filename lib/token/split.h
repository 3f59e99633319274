/* split.h: cutting a text into the pieces that are merged apart (the pre-tokenizer): a sequence of steps, each
 * a pattern whose matches become pieces of their own. */
#ifndef ANYJEV_TOKEN_SPLIT_H
#define ANYJEV_TOKEN_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct splitter splitter;

status splitter_create(splitter **s, err *e);
/* Adds a step. The pattern is one of Rust's or Oniguruma's regex dialects as tokenizers use them; it is run by
 * PCRE2 with Unicode properties, and \s means Unicode White_Space (U+0085 is, U+FEFF and U+180E are not).
 * drop_gaps: what no match covers is left out, else it is a piece too. */
status splitter_add(splitter *s, strv pattern, bool drop_gaps, err *e);
void splitter_free(splitter *s);

/* Calls piece(ctx, view) for every piece in order; stops at the first status that is not ST_OK. Text: valid UTF-8. */
typedef status (*splitter_piece)(void *ctx, strv piece, err *e);
status splitter_run(const splitter *s, strv text, splitter_piece piece, void *ctx, err *e);

/* The patterns that go by a name. */
extern const char *const split_gpt2, *const split_qwen2, *const split_llama3, *const split_tekken, *const split_digit;

#endif
