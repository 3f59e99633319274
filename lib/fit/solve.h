/* solve.h: LDA and ridge in the dual: all that is needed of the features are their inner products. */
#ifndef ANYJEV_FIT_SOLVE_H
#define ANYJEV_FIT_SOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef enum solver { SOLVER_LDA, SOLVER_RIDGE } solver;
const char *solver_name(solver s);

/* A solved head is W = sum over training rows t of (coef[t][c] * z_t) up to the centring below. */
typedef struct dual {
    size_t n, k, d;              /* rows of g, classes, features */
    const double *g;             /* [n][n] inner products of all rows, standardised */
    const size_t *labels;        /* [n] */
    const unsigned char *in;     /* [n]: the row trains; NULL: all do */
    double *work;                /* dual_work(n, k) doubles */
} dual;

size_t dual_work(size_t n, size_t k);

/* scores[n][k] of every row, and (coef not NULL) the head itself: W[:,c] = sum_t coef[t][c] z_t over training rows, bias[k].
 * false when the system cannot be solved (LAPACK says so, or a number is not finite). */
bool dual_solve(const dual *x, solver s, double param, double *scores, double *coef, double *bias);

#endif
