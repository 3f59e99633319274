#include "base/err.h"

#include <stdarg.h>
#include <string.h>

/* Cuts a text that vsnprintf had to shorten, never inside a UTF-8 character. */
static void err_cut(char *text, size_t size) {
    size_t n = size - 4;
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
    memcpy(text + n, "...", 4);
}

status err_set(err *e, status s, const char *fmt, ...) {
    char text[ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) strcpy(text, "error");
    else if ((size_t)n >= sizeof text) err_cut(text, sizeof text);
    memcpy(e->text, text, strlen(text) + 1);
    e->status = s;
    return s;
}

status err_prefix(err *e, const char *fmt, ...) {
    char head[ERR_TEXT_MAX], old[ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    if (n < 0) return e->status;
    if ((size_t)n >= sizeof head) err_cut(head, sizeof head);
    memcpy(old, e->text, strlen(e->text) + 1);
    n = snprintf(e->text, sizeof e->text, "%s: %s", head, old);
    if (n < 0 || (size_t)n >= sizeof e->text) err_cut(e->text, sizeof e->text);
    return e->status;
}

status err_memory(err *e, size_t bytes) {
    return err_set(e, ST_INCOMPLETE, "cannot allocate %zu bytes of memory", bytes);
}

int err_report(FILE *to, const char *program, const err *e) {
    fprintf(to, "%s: ", program);
    for (const char *p = e->text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7F) fprintf(to, "\\x%02x", c);
        else fputc(c, to);
    }
    fputc('\n', to);
    return (int)e->status;
}
