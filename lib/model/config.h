/* config.h: the shape of a model, from a Hugging Face config.json or GGUF metadata. */
#ifndef ANYJEV_MODEL_CONFIG_H
#define ANYJEV_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "weights/gguf.h"

typedef enum rope_kind { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN } rope_kind;

typedef struct model_config {
    char arch[16]; /* llama, mistral, qwen2, qwen3 */
    size_t n_blocks, hidden_dim, heads, kv_heads, head_dim, ffn_dim, vocab, context;
    double norm_eps;
    bool tied;    /* the output projection is the embedding matrix */
    bool qk_norm; /* RMSNorm per head on queries and keys (Qwen3) */
    bool qkv_bias;
    size_t window; /* a row sees that many last positions; 0: all */
    double rope_theta;
    rope_kind rope;
    double rope_factor, rope_low, rope_high, rope_original; /* by kind */
    double rope_fast, rope_slow, rope_attention;            /* yarn; attention 0: from the factor */
    bool rope_truncate;
    bool rope_interleaved; /* query and key rows stand in pairs (GGUF of the llama family) */
} model_config;

/* ST_REFUSED for another architecture or a feature that is not supported, by name. */
status config_read_json(model_config *c, strv text, err *e);
status config_read_gguf(model_config *c, const gguf *g, err *e);
/* Of a folder or a GGUF file, without its weights. */
status config_of_model(const char *path, model_config *c, err *e);

#endif
