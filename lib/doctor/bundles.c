/* What was learnt from labels and is in service: does it read, and was it fitted on this model? */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/share.h"
#include "bundle/bundle.h"
#include "doctor/doctor.h"
#include "question/registry.h"

typedef struct shelf {
    findings *r;
    const char *fingerprint; /* of the model here */
    char lock[SHA256_HEX_SIZE];
    size_t seen, fit;
} shelf;

static void look_at(shelf *f, const char *folder) {
    char *file = NULL;
    bundle b = {0};
    json d = {0};
    err why = {0};
    status s = bundle_locate(folder, &file, &why);
    if (!s) s = bundle_read(&b, file, &why);
    if (!s) s = json_parse(&d, b.identity, strlen(b.identity), &why);
    f->seen++;
    if (s) {
        findings_put(f->r, FINDING_FAIL, "bundle", "bundle-pack verify, then rollback", "%s", why.text);
    } else if (!json_is(&d, json_get(&d, JREF_ROOT, "fingerprint"), f->fingerprint)) {
        findings_put(f->r, FINDING_OK, "bundle", NULL, "%s: of another model", file);
    } else if (strcmp(b.lock_sha, f->lock) != 0) {
        findings_put(f->r, FINDING_WARN, "bundle", "fit again: questions were edited", "%s: fitted on this model, under other questions (lock %.8s)", file, b.lock_sha);
    } else {
        f->fit++;
        findings_put(f->r, FINDING_OK, "bundle", NULL, "%s: fitted on this model, %zu artifact%s", file, b.n, b.n == 1 ? "" : "s");
    }
    bundle_free(&b);
    json_free(&d);
    free(file);
}

/* home/<model>/<lock>/CURRENT */
static void walk(shelf *f, const char *folder, int depth) {
    buf path = {0};
    buf_printf(&path, "%s/CURRENT", folder);
    if (!path.failed && access(path.p, F_OK) == 0) look_at(f, folder);
    DIR *d = depth < 2 ? opendir(folder) : NULL;
    for (struct dirent *x; d && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        buf_clear(&path);
        buf_printf(&path, "%s/%s", folder, x->d_name);
        if (!path.failed) walk(f, path.p, depth + 1);
    }
    if (d) closedir(d);
    buf_free(&path);
}

void doctor_bundles(findings *r, const char *home, const char *fingerprint) {
    shelf f = {.r = r, .fingerprint = fingerprint};
    registry q = {0};
    char *path = NULL;
    err why = {0};
    status s = share_path("questions.json", &path, &why);
    if (!s) s = registry_load(&q, path, &why);
    if (s) findings_put(r, FINDING_NOT_RUN, "bundle", NULL, "%s", why.text);
    else {
        memcpy(f.lock, q.lock_sha, sizeof f.lock);
        walk(&f, home, 0);
        if (!f.seen) findings_put(r, FINDING_OK, "bundle", NULL, "none is in service in %s: levels raw and L0 only", home);
    }
    registry_free(&q);
    free(path);
}
