/* OBO 1.4: stanzas of tag: value lines. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "term/term.h"

/* The value of a line that starts with tag ": ". */
static bool value_of(strv line, const char *tag, strv *value) {
    size_t n = strlen(tag);
    if (line.n <= n || memcmp(line.p, tag, n) != 0 || line.p[n] != ':') return false;
    *value = strv_trim((strv){line.p + n + 1, line.n - n - 1});
    return true;
}

static void put_escaped(char c, buf *out) {
    buf_byte(out, c == 'n' ? ' ' : c == 't' ? ' ' : c == 'W' ? ' ' : c);
}

/* The first quoted text of a value, or the value up to " !", a comment or trailing modifiers; escapes undone. */
static void text_of(strv v, bool quoted, buf *out) {
    size_t i = 0;
    buf_clear(out);
    if (quoted) {
        while (i < v.n && v.p[i] != '"') i++;
        i++;
    }
    for (; i < v.n; i++) {
        if (v.p[i] == '\\' && i + 1 < v.n) put_escaped(v.p[++i], out);
        else if (quoted && v.p[i] == '"') break;
        else if (!quoted && v.p[i] == '!' && i && v.p[i - 1] == ' ') break;
        else if (!quoted && v.p[i] == '{' && i && v.p[i - 1] == ' ') break;
        else buf_byte(out, v.p[i]);
    }
    while (out->len && out->p[out->len - 1] == ' ') out->p[--out->len] = '\0';
}

static status set(char **to, const buf *b, err *e) {
    free(*to);
    *to = mem_text(b->p, b->len);
    return *to ? ST_OK : err_memory(e, b->len);
}

/* A CURIE into a list; what is none is left out. */
static status add_curie(term_list *l, const buf *b, err *e) {
    char *curie = curie_of(buf_strv(b));
    status s = curie ? term_list_add(l, strv_of(curie), e) : ST_OK;
    free(curie);
    return s;
}

static status take(term *t, strv line, buf *scratch, err *e) {
    strv v;
    if (value_of(line, "id", &v)) {
        text_of(v, false, scratch);
        free(t->curie);
        t->curie = curie_of(buf_strv(scratch));
        return ST_OK;
    }
    if (value_of(line, "name", &v)) return text_of(v, false, scratch), set(&t->label, scratch, e);
    if (value_of(line, "def", &v)) return text_of(v, true, scratch), set(&t->description, scratch, e);
    if (value_of(line, "synonym", &v)) return text_of(v, true, scratch), term_list_add(&t->synonyms, buf_strv(scratch), e);
    if (value_of(line, "is_a", &v)) return text_of(v, false, scratch), add_curie(&t->parents, scratch, e);
    if (value_of(line, "alt_id", &v)) return text_of(v, false, scratch), add_curie(&t->alternates, scratch, e);
    if (value_of(line, "is_obsolete", &v)) t->obsolete = strv_starts(v, "true");
    return ST_OK;
}

static status finish(term_file *f, term *t, err *e) {
    if (!t->curie) {
        term_free(t);
        return ST_OK;
    }
    t->root = t->parents.n == 0;
    return term_file_add(f, t, e);
}

status term_read_obo(term_file *f, strv text, err *e) {
    term t = {0};
    buf scratch = {0};
    bool in_term = false, in_header = true;
    status s = ST_OK;
    while (!s && text.n) {
        strv line = strv_trim(strv_line(&text)), v;
        if (line.n && *line.p == '[') {
            if (in_term) s = finish(f, &t, e);
            in_header = false;
            in_term = strv_is(line, "[Term]");
        } else if (in_term && line.n) {
            s = take(&t, line, &scratch, e);
        } else if (in_header && value_of(line, "ontology", &v)) {
            text_of(v, false, &scratch);
            s = set(&f->ontology, &scratch, e);
        }
    }
    if (!s && in_term) s = finish(f, &t, e);
    term_free(&t);
    buf_free(&scratch);
    return s;
}
