#include "term/index.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "term/index_internal.h"

status index_fold(strv text, buf *out, err *e) {
    utf8proc_uint8_t *folded = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)(text.n ? text.p : ""), (utf8proc_ssize_t)text.n, &folded, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
    if (n < 0) return n == UTF8PROC_ERROR_NOMEM ? err_memory(e, text.n) : err_set(e, ST_INPUT, "a name that is no UTF-8");
    bool space = false;
    buf_clear(out);
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        char c = (char)folded[i];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            space = out->len > 0;
            continue;
        }
        if (space) buf_byte(out, ' ');
        space = false;
        buf_byte(out, c);
    }
    free(folded);
    buf_put(out, "", 0);
    return buf_ok(out, e);
}

struct term_index {
    sqlite3 *db;
    sqlite3_stmt *by_name, *by_words, *of_ontology;
    char **known; /* ontologies found in the index */
    size_t n_known, cap_known;
};

static status fail(term_index *ix, err *e) {
    return err_set(e, sqlite3_errcode(ix->db) == SQLITE_NOMEM ? ST_INCOMPLETE : ST_INPUT, "sqlite: %s", sqlite3_errmsg(ix->db));
}

#define COLUMNS "t.id, t.curie, t.iri, t.label, t.ontology, t.description, t.synonyms, t.has_children"

