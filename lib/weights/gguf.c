#include "weights/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "weights/map.h"

enum {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY,
    GGUF_U64, GGUF_I64, GGUF_F64, GGUF_TYPES
};

typedef struct entry {
    strv key;
    uint32_t type;
    const unsigned char *p; /* the value; for an array its first element */
    uint32_t item;          /* arrays: type and number of elements */
    size_t n;
} entry;

struct gguf {
    map file;
    char *path;
    entry *entries;
    size_t n_entries;
    gguf_tensor *tensors;
    size_t n_tensors;
    size_t header; /* bytes before the padding to the tensor data */
};

typedef struct cursor {
    const gguf *g;
    size_t at;
    err *e;
} cursor;

static uint64_t little(const unsigned char *p, size_t n) {
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;) v = v << 8 | p[i];
    return v;
}

static status bad(const cursor *c, const char *what) {
    return err_set(c->e, ST_INPUT, "%s: bad GGUF at byte %zu: %s", c->g->path, c->at, what);
}

/* Bytes of a name to show in a message. */
static int shown(strv name) {
    return (int)(name.n > 200 ? 200 : name.n);
}

static size_t left(const cursor *c) {
    return c->g->file.n - c->at;
}

static status take(cursor *c, size_t n, uint64_t *v) {
    *v = 0;
    if (left(c) < n) return bad(c, "the file is cut");
    *v = little(c->g->file.p + c->at, n);
    c->at += n;
    return ST_OK;
}

static status take_string(cursor *c, strv *s) {
    uint64_t n;
    status st = take(c, 8, &n);
    if (st) return st;
    if (n > left(c)) return bad(c, "a string longer than the file");
    *s = (strv){(const char *)c->g->file.p + c->at, (size_t)n};
    c->at += (size_t)n;
    return ST_OK;
}

static size_t scalar_bytes(uint64_t type) {
    static const size_t bytes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < GGUF_TYPES ? bytes[type] : 0;
}

static status take_value(cursor *c, entry *x) {
    uint64_t type, item, n;
    status s = take(c, 4, &type);
    if (s) return s;
    if (type >= GGUF_TYPES) return bad(c, "an unknown type of value");
    x->type = (uint32_t)type;
    strv skip;
    if (type == GGUF_STRING) {
        x->p = c->g->file.p + c->at;
        return take_string(c, &skip);
    }
    if (type != GGUF_ARRAY) {
        x->p = c->g->file.p + c->at;
        return take(c, scalar_bytes(type), &n);
    }
    if ((s = take(c, 4, &item)) || (s = take(c, 8, &n))) return s;
    if (item >= GGUF_TYPES || item == GGUF_ARRAY) return bad(c, "an array of arrays or of an unknown type");
    x->item = (uint32_t)item;
    x->p = c->g->file.p + c->at;
    size_t least = item == GGUF_STRING ? 8 : scalar_bytes(item);
    if (n > left(c) / least) return bad(c, "an array longer than the file");
    x->n = (size_t)n;
    if (item != GGUF_STRING) {
        c->at += x->n * least;
        return ST_OK;
    }
    for (size_t i = 0; !s && i < x->n; i++) s = take_string(c, &skip);
    return s;
}

static status take_tensor(cursor *c, gguf_tensor *t, uint64_t *offset) {
    uint64_t v, n = 0;
    status s = take_string(c, &t->name);
    if (!s) s = take(c, 4, &n);
    if (s) return s;
    if (n < 1 || n > 4) return bad(c, "a tensor of fewer than one or more than four dimensions");
    t->n_dims = (size_t)n;
    for (size_t i = 0; i < 4; i++) t->dims[i] = 1;
    size_t total = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        if ((s = take(c, 8, &v))) return s;
        if (v == 0 || v > SIZE_MAX || !size_mul(total, (size_t)v, &total)) return bad(c, "a tensor's shape is zero or too large");
        t->dims[i] = (size_t)v;
    }
    if ((s = take(c, 4, &v))) return s;
    if (v > UINT32_MAX || !kmat_type_of_ggml((uint32_t)v, &t->type))
        return err_set(c->e, ST_INPUT, "%s: tensor '%.*s' is of type %llu, which is not supported; expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K",
                       c->g->path, shown(t->name), t->name.p, (unsigned long long)v);
    if (t->dims[0] % kmat_block_elems(t->type) || !kmat_bytes(t->type, total, &t->bytes))
        return bad(c, "a tensor's row is no whole number of blocks");
    return take(c, 8, offset);
}

