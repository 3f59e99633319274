/* gguf.h: the GGUF container (versions 2 and 3, little endian): metadata and tensor directory of a mapped
 * file. The file is hostile: every count, length, type and offset is checked before use, and a file cut at
 * any byte is refused with the offset. Format: the GGUF specification of the ggml project. */
#ifndef ANYJEV_WEIGHTS_GGUF_H
#define ANYJEV_WEIGHTS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "kernel/kernel.h"
#include "weights/map.h"

typedef struct gguf gguf;

typedef struct gguf_tensor {
    strv name;
    size_t n_dims, dims[4]; /* dims[0] varies fastest: a matrix [n_out][n_in] has dims {n_in, n_out} */
    kmat_type type;
    const void *data; /* inside the mapping */
    size_t bytes;
} gguf_tensor;

bool gguf_is(const char *path); /* the file starts with the magic number */
status gguf_open(gguf **g, const char *path, err *e);
void gguf_close(gguf *g);
const char *gguf_path(const gguf *g);
const map *gguf_map(const gguf *g);

size_t gguf_tensors(const gguf *g);
const gguf_tensor *gguf_tensor_at(const gguf *g, size_t i);
const gguf_tensor *gguf_find(const gguf *g, const char *name); /* NULL: not there */

/* Metadata. Each returns false when the key is absent or of another kind (integers of any width are one
 * kind, reals accept integers). Views point into the mapping. */
bool gguf_has(const gguf *g, const char *key);
bool gguf_size(const gguf *g, const char *key, size_t *out);
bool gguf_real(const gguf *g, const char *key, double *out);
bool gguf_bool(const gguf *g, const char *key, bool *out);
bool gguf_text(const gguf *g, const char *key, strv *out);

typedef struct gguf_array {
    uint32_t type; /* of the elements */
    size_t n;
    const unsigned char *p;
} gguf_array;
bool gguf_array_get(const gguf *g, const char *key, gguf_array *out);
bool gguf_array_is_text(const gguf_array *a);
/* Walks an array of strings; start with *at = 0, called at most n times. */
strv gguf_array_text(const gguf_array *a, size_t *at);
/* Element i of an array of integers or floats as a double; false for other kinds and behind the end. */
bool gguf_array_number(const gguf_array *a, size_t i, double *out);
/* The bytes of an array of numbers or bools; empty for strings. */
strv gguf_array_bytes(const gguf_array *a);

/* Metadata and directory as they stand in the file, for the fingerprint. */
strv gguf_header(const gguf *g);

#endif