static status prepare(term_index *ix, err *e) {
    struct {
        sqlite3_stmt **to;
        const char *sql;
    } all[] = {
        {&ix->by_name, "SELECT " COLUMNS ", min(n.kind) AS k FROM name n JOIN term t ON t.id = n.term WHERE n.text = ?1 GROUP BY t.id ORDER BY k, t.curie"},
        {&ix->by_words, "SELECT " COLUMNS " FROM words w JOIN term t ON t.id = w.rowid WHERE words MATCH ?1 ORDER BY bm25(words, 10.0, 4.0), length(t.label), t.curie"},
        {&ix->of_ontology, "SELECT 1 FROM term WHERE ontology = ?1 COLLATE NOCASE LIMIT 1"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (sqlite3_prepare_v2(ix->db, all[i].sql, -1, all[i].to, NULL) != SQLITE_OK) return fail(ix, e);
    return ST_OK;
}

static status check_version(term_index *ix, err *e) {
    sqlite3_stmt *s = NULL;
    int version = -1;
    if (sqlite3_prepare_v2(ix->db, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    if (version == INDEX_VERSION) return ST_OK;
    return version < 0 ? err_set(e, ST_INPUT, "no index (term-search --build makes one): %s", sqlite3_errmsg(ix->db))
                       : err_set(e, ST_INPUT, "an index of version %d, expected %d: build it again", version, INDEX_VERSION);
}

status term_index_open(term_index **out, const char *path, err *e) {
    struct stat st;
    *out = NULL;
    if (stat(path, &st)) return err_set(e, ST_INPUT, "%s: no such index", path);
    term_index *ix = mem_zero(1, sizeof *ix);
    if (!ix) return err_memory(e, sizeof *ix);
    status s = sqlite3_open_v2(path, &ix->db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK ? ST_OK : fail(ix, e);
    if (!s) s = check_version(ix, e);
    if (!s) s = prepare(ix, e);
    if (s) {
        err_prefix(e, "%s", path);
        term_index_close(ix);
    } else {
        *out = ix;
    }
    return s;
}

void term_index_close(term_index *ix) {
    if (!ix) return;
    sqlite3_finalize(ix->by_name);
    sqlite3_finalize(ix->by_words);
    sqlite3_finalize(ix->of_ontology);
    sqlite3_close(ix->db);
    for (size_t i = 0; i < ix->n_known; i++) free(ix->known[i]);
    free(ix->known);
    free(ix);
}

/* An ontology that the index lacks is a mistake, not an empty answer. */
static status check_ontology(term_index *ix, const char *ontology, err *e) {
    for (size_t i = 0; i < ix->n_known; i++)
        if (strcmp(ix->known[i], ontology) == 0) return ST_OK;
    sqlite3_bind_text(ix->of_ontology, 1, ontology, -1, SQLITE_STATIC);
    int rc = sqlite3_step(ix->of_ontology);
    sqlite3_reset(ix->of_ontology);
    if (rc == SQLITE_DONE) return err_set(e, ST_INPUT, "the index has no ontology '%s'", ontology);
    if (rc != SQLITE_ROW) return fail(ix, e);
    if (!mem_grow((void **)&ix->known, &ix->cap_known, ix->n_known + 1, sizeof *ix->known)) return err_memory(e, 16);
    if (!(ix->known[ix->n_known] = mem_text(ontology, strlen(ontology)))) return err_memory(e, 16);
    ix->n_known++;
    return ST_OK;
}

typedef struct searching {
    term_index *ix;
    char *const *ontologies;
    size_t n, limit, found;
    sqlite3_int64 *seen; /* [limit] */
    term_take *take;
    void *ctx;
    err *e;
} searching;

static bool wanted(const searching *x, const char *ontology) {
    for (size_t i = 0; i < x->n; i++)
        if (strcasecmp(x->ontologies[i], ontology) == 0) return true;
    return x->n == 0;
}

static const char *text(sqlite3_stmt *s, int i) {
    return (const char *)sqlite3_column_text(s, i);
}

static status rows(searching *x, sqlite3_stmt *s, const char *query) {
    status st = ST_OK;
    int rc = SQLITE_ROW;
    sqlite3_bind_text(s, 1, query, -1, SQLITE_STATIC);
    while (!st && x->found < x->limit && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        sqlite3_int64 id = sqlite3_column_int64(s, 0);
        size_t i = 0;
        while (i < x->found && x->seen[i] != id) i++;
        if (i < x->found || !wanted(x, text(s, 4))) continue;
        x->seen[x->found++] = id;
        term_found t = {text(s, 1), text(s, 2), text(s, 3), text(s, 4), text(s, 5), text(s, 6), sqlite3_column_int(s, 7) != 0, x->found};
        st = x->take(x->ctx, &t, x->e);
    }
    if (!st && rc != SQLITE_ROW && rc != SQLITE_DONE) st = fail(x->ix, x->e);
    sqlite3_reset(s);
    return st;
}

/* The query's words, quoted for FTS5, with `between` between them. Only letters and digits make words, as the tokenizer has it. */
static size_t match_of(strv folded, const char *between, buf *out) {
    size_t words = 0;
    buf_clear(out);
    for (size_t i = 0; i < folded.n;) {
        unsigned char c = (unsigned char)folded.p[i];
        bool letter = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
        if (!letter) {
            i++;
            continue;
        }
        if (words++) buf_text(out, between);
        buf_byte(out, '"');
        for (; i < folded.n; i++) {
            c = (unsigned char)folded.p[i];
            if (!(c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'))) break;
            buf_byte(out, (char)c);
        }
        buf_byte(out, '"');
    }
    return words;
}

status term_index_search(term_index *ix, strv query, char *const *ontologies, size_t n, size_t limit, term_take *take, void *ctx, err *e) {
    searching x = {.ix = ix, .ontologies = ontologies, .n = n, .limit = limit, .take = take, .ctx = ctx, .e = e};
    buf folded = {0}, match = {0};
    status s = index_fold(query, &folded, e);
    for (size_t i = 0; !s && i < n; i++) s = check_ontology(ix, ontologies[i], e);
    if (!s && !folded.len) s = err_set(e, ST_INPUT, "an empty query");
    if (!s && !(x.seen = mem_alloc(limit, sizeof *x.seen))) s = err_memory(e, limit * sizeof *x.seen);
    if (!s) s = rows(&x, ix->by_name, folded.p);
    size_t words = s ? 0 : match_of(buf_strv(&folded), " AND ", &match);
    if (!s && words && x.found < limit && !(s = buf_ok(&match, e))) s = rows(&x, ix->by_words, match.p);
    if (!s && words > 1 && x.found < limit) {
        match_of(buf_strv(&folded), " OR ", &match);
        if (!(s = buf_ok(&match, e))) s = rows(&x, ix->by_words, match.p);
    }
    free(x.seen);
    buf_free(&folded);
    buf_free(&match);
    return s;
}
