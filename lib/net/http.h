/* http.h: many HTTP requests in flight over kept-alive connections, by libcurl's multi interface and epoll: one
 * thread, no busy waiting. What is worth a retry is retried here, with back-off; a server that is gone ends it all. */
#ifndef ANYJEV_NET_HTTP_H
#define ANYJEV_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct net net;

/* Texts are borrowed. */
typedef struct net_options {
    const char *key;   /* sent as a bearer token; or NULL */
    const char *proxy; /* or NULL: none, whatever the environment says */
    size_t workers;    /* requests in flight at most */
    size_t retries;    /* attempts after the first */
    size_t breaker;    /* so many requests given up in a row, and the server counts as gone; 0: never */
    double connect_timeout, read_timeout, retry_cap; /* seconds */
} net_options;

status net_open(net **n, const net_options *o, err *e);
void net_close(net *n); /* gives up what flies */

/* Starts a request: POST of the body as JSON, or GET when body is NULL (both are copied). At most `workers` may fly:
 * net_room tells. The tag comes back with the reply. */
bool net_room(const net *n);
size_t net_flying(const net *n);
status net_send(net *n, const char *url, const buf *body, void *tag, err *e);

typedef struct net_reply {
    void *tag;
    status status; /* ST_OK: a 2xx with a body; ST_INCOMPLETE: given up; ST_INPUT, ST_REFUSED: the server refused */
    long http;     /* 0: no answer */
    strv body;     /* until the next call on net */
    const char *why; /* a message when status is not ST_OK, with the server's words; until the next call */
} net_reply;

/* Waits until a reply can be taken or nothing flies. ST_INCOMPLETE when the breaker opened. */
status net_wait(net *n, err *e);
bool net_take(net *n, net_reply *r); /* false: none is there now */
/* The reply that was taken last is no good after all (a torn body, no token drawn): the request goes again, at once or after a
 * pause, which counts as an attempt. false when there are no attempts left. */
bool net_again(net *n, bool at_once);

/* One request and its reply, while nothing else flies. */
status net_call(net *n, const char *url, const buf *body, net_reply *r, err *e);

#endif
