/* safetensors: eight bytes with the length of a JSON header, the header, the data. Hostile as every file. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "json/json.h"
#include "weights/weights_internal.h"

static status bad(err *e, const char *path, strv name, const char *what) {
    return err_set(e, ST_INPUT, "%s: tensor '%.*s': %s", path, (int)(name.n > 200 ? 200 : name.n), name.p, what);
}

static status add_tensor(weights *w, const char *path, const json *doc, jref key, const unsigned char *data, size_t room, err *e) {
    buf scratch = {0};
    strv name;
    status s = json_text(doc, key, &scratch, &name, e);
    char *copy = s ? NULL : mem_text(name.p, name.n);
    buf_free(&scratch);
    if (s) return s;
    if (!copy || !mem_grow((void **)&w->names, &w->cap_names, w->n_names + 1, sizeof *w->names)) {
        free(copy);
        return err_memory(e, name.n);
    }
    w->names[w->n_names++] = copy;
    weight t = {.name = {copy, name.n}, .dims = {1, 1, 1, 1}};
    jref obj = json_value(doc, key), type = json_get(doc, obj, "dtype"), shape = json_get(doc, obj, "shape"),
         offsets = json_get(doc, obj, "data_offsets");
    if (json_is(doc, type, "F32")) t.type = KMAT_F32;
    else if (json_is(doc, type, "F16")) t.type = KMAT_F16;
    else if (json_is(doc, type, "BF16")) t.type = KMAT_BF16;
    else return bad(e, path, t.name, "its type is not supported; expected F32, F16 or BF16");
    t.n_dims = json_count(doc, shape);
    if (json_kind_of(doc, shape) != JSON_ARRAY || t.n_dims < 1 || t.n_dims > 4) return bad(e, path, t.name, "expected a shape of one to four dimensions");
    size_t total = 1, from, to, want;
    for (size_t d = 0; d < t.n_dims; d++) {
        if ((s = json_size(doc, json_at(doc, shape, d), "shape", &t.dims[d], e))) return s;
        if (!t.dims[d] || !size_mul(total, t.dims[d], &total)) return bad(e, path, t.name, "its shape is zero or too large");
    }
    if (json_count(doc, offsets) != 2) return bad(e, path, t.name, "expected two data_offsets");
    if ((s = json_size(doc, json_at(doc, offsets, 0), "data_offsets", &from, e))) return s;
    if ((s = json_size(doc, json_at(doc, offsets, 1), "data_offsets", &to, e))) return s;
    if (from > to || to > room) return bad(e, path, t.name, "it lies outside the file; the file is cut or its header is wrong");
    if (!kmat_bytes(t.type, total, &want) || want != to - from) return bad(e, path, t.name, "its bytes do not fit its shape");
    t.data = data + from;
    t.bytes = want;
    return weights_add(w, &t, e);
}

static int by_data(const void *a, const void *b) {
    const char *x = ((const weight *)a)->data, *y = ((const weight *)b)->data;
    return (x > y) - (x < y);
}

status safetensors_add(weights *w, const char *path, err *e) {
    if (!mem_grow((void **)&w->maps, &w->cap_maps, w->n_maps + 1, sizeof *w->maps)) return err_memory(e, sizeof *w->maps);
    map *m = &w->maps[w->n_maps];
    status s = map_open(m, path, e);
    if (s) return s;
    w->n_maps++;
    if (m->n < 8) return err_set(e, ST_INPUT, "%s: not safetensors: the file is cut", path);
    size_t head = 0;
    for (int i = 7; i >= 0; i--) head = head << 8 | m->p[i];
    if (head > m->n - 8) return err_set(e, ST_INPUT, "%s: not safetensors: a header of %zu bytes in a file of %zu", path, head, m->n);
    json doc = {0};
    s = json_parse(&doc, (const char *)m->p + 8, head, e);
    if (!s && json_kind_of(&doc, JREF_ROOT) != JSON_OBJECT) s = err_set(e, ST_INPUT, "the header is no object");
    if (s) err_prefix(e, "%s", path);
    size_t first = w->n;
    for (jref k = json_first(&doc, JREF_ROOT); !s && k != JREF_NONE; k = json_next(&doc, JREF_ROOT, k))
        if (!json_is(&doc, k, "__metadata__")) s = add_tensor(w, path, &doc, k, m->p + 8 + head, m->n - 8 - head, e);
    json_free(&doc);
    if (s || w->n == first) return s;
    qsort(w->t + first, w->n - first, sizeof *w->t, by_data);
    for (size_t i = first + 1; !s && i < w->n; i++)
        if ((const char *)w->t[i - 1].data + w->t[i - 1].bytes > (const char *)w->t[i].data) s = bad(e, path, w->t[i].name, "it overlaps another tensor");
    /* As the reference has it, the data is filled: bytes that no tensor owns would escape the fingerprint. */
    const char *end = (const char *)m->p + 8 + head;
    for (size_t i = first; !s && i < w->n; i++) {
        if ((const char *)w->t[i].data != end) s = bad(e, path, w->t[i].name, "a gap lies before it");
        end = (const char *)w->t[i].data + w->t[i].bytes;
    }
    if (!s && end != (const char *)m->p + m->n) s = err_set(e, ST_INPUT, "%s: %zu bytes behind the last tensor", path, (size_t)((const char *)m->p + m->n - end));
    return s;
}

