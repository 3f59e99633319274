#include <sys/stat.h>

#include "base/io.h"
#include "model/config.h"

status config_of_model(const char *path, model_config *c, err *e) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        gguf *g = NULL;
        status s = gguf_open(&g, path, e);
        if (!s && (s = config_read_gguf(c, g, e))) err_prefix(e, "%s", path);
        gguf_close(g);
        return s;
    }
    buf name = {0}, text = {0};
    buf_printf(&name, "%s/config.json", path);
    status s = buf_ok(&name, e);
    if (!s) s = file_read(name.p, &text, e);
    if (!s && (s = config_read_json(c, buf_strv(&text), e))) err_prefix(e, "%s", name.p);
    buf_free(&name);
    buf_free(&text);
    return s;
}
