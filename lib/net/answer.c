#include "net/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void answer_free(answer *a) {
    free(a->list);
    buf_free(&a->texts);
    buf_free(&a->scratch);
    *a = (answer){0};
}

strv answer_text(const answer *a, const answer_entry *x) {
    return (strv){a->texts.p ? a->texts.p + x->text : "", x->text_n};
}

const answer_entry *answer_top(const answer *a) {
    const answer_entry *best = NULL;
    for (size_t i = 0; i < a->n; i++)
        if (!best || a->list[i].logprob > best->logprob) best = &a->list[i];
    return best;
}

/* Servers mark what they will not tell with -9999, -1e4, -3.4e38 and the like; no float's log-probability is there. */
static const double sentinel = -1000;

static status take_logprob(const json *d, jref r, bool linear, const char *where, double *out, err *e) {
    double v;
    if (json_kind_of(d, r) != JSON_NUMBER) return err_set(e, ST_INPUT, "%s: a token has %s for its %s", where, json_kind_name(json_kind_of(d, r)), linear ? "probability" : "log-probability");
    status s = json_real(d, r, where, &v, e);
    if (s) return s;
    if (linear) {
        if (v < 0 || v > 1 + 1e-6) return err_set(e, ST_INPUT, "%s: %g is no probability", where, v);
        if (v == 0) return err_set(e, ST_INPUT, "%s: a token has probability 0, which is no score", where);
        v = log(v);
    }
    if (v > 1e-3) return err_set(e, ST_INPUT, "%s: %g is positive, which no log-probability is", where, v);
    if (v <= sentinel) return err_set(e, ST_INPUT, "%s: %g stands for 'not told', it is no log-probability", where, v);
    *out = v > 0 ? 0 : v; /* rounding of the server */
    return ST_OK;
}

static bool id_of_name(strv v, uint32_t *id) {
    uint64_t n = 0;
    if (!strv_starts(v, "token_id:") || v.n == 9 || v.n > 19) return false;
    for (size_t i = 9; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9') return false;
        n = n * 10 + (uint64_t)(v.p[i] - '0');
    }
    *id = (uint32_t)n;
    return n < UINT32_MAX;
}

static status add(answer *a, answer_entry x, strv text, err *e) {
    if (!x.has_id && x.has_text && id_of_name(text, &x.id)) x.has_id = true, x.has_text = false;
    if (x.has_id) /* a token that comes twice is told twice, not twice as probable */
        for (size_t i = 0; i < a->n; i++)
            if (a->list[i].has_id && a->list[i].id == x.id) return ST_OK;
    x.text = a->texts.len;
    x.text_n = text.n;
    buf_view(&a->texts, text);
    if (a->texts.failed || !mem_grow((void **)&a->list, &a->cap, a->n + 1, sizeof *a->list)) return err_memory(e, (a->n + 1) * sizeof x);
    a->list[a->n++] = x;
    return ST_OK;
}

static status take_map(answer *a, const json *d, jref map, const char *where, err *e) {
    status s = ST_OK;
    for (jref k = json_first(d, map); !s && k != JREF_NONE; k = json_next(d, map, k)) {
        answer_entry x = {.has_text = true};
        strv text;
        s = json_text(d, k, &a->scratch, &text, e);
        if (!s) s = take_logprob(d, json_value(d, k), false, where, &x.logprob, e);
        if (!s) s = add(a, x, text, e);
    }
    return s;
}

/* The bytes of a token are exact where its text may have been mended. */
static status take_bytes(answer *a, const json *d, jref list, strv *text, err *e) {
    buf_clear(&a->scratch);
    for (jref b = json_first(d, list); b != JREF_NONE; b = json_next(d, list, b)) {
        size_t v;
        status s = json_size(d, b, "bytes", &v, e);
        if (s) return s;
        if (v > 255) return err_set(e, ST_INPUT, "'bytes' of a token: %zu is no byte", v);
        buf_byte(&a->scratch, (char)(unsigned char)v);
    }
    *text = buf_strv(&a->scratch);
    return buf_ok(&a->scratch, e);
}

