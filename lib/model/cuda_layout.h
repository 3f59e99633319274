/* cuda_layout.h: a prefix tree as the device walks it: key blocks of absolute positions along its paths, and for every
 * tile of rows the blocks that they see. */
#ifndef ANYJEV_MODEL_CUDA_LAYOUT_H
#define ANYJEV_MODEL_CUDA_LAYOUT_H

#include "base/err.h"
#include "kernel/cuda/cuda_api.h"
#include "model/tree.h"

/* Starts as {0}; cuda_plan_free ends it. `out` points into it. */
typedef struct cuda_plan {
    cuda_layout out;
    uint32_t *pos;
    cuda_keys *keys;
    cuda_entry *entries;
    cuda_tile *tiles;
    size_t *chunk_tiles, *first_keys; /* first_keys[node]: its first key block */
    size_t cap_entries, cap_tiles, n_entries, n_tiles;
} cuda_plan;

/* The nodes that are still there (n > 0) lie at their rows `at`, in order, without gaps. chunk: rows of a chunk;
 * tile_rows: rows of a tile, at most CUDA_TILE; window: positions that a row sees, 0: all. */
status cuda_plan_make(cuda_plan *p, const tree *t, size_t chunk, size_t tile_rows, size_t window, err *e);
void cuda_plan_free(cuda_plan *p);

#endif
