#include "base/opt.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/version.h"

/* Known to every program; their action stands in for a place to store to. */
static const opt_def opt_common[] = {
    {.name = "help", .letter = 'h', .kind = OPT_FLAG, .help = "print this help and exit"},
    {.name = "version", .kind = OPT_FLAG, .help = "print the version and exit"},
};
enum { N_COMMON = sizeof opt_common / sizeof *opt_common };

static const opt_def *opt_at(const opt_program *p, size_t i) {
    return i < p->n_opts ? &p->opts[i] : &opt_common[i - p->n_opts];
}

static const opt_def *opt_find(const opt_program *p, const char *name, size_t n, char letter) {
    for (size_t i = 0; i < p->n_opts + N_COMMON; i++) {
        const opt_def *o = opt_at(p, i);
        if (letter ? o->letter == letter : strlen(o->name) == n && memcmp(o->name, name, n) == 0) return o;
    }
    return NULL;
}

static bool choice_has(const char *choices, const char *value) {
    size_t n = strlen(value);
    for (const char *c = choices; n && *c;) {
        size_t k = strcspn(c, "|");
        if (k == n && memcmp(c, value, n) == 0) return true;
        c += k + (c[k] == '|');
    }
    return false;
}

static status opt_store(const opt_def *o, const char *value, err *e) {
    char what[80];
    snprintf(what, sizeof what, "option --%s", o->name);
    switch (o->kind) {
    case OPT_FLAG: *(bool *)o->to = true; return ST_OK;
    case OPT_TEXT: *(const char **)o->to = value; return ST_OK;
    case OPT_SIZE:
        return num_size(value, (size_t)o->min, o->max > 0 ? (size_t)o->max : SIZE_MAX, what, o->to, e);
    case OPT_REAL: return num_real(value, o->min, o->max, what, o->to, e);
    case OPT_CHOICE:
        if (!choice_has(o->choices, value))
            return err_set(e, ST_USAGE, "%s '%s': expected %s", what, value, o->choices);
        *(const char **)o->to = value;
        return ST_OK;
    case OPT_LIST: {
        opt_list *l = o->to;
        const char **items = mem_resize(l->items, l->n + 1, sizeof *items);
        if (!items) return err_memory(e, (l->n + 1) * sizeof *items);
        l->items = items;
        l->items[l->n++] = value;
        return ST_OK;
    }
    }
    return ST_OK;
}

static status opt_defaults(const opt_program *p, err *e) {
    for (size_t i = 0; i < p->n_opts; i++) {
        const opt_def *o = &p->opts[i];
        if (o->kind == OPT_FLAG) *(bool *)o->to = false;
        else if (o->kind == OPT_LIST) *(opt_list *)o->to = (opt_list){0};
        else if (o->initial) {
            status s = opt_store(o, o->initial, e);
            if (s) return s;
        } else if (o->kind == OPT_TEXT || o->kind == OPT_CHOICE) *(const char **)o->to = NULL;
        else if (o->kind == OPT_SIZE) *(size_t *)o->to = 0;
        else *(double *)o->to = NAN; /* not given */
    }
    return ST_OK;
}

static bool opt_is_common(const opt_def *o) {
    return o >= opt_common && o < opt_common + N_COMMON;
}

status opt_parse(const opt_program *p, int argc, char **argv, opt_rest *rest, err *e) {
    status s = opt_defaults(p, e);
    if (s) return s;
    *rest = (opt_rest){.action = OPT_RUN, .files = argv + 1};
    bool only_files = false;
    for (int i = 1; i < argc; i++) {
        char *a = argv[i];
        if (only_files || a[0] != '-' || a[1] == '\0') {
            rest->files[rest->n++] = a; /* n never passes i: the slot was read already */
            continue;
        }
        if (strcmp(a, "--") == 0) {
            only_files = true;
            continue;
        }
        bool is_long = a[1] == '-';
        const char *q = a + 1 + is_long;
        do {
            size_t n = is_long ? strcspn(q, "=") : 1;
            const opt_def *o = opt_find(p, q, n, is_long ? 0 : *q);
            if (!o) return err_set(e, ST_USAGE, "unknown option '%s%.*s'; try --help", is_long ? "--" : "-", (int)n, q);
            q += n;
            if (o->kind == OPT_FLAG) {
                if (is_long && *q) return err_set(e, ST_USAGE, "option --%s takes no value", o->name);
                if (opt_is_common(o)) {
                    rest->action = o == &opt_common[0] ? OPT_HELP : OPT_VERSION;
                    return ST_OK;
                }
                if ((s = opt_store(o, NULL, e))) return s;
                continue;
            }
            const char *value = is_long ? (*q == '=' ? q + 1 : NULL) : (*q ? q : NULL);
            if (!value && ++i < argc) value = argv[i];
            if (!value) return err_set(e, ST_USAGE, "option --%s needs a value (%s)", o->name, o->arg);
            if ((s = opt_store(o, value, e))) return s;
            break;
        } while (!is_long && *q);
    }
    return ST_OK;
}

void opt_help(const opt_program *p, FILE *to) {
    fprintf(to, "usage: %s [OPTION ...]%s%s\n%s\n\noptions:\n", p->name, *p->operands ? " " : "", p->operands, p->summary);
    for (size_t i = 0; i < p->n_opts + N_COMMON; i++) {
        const opt_def *o = opt_at(p, i);
        char head[80];
        if (o->letter) snprintf(head, sizeof head, "-%c, --%s%s%s", o->letter, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        else snprintf(head, sizeof head, "    --%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        fprintf(to, "  %-30s%s%s", head, strlen(head) >= 30 ? "\n                                " : "", o->help);
        if (o->choices) fprintf(to, "; one of %s", o->choices);
        if (o->initial) fprintf(to, " (default: %s)", o->initial);
        fputc('\n', to);
    }
    if (p->notes) fprintf(to, "\n%s", p->notes);
}

void opt_version(const opt_program *p, FILE *to) {
    fprintf(to, "%s (anyjev-pipe) %s, commit %.12s%s, built with %s\n", p->name, version_number(), version_commit(),
            version_dirty() ? ", with local changes" : "", version_compiler());
}

void opt_list_free(opt_list *l) {
    free(l->items);
    *l = (opt_list){0};
}

static int flush_stdout(const opt_program *p) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return ST_OK;
    err e = {0};
    err_set(&e, ST_WRITE, "(standard output): cannot write");
    return err_report(stderr, p->name, &e);
}

void opt_begin(const opt_program *p, int argc, char **argv, opt_rest *rest, bool *go, int *exit_status) {
    err e = {0};
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, told as one */
    *go = false;
    if (opt_parse(p, argc, argv, rest, &e)) {
        *exit_status = err_report(stderr, p->name, &e);
    } else if (rest->action == OPT_RUN) {
        *go = true;
    } else {
        (rest->action == OPT_HELP ? opt_help : opt_version)(p, stdout);
        *exit_status = flush_stdout(p);
    }
}

int opt_finish(const opt_program *p, status s, const err *e) {
    if (s != ST_OK && e->text[0]) err_report(stderr, p->name, e);
    return (int)s;
}
