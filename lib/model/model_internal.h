/* model_internal.h: the loaded model, as load.c makes it and forward.c runs it. */
#ifndef ANYJEV_MODEL_MODEL_INTERNAL_H
#define ANYJEV_MODEL_MODEL_INTERNAL_H

#include "model/model.h"
#include "weights/map.h"
#include "weights/weights.h"

typedef struct model_block {
    float *attn_norm, *ffn_norm;      /* [hidden_dim] */
    kmat *q, *k, *v;                  /* [heads * head_dim][hidden_dim], [kv_heads * head_dim][hidden_dim] */
    float *q_bias, *k_bias, *v_bias;  /* or NULL */
    float *q_norm, *k_norm;           /* [head_dim] or NULL */
    kmat *o;                          /* [hidden_dim][heads * head_dim] */
    kmat *gate, *up, *down;           /* [ffn_dim][hidden_dim], the same, [hidden_dim][ffn_dim] */
} model_block;

struct model {
    model_config c;
    char *path;
    weights *w;
    map packed; /* the packed copy that matrices lie in, if any */
    char fingerprint[SHA256_HEX_SIZE]; /* as a packed copy has it; empty: not known yet */
    char config_sha256[SHA256_HEX_SIZE];
    kmat *embed;  /* [vocab][hidden_dim] */
    kmat *output; /* the same matrix when tied and float32 */
    float *norm;  /* [hidden_dim] */
    model_block *blocks;
    float *inv_freq;  /* [head_dim / 2] */
    float rope_scale; /* of cosines and sines (yarn) */
};

/* Blocks that a prompt goes through: the most that its logits or hidden states need. */
size_t model_prompt_depth(const model_config *c, const model_prompt *q);
/* ST_INPUT when a prompt's ids, labels or blocks do not fit the model. */
status model_check_prompt(const model_config *c, const model_prompt *q, err *e);

/* The matrices that products are made with: the output projection and seven of every block, in a fixed order.
 * model_matrices() of them; model_matrix() gives the place of one. */
enum { MODEL_BLOCK_MATRICES = 7 };
size_t model_matrices(const model *m);
kmat **model_matrix(model *m, size_t i);
/* The form of that matrix in compute mode c: ROWS when it stays as it is in the model's file. */
kmat_form model_form(const kmat *read, model_compute c);
/* Puts a packed matrix in the place of one read from the file. */
void model_replace(model *m, kmat **place, kmat *packed);

/* pack_file.c. *taken: the matrices of m lie in the copy, and m->fingerprint is set. */
status pack_take(model *m, kernel *kn, model_compute c, const char *tokenizer_sha256, bool verify, bool *taken, buf *note, err *e);

#endif
