#include "card/card.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/mem.h"
#include "json/json.h"

typedef struct site {
    strv code, name, state, domain, domain_name, habitat;
} site;

typedef struct column {
    strv name, description, dtype, unit, profile;
} column;

typedef struct card {
    strv product, table, code, title, description, source, from, to;
    bool has_heading, has_product, has_rows;
    size_t rows;
    site *sites;
    column *columns;
    size_t n_sites, cap_sites, n_columns, cap_columns;
    const char *file;
    size_t line;
    err *e;
} card;

static status bad(const card *c, const char *what) {
    return err_set(c->e, ST_INPUT, "%s:%zu: %s", c->file, c->line, what);
}

static strv part(strv s, size_t from, size_t to) {
    return strv_trim((strv){s.p + from, to - from});
}

/* Offset of the first (or last) place of what in s, or s.n. */
static size_t first_of(strv s, const char *what) {
    const char *p = s.n ? memmem(s.p, s.n, what, strlen(what)) : NULL;
    return p ? (size_t)(p - s.p) : s.n;
}

static size_t last_of(strv s, const char *what) {
    size_t at = s.n, n = strlen(what);
    for (size_t i = 0; i + n <= s.n; i++)
        if (memcmp(s.p + i, what, n) == 0) at = i;
    return at;
}

static status parse_heading(card *c, strv v) {
    size_t slash = first_of(v, " / ");
    if (slash == v.n) return bad(c, "a dataset without a table; expected '# Dataset: <product> / <table>'");
    c->product = part(v, 0, slash);
    c->table = part(v, slash + 3, v.n);
    if (!c->product.n || !c->table.n) return bad(c, "an empty product or table; expected '# Dataset: <product> / <table>'");
    c->has_heading = true;
    return ST_OK;
}

static status parse_product(card *c, strv v) {
    static const char *const dashes[] = {" \xE2\x80\x94 ", " \xE2\x80\x93 ", " - "};
    size_t at = v.n, n = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t k = first_of(v, dashes[i]);
        if (k < at) at = k, n = strlen(dashes[i]);
    }
    if (at == v.n) return bad(c, "a product without a title; expected 'Product: <code> - <title>. <description>'");
    c->code = part(v, 0, at);
    strv rest = part(v, at + n, v.n);
    size_t stop = first_of(rest, ". ");
    c->title = part(rest, 0, stop);
    if (stop < rest.n) c->description = part(rest, stop + 2, rest.n);
    else if (c->title.n && c->title.p[c->title.n - 1] == '.') c->title.n--;
    c->has_product = true;
    return ST_OK;
}

/* "name, state, domain Dnn domain name; habitat" */
static void parse_site(strv v, site *s) {
    size_t semi = first_of(v, ";"), domain;
    if (semi < v.n) s->habitat = part(v, semi + 1, v.n);
    strv head = part(v, 0, semi);
    domain = last_of(head, ", domain ");
    if (domain < head.n) {
        strv d = part(head, domain + 9, head.n);
        size_t space = first_of(d, " ");
        s->domain = part(d, 0, space);
        if (space < d.n) s->domain_name = part(d, space + 1, d.n);
        head = part(head, 0, domain);
    }
    size_t comma = last_of(head, ", ");
    s->name = part(head, 0, comma);
    if (comma < head.n) s->state = part(head, comma + 2, head.n);
}

static status parse_sites(card *c, strv v) {
    size_t i = 0;
    while (i < v.n) {
        size_t open = i;
        while (open < v.n && v.p[open] != '(') open++;
        strv code = part(v, i, open);
        if (code.n && (code.p[0] == ',' || code.p[0] == '.')) code = part(code, 1, code.n);
        if (strv_starts(code, "and ")) code = part(code, 4, code.n);
        if (open == v.n) {
            if (code.n) return bad(c, "a site without its description; expected 'CODE (name, state, domain Dnn name; habitat)'");
            return ST_OK;
        }
        size_t depth = 1, end = open + 1;
        for (; end < v.n; end++) {
            if (v.p[end] == '(') depth++;
            if (v.p[end] == ')' && --depth == 0) break;
        }
        if (depth) return bad(c, "a site's parenthesis is not closed");
        if (!code.n) return bad(c, "a site without a code");
        if (!mem_grow((void **)&c->sites, &c->cap_sites, c->n_sites + 1, sizeof *c->sites)) return err_memory(c->e, sizeof *c->sites);
        site s = {.code = code};
        parse_site(part(v, open + 1, end), &s);
        c->sites[c->n_sites++] = s;
        i = end + 1;
    }
    return ST_OK;
}

