/* Folders of bundles. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "bundle/bundle.h"
#include "json/run.h"

/* Letters, digits, dot, dash and underscore stay; no leading dot. */
static void put_slug(strv name, buf *out) {
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && i);
        buf_byte(out, plain ? c : '_');
    }
}

status store_folder(const char *home, strv model_name, const char *lock_sha, char **folder, err *e) {
    buf b = {0};
    if (!model_name.n) return err_set(e, ST_INPUT, "the model has no name: bundles lie in a folder of that name");
    buf_printf(&b, "%s/", home);
    put_slug(model_name, &b);
    buf_printf(&b, "/%.8s", lock_sha);
    *folder = buf_take(&b);
    return *folder ? ST_OK : err_memory(e, strlen(home));
}

status store_path(const char *folder, size_t version, char **path, err *e) {
    buf b = {0};
    buf_printf(&b, "%s/v%zu.jsonl.zst", folder, version);
    *path = buf_take(&b);
    return *path ? ST_OK : err_memory(e, strlen(folder));
}

/* All that a folder's name needs; those that are there are fine. */
static status make_folders(const char *folder, err *e) {
    char *path = mem_text(folder, strlen(folder));
    if (!path) return err_memory(e, strlen(folder));
    status s = ST_OK;
    for (char *p = path + 1; !s; p++) {
        if (*p != '/' && *p) continue;
        char c = *p;
        *p = '\0';
        if (mkdir(path, 0777) && errno != EEXIST) s = err_set(e, ST_WRITE, "%s: cannot make the folder: %s", path, strerror(errno));
        *p = c;
        if (!c) break;
    }
    free(path);
    return s;
}

/* The folder's lock: whoever changes it waits for the others. close gives it back. */
static status lock_folder(const char *folder, int *fd, err *e) {
    buf path = {0};
    buf_printf(&path, "%s/.lock", folder);
    status s = buf_ok(&path, e);
    *fd = s ? -1 : open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (!s && *fd < 0) s = err_set(e, ST_WRITE, "%s: cannot open: %s", path.p, strerror(errno));
    while (!s && flock(*fd, LOCK_EX))
        if (errno != EINTR) s = err_set(e, ST_WRITE, "%s: cannot lock: %s", path.p, strerror(errno));
    buf_free(&path);
    return s;
}

static void unlock_folder(int fd) {
    if (fd >= 0) close(fd);
}

static int by_number(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* The N of vN.jsonl.zst, or 0. */
static size_t version_of(const char *name) {
    size_t n = 0;
    int end = 0;
    if (name[0] != 'v' || name[1] < '1' || name[1] > '9') return 0;
    return sscanf(name, "v%9zu.jsonl.zst%n", &n, &end) == 1 && end && !name[end] ? n : 0;
}

status store_versions(const char *folder, size_t **list, size_t *n, err *e) {
    DIR *d = opendir(folder);
    size_t cap = 0;
    status s = ST_OK;
    *list = NULL;
    *n = 0;
    if (!d) return err_set(e, ST_INPUT, "%s: cannot read the folder: %s", folder, strerror(errno));
    for (struct dirent *x; !s && (x = readdir(d));) {
        size_t v = version_of(x->d_name);
        if (!v) continue;
        if (!mem_grow((void **)list, &cap, *n + 1, sizeof **list)) s = err_memory(e, (*n + 1) * sizeof **list);
        else (*list)[(*n)++] = v;
    }
    closedir(d);
    if (*n) qsort(*list, *n, sizeof **list, by_number);
    return s;
}

status store_current(const char *folder, size_t *version, err *e) {
    buf path = {0}, text = {0};
    struct stat st;
    *version = 0;
    buf_printf(&path, "%s/CURRENT", folder);
    status s = buf_ok(&path, e);
    if (!s && stat(path.p, &st) == 0 && !(s = file_read(path.p, &text, e))) {
        strv line = strv_trim(buf_strv(&text));
        buf number = {0};
        if (line.n > 1 && line.p[0] == 'v') buf_put(&number, line.p + 1, line.n - 1);
        s = num_size(number.p ? number.p : "", 1, 999999999, "version", version, e);
        if (s) err_prefix(e, "%s", path.p);
        buf_free(&number);
    }
    buf_free(&path);
    buf_free(&text);
    return s;
}

static status set_current(const char *folder, size_t version, err *e) {
    buf path = {0}, text = {0};
    buf_printf(&path, "%s/CURRENT", folder);
    buf_printf(&text, "v%zu\n", version);
    status s = buf_ok(&path, e);
    if (!s) s = buf_ok(&text, e);
    if (!s) s = file_write(path.p, text.p, text.len, e);
    buf_free(&path);
    buf_free(&text);
    return s;
}

/* --- create --- */

static status compress(strv text, buf *out, err *e) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(text.n);
    status s = c && buf_reserve(out, room) ? ST_OK : err_memory(e, room);
    if (!s) {
        ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 9);
        ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
        size_t n = ZSTD_compress2(c, out->p, room, text.p, text.n);
        if (ZSTD_isError(n)) s = err_set(e, ST_WRITE, "zstd: %s", ZSTD_getErrorName(n));
        else out->len = n;
    }
    ZSTD_freeCCtx(c);
    return s;
}

