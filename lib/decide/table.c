/* The table to read. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "decide/decision.h"

enum { WIDEST = 60 };

static size_t display_width(const char *s) {
    size_t width = 0;
    while (*s) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c);
        if (k <= 0) break;
        int w = utf8proc_charwidth(c);
        width += w > 0 ? (size_t)w : 0;
        s += k;
    }
    return width;
}

/* A cell's text: control bytes (which would move the cursor) as dots, cut to WIDEST columns of the terminal. */
static char *cell(const char *s) {
    buf b = {0};
    size_t width = 0;
    while (*s) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c);
        if (k <= 0) break;
        int w = utf8proc_charwidth(c);
        bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
        if (width + (size_t)(w > 0 ? w : 0) > WIDEST - 1) {
            buf_text(&b, "\xE2\x80\xA6");
            break;
        }
        if (control) buf_byte(&b, '.');
        else buf_put(&b, s, (size_t)k);
        width += control ? 1 : (size_t)(w > 0 ? w : 0);
        s += k;
    }
    return buf_take(&b);
}

static char *probability(double p) {
    buf b = {0};
    buf_printf(&b, "%.3f", p);
    return buf_take(&b);
}

static char *note(const item *x, const verdict *v) {
    buf b = {0};
    if (x->kind == QUESTION_SCORE) {
        double value = 0;
        for (size_t i = 0; i < x->k; i++) value += x->centers[i] * v->result.probs[i];
        buf_printf(&b, "value %.3f", value);
    }
    if (x->missing) buf_printf(&b, "%smissing labels", b.len ? ", " : "");
    if (v->permuted && v->result.flips > 0) buf_printf(&b, "%sthe order matters", b.len ? ", " : "");
    if (v->certified >= 0) buf_printf(&b, "%s%s", b.len ? ", " : "", v->certified && !x->missing ? "certified" : "not certified");
    return b.len ? buf_take(&b) : mem_text("", 0);
}

static const char *const heads[TABLE_COLUMNS] = {"ITEM", "QUESTION", "ANSWER", "P", "LEVEL", "NOTE"};

status decision_table_add(decision_table *t, const item *x, const verdict *v, err *e) {
    if (!mem_grow((void **)&t->rows, &t->cap, t->n + 1, sizeof *t->rows)) return err_memory(e, (t->n + 1) * sizeof *t->rows);
    char **r = t->rows[t->n++];
    r[0] = cell(x->name);
    r[1] = cell(x->question);
    r[2] = cell(x->options[v->result.answer]);
    r[3] = probability(v->result.confidence);
    r[4] = cell(v->level);
    r[5] = note(x, v);
    for (int c = 0; c < TABLE_COLUMNS; c++) {
        if (!r[c]) return err_memory(e, WIDEST);
        size_t w = display_width(r[c]), least = strlen(heads[c]);
        if (t->width[c] < least) t->width[c] = least;
        if (t->width[c] < w) t->width[c] = w;
    }
    return ST_OK;
}

void decision_table_line(const decision_table *t, size_t i, buf *line) {
    buf_clear(line);
    for (int c = 0; c < TABLE_COLUMNS; c++) {
        const char *text = i ? t->rows[i - 1][c] : heads[c];
        size_t wide = t->n ? t->width[c] : strlen(heads[c]), pad = wide - display_width(text);
        if (c) buf_text(line, "  ");
        if (c == 3) /* numbers to the right */
            while (pad) buf_byte(line, ' '), pad--;
        buf_text(line, text);
        while (pad) buf_byte(line, ' '), pad--;
    }
    while (line->len && line->p[line->len - 1] == ' ') line->p[--line->len] = '\0';
}

void decision_table_free(decision_table *t) {
    for (size_t i = 0; i < t->n; i++)
        for (int c = 0; c < TABLE_COLUMNS; c++) free(t->rows[i][c]);
    free(t->rows);
    *t = (decision_table){0};
}
