/* The packed copy of a model: matrices, each from a multiple of ALIGN on, then a table of them, then a head that says
 * whose copy it is. The table and the head are always checked (bounds, shapes, a hash); a matrix's own hash only when the
 * file was touched since it was written, or on demand. The file is hostile as every file. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "model/model_internal.h"

enum { ALIGN = 64 };

typedef struct pack_entry {
    uint64_t at, bytes; /* 0 bytes: the matrix stays in the model's file */
    uint32_t form, type;
    uint64_t n_out, n_in;
    char sha256[SHA256_HEX_SIZE], pad[7];
} pack_entry;

/* All texts are hex or names with a NUL. Stands at the very end of the file. */
typedef struct pack_head {
    char magic[8], compute[8];
    char config[SHA256_HEX_SIZE], tokenizer[SHA256_HEX_SIZE], fingerprint[SHA256_HEX_SIZE], stamp[SHA256_HEX_SIZE], table[SHA256_HEX_SIZE];
    char pad[3];
    uint64_t file_bytes, n;
    int64_t sec, nsec; /* the file's own time of change, set when it was complete */
    char sha256[SHA256_HEX_SIZE], pad2[7]; /* of this head up to here */
} pack_head;

_Static_assert(sizeof(pack_entry) == 40 + 72 && sizeof(pack_head) == 16 + 5 * 65 + 3 + 32 + 72, "no holes: heads are hashed as bytes");

static const char magic[8] = "AJPACK1";

static status pack_path(const model *m, model_compute c, buf *path, err *e) {
    buf_printf(path, "%s%sanyjev-%s.pack", m->path, weights_gguf(m->w) ? "." : "/", model_compute_name(c));
    return buf_ok(path, e);
}

/* --- writing --- */

typedef struct writer {
    output *out;
    size_t at;
    pack_entry *table;
    err *e;
} writer;

static status put(writer *w, const void *bytes, size_t n) {
    w->at += n;
    return output_put(w->out, bytes, n, w->e);
}

static status put_matrix(writer *w, kernel *kn, const kmat *read, model_compute c, pack_entry *entry) {
    static const char zeros[ALIGN] = {0};
    kmat_form form = model_form(read, c);
    *entry = (pack_entry){.form = form, .type = kmat_type_in(read), .n_out = kmat_n_out(read), .n_in = kmat_n_in(read)};
    if (form == KMAT_ROWS) return ST_OK;
    status s = put(w, zeros, (ALIGN - w->at % ALIGN) % ALIGN);
    size_t bytes = kmat_pack_bytes(form, kmat_type_in(read), kmat_n_out(read), kmat_n_in(read));
    void *p = mem_aligned(bytes, 1);
    if (!p) return err_memory(w->e, bytes);
    entry->at = w->at;
    entry->bytes = bytes;
    if (!s) s = kmat_pack_into(kn, read, form, p, bytes, w->e);
    if (!s) s = sha256_hex(p, bytes, entry->sha256, w->e);
    if (!s) s = put(w, p, bytes);
    free(p);
    return s;
}

static status fill_head(model *m, model_compute c, const char *tokenizer_sha256, const writer *w, size_t n, pack_head *h, err *e) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *h = (pack_head){.n = n, .sec = now.tv_sec, .nsec = now.tv_nsec, .file_bytes = w->at + n * sizeof(pack_entry) + sizeof *h};
    memcpy(h->magic, magic, sizeof magic);
    strcpy(h->compute, model_compute_name(c));
    memcpy(h->config, m->config_sha256, sizeof h->config);
    memcpy(h->tokenizer, tokenizer_sha256, sizeof h->tokenizer);
    status s = model_fingerprint(m, tokenizer_sha256, h->fingerprint, e);
    if (!s) s = weights_stamp(m->w, h->stamp, e);
    if (!s) s = sha256_hex(w->table, n * sizeof *w->table, h->table, e);
    return s ? s : sha256_hex(h, offsetof(pack_head, sha256), h->sha256, e);
}

status model_pack_write(model *m, kernel *kn, model_compute c, const char *tokenizer_sha256, buf *path, err *e) {
    writer w = {.e = e};
    pack_head h = {.n = 0};
    size_t n = model_matrices(m);
    status s = pack_path(m, c, path, e);
    if (!s && !(w.table = mem_zero(n, sizeof *w.table))) s = err_memory(e, n * sizeof *w.table);
    if (!s) s = output_open(&w.out, path->p, false, e);
    for (size_t i = 0; !s && i < n; i++) s = put_matrix(&w, kn, *model_matrix(m, i), c, &w.table[i]);
    static const char zeros[ALIGN] = {0};
    if (!s) s = put(&w, zeros, (ALIGN - w.at % ALIGN) % ALIGN);
    if (!s) s = fill_head(m, c, tokenizer_sha256, &w, n, &h, e);
    if (!s) s = put(&w, w.table, n * sizeof *w.table);
    if (!s) s = put(&w, &h, sizeof h);
    if (w.out) s = output_end(w.out, s, e);
    free(w.table);
    if (s) return s;
    /* Where the file system keeps times more coarsely the copy is hashed at every start: slow, never wrong. */
    struct timespec times[2] = {{.tv_sec = h.sec, .tv_nsec = h.nsec}, {.tv_sec = h.sec, .tv_nsec = h.nsec}};
    utimensat(AT_FDCWD, path->p, times, 0);
    bool taken;
    buf note = {0};
    s = pack_take(m, kn, c, tokenizer_sha256, true, &taken, &note, e);
    if (!s && !taken) s = err_set(e, ST_INPUT, "%s", note.p ? note.p : path->p);
    buf_free(&note);
    return s;
}

