/* score: labelled decisions in, metrics out: JSON, Markdown, rows or plots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "json/lines.h"
#include "json/record.h"
#include "kernel/kernel.h"
#include "metrics/merge.h"
#include "metrics/results.h"

typedef struct settings {
    record_opts rec;
    const char *format, *plot, *reversed, *environment;
    size_t bootstrap, seed, threads;
    bool by_group, merge;
} settings;

typedef struct job {
    const settings *o;
    records *r;
    cells all;
    report *reports;
    size_t n;
    results results;
    buf environment;
    err *e;
} job;

static status read_all(job *j) {
    json *rec;
    status s;
    while (!(s = records_next(j->r, &rec, j->e)) && rec)
        if ((s = cells_add(&j->all, rec, j->e)) && (s = records_bad(j->r, j->e))) return s;
    return s;
}

static status take_reversed(void *ctx, const json *doc, err *e) {
    job *j = ctx;
    return cells_reversed(&j->all, doc, e);
}

static status measure_all(job *j) {
    if (!j->all.n)
        return err_set(j->e, ST_INPUT, "no labelled decision (%zu without a label): nothing can be measured", j->all.unlabelled);
    if (!(j->reports = mem_zero(j->all.n, sizeof *j->reports))) return err_memory(j->e, j->all.n * sizeof *j->reports);
    status s = ST_OK;
    for (size_t i = 0; !s && i < j->all.n; i++) {
        if (!j->all.list[i].n) continue; /* all of its decisions were bad */
        s = report_make(&j->reports[j->n], &j->all, &j->all.list[i], &j->results.options, j->o->by_group, j->e);
        if (!s) j->n++;
    }
    j->results.reports = j->reports;
    j->results.n = j->n;
    if (!s && !j->n) s = err_set(j->e, ST_INPUT, "no labelled decision: nothing can be measured");
    return s;
}

static status read_environment(job *j) {
    json doc = {0};
    status s = json_read_file(&doc, &j->environment, j->o->environment, j->e);
    if (!s && json_kind_of(&doc, JREF_ROOT) != JSON_OBJECT) s = err_set(j->e, ST_INPUT, "%s: found %s, expected an object", j->o->environment, json_kind_name(json_kind_of(&doc, JREF_ROOT)));
    if (!s) j->results.environment = json_raw(&doc, JREF_ROOT);
    json_free(&doc);
    return s;
}

/* A question's name as a file name: what is no letter, digit, dot, dash or underscore becomes an underscore. */
static void put_name(buf *out, const char *asked) {
    for (const char *c = asked; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-' || *c == '_' || (*c == '.' && c != asked);
        buf_byte(out, plain ? *c : '_');
    }
}

static status write_plot(job *j, const char *what, const char *asked, status (*draw)(const results *, const char *, buf *, err *)) {
    buf path = {0}, svg = {0};
    buf_printf(&path, "%s/%s.", j->o->plot, what);
    put_name(&path, asked);
    buf_text(&path, ".svg");
    status s = buf_ok(&path, j->e);
    if (!s) s = draw(&j->results, asked, &svg, j->e);
    if (!s) s = file_write(path.p, svg.p, svg.len, j->e);
    buf_free(&path);
    buf_free(&svg);
    return s;
}

static status write_plots(job *j) {
    status s = ST_OK;
    if (mkdir(j->o->plot, 0777) && errno != EEXIST) return err_set(j->e, ST_WRITE, "%s: cannot make the folder: %s", j->o->plot, strerror(errno));
    for (size_t i = 0; !s && i < j->n; i++) {
        const char *asked = j->reports[i].cell->question;
        size_t first = 0;
        while (strcmp(j->reports[first].cell->question, asked) != 0) first++;
        if (first != i) continue;
        s = write_plot(j, "reliability", asked, plot_reliability);
        if (!s) s = write_plot(j, "risk-coverage", asked, plot_risk_coverage);
    }
    return s;
}

static status write_report(job *j) {
    buf out = {0};
    const char *f = j->o->format;
    status s = strcmp(f, "json") == 0 ? results_json(&j->results, &out, j->e)
               : strcmp(f, "md") == 0 ? results_markdown(&j->results, &out, j->e)
                                      : results_tsv(&j->results, &out, j->e);
    while (out.len && out.p[out.len - 1] == '\n') out.p[--out.len] = '\0';
    if (!s) s = records_put(j->r, &out, j->e);
    buf_free(&out);
    return s;
}

