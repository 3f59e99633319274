#include "question/where.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/lines.h"

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static status add(void *ctx, const json *doc, err *e) {
    where *w = ctx;
    jref meta = json_get(doc, JREF_ROOT, "meta");
    if (!json_is(doc, json_get(doc, JREF_ROOT, "type"), "decision")) return err_set(e, ST_INPUT, "expected a record of type 'decision'");
    /* A Yes to anything else (does this ontology fit?) says nothing about whether the column is to be annotated. */
    if (!json_is(doc, json_get(doc, JREF_ROOT, "question"), "column.annotate") || !json_is(doc, json_get(doc, JREF_ROOT, "answer"), "Yes")) return ST_OK;
    char *card = NULL, *column = NULL;
    buf b = {0};
    status s = json_text_copy(doc, json_get(doc, meta, "card"), "meta.card", &card, e);
    if (!s) s = json_text_copy(doc, json_get(doc, meta, "column"), "meta.column", &column, e);
    if (!s) {
        buf_printf(&b, "%s\n%s", card, column);
        char *pair = buf_take(&b);
        if (!pair || !mem_grow((void **)&w->pairs, &w->cap, w->n + 1, sizeof *w->pairs)) {
            free(pair);
            s = err_memory(e, (w->n + 1) * sizeof *w->pairs);
        } else {
            w->pairs[w->n++] = pair;
        }
    }
    free(card);
    free(column);
    return s;
}

status where_load(where *w, const char *path, err *e) {
    status s = json_lines(path, add, w, e);
    if (!s && w->n) qsort(w->pairs, w->n, sizeof *w->pairs, by_text);
    return s;
}

bool where_has(const where *w, strv card, strv column) {
    buf b = {0};
    buf_view(&b, card);
    buf_byte(&b, '\n');
    buf_view(&b, column);
    char *key = buf_take(&b);
    bool found = key && w->n && bsearch(&key, w->pairs, w->n, sizeof *w->pairs, by_text);
    free(key);
    return found;
}

void where_free(where *w) {
    for (size_t i = 0; i < w->n; i++) free(w->pairs[i]);
    free(w->pairs);
    *w = (where){0};
}
