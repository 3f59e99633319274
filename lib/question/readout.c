#include "question/readout.h"

#include <stdlib.h>
#include <string.h>

static status load(readout *r, const json *doc, err *e) {
    struct {
        const char *key;
        char **to;
    } texts[] = {{"system", &r->system}, {"state", &r->state}, {"question", &r->question}, {"options", &r->options}};
    status s = ST_OK;
    for (size_t i = 0; !s && i < sizeof texts / sizeof *texts; i++) s = json_text_copy(doc, json_get(doc, JREF_ROOT, texts[i].key), texts[i].key, texts[i].to, e);
    for (int k = 0; !s && k < 3; k++) {
        const char *kind = question_kind_name((question_kind)k);
        s = json_text_copy(doc, json_get(doc, json_get(doc, JREF_ROOT, "line"), kind), "line", &r->line[k], e);
        if (!s) s = json_text_copy(doc, json_get(doc, json_get(doc, JREF_ROOT, "closing"), kind), "closing", &r->closing[k], e);
        if (!s && (!strstr(r->line[k], "{label}") || !strstr(r->line[k], "{option}")))
            s = err_set(e, ST_INPUT, "field 'line': '%s' must hold {label} and {option}", r->line[k]);
    }
    return s;
}

status readout_load(readout *r, const char *path, err *e) {
    buf text = {0};
    json doc = {0};
    status s = json_read_file(&doc, &text, path, e);
    if (!s && (s = load(r, &doc, e))) err_prefix(e, "%s", path);
    json_free(&doc);
    buf_free(&text);
    return s;
}

void readout_free(readout *r) {
    free(r->system);
    free(r->state);
    free(r->question);
    free(r->options);
    for (int k = 0; k < 3; k++) {
        free(r->line[k]);
        free(r->closing[k]);
    }
    *r = (readout){0};
}

/* An option that is its own label (Yes, No) stands alone on its line. */
static void put_line(const char *form, const char *label, const char *option, buf *out) {
    if (strcmp(label, option) == 0) {
        buf_text(out, label);
    } else {
        for (const char *p = form; *p;) {
            bool is_label = strncmp(p, "{label}", 7) == 0, is_option = strncmp(p, "{option}", 8) == 0;
            if (is_label) buf_text(out, label);
            else if (is_option) buf_text(out, option);
            else buf_byte(out, *p);
            p += is_label ? 7 : is_option ? 8 : 1;
        }
    }
    buf_byte(out, '\n');
}

status readout_user(const readout *r, const question *q, const size_t *perm, strv state, buf *out, size_t *split, err *e) {
    if (state.n) {
        buf_printf(out, "%s\n", r->state);
        buf_view(out, state);
        buf_text(out, "\n\n");
    }
    buf_printf(out, "%s %s\n\n%s\n", r->question, q->text, r->options);
    *split = out->len;
    for (size_t j = 0; j < q->n_options; j++) {
        size_t o = perm[j];
        put_line(r->line[q->kind], question_label(q, q->kind == QUESTION_NOUL ? o : j), q->options[o], out);
    }
    buf_printf(out, "\n%s", r->closing[q->kind]);
    return buf_ok(out, e);
}
