/* The vocabulary of a GGUF file: tokens, their types and merges; the split pattern goes by a name. */
#include "token/tokenizer_internal.h"
#include "weights/gguf.h"

enum { TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4 };

/* What goes by a name in tokenizer.ggml.pre. */
static const struct {
    const char *name;
    const char *const *pattern;
    bool digits, nfc, ignore_merges, bos; /* bos: also where add_bos_token is not said */
} known[] = {
    {"smollm", &split_gpt2, true, false, false, false}, {"gpt-2", &split_gpt2, false, false, false, false},
    {"qwen2", &split_qwen2, false, true, false, false}, {"llama-bpe", &split_llama3, false, false, true, true},
    {"llama3", &split_llama3, false, false, true, true}, {"tekken", &split_tekken, false, false, true, true},
};

static status load_pre(tokenizer *t, const gguf *g, bool *bos, err *e) {
    strv pre = strv_of("default");
    gguf_text(g, "tokenizer.ggml.pre", &pre);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strv_is(pre, known[i].name)) continue;
        t->nfc = known[i].nfc;
        t->ignore_merges = known[i].ignore_merges;
        *bos = known[i].bos;
        status s = known[i].digits ? splitter_add(t->split, strv_of(split_digit), false, e) : ST_OK;
        return s ? s : splitter_add(t->split, strv_of(*known[i].pattern), false, e);
    }
    return err_set(e, ST_INPUT, "the GGUF's pre-tokenizer '%.*s' is not supported; expected smollm, gpt-2, qwen2, llama-bpe or tekken", (int)(pre.n > 100 ? 100 : pre.n), pre.p);
}

static status load_tokens(tokenizer *t, const gguf_array *tokens, const gguf_array *types, err *e) {
    size_t at = 0;
    buf bytes = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < tokens->n; i++) {
        strv v = gguf_array_text(tokens, &at);
        double type = 1;
        gguf_array_number(types, i, &type);
        if (type == TYPE_CONTROL || type == TYPE_USER_DEFINED) continue;
        buf_clear(&bytes);
        tok_unmap(v, &bytes);
        if (!(s = buf_ok(&bytes, e))) s = tok_piece_add(t, (uint32_t)i, buf_strv(&bytes), e);
    }
    buf_free(&bytes);
    if (!s) s = tok_index(t, e);
    at = 0;
    for (size_t i = 0; !s && i < tokens->n; i++) {
        strv v = gguf_array_text(tokens, &at);
        double type = 1;
        gguf_array_number(types, i, &type);
        if (v.n && (type == TYPE_CONTROL || type == TYPE_USER_DEFINED))
            s = tok_added_add(t, v, (uint32_t)i, type == TYPE_CONTROL, false, false, false, e);
    }
    return s;
}

static status load_merges(tokenizer *t, const gguf_array *merges, err *e) {
    status s = tok_merges_reserve(t, merges->n, e);
    size_t at = 0;
    for (size_t i = 0; !s && i < merges->n; i++) {
        strv v = gguf_array_text(merges, &at);
        size_t k = 1; /* a merge never starts with its separator */
        while (k < v.n && v.p[k] != ' ') k++;
        if (k >= v.n) s = err_set(e, ST_INPUT, "merge %zu has no space", i + 1);
        else s = tok_merge_add(t, (strv){v.p, k}, (strv){v.p + k + 1, v.n - k - 1}, i, e);
    }
    return s;
}

static status vocabulary_hash(const gguf_array *tokens, const gguf_array *types, const gguf_array *merges, strv pre, char hex[SHA256_HEX_SIZE], err *e) {
    sha256 *h;
    status s = sha256_create(&h, e);
    if (s) return s;
    s = sha256_add(h, pre.p, pre.n, e);
    const gguf_array *texts[] = {tokens, merges};
    for (int k = 0; !s && k < 2; k++) {
        size_t at = 0;
        for (size_t i = 0; i < texts[k]->n; i++) gguf_array_text(texts[k], &at);
        s = sha256_add(h, texts[k]->p, at, e);
    }
    strv bytes = gguf_array_bytes(types);
    if (!s) s = sha256_add(h, bytes.p, bytes.n, e);
    if (s) {
        sha256_free(h);
        return s;
    }
    return sha256_finish(h, hex, e);
}

static status load(tokenizer *t, const gguf *g, err *e) {
    strv model = {0}, pre = {0};
    gguf_array tokens, types, merges;
    double number;
    gguf_text(g, "tokenizer.ggml.pre", &pre);
    if (!gguf_text(g, "tokenizer.ggml.model", &model)) return err_set(e, ST_INPUT, "the GGUF carries no tokenizer");
    if (!strv_is(model, "gpt2"))
        return err_set(e, ST_INPUT, "the GGUF's tokenizer '%.*s' is not supported (byte-level BPE, 'gpt2', is)", (int)(model.n > 100 ? 100 : model.n), model.p);
    if (!gguf_array_get(g, "tokenizer.ggml.tokens", &tokens) || !gguf_array_is_text(&tokens) || !tokens.n ||
        !gguf_array_get(g, "tokenizer.ggml.merges", &merges) || !gguf_array_is_text(&merges) ||
        !gguf_array_get(g, "tokenizer.ggml.token_type", &types) || types.n != tokens.n || !gguf_array_number(&types, 0, &number))
        return err_set(e, ST_INPUT, "the GGUF's vocabulary is not whole: expected tokens, merges and as many token types as tokens");
    bool add_bos = false;
    status s = load_pre(t, g, &add_bos, e);
    if (!s) s = load_tokens(t, &tokens, &types, e);
    if (!s) s = load_merges(t, &merges, e);
    if (!s) s = vocabulary_hash(&tokens, &types, &merges, pre, t->sha256, e);
    size_t bos;
    gguf_bool(g, "tokenizer.ggml.add_bos_token", &add_bos);
    if (!s && add_bos && gguf_size(g, "tokenizer.ggml.bos_token_id", &bos) && bos < tokens.n)
        t->bos = (uint32_t)bos;
    return s;
}

status tok_load_gguf(tokenizer *t, const gguf *g, err *e) {
    status s = load(t, g, e);
    return s ? err_prefix(e, "%s", gguf_path(g)) : s;
}
