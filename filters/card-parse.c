/* card-parse: dataset cards (Markdown) in, one card record per card out. */
#include <string.h>

#include "base/io.h"
#include "base/opt.h"
#include "base/progress.h"
#include "card/card.h"
#include "json/json.h"

typedef struct settings {
    const char *output, *errors;
    bool strict, keep_going, progress;
} settings;

static status note_bad(output *errors, const char *file, const err *why, err *e) {
    buf b = {0};
    jw w = jw_of(&b);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "error");
    jw_key(&w, "file");
    jw_text(&w, utf8_valid(file, strlen(file), NULL) ? file : NULL);
    jw_key(&w, "status");
    jw_int(&w, why->status);
    jw_key(&w, "error");
    jw_text(&w, utf8_valid(why->text, strlen(why->text), NULL) ? why->text : "(not UTF-8)");
    jw_close(&w, '}');
    status s = output_line(errors, &b, e);
    buf_free(&b);
    return s;
}

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
        {.name = "output", .letter = 'o', .kind = OPT_TEXT, .arg = "FILE", .to = &o.output,
         .help = "write to FILE, which appears whole or not at all, instead of standard output"},
        {.name = "keep-going", .letter = 'k', .kind = OPT_FLAG, .to = &o.keep_going, .help = "set bad cards aside and do the others; exit 1 then"},
        {.name = "errors", .kind = OPT_TEXT, .arg = "FILE", .to = &o.errors, .help = "with --keep-going: write what was bad to FILE"},
        {.name = "progress", .kind = OPT_FLAG, .to = &o.progress, .help = "show progress on standard error even if that is no terminal"},
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
    status s = o.errors && !o.keep_going ? err_set(&e, ST_USAGE, "option --errors goes with --keep-going") : ST_OK;
    if (!s) s = output_open(&out, o.output, false, &e);
    if (!s && o.errors) s = output_open(&errors, o.errors, true, &e);
    char dash[] = "-", *only[] = {dash};
    char **files = rest.n ? rest.files : only;
    size_t n = rest.n ? rest.n : 1;
    progress bar;
    progress_start(&bar, program.name, "cards", n, o.progress);
    for (size_t i = 0; !s && i < n; i++, progress_step(&bar, 1)) {
        s = one_card(&o, files[i], out, &e);
        if (s != ST_INPUT || !o.keep_going) continue;
        n_bad++;
        if (errors) {
            err why = e;
            s = note_bad(errors, files[i], &why, &e);
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
