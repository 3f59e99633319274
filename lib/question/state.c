#include "question/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { TEXT_POINTS = 300, SYNONYMS = 5, SIBLINGS = 25 };

/* Where a value comes from and where it goes. The first failure is kept in s. */
typedef struct build {
    const json *doc; /* of the value being copied */
    jw w;
    buf scratch;
    status s;
    err *e;
} build;

static jref need(build *b, const json *doc, jref obj, const char *key) {
    jref r = json_get(doc, obj, key);
    b->doc = doc;
    if (r == JREF_NONE && !b->s) b->s = err_set(b->e, ST_INPUT, "field '%s' is missing", key);
    return r;
}

/* A field that must be there, as it stands. */
static void put_field(build *b, const json *doc, jref obj, const char *key) {
    jref r = need(b, doc, obj, key);
    if (b->s) return;
    jw_key(&b->w, key);
    jw_raw(&b->w, json_raw(doc, r));
}

/* A string, cut to so many code points; null and absence give "". */
static void cut(build *b, const char *name, jref r, size_t points) {
    strv v = {"", 0};
    json_kind k = json_kind_of(b->doc, r);
    if (b->s) return;
    if (k != JSON_NULL && k != JSON_NONE && (b->s = json_text(b->doc, r, &b->scratch, &v, b->e))) {
        err_prefix(b->e, "field '%s'", name);
        return;
    }
    if (points) v.n = utf8_prefix(v, points);
    jw_key(&b->w, name);
    jw_view(&b->w, v);
}

static void put_text(build *b, const json *doc, jref obj, const char *key, size_t points) {
    b->doc = doc;
    cut(b, key, json_get(doc, obj, key), points);
}

jref card_column(const json *card, jref card_at, strv name) {
    jref list = json_get(card, card_at, "columns");
    buf scratch = {0};
    err ignored = {0};
    jref found = JREF_NONE;
    for (jref c = json_first(card, list); c != JREF_NONE && found == JREF_NONE; c = json_next(card, list, c)) {
        strv v;
        if (json_text(card, json_get(card, c, "name"), &scratch, &v, &ignored) == ST_OK && strv_eq(v, name)) found = c;
    }
    buf_free(&scratch);
    return found;
}

status card_dataset(const json *card, jref card_at, buf *out, err *e) {
    buf scratch = {0};
    strv v = {0};
    status s = json_text(card, json_get(card, card_at, "product_code"), &scratch, &v, e);
    if (s) err_prefix(e, "field 'product_code'");
    buf_view(out, v);
    buf_byte(out, '.');
    if (!s && (s = json_text(card, json_get(card, card_at, "table"), &scratch, &v, e))) err_prefix(e, "field 'table'");
    if (!s) {
        buf_view(out, v);
        s = buf_ok(out, e);
    }
    buf_free(&scratch);
    return s;
}

static void put_site(build *b, const json *card, jref site) {
    static const char *const keys[] = {"code", "name", "domain", "habitat"};
    jw_open(&b->w, '{');
    for (size_t i = 0; i < 4; i++) put_text(b, card, site, keys[i], 0);
    jw_close(&b->w, '}');
}

static void put_header(build *b, const json *card, jref at) {
    buf text = {0};
    if (!b->s) b->s = card_dataset(card, at, &text, b->e);
    jw_key(&b->w, "card");
    jw_open(&b->w, '{');
    jw_key(&b->w, "dataset");
    jw_view(&b->w, buf_strv(&text));
    put_text(b, card, at, "product_title", 0);
    put_text(b, card, at, "product_description", 0);
    jw_key(&b->w, "sites");
    jw_open(&b->w, '[');
    jref sites = json_get(card, at, "sites");
    for (jref s = json_first(card, sites); s != JREF_NONE; s = json_next(card, sites, s)) put_site(b, card, s);
    jw_close(&b->w, ']');
    put_field(b, card, at, "rows");
    buf_clear(&text);
    strv v;
    if (!b->s && !(b->s = json_text(card, need(b, card, at, "months_from"), &b->scratch, &v, b->e))) {
        buf_view(&text, v);
        buf_text(&text, " to ");
        if (!(b->s = json_text(card, need(b, card, at, "months_to"), &b->scratch, &v, b->e))) buf_view(&text, v);
    }
    jw_key(&b->w, "months");
    jw_view(&b->w, buf_strv(&text));
    jw_key(&b->w, "columns");
    jw_open(&b->w, '[');
    jref cols = need(b, card, at, "columns");
    for (jref c = json_first(card, cols); !b->s && c != JREF_NONE; c = json_next(card, cols, c)) {
        jref name = need(b, card, c, "name");
        if (!b->s) jw_raw(&b->w, json_raw(card, name));
    }
    jw_close(&b->w, ']');
    jw_close(&b->w, '}');
    buf_free(&text);
}

