/* hash.h: SHA-256 (by libcrypto) and base64 (RFC 4648, with padding). */
#ifndef ANYJEV_BASE_HASH_H
#define ANYJEV_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SHA256_HEX_SIZE 65 /* 64 hex digits and a NUL */

/* SHA-256 of n bytes as lower-case hex. */
status sha256_hex(const void *bytes, size_t n, char hex[SHA256_HEX_SIZE], err *e);

/* The same over pieces. create, add..., finish (fills hex, frees) or free. */
typedef struct evp_md_ctx_st sha256; /* libcrypto's own context */
status sha256_create(sha256 **h, err *e);
status sha256_add(sha256 *h, const void *bytes, size_t n, err *e);
status sha256_finish(sha256 *h, char hex[SHA256_HEX_SIZE], err *e);
void sha256_free(sha256 *h);

/* SHA-256 of a file's bytes. */
status sha256_file(const char *path, char hex[SHA256_HEX_SIZE], err *e);

/* FNV-1a, 64 bits: for tables, not for identities. Starts with FNV_START; goes on from h. */
#define FNV_START 0xCBF29CE484222325u
uint64_t fnv1a(uint64_t h, const void *bytes, size_t n);

void base64_put(buf *out, const void *bytes, size_t n);
/* Appends the decoded bytes; refuses bad characters, bad padding and stray bits. */
status base64_get(strv text, buf *out, err *e);

#endif
