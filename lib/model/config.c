#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json/json.h"

static const char *const architectures[] = {"llama", "mistral", "qwen2", "qwen3"};

static status set_arch(model_config *c, strv name, err *e) {
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strv_is(name, architectures[i])) {
            strcpy(c->arch, architectures[i]);
            c->qk_norm = strv_is(name, "qwen3");
            c->qkv_bias = strv_is(name, "qwen2");
            return ST_OK;
        }
    return err_set(e, ST_REFUSED, "architecture '%.*s' is not supported; expected llama (also SmolLM2), mistral, qwen2 or qwen3",
                   (int)(name.n > 60 ? 60 : name.n), name.p);
}

/* Bounds that keep products of shapes far from overflow and catch nonsense early. */
static status check(const model_config *c, err *e) {
    const struct {
        const char *what;
        size_t v, max;
    } dims[] = {{"number of layers", c->n_blocks, 1024},     {"hidden size", c->hidden_dim, 1u << 17},
                {"attention heads", c->heads, 1024},         {"key-value heads", c->kv_heads, 1024},
                {"head dimension", c->head_dim, 1024},       {"intermediate size", c->ffn_dim, 1u << 20},
                {"vocabulary", c->vocab, 1u << 24},          {"context", c->context, 1u << 28}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        if (dims[i].v < 1 || dims[i].v > dims[i].max)
            return err_set(e, ST_INPUT, "%s %zu: expected 1 to %zu", dims[i].what, dims[i].v, dims[i].max);
    if (c->heads % c->kv_heads) return err_set(e, ST_INPUT, "%zu attention heads are no multiple of %zu key-value heads", c->heads, c->kv_heads);
    if (c->head_dim % 2) return err_set(e, ST_INPUT, "head dimension %zu is odd", c->head_dim);
    if (!(c->norm_eps > 0 && c->norm_eps < 1)) return err_set(e, ST_INPUT, "RMSNorm epsilon %g: expected a small positive number", c->norm_eps);
    if (!(c->rope_theta > 1)) return err_set(e, ST_INPUT, "RoPE base %g: expected more than 1", c->rope_theta);
    if (c->rope != ROPE_PLAIN && !(c->rope_factor >= 1)) return err_set(e, ST_INPUT, "RoPE scaling factor %g: expected at least 1", c->rope_factor);
    if (c->rope == ROPE_LLAMA3 && !(c->rope_high > c->rope_low && c->rope_low > 0 && c->rope_original > 0))
        return err_set(e, ST_INPUT, "RoPE scaling llama3: expected 0 < low_freq_factor < high_freq_factor and original_max_position_embeddings");
    if (c->rope_theta > 1e15 || c->rope_factor > 1e9) return err_set(e, ST_INPUT, "RoPE base %g or scaling factor %g: too large", c->rope_theta, c->rope_factor);
    if (c->rope == ROPE_YARN && !(c->rope_fast > 0 && c->rope_fast < 1e9 && c->rope_slow > 0 && c->rope_slow < 1e9 && c->rope_original >= 1 && c->rope_original < 1e15))
        return err_set(e, ST_INPUT, "RoPE scaling yarn: expected beta_fast, beta_slow and original_max_position_embeddings above 0");
    return ST_OK;
}

/* --- config.json --- */

typedef struct reader {
    const json *doc;
    jref root;
    err *e;
} reader;

static bool absent(const reader *r, jref v) {
    json_kind k = json_kind_of(r->doc, v);
    return k == JSON_NONE || k == JSON_NULL;
}

static status get_size(const reader *r, const char *key, size_t fallback, size_t *out) {
    jref v = json_get(r->doc, r->root, key);
    if (!absent(r, v)) return json_size(r->doc, v, key, out, r->e);
    if (fallback == 0) return err_set(r->e, ST_INPUT, "field '%s' is missing", key);
    *out = fallback;
    return ST_OK;
}

static status get_real(const reader *r, jref obj, const char *key, double fallback, double *out) {
    jref v = json_get(r->doc, obj, key);
    *out = fallback;
    return absent(r, v) ? ST_OK : json_real(r->doc, v, key, out, r->e);
}

static status read_rope(const reader *r, model_config *c) {
    /* Older files: rope_theta and rope_scaling; newer ones: rope_parameters with both. */
    jref params = json_get(r->doc, r->root, "rope_parameters"), scaling = json_get(r->doc, r->root, "rope_scaling");
    jref from = absent(r, params) ? scaling : params;
    status s = get_real(r, r->root, "rope_theta", 10000, &c->rope_theta);
    if (!s) s = get_real(r, from, "rope_theta", c->rope_theta, &c->rope_theta);
    if (s || absent(r, from)) return s;
    double part = 1;
    if ((s = get_real(r, from, "partial_rotary_factor", 1, &part))) return s;
    if (part != 1) return err_set(r->e, ST_REFUSED, "RoPE on a part of each head (partial_rotary_factor %g) is not supported", part);
    jref type = json_get(r->doc, from, "rope_type");
    if (absent(r, type)) type = json_get(r->doc, from, "type");
    if (absent(r, type) || json_is(r->doc, type, "default")) return ST_OK;
    if (json_is(r->doc, type, "linear")) c->rope = ROPE_LINEAR;
    else if (json_is(r->doc, type, "llama3")) c->rope = ROPE_LLAMA3;
    else if (json_is(r->doc, type, "yarn")) c->rope = ROPE_YARN;
    else {
        strv raw = json_raw(r->doc, type);
        return err_set(r->e, ST_REFUSED, "RoPE scaling %.*s is not supported; expected linear, llama3 or yarn", (int)(raw.n > 60 ? 60 : raw.n), raw.p);
    }
    if (c->rope == ROPE_YARN && (!absent(r, json_get(r->doc, from, "mscale")) || !absent(r, json_get(r->doc, from, "mscale_all_dim"))))
        return err_set(r->e, ST_REFUSED, "RoPE scaling yarn with mscale is not supported");
    s = get_real(r, from, "factor", 0, &c->rope_factor);
    if (!s) s = get_real(r, from, "low_freq_factor", 0, &c->rope_low);
    if (!s) s = get_real(r, from, "high_freq_factor", 0, &c->rope_high);
    if (!s) s = get_real(r, from, "original_max_position_embeddings", c->rope == ROPE_YARN ? (double)c->context : 0, &c->rope_original);
    if (!s) s = get_real(r, from, "beta_fast", 32, &c->rope_fast);
    if (!s) s = get_real(r, from, "beta_slow", 1, &c->rope_slow);
    if (!s) s = get_real(r, from, "attention_factor", 0, &c->rope_attention);
    jref truncate = json_get(r->doc, from, "truncate");
    c->rope_truncate = absent(r, truncate) || json_true(r->doc, truncate);
    return s;
}

static status read_all(const reader *r, model_config *c) {
    buf scratch = {0};
    strv type;
    jref t = json_get(r->doc, r->root, "model_type");
    if (json_kind_of(r->doc, t) != JSON_STRING) return err_set(r->e, ST_INPUT, "field 'model_type' is missing");
    status s = json_text(r->doc, t, &scratch, &type, r->e);
    if (!s) s = set_arch(c, type, r->e);
    buf_free(&scratch);
    if (s) return s;
    if (!absent(r, json_get(r->doc, r->root, "quantization_config")))
        return err_set(r->e, ST_REFUSED, "quantised safetensors are not supported; use a GGUF file of the model");
    if ((s = get_size(r, "num_hidden_layers", 0, &c->n_blocks)) || (s = get_size(r, "hidden_size", 0, &c->hidden_dim)) ||
        (s = get_size(r, "num_attention_heads", 0, &c->heads)) || (s = get_size(r, "num_key_value_heads", c->heads, &c->kv_heads)) ||
        (s = get_size(r, "intermediate_size", 0, &c->ffn_dim)) || (s = get_size(r, "vocab_size", 0, &c->vocab)) ||
        (s = get_size(r, "max_position_embeddings", 0, &c->context)) || (s = get_real(r, r->root, "rms_norm_eps", 1e-6, &c->norm_eps)))
        return s;
    if (!c->heads) return check(c, r->e);
    if ((s = get_size(r, "head_dim", c->hidden_dim / c->heads ? c->hidden_dim / c->heads : 1, &c->head_dim))) return s;
    /* What a family assumes when the file is silent (transformers' defaults). */
    jref tied = json_get(r->doc, r->root, "tie_word_embeddings");
    c->tied = json_true(r->doc, tied);
    jref act = json_get(r->doc, r->root, "hidden_act");
    if (!absent(r, act) && !json_is(r->doc, act, "silu")) {
        strv raw = json_raw(r->doc, act);
        return err_set(r->e, ST_REFUSED, "activation %.*s is not supported; expected silu", (int)(raw.n > 60 ? 60 : raw.n), raw.p);
    }
    if (json_true(r->doc, json_get(r->doc, r->root, "attention_bias"))) {
        if (strcmp(c->arch, "llama") == 0) return err_set(r->e, ST_REFUSED, "a llama model with attention_bias is not supported");
        c->qkv_bias = true;
        if (strcmp(c->arch, "qwen3") == 0) return err_set(r->e, ST_REFUSED, "a qwen3 model with attention_bias is not supported");
    }
    if (json_true(r->doc, json_get(r->doc, r->root, "mlp_bias"))) return err_set(r->e, ST_REFUSED, "a model with mlp_bias is not supported");
    if (json_true(r->doc, json_get(r->doc, r->root, "use_sliding_window")))
        return err_set(r->e, ST_REFUSED, "a %s model with a sliding window on some layers is not supported", c->arch);
    jref window = json_get(r->doc, r->root, "sliding_window");
    if (strcmp(c->arch, "mistral") == 0 && !absent(r, window) && (s = json_size(r->doc, window, "sliding_window", &c->window, r->e))) return s;
    double part = 1;
    if ((s = get_real(r, r->root, "partial_rotary_factor", 1, &part))) return s;
    if (part != 1) return err_set(r->e, ST_REFUSED, "RoPE on a part of each head (partial_rotary_factor %g) is not supported", part);
    if ((s = read_rope(r, c))) return s;
    return check(c, r->e);
}

status config_read_json(model_config *c, strv text, err *e) {
    json doc = {0};
    *c = (model_config){0};
    status s = json_parse(&doc, text.p, text.n, e);
    reader r = {&doc, JREF_ROOT, e};
    if (!s) s = read_all(&r, c);
    json_free(&doc);
    return s;
}

/* --- GGUF --- */

static const char *key_of(const model_config *c, const char *name, char out[64]) {
    snprintf(out, 64, "%s.%s", c->arch, name);
    return out;
}

static status gguf_need(const gguf *g, const model_config *c, const char *name, size_t fallback, size_t *out, err *e) {
    char key[64];
    if (gguf_size(g, key_of(c, name, key), out)) return ST_OK;
    if (!fallback || gguf_has(g, key)) return err_set(e, ST_INPUT, "metadata '%s' is missing or no whole number", key);
    *out = fallback;
    return ST_OK;
}

status config_read_gguf(model_config *c, const gguf *g, err *e) {
    *c = (model_config){0};
    strv arch;
    char key[64];
    if (!gguf_text(g, "general.architecture", &arch)) return err_set(e, ST_INPUT, "metadata 'general.architecture' is missing");
    status s = set_arch(c, arch, e);
    if (s) return s;
    if ((s = gguf_need(g, c, "block_count", 0, &c->n_blocks, e)) || (s = gguf_need(g, c, "embedding_length", 0, &c->hidden_dim, e)) ||
        (s = gguf_need(g, c, "attention.head_count", 0, &c->heads, e)) || (s = gguf_need(g, c, "attention.head_count_kv", c->heads, &c->kv_heads, e)) ||
        (s = gguf_need(g, c, "feed_forward_length", 0, &c->ffn_dim, e)) || (s = gguf_need(g, c, "context_length", 0, &c->context, e)))
        return s;
    if (!c->heads) return check(c, e);
    if ((s = gguf_need(g, c, "attention.key_length", c->hidden_dim / c->heads ? c->hidden_dim / c->heads : 1, &c->head_dim, e))) return s;
    size_t value = c->head_dim;
    if ((s = gguf_need(g, c, "attention.value_length", c->head_dim, &value, e))) return s;
    if (value != c->head_dim) return err_set(e, ST_REFUSED, "keys of %zu and values of %zu dimensions are not supported", c->head_dim, value);
    size_t rope = c->head_dim;
    if ((s = gguf_need(g, c, "rope.dimension_count", c->head_dim, &rope, e))) return s;
    if (rope != c->head_dim) return err_set(e, ST_REFUSED, "RoPE on %zu of %zu dimensions is not supported", rope, c->head_dim);
    if (!gguf_real(g, key_of(c, "attention.layer_norm_rms_epsilon", key), &c->norm_eps)) return err_set(e, ST_INPUT, "metadata '%s' is missing", key);
    if (!gguf_real(g, key_of(c, "rope.freq_base", key), &c->rope_theta)) c->rope_theta = 10000;
    const gguf_tensor *embd = gguf_find(g, "token_embd.weight");
    if (!embd || embd->n_dims != 2) return err_set(e, ST_INPUT, "tensor 'token_embd.weight' is missing or no matrix");
    c->vocab = embd->dims[1];
    c->tied = !gguf_find(g, "output.weight");
    c->rope_interleaved = strcmp(c->arch, "llama") == 0 || strcmp(c->arch, "mistral") == 0;
    strv type;
    if (gguf_text(g, key_of(c, "rope.scaling.type", key), &type) && !strv_is(type, "none")) {
        if (strv_is(type, "linear")) c->rope = ROPE_LINEAR;
        else if (strv_is(type, "yarn")) c->rope = ROPE_YARN;
        else return err_set(e, ST_REFUSED, "RoPE scaling '%.*s' is not supported", (int)(type.n > 60 ? 60 : type.n), type.p);
        if (!gguf_real(g, key_of(c, "rope.scaling.factor", key), &c->rope_factor)) return err_set(e, ST_INPUT, "metadata '%s' is missing", key);
        if (!gguf_real(g, key_of(c, "rope.scaling.original_context_length", key), &c->rope_original)) c->rope_original = (double)c->context;
        c->rope_fast = 32;
        c->rope_slow = 1;
        c->rope_truncate = true;
        gguf_real(g, key_of(c, "rope.scaling.yarn_beta_fast", key), &c->rope_fast);
        gguf_real(g, key_of(c, "rope.scaling.yarn_beta_slow", key), &c->rope_slow);
        /* Readers of GGUF disagree on what these multiply. */
        static const char *const unclear[] = {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_log_multiplier"};
        for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
            double v;
            if (gguf_real(g, key_of(c, unclear[i], key), &v) && v != 1) return err_set(e, ST_REFUSED, "metadata '%s' of %g is not supported", key, v);
        }
    }
    size_t window = 0;
    if (gguf_size(g, key_of(c, "attention.sliding_window", key), &window) && window) {
        if (strcmp(c->arch, "llama") != 0 && strcmp(c->arch, "mistral") != 0)
            return err_set(e, ST_REFUSED, "a %s model with a sliding window is not supported", c->arch);
        c->window = window;
    }
    return check(c, e);
}