static status take_list(answer *a, const json *d, jref list, const char *where, err *e) {
    status s = ST_OK;
    for (jref o = json_first(d, list); !s && o != JREF_NONE; o = json_next(d, list, o)) {
        answer_entry x = {0};
        strv text = {"", 0};
        jref name = json_get(d, o, "token"), bytes = json_get(d, o, "bytes"), id = json_get(d, o, "id"), p = json_get(d, o, "logprob");
        if (json_kind_of(d, o) != JSON_OBJECT) return err_set(e, ST_INPUT, "%s: found %s, expected an object per token", where, json_kind_name(json_kind_of(d, o)));
        if (name == JREF_NONE) name = json_get(d, o, "tok_str");
        bool linear = p == JREF_NONE;
        if (linear) p = json_get(d, o, "prob");
        if (linear && p == JREF_NONE) return err_set(e, ST_INPUT, "%s: a token has neither 'logprob' nor 'prob'", where);
        s = take_logprob(d, p, linear, where, &x.logprob, e);
        if (!s && json_kind_of(d, id) == JSON_NUMBER) {
            size_t v;
            if (!(s = json_size(d, id, "id", &v, e))) x.id = (uint32_t)v, x.has_id = v < UINT32_MAX;
        }
        if (!s && json_kind_of(d, name) == JSON_STRING) {
            x.has_text = true;
            s = json_text(d, name, &a->scratch, &text, e);
        }
        if (!s && json_count(d, bytes) && !(x.has_text && strv_starts(text, "token_id:"))) {
            x.has_text = true;
            s = take_bytes(a, d, bytes, &text, e);
        }
        if (!s && !x.has_id && !x.has_text) s = err_set(e, ST_INPUT, "%s: a token has neither 'token' nor 'id'", where);
        if (!s) s = add(a, x, text, e);
    }
    return s;
}

/* The drawn token stands beside the most probable ones, however improbable it is: it must not serve as their smallest. */
static void mark_sampled(answer *a, const json *d, jref name, jref id) {
    strv text;
    size_t n;
    err ignored = {0};
    bool has_text = json_kind_of(d, name) == JSON_STRING && !json_text(d, name, &a->scratch, &text, &ignored);
    bool has_id = json_kind_of(d, id) == JSON_NUMBER && !json_size(d, id, "id", &n, &ignored);
    a->sampled = a->n;
    for (size_t i = 0; i < a->n; i++) {
        const answer_entry *x = &a->list[i];
        if (has_id && x->has_id ? x->id == n : has_text && x->has_text && strv_eq(answer_text(a, x), text)) a->sampled = i;
    }
}

/* A map or a list, by what it is. */
static status take_tokens(answer *a, const json *d, jref r, const char *where, err *e) {
    json_kind k = json_kind_of(d, r);
    if (k == JSON_OBJECT) return take_map(a, d, r, where, e);
    if (k == JSON_ARRAY) return take_list(a, d, r, where, e);
    return err_set(e, ST_INPUT, "%s: found %s, expected the most probable tokens", where, k == JSON_NONE ? "nothing" : json_kind_name(k));
}

/* The list of a first token in content and completion_probabilities. */
static status take_first(answer *a, const json *d, jref token, const char *where, err *e) {
    static const char *const names[] = {"top_logprobs", "top_probs", "probs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        jref r = json_get(d, token, names[i]);
        if (r == JREF_NONE) continue;
        status s = take_tokens(a, d, r, where, e);
        mark_sampled(a, d, json_get(d, token, json_get(d, token, "token") == JREF_NONE ? "content" : "token"), json_get(d, token, "id"));
        return s;
    }
    return err_set(e, ST_INPUT, "%s: found neither 'top_logprobs' nor 'top_probs' nor 'probs'", where);
}

