/* num.h: numbers from text, whole and with a range, and to text so that they read back the same. */
#ifndef ANYJEV_BASE_NUM_H
#define ANYJEV_BASE_NUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define NUM_TEXT_MAX 32

/* The whole text must be one number inside [min, max]; what names it in the message. Reals must be
 * finite. Sizes take no sign and no suffix. */
status num_size(const char *text, size_t min, size_t max, const char *what, size_t *out, err *e);
status num_real(const char *text, double min, double max, const char *what, double *out, err *e);

/* The shortest decimal that reads back as x, spelt as Python's repr: 0.1, 1.0, 1e-05, 1e+16.
 * Returns the length; x must be finite. */
size_t num_repr(double x, char out[NUM_TEXT_MAX]);

#endif
