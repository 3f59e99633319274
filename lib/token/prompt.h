/* prompt.h: a prompt record to token ids. */
#ifndef ANYJEV_TOKEN_PROMPT_H
#define ANYJEV_TOKEN_PROMPT_H

#include "json/json.h"
#include "token/chat.h"
#include "token/tokenizer.h"

/* A record with system and user is rendered again by the model's own template; the bytes must equal prefix + suffix
 * where the record has them (else ST_REFUSED), and the user's and system's text are encoded without control tokens
 * unless the record says "allow_control_tokens": true. A record with prefix and suffix alone is encoded as it stands,
 * control tokens included. A BOS token is put before a prompt whose template is CHAT_NONE, when the model wants one. */
status prompt_encode(const tokenizer *t, chat c, const json *rec, tok_ids *out, err *e);

#endif