/* The files that an index names, each once, in the order in which they come first. */
static status add_shards(weights *w, const char *dir, const json *doc, jref list, err *e) {
    status s = ST_OK;
    buf scratch = {0}, path = {0}, seen = {0};
    for (jref k = json_first(doc, list); !s && k != JREF_NONE; k = json_next(doc, list, k)) {
        strv file;
        if ((s = json_text(doc, json_value(doc, k), &scratch, &file, e))) break;
        buf mark = {0};
        buf_byte(&mark, '/');
        buf_view(&mark, file);
        buf_byte(&mark, '/');
        bool again = seen.len && mark.len && memmem(seen.p, seen.len, mark.p, mark.len);
        if (!again) buf_view(&seen, buf_strv(&mark));
        s = buf_ok(&mark, e);
        buf_free(&mark);
        if (s || again) continue;
        if (!file.n || memchr(file.p, '/', file.n) || memchr(file.p, '\0', file.n) || file.p[0] == '.') {
            s = err_set(e, ST_INPUT, "%s: the index names the shard '%.*s', which is no file name", dir, (int)file.n, file.p);
            break;
        }
        buf_clear(&path);
        buf_printf(&path, "%s/%.*s", dir, (int)file.n, file.p);
        if ((s = buf_ok(&path, e))) break;
        if (access(path.p, F_OK) != 0) s = err_set(e, ST_INPUT, "%s: the shard '%.*s' that the index names is missing", dir, (int)file.n, file.p);
        else s = safetensors_add(w, path.p, e);
    }
    weights_sort(w);
    for (jref k = json_first(doc, list); !s && k != JREF_NONE; k = json_next(doc, list, k)) {
        char *name;
        if ((s = json_text_copy(doc, k, "weight_map", &name, e))) break;
        if (!weights_find(w, name)) s = err_set(e, ST_INPUT, "%s: tensor '%s' of the index is in no shard", dir, name);
        free(name);
    }
    buf_free(&scratch);
    buf_free(&path);
    buf_free(&seen);
    return s;
}

status safetensors_folder(weights *w, const char *dir, err *e) {
    buf path = {0}, text = {0};
    json doc = {0};
    buf_printf(&path, "%s/model.safetensors.index.json", dir);
    status s = buf_ok(&path, e);
    if (!s && access(path.p, F_OK) == 0) {
        s = json_read_file(&doc, &text, path.p, e);
        jref list = json_get(&doc, JREF_ROOT, "weight_map");
        if (!s && json_count(&doc, list) == 0) s = err_set(e, ST_INPUT, "%s: expected a weight_map", path.p);
        if (!s) s = add_shards(w, dir, &doc, list, e);
    } else if (!s) {
        buf_clear(&path);
        buf_printf(&path, "%s/model.safetensors", dir);
        s = buf_ok(&path, e);
        if (!s && access(path.p, F_OK) != 0) s = err_set(e, ST_INPUT, "%s: holds neither model.safetensors nor model.safetensors.index.json", dir);
        if (!s) s = safetensors_add(w, path.p, e);
    }
    json_free(&doc);
    buf_free(&path);
    buf_free(&text);
    return s;
}
