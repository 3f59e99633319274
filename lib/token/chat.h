/* chat.h: chat templates. A known family renders [system, user] with a generation prompt and thinking off,
 * byte for byte as the model's own template does. The family is recognised from the template's text; an
 * unknown one is refused, never guessed. */
#ifndef ANYJEV_TOKEN_CHAT_H
#define ANYJEV_TOKEN_CHAT_H

#include "base/buf.h"
#include "base/err.h"
#include "token/tokenizer.h"
#include "weights/gguf.h"

typedef enum chat {
    CHAT_NONE,
    CHAT_CHATML, /* without a default system text */
    CHAT_QWEN2,
    CHAT_QWEN25,
    CHAT_QWEN3,
    CHAT_SMOLLM2,
    CHAT_LLAMA3,
    CHAT_LLAMA31,        /* with its knowledge and date lines; the date is the template's own fallback, never today's */
    CHAT_MISTRAL,        /* v3, with a space behind [INST] */
    CHAT_MISTRAL_TEKKEN, /* v3-tekken, without */
    CHAT_GEMMA,
    CHAT_COUNT
} chat;

/* Names as in options and records, separated by "|". */
#define CHAT_NAMES "none|chatml|qwen2|qwen2.5|qwen3|smollm2|llama3|llama3.1|mistral|mistral-tekken|gemma"

const char *chat_name(chat c);
status chat_named(const char *name, chat *c, err *e); /* ST_USAGE when there is no such family */

/* The family of a model: a folder (chat_template.jinja, tokenizer_config.json), a file in it, or a GGUF file. A
 * model without a template is CHAT_NONE. ST_REFUSED for a template of no known family. */
status chat_of_model(const char *path, chat *c, err *e);
status chat_of_gguf(const gguf *g, chat *c, err *e); /* of a GGUF that is open */
/* The same from a template's text; what names it in the message. */
status chat_of_template(strv text, const char *what, chat *c, err *e);

/* Starts as {0}; chat_text_free ends it. */
typedef struct chat_text {
    buf text;         /* the whole prompt */
    size_t split;     /* where in text the tail of the user's text begins */
    tok_span plain[2]; /* where the system's and the user's text stand, for tokenizer_encode */
} chat_text;

/* split: byte offset in user; a template that trims white space moves it along. An empty system text is left out.
 * Replaces what out held. */
status chat_render(chat c, strv system, strv user, size_t split, chat_text *out, err *e);
void chat_text_free(chat_text *t);

#endif
