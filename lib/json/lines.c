#include "json/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

status json_lines(const char *path, json_take *take, void *ctx, err *e) {
    char *name = mem_text(path, strlen(path)), *files[] = {name};
    input *in = NULL;
    json doc = {0};
    bool more = true;
    status s = name ? input_open(&in, files, 1, e) : err_memory(e, strlen(path));
    while (!s && more) {
        strv line;
        if ((s = input_next(in, &more, &line, e)) || !more || !strv_trim(line).n) continue;
        s = json_parse(&doc, line.p, line.n, e);
        if (!s) s = take(ctx, &doc, e);
        if (s) err_prefix(e, "%s:%zu", path, input_line(in));
    }
    json_free(&doc);
    input_close(in);
    free(name);
    return s;
}
