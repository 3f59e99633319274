/* npy.h: tables of float32 in NumPy's .npy format, one file for each of several numbers (the blocks of a model). */
#ifndef ANYJEV_BASE_NPY_H
#define ANYJEV_BASE_NPY_H

#include <stddef.h>

#include "base/err.h"

/* Files PREFIX.b<number>.npy of [rows][d] little-endian float32, made as rows come; all appear at npy_set_close, or none. */
typedef struct npy_set npy_set;
status npy_set_open(npy_set **set, const char *prefix, err *e);
/* Appends a row; *file (the set's own, until it closes) and *row tell where it is. */
status npy_set_put(npy_set *set, size_t number, const float *x, size_t d, const char **file, size_t *row, err *e);
/* Completes the files when s is ST_OK, else gives them up. Frees. Returns the worse of s and the closing. */
status npy_set_close(npy_set *set, status s, err *e);

/* Row `row` of a two-dimensional file of little-endian float32: *x (the caller frees) and *d. */
status npy_row(const char *path, size_t row, float **x, size_t *d, err *e);

#endif
