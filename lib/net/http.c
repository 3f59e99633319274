#include "net/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "net/host.h"
#include "net/retry.h"

enum { BODY_MAX = 16 << 20, EVENTS = 64 };

typedef enum stage { FREE, ACTIVE, WAITING, FINISHED, TAKEN } stage;

typedef struct transfer {
    net *n;
    CURL *easy;
    buf url, body, reply, why;
    bool get, overflow;
    stage stage;
    size_t attempts;
    double due; /* WAITING: when it goes again */
    void *tag;
    status status;
    long http;
    struct transfer *next; /* in the list of finished ones */
    char curl_error[CURL_ERROR_SIZE];
} transfer;

struct net {
    net_options o;
    CURLM *multi;
    int epoll;
    struct curl_slist *headers;
    transfer *all;
    size_t flying, waiting;
    double timer;  /* when libcurl wants to be called; negative: not */
    double hold;   /* nothing starts before: a server asked for patience */
    size_t lost;   /* given up in a row */
    transfer *first, *last, *taken;
    rng random;
    err open_breaker; /* status ST_OK while it is closed */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- libcurl's callbacks --- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *seen) {
    net *n = user;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(n->epoll, EPOLL_CTL_DEL, fd, NULL); /* a socket that was closed before left by itself */
        return 0;
    }
    struct epoll_event ev = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u), .data.fd = fd};
    if (epoll_ctl(n->epoll, seen ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev)) {
        if (epoll_ctl(n->epoll, seen ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev)) return -1;
    }
    curl_multi_assign(n->multi, fd, n);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *user) {
    net *n = user;
    (void)multi;
    n->timer = ms < 0 ? -1 : now() + (double)ms * 1e-3;
    return 0;
}

static size_t on_bytes(char *p, size_t size, size_t count, void *user) {
    transfer *t = user;
    t->overflow = t->reply.len + size * count > BODY_MAX;
    if (!t->overflow) buf_put(&t->reply, p, size * count);
    return t->overflow || t->reply.failed ? 0 : size * count;
}

/* --- one transfer --- */

static status set_up(transfer *t, err *e) {
    net *n = t->n;
    const net_options *o = &n->o;
    if (!(t->easy = curl_easy_init())) return err_memory(e, sizeof *t);
    CURL *c = t->easy;
    bool bad = curl_easy_setopt(c, CURLOPT_PRIVATE, t) || curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) || curl_easy_setopt(c, CURLOPT_WRITEDATA, t) ||
               curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->curl_error) || curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) ||
               curl_easy_setopt(c, CURLOPT_HTTPHEADER, n->headers) || curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") ||
               curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) || curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ||
               curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, lround(o->connect_timeout * 1e3)) ||
               curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, lround((o->connect_timeout + o->read_timeout) * 1e3)) ||
               curl_easy_setopt(c, CURLOPT_PROXY, o->proxy ? o->proxy : "") || curl_easy_setopt(c, CURLOPT_NOPROXY, o->proxy ? "" : "*") ||
               curl_easy_setopt(c, CURLOPT_USERAGENT, "anyjev-pipe/" ANYJEV_VERSION);
    return bad ? err_set(e, ST_INCOMPLETE, "libcurl lacks an option that is needed") : ST_OK;
}

static status fly(transfer *t, err *e) {
    net *n = t->n;
    buf_clear(&t->reply);
    buf_clear(&t->why);
    t->curl_error[0] = '\0';
    t->overflow = false;
    bool bad = curl_easy_setopt(t->easy, CURLOPT_URL, t->url.p) || curl_easy_setopt(t->easy, t->get ? CURLOPT_HTTPGET : CURLOPT_POST, 1L) ||
               (!t->get && (curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.len) ||
                            curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body.p)));
    if (bad || curl_multi_add_handle(n->multi, t->easy)) return err_set(e, ST_INCOMPLETE, "libcurl cannot start a request");
    t->stage = ACTIVE;
    t->attempts++;
    return ST_OK;
}

static void wait_until(transfer *t, double due) {
    t->stage = WAITING;
    t->due = due;
    t->n->waiting++;
}

static void finish(transfer *t, status s) {
    net *n = t->n;
    t->stage = FINISHED;
    t->status = s;
    t->next = NULL;
    if (n->last) n->last->next = t;
    else n->first = t;
    n->last = t;
}

/* The attempts are spent. */
static void give_up(transfer *t) {
    net *n = t->n;
    finish(t, ST_INCOMPLETE);
    if (n->o.breaker && ++n->lost >= n->o.breaker && !n->open_breaker.status)
        err_set(&n->open_breaker, ST_INCOMPLETE, "the server seems to be gone: %zu requests in a row were given up; the last one: %s", n->lost, t->why.p ? t->why.p : "");
}

