#include "metrics/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "metrics/measure.h"

static status check_lock(merge *m, const json *r, err *e) {
    jref at = json_get(r, json_get(r, JREF_ROOT, "environment"), "lock_sha");
    char *lock = NULL;
    status s = json_text_copy(r, at, "environment.lock_sha", &lock, e);
    if (s) return s;
    if (!m->lock) {
        m->lock = lock;
        return ST_OK;
    }
    if (strcmp(m->lock, lock) != 0) s = err_set(e, ST_REFUSED, "made under lock %.12s, the results before under %.12s: their questions differ", lock, m->lock);
    free(lock);
    return s;
}

/* name, compute mode and the start of the fingerprint: a name alone is no identity. */
static status put_model(const json *r, jref model, buf *out, err *e) {
    static const char *const keys[] = {"name", "compute", "fingerprint"};
    buf scratch = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < 3; i++) {
        jref v = json_get(r, model, keys[i]);
        strv text;
        if (json_kind_of(r, v) != JSON_STRING || (s = json_text(r, v, &scratch, &text, e))) continue;
        if (i) buf_byte(out, ' ');
        if (i == 2 && text.n > 8) text.n = 8;
        buf_view(out, text);
    }
    buf_free(&scratch);
    return s;
}

static status put_text(const json *r, jref at, buf *out, err *e) {
    buf scratch = {0};
    strv v;
    status s = json_text(r, at, &scratch, &v, e);
    if (!s) buf_view(out, v);
    buf_free(&scratch);
    return s;
}

/* A row: question, level, model, n, then every metric as "value low high" (an empty field: not defined). */
static status add_cell(merge *m, const json *r, jref cell, err *e) {
    jref metrics = json_get(r, cell, "metrics");
    status s = put_text(r, json_get(r, cell, "question"), &m->rows, e);
    buf_byte(&m->rows, '\t');
    if (!s) s = put_text(r, json_get(r, cell, "level"), &m->rows, e);
    buf_byte(&m->rows, '\t');
    if (!s) s = put_model(r, json_get(r, cell, "model"), &m->rows, e);
    buf_byte(&m->rows, '\t');
    buf_view(&m->rows, json_raw(r, json_get(r, cell, "n")));
    for (int i = 0; !s && i < METRIC_COUNT; i++) {
        static const char *const ends[] = {"value", "low", "high"};
        jref v = json_get(r, metrics, metric_name((metric)i));
        buf_byte(&m->rows, '\t');
        for (size_t k = 0; k < 3; k++) {
            jref x = json_get(r, v, ends[k]);
            if (json_kind_of(r, x) != JSON_NUMBER) break;
            if (k) buf_byte(&m->rows, ' ');
            buf_view(&m->rows, json_raw(r, x));
        }
    }
    buf_byte(&m->rows, '\n');
    if (m->cells.len) buf_byte(&m->cells, ',');
    buf_view(&m->cells, json_raw(r, cell));
    return s;
}

status merge_add(merge *m, const json *r, err *e) {
    jref cells = json_get(r, JREF_ROOT, "cells");
    if (!json_is(r, json_get(r, JREF_ROOT, "type"), "results") || json_kind_of(r, cells) != JSON_ARRAY) return err_set(e, ST_INPUT, "expected a record of type 'results'");
    status s = check_lock(m, r, e);
    for (jref c = json_first(r, cells); !s && c != JREF_NONE; c = json_next(r, cells, c)) s = add_cell(m, r, c, e);
    m->n++;
    return s ? s : buf_ok(&m->rows, e);
}

static strv field(strv *rest, char end) {
    const char *p = memchr(rest->p, end, rest->n);
    strv f = {rest->p, p ? (size_t)(p - rest->p) : rest->n};
    *rest = p ? (strv){p + 1, rest->n - f.n - 1} : (strv){0};
    return f;
}