static int by_key(const void *a, const void *b) {
    return strv_cmp(((const entry *)a)->key, ((const entry *)b)->key);
}

static int by_name(const void *a, const void *b) {
    return strv_cmp(((const gguf_tensor *)a)->name, ((const gguf_tensor *)b)->name);
}

static status read_all(gguf *g, err *e) {
    cursor c = {g, 0, e};
    uint64_t v, n_tensors, n_entries;
    status s;
    if (g->file.n < 4 || memcmp(g->file.p, "GGUF", 4) != 0) return bad(&c, "expected the magic number 'GGUF'");
    c.at = 4;
    if ((s = take(&c, 4, &v))) return s;
    if (v != 2 && v != 3) return bad(&c, "expected version 2 or 3");
    if ((s = take(&c, 8, &n_tensors)) || (s = take(&c, 8, &n_entries))) return s;
    /* An entry takes at least 13 bytes, a tensor at least 32: this bounds the allocations by the file. */
    if (n_entries > left(&c) / 13 || n_tensors > left(&c) / 32) return bad(&c, "more entries than the file can hold");
    g->entries = mem_zero((size_t)n_entries, sizeof *g->entries);
    g->tensors = mem_zero((size_t)n_tensors, sizeof *g->tensors);
    size_t *offsets = mem_zero((size_t)n_tensors, sizeof *offsets);
    if (!g->entries || !g->tensors || !offsets) {
        free(offsets);
        return err_memory(e, (size_t)n_tensors * sizeof *g->tensors);
    }
    for (size_t i = 0; !s && i < n_entries; i++) {
        entry *x = &g->entries[i];
        s = take_string(&c, &x->key);
        if (!s) s = take_value(&c, x);
        if (!s) g->n_entries++;
    }
    if (!s) qsort(g->entries, g->n_entries, sizeof *g->entries, by_key);
    for (size_t i = 1; !s && i < g->n_entries; i++)
        if (strv_eq(g->entries[i - 1].key, g->entries[i].key))
            s = err_set(e, ST_INPUT, "%s: bad GGUF: key '%.*s' comes twice", g->path, shown(g->entries[i].key), g->entries[i].key.p);
    size_t align = 32;
    if (!s && gguf_has(g, "general.alignment") &&
        (!gguf_size(g, "general.alignment", &align) || align == 0 || align > 1 << 20 || (align & (align - 1))))
        s = bad(&c, "general.alignment is no power of two");
    for (size_t i = 0; !s && i < n_tensors; i++) {
        uint64_t off = 0;
        s = take_tensor(&c, &g->tensors[i], &off);
        if (!s && off % align) s = bad(&c, "a tensor's offset is not aligned");
        if (!s && off > SIZE_MAX) s = bad(&c, "a tensor outside the file");
        offsets[i] = (size_t)off;
    }
    g->header = c.at;
    size_t base = 0;
    if (!s && n_tensors && (!size_add(c.at, align - 1, &base) || (base = base / align * align) > g->file.n)) s = bad(&c, "the file is cut");
    for (size_t i = 0; !s && i < n_tensors; i++) {
        gguf_tensor *t = &g->tensors[i];
        size_t room = g->file.n - base;
        if (offsets[i] > room || t->bytes > room - offsets[i])
            s = err_set(e, ST_INPUT, "%s: tensor '%.*s' lies outside the file: the file is cut at byte %zu", g->path,
                        shown(t->name), t->name.p, g->file.n);
        else t->data = g->file.p + base + offsets[i];
    }
    free(offsets);
    if (s) return s;
    g->n_tensors = (size_t)n_tensors;
    if (g->n_tensors) qsort(g->tensors, g->n_tensors, sizeof *g->tensors, by_name);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (strv_eq(g->tensors[i - 1].name, g->tensors[i].name))
            return err_set(e, ST_INPUT, "%s: tensor '%.*s' comes twice", g->path, shown(g->tensors[i].name), g->tensors[i].name.p);
    return ST_OK;
}

bool gguf_is(const char *path) {
    FILE *f = fopen(path, "rb");
    char magic[4];
    if (!f) return false;
    bool yes = fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
    fclose(f);
    return yes;
}

