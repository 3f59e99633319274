#include "weights/locate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"

static status cache_dir(buf *dir, err *e) {
    const char *hub = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *user = getenv("HOME");
    if (hub && *hub) buf_text(dir, hub);
    else if (home && *home) buf_printf(dir, "%s/hub", home);
    else buf_printf(dir, "%s/.cache/huggingface/hub", user ? user : "");
    return buf_ok(dir, e);
}

/* refs/main holds the hex digits of a revision. */
static bool revision_ok(strv r) {
    for (size_t i = 0; i < r.n; i++)
        if (!strchr("0123456789abcdef", r.p[i])) return false;
    return r.n > 0;
}

status model_locate(const char *name, char **path, err *e) {
    *path = NULL;
    if (access(name, F_OK) == 0) {
        *path = mem_text(name, strlen(name));
        return *path ? ST_OK : err_memory(e, strlen(name));
    }
    const char *slash = strchr(name, '/');
    bool plausible = slash && slash != name && slash[1] && !strchr(slash + 1, '/') && name[0] != '.' && slash[1] != '.';
    if (!plausible) return err_set(e, ST_INPUT, "model '%s': no such file or folder", name);
    buf dir = {0}, ref = {0}, text = {0};
    status s = cache_dir(&dir, e);
    buf_printf(&dir, "/models--%.*s--%s", (int)(slash - name), name, slash + 1);
    buf_printf(&ref, "%s/refs/main", dir.p ? dir.p : "");
    if (!s) s = buf_ok(&ref, e);
    if (!s && access(ref.p, F_OK) != 0) s = err_set(e, ST_INPUT, "model '%s': no such file or folder, and not in the Hugging Face cache (%s)", name, dir.p);
    if (!s) s = file_read(ref.p, &text, e);
    strv revision = strv_trim(buf_strv(&text));
    if (!s && !revision_ok(revision)) s = err_set(e, ST_INPUT, "%s: expected a revision", ref.p);
    if (!s) {
        buf_printf(&dir, "/snapshots/%.*s", (int)revision.n, revision.p);
        *path = buf_take(&dir);
        if (!*path) s = err_memory(e, 1);
        else if (access(*path, F_OK) != 0) {
            s = err_set(e, ST_INPUT, "model '%s': its snapshot %s is missing", name, *path);
            free(*path);
            *path = NULL;
        }
    }
    buf_free(&dir);
    buf_free(&ref);
    buf_free(&text);
    return s;
}
