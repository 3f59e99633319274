/* lib/weights/gguf: a small file made here, read back; then cut at every byte, and every byte changed. */
#include "weights/gguf.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "test.h"

static void le(buf *b, uint64_t v, int n) {
    for (int i = 0; i < n; i++) buf_byte(b, (char)(v >> (8 * i) & 255));
}

static void str(buf *b, const char *s) {
    le(b, strlen(s), 8);
    buf_text(b, s);
}

static void key(buf *b, const char *name, uint32_t type) {
    str(b, name);
    le(b, type, 4);
}

static void tensor(buf *b, const char *name, size_t d0, size_t d1, uint32_t type, size_t offset) {
    str(b, name);
    le(b, d1 ? 2 : 1, 4);
    le(b, d0, 8);
    if (d1) le(b, d1, 8);
    le(b, type, 4);
    le(b, offset, 8);
}

enum { U8 = 0, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9, U64 = 10, F64 = 12 };
enum { N_ENTRIES = 9, N_TENSORS = 2 };

/* extra: what a test adds to the metadata (n entries) */
static void make(buf *b, size_t n_tensors, const buf *extra, size_t n) {
    buf_clear(b);
    buf_text(b, "GGUF");
    le(b, 3, 4);
    le(b, n_tensors, 8);
    le(b, N_ENTRIES + n, 8);
    key(b, "general.architecture", STRING), str(b, "llama");
    key(b, "u8", U8), le(b, 200, 1);
    key(b, "i32", I32), le(b, (uint32_t)-5, 4);
    key(b, "f32", F32), le(b, 0x3FC00000, 4); /* 1.5 */
    key(b, "yes", BOOL), le(b, 1, 1);
    key(b, "u64", U64), le(b, 1ull << 40, 8);
    key(b, "f64", F64), le(b, 0x4004000000000000, 8); /* 2.5 */
    key(b, "words", ARRAY), le(b, STRING, 4), le(b, 3, 8), str(b, "a"), str(b, ""), str(b, "ccc");
    key(b, "numbers", ARRAY), le(b, I32, 4), le(b, 2, 8), le(b, 7, 4), le(b, (uint32_t)-7, 4);
    if (extra) buf_view(b, buf_strv(extra));
    if (n_tensors > 0) tensor(b, "w", 32, 2, 8, 0); /* Q8_0: 2 blocks of 34 bytes */
    if (n_tensors > 1) tensor(b, "norm", 4, 0, 0, 96);
    if (n_tensors) {
        while (b->len % 32) buf_byte(b, 0);
        for (int i = 0; i < 96 + 16; i++) buf_byte(b, (char)i);
    }
}

static char path[] = "/tmp/anyjev-gguf-XXXXXX";

static status open_bytes(const buf *b, size_t n, gguf **g, err *e) {
    unlink(path); /* truncating would wait for the disk, thousands of times */
    FILE *f = fopen(path, "wb");
    *e = (err){0};
    if (!f || fwrite(b->p, 1, n, f) != n || fclose(f)) exit(99);
    return gguf_open(g, path, e);
}

static unsigned touch(const void *p, size_t n) {
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((const unsigned char *)p)[i];
    return sum;
}

/* Looks at everything that the reader hands out. */
static unsigned walk(const gguf *g) {
    unsigned sum = touch(gguf_header(g).p, gguf_header(g).n);
    for (size_t i = 0; i < gguf_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        sum += touch(t->data, t->bytes) + touch(t->name.p, t->name.n);
    }
    static const char *const keys[] = {"general.architecture", "u8", "i32", "f32", "yes", "u64", "f64", "words", "numbers"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        size_t z;
        double d;
        bool t;
        strv v;
        gguf_array a;
        sum += gguf_size(g, keys[k], &z) + gguf_real(g, keys[k], &d) + gguf_bool(g, keys[k], &t);
        if (gguf_text(g, keys[k], &v)) sum += touch(v.p, v.n);
        if (gguf_array_get(g, keys[k], &a)) {
            sum += touch(gguf_array_bytes(&a).p, gguf_array_bytes(&a).n);
            size_t at = 0;
            for (size_t i = 0; i < a.n; i++) {
                if (gguf_array_is_text(&a)) v = gguf_array_text(&a, &at), sum += touch(v.p, v.n);
                else sum += gguf_array_number(&a, i, &d);
            }
        }
    }
    return sum;
}

static void test_read(buf *b) {
    gguf *g;
    err e;
    make(b, N_TENSORS, NULL, 0);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_OK, "a whole file opens %s", e.text);
    strv v = {0};
    size_t z = 0;
    double d = 0;
    bool yes = false;
    gguf_array a = {0};
    CHECK(gguf_text(g, "general.architecture", &v) && strv_is(v, "llama"), "a text");
    CHECK(gguf_size(g, "u8", &z) && z == 200, "u8");
    CHECK(gguf_size(g, "u64", &z) && z == 1ull << 40, "u64");
    CHECK(!gguf_size(g, "i32", &z) && gguf_real(g, "i32", &d) && d == -5, "a negative integer is no size but a real");
    CHECK(gguf_real(g, "f32", &d) && d == 1.5 && !gguf_size(g, "f32", &z), "f32");
    CHECK(gguf_real(g, "f64", &d) && d == 2.5, "f64");
    CHECK(gguf_bool(g, "yes", &yes) && yes && !gguf_bool(g, "u8", &yes), "a bool is a bool only");
    CHECK(!gguf_has(g, "no") && !gguf_text(g, "u8", &v) && !gguf_array_get(g, "u8", &a), "absent, or of another kind");
    size_t at = 0;
    CHECK(gguf_array_get(g, "words", &a) && a.n == 3 && gguf_array_is_text(&a) && strv_is(gguf_array_text(&a, &at), "a") &&
              gguf_array_text(&a, &at).n == 0 && strv_is(gguf_array_text(&a, &at), "ccc"), "an array of texts");
    CHECK(gguf_array_get(g, "numbers", &a) && gguf_array_number(&a, 1, &d) && d == -7 && !gguf_array_number(&a, 2, &d) &&
              gguf_array_bytes(&a).n == 8, "an array of numbers");
    const gguf_tensor *w = gguf_find(g, "w"), *norm = gguf_find(g, "norm");
    CHECK(w && w->type == KMAT_Q8_0 && w->n_dims == 2 && w->dims[0] == 32 && w->dims[1] == 2 && w->bytes == 68, "a matrix");
    CHECK(norm && norm->bytes == 16 && ((const unsigned char *)norm->data)[0] == 96, "a vector at its offset");
    CHECK(!gguf_find(g, "x"), "no such tensor");
    gguf_close(g);
    make(b, 0, NULL, 0);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_OK && gguf_tensors(g) == 0, "a file without tensors (a vocabulary) opens");
    gguf_close(g);
}

