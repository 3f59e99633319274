/* retry.h: the one rule for what is worth asking again, and when. */
#ifndef ANYJEV_NET_RETRY_H
#define ANYJEV_NET_RETRY_H

#include <stdbool.h>
#include <stddef.h>

typedef enum net_verdict {
    NET_DONE,  /* a whole answer with a 2xx */
    NET_AGAIN, /* the server, or the way to it, may be well again soon */
    NET_FINAL  /* the same request would be refused again */
} net_verdict;

/* curl_code as libcurl's CURLcode; http 0 when there was no answer. */
net_verdict net_judge(int curl_code, long http);

/* Seconds to wait before attempt `attempt` + 1 (attempt counts from 1): 0.25, 0.5, 1, ... with jitter (random in
 * [0, 1)), or what the server asked for (negative: nothing) and a little more, never above cap. */
double net_backoff(size_t attempt, double retry_after, double cap, double random);

#endif
