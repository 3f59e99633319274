#include "question/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "question/state.h"

typedef struct maker {
    const prompts_style *style;
    const prompts_item *item;
    buf state, id, user, record;
    chat_text text;
    char state_sha[SHA256_HEX_SIZE];
    err *e;
} maker;

static void put(jw *w, const char *key, strv v) {
    jw_key(w, key);
    jw_view(w, v);
}

/* Fields of an item that are made anew on its prompts. */
static bool consumed(const json *doc, jref key) {
    static const char *const names[] = {"type", "id", "question", "state", "key", "kind", "options", "perm", "labels", "system", "user", "split",
                                        "prefix", "suffix", "template", "need", "state_sha256", "prompt_sha256", "item", "allow_control_tokens", "centers", "shift", "probe", "request", "text"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_is(doc, key, names[i])) return true;
    /* A case's card is in its state by now; an item may have a field of that name. */
    return json_is(doc, key, "card") && json_is(doc, json_get(doc, JREF_ROOT, "type"), "case");
}

static void put_extra(const maker *m, jw *w) {
    const json *x = m->item->extra;
    if (x)
        for (jref k = json_first(x, JREF_ROOT); k != JREF_NONE; k = json_next(x, JREF_ROOT, k)) {
            if (consumed(x, k)) continue;
            jw_key_raw(w, json_raw(x, k));
            jw_raw(w, json_raw(x, json_value(x, k)));
        }
    if (m->item->group.n && (!x || json_get(x, JREF_ROOT, "group") == JREF_NONE)) {
        jw_key(w, "group");
        jw_raw(w, m->item->group);
    }
    if (m->item->meta.n && (!x || json_get(x, JREF_ROOT, "meta") == JREF_NONE)) {
        jw_key(w, "meta");
        jw_raw(w, m->item->meta);
    }
}

static void put_question(const question *q, size_t shift, const size_t *perm, const double *centers, jw *w) {
    put(w, "question", strv_of(q->id ? q->id : "inline"));
    put(w, "key", strv_of(q->key));
    put(w, "kind", strv_of(question_kind_name(q->kind)));
    put(w, "text", strv_of(q->text));
    jw_key(w, "options");
    jw_open(w, '[');
    for (size_t i = 0; i < q->n_options; i++) jw_text(w, q->options[i]);
    jw_close(w, ']');
    if (q->kind == QUESTION_SCORE) {
        jw_key(w, "centers");
        jw_open(w, '[');
        for (size_t i = 0; i < q->n_options; i++) jw_real(w, centers[i]);
        jw_close(w, ']');
    }
    jw_key(w, "perm");
    jw_open(w, '[');
    for (size_t j = 0; j < q->n_options; j++) jw_size(w, perm[j]);
    jw_close(w, ']');
    jw_key(w, "shift");
    jw_size(w, shift);
    jw_key(w, "labels");
    jw_open(w, '[');
    for (size_t j = 0; j < q->n_options; j++) jw_text(w, question_label(q, q->kind == QUESTION_NOUL ? perm[j] : j));
    jw_close(w, ']');
}

static void put_need(const prompts_style *style, jw *w) {
    jw_key(w, "need");
    jw_open(w, '{');
    if (!style->n_hidden) {
        jw_key(w, "logprobs");
        jw_bool(w, true);
    } else {
        jw_key(w, "hidden");
        jw_open(w, '[');
        for (size_t i = 0; i < style->n_hidden; i++) jw_size(w, style->hidden[i]);
        jw_close(w, ']');
    }
    jw_close(w, '}');
}

static status one_prompt(maker *m, size_t shift) {
    const question *q = m->item->q;
    const readout *r = m->style->readout;
    size_t split, perm[OPTIONS_MAX];
    double centers[OPTIONS_MAX];
    char hex[SHA256_HEX_SIZE];
    buf_clear(&m->user);
    buf_clear(&m->record);
    question_order(q, m->style->listing, m->style->seed, buf_strv(&m->id), shift, perm);
    status s = q->kind == QUESTION_SCORE ? question_centers(q, centers, m->e) : ST_OK;
    if (!s) s = readout_user(r, q, perm, buf_strv(&m->state), &m->user, &split, m->e);
    if (!s) s = chat_render(m->style->chat, strv_of(r->system), buf_strv(&m->user), split, &m->text, m->e);
    strv all = buf_strv(&m->text.text);
    if (!s) s = sha256_hex(all.p, all.n, hex, m->e);
    if (s) return s;
    jw w = jw_of(&m->record);
    jw_open(&w, '{');
    put(&w, "type", strv_of("prompt"));
    buf id = {0};
    buf_view(&id, buf_strv(&m->id));
    buf_printf(&id, "#%zu", shift);
    put(&w, "id", buf_strv(&id));
    buf_free(&id);
    put(&w, "item", buf_strv(&m->id));
    put_question(q, shift, perm, centers, &w);
    put(&w, "system", strv_of(r->system));
    put(&w, "user", buf_strv(&m->user));
    jw_key(&w, "split");
    jw_size(&w, split);
    put(&w, "template", strv_of(chat_name(m->style->chat)));
    put(&w, "prefix", (strv){all.p, m->text.split});
    put(&w, "suffix", (strv){all.p + m->text.split, all.n - m->text.split});
    if (m->style->allow_control_tokens) {
        jw_key(&w, "allow_control_tokens");
        jw_bool(&w, true);
    }
    put_need(m->style, &w);
    if (m->item->probe) {
        jw_key(&w, "probe");
        jw_size(&w, (size_t)m->item->probe);
    }
    if (m->item->request.n) put(&w, "request", m->item->request);
    put(&w, "state_sha256", strv_of(m->state_sha));
    put(&w, "prompt_sha256", strv_of(hex));
    put_extra(m, &w);
    jw_close(&w, '}');
    return buf_ok(&m->record, m->e);
}