static status compose(const bundle_parts *p, size_t version, size_t parent, buf *out, err *e) {
    buf rest = {0};
    char hex[SHA256_HEX_SIZE] = "";
    buf_view(&rest, p->artifact_lines);
    buf_view(&rest, p->observations);
    status s = buf_ok(&rest, e);
    if (!s) s = sha256_hex(rest.p ? rest.p : "", rest.len, hex, e);
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "bundle");
    jw_key(&w, "format");
    jw_size(&w, 1);
    jw_key(&w, "version");
    jw_size(&w, version);
    jw_key(&w, "parent");
    if (parent) jw_size(&w, parent);
    else jw_null(&w);
    jw_key(&w, "identity");
    jw_raw(&w, strv_of(p->identity));
    jw_key(&w, "lock_sha");
    jw_text(&w, p->lock_sha);
    jw_key(&w, "questions");
    jw_raw(&w, p->questions);
    jw_key(&w, "inputs");
    jw_raw(&w, p->inputs);
    run_put(&w);
    jw_key(&w, "sha256");
    jw_text(&w, hex);
    jw_close(&w, '}');
    buf_byte(out, '\n');
    buf_view(out, buf_strv(&rest));
    buf_free(&rest);
    return s ? s : buf_ok(out, e);
}

status store_create(const char *folder, const bundle_parts *parts, size_t *version, err *e) {
    int fd = -1;
    size_t *list = NULL, n = 0, current = 0;
    buf text = {0}, packed = {0};
    char *path = NULL;
    status s = make_folders(folder, e);
    if (!s) s = lock_folder(folder, &fd, e);
    if (!s) s = store_versions(folder, &list, &n, e);
    if (!s) s = store_current(folder, &current, e);
    *version = n ? list[n - 1] + 1 : 1;
    if (!s) s = compose(parts, *version, current, &text, e);
    if (!s) s = compress(buf_strv(&text), &packed, e);
    if (!s) s = store_path(folder, *version, &path, e);
    if (!s) s = file_write(path, packed.p, packed.len, e);
    unlock_folder(fd);
    free(list);
    free(path);
    buf_free(&text);
    buf_free(&packed);
    return s;
}

/* --- promote --- */

static bool figure(const json *doc, jref asked, const char *name, double *v) {
    err ignored = {0};
    return json_real(doc, json_get(doc, json_get(doc, asked, "held_out"), name), name, v, &ignored) == ST_OK;
}

