/* tokenizer.json of Hugging Face's tokenizers: a byte-level BPE and the steps around it. */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "json/json.h"
#include "token/tokenizer_internal.h"

typedef struct loader {
    tokenizer *t;
    const json *doc;
    buf scratch;
    bool byte_level; /* the step that turns text into bytes was seen */
    err *e;
} loader;

static status text_of(loader *l, jref r, strv *out) {
    return json_text(l->doc, r, &l->scratch, out, l->e);
}

static status refuse(loader *l, const char *what, jref type) {
    strv v = {"nothing", 7};
    if (json_kind_of(l->doc, type) == JSON_STRING) {
        status s = text_of(l, type, &v);
        if (s) return s;
    }
    return err_set(l->e, ST_INPUT, "%s '%.*s' is not supported (byte-level BPE is)", what, (int)(v.n > 100 ? 100 : v.n), v.p);
}

static bool flag(loader *l, jref obj, const char *key, bool absent) {
    jref r = json_get(l->doc, obj, key);
    return json_kind_of(l->doc, r) == JSON_BOOL ? json_true(l->doc, r) : absent;
}

static status load_normalizer(loader *l, jref n) {
    jref type = json_get(l->doc, n, "type");
    if (json_kind_of(l->doc, n) == JSON_NONE || json_kind_of(l->doc, n) == JSON_NULL) return ST_OK;
    if (json_is(l->doc, type, "NFC")) {
        l->t->nfc = true;
        return ST_OK;
    }
    if (json_is(l->doc, type, "Sequence")) {
        jref list = json_get(l->doc, n, "normalizers");
        status s = ST_OK;
        for (jref c = json_first(l->doc, list); !s && c != JREF_NONE; c = json_next(l->doc, list, c)) s = load_normalizer(l, c);
        return s;
    }
    return refuse(l, "normalizer", type);
}

static status load_split(loader *l, jref p) {
    jref pattern = json_get(l->doc, p, "pattern"), behavior = json_get(l->doc, p, "behavior");
    jref regex = json_get(l->doc, pattern, "Regex");
    bool invert = flag(l, p, "invert", false);
    bool isolated = json_is(l->doc, behavior, "Isolated");
    if (regex == JREF_NONE) return refuse(l, "a Split without a regex, behaviour", behavior);
    if (!isolated && !(json_is(l->doc, behavior, "Removed") && invert)) return refuse(l, "split behaviour", behavior);
    strv v;
    status s = text_of(l, regex, &v);
    return s ? s : splitter_add(l->t->split, v, !isolated, l->e);
}

static status load_pre_tokenizer(loader *l, jref p) {
    jref type = json_get(l->doc, p, "type");
    if (json_kind_of(l->doc, p) == JSON_NONE || json_kind_of(l->doc, p) == JSON_NULL) return ST_OK;
    if (json_is(l->doc, type, "Sequence")) {
        jref list = json_get(l->doc, p, "pretokenizers");
        status s = ST_OK;
        for (jref c = json_first(l->doc, list); !s && c != JREF_NONE; c = json_next(l->doc, list, c)) s = load_pre_tokenizer(l, c);
        return s;
    }
    if (l->byte_level) return refuse(l, "behind ByteLevel the pre-tokenizer", type);
    if (json_is(l->doc, type, "Split")) return load_split(l, p);
    if (json_is(l->doc, type, "Digits")) {
        if (!flag(l, p, "individual_digits", false)) return refuse(l, "a Digits step that keeps digits together,", type);
        return splitter_add(l->t->split, strv_of(split_digit), false, l->e);
    }
    if (json_is(l->doc, type, "ByteLevel")) {
        l->byte_level = true;
        if (flag(l, p, "add_prefix_space", false)) return refuse(l, "a prefix space in", type);
        return flag(l, p, "use_regex", true) ? splitter_add(l->t->split, strv_of(split_gpt2), false, l->e) : ST_OK;
    }
    return refuse(l, "pre-tokenizer", type);
}

static status load_vocab(loader *l, jref vocab) {
    status s = ST_OK;
    buf bytes = {0};
    if (json_kind_of(l->doc, vocab) != JSON_OBJECT) return err_set(l->e, ST_INPUT, "model.vocab: expected an object");
    for (jref k = json_first(l->doc, vocab); !s && k != JREF_NONE; k = json_next(l->doc, vocab, k)) {
        size_t id;
        strv v;
        s = json_size(l->doc, json_value(l->doc, k), "model.vocab", &id, l->e);
        if (!s && id >= UINT32_MAX) s = err_set(l->e, ST_INPUT, "model.vocab: id %zu is too large", id);
        if (!s) s = text_of(l, k, &v);
        if (s) break;
        buf_clear(&bytes);
        tok_unmap(v, &bytes);
        s = buf_ok(&bytes, l->e);
        if (!s) s = tok_piece_add(l->t, (uint32_t)id, buf_strv(&bytes), l->e);
    }
    buf_free(&bytes);
    return s;
}

static status load_merges(loader *l, jref merges) {
    if (json_kind_of(l->doc, merges) != JSON_ARRAY) return err_set(l->e, ST_INPUT, "model.merges: expected an array");
    status s = tok_merges_reserve(l->t, json_count(l->doc, merges), l->e);
    size_t rank = 0;
    buf left = {0}, right = {0};
    for (jref m = json_first(l->doc, merges); !s && m != JREF_NONE; m = json_next(l->doc, merges, m), rank++) {
        strv a = {0}, b = {0};
        if (json_kind_of(l->doc, m) == JSON_ARRAY && json_count(l->doc, m) == 2) {
            s = json_text(l->doc, json_at(l->doc, m, 0), &left, &a, l->e);
            if (!s) s = json_text(l->doc, json_at(l->doc, m, 1), &right, &b, l->e);
        } else if (!(s = json_text(l->doc, m, &left, &a, l->e))) {
            const char *space = a.n ? memchr(a.p, ' ', a.n) : NULL;
            if (!space) s = err_set(l->e, ST_INPUT, "model.merges: merge %zu has no space", rank + 1);
            else {
                b = (strv){space + 1, a.n - (size_t)(space - a.p) - 1};
                a.n = (size_t)(space - a.p);
            }
        }
        if (!s) s = tok_merge_add(l->t, a, b, rank, l->e);
    }
    buf_free(&left);
    buf_free(&right);
    return s;
}