/* The option that a string names, or an error about the field. */
static status find_option(const maker *m, const json *doc, jref r, const char *field, size_t *option) {
    buf scratch = {0};
    strv v = {0};
    status s = json_text(doc, r, &scratch, &v, m->e);
    if (s) err_prefix(m->e, "field '%s'", field);
    else if ((*option = question_option(m->item->q, v)) == m->item->q->n_options)
        s = err_set(m->e, ST_INPUT, "field '%s': '%.*s' is none of the options", field, (int)(v.n > 100 ? 100 : v.n), v.p);
    buf_free(&scratch);
    return s;
}

/* A label is one of the options; a mask names some of them, not all and not the label. */
static status check_options(const maker *m) {
    const json *x = m->item->extra;
    if (!x) return ST_OK;
    jref label = json_get(x, JREF_ROOT, "label"), mask = json_get(x, JREF_ROOT, "mask");
    bool out[OPTIONS_MAX] = {false}, labelled = json_kind_of(x, label) != JSON_NONE && json_kind_of(x, label) != JSON_NULL;
    size_t option, n = 0, is = 0;
    status s = labelled ? find_option(m, x, label, "label", &is) : ST_OK;
    if (!s && mask != JREF_NONE && json_kind_of(x, mask) != JSON_ARRAY && json_kind_of(x, mask) != JSON_NULL)
        s = err_set(m->e, ST_INPUT, "field 'mask': found %s, expected an array of options", json_kind_name(json_kind_of(x, mask)));
    for (jref r = json_first(x, mask); !s && r != JREF_NONE; r = json_next(x, mask, r)) {
        if ((s = find_option(m, x, r, "mask", &option))) break;
        n += !out[option];
        out[option] = true;
    }
    if (!s && n == m->item->q->n_options) s = err_set(m->e, ST_INPUT, "field 'mask': every option is out of play");
    if (!s && labelled && out[is]) s = err_set(m->e, ST_INPUT, "field 'mask': the label '%s' is out of play", m->item->q->options[is]);
    return s;
}

void prompts_ids_free(prompts_ids *ids) {
    intern_free(&ids->made);
    free(ids->times);
    *ids = (prompts_ids){0};
}

/* The question and the state; the same again gets its number. */
static status made_id(maker *m) {
    prompts_ids *ids = m->style->ids;
    bool fresh;
    buf_printf(&m->id, "%s-%.16s", m->item->q->key, m->state_sha);
    size_t i = intern_put(&ids->made, buf_strv(&m->id), &fresh);
    if (i == INTERN_NONE || !mem_grow((void **)&ids->times, &ids->cap, i + 1, sizeof *ids->times)) return err_memory(m->e, (i + 1) * sizeof *ids->times);
    if (fresh) ids->times[i] = 0;
    if (++ids->times[i] > 1) buf_printf(&m->id, "-%zu", ids->times[i]);
    return buf_ok(&m->id, m->e);
}

/* An id that the same input always gets: the item's own, or its question and state. */
static status make_id(maker *m) {
    if (m->item->id.n) buf_view(&m->id, m->item->id);
    else return made_id(m);
    return buf_ok(&m->id, m->e);
}

status prompts_make(const prompts_style *style, const prompts_item *item, prompts_put *put_record, void *ctx, err *e) {
    maker m = {.style = style, .item = item, .e = e};
    status s = state_text(item->doc, item->state, &m.state, e);
    if (!s) s = state_sha256(item->doc, item->state, m.state_sha, e);
    if (!s) s = make_id(&m);
    if (!s) s = check_options(&m);
    size_t n = style->one || style->n_hidden ? 1 : question_shifts(item->q);
    for (size_t shift = 0; !s && shift < n; shift++) {
        s = one_prompt(&m, shift);
        if (!s) s = put_record(ctx, &m.record, e);
    }
    buf_free(&m.state);
    buf_free(&m.id);
    buf_free(&m.user);
    buf_free(&m.record);
    chat_text_free(&m.text);
    return s;
}
