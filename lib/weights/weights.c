#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "weights/weights_internal.h"

status weights_add(weights *w, const weight *t, err *e) {
    if (!mem_grow((void **)&w->t, &w->cap, w->n + 1, sizeof *w->t)) return err_memory(e, (w->n + 1) * sizeof *w->t);
    w->t[w->n++] = *t;
    return ST_OK;
}

static int by_name(const void *a, const void *b) {
    return strv_cmp(((const weight *)a)->name, ((const weight *)b)->name);
}

void weights_sort(weights *w) {
    if (w->n) qsort(w->t, w->n, sizeof *w->t, by_name);
}

static status from_gguf(weights *w, const char *path, err *e) {
    status s = gguf_open(&w->g, path, e);
    for (size_t i = 0; !s && i < gguf_tensors(w->g); i++) {
        const gguf_tensor *g = gguf_tensor_at(w->g, i);
        weight t = {.name = g->name, .type = g->type, .n_dims = g->n_dims, .dims = {1, 1, 1, 1}, .data = g->data, .bytes = g->bytes};
        for (size_t d = 0; d < g->n_dims; d++) t.dims[d] = g->dims[g->n_dims - 1 - d];
        s = weights_add(w, &t, e);
    }
    return s;
}

status weights_open(weights **to, const char *path, err *e) {
    weights *w = mem_zero(1, sizeof *w);
    *to = NULL;
    if (!w) return err_memory(e, sizeof *w);
    struct stat st;
    bool dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    status s = dir ? safetensors_folder(w, path, e) : from_gguf(w, path, e);
    weights_sort(w);
    for (size_t i = 1; !s && i < w->n; i++)
        if (strv_eq(w->t[i - 1].name, w->t[i].name))
            s = err_set(e, ST_INPUT, "%s: tensor '%.*s' comes twice", path, (int)w->t[i].name.n, w->t[i].name.p);
    if (s) {
        weights_close(w);
        return s;
    }
    *to = w;
    return ST_OK;
}

void weights_close(weights *w) {
    if (!w) return;
    for (size_t i = 0; i < w->n_maps; i++) map_close(&w->maps[i]);
    for (size_t i = 0; i < w->n_names; i++) free(w->names[i]);
    free(w->maps);
    free(w->names);
    free(w->t);
    gguf_close(w->g);
    free(w);
}

const gguf *weights_gguf(const weights *w) {
    return w->g;
}

size_t weights_count(const weights *w) {
    return w->n;
}

const weight *weights_at(const weights *w, size_t i) {
    return &w->t[i];
}

const weight *weights_find(const weights *w, const char *name) {
    weight key = {.name = strv_of(name)};
    return w->n ? bsearch(&key, w->t, w->n, sizeof key, by_name) : NULL;
}

status weights_hash(const weights *w, sha256 *h, err *e) {
    status s = ST_OK;
    buf head = {0};
    for (size_t i = 0; !s && i < w->n; i++) {
        const weight *t = &w->t[i];
        buf_clear(&head);
        buf_view(&head, t->name);
        buf_printf(&head, "\n%s", kmat_type_name(t->type));
        for (size_t d = 0; d < t->n_dims; d++) buf_printf(&head, " %zu", t->dims[d]);
        buf_byte(&head, '\n');
        if (!(s = buf_ok(&head, e))) s = sha256_add(h, head.p, head.len, e);
        if (!s) s = sha256_add(h, t->data, t->bytes, e);
    }
    buf_free(&head);
    return s;
}

static void put_stamp(buf *b, const map *m) {
    buf_printf(b, "%zu %llu %lld.%09lld\n", m->n, (unsigned long long)m->inode, (long long)m->sec, (long long)m->nsec);
}

status weights_stamp(const weights *w, char hex[SHA256_HEX_SIZE], err *e) {
    buf b = {0};
    if (w->g) put_stamp(&b, gguf_map(w->g));
    for (size_t i = 0; i < w->n_maps; i++) put_stamp(&b, &w->maps[i]);
    status s = buf_ok(&b, e);
    if (!s) s = sha256_hex(b.p, b.len, hex, e);
    buf_free(&b);
    return s;
}
