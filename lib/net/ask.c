#include "net/ask.h"

#include <string.h>

/* Members beyond the common ones: they keep servers from truncating or thinking, and some servers do not know them. */
static const struct {
    const char *name, *json;
    bool chat_only;
} extras[] = {
    {"top_k", "0", false},
    {"min_p", "0.0", false},
    {"chat_template_kwargs", "{\"enable_thinking\":false}", true},
};
enum { EXTRAS = sizeof extras / sizeof *extras };

ask ask_of(const char *api, const char *model) {
    ask_api a = strcmp(api, "chat") == 0 ? ASK_CHAT : strcmp(api, "systemone") == 0 ? ASK_SYSTEMONE : ASK_COMPLETIONS;
    return (ask){.api = a, .model = model, .top = ASK_TOP};
}

const char *ask_path(const ask *a) {
    static const char *const paths[] = {"/v1/completions", "/v1/chat/completions", "/v1/systemone"};
    return paths[a->api];
}

static status text_of(const json *rec, const char *key, bool needed, buf *scratch, strv *out, err *e) {
    jref r = json_get(rec, JREF_ROOT, key);
    *out = (strv){"", 0};
    if (r == JREF_NONE && !needed) return ST_OK;
    if (json_kind_of(rec, r) != JSON_STRING) return err_set(e, ST_INPUT, "field '%s': found %s, expected a string", key, r == JREF_NONE ? "nothing" : json_kind_name(json_kind_of(rec, r)));
    status s = json_text(rec, r, scratch, out, e);
    return s ? err_prefix(e, "field '%s'", key) : ST_OK;
}

static void put_extras(const ask *a, jw *w) {
    for (unsigned i = 0; i < EXTRAS; i++) {
        if (a->left_out >> i & 1 || (extras[i].chat_only && a->api != ASK_CHAT)) continue;
        jw_key(w, extras[i].name);
        jw_raw(w, strv_of(extras[i].json));
    }
}

static void put_sampling(const ask *a, jw *w) {
    jw_key(w, "max_tokens");
    jw_size(w, 1);
    jw_key(w, "temperature");
    jw_size(w, 1);
    jw_key(w, "top_p");
    jw_size(w, 1);
    put_extras(a, w);
}

static status completions_body(const ask *a, const json *rec, jw *w, buf scratch[2], err *e) {
    strv prefix, suffix;
    status s = text_of(rec, "prefix", true, &scratch[0], &prefix, e);
    if (!s) s = text_of(rec, "suffix", false, &scratch[1], &suffix, e);
    if (s) return s;
    buf all = {0};
    buf_view(&all, prefix);
    buf_view(&all, suffix);
    jw_key(w, "prompt");
    jw_view(w, buf_strv(&all));
    s = buf_ok(&all, e);
    buf_free(&all);
    jw_key(w, "logprobs");
    jw_size(w, a->top);
    put_sampling(a, w);
    return s;
}

static void put_message(jw *w, const char *role, strv text) {
    jw_open(w, '{');
    jw_key(w, "role");
    jw_text(w, role);
    jw_key(w, "content");
    jw_view(w, text);
    jw_close(w, '}');
}

static status chat_body(const ask *a, const json *rec, jw *w, buf scratch[2], err *e) {
    strv system, user;
    status s = text_of(rec, "system", false, &scratch[0], &system, e);
    if (!s) s = text_of(rec, "user", true, &scratch[1], &user, e);
    if (s) return s;
    jw_key(w, "messages");
    jw_open(w, '[');
    if (system.n) put_message(w, "system", system);
    put_message(w, "user", user);
    jw_close(w, ']');
    jw_key(w, "logprobs");
    jw_bool(w, true);
    jw_key(w, "top_logprobs");
    jw_size(w, a->top);
    put_sampling(a, w);
    return ST_OK;
}

