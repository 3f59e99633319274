/* GGUF blocks against what the gguf package widens them to (tests/golden/blocks.txt): the same bytes. */
#include <stdlib.h>

#include "base/mem.h"
#include "kernel/internal.h"
#include "test.h"

enum { LINE = 1 << 16 };

static int hex_digit(int c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Reads hex up to the next space; returns the bytes. */
static size_t hex_read(const char **s, unsigned char *out) {
    size_t n = 0;
    for (; hex_digit((*s)[0]) >= 0 && hex_digit((*s)[1]) >= 0; *s += 2)
        out[n++] = (unsigned char)(hex_digit((*s)[0]) * 16 + hex_digit((*s)[1]));
    if (**s == ' ') ++*s;
    return n;
}

static void test_line(const char *line) {
    static unsigned char blocks[LINE], want[LINE];
    const char *s = strchr(line, ' ');
    int t = KMAT_F32;
    while (t < KMAT_TYPES && (strncmp(line, kmat_type_name((kmat_type)t), (size_t)(s - line)) != 0 || kmat_type_name((kmat_type)t)[s - line])) t++;
    CHECK(t < KMAT_TYPES, "%.*s is known", (int)(s - line), line);
    if (t == KMAT_TYPES) return;
    s++;
    size_t bytes = hex_read(&s, blocks), floats = hex_read(&s, want), need = 0;
    CHECK(kmat_bytes((kmat_type)t, floats / 4, &need) && need == bytes && bytes > 0, "%zu elements take %zu bytes", floats / 4, bytes);
    float *got = mem_alloc(floats, 1);
    for (int isa = KERNEL_REF; isa <= KERNEL_NEON; isa++) {
        err e = {0};
        kernel *kn = NULL;
        if (!kernel_isa_supported((kernel_isa)isa) || kernel_open(&kn, (kernel_isa)isa, 1, &e) != ST_OK) continue;
        memset(got, 0xff, floats);
        kn->ops.widen((kmat_type)t, blocks, floats / 4, got);
        CHECK(memcmp(got, want, floats) == 0, "%s by %s", kmat_type_name((kmat_type)t), kernel_isa_name((kernel_isa)isa));
        kernel_close(kn);
    }
    free(got);
}

int main(void) {
    static char line[LINE];
    FILE *f = fopen("tests/golden/blocks.txt", "r");
    CHECK(f != NULL, "tests/golden/blocks.txt is here");
    if (!f) return test_end();
    int n = 0;
    for (; fgets(line, sizeof line, f); n++) test_line(line);
    fclose(f);
    CHECK(n == 8, "all eight quantised types: %d", n);
    return test_end();
}
