#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/json.h"
#include "term/index.h"
#include "term/index_internal.h"

typedef struct builder {
    sqlite3 *db;
    sqlite3_stmt *term, *name, *words;
    sqlite3_int64 id;
} builder;

static status fail(sqlite3 *db, err *e) {
    int code = sqlite3_errcode(db);
    return err_set(e, code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_CANTOPEN ? ST_WRITE : code == SQLITE_NOMEM ? ST_INCOMPLETE : ST_INPUT, "sqlite: %s", sqlite3_errmsg(db));
}

static status run(sqlite3 *db, const char *sql, err *e) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? ST_OK : fail(db, e);
}

static const char schema[] =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA user_version = 1;"
    "CREATE TABLE term(id INTEGER PRIMARY KEY, curie TEXT NOT NULL UNIQUE, iri TEXT NOT NULL, label TEXT NOT NULL, ontology TEXT NOT NULL, description TEXT NOT NULL,"
    " synonyms TEXT NOT NULL, parents TEXT NOT NULL, has_children INTEGER NOT NULL);"
    "CREATE TABLE name(text TEXT NOT NULL, kind INTEGER NOT NULL, term INTEGER NOT NULL, PRIMARY KEY(text, kind, term)) WITHOUT ROWID;"
    "CREATE VIRTUAL TABLE words USING fts5(label, synonyms, content='', detail=column, tokenize='unicode61 remove_diacritics 2');"
    "BEGIN;";

static void list_json(const term_list *l, buf *out) {
    jw w = jw_of(out);
    buf_clear(out);
    jw_open(&w, '[');
    for (size_t i = 0; i < l->n; i++) jw_text(&w, l->items[i]);
    jw_close(&w, ']');
}

static status step(builder *b, sqlite3_stmt *s, err *e) {
    int rc = sqlite3_step(s);
    sqlite3_reset(s);
    return rc == SQLITE_DONE ? ST_OK : fail(b->db, e);
}

static void bind(sqlite3_stmt *s, int i, const char *text) {
    sqlite3_bind_text(s, i, text ? text : "", -1, SQLITE_TRANSIENT);
}

/* kind 0: label, 1: CURIE or alternate, 2: synonym */
static status put_name(builder *b, const char *text, int kind, err *e) {
    buf folded = {0};
    status s = index_fold(strv_of(text), &folded, e);
    if (!s) {
        bind(b->name, 1, folded.p);
        sqlite3_bind_int(b->name, 2, kind);
        sqlite3_bind_int64(b->name, 3, b->id);
        s = step(b, b->name, e);
    }
    buf_free(&folded);
    return s;
}

/* Where no IRI is said, the one under which the OBO Foundry's ontologies publish their terms. */
static void make_iri(const term *t, buf *out) {
    buf_text(out, "http://purl.obolibrary.org/obo/");
    for (const char *c = t->curie; *c; c++) buf_byte(out, *c == ':' ? '_' : *c);
}

static status put_term(void *ctx, const term *t, const char *ontology, err *e) {
    builder *b = ctx;
    buf synonyms = {0}, parents = {0}, iri = {0}, words = {0};
    (void)ontology;
    if (t->iri) buf_text(&iri, t->iri);
    else make_iri(t, &iri);
    list_json(&t->synonyms, &synonyms);
    list_json(&t->parents, &parents);
    for (size_t i = 0; i < t->synonyms.n; i++) buf_printf(&words, "%s%s", i ? " " : "", t->synonyms.items[i]);
    strv prefix = curie_prefix(t->curie);
    bind(b->term, 1, t->curie);
    bind(b->term, 2, iri.p);
    bind(b->term, 3, t->label);
    sqlite3_bind_text(b->term, 4, prefix.p, (int)prefix.n, SQLITE_TRANSIENT);
    bind(b->term, 5, t->description);
    bind(b->term, 6, synonyms.p);
    bind(b->term, 7, parents.p);
    sqlite3_bind_int(b->term, 8, t->has_children);
    status s = buf_ok(&synonyms, e);
    if (!s) s = buf_ok(&words, e);
    if (!s) s = step(b, b->term, e);
    if (!s && sqlite3_changes(b->db)) { /* a CURIE that came before stays as it was */
        b->id = sqlite3_last_insert_rowid(b->db);
        sqlite3_bind_int64(b->words, 1, b->id);
        bind(b->words, 2, t->label);
        bind(b->words, 3, words.p);
        s = step(b, b->words, e);
        if (!s) s = put_name(b, t->label, 0, e);
        if (!s) s = put_name(b, t->curie, 1, e);
        for (size_t i = 0; !s && i < t->alternates.n; i++) s = put_name(b, t->alternates.items[i], 1, e);
        for (size_t i = 0; !s && i < t->synonyms.n; i++) s = put_name(b, t->synonyms.items[i], 2, e);
    }
    buf *all[] = {&synonyms, &parents, &iri, &words};
    for (size_t i = 0; i < 4; i++) buf_free(all[i]);
    return s;
}

static status prepare(builder *b, err *e) {
    struct {
        sqlite3_stmt **to;
        const char *sql;
    } all[] = {{&b->term, "INSERT OR IGNORE INTO term(curie, iri, label, ontology, description, synonyms, parents, has_children) VALUES(?, ?, ?, ?, ?, ?, ?, ?)"},
               {&b->name, "INSERT OR IGNORE INTO name(text, kind, term) VALUES(?, ?, ?)"},
               {&b->words, "INSERT INTO words(rowid, label, synonyms) VALUES(?, ?, ?)"}};
    for (size_t i = 0; i < 3; i++)
        if (sqlite3_prepare_v2(b->db, all[i].sql, -1, all[i].to, NULL) != SQLITE_OK) return fail(b->db, e);
    return ST_OK;
}

static status sync_file(const char *path, err *e) {
    FILE *f = fopen(path, "rb");
    bool ok = f && fsync(fileno(f)) == 0;
    if (f) fclose(f);
    return ok ? ST_OK : err_set(e, ST_WRITE, "%s: cannot sync: %s", path, strerror(errno));
}

status term_index_build(const char *path, char *const *files, size_t n, term_counts *counts, err *e) {
    builder b = {0};
    buf part = {0};
    *counts = (term_counts){0};
    buf_printf(&part, "%s.part-%ld", path, (long)getpid());
    status s = buf_ok(&part, e);
    if (!s && sqlite3_open(part.p, &b.db) != SQLITE_OK) s = err_set(e, ST_WRITE, "%s: %s", path, sqlite3_errmsg(b.db));
    if (!s) s = run(b.db, schema, e);
    if (!s) s = prepare(&b, e);
    for (size_t i = 0; !s && i < n; i++) s = term_read_file(files[i], put_term, &b, counts, e);
    if (!s && !counts->kept) s = err_set(e, ST_INPUT, "no term is left: %zu obsolete, %zu imported, %zu roots, %zu without a label", counts->obsolete, counts->imported, counts->roots, counts->nameless);
    sqlite3_finalize(b.term);
    sqlite3_finalize(b.name);
    sqlite3_finalize(b.words);
    if (!s) s = run(b.db, "INSERT INTO words(words) VALUES('optimize'); COMMIT;", e);
    if (sqlite3_close(b.db) != SQLITE_OK && !s) s = err_set(e, ST_WRITE, "%s: cannot close", path);
    if (!s) s = sync_file(part.p, e);
    if (!s && rename(part.p, path)) s = err_set(e, ST_WRITE, "%s: cannot rename: %s", path, strerror(errno));
    if (s && part.p) unlink(part.p);
    buf_free(&part);
    return s;
}
