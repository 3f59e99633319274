#include "net/retry.h"

#include <curl/curl.h>
#include <math.h>

net_verdict net_judge(int curl_code, long http) {
    switch (curl_code) {
    case CURLE_OK: break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR: return NET_AGAIN;
    default: return NET_FINAL;
    }
    if (http >= 200 && http < 300) return NET_DONE;
    if (http == 408 || http == 425 || http == 429) return NET_AGAIN;
    /* Not implemented, and an HTTP version that is not spoken, stay so. */
    return http >= 500 && http != 501 && http != 505 ? NET_AGAIN : NET_FINAL;
}

double net_backoff(size_t attempt, double retry_after, double cap, double random) {
    double wait = ldexp(0.25, attempt < 20 ? (int)attempt - 1 : 20) * (0.5 + 0.5 * random);
    if (retry_after >= 0) wait = retry_after + 0.1 * wait;
    return wait < cap ? wait : cap;
}