static void put_column(build *b, const json *card, jref col) {
    static const char *const keys[] = {"name", "description", "dtype", "unit"};
    jw_key(&b->w, "column");
    jw_open(&b->w, '{');
    for (size_t i = 0; i < 4; i++) put_text(b, card, col, keys[i], 0);
    put_text(b, card, col, "profile", TEXT_POINTS);
    jw_close(&b->w, '}');
}

status state_column(const json *card, jref card_at, jref column, buf *out, err *e) {
    build b = {.w = jw_of(out), .e = e};
    jw_open(&b.w, '{');
    put_header(&b, card, card_at);
    put_column(&b, card, column);
    jw_close(&b.w, '}');
    buf_free(&b.scratch);
    return b.s ? b.s : buf_ok(out, e);
}

/* The column or the site that the case names, where it names one. */
static void put_target(build *b, const json *card, jref at, const json *c, jref from, bool needed) {
    jref column = json_get(c, from, "column"), site = json_get(c, from, "site");
    json_kind k = json_kind_of(c, column);
    strv v;
    if (k != JSON_NONE && k != JSON_NULL) {
        if (b->s || (b->s = json_text(c, column, &b->scratch, &v, b->e))) return;
        jref col = card_column(card, at, v);
        if (col == JREF_NONE) b->s = err_set(b->e, ST_INPUT, "field 'column': the card has no column '%.*s'", (int)(v.n > 100 ? 100 : v.n), v.p);
        else put_column(b, card, col);
        return;
    }
    k = json_kind_of(c, site);
    if (k != JSON_NONE && k != JSON_NULL && !needed) {
        buf code = {0};
        jref sites = json_get(card, at, "sites"), found = JREF_NONE;
        if (!b->s && !(b->s = json_text(c, site, &code, &v, b->e)))
            for (jref s = json_first(card, sites); s != JREF_NONE && found == JREF_NONE; s = json_next(card, sites, s)) {
                strv have;
                err ignored = {0};
                if (json_text(card, json_get(card, s, "code"), &b->scratch, &have, &ignored) == ST_OK && strv_eq(have, v)) found = s;
            }
        if (!b->s && found == JREF_NONE) b->s = err_set(b->e, ST_INPUT, "field 'site': the card has no site '%.*s'", (int)(v.n > 100 ? 100 : v.n), v.p);
        if (!b->s) {
            jw_key(&b->w, "site");
            put_site(b, card, found);
        }
        buf_free(&code);
        return;
    }
    if (needed && !b->s) b->s = err_set(b->e, ST_INPUT, "field 'column' is missing");
}

