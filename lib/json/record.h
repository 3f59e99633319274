/* record.h: the record loop that all filters share: JSON Lines in, the rule for bad records, JSON Lines
 * out. The rule stands here and nowhere else: the first bad record ends the run with its status; with
 * --keep-going it goes to the file of --errors (or to stderr) with its place and reason, the others are
 * done, and the run ends in ST_PARTIAL. */
#ifndef ANYJEV_JSON_RECORD_H
#define ANYJEV_JSON_RECORD_H

#include "base/io.h"
#include "base/opt.h"
#include "base/progress.h"
#include "json/json.h"

/* What RECORD_OPTIONS fills. */
typedef struct record_opts {
    bool keep_going, progress, unbuffered;
    const char *errors, *output;
} record_opts;

/* Rows for a program's option table; o is a record_opts. OUTPUT_OPTIONS alone is for programs that read no records. */
#define RECORD_OPTIONS(o) OUTPUT_OPTIONS(o), {.name = "unbuffered", .kind = OPT_FLAG, .to = &(o).unbuffered, .help = "hand on every record at once"}
#define OUTPUT_OPTIONS(o)                                                                                            \
    {.name = "output", .letter = 'o', .kind = OPT_TEXT, .arg = "FILE", .to = &(o).output,                            \
     .help = "write to FILE, which appears whole or not at all, instead of standard output"},                        \
        {.name = "keep-going", .letter = 'k', .kind = OPT_FLAG, .to = &(o).keep_going,                               \
         .help = "set bad records aside and do the others; exit 1 then"},                                            \
        {.name = "errors", .kind = OPT_TEXT, .arg = "FILE", .to = &(o).errors,                                       \
         .help = "with --keep-going: write bad records to FILE with their line and reason"},                         \
        {.name = "progress", .kind = OPT_FLAG, .to = &(o).progress,                                                  \
         .help = "show progress on standard error even if that is no terminal"}

/* Where a record stood; file is valid as long as the file names given to records_open. */
typedef struct record_where {
    const char *file;
    size_t line;
} record_where;

typedef struct records records;

/* Opens input, output and the errors file. o and files must outlive it. */
status records_open(records **r, const char *program, const record_opts *o, char *const *files, size_t n, err *e);

/* The next record, an object, parsed; valid until the next call. *rec is NULL at the end. Blank lines are
 * passed over; a line that is no object falls under the rule. */
status records_next(records *r, json **rec, err *e);

record_where records_where(const records *r); /* of the record at hand */

/* The record at hand (or, later, the one that stood at `at` with the text `raw`) is bad for the reason in
 * e: ST_OK means that it was set aside and the run goes on; otherwise e names file and line. Only
 * ST_INPUT and ST_REFUSED can be set aside: other failures end the run. */
status records_bad(records *r, err *e);
status records_bad_at(records *r, record_where at, strv raw, err *e);

/* The record of the errors file for `reason`: at.line 0 and raw.p NULL are left out. */
status record_error_put(output *errors, record_where at, strv raw, const err *reason, err *e);
/* --errors without --keep-going is a usage error. */
status record_opts_check(const record_opts *o, err *e);

output *records_output(records *r); /* owned by the records */
status records_put(records *r, const buf *record, err *e); /* writes a line */

/* Completes output and errors file when s is ST_OK, gives them up otherwise; frees. Returns s, or
 * ST_PARTIAL when records were set aside (e then says how many), or the failure to write. */
status records_close(records *r, status s, err *e);

#endif
