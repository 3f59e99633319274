/* card-parse: dataset cards (Markdown) in, one card record per card out. */
#include <string.h>

#include "card/card.h"
#include "json/record.h"

typedef struct settings {
    record_opts out;
    bool strict;
} settings;

static status one_card(const settings *o, const char *path, output *out, err *e) {
    buf text = {0}, line = {0};
    const char *name = strcmp(path, "-") == 0 ? "(standard input)" : path;
    status s = file_read(path, &text, e);
    if (!s) s = card_parse(buf_strv(&text), name, o->strict, &line, e);
    if (!s) s = output_line(out, &line, e);
    buf_free(&text);
    buf_free(&line);
    return s;
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "strict", .kind = OPT_FLAG, .to = &o.strict, .help = "refuse lines that are no part of a card, and cards without product or rows"},
        OUTPUT_OPTIONS(o.out),
    };
    const opt_program program = {.name = "card-parse", .operands = "[CARD ...]", .summary = "dataset cards to card records, one per card",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  card-parse cards/*.md | jq -r '.table, (.columns[] | \"  \" + .name)'\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    output *out = NULL, *errors = NULL;
    size_t n_bad = 0;
    status s = record_opts_check(&o.out, &e);
    if (!s) s = output_open(&out, o.out.output, false, &e);
    if (!s && o.out.errors) s = output_open(&errors, o.out.errors, true, &e);
    char dash[] = "-", *only[] = {dash};
    char **files = rest.n ? rest.files : only;
    size_t n = rest.n ? rest.n : 1;
    progress bar;
    progress_start(&bar, program.name, "cards", n, o.out.progress);
    for (size_t i = 0; !s && i < n; i++, progress_step(&bar, 1)) {
        s = one_card(&o, files[i], out, &e);
        if (s != ST_INPUT || !o.out.keep_going) continue;
        n_bad++;
        if (errors) {
            err why = e;
            s = record_error_put(errors, (record_where){files[i], 0}, (strv){NULL, 0}, &why, &e);
        } else {
            err_report(stderr, program.name, &e);
            s = ST_OK;
        }
    }
    progress_end(&bar);
    if (!s && n_bad) s = err_set(&e, ST_PARTIAL, "%zu bad card%s set aside", n_bad, n_bad == 1 ? " was" : "s were");
    s = output_end(out, s, &e);
    s = output_end(errors, s, &e);
    return opt_finish(&program, s, &e);
}
