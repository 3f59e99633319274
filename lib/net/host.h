/* host.h: which servers may be spoken to, and with which key. */
#ifndef ANYJEV_NET_HOST_H
#define ANYJEV_NET_HOST_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* The base of a server's paths from what a user typed: "https://host/", "http://127.0.0.1:8000/v1". A "/v1" and
 * slashes at the end go. https goes anywhere, http to this host only (127.0.0.0/8, ::1, localhost) unless insecure
 * (else ST_REFUSED). A name or password in the URL is a usage error: command lines can be read by others. The caller
 * frees *base. */
status host_base(const char *url, bool insecure, char **base, err *e);

/* The key: of the file (ST_REFUSED when others can read it), else of ANYJEV_API_KEY, else NULL. The caller frees *key. */
status host_key(const char *file, char **key, err *e);

/* What a server said of its refusal, fit to be shown: the message of its JSON (or its text), one line, at most 300
 * bytes, and nothing that looks like the key (which may be NULL). */
void host_words(strv body, const char *key, buf *out);

#endif
