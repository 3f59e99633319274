/* model.h: a decoder of the Llama kind (RMSNorm, RoPE, grouped-query attention, SwiGLU), loaded from mapped
 * weights and checked tensor by tensor. */
#ifndef ANYJEV_MODEL_MODEL_H
#define ANYJEV_MODEL_MODEL_H

#include "base/err.h"
#include "base/hash.h"
#include "kernel/kernel.h"
#include "model/config.h"

typedef struct model model;

/* path: a folder or GGUF file (locate.h). Every tensor of the architecture must be there with its shape, and
 * no other (a GGUF's rope_freqs.weight, old rotary_emb.inv_freq and a tied model's lm_head aside). */
status model_open(model **m, const char *path, err *e);
void model_close(model *m);

/* How matrix products are done: float32, or int8 in blocks of 32 (weights and activations; embeddings are looked up
 * as they are, norms and attention stay float32). Part of a model's identity. */
typedef enum model_compute { MODEL_F32, MODEL_INT8 } model_compute;
bool model_compute_parse(const char *name, model_compute *out);
const char *model_compute_name(model_compute c);

/* A packed copy beside the model (in its folder, or NAME.gguf.anyjev-MODE.pack) holds the matrices of one compute mode as
 * products want them, their hashes, and the fingerprint. It is mapped: programs that share it share its pages.
 * What is trusted: while sizes, inodes and times of change of the model's files and of the copy are those that the copy
 * was written with, nobody has written to them. Where they differ, or with `verify`, contents are hashed. */
/* Once, before model_run: takes the packed copy when there is one, else packs in memory what the mode needs. *note
 * (an empty buf; owned by the caller) says why a copy that is there was not taken. Damage is ST_INPUT. */
status model_prepare(model *m, kernel *kn, model_compute c, const char *tokenizer_sha256, bool verify, buf *note, err *e);
/* Writes the packed copy (instead of model_prepare) and reads it back; *path (an empty buf) names it. */
status model_pack_write(model *m, kernel *kn, model_compute c, const char *tokenizer_sha256, buf *path, err *e);
const model_config *model_shape(const model *m);
const gguf *model_gguf(const model *m); /* NULL for a folder */

/* SHA-256 over the configuration (config.json, or the GGUF's metadata), the tokenizer's hash, and the names,
 * types, shapes and contents of all tensors. Reads all weights once, unless a packed copy is trusted to know it. */
status model_fingerprint(const model *m, const char *tokenizer_sha256, char hex[SHA256_HEX_SIZE], err *e);

/* One prompt of a batch. */
typedef struct model_prompt {
    size_t index;        /* the caller's own number */
    const uint32_t *ids; /* borrowed */
    size_t n_ids;        /* at least 1, at most the context */
    bool want_logits;    /* logprobs at labels */
    const uint32_t *labels;
    size_t n_labels;
    const size_t *blocks; /* hidden states of the last position after these blocks (0: embeddings; n_blocks: final norm) */
    size_t n_blocks;
    /* filled by model_run; owned by the caller, with room for n_labels and n_blocks * hidden_dim */
    double *logprobs;
    float *hidden;
    size_t blocks_run; /* how deep this prompt's pass went */
    size_t n_reused;   /* tokens that another prompt of the batch had computed */
} model_prompt;

/* Sorts prompts so that those with a common prefix stand together. */
void model_sort(model_prompt *prompts, size_t n);
/* How many of the sorted prompts, from the first on, make at most max_tokens distinct tokens (at least one prompt). */
size_t model_batch(const model_prompt *prompts, size_t n, size_t max_tokens);

/* Bytes that model_run() takes for `tokens` distinct ones on that many threads; SIZE_MAX when they cannot be counted. */
size_t model_run_bytes(const model *m, unsigned threads, size_t tokens);

/* Distinct tokens of sorted prompts. */
size_t model_tokens(const model_prompt *prompts, size_t n);

typedef struct model_stats {
    size_t tokens;   /* of all prompts */
    size_t computed; /* distinct ones, run through the model */
} model_stats;

/* Runs a batch as one prefix tree: every distinct token once, in one pass over the blocks; a branch whose
 * prompts need only a lower block leaves there; the vocabulary projection runs at last tokens only. A
 * prompt's numbers do not depend on the others. progress (may be NULL) is called with the tokens done, out of
 * computed * n_blocks. A NaN or an infinity is ST_INPUT and *bad names the prompt. */
typedef void model_progress(void *ctx, size_t more);
status model_run(const model *m, kernel *kn, model_prompt *prompts, size_t n, model_stats *stats, model_progress *progress,
                 void *ctx, size_t *bad, err *e);

#endif
