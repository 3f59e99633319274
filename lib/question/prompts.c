#include "question/prompts.h"

#include <string.h>

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
                                        "prefix", "suffix", "template", "need", "state_sha256", "prompt_sha256", "item", "allow_control_tokens", "centers"};
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

static void put_question(const question *q, size_t shift, jw *w) {
    put(w, "question", strv_of(q->id ? q->id : "inline"));
    put(w, "key", strv_of(q->key));
    put(w, "kind", strv_of(question_kind_name(q->kind)));
    jw_key(w, "options");
    jw_open(w, '[');
    for (size_t i = 0; i < q->n_options; i++) jw_text(w, q->options[i]);
    jw_close(w, ']');
    if (q->centers) {
        jw_key(w, "centers");
        jw_raw(w, strv_of(q->centers));
    }
    jw_key(w, "perm");
    jw_open(w, '[');
    for (size_t j = 0; j < q->n_options; j++) jw_size(w, question_at(q, shift, j));
    jw_close(w, ']');
    jw_key(w, "labels");
    jw_open(w, '[');
    for (size_t j = 0; j < q->n_options; j++) jw_text(w, question_label(q, q->kind == QUESTION_NOUL ? question_at(q, shift, j) : j));
    jw_close(w, ']');
}

static status one_prompt(maker *m, size_t shift) {
    const question *q = m->item->q;
    const readout *r = m->style->readout;
    size_t split;
    char hex[SHA256_HEX_SIZE];
    buf_clear(&m->user);
    buf_clear(&m->record);
    status s = readout_user(r, q, shift, buf_strv(&m->state), &m->user, &split, m->e);
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
    put_question(q, shift, &w);
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
    jw_key(&w, "need");
    jw_raw(&w, strv_of("{\"logprobs\":true}"));
    put(&w, "state_sha256", strv_of(m->state_sha));
    put(&w, "prompt_sha256", strv_of(hex));
    put_extra(m, &w);
    jw_close(&w, '}');
    return buf_ok(&m->record, m->e);
}

static status check_label(const maker *m) {
    const json *x = m->item->extra;
    jref label = x ? json_get(x, JREF_ROOT, "label") : JREF_NONE;
    json_kind k = x ? json_kind_of(x, label) : JSON_NONE;
    if (k == JSON_NONE || k == JSON_NULL) return ST_OK;
    buf scratch = {0};
    strv v = {0};
    status s = json_text(x, label, &scratch, &v, m->e);
    if (s) err_prefix(m->e, "field 'label'");
    else if (question_option(m->item->q, v) == m->item->q->n_options)
        s = err_set(m->e, ST_INPUT, "field 'label': '%.*s' is none of the options", (int)(v.n > 100 ? 100 : v.n), v.p);
    buf_free(&scratch);
    return s;
}

/* An id that the same input always gets: the item's own, or its question and state. */
static status make_id(maker *m) {
    if (m->item->id.n) buf_view(&m->id, m->item->id);
    else buf_printf(&m->id, "%s-%.16s", m->item->q->key, m->state_sha);
    return buf_ok(&m->id, m->e);
}

status prompts_make(const prompts_style *style, const prompts_item *item, prompts_put *put_record, void *ctx, err *e) {
    maker m = {.style = style, .item = item, .e = e};
    status s = state_text(item->doc, item->state, &m.state, e);
    if (!s) s = state_sha256(item->doc, item->state, m.state_sha, e);
    if (!s) s = make_id(&m);
    if (!s) s = check_label(&m);
    size_t n = style->one ? 1 : question_shifts(item->q);
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