static int text_order(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_sorted(build *b, const json *doc, jref list, const char *name) {
    size_t n = json_count(doc, list), have = 0;
    char **items = mem_zero(n, sizeof *items);
    if (!items) b->s = err_memory(b->e, n * sizeof *items);
    for (jref x = json_first(doc, list); !b->s && x != JREF_NONE; x = json_next(doc, list, x)) {
        b->s = json_text_copy(doc, x, name, &items[have], b->e);
        if (!b->s) have++;
    }
    if (!b->s) {
        qsort(items, have, sizeof *items, text_order);
        jw_key(&b->w, name);
        jw_open(&b->w, '[');
        for (size_t i = 0; i < have; i++) jw_text(&b->w, items[i]);
        jw_close(&b->w, ']');
    }
    for (size_t i = 0; items && i < have; i++) free(items[i]);
    free(items);
}

static void put_ontology(build *b, const json *c, jref from) {
    jref o = need(b, c, from, "ontology");
    if (b->s) return;
    jw_key(&b->w, "ontology");
    jw_open(&b->w, '{');
    put_field(b, c, o, "id");
    put_field(b, c, o, "description");
    put_sorted(b, c, json_get(c, o, "aspects"), "aspects");
    jw_close(&b->w, '}');
}

static void put_first(build *b, const json *doc, jref list, const char *name, size_t most) {
    if (b->s) return;
    jw_key(&b->w, name);
    jw_open(&b->w, '[');
    size_t n = 0;
    for (jref x = json_first(doc, list); x != JREF_NONE && n < most; x = json_next(doc, list, x), n++) jw_raw(&b->w, json_raw(doc, x));
    jw_close(&b->w, ']');
}

static void put_candidate(build *b, const json *c, jref from) {
    jref x = need(b, c, from, "candidate");
    if (b->s) return;
    jw_key(&b->w, "candidate");
    jw_open(&b->w, '{');
    put_field(b, c, x, "label");
    put_field(b, c, x, "curie");
    put_field(b, c, x, "ontology_id");
    put_text(b, c, x, "description", TEXT_POINTS);
    put_first(b, c, json_get(c, x, "synonyms"), "synonyms", SYNONYMS);
    jref kids = json_get(c, x, "has_children");
    if (!b->s) {
        jw_key(&b->w, "has_children");
        jw_bool(&b->w, json_true(c, kids));
    }
    jw_close(&b->w, '}');
}

static void put_term(build *b, const json *c, jref from, bool described) {
    jref t = need(b, c, from, "term");
    if (b->s) return;
    jw_key(&b->w, "term");
    jw_open(&b->w, '{');
    put_field(b, c, t, "label");
    if (described) put_text(b, c, t, "description", TEXT_POINTS);
    else put_field(b, c, t, "curie");
    jw_close(&b->w, '}');
}

static void put_avu(build *b, const json *c, jref from) {
    jref a = need(b, c, from, "avu");
    if (b->s) return;
    jw_key(&b->w, "avu");
    jw_open(&b->w, '{');
    put_field(b, c, a, "attribute");
    put_field(b, c, a, "value");
    put_field(b, c, a, "unit");
    jw_close(&b->w, '}');
}

status state_build(const char *question, const json *card, jref at, const json *c, jref from, buf *out, err *e) {
    build b = {.w = jw_of(out), .e = e};
    bool known = true;
    jw_open(&b.w, '{');
    put_header(&b, card, at);
    if (strcmp(question, "column.annotate") == 0 || strcmp(question, "column.aspect") == 0) {
        put_target(&b, card, at, c, from, true);
    } else if (strcmp(question, "column.ontology") == 0) {
        put_target(&b, card, at, c, from, true);
        put_field(&b, c, from, "aspect");
    } else if (strcmp(question, "column.ontology_fits") == 0) {
        put_target(&b, card, at, c, from, true);
        put_field(&b, c, from, "aspect");
        put_ontology(&b, c, from);
    } else if (strcmp(question, "term.fits") == 0) {
        put_field(&b, c, from, "scope");
        put_target(&b, card, at, c, from, false);
        put_field(&b, c, from, "aspect");
        put_candidate(&b, c, from);
        put_field(&b, c, from, "n_candidates");
    } else if (strcmp(question, "avu.value_kind") == 0) {
        put_target(&b, card, at, c, from, true);
        put_field(&b, c, from, "aspect");
        put_term(&b, c, from, false);
    } else if (strcmp(question, "avu.keep") == 0) {
        put_avu(&b, c, from);
        put_term(&b, c, from, true);
        put_field(&b, c, from, "scope");
        put_field(&b, c, from, "target");
        put_first(&b, c, json_get(c, from, "siblings"), "siblings", SIBLINGS);
    } else {
        known = false;
    }
    jw_close(&b.w, '}');
    buf_free(&b.scratch);
    if (b.s) return b.s;
    if (!known) return err_set(e, ST_INPUT, "question '%s' has no state builder; give an item with its state", question);
    return buf_ok(out, e);
}

/* --- renderings --- */

static bool is_dialogue(const json *doc, jref state) {
    size_t n = 0;
    if (json_kind_of(doc, state) != JSON_ARRAY) return false;
    for (jref x = json_first(doc, state); x != JREF_NONE; x = json_next(doc, state, x), n++)
        if (json_kind_of(doc, json_get(doc, x, "role")) != JSON_STRING || json_kind_of(doc, json_get(doc, x, "content")) != JSON_STRING) return false;
    return n > 0;
}

static status put_string(const json *doc, jref r, buf *scratch, buf *out, err *e) {
    strv v;
    status s = json_text(doc, r, scratch, &v, e);
    if (!s) buf_view(out, v);
    return s;
}

status state_text(const json *doc, jref state, buf *out, err *e) {
    static const json_style style = {.item = ",", .key = ": ", .indent = 2};
    buf scratch = {0};
    json_kind k = json_kind_of(doc, state);
    status s = ST_OK;
    if (k == JSON_STRING) {
        s = put_string(doc, state, &scratch, out, e);
    } else if (is_dialogue(doc, state)) {
        bool some = false;
        for (jref x = json_first(doc, state); !s && x != JREF_NONE; x = json_next(doc, state, x)) {
            if (some) buf_byte(out, '\n');
            some = true;
            s = put_string(doc, json_get(doc, x, "role"), &scratch, out, e);
            buf_text(out, ": ");
            if (!s) s = put_string(doc, json_get(doc, x, "content"), &scratch, out, e);
        }
    } else if (k != JSON_NULL && k != JSON_NONE) {
        s = json_render(out, doc, state, &style, e);
    }
    buf_free(&scratch);
    return s ? s : buf_ok(out, e);
}

status state_sha256(const json *doc, jref state, char hex[SHA256_HEX_SIZE], err *e) {
    static const json_style style = {.sort = true, .item = ",", .key = ":"};
    buf b = {0};
    status s = ST_OK;
    if (json_kind_of(doc, state) == JSON_NONE) buf_text(&b, "null");
    else s = json_render(&b, doc, state, &style, e);
    if (!s) s = buf_ok(&b, e);
    if (!s) s = sha256_hex(b.p, b.len, hex, e);
    buf_free(&b);
    return s;
}