status gguf_open(gguf **to, const char *path, err *e) {
    gguf *g = mem_zero(1, sizeof *g);
    *to = NULL;
    if (!g || !(g->path = mem_text(path, strlen(path)))) {
        free(g);
        return err_memory(e, sizeof *g);
    }
    status s = map_open(&g->file, path, e);
    if (!s) s = read_all(g, e);
    if (s) {
        gguf_close(g);
        return s;
    }
    *to = g;
    return ST_OK;
}

void gguf_close(gguf *g) {
    if (!g) return;
    map_close(&g->file);
    free(g->entries);
    free(g->tensors);
    free(g->path);
    free(g);
}

const char *gguf_path(const gguf *g) {
    return g->path;
}

const map *gguf_map(const gguf *g) {
    return &g->file;
}

size_t gguf_tensors(const gguf *g) {
    return g->n_tensors;
}

const gguf_tensor *gguf_tensor_at(const gguf *g, size_t i) {
    return &g->tensors[i];
}

const gguf_tensor *gguf_find(const gguf *g, const char *name) {
    gguf_tensor key = {.name = strv_of(name)};
    return g->n_tensors ? bsearch(&key, g->tensors, g->n_tensors, sizeof key, by_name) : NULL;
}

static const entry *find(const gguf *g, const char *key) {
    entry want = {.key = strv_of(key)};
    return g->n_entries ? bsearch(&want, g->entries, g->n_entries, sizeof want, by_key) : NULL;
}

bool gguf_has(const gguf *g, const char *key) {
    return find(g, key) != NULL;
}

static bool number(uint32_t type, const unsigned char *p, double *out) {
    size_t n = scalar_bytes(type);
    uint64_t v = little(p, n);
    switch (type) {
    case GGUF_F32: {
        float f;
        uint32_t u = (uint32_t)v;
        memcpy(&f, &u, 4);
        *out = (double)f;
        return true;
    }
    case GGUF_F64: memcpy(out, &v, 8); return true;
    case GGUF_I8: *out = (double)(int8_t)v; return true;
    case GGUF_I16: *out = (double)(int16_t)v; return true;
    case GGUF_I32: *out = (double)(int32_t)v; return true;
    case GGUF_I64: *out = (double)(int64_t)v; return true;
    case GGUF_U8: case GGUF_U16: case GGUF_U32: case GGUF_U64: *out = (double)v; return true;
    default: return false;
    }
}

bool gguf_real(const gguf *g, const char *key, double *out) {
    const entry *x = find(g, key);
    return x && number(x->type, x->p, out);
}

bool gguf_size(const gguf *g, const char *key, size_t *out) {
    double v;
    const entry *x = find(g, key);
    if (!x || x->type == GGUF_F32 || x->type == GGUF_F64 || !number(x->type, x->p, &v) || v < 0 || v > 9007199254740992.0) return false;
    *out = (size_t)v;
    return true;
}

bool gguf_bool(const gguf *g, const char *key, bool *out) {
    const entry *x = find(g, key);
    if (!x || x->type != GGUF_BOOL) return false;
    *out = x->p[0] != 0;
    return true;
}

static strv string_at(const unsigned char *p) {
    return (strv){(const char *)p + 8, (size_t)little(p, 8)};
}

bool gguf_text(const gguf *g, const char *key, strv *out) {
    const entry *x = find(g, key);
    if (!x || x->type != GGUF_STRING) return false;
    *out = string_at(x->p);
    return true;
}

bool gguf_array_get(const gguf *g, const char *key, gguf_array *out) {
    const entry *x = find(g, key);
    if (!x || x->type != GGUF_ARRAY) return false;
    *out = (gguf_array){x->item, x->n, x->p};
    return true;
}

bool gguf_array_is_text(const gguf_array *a) {
    return a->type == GGUF_STRING;
}

strv gguf_array_text(const gguf_array *a, size_t *at) {
    strv s = string_at(a->p + *at);
    *at += 8 + s.n;
    return s;
}

bool gguf_array_number(const gguf_array *a, size_t i, double *out) {
    return i < a->n && number(a->type, a->p + i * scalar_bytes(a->type), out);
}

strv gguf_array_bytes(const gguf_array *a) {
    return (strv){(const char *)a->p, a->n * scalar_bytes(a->type)};
}

strv gguf_header(const gguf *g) {
    return (strv){(const char *)g->file.p, g->header};
}
