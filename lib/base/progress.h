/* progress.h: a bar with rate and time left, on stderr, when that is a terminal or was asked for. */
#ifndef ANYJEV_BASE_PROGRESS_H
#define ANYJEV_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

/* Lives on the caller's stack; nothing to free. */
typedef struct progress {
    const char *program, *unit;
    size_t total, done; /* total 0: unknown */
    double start, shown;
    bool on, tty;
} progress;

/* forced: --progress was given. total in units (0 when it is not known). */
void progress_start(progress *p, const char *program, const char *unit, size_t total, bool forced);
void progress_step(progress *p, size_t more); /* draws at most five times a second (a log: every ten seconds) */
void progress_end(progress *p);               /* the last state, and a line end */

#endif
