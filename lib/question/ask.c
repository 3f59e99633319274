#include "question/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/lines.h"
#include "question/state.h"

static status find_question(asker *a, const json *doc, jref at, const question **found, question *own, err *e) {
    buf scratch = {0};
    strv id;
    status s = ST_OK;
    json_kind k = json_kind_of(doc, at);
    *found = NULL;
    if (k == JSON_NONE) {
        if (!a->fallback) return err_set(e, ST_INPUT, "field 'question' is missing, and --question names none");
        *found = a->fallback;
    } else if (k == JSON_STRING) {
        if (!(s = json_text(doc, at, &scratch, &id, e)) && !(*found = registry_find(a->questions, id)))
            s = err_set(e, ST_INPUT, "field 'question': the registry has no question '%.*s'", (int)(id.n > 100 ? 100 : id.n), id.p);
    } else if (!(s = question_read(own, doc, at, e))) {
        *found = own;
    }
    buf_free(&scratch);
    return s;
}

/* An id is a string or a number as it is written; none is none. */
static status read_id(const json *rec, buf *scratch, strv *id, err *e) {
    jref at = json_get(rec, JREF_ROOT, "id");
    json_kind k = json_kind_of(rec, at);
    *id = (strv){0};
    if (k == JSON_STRING) return json_text(rec, at, scratch, id, e);
    if (k == JSON_NUMBER) *id = json_raw(rec, at);
    else if (k != JSON_NONE && k != JSON_NULL) return err_set(e, ST_INPUT, "field 'id': expected a string");
    return ST_OK;
}

/* What a model says when it is told nothing (Zhao et al. 2021, section 5.1). */
static const char *const probes[] = {"\"N/A\"", "\"\"", "\"[MASK]\""};

static status ask_probes(asker *a, const question *q, err *e) {
    bool fresh;
    if (intern_put(&a->probed, strv_of(q->key), &fresh) == INTERN_NONE) return err_memory(e, KEY_SIZE);
    status s = ST_OK;
    for (size_t i = 0; !s && fresh && i < sizeof probes / sizeof *probes; i++) {
        json doc = {0};
        buf id = {0};
        buf_printf(&id, "probe:%s:%zu", q->key, i + 1);
        s = json_parse(&doc, probes[i], strlen(probes[i]), e);
        prompts_item item = {.q = q, .id = buf_strv(&id), .doc = &doc, .state = JREF_ROOT, .probe = (int)i + 1};
        if (!s) s = prompts_make(&a->style, &item, a->put, a->ctx, e);
        json_free(&doc);
        buf_free(&id);
    }
    return s;
}

status ask_item(asker *a, const prompts_item *item, err *e) {
    prompts_style style = a->style;
    if (a->plan) a->plan(a->plan_ctx, item->q, &style);
    status s = a->probes && !style.n_hidden ? ask_probes(a, item->q, e) : ST_OK;
    return s ? s : prompts_make(&style, item, a->put, a->ctx, e);
}

static status take_item(asker *a, const json *rec, err *e) {
    question own = {0};
    const question *q;
    buf scratch = {0};
    strv id = {0};
    status s = find_question(a, rec, json_get(rec, JREF_ROOT, "question"), &q, &own, e);
    if (!s) s = read_id(rec, &scratch, &id, e);
    jref state = json_get(rec, JREF_ROOT, "state");
    if (!s && state == JREF_NONE) s = err_set(e, ST_INPUT, "field 'state' is missing");
    if (!s && a->twins && q->twin) {
        s = ask_twins(a, rec, q, e);
    } else if (!s) {
        prompts_item item = {.q = q, .id = id, .doc = rec, .state = state, .extra = rec};
        s = ask_item(a, &item, e);
    }
    buf_free(&scratch);
    question_free(&own);
    return s;
}

/* One item with a state that was built. */
static status built_item(asker *a, const question *q, const buf *state, const json *extra, strv id, strv group, strv meta, err *e) {
    json doc = {0};
    status s = json_parse(&doc, state->p, state->len, e);
    if (!s) {
        prompts_item item = {.q = q, .id = id, .doc = &doc, .state = JREF_ROOT, .extra = extra, .group = group, .meta = meta};
        s = ask_item(a, &item, e);
    }
    json_free(&doc);
    return s;
}

static void put_meta(buf *out, strv dataset, strv column) {
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "card");
    jw_view(&w, dataset);
    jw_key(&w, "column");
    jw_view(&w, column);
    jw_close(&w, '}');
}