static status take_choice(answer *a, const json *d, jref choice, err *e) {
    jref lp = json_get(d, choice, "logprobs"), top = json_get(d, lp, "top_logprobs"), content = json_get(d, lp, "content");
    if (choice == JREF_NONE) return err_set(e, ST_INPUT, "the answer's 'choices' is empty");
    if (json_kind_of(d, lp) != JSON_OBJECT)
        return err_set(e, ST_INPUT, "the answer's choices[0].logprobs is %s: the server gave no log-probabilities", lp == JREF_NONE ? "missing" : json_kind_name(json_kind_of(d, lp)));
    if (json_kind_of(d, top) == JSON_ARRAY) {
        a->undrawn = !json_count(d, top);
        if (a->undrawn) return err_set(e, ST_INPUT, "the answer's choices[0].logprobs.top_logprobs is empty: no token was drawn");
        status s = take_tokens(a, d, json_first(d, top), "choices[0].logprobs.top_logprobs[0]", e);
        mark_sampled(a, d, json_first(d, json_get(d, lp, "tokens")), JREF_NONE);
        return s;
    }
    if (json_kind_of(d, content) == JSON_ARRAY) {
        a->undrawn = !json_count(d, content);
        if (a->undrawn) return err_set(e, ST_INPUT, "the answer's choices[0].logprobs.content is empty: no token was drawn");
        return take_first(a, d, json_first(d, content), "choices[0].logprobs.content[0]", e);
    }
    return err_set(e, ST_INPUT, "the answer's choices[0].logprobs has neither a list 'top_logprobs' nor a list 'content'");
}

static status check_sum(const answer *a, err *e) {
    double sum = 0;
    for (size_t i = 0; i < a->n; i++) sum += exp(a->list[i].logprob);
    if (a->n == 0) return err_set(e, ST_INPUT, "the answer's list of tokens is empty");
    return sum > 1.01 ? err_set(e, ST_INPUT, "the answer's probabilities sum to %.4f, more than 1", sum) : ST_OK;
}

status answer_read(answer *a, const json *d, err *e) {
    jref choices = json_get(d, JREF_ROOT, "choices"), native = json_get(d, JREF_ROOT, "completion_probabilities"), error = json_get(d, JREF_ROOT, "error");
    jref counted = json_get(d, json_get(d, JREF_ROOT, "usage"), "prompt_tokens");
    a->n = a->sampled = 0;
    a->undrawn = false;
    buf_clear(&a->texts);
    if (counted == JREF_NONE) counted = json_get(d, JREF_ROOT, "tokens_evaluated");
    a->has_tokens = json_kind_of(d, counted) == JSON_NUMBER;
    status s = a->has_tokens ? json_size(d, counted, "prompt_tokens", &a->prompt_tokens, e) : ST_OK;
    if (s) return s;
    if (json_kind_of(d, JREF_ROOT) != JSON_OBJECT) return err_set(e, ST_INPUT, "the answer is %s, expected an object", json_kind_name(json_kind_of(d, JREF_ROOT)));
    if (json_kind_of(d, choices) == JSON_ARRAY) s = take_choice(a, d, json_first(d, choices), e);
    else if (json_kind_of(d, native) == JSON_ARRAY && json_count(d, native)) s = take_first(a, d, json_first(d, native), "completion_probabilities[0]", e);
    else if (error != JREF_NONE) s = err_set(e, ST_INPUT, "the answer holds an error: %.*s", (int)(json_raw(d, error).n > 200 ? 200 : json_raw(d, error).n), json_raw(d, error).p);
    else s = err_set(e, ST_INPUT, "the answer has neither 'choices' nor 'completion_probabilities'");
    return s ? s : check_sum(a, e);
}

/* log(exp(a) + exp(b)) */
static double log_sum(double a, double b) {
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return hi + log1p(exp(lo - hi));
}

static status match_one(const answer *a, const answer_label *l, answer_score *out, err *e) {
    bool by_id = false;
    *out = (answer_score){.missing = true};
    for (size_t i = 0; l->has_id && i < a->n; i++) {
        const answer_entry *x = &a->list[i];
        if (!x->has_id || x->id != l->id) continue;
        *out = (answer_score){.logprob = x->logprob, .has_id = true, .id = x->id};
        by_id = true;
    }
    for (size_t i = 0; !by_id && i < a->n; i++) {
        const answer_entry *x = &a->list[i];
        if (!x->has_text || !strv_eq(answer_text(a, x), l->text)) continue;
        if (l->has_id && x->has_id)
            return err_set(e, ST_REFUSED, "label '%.*s' is token %u of the server's tokenizer and token %u of the local one: two different tokenizers", (int)(l->text.n > 60 ? 60 : l->text.n),
                           l->text.p, x->id, l->id);
        out->logprob = out->missing ? x->logprob : log_sum(out->logprob, x->logprob);
        out->has_id = out->missing && x->has_id;
        out->id = x->id;
        out->missing = false;
    }
    return ST_OK;
}

