/* map.h: a file mapped read-only. */
#ifndef ANYJEV_WEIGHTS_MAP_H
#define ANYJEV_WEIGHTS_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Starts as {0}; map_close ends it. p is NULL for an empty file. Programs that share a file share its pages.
 * A file that shrinks while it is mapped kills the reader with SIGBUS: do not edit models in use. */
typedef struct map {
    const unsigned char *p;
    size_t n;
    uint64_t inode;
    int64_t sec, nsec; /* of the last change of its contents */
} map;

status map_open(map *m, const char *path, err *e); /* regular files only */
void map_close(map *m);

#endif