static status parse_rows(card *c, strv v) {
    size_t i = 0;
    if (c->has_rows) return bad(c, "a second 'Rows:' line");
    for (; i < v.n && v.p[i] >= '0' && v.p[i] <= '9'; i++)
        if (!size_mul(c->rows, 10, &c->rows) || !size_add(c->rows, (size_t)(v.p[i] - '0'), &c->rows)) return bad(c, "the number of rows is too large");
    if (i == 0) return bad(c, "no number of rows; expected 'Rows: N; months covered: A to B'");
    if (i < v.n && v.p[i] != ';' && v.p[i] != ' ') return bad(c, "a number of rows that is no whole number in plain digits");
    c->has_rows = true;
    size_t at = first_of(v, "months covered:");
    if (at == v.n) return ST_OK;
    strv m = part(v, at + 15, v.n);
    size_t to = first_of(m, " to ");
    if (to == m.n) return bad(c, "no range of months; expected 'months covered: A to B'");
    c->from = part(m, 0, to);
    m = part(m, to + 4, m.n);
    size_t end = 0;
    while (end < m.n && !strchr(" (.;", m.p[end])) end++;
    c->to = part(m, 0, end);
    return ST_OK;
}

static status parse_column(card *c, strv v) {
    strv f[5] = {{0}};
    size_t n = 0, from = 0;
    for (size_t i = 0; i <= v.n && n < 5; i++) {
        bool end = i == v.n;
        if (!end && (v.p[i] != '|' || n == 4)) continue;
        f[n++] = part(v, from, i);
        from = i + 1;
    }
    if (n < 5) return bad(c, "a column of fewer than five parts; expected '- name | description | dtype | unit or - | profile'");
    if (!f[0].n) return bad(c, "a column without a name");
    if (strv_is(f[3], "-")) f[3] = (strv){"", 0};
    for (size_t i = 0; i < c->n_columns; i++)
        if (strv_eq(c->columns[i].name, f[0])) return bad(c, "a column that comes twice");
    if (!mem_grow((void **)&c->columns, &c->cap_columns, c->n_columns + 1, sizeof *c->columns)) return err_memory(c->e, sizeof *c->columns);
    c->columns[c->n_columns++] = (column){f[0], f[1], f[2], f[3], f[4]};
    return ST_OK;
}

static bool takes(strv line, const char *mark, strv *rest) {
    if (!strv_starts(line, mark)) return false;
    *rest = part(line, strlen(mark), line.n);
    return true;
}

static status parse_line(card *c, strv line, bool strict) {
    strv v;
    if (!line.n) return ST_OK;
    if (takes(line, "# Dataset:", &v)) return c->has_heading ? bad(c, "a second '# Dataset:' heading; expected one card per file") : parse_heading(c, v);
    if (!c->has_heading) return bad(c, "not a dataset card; expected the heading '# Dataset: <product> / <table>' first");
    if (takes(line, "Product:", &v)) return parse_product(c, v);
    if (takes(line, "Source:", &v)) return c->source = v, ST_OK;
    if (takes(line, "Sites:", &v)) return parse_sites(c, v);
    if (takes(line, "Rows:", &v)) return parse_rows(c, v);
    if (takes(line, "- ", &v)) return parse_column(c, v);
    if (strv_starts(line, "##")) return ST_OK;
    return strict ? bad(c, "a line that is no part of a card (--strict)") : ST_OK;
}

static bool ends_in(strv s, const char *tail) {
    size_t n = strlen(tail);
    return s.n >= n && strncasecmp(s.p + s.n - n, tail, n) == 0;
}