static status compare(const json *now, const json *next, size_t version, err *e) {
    jref mine = json_get(now, JREF_ROOT, "questions"), theirs = json_get(next, JREF_ROOT, "questions");
    for (jref k = json_first(next, theirs); k != JREF_NONE; k = json_next(next, theirs, k)) {
        double v;
        if (!figure(next, json_value(next, k), "accuracy", &v) || !figure(next, json_value(next, k), "ece", &v))
            return err_set(e, ST_REFUSED, "v%zu has no held-out figures for %.*s: nobody knows whether it is worse", version, (int)json_raw(next, k).n, json_raw(next, k).p);
    }
    buf scratch = {0};
    status s = ST_OK;
    for (jref k = json_first(now, mine); !s && k != JREF_NONE; k = json_next(now, mine, k)) {
        strv name;
        double old_acc, old_ece, acc, ece;
        if ((s = json_text(now, k, &scratch, &name, e))) break;
        jref other = json_get_view(next, theirs, name);
        if (other == JREF_NONE) s = err_set(e, ST_REFUSED, "v%zu lacks '%.*s', which the version in service answers", version, (int)name.n, name.p);
        else if (!figure(now, json_value(now, k), "accuracy", &old_acc) || !figure(now, json_value(now, k), "ece", &old_ece)) continue;
        else if (figure(next, other, "accuracy", &acc) && acc < old_acc)
            s = err_set(e, ST_REFUSED, "v%zu is worse at '%.*s': held-out accuracy %.4f, in service %.4f", version, (int)name.n, name.p, acc, old_acc);
        else if (figure(next, other, "ece", &ece) && ece > old_ece)
            s = err_set(e, ST_REFUSED, "v%zu is worse at '%.*s': held-out ECE %.4f, in service %.4f", version, (int)name.n, name.p, ece, old_ece);
    }
    buf_free(&scratch);
    return s;
}

static status check_promotion(const char *folder, size_t current, const bundle *next, err *e) {
    bundle now = {0};
    json a = {0}, b = {0};
    char *path = NULL;
    status s = ST_OK;
    static const char none[] = "{}";
    if (current && !(s = store_path(folder, current, &path, e))) s = bundle_read(&now, path, e);
    if (!s) s = json_parse(&a, current ? now.manifest : none, strlen(current ? now.manifest : none), e);
    if (!s) s = json_parse(&b, next->manifest, strlen(next->manifest), e);
    if (!s) s = compare(&a, &b, next->version, e);
    json_free(&a);
    json_free(&b);
    bundle_free(&now);
    free(path);
    return s;
}

status store_promote(const char *folder, size_t version, bool checked, err *e) {
    int fd = -1;
    size_t current = 0;
    bundle next = {0};
    char *path = NULL;
    status s = store_path(folder, version, &path, e);
    if (!s) s = bundle_read(&next, path, e); /* what cannot be read is never put into service */
    if (!s) s = lock_folder(folder, &fd, e);
    if (!s) s = store_current(folder, &current, e);
    if (!s && checked && current != version) s = check_promotion(folder, current, &next, e);
    if (!s) s = set_current(folder, version, e);
    unlock_folder(fd);
    bundle_free(&next);
    free(path);
    return s;
}

status store_rollback(const char *folder, size_t *version, err *e) {
    int fd = -1;
    size_t *list = NULL, n = 0, current = 0, below = 0;
    status s = lock_folder(folder, &fd, e);
    if (!s) s = store_versions(folder, &list, &n, e);
    if (!s) s = store_current(folder, &current, e);
    for (size_t i = 0; i < n; i++)
        if (list[i] < current) below = list[i];
    if (!s && !below) s = err_set(e, ST_REFUSED, "%s: there is no version below v%zu to go back to", folder, current);
    if (!s) s = set_current(folder, below, e);
    *version = below;
    unlock_folder(fd);
    free(list);
    return s;
}

status store_prune(const char *folder, size_t keep, size_t *removed, err *e) {
    int fd = -1;
    size_t *list = NULL, n = 0, current = 0;
    status s = lock_folder(folder, &fd, e);
    if (!s) s = store_versions(folder, &list, &n, e);
    if (!s) s = store_current(folder, &current, e);
    *removed = 0;
    for (size_t i = 0; !s && i + keep < n; i++) {
        char *path = NULL;
        if (list[i] == current) continue;
        if ((s = store_path(folder, list[i], &path, e))) break;
        if (unlink(path)) s = err_set(e, ST_WRITE, "%s: cannot remove: %s", path, strerror(errno));
        else ++*removed;
        free(path);
    }
    unlock_folder(fd);
    free(list);
    return s;
}