/* The text up to the options is the state: it holds the question already. The options go in the order of the prompt. */
static status systemone_body(const json *rec, jw *w, buf scratch[2], err *e) {
    jref kind = json_get(rec, JREF_ROOT, "kind"), options = json_get(rec, JREF_ROOT, "options"), perm = json_get(rec, JREF_ROOT, "perm"), split = json_get(rec, JREF_ROOT, "split");
    strv user;
    size_t n = 0;
    status s = text_of(rec, "user", true, &scratch[0], &user, e);
    if (!s && split != JREF_NONE) s = json_size(rec, split, "split", &n, e);
    if (s) return s;
    if (split != JREF_NONE && n <= user.n) user.n = n;
    bool noul = json_is(rec, kind, "noul"), score = json_is(rec, kind, "score");
    jw_key(w, "state");
    jw_view(w, user);
    jw_key(w, "questions");
    jw_open(w, '{');
    jw_key(w, ASK_DECISION);
    jw_open(w, '{');
    jw_key(w, "type");
    jw_text(w, noul ? "noul" : score ? "score" : "choice");
    jw_key(w, "instructions");
    jw_text(w, noul ? "Is the answer to the question in the text yes?" : "Answer the question in the text.");
    if (!noul) {
        jw_key(w, "criteria");
        jw_open(w, score ? '[' : '{');
        for (jref p = json_first(rec, perm); !s && p != JREF_NONE; p = json_next(rec, perm, p)) {
            strv o;
            size_t i;
            if ((s = json_size(rec, p, "perm", &i, e))) break;
            jref at = json_at(rec, options, i);
            if (json_kind_of(rec, at) != JSON_STRING) s = err_set(e, ST_INPUT, "field 'perm': %zu is no option", i);
            if (!s) s = json_text(rec, at, &scratch[1], &o, e);
            if (s) break;
            if (score) {
                jw_view(w, o);
            } else {
                jw_key_view(w, o);
                jw_null(w);
            }
        }
        jw_close(w, score ? ']' : '}');
    }
    jw_close(w, '}');
    jw_close(w, '}');
    return s;
}

status ask_body(const ask *a, const json *rec, buf *out, err *e) {
    buf scratch[2] = {{0}};
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "model");
    jw_text(&w, a->model);
    status s = a->api == ASK_COMPLETIONS ? completions_body(a, rec, &w, scratch, e)
               : a->api == ASK_CHAT      ? chat_body(a, rec, &w, scratch, e)
                                         : systemone_body(rec, &w, scratch, e);
    jw_close(&w, '}');
    buf_free(&scratch[0]);
    buf_free(&scratch[1]);
    return s ? s : buf_ok(out, e);
}

static bool says(strv words, const char *name) {
    return words.n && memmem(words.p, words.n, name, strlen(name)) != NULL;
}

/* The largest number in the words that is below what was asked for: "at most 5", "less than or equal to 5". */
static size_t cap_in(strv words, size_t asked) {
    size_t best = 0;
    for (size_t i = 0; i < words.n; i++) {
        if (words.p[i] < '0' || words.p[i] > '9') continue;
        size_t v = 0;
        bool inside = i && (words.p[i - 1] == '.' || words.p[i - 1] == '-'); /* a fraction, a version, a negative number */
        for (; i < words.n && words.p[i] >= '0' && words.p[i] <= '9'; i++) v = v < asked ? v * 10 + (size_t)(words.p[i] - '0') : v;
        if (!inside && v < asked && v > best) best = v;
    }
    return best;
}

bool ask_learn(ask *a, unsigned version, strv words) {
    if (version != a->version) return true;
    unsigned before = a->version;
    for (unsigned i = 0; i < EXTRAS; i++) {
        if (a->left_out >> i & 1 || !says(words, extras[i].name) || (extras[i].chat_only && a->api != ASK_CHAT)) continue;
        a->left_out |= 1u << i;
        a->version++;
    }
    size_t cap = a->version == before && says(words, "logprobs") ? cap_in(words, a->top) : 0;
    if (cap) {
        a->top = cap;
        a->version++;
    }
    return a->version != before;
}