static void test_cut(buf *b) {
    gguf *g;
    err e;
    size_t wrong = 0;
    make(b, N_TENSORS, NULL, 0);
    for (size_t n = 0; n < b->len; n++) {
        status s = open_bytes(b, n, &g, &e);
        if (s != ST_INPUT || g || !strstr(e.text, path)) wrong++;
        gguf_close(g);
    }
    CHECK(wrong == 0, "cut at each of %zu bytes: refused with the file's name (%zu were not)", b->len, wrong);
}

static void test_changed(buf *b) {
    static const unsigned char to[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    gguf *g;
    err e;
    size_t wrong = 0, opened = 0;
    unsigned sum = 0;
    make(b, N_TENSORS, NULL, 0);
    for (size_t i = 0; i < b->len; i++)
        for (size_t k = 0; k < sizeof to + 1; k++) {
            char was = b->p[i];
            b->p[i] = k < sizeof to ? (char)to[k] : (char)(was ^ 1);
            status s = open_bytes(b, b->len, &g, &e);
            if (s == ST_OK) sum += walk(g), opened++;
            else if (s != ST_INPUT || !e.text[0]) wrong++;
            gguf_close(g);
            b->p[i] = was;
        }
    CHECK(wrong == 0 && opened > 0, "every byte changed: refused, or read within bounds (%zu opened, sum %u)", opened, sum);
}

static void test_refused(buf *b) {
    gguf *g;
    err e;
    buf x = {0};
    key(&x, "u8", U8), le(&x, 1, 1);
    make(b, N_TENSORS, &x, 1);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "'u8' comes twice"), "a key twice: %s", e.text);
    buf_clear(&x);
    key(&x, "general.alignment", I32), le(&x, 24, 4);
    make(b, N_TENSORS, &x, 1);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "alignment"), "an odd alignment: %s", e.text);
    buf_clear(&x);
    key(&x, "deep", ARRAY), le(&x, ARRAY, 4), le(&x, 1, 8), le(&x, I32, 4), le(&x, 0, 8);
    make(b, N_TENSORS, &x, 1);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "array of arrays"), "an array of arrays: %s", e.text);
    buf_clear(&x);
    key(&x, "long", ARRAY), le(&x, F64, 4), le(&x, UINT64_MAX / 8 + 1, 8);
    make(b, N_TENSORS, &x, 1);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "longer than the file"), "a length that overflows: %s", e.text);

    make(b, 0, NULL, 0);
    b->p[8] = 3; /* tensors follow */
    tensor(b, "w", 32, 2, 8, 0), tensor(b, "odd", 4, 0, 16, 0), tensor(b, "z", 4, 0, 0, 0);
    for (int i = 0; i < 200; i++) buf_byte(b, 0);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "'odd' is of type 16"), "an unknown type is named: %s", e.text);
    make(b, 0, NULL, 0);
    b->p[8] = 2;
    tensor(b, "w", 32, 2, 8, 0), tensor(b, "w", 4, 0, 0, 0);
    for (int i = 0; i < 200; i++) buf_byte(b, 0);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "'w' comes twice"), "a tensor twice: %s", e.text);
    make(b, 0, NULL, 0);
    b->p[8] = 1;
    tensor(b, "w", 31, 2, 8, 0);
    for (int i = 0; i < 200; i++) buf_byte(b, 0);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "whole number of blocks"), "half a block: %s", e.text);
    make(b, 0, NULL, 0);
    b->p[8] = 1;
    tensor(b, "w", 1ull << 40, 1ull << 40, 0, 0);
    for (int i = 0; i < 200; i++) buf_byte(b, 0);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "too large"), "a shape that overflows: %s", e.text);
    make(b, 0, NULL, 0);
    b->p[8] = 1;
    tensor(b, "w", 32, 0, 0, UINT64_MAX - 31);
    for (int i = 0; i < 200; i++) buf_byte(b, 0);
    CHECK(open_bytes(b, b->len, &g, &e) == ST_INPUT && strstr(e.text, "'w' lies outside"), "an offset far away: %s", e.text);
    CHECK(gguf_open(&g, "/", &e) == ST_INPUT && gguf_open(&g, "/nowhere/x.gguf", &e) == ST_INPUT && !gguf_is("/nowhere/x"), "a folder, and no file");
    buf_free(&x);
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0) return 99;
    close(fd);
    buf b = {0};
    test_read(&b);
    test_cut(&b);
    test_changed(&b);
    test_refused(&b);
    buf_free(&b);
    unlink(path);
    return test_end();
}
