#include "net/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

static const char head[] = "{\"key\":\"", middle[] = "\",\"answer\":", start[] = "{\"type\":\"journal\"";
enum { HEAD = sizeof head - 1, MIDDLE = sizeof middle - 1, START = sizeof start - 1, BEFORE = HEAD + JOURNAL_KEY + MIDDLE };

typedef struct place {
    uint64_t key[2]; /* the key's first 128 bits: all of it */
    uint64_t at;     /* of the answer's text in the file */
    uint32_t n;      /* its bytes; 0: an empty place */
} place;

struct journal {
    char *path;
    int fd;
    char *header;
    uint64_t size;
    buf pending;
    place *places; /* a hash table, n_places a power of two */
    size_t n, n_places;
};

static status failed(const journal *j, const char *what, err *e) {
    return err_set(e, ST_WRITE, "%s: cannot %s: %s", j->path, what, strerror(errno));
}

static bool key_read(const char *hex, uint64_t key[2]) {
    for (int k = 0; k < 2; k++) {
        key[k] = 0;
        for (int i = 0; i < 16; i++) {
            char c = hex[16 * k + i];
            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
            key[k] = key[k] << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
    }
    return true;
}

static place *place_of(const journal *j, const uint64_t key[2]) {
    size_t i = (size_t)key[0] & (j->n_places - 1);
    while (j->places[i].n && (j->places[i].key[0] != key[0] || j->places[i].key[1] != key[1])) i = (i + 1) & (j->n_places - 1);
    return &j->places[i];
}

static status remember(journal *j, place x, err *e) {
    if (2 * (j->n + 1) > j->n_places) {
        size_t n = j->n_places ? 2 * j->n_places : 1024, old = j->n_places;
        place *was = j->places;
        if (!(j->places = mem_zero(n, sizeof *j->places))) {
            j->places = was;
            return err_memory(e, n * sizeof *j->places);
        }
        j->n_places = n;
        for (size_t i = 0; i < old; i++)
            if (was[i].n) *place_of(j, was[i].key) = was[i];
        free(was);
    }
    place *p = place_of(j, x.key);
    if (p->n) return ST_OK; /* the first one stands */
    *p = x;
    j->n++;
    return ST_OK;
}

static status take_line(journal *j, strv line, size_t number, err *e) {
    place x = {.at = j->size + BEFORE};
    if (number == 1) {
        if (!strv_starts(line, start)) return err_set(e, ST_INPUT, "%s: no journal; expected a first line that starts with %s", j->path, start);
        j->header = mem_text(line.p, line.n);
        return j->header ? ST_OK : err_memory(e, line.n);
    }
    bool good = line.n > BEFORE + 2 && line.n < UINT32_MAX && memcmp(line.p, head, HEAD) == 0 && memcmp(line.p + HEAD + JOURNAL_KEY, middle, MIDDLE) == 0 &&
                line.p[line.n - 1] == '}' && line.p[line.n - 2] == '}' && key_read(line.p + HEAD, x.key);
    if (!good) return err_set(e, ST_INPUT, "%s:%zu: no line of a journal", j->path, number);
    x.n = (uint32_t)(line.n - BEFORE - 1);
    return remember(j, x, e);
}

/* Reads what is there; what stands behind the last line end was torn and goes. */
static status load(journal *j, err *e) {
    struct stat st;
    if (fstat(j->fd, &st)) return failed(j, "look at it", e);
    input *in = NULL;
    char *files[] = {j->path};
    status s = input_open(&in, files, 1, e);
    strv line;
    bool more = true;
    for (size_t number = 1; !s && !(s = input_next(in, &more, &line, e)) && more; number++) {
        uint64_t end = j->size + line.n + 1;
        if (end > (uint64_t)st.st_size) { /* the last line has no end */
            bool ours = number > 1 || (line.n < START ? memcmp(line.p, start, line.n) == 0 : strv_starts(line, start));
            if (!ours) s = err_set(e, ST_INPUT, "%s: no journal; expected a first line that starts with %s", j->path, start);
            break;
        }
        if (!(s = take_line(j, line, number, e))) j->size = end;
    }
    input_close(in);
    if (!s && j->size < (uint64_t)st.st_size && ftruncate(j->fd, (off_t)j->size)) s = failed(j, "drop its torn end", e);
    return s;
}

status journal_open(journal **out, const char *path, err *e) {
    journal *j = mem_zero(1, sizeof *j);
    *out = NULL;
    if (!j || !(j->path = mem_text(path, strlen(path)))) {
        free(j);
        return err_memory(e, sizeof *j);
    }
    status s = ST_OK;
    j->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (j->fd < 0) s = failed(j, "open", e);
    else if (flock(j->fd, LOCK_EX | LOCK_NB)) s = err_set(e, ST_REFUSED, "%s: another run has this journal open", path);
    if (!s) s = load(j, e);
    if (s) {
        journal_close(j);
        return s;
    }
    *out = j;
    return ST_OK;
}

void journal_close(journal *j) {
    if (!j) return;
    if (j->fd >= 0) close(j->fd);
    free(j->path);
    free(j->header);
    free(j->places);
    buf_free(&j->pending);
    free(j);
}

strv journal_header(const journal *j) {
    return strv_of(j->header);
}

size_t journal_count(const journal *j) {
    return j->n;
}

status journal_start(journal *j, strv header, err *e) {
    buf_view(&j->pending, header);
    buf_byte(&j->pending, '\n');
    return journal_sync(j, e);
}

status journal_find(journal *j, const char *key, buf *out, bool *found, err *e) {
    uint64_t k[2];
    *found = false;
    if (!j->n_places || !key_read(key, k)) return ST_OK;
    const place *p = place_of(j, k);
    if (!p->n) return ST_OK;
    if (!buf_reserve(out, p->n)) return buf_ok(out, e);
    for (size_t done = 0; done < p->n;) {
        ssize_t r = pread(j->fd, out->p + out->len + done, p->n - done, (off_t)(p->at + done));
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return err_set(e, ST_INPUT, "%s: cannot read: %s", j->path, r ? strerror(errno) : "it became shorter");
        done += (size_t)r;
    }
    out->len += p->n;
    out->p[out->len] = '\0';
    *found = true;
    return ST_OK;
}

status journal_add(journal *j, const char *key, strv answer, err *e) {
    buf_text(&j->pending, head);
    buf_put(&j->pending, key, JOURNAL_KEY);
    buf_text(&j->pending, middle);
    buf_view(&j->pending, answer);
    buf_text(&j->pending, "}\n");
    return buf_ok(&j->pending, e);
}

status journal_sync(journal *j, err *e) {
    status s = buf_ok(&j->pending, e);
    for (size_t done = 0; !s && done < j->pending.len;) {
        ssize_t r = pwrite(j->fd, j->pending.p + done, j->pending.len - done, (off_t)(j->size + done));
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) s = failed(j, "write", e);
        else done += (size_t)r;
    }
    if (!s && j->pending.len && fdatasync(j->fd) && errno != EINVAL) s = failed(j, "sync", e);
    if (!s) j->size += j->pending.len;
    buf_clear(&j->pending);
    return s;
}