static double draw(net *n) {
    return (double)(rng_next(&n->random) >> 11) * 0x1p-53;
}

/* Goes again later, or is given up; why says what happened. */
static bool try_again(transfer *t, double retry_after) {
    net *n = t->n;
    if (t->attempts > n->o.retries) return false;
    double due = now() + net_backoff(t->attempts, retry_after, n->o.retry_cap, draw(n));
    if (retry_after >= 0 && due > n->hold) n->hold = due;
    wait_until(t, due);
    return true;
}

/* An attempt came to its end. */
static void landed(transfer *t, CURLcode code) {
    net *n = t->n;
    curl_multi_remove_handle(n->multi, t->easy);
    t->http = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->http);
    net_verdict v = net_judge(code, t->http);
    if (v == NET_DONE) {
        n->lost = 0;
        finish(t, ST_OK);
        return;
    }
    if (t->overflow) buf_printf(&t->why, "the answer is larger than %d bytes", BODY_MAX);
    else if (code) buf_text(&t->why, t->curl_error[0] ? t->curl_error : curl_easy_strerror(code));
    else {
        buf_printf(&t->why, "the server answered %ld: ", t->http);
        host_words(buf_strv(&t->reply), n->o.key, &t->why);
    }
    if (v == NET_AGAIN) {
        curl_off_t after = 0;
        bool asked = t->http && curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &after) == CURLE_OK && after > 0;
        if (!try_again(t, asked ? (double)after : -1)) {
            buf_printf(&t->why, " (given up after %zu attempts)", t->attempts);
            give_up(t);
        }
        return;
    }
    n->lost = 0;
    /* What only this request is to blame for is bad input; keys, paths, redirects and certificates are refusals. */
    bool own = t->http == 400 || t->http == 413 || t->http == 422;
    finish(t, own ? ST_INPUT : ST_REFUSED);
}

/* --- the whole --- */

static status make_headers(net *n, err *e) {
    static const char *const fixed[] = {"Content-Type: application/json", "Accept: application/json", "Expect:"};
    bool bad = false;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        struct curl_slist *more = curl_slist_append(n->headers, fixed[i]);
        bad = bad || !more;
        if (more) n->headers = more;
    }
    if (n->o.key) {
        buf b = {0};
        buf_printf(&b, "Authorization: Bearer %s", n->o.key);
        struct curl_slist *more = b.failed ? NULL : curl_slist_append(n->headers, b.p);
        bad = bad || !more;
        if (more) n->headers = more;
        buf_free(&b);
    }
    return bad ? err_memory(e, 64) : ST_OK;
}

