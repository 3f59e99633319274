/* opt.h: the one option table of a program. The parser, --help and (through --help) the test against
 * the man page read the same table; defaults are set from it too, so that they cannot disagree. */
#ifndef ANYJEV_BASE_OPT_H
#define ANYJEV_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

typedef enum opt_kind {
    OPT_FLAG,   /* bool * */
    OPT_TEXT,   /* const char ** (points into argv; NULL when it has no default and was not given) */
    OPT_SIZE,   /* size_t *, in [min, max] */
    OPT_REAL,   /* double *, in [min, max]; NaN when it has no default and was not given */
    OPT_CHOICE, /* const char **, one of `choices` (separated by "|") */
    OPT_LIST    /* opt_list *, may be given again and again */
} opt_kind;

typedef struct opt_list {
    const char **items; /* point into argv; the array is freed by opt_list_free */
    size_t n;
} opt_list;

typedef struct opt_def {
    const char *name; /* without the dashes */
    char letter;      /* or 0 */
    opt_kind kind;
    const char *arg;     /* name of the argument in --help, NULL for flags */
    void *to;            /* where the value goes, by kind */
    const char *initial; /* default as it would be typed, or NULL */
    double min, max;     /* OPT_SIZE, OPT_REAL; max 0 with OPT_SIZE means no bound */
    const char *choices;
    const char *help; /* lower case, no full stop; the default is added to it */
} opt_def;

typedef struct opt_program {
    const char *name;
    const char *operands; /* "[FILE ...]" */
    const char *summary;  /* one line */
    const opt_def *opts;
    size_t n_opts;
    const char *notes; /* examples, at the end of --help; may be NULL */
} opt_program;

typedef enum opt_action { OPT_RUN, OPT_HELP, OPT_VERSION } opt_action;

typedef struct opt_rest {
    opt_action action;
    char **files; /* operands, in order; point into argv */
    size_t n;
} opt_rest;

/* Sets defaults, then reads argv (reordered: options may follow operands; "--" ends them; long options
 * as --name VALUE or --name=VALUE, short ones clustered). -h, --help and --version are known to all. */
status opt_parse(const opt_program *p, int argc, char **argv, opt_rest *rest, err *e);
void opt_help(const opt_program *p, FILE *to);
void opt_version(const opt_program *p, FILE *to);
void opt_list_free(opt_list *l);

/* What a main does first: parse; print help or version when asked. *go tells whether to go on, otherwise
 * main returns *exit_status. A mistake in the usage is reported on stderr. */
void opt_begin(const opt_program *p, int argc, char **argv, opt_rest *rest, bool *go, int *exit_status);
/* What a main does last: reports e if s is an error (ST_PARTIAL too when e has a text); the exit status. */
int opt_finish(const opt_program *p, status s, const err *e);

#endif
