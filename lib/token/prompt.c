#include "token/prompt.h"

#include <string.h>

#include "token/tokenizer_internal.h"

bool prompt_has_user(const json *rec) {
    return json_get(rec, JREF_ROOT, "user") != JREF_NONE;
}

typedef struct texts {
    buf scratch[4];
    strv system, user, prefix, suffix;
    bool has_user, has_prefix;
} texts;

static status take(const json *rec, const char *key, buf *scratch, strv *out, bool *has, err *e) {
    jref r = json_get(rec, JREF_ROOT, key);
    *out = (strv){"", 0};
    if (r == JREF_NONE) return ST_OK;
    if (has) *has = true;
    if (json_kind_of(rec, r) != JSON_STRING) return err_set(e, ST_INPUT, "field '%s': found %s, expected a string", key, json_kind_name(json_kind_of(rec, r)));
    status s = json_text(rec, r, scratch, out, e);
    return s ? err_prefix(e, "field '%s'", key) : ST_OK;
}

/* Encodes a whole prompt, with the BOS in front exactly once. */
static status encode(const tokenizer *t, strv text, const tok_span *plain, size_t n_plain, tok_ids *out, err *e) {
    uint32_t bos = tokenizer_bos(t);
    strv mark = tokenizer_piece(t, bos);
    bool there = mark.n && text.n >= mark.n && memcmp(text.p, mark.p, mark.n) == 0;
    for (size_t i = 0; i < n_plain; i++) /* what a user wrote is no BOS */
        if (plain[i].from < mark.n && plain[i].to > plain[i].from) there = false;
    status s = bos == TOKEN_NONE || there ? ST_OK : tok_push(out, bos, e);
    return s ? s : tokenizer_encode(t, text, plain, n_plain, out, e);
}

static status encode_rendered(const tokenizer *t, chat c, const json *rec, const texts *x, bool allow, tok_ids *out, err *e) {
    size_t split = 0;
    jref r = json_get(rec, JREF_ROOT, "split");
    chat_text text = {0};
    status s = r == JREF_NONE ? ST_OK : json_size(rec, r, "split", &split, e);
    if (!s) s = chat_render(c, x->system, x->user, split, &text, e);
    strv all = buf_strv(&text.text);
    if (!s && x->has_prefix) {
        bool same = all.n == x->prefix.n + x->suffix.n && (!x->prefix.n || memcmp(all.p, x->prefix.p, x->prefix.n) == 0) &&
                    (!x->suffix.n || memcmp(all.p + x->prefix.n, x->suffix.p, x->suffix.n) == 0);
        if (!same)
            s = err_set(e, ST_REFUSED, "the prompt was rendered by another chat template than this model's (%s); build it with --model or --template %s",
                        chat_name(c), chat_name(c));
    }
    allow = allow || json_true(rec, json_get(rec, JREF_ROOT, "allow_control_tokens"));
    if (!s) s = encode(t, all, text.plain, allow ? 0 : 2, out, e);
    chat_text_free(&text);
    return s;
}

status prompt_encode(const tokenizer *t, chat c, const json *rec, bool allow, tok_ids *out, err *e) {
    texts x = {0};
    status s = take(rec, "system", &x.scratch[0], &x.system, NULL, e);
    if (!s) s = take(rec, "user", &x.scratch[1], &x.user, &x.has_user, e);
    if (!s) s = take(rec, "prefix", &x.scratch[2], &x.prefix, &x.has_prefix, e);
    if (!s) s = take(rec, "suffix", &x.scratch[3], &x.suffix, NULL, e);
    if (!s && !x.has_user && !x.has_prefix) s = err_set(e, ST_INPUT, "expected 'user' or 'prefix' of a prompt; found neither");
    if (!s && x.has_user) {
        s = encode_rendered(t, c, rec, &x, allow, out, e);
    } else if (!s) {
        buf all = {0};
        buf_view(&all, x.prefix);
        buf_view(&all, x.suffix);
        s = buf_ok(&all, e);
        if (!s) s = encode(t, buf_strv(&all), NULL, 0, out, e);
        buf_free(&all);
    }
    for (int i = 0; i < 4; i++) buf_free(&x.scratch[i]);
    return s;
}
