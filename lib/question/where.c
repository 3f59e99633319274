#include "question/where.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "json/json.h"

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static status add(where *w, const json *doc, err *e) {
    jref meta = json_get(doc, JREF_ROOT, "meta");
    if (!json_is(doc, json_get(doc, JREF_ROOT, "type"), "decision")) return err_set(e, ST_INPUT, "expected a record of type 'decision'");
    if (!json_is(doc, json_get(doc, JREF_ROOT, "answer"), "Yes")) return ST_OK;
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
    input *in;
    char name[4096];
    if (strlen(path) >= sizeof name) return err_set(e, ST_INPUT, "%s: the name is too long", path);
    strcpy(name, path);
    char *files[] = {name};
    status s = input_open(&in, files, 1, e);
    json doc = {0};
    bool more = true;
    while (!s && more) {
        strv line;
        if ((s = input_next(in, &more, &line, e)) || !more || !strv_trim(line).n) continue;
        s = json_parse(&doc, line.p, line.n, e);
        if (!s) s = add(w, &doc, e);
        if (s) err_prefix(e, "%s:%zu", path, input_line(in));
    }
    json_free(&doc);
    input_close(in);
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
