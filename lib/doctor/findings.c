#include "doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>

#include "json/json.h"

static void emit(findings *r) {
    if (!r->status) r->status = output_line(r->out, &r->line, r->e);
    if (!r->status) r->status = output_flush(r->out, r->e);
}

/* What came from servers and files may hold anything. */
static void clean(char *s) {
    size_t at, n = 0;
    while (s[n]) n++;
    if (!utf8_valid(s, n, &at)) s[at] = '\0';
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7F) *s = ' ';
}

void findings_put(findings *r, finding f, const char *check, const char *remedy, const char *says, ...) {
    static const char *const words[] = {"ok", "warn", "FAIL", "FAIL"};
    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, says);
    int n = vsnprintf(text, sizeof text, says, args);
    va_end(args);
    if (n < 0) text[0] = '\0';
    clean(text);
    r->count[f]++;
    buf_clear(&r->line);
    if (!r->json) {
        buf_printf(&r->line, "%-5s %-13s %s%s", words[f], check, f == FINDING_NOT_RUN ? "not run: " : "", text);
        if (remedy) buf_printf(&r->line, "; %s", remedy);
    } else {
        static const char *const results[] = {"ok", "warn", "fail", "fail"};
        jw w = jw_of(&r->line);
        jw_open(&w, '{');
        jw_key(&w, "type");
        jw_text(&w, "check");
        jw_key(&w, "check");
        jw_text(&w, check);
        jw_key(&w, "result");
        jw_text(&w, results[f]);
        jw_key(&w, "ran");
        jw_bool(&w, f != FINDING_NOT_RUN);
        jw_key(&w, "says");
        jw_text(&w, text);
        jw_key(&w, "remedy");
        jw_text(&w, remedy);
        jw_close(&w, '}');
    }
    emit(r);
}

void findings_end(findings *r, const char *backend) {
    size_t failed = r->count[FINDING_FAIL] + r->count[FINDING_NOT_RUN];
    buf_clear(&r->line);
    if (!r->json) {
        buf_printf(&r->line, "%s: %zu ok, %zu to look at, %zu failed", findings_passed(r) ? "passed" : "FAILED", r->count[FINDING_OK], r->count[FINDING_WARN], failed);
        if (r->count[FINDING_NOT_RUN]) buf_printf(&r->line, " (%zu of them could not run)", r->count[FINDING_NOT_RUN]);
    } else {
        jw w = jw_of(&r->line);
        jw_open(&w, '{');
        jw_key(&w, "type");
        jw_text(&w, "doctor");
        jw_key(&w, "backend");
        jw_text(&w, backend);
        jw_key(&w, "passed");
        jw_bool(&w, findings_passed(r));
        jw_key(&w, "ok");
        jw_size(&w, r->count[FINDING_OK]);
        jw_key(&w, "warn");
        jw_size(&w, r->count[FINDING_WARN]);
        jw_key(&w, "fail");
        jw_size(&w, failed);
        jw_key(&w, "not_run");
        jw_size(&w, r->count[FINDING_NOT_RUN]);
        jw_close(&w, '}');
    }
    emit(r);
}

bool findings_passed(const findings *r) {
    return r->count[FINDING_FAIL] + r->count[FINDING_NOT_RUN] == 0;
}

void findings_free(findings *r) {
    buf_free(&r->line);
}
