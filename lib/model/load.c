#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "model/model_internal.h"
#include "model/rope.h"

typedef struct loader {
    model *m;
    bool *used; /* by index of the tensor */
    err *e;
} loader;

/* The two spellings of every tensor's name; %zu is the block. */
typedef struct spelling {
    const char *hf, *gguf;
} spelling;

static void spell(const loader *l, spelling s, size_t block, char out[128]) {
    /* The formats are the table's own literals below. */
    const char *f = weights_gguf(l->m->w) ? s.gguf : s.hf, *at = strstr(f, "{}");
    if (at) snprintf(out, 128, "%.*s%zu%s", (int)(at - f), f, block, at + 2);
    else snprintf(out, 128, "%s", f);
}

static const weight *find(loader *l, const char *name) {
    const weight *t = weights_find(l->m->w, name);
    if (t) l->used[t - weights_at(l->m->w, 0)] = true;
    return t;
}

static void shape_text(const size_t *dims, size_t n, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t d = 0; d < n && at < size; d++) at += (size_t)snprintf(out + at, size - at, "%s%zu", d ? ", " : "", dims[d]);
}

static status need(loader *l, spelling s, size_t block, size_t rows, size_t cols, const weight **out) {
    char name[128];
    spell(l, s, block, name);
    const weight *t = find(l, name);
    *out = t;
    if (!t) return err_set(l->e, ST_INPUT, "%s: tensor '%s' is missing", l->m->path, name);
    bool vector = cols == 0;
    if (vector ? t->n_dims != 1 || t->dims[0] != rows : t->n_dims != 2 || t->dims[0] != rows || t->dims[1] != cols) {
        size_t wanted[2] = {rows, cols};
        char want[64], have[128];
        shape_text(wanted, vector ? 1 : 2, want, sizeof want);
        shape_text(t->dims, t->n_dims, have, sizeof have);
        return err_set(l->e, ST_INPUT, "%s: tensor '%s' has shape [%s], expected [%s]", l->m->path, name, have, want);
    }
    return ST_OK;
}

static status matrix(loader *l, spelling s, size_t block, size_t rows, size_t cols, kmat **out) {
    const weight *t;
    status st = need(l, s, block, rows, cols, &t);
    if (!st && (st = kmat_open(out, t->type, t->data, t->bytes, rows, cols, l->e))) err_prefix(l->e, "%s: tensor '%.*s'", l->m->path, (int)t->name.n, t->name.p);
    return st;
}

static status vector(loader *l, spelling s, size_t block, size_t n, float **out) {
    const weight *t;
    status st = need(l, s, block, n, 0, &t);
    if (st) return st;
    *out = mem_aligned(n, sizeof **out);
    if (!*out) return err_memory(l->e, n * sizeof **out);
    kmat_widen(t->type, t->data, n, *out);
    return ST_OK;
}

