/* System One requests. */
#include <string.h>

#include "question/ask.h"

/* The instructions, and below them what the criteria say of an answer: they are part of the wording, so of the key. */
static status put_text(const json *rec, jref q, jref criteria, bool noul, buf *out, err *e) {
    buf scratch = {0};
    strv v;
    jref instructions = json_get(rec, q, "instructions");
    if (json_kind_of(rec, instructions) != JSON_STRING) return err_set(e, ST_INPUT, "field 'instructions': expected a string");
    status s = json_text(rec, instructions, &scratch, &v, e);
    if (!s) buf_view(out, v);
    for (jref k = json_kind_of(rec, criteria) == JSON_OBJECT ? json_first(rec, criteria) : JREF_NONE; !s && k != JREF_NONE; k = json_next(rec, criteria, k)) {
        jref said = json_value(rec, k);
        if (json_kind_of(rec, said) == JSON_NULL) continue;
        if (json_kind_of(rec, said) != JSON_STRING) s = err_set(e, ST_INPUT, "field 'criteria': expected texts");
        if (s || (s = json_text(rec, k, &scratch, &v, e))) break;
        buf_text(out, "\n- ");
        if (noul) buf_text(out, strv_is(v, "true") ? "Yes" : "No");
        else buf_view(out, v);
        buf_text(out, ": ");
        if (!(s = json_text(rec, said, &scratch, &v, e))) buf_view(out, v);
    }
    buf_free(&scratch);
    return s;
}

static status check_noul(const json *rec, jref criteria, err *e) {
    if (json_kind_of(rec, criteria) == JSON_NONE || json_kind_of(rec, criteria) == JSON_NULL) return ST_OK;
    if (json_kind_of(rec, criteria) != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'criteria': expected an object {\"true\": ..., \"false\": ...}");
    for (jref k = json_first(rec, criteria); k != JREF_NONE; k = json_next(rec, criteria, k))
        if (!json_is(rec, k, "true") && !json_is(rec, k, "false")) return err_set(e, ST_INPUT, "field 'criteria': a noul question has 'true' and 'false'");
    return ST_OK;
}

/* choice: the keys of an object, or an array of names. score: an array of ordered levels (0, 1, 2, ...), or {scale, bins}. */
static status put_options(const json *rec, jref criteria, bool score, jw *w, err *e) {
    json_kind k = json_kind_of(rec, criteria);
    if (k == JSON_ARRAY) {
        jw_key(w, "options");
        jw_raw(w, json_raw(rec, criteria));
        if (!score) return ST_OK;
        size_t n = json_count(rec, criteria);
        jw_key(w, "centers");
        jw_open(w, '[');
        for (size_t i = 0; i < n; i++) jw_real(w, (double)i);
        jw_close(w, ']');
        jw_key(w, "scale");
        jw_open(w, '[');
        jw_real(w, 0);
        jw_real(w, n > 1 ? (double)(n - 1) : 1);
        jw_close(w, ']');
        return ST_OK;
    }
    if (score && (k == JSON_NONE || k == JSON_NULL)) return ST_OK;
    if (k != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'criteria': expected %s", score ? "an array of levels" : "an object of answers, or an array of their names");
    if (score) {
        static const char *const names[] = {"scale", "bins"};
        for (size_t i = 0; i < 2; i++) {
            if (json_get(rec, criteria, names[i]) == JREF_NONE) continue;
            jw_key(w, names[i]);
            jw_raw(w, json_raw(rec, json_get(rec, criteria, names[i])));
        }
        return ST_OK;
    }
    jw_key(w, "options");
    jw_open(w, '[');
    for (jref o = json_first(rec, criteria); o != JREF_NONE; o = json_next(rec, criteria, o)) jw_raw(w, json_raw(rec, o));
    jw_close(w, ']');
    return ST_OK;
}

/* In the words of the registry: {id, kind, text, options, ...}. */
static status restate(const json *rec, jref name, jref q, buf *out, err *e) {
    jref type = json_get(rec, q, "type"), criteria = json_get(rec, q, "criteria");
    question_kind kind;
    buf text = {0};
    if (json_kind_of(rec, q) != JSON_OBJECT) return err_set(e, ST_INPUT, "expected an object");
    if (question_kind_read(rec, type, &kind, e)) return err_set(e, ST_INPUT, "field 'type': expected noul, choice or score");
    status s = kind == QUESTION_NOUL ? check_noul(rec, criteria, e) : ST_OK;
    /* the members of a score's {scale, bins} are no descriptions */
    if (!s) s = put_text(rec, q, kind == QUESTION_SCORE ? JREF_NONE : criteria, kind == QUESTION_NOUL, &text, e);
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "id");
    jw_raw(&w, json_raw(rec, name));
    jw_key(&w, "kind");
    jw_text(&w, question_kind_name(kind));
    jw_key(&w, "text");
    jw_view(&w, buf_strv(&text));
    if (!s && kind != QUESTION_NOUL) s = put_options(rec, criteria, kind == QUESTION_SCORE, &w, e);
    jw_close(&w, '}');
    buf_free(&text);
    return s ? s : buf_ok(out, e);
}

/* A known answer in the words of the options: true and false of a noul question, a level's number. */
static status put_label(const json *rec, jref label, const question *q, jw *w, err *e) {
    json_kind k = json_kind_of(rec, label);
    size_t level;
    if (k == JSON_BOOL && q->kind == QUESTION_NOUL) {
        jw_text(w, json_true(rec, label) ? q->options[0] : q->options[1]);
    } else if (k == JSON_NUMBER && q->kind == QUESTION_SCORE) {
        status s = json_size(rec, label, "labels", &level, e);
        if (s) return s;
        if (level >= q->n_options) return err_set(e, ST_INPUT, "field 'labels': there is no level %zu", level);
        jw_text(w, q->options[level]);
    } else {
        jw_raw(w, json_raw(rec, label));
    }
    return ST_OK;
}

/* What goes onto the prompts beside the request: the known answer, group and meta of the request. */
static status put_extra(const json *rec, jref name, const question *q, buf *out, err *e) {
    static const char *const passed[] = {"group", "meta", "weight"};
    jref labels = json_get(rec, JREF_ROOT, "labels"), label = JREF_NONE;
    buf scratch = {0};
    strv key;
    status s = json_text(rec, name, &scratch, &key, e);
    if (!s) label = json_get_view(rec, labels, key);
    jw w = jw_of(out);
    jw_open(&w, '{');
    if (!s && label != JREF_NONE && json_kind_of(rec, label) != JSON_NULL) {
        jw_key(&w, "label");
        s = put_label(rec, label, q, &w, e);
    }
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        jref r = json_get(rec, JREF_ROOT, passed[i]);
        if (r == JREF_NONE) continue;
        jw_key(&w, passed[i]);
        jw_raw(&w, json_raw(rec, r));
    }
    jw_close(&w, '}');
    buf_free(&scratch);
    return s ? s : buf_ok(out, e);
}

