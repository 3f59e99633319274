#include "json/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct records {
    const char *program;
    const record_opts *o;
    input *in;
    output *out, *errors;
    json doc;
    strv text; /* of the record at hand */
    size_t bad;
    progress bar;
};

status records_open(records **to, const char *program, const record_opts *o, char *const *files, size_t n, err *e) {
    records *r = mem_zero(1, sizeof *r);
    *to = NULL;
    if (!r) return err_memory(e, sizeof *r);
    r->program = program;
    r->o = o;
    status s = record_opts_check(o, e);
    if (!s) s = input_open(&r->in, files, n, e);
    if (!s) s = output_open(&r->out, o->output, o->unbuffered, e);
    if (!s && o->errors) s = output_open(&r->errors, o->errors, true, e);
    if (s) {
        records_close(r, s, e);
        return s;
    }
    progress_start(&r->bar, program, "records", 0, o->progress);
    *to = r;
    return ST_OK;
}

status records_next(records *r, json **rec, err *e) {
    *rec = NULL;
    for (;;) {
        bool more;
        status s = input_next(r->in, &more, &r->text, e);
        if (s || !more) return s;
        if (input_line(r->in) == 1 && strv_starts(r->text, "\xEF\xBB\xBF")) r->text.p += 3, r->text.n -= 3;
        if (strv_trim(r->text).n == 0) continue;
        s = json_parse(&r->doc, r->text.p, r->text.n, e);
        if (!s && json_kind_of(&r->doc, JREF_ROOT) != JSON_OBJECT)
            s = err_set(e, ST_INPUT, "found %s, expected an object", json_kind_name(json_kind_of(&r->doc, JREF_ROOT)));
        if (!s) {
            progress_step(&r->bar, 1);
            *rec = &r->doc;
            return ST_OK;
        }
        if ((s = records_bad(r, e))) return s;
    }
}

record_where records_where(const records *r) {
    return (record_where){input_file(r->in), input_line(r->in)};
}

status records_bad(records *r, err *e) {
    return records_bad_at(r, records_where(r), r->text, e);
}

status record_error_put(output *errors, record_where at, strv raw, const err *reason, err *e) {
    buf b = {0};
    jw w = jw_of(&b);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "error");
    jw_key(&w, "file");
    jw_text(&w, utf8_valid(at.file, strlen(at.file), NULL) ? at.file : NULL);
    if (at.line) {
        jw_key(&w, "line");
        jw_size(&w, at.line);
    }
    jw_key(&w, "status");
    jw_int(&w, reason->status);
    jw_key(&w, "error");
    /* The reason may hold bytes of the input; the errors file must stay JSON. */
    bool clean = utf8_valid(reason->text, strlen(reason->text), NULL);
    jw_text(&w, clean ? reason->text : "the reason holds invalid UTF-8; run without --keep-going to see it");
    if (raw.p) {
        json doc = {0};
        err ignored = {0};
        jw_key(&w, "record");
        if (json_parse(&doc, raw.p, raw.n, &ignored) == ST_OK) jw_raw(&w, raw);
        else if (utf8_valid(raw.p, raw.n, NULL)) jw_view(&w, raw);
        else jw_null(&w);
        json_free(&doc);
    }
    jw_close(&w, '}');
    status s = output_line(errors, &b, e);
    buf_free(&b);
    return s;
}

status record_opts_check(const record_opts *o, err *e) {
    return o->errors && !o->keep_going ? err_set(e, ST_USAGE, "option --errors goes with --keep-going") : ST_OK;
}

status records_bad_at(records *r, record_where at, strv raw, err *e) {
    if (e->status != ST_INPUT && e->status != ST_REFUSED) return e->status;
    if (!r->o->keep_going) return err_prefix(e, "%s:%zu", at.file, at.line);
    r->bad++;
    if (!r->errors) {
        err_prefix(e, "%s:%zu", at.file, at.line);
        err_report(stderr, r->program, e);
        *e = (err){0};
        return ST_OK;
    }
    err reason = *e;
    *e = (err){0};
    return record_error_put(r->errors, at, raw, &reason, e);
}

output *records_output(records *r) {
    return r->out;
}

status records_put(records *r, const buf *record, err *e) {
    return output_line(r->out, record, e);
}

status records_close(records *r, status s, err *e) {
    if (!r) return s;
    if (r->bar.program) progress_end(&r->bar);
    if (s == ST_OK && r->bad) {
        s = ST_PARTIAL;
        err_set(e, s, "%zu bad record%s set aside", r->bad, r->bad == 1 ? " was" : "s were");
    }
    s = output_end(r->out, s, e);
    s = output_end(r->errors, s, e);
    input_close(r->in);
    json_free(&r->doc);
    free(r);
    return s;
}
