#include "base/share.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

static bool try_path(buf *b, const char *dir, const char *sub, const char *file) {
    buf_clear(b);
    buf_printf(b, "%s/%s/%s", dir, sub, file);
    return !b->failed && access(b->p, R_OK) == 0;
}

status share_path(const char *file, char **path, err *e) {
    buf b = {0};
    const char *home = getenv("ANYJEV_SHARE");
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    bool found = false;
    if (home && *home) {
        found = try_path(&b, home, ".", file);
    } else if (n > 0) {
        exe[n] = '\0';
        /* bin/, build/sanitize/bin/, libexec/anyjev-pipe/: a few folders up at most. */
        for (int up = 0; up < 5 && !found; up++) {
            char *slash = strrchr(exe, '/');
            if (!slash || slash == exe) break;
            *slash = '\0';
            found = try_path(&b, exe, "share/anyjev-pipe", file) || try_path(&b, exe, "pipelines", file);
        }
    }
    *path = found ? buf_take(&b) : NULL;
    buf_free(&b);
    if (*path) return ST_OK;
    return err_set(e, ST_INPUT, "cannot find '%s': not in %s; set ANYJEV_SHARE to its folder", file,
                   home && *home ? home : "share/anyjev-pipe or pipelines/ above the program");
}