static status ask_one(asker *a, const json *rec, jref name, strv request, err *e) {
    buf text = {0}, extra_text = {0}, id = {0}, scratch = {0};
    json doc = {0}, extra = {0};
    question q = {0};
    strv called = {0};
    status s = restate(rec, name, json_value(rec, name), &text, e);
    if (!s) s = json_parse(&doc, text.p, text.len, e);
    if (!s) s = question_read(&q, &doc, JREF_ROOT, e);
    if (!s) s = json_text(rec, name, &scratch, &called, e);
    if (!s) s = put_extra(rec, name, &q, &extra_text, e);
    if (!s) s = json_parse(&extra, extra_text.p, extra_text.len, e);
    if (!s) {
        buf_view(&id, request);
        buf_byte(&id, '/');
        buf_view(&id, called);
        prompts_item item = {.q = &q, .id = buf_strv(&id), .doc = rec, .state = json_get(rec, JREF_ROOT, "state"), .extra = &extra, .request = request};
        s = ask_item(a, &item, e);
    }
    if (s) err_prefix(e, "question %.*s", (int)(json_raw(rec, name).n > 80 ? 80 : json_raw(rec, name).n), json_raw(rec, name).p);
    buf *all[] = {&text, &extra_text, &id, &scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    json_free(&doc);
    json_free(&extra);
    question_free(&q);
    return s;
}

status ask_request(asker *a, const json *rec, err *e) {
    jref list = json_get(rec, JREF_ROOT, "questions"), at = json_get(rec, JREF_ROOT, "id");
    json_kind k = json_kind_of(rec, at);
    buf scratch = {0}, made = {0};
    strv id = {0};
    status s = ST_OK;
    a->requests++;
    if (json_kind_of(rec, list) != JSON_OBJECT || !json_count(rec, list)) return err_set(e, ST_INPUT, "field 'questions': expected an object {name: {type, instructions, criteria}}");
    if (json_get(rec, JREF_ROOT, "state") == JREF_NONE) return err_set(e, ST_INPUT, "field 'state' is missing");
    if (k == JSON_STRING) s = json_text(rec, at, &scratch, &id, e);
    else if (k == JSON_NUMBER) id = json_raw(rec, at);
    if (!s && !id.n) {
        buf_printf(&made, "request-%zu", a->requests);
        s = buf_ok(&made, e);
        id = buf_strv(&made);
    }
    for (jref name = json_first(rec, list); !s && name != JREF_NONE; name = json_next(rec, list, name)) s = ask_one(a, rec, name, id, e);
    buf_free(&scratch);
    buf_free(&made);
    return s;
}
