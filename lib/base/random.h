/* random.h: seeded numbers that are the same everywhere: SplitMix64 (Steele, Lea, Flood 2014, "Fast Splittable
 * Pseudorandom Number Generators", section 5). */
#ifndef ANYJEV_BASE_RANDOM_H
#define ANYJEV_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct rng {
    uint64_t state; /* starts as the seed */
} rng;

uint64_t rng_next(rng *r);
/* In [0, n), n > 0: the upper half of the 128-bit product with n (the bias is below n / 2^64). */
size_t rng_below(rng *r, size_t n);

#endif
