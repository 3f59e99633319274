#include "base/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"

/* Version 1.0: magic, the length of the header text, the text, blanks and a newline up to a multiple of 64. */
enum { HEAD = 128, LEAD = 10 };
static const char magic[] = "\x93NUMPY\x01";

typedef struct npy_file {
    size_t number, d, rows;
    char *path;
    output *out;
} npy_file;

struct npy_set {
    char *prefix;
    npy_file *files;
    size_t n, cap;
};

static void put_head(const npy_file *f, char head[HEAD]) {
    memset(head, ' ', HEAD);
    memcpy(head, magic, 7);
    head[7] = 0;
    head[8] = HEAD - LEAD;
    head[9] = 0;
    int n = snprintf(head + LEAD, HEAD - LEAD, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", f->rows, f->d);
    head[LEAD + n] = ' ';
    head[HEAD - 1] = '\n';
}

status npy_set_open(npy_set **to, const char *prefix, err *e) {
    npy_set *s = mem_zero(1, sizeof *s);
    *to = s;
    if (!s || !(s->prefix = mem_text(prefix, strlen(prefix)))) return err_memory(e, sizeof *s);
    return ST_OK;
}

static status add_file(npy_set *set, size_t number, size_t d, err *e) {
    buf path = {0};
    char head[HEAD];
    if (!mem_grow((void **)&set->files, &set->cap, set->n + 1, sizeof *set->files)) return err_memory(e, sizeof *set->files);
    buf_printf(&path, "%s.b%zu.npy", set->prefix, number);
    npy_file f = {.number = number, .d = d, .path = buf_take(&path)};
    status s = f.path ? output_open(&f.out, f.path, false, e) : err_memory(e, strlen(set->prefix));
    put_head(&f, head);
    if (!s) s = output_put(f.out, head, HEAD, e);
    set->files[set->n++] = f;
    return s;
}

status npy_set_put(npy_set *set, size_t number, const float *x, size_t d, const char **file, size_t *row, err *e) {
    size_t i = 0;
    while (i < set->n && set->files[i].number != number) i++;
    status s = i == set->n ? add_file(set, number, d, e) : ST_OK;
    if (s) return s;
    npy_file *f = &set->files[i];
    *file = f->path;
    *row = f->rows++;
    return output_put(f->out, x, d * sizeof *x, e);
}

status npy_set_close(npy_set *set, status s, err *e) {
    if (!set) return s;
    for (size_t i = 0; i < set->n; i++) {
        npy_file *f = &set->files[i];
        char head[HEAD];
        put_head(f, head);
        if (!s) s = output_restart(f->out, head, HEAD, e);
        if (f->out) s = output_end(f->out, s, e);
        free(f->path);
    }
    free(set->files);
    free(set->prefix);
    free(set);
    return s;
}

/* The header text of any version, with its end cut to a C string; the offset of the data. */
static status read_head(int fd, const char *path, char text[1024], size_t *data, err *e) {
    unsigned char lead[12];
    bool whole = pread(fd, lead, sizeof lead, 0) == (ssize_t)sizeof lead && memcmp(lead, magic, 6) == 0 && lead[6] >= 1 && lead[6] <= 3;
    size_t at = whole && lead[6] == 1 ? 10 : 12, n = whole ? lead[8] | (size_t)lead[9] << 8 : 0;
    if (whole && lead[6] > 1) n |= (size_t)lead[10] << 16 | (size_t)lead[11] << 24;
    if (!whole || n >= 1024 || pread(fd, text, n, (off_t)at) != (ssize_t)n) return err_set(e, ST_INPUT, "%s: not a .npy file, or cut", path);
    text[n] = '\0';
    *data = at + n;
    return ST_OK;
}

status npy_row(const char *path, size_t row, float **x, size_t *d, err *e) {
    char text[1024];
    size_t data = 0, rows = 0, at, bytes;
    *x = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(e, ST_INPUT, "%s: cannot open: %s", path, strerror(errno));
    status s = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? ST_OK : err_set(e, ST_INPUT, "%s: expected a regular file", path);
    if (!s) s = read_head(fd, path, text, &data, e);
    const char *shape = s ? NULL : strstr(text, "'shape': (");
    if (!s && (!shape || sscanf(shape + 10, "%zu, %zu)", &rows, d) != 2 || !strstr(text, "'descr': '<f4'") || !strstr(text, "'fortran_order': False") || *d == 0))
        s = err_set(e, ST_INPUT, "%s: expected a table of little-endian float32 in row order", path);
    if (!s && row >= rows) s = err_set(e, ST_INPUT, "%s: row %zu is asked for, there are %zu", path, row, rows);
    if (!s && (!size_mul(*d, sizeof **x, &bytes) || !size_mul(bytes, row, &at) || !size_add(at, data, &at) || at > (size_t)st.st_size || bytes > (size_t)st.st_size - at))
        s = err_set(e, ST_INPUT, "%s: the file is cut before row %zu", path, row);
    if (!s && !(*x = mem_alloc(*d, sizeof **x))) s = err_memory(e, bytes);
    if (!s && pread(fd, *x, bytes, (off_t)at) != (ssize_t)bytes) s = err_set(e, ST_INPUT, "%s: cannot read row %zu", path, row);
    close(fd);
    if (s) {
        free(*x);
        *x = NULL;
    }
    return s;
}