static status load_added(loader *l, jref added) {
    status s = ST_OK;
    for (jref a = json_first(l->doc, added); !s && a != JREF_NONE; a = json_next(l->doc, added, a)) {
        size_t id;
        strv v;
        s = json_size(l->doc, json_get(l->doc, a, "id"), "added_tokens.id", &id, l->e);
        if (!s && id >= UINT32_MAX) s = err_set(l->e, ST_INPUT, "added_tokens: id %zu is too large", id);
        if (!s && flag(l, a, "single_word", false)) s = err_set(l->e, ST_INPUT, "an added token that must be a single word is not supported");
        if (!s) s = text_of(l, json_get(l->doc, a, "content"), &v);
        if (!s)
            s = tok_added_add(l->t, v, (uint32_t)id, flag(l, a, "special", false), flag(l, a, "lstrip", false), flag(l, a, "rstrip", false),
                              flag(l, a, "normalized", false), l->e);
    }
    return s;
}

/* The token that a TemplateProcessing step puts before a single text. */
static status load_bos(loader *l, jref post) {
    jref type = json_get(l->doc, post, "type");
    status s = ST_OK;
    if (json_is(l->doc, type, "Sequence")) {
        jref list = json_get(l->doc, post, "processors");
        for (jref c = json_first(l->doc, list); !s && c != JREF_NONE; c = json_next(l->doc, list, c)) s = load_bos(l, c);
        return s;
    }
    if (!json_is(l->doc, type, "TemplateProcessing")) return ST_OK;
    jref first = json_at(l->doc, json_get(l->doc, post, "single"), 0);
    jref id = json_get(l->doc, json_get(l->doc, first, "SpecialToken"), "id");
    if (id == JREF_NONE) return ST_OK;
    strv v;
    s = text_of(l, id, &v);
    if (!s) l->t->bos = tokenizer_added(l->t, v);
    return s;
}

/* What a BPE can do beside merging. */
static status load_model_settings(loader *l, jref model) {
    static const char *const unsupported[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    if (flag(l, model, "byte_fallback", false)) return err_set(l->e, ST_INPUT, "a tokenizer with byte fallback (SentencePiece) is not supported (byte-level BPE is)");
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        jref r = json_get(l->doc, model, unsupported[i]);
        bool off = r == JREF_NONE || json_kind_of(l->doc, r) == JSON_NULL || json_is(l->doc, r, "");
        if (!off) return err_set(l->e, ST_INPUT, "model.%s is not supported (byte-level BPE is)", unsupported[i]);
    }
    l->t->ignore_merges = flag(l, model, "ignore_merges", false);
    l->t->fuse_unk = flag(l, model, "fuse_unk", false);
    return ST_OK;
}

/* After tok_index. */
static status load_unknown(loader *l, jref unk) {
    if (json_kind_of(l->doc, unk) != JSON_STRING) return ST_OK;
    strv v;
    status s = text_of(l, unk, &v);
    if (!s && (l->t->unk = tok_lookup(l->t, v)) == TOKEN_NONE) s = err_set(l->e, ST_INPUT, "model.unk_token is not in the vocabulary");
    return s;
}

static status load(loader *l, strv text) {
    json doc = {0};
    status s = json_parse(&doc, text.p, text.n, l->e);
    l->doc = &doc;
    jref model = json_get(&doc, JREF_ROOT, "model"), type = json_get(&doc, model, "type");
    if (!s && type != JREF_NONE && !json_is(&doc, type, "BPE")) s = refuse(l, "tokenizer model", type);
    if (!s) s = load_model_settings(l, model);
    if (!s) s = load_normalizer(l, json_get(&doc, JREF_ROOT, "normalizer"));
    if (!s) s = load_pre_tokenizer(l, json_get(&doc, JREF_ROOT, "pre_tokenizer"));
    if (!s && !l->byte_level) s = err_set(l->e, ST_INPUT, "a tokenizer without the pre-tokenizer ByteLevel is not supported (byte-level BPE is)");
    if (!s) s = load_vocab(l, json_get(&doc, model, "vocab"));
    if (!s) s = tok_index(l->t, l->e);
    if (!s) s = load_unknown(l, json_get(&doc, model, "unk_token"));
    if (!s) s = load_merges(l, json_get(&doc, model, "merges"));
    if (!s) s = load_added(l, json_get(&doc, JREF_ROOT, "added_tokens"));
    if (!s) s = load_bos(l, json_get(&doc, JREF_ROOT, "post_processor"));
    buf_free(&l->scratch);
    json_free(&doc);
    return s;
}

status tok_load_json(tokenizer *t, const char *path, err *e) {
    buf text = {0};
    loader l = {.t = t, .e = e};
    status s = file_read_zst(path, &text, e);
    if (!s) {
        s = sha256_hex(text.p, text.len, t->sha256, e);
        if (!s) s = load(&l, buf_strv(&text));
        if (s) err_prefix(e, "%s", path);
    }
    buf_free(&text);
    return s;
}
