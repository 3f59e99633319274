#include "net/task.h"

#include <string.h>

#include "token/control.h"
#include "token/prompt.h"

void task_free(task *t) {
    buf_free(&t->texts);
    *t = (task){0};
}

static status read_need(task *t, const task_rules *r, const json *rec, err *e) {
    jref need = json_get(rec, JREF_ROOT, "need");
    bool logprobs = need == JREF_NONE || json_true(rec, json_get(rec, need, "logprobs")), hidden = json_count(rec, json_get(rec, need, "hidden")) > 0;
    if (need != JREF_NONE && json_kind_of(rec, need) != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'need': expected an object");
    if (!logprobs && !hidden) return err_set(e, ST_INPUT, "field 'need': expected \"logprobs\": true or blocks under \"hidden\"");
    if (hidden && !r->only_logprobs)
        return err_set(e, ST_REFUSED, "the prompt needs hidden states, which no server gives; with --only logprobs it passes on to prefill-local --only hidden");
    t->pass = !logprobs;
    t->keep_prompt = r->only_logprobs;
    return ST_OK;
}

static status read_width(const task_rules *r, const json *rec, err *e) {
    size_t k = json_count(rec, json_get(rec, JREF_ROOT, "options"));
    if (!json_is(rec, json_get(rec, JREF_ROOT, "kind"), "choice") || k <= r->max_choice_k) return ST_OK;
    jref id = json_get(rec, JREF_ROOT, "question");
    const question *q = NULL;
    buf scratch = {0};
    strv v;
    if (r->questions && json_kind_of(rec, id) == JSON_STRING && !json_text(rec, id, &scratch, &v, e)) q = registry_find(r->questions, v);
    status s = q && q->twin ? err_set(e, ST_REFUSED, "a choice of %zu options is wider than --max-choice-k %zu: a server's list may lack its labels; ask its twin '%s' about each option (prompt-build --twins)", k, r->max_choice_k, q->twin)
                            : err_set(e, ST_REFUSED, "a choice of %zu options is wider than --max-choice-k %zu: a server's list may lack its labels, and the question has no yes/no twin", k, r->max_choice_k);
    buf_free(&scratch);
    return s;
}

/* Appends the strings of a list to t->texts; where[i] counts from its start. */
static status read_strings(task *t, const json *rec, const char *key, strv *out, size_t *n, err *e) {
    jref list = json_get(rec, JREF_ROOT, key);
    buf scratch = {0};
    status s = ST_OK;
    size_t k = json_count(rec, list);
    *n = 0;
    if (json_kind_of(rec, list) != JSON_ARRAY || k < 1 || k > OPTIONS_MAX) return err_set(e, ST_INPUT, "field '%s': expected an array of 1 to %d strings", key, OPTIONS_MAX);
    for (jref x = json_first(rec, list); !s && x != JREF_NONE; x = json_next(rec, list, x)) {
        strv v;
        if (json_kind_of(rec, x) != JSON_STRING) s = err_set(e, ST_INPUT, "field '%s': found %s, expected a string", key, json_kind_name(json_kind_of(rec, x)));
        else s = json_text(rec, x, &scratch, &v, e);
        if (s) break;
        out[(*n)++] = (strv){NULL, v.n};
        buf_view(&t->texts, v);
    }
    buf_free(&scratch);
    return s ? s : buf_ok(&t->texts, e);
}

static status read_labels(task *t, const task_rules *r, const json *rec, err *e) {
    strv labels[OPTIONS_MAX];
    size_t at = 0, n_options = 0;
    jref perm = json_get(rec, JREF_ROOT, "perm");
    buf_clear(&t->texts);
    status s = read_strings(t, rec, "labels", labels, &t->n, e);
    if (!s && json_get(rec, JREF_ROOT, "options") != JREF_NONE) {
        s = read_strings(t, rec, "options", t->options, &n_options, e);
        if (!s && n_options != t->n) s = err_set(e, ST_INPUT, "fields 'labels' and 'options': %zu and %zu, expected equally many", t->n, n_options);
    }
    for (size_t i = 0; !s && i < t->n; i++) {
        t->perm[i] = i;
        t->labels[i] = (answer_label){.text = {t->texts.p + at, labels[i].n}};
        at += labels[i].n;
        for (size_t k = 0; !s && k < i; k++)
            if (strv_eq(t->labels[i].text, t->labels[k].text)) s = err_set(e, ST_INPUT, "field 'labels': '%.*s' comes twice", (int)(labels[i].n > 60 ? 60 : labels[i].n), t->labels[i].text.p);
        if (!s && r->tokenizer) {
            s = tokenizer_single(r->tokenizer, t->labels[i].text, &t->labels[i].id, e);
            t->labels[i].has_id = t->labels[i].id != TOKEN_NONE;
        } else if (!s && r->served && r->served->has_ids) {
            size_t k = served_label_index(t->labels[i].text);
            if (k < SERVED_LABELS && r->served->ids[k] != TOKEN_NONE) t->labels[i].has_id = true, t->labels[i].id = r->served->ids[k];
        }
    }
    for (size_t i = 0; !s && i < n_options; i++) {
        t->options[i].p = t->texts.p + at;
        at += t->options[i].n;
    }
    if (!s && n_options && json_count(rec, perm) == t->n) {
        size_t i = 0;
        for (jref p = json_first(rec, perm); !s && p != JREF_NONE; p = json_next(rec, perm, p), i++)
            if (!(s = json_size(rec, p, "perm", &t->perm[i], e)) && t->perm[i] >= t->n) s = err_set(e, ST_INPUT, "field 'perm': %zu is no option", t->perm[i]);
    }
    return s;
}

/* What a user wrote must not become a control token at the server, which parses the whole prompt. */
static status check_control(const task_rules *r, const ask *a, const json *rec, err *e) {
    static const char *const names[] = {"system", "user"};
    if (r->allow_control_tokens || a->api == ASK_SYSTEMONE || json_true(rec, json_get(rec, JREF_ROOT, "allow_control_tokens"))) return ST_OK;
    buf scratch[2] = {{0}};
    tok_ids ids = {0}, parsed = {0};
    strv template = {"", 0}, v, which;
    jref t = json_get(rec, JREF_ROOT, "template");
    status s = json_kind_of(rec, t) == JSON_STRING ? json_text(rec, t, &scratch[0], &template, e) : ST_OK;
    for (size_t i = 0; !s && i < 2; i++) {
        jref x = json_get(rec, JREF_ROOT, names[i]);
        if (json_kind_of(rec, x) != JSON_STRING || (s = json_text(rec, x, &scratch[1], &v, e))) continue;
        if (control_find(v, template, &which)) {
            s = err_set(e, ST_REFUSED, "field '%s' holds '%.*s', which the server would parse as a control token; --allow-control-tokens permits it", names[i],
                        (int)(which.n > 60 ? 60 : which.n), which.p);
        } else if (r->tokenizer) {
            tok_span whole = {0, v.n};
            ids.n = parsed.n = 0;
            s = tokenizer_encode(r->tokenizer, v, &whole, 1, &ids, e);
            if (!s) s = tokenizer_encode(r->tokenizer, v, NULL, 0, &parsed, e);
            if (!s && (ids.n != parsed.n || (ids.n && memcmp(ids.id, parsed.id, ids.n * sizeof *ids.id) != 0)))
                s = err_set(e, ST_REFUSED, "field '%s' holds a control token of the model's tokenizer, which the server would parse; --allow-control-tokens permits it", names[i]);
        }
    }
    tok_ids_free(&ids);
    tok_ids_free(&parsed);
    buf_free(&scratch[0]);
    buf_free(&scratch[1]);
    return s;
}

/* The least number of tokens that the server must count. A server may leave a BOS out, and a chat API renders by its
 * own template: there the user's text alone counts. */
static status count_tokens(task *t, const task_rules *r, const ask *a, const json *rec, err *e) {
    t->tokens = 0;
    if (!r->tokenizer || a->api == ASK_SYSTEMONE) return ST_OK;
    tok_ids ids = {0};
    buf scratch = {0};
    strv user;
    status s = ST_OK;
    if (a->api == ASK_COMPLETIONS) {
        s = prompt_encode(r->tokenizer, r->family, rec, true, &ids, e);
        uint32_t bos = tokenizer_bos(r->tokenizer);
        if (!s) t->tokens = ids.n - (ids.n && bos != TOKEN_NONE && ids.id[0] == bos);
    } else if (!(s = json_text(rec, json_get(rec, JREF_ROOT, "user"), &scratch, &user, e))) {
        user = strv_trim(user);
        s = tokenizer_encode(r->tokenizer, user, NULL, 0, &ids, e);
        t->tokens = ids.n;
    }
    tok_ids_free(&ids);
    buf_free(&scratch);
    return s;
}

status task_read(task *t, const task_rules *r, const ask *a, const json *rec, err *e) {
    if (!json_is(rec, json_get(rec, JREF_ROOT, "type"), "prompt")) return err_set(e, ST_INPUT, "expected a record of type 'prompt'");
    status s = read_need(t, r, rec, e);
    if (s || t->pass) return s;
    if (!s) s = read_width(r, rec, e);
    if (!s) s = read_labels(t, r, rec, e);
    if (!s && a->api == ASK_SYSTEMONE && !t->options[0].p) s = err_set(e, ST_INPUT, "field 'options' is missing: a System One request needs it");
    if (!s) s = check_control(r, a, rec, e);
    if (!s && a->api == ASK_CHAT && json_kind_of(rec, json_get(rec, JREF_ROOT, "user")) != JSON_STRING) s = err_set(e, ST_INPUT, "field 'user' is missing: a chat request needs it");
    return s ? s : count_tokens(t, r, a, rec, e);
}

/* --- the answer --- */

bool task_reasoning(const answer *a) {
    static const char *const marks[] = {"<think>", "<thinking>", "<|channel|>", "<reasoning>", "<thought>", "[THINK]", "<|begin_of_thought|>", "<seed:think>"};
    const answer_entry *top = answer_top(a);
    for (size_t i = 0; top && i < sizeof marks / sizeof *marks; i++)
        if (strv_is(strv_trim(answer_text(a, top)), marks[i])) return true;
    return false;
}

static void put_fields(const task *t, const task_rules *r, const ask *a, const answer *got, const answer_score *score, double mass, buf *fields) {
    jw w = jw_of(fields);
    bool ids = true, reasoning = a->api != ASK_SYSTEMONE && task_reasoning(got);
    jw_open(&w, '{');
    jw_key(&w, "logprobs");
    jw_open(&w, '[');
    for (size_t i = 0; i < t->n; i++) jw_real(&w, score[i].logprob);
    jw_close(&w, ']');
    jw_key(&w, "answer_mass");
    jw_real(&w, mass);
    jw_key(&w, "missing");
    jw_open(&w, '[');
    for (size_t i = 0; i < t->n; i++)
        if (score[i].missing) jw_view(&w, t->labels[i].text);
    jw_close(&w, ']');
    /* Ids that the server told, in the answer or by its tokenizer; the local tokenizer's are no evidence. */
    uint32_t id[OPTIONS_MAX];
    for (size_t i = 0; i < t->n; i++) {
        size_t k = r->served && r->served->has_ids ? served_label_index(t->labels[i].text) : SERVED_LABELS;
        id[i] = score[i].has_id ? score[i].id : k < SERVED_LABELS ? r->served->ids[k] : TOKEN_NONE;
        ids = ids && id[i] != TOKEN_NONE;
    }
    if (ids) {
        jw_key(&w, "label_ids");
        jw_open(&w, '[');
        for (size_t i = 0; i < t->n; i++) jw_size(&w, id[i]);
        jw_close(&w, ']');
    }
    if (got->has_tokens) {
        jw_key(&w, "n_tokens");
        jw_size(&w, got->prompt_tokens);
    }
    if (reasoning || mass < r->min_mass) {
        jw_key(&w, "server_notes");
        jw_open(&w, '[');
        if (reasoning) jw_text(&w, "reasoning");
        if (mass < r->min_mass) jw_text(&w, "low mass");
        jw_close(&w, ']');
    }
    jw_close(&w, '}');
}

status task_answer(const task *t, const task_rules *r, const ask *a, const json *reply, answer *room, buf *fields, err *e) {
    answer_score score[OPTIONS_MAX] = {{0}}, by_option[OPTIONS_MAX];
    double mass = 1;
    status s;
    room->has_tokens = room->undrawn = false;
    if (a->api == ASK_SYSTEMONE) {
        s = answer_decision(reply, ASK_DECISION, t->options, t->n, by_option, e);
        for (size_t i = 0; !s && i < t->n; i++) score[i] = by_option[t->perm[i]];
    } else if (!(s = answer_read(room, reply, e))) {
        if (t->tokens && room->has_tokens && room->prompt_tokens < t->tokens)
            s = err_set(e, ST_INPUT, "the server counted %zu tokens, the prompt has %zu or more: the server cut it", room->prompt_tokens, t->tokens);
        else s = answer_match(room, t->labels, t->n, score, &mass, e);
    }
    if (s) return s;
    put_fields(t, r, a, room, score, mass, fields);
    return buf_ok(fields, e);
}
