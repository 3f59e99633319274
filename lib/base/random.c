#include "base/random.h"

uint64_t rng_next(rng *r) {
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

size_t rng_below(rng *r, size_t n) {
    __extension__ typedef unsigned __int128 wide;
    return (size_t)((wide)rng_next(r) * n >> 64);
}