status net_open(net **out, const net_options *o, err *e) {
    net *n = mem_zero(1, sizeof *n);
    *out = NULL;
    if (!n) return err_memory(e, sizeof *n);
    n->o = *o;
    n->epoll = -1;
    n->timer = -1;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    n->random.state = (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 20 ^ (uint64_t)getpid() << 40; /* jitter only: results do not depend on it */
    status s = ST_OK;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(n->multi = curl_multi_init())) s = err_memory(e, sizeof *n);
    if (!s && (n->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) s = err_set(e, ST_INCOMPLETE, "cannot wait for sockets: %s", strerror(errno));
    if (!s && (curl_multi_setopt(n->multi, CURLMOPT_SOCKETFUNCTION, on_socket) || curl_multi_setopt(n->multi, CURLMOPT_SOCKETDATA, n) ||
               curl_multi_setopt(n->multi, CURLMOPT_TIMERFUNCTION, on_timer) || curl_multi_setopt(n->multi, CURLMOPT_TIMERDATA, n) ||
               curl_multi_setopt(n->multi, CURLMOPT_MAXCONNECTS, (long)o->workers)))
        s = err_set(e, ST_INCOMPLETE, "libcurl lacks an option that is needed");
    if (!s) s = make_headers(n, e);
    if (!s && !(n->all = mem_zero(o->workers, sizeof *n->all))) s = err_memory(e, o->workers * sizeof *n->all);
    for (size_t i = 0; !s && i < o->workers; i++) {
        n->all[i].n = n;
        s = set_up(&n->all[i], e);
    }
    if (s) {
        net_close(n);
        return s;
    }
    *out = n;
    return ST_OK;
}

void net_close(net *n) {
    if (!n) return;
    for (size_t i = 0; n->all && i < n->o.workers; i++) {
        transfer *t = &n->all[i];
        if (t->stage == ACTIVE) curl_multi_remove_handle(n->multi, t->easy);
        if (t->easy) curl_easy_cleanup(t->easy);
        buf_free(&t->url);
        buf_free(&t->body);
        buf_free(&t->reply);
        buf_free(&t->why);
    }
    free(n->all);
    if (n->multi) curl_multi_cleanup(n->multi);
    if (n->epoll >= 0) close(n->epoll);
    curl_slist_free_all(n->headers);
    curl_global_cleanup();
    free(n);
}

/* The reply that was handed out is done with. */
static void release(net *n) {
    if (!n->taken) return;
    n->taken->stage = FREE;
    n->taken = NULL;
    n->flying--;
}

bool net_room(const net *n) {
    return n->flying - (n->taken != NULL) < n->o.workers;
}

size_t net_flying(const net *n) {
    return n->flying - (n->taken != NULL);
}

status net_send(net *n, const char *url, const buf *body, void *tag, err *e) {
    release(n);
    transfer *t = NULL;
    for (size_t i = 0; !t && i < n->o.workers; i++)
        if (n->all[i].stage == FREE) t = &n->all[i];
    if (!t) return err_set(e, ST_INCOMPLETE, "more requests than workers");
    buf_clear(&t->url);
    buf_clear(&t->body);
    buf_text(&t->url, url);
    if (body) buf_view(&t->body, buf_strv(body));
    status s = buf_ok(&t->url, e);
    if (!s) s = buf_ok(&t->body, e);
    if (s) return s;
    t->get = !body;
    t->tag = tag;
    t->attempts = 0;
    n->flying++;
    if (now() < n->hold) {
        wait_until(t, n->hold + 0.1 * draw(n));
        return ST_OK;
    }
    if ((s = fly(t, e))) n->flying--;
    return s;
}

static void start_due(net *n) {
    double t0 = now();
    for (size_t i = 0; n->waiting && i < n->o.workers; i++) {
        transfer *t = &n->all[i];
        err why = {0};
        if (t->stage != WAITING || t->due > t0) continue;
        n->waiting--;
        if (fly(t, &why)) {
            buf_text(&t->why, why.text);
            give_up(t);
        }
    }
}

/* Milliseconds until something is due, rounded up: waking too early would be a busy loop. */
static int patience(const net *n) {
    double due = n->timer, t0 = now();
    for (size_t i = 0; n->waiting && i < n->o.workers; i++)
        if (n->all[i].stage == WAITING && (due < 0 || n->all[i].due < due)) due = n->all[i].due;
    if (due < 0) return -1;
    double ms = ceil((due - t0) * 1e3);
    return ms <= 0 ? 0 : ms > 60000 ? 60000 : (int)ms;
}

static void collect(net *n) {
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(n->multi, &left));) {
        char *t = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        landed((transfer *)(void *)t, code);
    }
}

status net_wait(net *n, err *e) {
    release(n);
    while (!n->first && n->flying) {
        struct epoll_event ev[EVENTS];
        int running;
        start_due(n);
        int k = epoll_wait(n->epoll, ev, EVENTS, patience(n));
        if (k < 0 && errno != EINTR) return err_set(e, ST_INCOMPLETE, "cannot wait for sockets: %s", strerror(errno));
        for (int i = 0; i < k; i++) {
            int bits = (ev[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) | (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                       (ev[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
            curl_multi_socket_action(n->multi, ev[i].data.fd, bits, &running);
        }
        if (n->timer >= 0 && now() >= n->timer) {
            n->timer = -1;
            curl_multi_socket_action(n->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        collect(n);
    }
    if (n->open_breaker.status) return err_set(e, n->open_breaker.status, "%s", n->open_breaker.text);
    return ST_OK;
}

bool net_take(net *n, net_reply *r) {
    release(n);
    transfer *t = n->first;
    if (!t) return false;
    if (!(n->first = t->next)) n->last = NULL;
    n->taken = t;
    t->stage = TAKEN;
    if (t->status == ST_OK && t->reply.failed) {
        t->status = ST_INCOMPLETE;
        buf_text(&t->why, "memory ran out");
    }
    *r = (net_reply){.tag = t->tag, .status = t->status, .http = t->http, .body = buf_strv(&t->reply), .why = t->why.p ? t->why.p : ""};
    return true;
}

bool net_again(net *n, bool at_once) {
    transfer *t = n->taken;
    if (!t || !try_again(t, -1)) return false;
    if (at_once) t->due = 0;
    n->taken = NULL;
    return true;
}

status net_call(net *n, const char *url, const buf *body, net_reply *r, err *e) {
    status s = net_send(n, url, body, NULL, e);
    if (!s) s = net_wait(n, e);
    if (!s && !net_take(n, r)) s = err_set(e, ST_INCOMPLETE, "no reply");
    return s;
}
