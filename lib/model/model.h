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
/* Once, before model_run: packs the matrices as the compute mode wants them. A model is float32 until then. */
status model_pack(model *m, kernel *kn, model_compute c, err *e);
const model_config *model_shape(const model *m);

/* SHA-256 over the configuration (config.json, or the GGUF's metadata), the tokenizer's hash, and the names,
 * types, shapes and contents of all tensors. Reads all weights once. */
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