/* "0.52 [0.41, 0.63]" of "0.5213 0.41 0.63". */
static void put_figure(strv v, buf *out) {
    double x[3];
    size_t n = 0;
    while (v.n && n < 3) {
        buf number = {0};
        buf_view(&number, field(&v, ' '));
        x[n++] = strtod(number.p ? number.p : "", NULL);
        buf_free(&number);
    }
    if (!n) buf_text(out, " \xE2\x80\x93 |");
    else if (n < 3) buf_printf(out, " %.3f |", x[0]);
    else buf_printf(out, " %.3f [%.3f, %.3f] |", x[0], x[1], x[2]);
}

static bool opens(strv rows, strv asked) {
    while (rows.n) {
        strv row = field(&rows, '\n'), name = field(&row, '\t');
        if (strv_eq(name, asked)) return name.p == asked.p;
    }
    return false;
}

static void put_section(strv rows, strv asked, buf *out) {
    buf_text(out, "\n## ");
    buf_view(out, asked);
    buf_text(out, "\n\n| model | level | n |");
    for (int i = 0; i < METRIC_COUNT; i++) buf_printf(out, " %s |", metric_title((metric)i));
    buf_text(out, "\n| --- | --- | ---: |");
    for (int i = 0; i < METRIC_COUNT; i++) buf_text(out, " --- |");
    buf_byte(out, '\n');
    while (rows.n) {
        strv row = field(&rows, '\n');
        if (!strv_eq(field(&row, '\t'), asked)) continue;
        strv level = field(&row, '\t'), model = field(&row, '\t'), n = field(&row, '\t');
        buf_printf(out, "| %.*s | %.*s | %.*s |", (int)model.n, model.p, (int)level.n, level.p, (int)n.n, n.p);
        for (int i = 0; i < METRIC_COUNT; i++) put_figure(field(&row, '\t'), out);
        buf_byte(out, '\n');
    }
}

static void put_markdown(const merge *m, buf *out) {
    strv rows = buf_strv(&m->rows);
    for (strv rest = rows; rest.n;) {
        strv row = field(&rest, '\n'), asked = field(&row, '\t');
        if (opens(rows, asked)) put_section(rows, asked, out);
    }
}

static void put_tsv(const merge *m, buf *out) {
    buf_text(out, "question\tlevel\tmodel\tn\tmetric\tvalue\tlow\thigh\n");
    for (strv t = buf_strv(&m->rows); t.n;) {
        strv row = field(&t, '\n'), head = row;
        for (int i = 0; i < 4; i++) field(&row, '\t');
        head.n = (size_t)(row.p - head.p) - 1;
        for (int i = 0; i < METRIC_COUNT; i++) {
            strv v = field(&row, '\t');
            if (!v.n) continue;
            strv value = field(&v, ' '), low = field(&v, ' ');
            buf_printf(out, "%.*s\t%s\t%.*s\t%.*s\t%.*s\n", (int)head.n, head.p, metric_name((metric)i), (int)value.n, value.p, (int)low.n, low.n ? low.p : "", (int)v.n, v.n ? v.p : "");
        }
    }
}

status merge_put(const merge *m, const char *format, buf *out, err *e) {
    if (strcmp(format, "json") == 0) {
        jw w = jw_of(out);
        jw_open(&w, '{');
        jw_key(&w, "type");
        jw_text(&w, "results");
        jw_key(&w, "environment");
        jw_open(&w, '{');
        jw_key(&w, "lock_sha");
        jw_text(&w, m->lock);
        jw_key(&w, "merged");
        jw_size(&w, m->n);
        jw_close(&w, '}');
        jw_key(&w, "cells");
        buf_byte(out, '[');
        buf_view(out, buf_strv(&m->cells));
        buf_text(out, "]}");
    } else if (strcmp(format, "md") == 0) {
        buf_printf(out, "# Results of %zu runs\n", m->n);
        put_markdown(m, out);
    } else {
        put_tsv(m, out);
    }
    return buf_ok(out, e);
}

void merge_free(merge *m) {
    buf_free(&m->rows);
    buf_free(&m->cells);
    free(m->lock);
}