/* Every column of the card that is no identifier (and that --where lets through) makes an item. */
static status take_card(asker *a, const json *rec, err *e) {
    const question *q = a->fallback;
    if (!q) return err_set(e, ST_INPUT, "a card record; --question must name the question to ask about its columns");
    buf dataset = {0}, scratch = {0}, state = {0}, id = {0}, group = {0}, meta = {0};
    status s = card_dataset(rec, JREF_ROOT, &dataset, e);
    jref list = json_get(rec, JREF_ROOT, "columns");
    if (!s && json_kind_of(rec, list) != JSON_ARRAY) s = err_set(e, ST_INPUT, "field 'columns': expected an array");
    for (jref c = json_first(rec, list); !s && c != JREF_NONE; c = json_next(rec, list, c)) {
        strv name;
        if (json_true(rec, json_get(rec, c, "identifier"))) continue;
        if ((s = json_text(rec, json_get(rec, c, "name"), &scratch, &name, e))) break;
        if (a->where && !where_has(a->where, buf_strv(&dataset), name)) continue;
        buf *all[] = {&state, &id, &group, &meta};
        for (size_t i = 0; i < 4; i++) buf_clear(all[i]);
        if (strcmp(q->id, "column.annotate") == 0 || strcmp(q->id, "column.aspect") == 0) s = state_column(rec, JREF_ROOT, c, &state, e);
        else s = err_set(e, ST_INPUT, "question '%s' needs more than a card; give case records", q->id);
        buf_printf(&id, "%s:%s:", q->id, dataset.p);
        buf_view(&id, name);
        json_quote(&group, buf_strv(&dataset), false);
        put_meta(&meta, buf_strv(&dataset), name);
        if (!s) s = built_item(a, q, &state, NULL, buf_strv(&id), buf_strv(&group), buf_strv(&meta), e);
    }
    buf *all[] = {&dataset, &scratch, &state, &id, &group, &meta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    return s;
}

/* The card of a case: an object, or the sha256 of one of --cards. */
static status case_card(asker *a, const json *rec, json *held, const json **card, jref *at, err *e) {
    jref c = json_get(rec, JREF_ROOT, "card");
    if (json_kind_of(rec, c) == JSON_OBJECT) {
        *card = rec;
        *at = c;
        return ST_OK;
    }
    for (size_t i = 0; i < a->n_cards; i++)
        if (json_is(rec, c, a->cards[i].sha)) {
            *card = held;
            *at = JREF_ROOT;
            return json_parse(held, a->cards[i].text, a->cards[i].len, e);
        }
    return err_set(e, ST_INPUT, "field 'card': expected a card record, or the sha256 of a card of --cards");
}

status ask_case(asker *a, const json *rec, err *e) {
    question own = {0};
    const question *q;
    const json *card = NULL;
    jref at = JREF_NONE, column = json_get(rec, JREF_ROOT, "column");
    json held = {0};
    buf state = {0}, dataset = {0}, group = {0}, meta = {0}, scratch = {0}, id_text = {0};
    strv name = {0}, id = {0};
    status s = find_question(a, rec, json_get(rec, JREF_ROOT, "question"), &q, &own, e);
    if (!s && !q->id) s = err_set(e, ST_INPUT, "a case needs a question of the registry");
    if (!s && a->twins && q->twin) {
        s = ask_twins(a, rec, q, e);
        question_free(&own);
        return s;
    }
    if (!s) s = case_card(a, rec, &held, &card, &at, e);
    if (!s) s = state_build(q->id, card, at, rec, JREF_ROOT, &state, e);
    if (!s) s = card_dataset(card, at, &dataset, e);
    if (!s && json_kind_of(rec, column) == JSON_STRING) s = json_text(rec, column, &scratch, &name, e);
    if (!s) s = read_id(rec, &id_text, &id, e);
    if (!s) {
        json_quote(&group, buf_strv(&dataset), false);
        if (name.n) put_meta(&meta, buf_strv(&dataset), name);
        s = built_item(a, q, &state, rec, id, buf_strv(&group), buf_strv(&meta), e);
    }
    buf *all[] = {&state, &dataset, &group, &meta, &scratch, &id_text};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_free(all[i]);
    json_free(&held);
    question_free(&own);
    return s;
}

status asker_take(asker *a, const json *rec, err *e) {
    jref type = json_get(rec, JREF_ROOT, "type");
    a->style.ids = &a->ids;
    if (json_is(rec, type, "item")) return take_item(a, rec, e);
    if (json_is(rec, type, "card")) return take_card(a, rec, e);
    if (json_is(rec, type, "case")) return ask_case(a, rec, e);
    if (type == JREF_NONE && json_get(rec, JREF_ROOT, "questions") != JREF_NONE) return ask_request(a, rec, e);
    return err_set(e, ST_INPUT, "expected a record of type 'item', 'card' or 'case', or a System One request");
}

static status keep_card(void *ctx, const json *doc, err *e) {
    asker *a = ctx;
    kept_card c = {.len = doc->len};
    status s = json_text_copy(doc, json_get(doc, JREF_ROOT, "sha256"), "sha256", &c.sha, e);
    if (!s && (!(c.text = mem_text(doc->text, doc->len)) || !mem_grow((void **)&a->cards, &a->cap_cards, a->n_cards + 1, sizeof *a->cards))) s = err_memory(e, doc->len);
    if (!s) {
        a->cards[a->n_cards++] = c;
    } else {
        free(c.sha);
        free(c.text);
    }
    return s;
}

status asker_cards(asker *a, const char *path, err *e) {
    return json_lines(path, keep_card, a, e);
}

void asker_free(asker *a) {
    for (size_t i = 0; i < a->n_cards; i++) {
        free(a->cards[i].sha);
        free(a->cards[i].text);
    }
    free(a->cards);
    intern_free(&a->probed);
    prompts_ids_free(&a->ids);
}
