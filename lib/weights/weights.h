/* weights.h: the tensors of a model, wherever they lie: a Hugging Face folder (model.safetensors, or shards
 * with model.safetensors.index.json) or a GGUF file. Files are mapped; everything in them is checked. */
#ifndef ANYJEV_WEIGHTS_WEIGHTS_H
#define ANYJEV_WEIGHTS_WEIGHTS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "kernel/kernel.h"
#include "weights/gguf.h"

typedef struct weights weights;

typedef struct weight {
    strv name; /* owned by the weights */
    kmat_type type;
    size_t n_dims, dims[4]; /* outermost first: a matrix is {n_out, n_in} */
    const void *data;       /* inside a mapping */
    size_t bytes;
} weight;

/* path: a folder or a GGUF file (see locate.h). */
status weights_open(weights **w, const char *path, err *e);
void weights_close(weights *w);
const gguf *weights_gguf(const weights *w); /* NULL for a folder */
size_t weights_count(const weights *w);
const weight *weights_at(const weights *w, size_t i); /* in the order of names */
const weight *weights_find(const weights *w, const char *name);
/* Adds names, types, shapes and contents of all tensors to a hash, in the order of names. */
status weights_hash(const weights *w, sha256 *h, err *e);
/* A hash of sizes, inodes and times of change of the files: while it is the same, nobody has written to them. */
status weights_stamp(const weights *w, char hex[SHA256_HEX_SIZE], err *e);

#endif
