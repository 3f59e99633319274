/* err.h: an error as a value. A function in lib/ that can fail returns a status and fills an err;
 * only code in filters/ prints it and ends the program. */
#ifndef ANYJEV_BASE_ERR_H
#define ANYJEV_BASE_ERR_H

#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

#define ERR_TEXT_MAX 2048

/* Starts as {0}. A text that does not fit is cut at a character and ends in "...". */
typedef struct err {
    status status;
    char text[ERR_TEXT_MAX];
} err;

#if defined(__GNUC__)
#define ERR_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define ERR_PRINTF(a, b)
#endif

/* Sets status and text; returns the status, so that `return err_set(e, ST_INPUT, ...)` reads well.
 * The arguments may point into e->text. */
status err_set(err *e, status s, const char *fmt, ...) ERR_PRINTF(3, 4);
/* Puts "<text>: " before what is there and keeps the status, which it returns. */
status err_prefix(err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* "cannot allocate N bytes", ST_INCOMPLETE. */
status err_memory(err *e, size_t bytes);
/* Prints "program: text\n" with control bytes made visible; returns the status as an exit status. */
int err_report(FILE *to, const char *program, const err *e);

#endif
