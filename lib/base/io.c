#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/mem.h"

enum { IO_CHUNK = 1 << 18 };

struct input {
    char *const *files;
    size_t n, next; /* next file to open */
    int fd;
    const char *name;
    buf text;       /* what was read and not yet handed out starts at pos */
    size_t pos, seen; /* seen: no newline in [pos, seen) */
    size_t line, bytes;
    bool eof;
};

static status input_open_next(input *in, err *e) {
    const char *path = in->n ? in->files[in->next] : "-";
    in->next++;
    in->line = 0;
    in->eof = false;
    if (strcmp(path, "-") == 0) {
        in->name = "(standard input)";
        in->fd = STDIN_FILENO;
        return ST_OK;
    }
    in->name = path;
    in->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0) return err_set(e, ST_INPUT, "%s: cannot open: %s", path, strerror(errno));
    return ST_OK;
}

status input_open(input **out, char *const *files, size_t n, err *e) {
    input *in = mem_zero(1, sizeof *in);
    *out = NULL;
    if (!in) return err_memory(e, sizeof *in);
    in->files = files;
    in->n = n;
    in->fd = -1;
    status s = input_open_next(in, e);
    if (s) {
        input_close(in);
        return s;
    }
    *out = in;
    return ST_OK;
}

static void input_close_fd(input *in) {
    if (in->fd > STDIN_FILENO) close(in->fd);
    in->fd = -1;
}

/* Reads more of the file at hand; sets eof at its end. */
static status input_fill(input *in, err *e) {
    if (in->pos) {
        memmove(in->text.p, in->text.p + in->pos, in->text.len - in->pos);
        in->text.len -= in->pos;
        in->seen -= in->pos;
        in->pos = 0;
    }
    if (!buf_reserve(&in->text, IO_CHUNK)) return buf_ok(&in->text, e);
    for (;;) {
        ssize_t k = read(in->fd, in->text.p + in->text.len, in->text.cap - in->text.len - 1);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return err_set(e, ST_INPUT, "%s: cannot read: %s", in->name, strerror(errno));
        if (k == 0) in->eof = true;
        in->text.len += (size_t)k;
        return ST_OK;
    }
}

status input_next(input *in, bool *more, strv *line, err *e) {
    *more = false;
    for (;;) {
        char *nl = in->text.len > in->seen ? memchr(in->text.p + in->seen, '\n', in->text.len - in->seen) : NULL;
        size_t end = nl ? (size_t)(nl - in->text.p) : in->text.len;
        in->seen = end;
        if (nl || (in->eof && end > in->pos)) {
            *line = (strv){in->text.p + in->pos, end - in->pos};
            in->pos = in->seen = end + (nl != NULL);
            in->bytes += line->n + (nl != NULL);
            in->line++;
            *more = true;
            return ST_OK;
        }
        if (in->eof) {
            input_close_fd(in);
            in->pos = in->seen = in->text.len = 0;
            if (in->next >= in->n) return ST_OK;
            status s = input_open_next(in, e);
            if (s) return s;
            continue;
        }
        if (in->text.len - in->pos > INPUT_MAX)
            return err_set(e, ST_INPUT, "%s:%zu: a line of more than %zu bytes; expected JSON Lines", in->name, in->line + 1, INPUT_MAX);
        status s = input_fill(in, e);
        if (s) return s;
    }
}

const char *input_file(const input *in) {
    return in->name;
}

size_t input_line(const input *in) {
    return in->line;
}

size_t input_bytes(const input *in) {
    return in->bytes;
}

void input_close(input *in) {
    if (!in) return;
    input_close_fd(in);
    buf_free(&in->text);
    free(in);
}

status file_read(const char *path, buf *out, err *e) {
    bool std = strcmp(path, "-") == 0;
    const char *name = std ? "(standard input)" : path;
    int fd = std ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(e, ST_INPUT, "%s: cannot open: %s", name, strerror(errno));
    status s = ST_OK;
    for (;;) {
        if (out->len > INPUT_MAX) {
            s = err_set(e, ST_INPUT, "%s: more than %zu bytes", name, INPUT_MAX);
            break;
        }
        if (!buf_reserve(out, IO_CHUNK)) {
            s = buf_ok(out, e);
            break;
        }
        ssize_t k = read(fd, out->p + out->len, out->cap - out->len - 1);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) s = err_set(e, ST_INPUT, "%s: cannot read: %s", name, strerror(errno));
        if (k <= 0) break;
        out->len += (size_t)k;
    }
    if (out->p) out->p[out->len] = '\0';
    if (!std) close(fd);
    return s;
}

status file_read_zst(const char *path, buf *out, err *e) {
    buf raw = {0};
    status s = file_read(path, &raw, e);
    static const unsigned char magic[4] = {0x28, 0xB5, 0x2F, 0xFD};
    if (!s && (raw.len < 4 || memcmp(raw.p, magic, 4) != 0)) {
        buf_put(out, raw.p, raw.len);
        s = buf_ok(out, e);
    } else if (!s) {
        ZSTD_DCtx *d = ZSTD_createDCtx();
        ZSTD_inBuffer in = {raw.p, raw.len, 0};
        size_t left = 1;
        if (!d) s = err_memory(e, raw.len);
        while (!s && (in.pos < in.size || left)) {
            if (out->len > INPUT_MAX) {
                s = err_set(e, ST_INPUT, "%s: more than %zu bytes when decompressed", path, INPUT_MAX);
                break;
            }
            if (!buf_reserve(out, IO_CHUNK)) {
                s = buf_ok(out, e);
                break;
            }
            ZSTD_outBuffer o = {out->p + out->len, IO_CHUNK, 0};
            left = ZSTD_decompressStream(d, &o, &in);
            out->len += o.pos;
            if (ZSTD_isError(left)) s = err_set(e, ST_INPUT, "%s: zstd: %s", path, ZSTD_getErrorName(left));
            else if (left && in.pos == in.size && o.pos < o.size)
                s = err_set(e, ST_INPUT, "%s: zstd: the file is cut", path);
        }
        if (out->p) out->p[out->len] = '\0';
        ZSTD_freeDCtx(d);
    }
    buf_free(&raw);
    return s;
}