bool card_identifier(strv name, strv dtype, strv profile) {
    static const char *const names[] = {"uid", "remarks", "publicationDate", "release"};
    static const char *const tails[] = {"id", "uid", "code", "identifiedBy", "recordedBy", "measuredBy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strv_is(name, names[i])) return true;
    if (!strv_is(name, "taxonID"))
        for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
            if (ends_in(name, tails[i])) return true;
    if (strv_is(dtype, "date") || strv_is(dtype, "dateTime")) return true;
    return strv_starts(profile, "all blank") || first_of(profile, "not profiled") < profile.n;
}

static void put(jw *w, const char *key, strv v) {
    jw_key(w, key);
    jw_view(w, v);
}

static status write_record(const card *c, strv text, buf *out) {
    char hex[SHA256_HEX_SIZE];
    status s = sha256_hex(text.p, text.n, hex, c->e);
    if (s) return s;
    jw w = jw_of(out);
    jw_open(&w, '{');
    put(&w, "type", strv_of("card"));
    put(&w, "product_code", c->product);
    put(&w, "table", c->table);
    put(&w, "product_title", c->title);
    put(&w, "product_description", c->description);
    put(&w, "source", c->source);
    jw_key(&w, "sites");
    jw_open(&w, '[');
    for (size_t i = 0; i < c->n_sites; i++) {
        jw_open(&w, '{');
        put(&w, "code", c->sites[i].code);
        put(&w, "name", c->sites[i].name);
        put(&w, "state", c->sites[i].state);
        put(&w, "domain", c->sites[i].domain);
        put(&w, "domain_name", c->sites[i].domain_name);
        put(&w, "habitat", c->sites[i].habitat);
        jw_close(&w, '}');
    }
    jw_close(&w, ']');
    jw_key(&w, "rows");
    if (c->has_rows) jw_size(&w, c->rows);
    else jw_null(&w);
    put(&w, "months_from", c->from);
    put(&w, "months_to", c->to);
    jw_key(&w, "columns");
    jw_open(&w, '[');
    for (size_t i = 0; i < c->n_columns; i++) {
        const column *k = &c->columns[i];
        jw_open(&w, '{');
        put(&w, "name", k->name);
        put(&w, "description", k->description);
        put(&w, "dtype", k->dtype);
        put(&w, "unit", k->unit);
        put(&w, "profile", k->profile);
        jw_key(&w, "identifier");
        jw_bool(&w, card_identifier(k->name, k->dtype, k->profile));
        jw_close(&w, '}');
    }
    jw_close(&w, ']');
    put(&w, "sha256", strv_of(hex));
    jw_key(&w, "file");
    /* A file name need not be UTF-8; the record must be. */
    jw_text(&w, utf8_valid(c->file, strlen(c->file), NULL) ? c->file : "(a name that is not UTF-8)");
    jw_close(&w, '}');
    return buf_ok(out, c->e);
}

status card_parse(strv text, const char *file, bool strict, buf *out, err *e) {
    card c = {.file = file, .line = 1, .e = e};
    status s = ST_OK;
    size_t bad_at = text.n;
    utf8_valid(text.p, text.n, &bad_at);
    size_t at = strv_starts(text, "\xEF\xBB\xBF") ? 3 : 0;
    for (; !s && at < text.n; c.line++) {
        const char *nl = memchr(text.p + at, '\n', text.n - at);
        size_t end = nl ? (size_t)(nl - text.p) : text.n;
        if (bad_at < end + (nl != NULL)) s = bad(&c, "invalid UTF-8; expected a card in UTF-8, not cut inside a character");
        else s = parse_line(&c, part(text, at, end), strict);
        at = end + (nl != NULL);
        if (nl == NULL) break;
    }
    if (!s && !c.has_heading) s = err_set(e, ST_INPUT, "%s: not a dataset card: the file is empty; expected the heading '# Dataset: <product> / <table>'", file);
    if (!s && !c.n_columns) s = err_set(e, ST_INPUT, "%s: the card has no columns; expected lines '- name | description | dtype | unit or - | profile'", file);
    if (!s && strict && (!c.has_product || !c.has_rows)) s = err_set(e, ST_INPUT, "%s: the card has no %s line (--strict)", file, c.has_product ? "Rows:" : "Product:");
    if (!s) s = write_record(&c, text, out);
    free(c.sites);
    free(c.columns);
    return s;
}