/* results records in, one table out. */
static status merge_all(job *j) {
    merge m = {0};
    buf out = {0};
    json *rec;
    status s;
    while (!(s = records_next(j->r, &rec, j->e)) && rec)
        if ((s = merge_add(&m, rec, j->e)) && (s = records_bad(j->r, j->e))) break;
    if (!s && !m.n) s = err_set(j->e, ST_INPUT, "no results record: nothing can be merged");
    if (!s) s = merge_put(&m, j->o->format, &out, j->e);
    while (out.len && out.p[out.len - 1] == '\n') out.p[--out.len] = '\0';
    if (!s) s = records_put(j->r, &out, j->e);
    buf_free(&out);
    merge_free(&m);
    return s;
}

static status score_all(job *j) {
    status s = j->o->reversed ? json_lines(j->o->reversed, take_reversed, j, j->e) : ST_OK;
    if (!s) s = read_all(j);
    if (!s) s = measure_all(j);
    if (!s && j->o->plot) s = write_plots(j);
    return s ? s : write_report(j);
}

static void say_notes(const job *j) {
    if (j->all.unlabelled) fprintf(stderr, "score: %zu decisions without a label were left out\n", j->all.unlabelled);
    for (size_t i = 0; i < j->n; i++)
        if (j->reports[i].negatives < METRIC_NEGATIVES)
            fprintf(stderr, "score: %s at %s rests on %zu negatives (fewer than %d)\n", j->reports[i].cell->question, j->reports[i].cell->level, j->reports[i].negatives, METRIC_NEGATIVES);
}

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "format", .letter = 'f', .kind = OPT_CHOICE, .arg = "FORMAT", .to = &o.format, .initial = "json", .choices = "json|md|tsv",
         .help = "a results record, a report to read, or one row per figure"},
        {.name = "plot", .kind = OPT_TEXT, .arg = "DIR", .to = &o.plot, .help = "also write reliability and risk-coverage diagrams into DIR, as SVG"},
        {.name = "bootstrap", .kind = OPT_SIZE, .arg = "N", .to = &o.bootstrap, .initial = "0", .max = 1000000,
         .help = "resamples of the groups for the intervals; 0 takes 1000, fewer for cells of more than 50,000 decisions"},
        {.name = "seed", .kind = OPT_SIZE, .arg = "N", .to = &o.seed, .initial = "0", .help = "seed of the resampling"},
        {.name = "threads", .letter = 't', .kind = OPT_SIZE, .arg = "N", .to = &o.threads, .initial = "0", .max = 1024,
         .help = "threads; 0 means all cores that this process may use; the figures do not depend on it"},
        {.name = "by-group", .kind = OPT_FLAG, .to = &o.by_group, .help = "also the figures of every group alone"},
        {.name = "reversed", .kind = OPT_TEXT, .arg = "FILE", .to = &o.reversed,
         .help = "decisions on the same items with the options listed in reverse: how many answers differ"},
        {.name = "merge", .kind = OPT_FLAG, .to = &o.merge, .help = "the input is results records: put them into one table (4 when their questions differ)"},
        {.name = "environment", .kind = OPT_TEXT, .arg = "FILE", .to = &o.environment, .help = "a JSON object that the results carry along"},
        RECORD_OPTIONS(o.rec),
    };
    const opt_program program = {.name = "score", .operands = "[FILE ...]", .summary = "labelled decisions to metrics, with baselines and intervals",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "example:\n  score --format md --plot plots decisions.jsonl\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    j.results = (results){.cells = &j.all, .options = {.replicates = o.bootstrap, .seed = o.seed}};
    kernel *threads = NULL;
    status s = kernel_open(&threads, KERNEL_REF, (unsigned)o.threads, &e);
    j.results.options.kernel = threads;
    if (!s && o.environment) s = read_environment(&j);
    if (!s) s = records_open(&j.r, program.name, &o.rec, rest.files, rest.n, &e);
    if (!s) s = o.merge ? merge_all(&j) : score_all(&j);
    if (!s) say_notes(&j);
    s = records_close(j.r, s, &e);
    for (size_t i = 0; i < j.n; i++) report_free(&j.reports[i]);
    free(j.reports);
    cells_free(&j.all);
    buf_free(&j.environment);
    kernel_close(threads);
    return opt_finish(&program, s, &e);
}