status file_write(const char *path, const void *bytes, size_t n, err *e) {
    output *out;
    status s = output_open(&out, path, false, e);
    if (s) return s;
    s = output_put(out, bytes, n, e);
    return output_end(out, s, e);
}

struct output {
    int fd;
    char *path, *temp; /* NULL for standard output */
    bool each;
    buf pending;
    err failed; /* status ST_OK while all is well */
};

status output_open(output **to, const char *path, bool each, err *e) {
    output *out = mem_zero(1, sizeof *out);
    *to = NULL;
    if (!out) return err_memory(e, sizeof *out);
    out->each = each;
    out->fd = STDOUT_FILENO;
    if (path && strcmp(path, "-") != 0) {
        buf t = {0};
        buf_printf(&t, "%s.part-XXXXXX", path);
        out->path = mem_text(path, strlen(path));
        out->temp = buf_take(&t);
        if (!out->path || !out->temp) {
            out->fd = -1;
            output_abort(out);
            return err_memory(e, strlen(path));
        }
        out->fd = mkostemp(out->temp, O_CLOEXEC);
        if (out->fd < 0) {
            status s = err_set(e, ST_WRITE, "%s: cannot create: %s", path, strerror(errno));
            free(out->temp);
            out->temp = NULL;
            output_abort(out);
            return s;
        }
    }
    *to = out;
    return ST_OK;
}

static const char *output_name(const output *out) {
    return out->path ? out->path : "(standard output)";
}

status output_flush(output *out, err *e) {
    size_t done = 0;
    while (!out->failed.status && done < out->pending.len) {
        ssize_t k = write(out->fd, out->pending.p + done, out->pending.len - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) err_set(&out->failed, ST_WRITE, "%s: cannot write: %s", output_name(out), strerror(errno));
        else done += (size_t)k;
    }
    buf_clear(&out->pending);
    if (out->failed.status) return err_set(e, ST_WRITE, "%s", out->failed.text);
    return ST_OK;
}

status output_put(output *out, const void *bytes, size_t n, err *e) {
    if (out->failed.status) return err_set(e, out->failed.status, "%s", out->failed.text);
    buf_put(&out->pending, bytes, n);
    status s = buf_ok(&out->pending, &out->failed);
    if (s) return err_set(e, s, "%s", out->failed.text);
    return out->pending.len >= IO_CHUNK ? output_flush(out, e) : ST_OK;
}

status output_line(output *out, const buf *b, err *e) {
    status s = buf_ok(b, e);
    if (!s) s = output_put(out, b->p, b->len, e);
    if (!s) s = output_put(out, "\n", 1, e);
    if (!s && out->each) s = output_flush(out, e);
    return s;
}

/* mkostemp makes files that only the owner reads; the name gets what any other new file would get. */
static void output_mode(int fd) {
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask)) return; /* file systems without modes */
}

status output_restart(output *out, const void *bytes, size_t n, err *e) {
    status s = output_flush(out, e);
    if (!s && pwrite(out->fd, bytes, n, 0) != (ssize_t)n) {
        err_set(&out->failed, ST_WRITE, "%s: cannot write: %s", output_name(out), strerror(errno));
        s = err_set(e, ST_WRITE, "%s", out->failed.text);
    }
    return s;
}

status output_close(output *out, err *e) {
    status s = output_flush(out, e);
    if (s) {
        output_abort(out);
        return s;
    }
    if (out->path) {
        output_mode(out->fd);
        if (fsync(out->fd) && errno != EINVAL)
            s = err_set(e, ST_WRITE, "%s: cannot sync: %s", out->path, strerror(errno));
        if (close(out->fd) && !s) s = err_set(e, ST_WRITE, "%s: cannot close: %s", out->path, strerror(errno));
        out->fd = -1;
        if (!s && rename(out->temp, out->path))
            s = err_set(e, ST_WRITE, "%s: cannot rename: %s", out->path, strerror(errno));
        if (!s) {
            free(out->temp);
            out->temp = NULL;
        }
    } else if (close(out->fd)) {
        s = err_set(e, ST_WRITE, "(standard output): cannot close: %s", strerror(errno));
    }
    output_abort(out);
    return s;
}

void output_abort(output *out) {
    if (!out) return;
    if (out->path && out->fd >= 0) close(out->fd);
    if (out->temp) unlink(out->temp);
    free(out->temp);
    free(out->path);
    buf_free(&out->pending);
    free(out);
}

status output_end(output *out, status s, err *e) {
    if (!out) return s;
    if (s != ST_OK && s != ST_PARTIAL) {
        /* What was already said on a pipe stays said; a file does not appear. */
        err ignored = {0};
        if (!out->path) output_flush(out, &ignored);
        output_abort(out);
        return s;
    }
    status c = output_close(out, e);
    return c ? c : s;
}
