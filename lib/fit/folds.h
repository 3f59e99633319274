/* folds.h: the folds of a cross-validation, as AnyJev draws them: NumPy's legacy RandomState(seed).permutation(n), cut by
 * array_split, each fold sorted. */
#ifndef ANYJEV_FIT_FOLDS_H
#define ANYJEV_FIT_FOLDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { FOLDS = 5 };

/* perm[n] = numpy.random.RandomState(seed).permutation(n): MT19937 (Matsumoto and Nishimura 1998) seeded by its init_genrand,
 * Fisher-Yates from the end, indices by masked rejection. */
void numpy_permutation(uint32_t seed, size_t n, size_t *perm);

/* fold[i]: which of min(k, n) folds item i is held out in. */
status folds_make(uint32_t seed, size_t n, size_t k, size_t *fold, err *e);

#endif
