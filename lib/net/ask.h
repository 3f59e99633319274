/* ask.h: a prompt record as a request to a server: one token at temperature 1, without truncation, with the 20 most
 * probable tokens however many labels there are. What a server refuses by name is learned and not asked again. */
#ifndef ANYJEV_NET_ASK_H
#define ANYJEV_NET_ASK_H

#include "json/json.h"

typedef enum ask_api { ASK_COMPLETIONS, ASK_CHAT, ASK_SYSTEMONE } ask_api;
#define ASK_APIS "completions|chat|systemone"
#define ASK_DECISION "decision" /* the name of the one question of a System One request */

enum { ASK_TOP = 20 };

typedef struct ask {
    ask_api api;
    const char *model;  /* borrowed */
    size_t top;         /* so many tokens are asked for; the server's cap once that is known */
    unsigned left_out;  /* members that the server does not know */
    unsigned version;   /* grows with everything learned */
} ask;

ask ask_of(const char *api, const char *model); /* api: a name of ASK_APIS */
const char *ask_path(const ask *a);             /* "/v1/completions" */

/* Appends the body of the request. The record needs prefix (and suffix) for completions, user (and system) for the
 * others, options for System One. */
status ask_body(const ask *a, const json *rec, buf *out, err *e);

/* The server refused a request that was made at `version`, with these words. true: it is worth asking again, because
 * something was learned, now or since. */
bool ask_learn(ask *a, unsigned version, strv words);

#endif
