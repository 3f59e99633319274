#include "bundle/bundle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"

void bundle_free(bundle *b) {
    for (size_t i = 0; i < b->n; i++) artifact_free(&b->artifacts[i]);
    free(b->artifacts);
    free(b->path);
    free(b->manifest);
    free(b->lock_sha);
    free(b->identity);
    buf_free(&b->artifact_lines);
    buf_free(&b->observations);
    *b = (bundle){0};
}

static status read_manifest(bundle *b, strv line, strv rest, err *e) {
    json doc = {0};
    char hex[SHA256_HEX_SIZE];
    status s = json_parse(&doc, line.p, line.n, e);
    if (!s && !json_is(&doc, json_get(&doc, JREF_ROOT, "type"), "bundle")) s = err_set(e, ST_INPUT, "expected a manifest of type 'bundle' in the first line");
    if (!s) s = json_text_copy(&doc, json_get(&doc, JREF_ROOT, "lock_sha"), "lock_sha", &b->lock_sha, e);
    if (!s) s = json_size(&doc, json_get(&doc, JREF_ROOT, "version"), "version", &b->version, e);
    if (!s) s = sha256_hex(rest.p, rest.n, hex, e);
    if (!s && !json_is(&doc, json_get(&doc, JREF_ROOT, "sha256"), hex)) s = err_set(e, ST_INPUT, "the content is not what the manifest's hash says");
    strv identity = json_raw(&doc, json_get(&doc, JREF_ROOT, "identity"));
    if (!s && (!(b->identity = mem_text(identity.p, identity.n)) || !(b->manifest = mem_text(line.p, line.n)))) s = err_memory(e, line.n);
    json_free(&doc);
    return s;
}

static status take_line(bundle *b, strv line, err *e) {
    json doc = {0};
    status s = json_parse(&doc, line.p, line.n, e);
    jref type = json_get(&doc, JREF_ROOT, "type");
    buf *to = &b->observations;
    if (!s && json_is(&doc, type, "artifact")) {
        to = &b->artifact_lines;
        if (!mem_grow((void **)&b->artifacts, &b->cap, b->n + 1, sizeof *b->artifacts)) s = err_memory(e, (b->n + 1) * sizeof *b->artifacts);
        if (!s && !(s = artifact_read(&b->artifacts[b->n], &doc, JREF_ROOT, e))) b->n++;
    } else if (!s && !json_is(&doc, type, "observation")) {
        s = err_set(e, ST_INPUT, "expected records of type 'artifact' and 'observation'");
    }
    buf_view(to, line);
    buf_byte(to, '\n');
    json_free(&doc);
    return s ? s : buf_ok(to, e);
}

static status read_text(bundle *b, strv text, err *e) {
    strv rest = text, line = strv_line(&rest);
    status s = read_manifest(b, line, rest, e);
    for (size_t number = 2; !s && rest.n; number++)
        if ((s = take_line(b, strv_line(&rest), e))) err_prefix(e, "line %zu", number);
    return s;
}

status bundle_read(bundle *b, const char *path, err *e) {
    buf text = {0};
    struct stat st;
    size_t n = strlen(path);
    if (n < 4 || strcmp(path + n - 4, ".zst") != 0) return err_set(e, ST_INPUT, "%s: a bundle's name ends in .jsonl.zst", path);
    if (stat(path, &st)) return err_set(e, ST_INPUT, "%s: no such bundle", path);
    status s = file_read_zst(path, &text, e);
    if (!s && (s = read_text(b, buf_strv(&text), e))) err_prefix(e, "%s", path);
    if (!s && !(b->path = mem_text(path, n))) s = err_memory(e, n);
    buf_free(&text);
    if (s) bundle_free(b);
    return s;
}

status bundle_locate(const char *path, char **file, err *e) {
    struct stat st;
    size_t version = 0;
    if (stat(path, &st)) return err_set(e, ST_INPUT, "%s: no such bundle or folder of bundles", path);
    if (!S_ISDIR(st.st_mode)) {
        *file = mem_text(path, strlen(path));
        return *file ? ST_OK : err_memory(e, strlen(path));
    }
    status s = store_current(path, &version, e);
    if (!s && !version) s = err_set(e, ST_REFUSED, "%s: no version is in service (bundle-pack promote puts one there)", path);
    return s ? s : store_path(path, version, file, e);
}

status bundle_name(const bundle *b, buf *out, err *e) {
    json doc = {0};
    status s = json_parse(&doc, b->manifest, strlen(b->manifest), e);
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "version");
    jw_size(&w, b->version);
    jw_key(&w, "sha256");
    if (!s) jw_raw(&w, json_raw(&doc, json_get(&doc, JREF_ROOT, "sha256")));
    jw_key(&w, "lock_sha");
    jw_text(&w, b->lock_sha);
    jw_close(&w, '}');
    json_free(&doc);
    return s ? s : buf_ok(out, e);
}
