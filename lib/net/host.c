#include "net/host.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "json/json.h"

static bool is_loopback(const char *host) {
    struct in_addr a;
    if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
    return inet_pton(AF_INET, host, &a) == 1 && (ntohl(a.s_addr) >> 24) == 127;
}

static status check(CURLU *u, const char *url, bool insecure, err *e) {
    static const CURLUPart none[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT};
    static const char *const names[] = {"a user name", "a password", "a query", "a fragment"};
    char *part = NULL, *scheme = NULL, *host = NULL;
    if (curl_url_set(u, CURLUPART_URL, url, 0)) return err_set(e, ST_USAGE, "the URL is none; expected http://HOST:PORT or https://HOST");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (curl_url_get(u, none[i], &part, 0) == CURLUE_OK) {
            curl_free(part);
            return err_set(e, ST_USAGE, "the URL has %s; a key comes from --key-file or ANYJEV_API_KEY", names[i]);
        }
    status s = ST_OK;
    if (curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) || curl_url_get(u, CURLUPART_HOST, &host, 0)) s = err_set(e, ST_USAGE, "the URL has no scheme or no host");
    else if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0) s = err_set(e, ST_USAGE, "the URL's scheme is '%s', expected http or https", scheme);
    else if (strcmp(scheme, "http") == 0 && !is_loopback(host) && !insecure)
        s = err_set(e, ST_REFUSED, "%s is another host and the URL is not https: prompts and keys would travel in the open; --allow-insecure permits it", host);
    curl_free(scheme);
    curl_free(host);
    return s;
}

status host_base(const char *url, bool insecure, char **base, err *e) {
    CURLU *u = curl_url();
    char *whole = NULL;
    *base = NULL;
    if (!u) return err_memory(e, 1);
    status s = check(u, url, insecure, e);
    if (!s && curl_url_get(u, CURLUPART_URL, &whole, 0)) s = err_memory(e, 1);
    if (!s) {
        size_t n = strlen(whole);
        while (n && whole[n - 1] == '/') n--;
        if (n > 3 && memcmp(whole + n - 3, "/v1", 3) == 0) n -= 3;
        while (n && whole[n - 1] == '/') n--;
        if (!(*base = mem_text(whole, n))) s = err_memory(e, n);
    }
    curl_free(whole);
    curl_url_cleanup(u);
    return s;
}

/* A key goes into a header line: printable ASCII only. */
static status key_take(strv text, const char *where, char **key, err *e) {
    strv v = strv_trim(text);
    if (v.n == 0) return err_set(e, ST_USAGE, "%s holds no key", where);
    for (size_t i = 0; i < v.n; i++)
        if (v.p[i] < 0x21 || v.p[i] > 0x7E) return err_set(e, ST_USAGE, "%s holds a byte that no key has (white space, control, or beyond ASCII)", where);
    *key = mem_text(v.p, v.n);
    return *key ? ST_OK : err_memory(e, v.n);
}

status host_key(const char *file, char **key, err *e) {
    const char *env = getenv("ANYJEV_API_KEY");
    *key = NULL;
    if (!file) return env && *env ? key_take(strv_of(env), "ANYJEV_API_KEY", key, e) : ST_OK;
    char text[4097];
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(e, ST_INPUT, "%s: cannot open: %s", file, strerror(errno));
    status s = ST_OK;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) s = err_set(e, ST_INPUT, "%s: no regular file", file);
    else if (st.st_mode & 077) s = err_set(e, ST_REFUSED, "%s: others can read this key; type: chmod 600 %s", file, file);
    ssize_t n = s ? 0 : read(fd, text, sizeof text);
    if (!s && n < 0) s = err_set(e, ST_INPUT, "%s: cannot read: %s", file, strerror(errno));
    if (!s && n == sizeof text) s = err_set(e, ST_INPUT, "%s: too long for a key", file);
    close(fd);
    return s ? s : key_take((strv){text, (size_t)n}, file, key, e);
}

/* The message in the usual places: error.message, error, message, detail. */
static jref message_of(const json *d) {
    jref error = json_get(d, JREF_ROOT, "error"), m = json_get(d, error, "message");
    if (m == JREF_NONE) m = error;
    if (m == JREF_NONE) m = json_get(d, JREF_ROOT, "message");
    if (m == JREF_NONE) m = json_get(d, JREF_ROOT, "detail");
    return m;
}

enum { WORDS_MAX = 300, KEY_HEAD = 6 };

/* Servers like to repeat a wrong key, whole or its beginning: a word that starts as the key does is not shown. */
static void put_masked(strv v, const char *key, buf *out) {
    size_t head = key ? strlen(key) : 0;
    if (head > KEY_HEAD) head = KEY_HEAD;
    for (size_t i = 0; i < v.n;) {
        if (head && v.n - i >= head && memcmp(v.p + i, key, head) == 0) {
            buf_text(out, "***");
            while (i < v.n && v.p[i] > 0x20 && !strchr("\"'`,;", v.p[i])) i++;
            continue;
        }
        unsigned char c = (unsigned char)v.p[i++];
        bool space = c <= 0x20 || c == 0x7F;
        if (space && (out->len == 0 || out->p[out->len - 1] == ' ')) continue;
        buf_byte(out, space ? ' ' : (char)c);
    }
}

void host_words(strv body, const char *key, buf *out) {
    json d = {0};
    err ignored = {0};
    buf scratch = {0}, all = {0};
    strv v = body;
    if (json_parse(&d, body.p ? body.p : "", body.n, &ignored) == ST_OK) {
        jref m = message_of(&d);
        if (json_kind_of(&d, m) == JSON_STRING) {
            if (json_text(&d, m, &scratch, &v, &ignored)) v = json_raw(&d, m);
        } else if (m != JREF_NONE) {
            v = json_raw(&d, m);
        }
    }
    if (!utf8_valid(v.p ? v.p : "", v.n, NULL)) v = strv_of("(text that is no UTF-8)");
    put_masked(v, key, &all);
    v = strv_trim(buf_strv(&all));
    bool cut = v.n > WORDS_MAX;
    if (cut) v.n = WORDS_MAX;
    while (cut && v.n && ((unsigned char)v.p[v.n] & 0xC0) == 0x80) v.n--;
    if (v.n == 0) buf_text(out, "(no words)");
    buf_view(out, v);
    if (cut) buf_text(out, "...");
    buf_free(&all);
    buf_free(&scratch);
    json_free(&d);
}
