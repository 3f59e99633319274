/* gram.h: inner products of standardised features. */
#ifndef ANYJEV_FIT_GRAM_H
#define ANYJEV_FIT_GRAM_H

#include <stddef.h>

/* Mean and population standard deviation + 1e-6 of each of d features over the rows that take part (in[i]; NULL: all). */
void gram_standardise(const float *x, size_t n, size_t d, const unsigned char *in, double *mean, double *scale);

/* Doubles of scratch that gram_make needs. */
size_t gram_scratch(size_t n);
/* g[n][n] = Z Z' for Z = (x - mean) / scale, every sum in the order of the features, whatever the vector width. */
void gram_make(const float *x, size_t n, size_t d, const double *mean, const double *scale, double *scratch, double *g);

#endif