static status load_block(loader *l, size_t i) {
    const model_config *c = &l->m->c;
    model_block *b = &l->m->blocks[i];
    size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, h = c->hidden_dim;
    status s;
#define HF "model.layers.{}."
    if ((s = vector(l, (spelling){HF "input_layernorm.weight", "blk.{}.attn_norm.weight"}, i, h, &b->attn_norm)) ||
        (s = matrix(l, (spelling){HF "self_attn.q_proj.weight", "blk.{}.attn_q.weight"}, i, q, h, &b->q)) ||
        (s = matrix(l, (spelling){HF "self_attn.k_proj.weight", "blk.{}.attn_k.weight"}, i, kv, h, &b->k)) ||
        (s = matrix(l, (spelling){HF "self_attn.v_proj.weight", "blk.{}.attn_v.weight"}, i, kv, h, &b->v)) ||
        (s = matrix(l, (spelling){HF "self_attn.o_proj.weight", "blk.{}.attn_output.weight"}, i, h, q, &b->o)) ||
        (s = vector(l, (spelling){HF "post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"}, i, h, &b->ffn_norm)) ||
        (s = matrix(l, (spelling){HF "mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"}, i, c->ffn_dim, h, &b->gate)) ||
        (s = matrix(l, (spelling){HF "mlp.up_proj.weight", "blk.{}.ffn_up.weight"}, i, c->ffn_dim, h, &b->up)) ||
        (s = matrix(l, (spelling){HF "mlp.down_proj.weight", "blk.{}.ffn_down.weight"}, i, h, c->ffn_dim, &b->down)))
        return s;
    if (c->qkv_bias && ((s = vector(l, (spelling){HF "self_attn.q_proj.bias", "blk.{}.attn_q.bias"}, i, q, &b->q_bias)) ||
                        (s = vector(l, (spelling){HF "self_attn.k_proj.bias", "blk.{}.attn_k.bias"}, i, kv, &b->k_bias)) ||
                        (s = vector(l, (spelling){HF "self_attn.v_proj.bias", "blk.{}.attn_v.bias"}, i, kv, &b->v_bias))))
        return s;
    if (c->qk_norm && ((s = vector(l, (spelling){HF "self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"}, i, c->head_dim, &b->q_norm)) ||
                       (s = vector(l, (spelling){HF "self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}, i, c->head_dim, &b->k_norm))))
        return s;
#undef HF
    return ST_OK;
}

/* Tensors that older exporters wrote and nobody needs. */
static bool harmless(const loader *l, strv name) {
    static const char tail[] = ".rotary_emb.inv_freq";
    size_t n = sizeof tail - 1;
    if (name.n > n && memcmp(name.p + name.n - n, tail, n) == 0) return true;
    return l->m->c.tied && strv_is(name, "lm_head.weight");
}

static status load(loader *l) {
    model *m = l->m;
    const model_config *c = &m->c;
    status s;
    size_t half = c->head_dim / 2;
    if ((s = matrix(l, (spelling){"model.embed_tokens.weight", "token_embd.weight"}, 0, c->vocab, c->hidden_dim, &m->embed)) ||
        (s = vector(l, (spelling){"model.norm.weight", "output_norm.weight"}, 0, c->hidden_dim, &m->norm)))
        return s;
    if (!c->tied && (s = matrix(l, (spelling){"lm_head.weight", "output.weight"}, 0, c->vocab, c->hidden_dim, &m->output))) return s;
    if (c->tied) m->output = m->embed;
    m->blocks = mem_zero(c->n_blocks, sizeof *m->blocks);
    m->inv_freq = mem_aligned(half, sizeof *m->inv_freq);
    if (!m->blocks || !m->inv_freq) return err_memory(l->e, c->n_blocks * sizeof *m->blocks);
    for (size_t i = 0; i < c->n_blocks; i++)
        if ((s = load_block(l, i))) return s;
    float *factors = NULL;
    if (weights_gguf(m->w) && weights_find(m->w, "rope_freqs.weight") && (s = vector(l, (spelling){"", "rope_freqs.weight"}, 0, half, &factors))) return s;
    rope_frequencies(c, factors, m->inv_freq, &m->rope_scale);
    free(factors);
    for (size_t i = 0; i < weights_count(m->w); i++) {
        strv name = weights_at(m->w, i)->name;
        if (!l->used[i] && !harmless(l, name))
            return err_set(l->e, ST_INPUT, "%s: tensor '%.*s' does not belong to a %s model of this configuration", m->path, (int)(name.n > 200 ? 200 : name.n), name.p, c->arch);
    }
    return ST_OK;
}

static status read_config(model *m, err *e) {
    const gguf *g = weights_gguf(m->w);
    if (g) {
        strv head = gguf_header(g);
        status s = config_read_gguf(&m->c, g, e);
        if (s) return err_prefix(e, "%s", m->path);
        return sha256_hex(head.p, head.n, m->config_sha256, e);
    }
    buf path = {0}, text = {0};
    buf_printf(&path, "%s/config.json", m->path);
    status s = buf_ok(&path, e);
    if (!s) s = file_read(path.p, &text, e);
    if (!s && (s = config_read_json(&m->c, buf_strv(&text), e))) err_prefix(e, "%s", path.p);
    if (!s) s = sha256_hex(text.p, text.len, m->config_sha256, e);
    buf_free(&path);
    buf_free(&text);
    return s;
}

status model_open(model **to, const char *path, err *e) {
    model *m = mem_zero(1, sizeof *m);
    *to = NULL;
    if (!m || !(m->path = mem_text(path, strlen(path)))) {
        free(m);
        return err_memory(e, sizeof *m);
    }
    loader l = {.m = m, .e = e};
    status s = weights_open(&m->w, path, e);
    if (!s) s = read_config(m, e);
    if (!s && !(l.used = mem_zero(weights_count(m->w), sizeof *l.used))) s = err_memory(e, weights_count(m->w));
    if (!s) s = load(&l);
    free(l.used);
    if (s) {
        model_close(m);
        return s;
    }
    *to = m;
    return ST_OK;
}

void model_close(model *m) {
    if (!m) return;
    for (size_t i = 0; m->blocks && i < m->c.n_blocks; i++) {
        model_block *b = &m->blocks[i];
        kmat *mats[] = {b->q, b->k, b->v, b->o, b->gate, b->up, b->down};
        float *vecs[] = {b->attn_norm, b->ffn_norm, b->q_bias, b->k_bias, b->v_bias, b->q_norm, b->k_norm};
        for (size_t k = 0; k < sizeof mats / sizeof *mats; k++) kmat_close(mats[k]);
        for (size_t k = 0; k < sizeof vecs / sizeof *vecs; k++) free(vecs[k]);
    }
    if (m->output != m->embed) kmat_close(m->output);
    kmat_close(m->embed);
    free(m->norm);
    free(m->inv_freq);
    free(m->blocks);
    map_close(&m->packed);
    weights_close(m->w);
    free(m->path);
    free(m);
}

const gguf *model_gguf(const model *m) {
    return weights_gguf(m->w);
}

const model_config *model_shape(const model *m) {
    return &m->c;
}

status model_fingerprint(const model *m, const char *tokenizer_sha256, char hex[SHA256_HEX_SIZE], err *e) {
    if (m->fingerprint[0]) {
        memcpy(hex, m->fingerprint, SHA256_HEX_SIZE);
        return ST_OK;
    }
    sha256 *h;
    status s = sha256_create(&h, e);
    if (s) return s;
    s = sha256_add(h, m->config_sha256, strlen(m->config_sha256), e);
    if (!s) s = sha256_add(h, tokenizer_sha256, strlen(tokenizer_sha256), e);
    if (!s) s = weights_hash(m->w, h, e);
    if (s) {
        sha256_free(h);
        return s;
    }
    return sha256_finish(h, hex, e);
}