status answer_match(const answer *a, const answer_label *labels, size_t n, answer_score *out, double *mass, err *e) {
    double smallest = 0;
    bool texts = false, all_ids = true;
    for (size_t i = 0; i < a->n; i++) texts = texts || a->list[i].has_text;
    /* When the drawn token is the smallest it may have been added: the next one is a bound in any case. */
    bool skip = a->n > 1 && a->sampled < a->n;
    for (size_t i = 0; skip && i < a->n; i++) skip = a->list[i].logprob >= a->list[a->sampled].logprob;
    for (size_t i = 0; i < a->n; i++)
        if (a->list[i].logprob < smallest && !(skip && i == a->sampled)) smallest = a->list[i].logprob;
    *mass = 0;
    for (size_t i = 0; i < n; i++) all_ids = all_ids && labels[i].has_id;
    if (!texts && !all_ids) return err_set(e, ST_REFUSED, "the server names tokens by id alone, and the ids of the labels are not known; give the model's --tokenizer");
    for (size_t i = 0; i < n; i++) {
        status s = match_one(a, &labels[i], &out[i], e);
        if (s) return s;
        if (out[i].missing) out[i].logprob = smallest;
        else *mass += exp(out[i].logprob);
    }
    return ST_OK;
}

/* --- System One --- */

static const double rounded_away = 1e-6;

static status take_probability(const json *d, jref r, const char *name, double *out, err *e) {
    if (json_kind_of(d, r) != JSON_NUMBER) return err_set(e, ST_INPUT, "answers.%s: %s, expected a probability", name, r == JREF_NONE ? "an option has none" : json_kind_name(json_kind_of(d, r)));
    status s = json_real(d, r, name, out, e);
    if (!s && (*out < 0 || *out > 1 + 1e-6)) s = err_set(e, ST_INPUT, "answers.%s: %g is no probability", name, *out);
    return s;
}

status answer_decision(const json *d, const char *name, const strv *options, size_t n, answer_score *out, err *e) {
    jref x = json_get(d, json_get(d, JREF_ROOT, "answers"), name), noul = json_get(d, x, "noul"), p = json_get(d, x, "probabilities");
    double v[64], sum = 0;
    status s = ST_OK;
    if (n > sizeof v / sizeof *v) return err_set(e, ST_INPUT, "%zu options", n);
    if (json_kind_of(d, x) != JSON_OBJECT) return err_set(e, ST_INPUT, "the answer has no answers.%s", name);
    if (noul != JREF_NONE && n == 2) {
        s = take_probability(d, noul, name, &v[0], e);
        v[1] = 1 - v[0];
    } else if (json_kind_of(d, p) == JSON_OBJECT) {
        for (size_t i = 0; !s && i < n; i++) {
            jref r = json_get_view(d, p, options[i]);
            char at[24];
            snprintf(at, sizeof at, "%zu", i); /* scores are named by their level */
            s = take_probability(d, r == JREF_NONE ? json_get(d, p, at) : r, name, &v[i], e);
        }
    } else if (json_kind_of(d, p) == JSON_ARRAY && json_count(d, p) == n) {
        jref r = json_first(d, p);
        for (size_t i = 0; !s && i < n; i++, r = json_next(d, p, r)) s = take_probability(d, r, name, &v[i], e);
    } else {
        s = err_set(e, ST_INPUT, "answers.%s has neither 'noul' (of two options) nor 'probabilities' of %zu options", name, n);
    }
    if (s) return s;
    for (size_t i = 0; i < n; i++) sum += v[i] < rounded_away ? v[i] = rounded_away : v[i];
    if (sum < 0.9 || sum > 1.1) return err_set(e, ST_INPUT, "answers.%s: the probabilities sum to %.4f", name, sum);
    for (size_t i = 0; i < n; i++) out[i] = (answer_score){.logprob = log(v[i] / sum)};
    return ST_OK;
}
