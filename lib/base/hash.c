#include "base/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

status sha256_create(sha256 **h, err *e) {
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (!c || EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c);
        *h = NULL;
        return err_set(e, ST_INCOMPLETE, "libcrypto: cannot start SHA-256");
    }
    *h = c;
    return ST_OK;
}

status sha256_add(sha256 *h, const void *bytes, size_t n, err *e) {
    if (n && EVP_DigestUpdate(h, bytes, n) != 1) return err_set(e, ST_INCOMPLETE, "libcrypto: SHA-256 failed");
    return ST_OK;
}

status sha256_finish(sha256 *h, char hex[SHA256_HEX_SIZE], err *e) {
    unsigned char d[32];
    unsigned int n = 0;
    int ok = EVP_DigestFinal_ex(h, d, &n);
    sha256_free(h);
    if (ok != 1 || n != sizeof d) return err_set(e, ST_INCOMPLETE, "libcrypto: SHA-256 failed");
    for (size_t i = 0; i < sizeof d; i++) snprintf(hex + 2 * i, 3, "%02x", d[i]);
    return ST_OK;
}

void sha256_free(sha256 *h) {
    EVP_MD_CTX_free(h);
}

status sha256_hex(const void *bytes, size_t n, char hex[SHA256_HEX_SIZE], err *e) {
    sha256 *h;
    status s = sha256_create(&h, e);
    if (s) return s;
    if ((s = sha256_add(h, bytes, n, e))) {
        sha256_free(h);
        return s;
    }
    return sha256_finish(h, hex, e);
}

status sha256_file(const char *path, char hex[SHA256_HEX_SIZE], err *e) {
    FILE *f = fopen(path, "rb");
    if (!f) return err_set(e, ST_INPUT, "%s: cannot open: %s", path, strerror(errno));
    sha256 *h;
    status s = sha256_create(&h, e);
    if (!s) {
        unsigned char chunk[65536];
        size_t n;
        while (!s && (n = fread(chunk, 1, sizeof chunk, f)) > 0) s = sha256_add(h, chunk, n, e);
        if (!s && ferror(f)) s = err_set(e, ST_INPUT, "%s: cannot read: %s", path, strerror(errno));
        if (s) sha256_free(h);
        else s = sha256_finish(h, hex, e);
    }
    fclose(f);
    return s;
}

uint64_t fnv1a(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}

static const char b64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(buf *out, const void *bytes, size_t n) {
    const unsigned char *s = bytes;
    if (n > SIZE_MAX / 2 || !buf_reserve(out, (n + 2) / 3 * 4)) {
        out->failed = true;
        return;
    }
    char *d = out->p + out->len;
    for (; n >= 3; n -= 3, s += 3) {
        *d++ = b64[s[0] >> 2];
        *d++ = b64[(s[0] & 3) << 4 | s[1] >> 4];
        *d++ = b64[(s[1] & 15) << 2 | s[2] >> 6];
        *d++ = b64[s[2] & 63];
    }
    if (n) {
        *d++ = b64[s[0] >> 2];
        *d++ = b64[(s[0] & 3) << 4 | (n == 2 ? s[1] >> 4 : 0)];
        *d++ = n == 2 ? b64[(s[1] & 15) << 2] : '=';
        *d++ = '=';
    }
    *d = '\0';
    out->len = (size_t)(d - out->p);
}

static int b64_value(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

status base64_get(strv text, buf *out, err *e) {
    if (text.n % 4) return err_set(e, ST_INPUT, "base64 of %zu characters: expected a multiple of four", text.n);
    if (!buf_reserve(out, text.n / 4 * 3)) return buf_ok(out, e);
    for (size_t i = 0; i < text.n; i += 4) {
        const char *q = text.p + i;
        int pad = i + 4 == text.n ? (q[3] == '=') + (q[3] == '=' && q[2] == '=') : 0;
        uint32_t v = 0;
        for (int j = 0; j < 4 - pad; j++) {
            int x = b64_value(q[j]);
            if (x < 0) return err_set(e, ST_INPUT, "base64: bad character at offset %zu", i + (size_t)j);
            v |= (uint32_t)x << (18 - 6 * j);
        }
        if ((pad == 1 && (v & 0xFF)) || (pad == 2 && (v & 0xFFFF)))
            return err_set(e, ST_INPUT, "base64: stray bits before the padding");
        char three[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        buf_put(out, three, (size_t)(3 - pad));
    }
    return buf_ok(out, e);
}
