/* prompt.h: a prompt record to token ids. */
#ifndef ANYJEV_TOKEN_PROMPT_H
#define ANYJEV_TOKEN_PROMPT_H

#include "json/json.h"
#include "token/chat.h"
#include "token/tokenizer.h"

/* true when the record is rendered by a chat template: it has `user`. */
bool prompt_has_user(const json *rec);

/* Appends the ids of a prompt record.
 * With `user` (and perhaps `system` and `split`) both texts are rendered by the model's own template; the bytes must
 * equal prefix + suffix where the record has them (else ST_REFUSED), and the two texts are encoded without control
 * tokens unless allow, or the record's `allow_control_tokens`, is true. A record with prefix and suffix alone is
 * encoded as it stands, control tokens included. The tokenizer's BOS is put in front where the text does not begin
 * with it. */
status prompt_encode(const tokenizer *t, chat c, const json *rec, bool allow, tok_ids *out, err *e);

#endif