/* --- reading --- */

/* The table of a copy whose head is in order; NULL and *why when it is none. */
static const pack_entry *open_table(const map *file, pack_head *h, const char **why) {
    char hex[SHA256_HEX_SIZE];
    err e = {0};
    *why = "is cut or no packed copy";
    if (file->n < sizeof *h) return NULL;
    memcpy(h, file->p + file->n - sizeof *h, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic) != 0 || sha256_hex(h, offsetof(pack_head, sha256), hex, &e) || memcmp(hex, h->sha256, sizeof hex) != 0) return NULL;
    size_t table;
    if (h->file_bytes != file->n || !size_mul(h->n, sizeof(pack_entry), &table) || table > file->n - sizeof *h) return NULL;
    const unsigned char *at = file->p + file->n - sizeof *h - table;
    if ((uintptr_t)at % _Alignof(pack_entry) != 0 || sha256_hex(at, table, hex, &e) || memcmp(hex, h->table, sizeof hex) != 0) return NULL;
    return (const pack_entry *)(const void *)at;
}

typedef struct checking {
    const map *file;
    const pack_entry *table;
    bool *bad;
} checking;

static void check_some(void *arg, size_t begin, size_t end, unsigned worker) {
    const checking *k = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        char hex[SHA256_HEX_SIZE];
        err e = {0};
        const pack_entry *t = &k->table[i];
        k->bad[i] = t->bytes && (sha256_hex(k->file->p + t->at, t->bytes, hex, &e) || memcmp(hex, t->sha256, sizeof hex) != 0);
    }
}

static status check_contents(kernel *kn, const map *file, const pack_entry *table, size_t n, const char *path, err *e) {
    checking k = {.file = file, .table = table, .bad = mem_zero(n, sizeof *k.bad)};
    if (!k.bad) return err_memory(e, n);
    kernel_for(kn, n, 1, check_some, &k);
    status s = ST_OK;
    for (size_t i = 0; !s && i < n; i++)
        if (k.bad[i]) s = err_set(e, ST_INPUT, "%s: the packed copy is damaged (matrix %zu); remove it, or write it again with --pack", path, i);
    free(k.bad);
    return s;
}

/* Opens all matrices before any is replaced. */
static status take_matrices(model *m, const map *file, const pack_entry *table, model_compute c, const char *path, err *e) {
    size_t n = model_matrices(m), inside = file->n - sizeof(pack_head) - n * sizeof *table;
    kmat **all = mem_zero(n, sizeof(kmat *));
    status s = all ? ST_OK : err_memory(e, n * sizeof *all);
    for (size_t i = 0; !s && i < n; i++) {
        const pack_entry *t = &table[i];
        const kmat *read = *model_matrix(m, i);
        kmat_form form = model_form(read, c);
        if (t->form != (uint32_t)form || t->type != (uint32_t)kmat_type_in(read) || t->n_out != kmat_n_out(read) || t->n_in != kmat_n_in(read) || t->at % ALIGN != 0 ||
            t->at > inside || t->bytes > inside - t->at)
            s = err_set(e, ST_INPUT, "%s: matrix %zu of the packed copy is not the model's", path, i);
        else if (form != KMAT_ROWS && (s = kmat_open_packed(&all[i], form, kmat_type_in(read), file->p + t->at, t->bytes, t->n_out, t->n_in, e)))
            err_prefix(e, "%s", path);
    }
    for (size_t i = 0; all && i < n; i++) {
        if (!s && all[i]) model_replace(m, model_matrix(m, i), all[i]);
        else kmat_close(all[i]);
    }
    free(all);
    return s;
}

status pack_take(model *m, kernel *kn, model_compute c, const char *tokenizer_sha256, bool verify, bool *taken, buf *note, err *e) {
    buf path = {0};
    map file = {0};
    pack_head h;
    const char *why;
    char stamp[SHA256_HEX_SIZE], hex[SHA256_HEX_SIZE];
    *taken = false;
    status s = pack_path(m, c, &path, e);
    if (s || access(path.p, F_OK) != 0) goto end;
    if ((s = map_open(&file, path.p, e))) goto end;
    const pack_entry *table = open_table(&file, &h, &why);
    if (table && (strncmp(h.compute, model_compute_name(c), sizeof h.compute) != 0 || h.n != model_matrices(m) || memcmp(h.config, m->config_sha256, sizeof h.config) != 0 ||
                  memcmp(h.tokenizer, tokenizer_sha256, sizeof h.tokenizer) != 0))
        table = NULL, why = "is of another model";
    if (table && (s = weights_stamp(m->w, stamp, e))) goto end;
    if (table && (verify || memcmp(stamp, h.stamp, sizeof stamp) != 0)) {
        if ((s = model_fingerprint(m, tokenizer_sha256, hex, e))) goto end;
        if (memcmp(hex, h.fingerprint, sizeof hex) != 0) table = NULL, why = "is of other weights";
    }
    if (!table) {
        buf_printf(note, "%s %s: not used; write it again with --pack", path.p, why);
        s = buf_ok(note, e);
        goto end;
    }
    /* Bounds come before contents. */
    if ((s = take_matrices(m, &file, table, c, path.p, e))) goto end;
    m->packed = file; /* the model's from here on */
    file = (map){0};
    bool touched = h.sec != m->packed.sec || h.nsec != m->packed.nsec;
    if ((verify || touched) && (s = check_contents(kn, &m->packed, table, h.n, path.p, e))) goto end;
    memcpy(m->fingerprint, h.fingerprint, sizeof m->fingerprint - 1);
    *taken = true;
end:
    map_close(&file);
    buf_free(&path);
    return s;
}
