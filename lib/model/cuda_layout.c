#include "model/cuda_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Node i's key blocks are those that hold its own tokens; each also has the tokens of its ancestors in that range. */
static void fill_keys(const tree *t, size_t i, size_t block, cuda_keys *out) {
    size_t start = block * CUDA_KEYS, end = start + CUDA_KEYS;
    memset(out, 0xff, sizeof *out);
    for (size_t k = i; k != TREE_NONE && end > start; k = t->nodes[k].parent) {
        const tree_node *n = &t->nodes[k];
        size_t last = n->pos + n->n < end ? n->pos + n->n : end, from = n->pos > start ? n->pos : start;
        for (size_t p = from; p < last; p++) out->row[p - start] = (uint32_t)(n->at + p - n->pos);
        end = n->pos;
    }
}

static status make_keys(cuda_plan *p, const tree *t, err *e) {
    size_t n = 0;
    for (size_t i = 0; i < t->n_nodes; i++) {
        const tree_node *d = &t->nodes[i];
        p->first_keys[i] = n;
        if (d->n) n += (d->pos + d->n - 1) / CUDA_KEYS - d->pos / CUDA_KEYS + 1;
    }
    if (!(p->keys = mem_alloc(n, sizeof *p->keys))) return err_memory(e, n * sizeof *p->keys);
    p->out.n_keys = n;
    for (size_t i = 0; i < t->n_nodes; i++) {
        const tree_node *d = &t->nodes[i];
        for (size_t b = d->pos / CUDA_KEYS; d->n && b <= (d->pos + d->n - 1) / CUDA_KEYS; b++) fill_keys(t, i, b, &p->keys[p->first_keys[i] + b - d->pos / CUDA_KEYS]);
    }
    return ST_OK;
}

/* The block of keys that node i's rows see at `block`: of the deepest ancestor with tokens there. An ancestor reaches to
 * where its descendant begins at least, so what it has in a block before that is all on the path. */
static size_t keys_of(const cuda_plan *p, const tree *t, size_t i, size_t block) {
    while (block < t->nodes[i].pos / CUDA_KEYS) i = t->nodes[i].parent;
    return p->first_keys[i] + block - t->nodes[i].pos / CUDA_KEYS;
}

static void see(cuda_entry *to, size_t first, size_t n) {
    for (size_t r = first; r < first + n; r++) to->rows[r / 64] |= (uint64_t)1 << (r % 64);
}

/* Rows [row, row + n) as a tile; *node is the first node that reaches beyond row. */
static status add_tile(cuda_plan *p, const tree *t, size_t row, size_t n, size_t *node, size_t window, err *e) {
    size_t first_entry = p->n_entries, last_block = 0, end = row + n, from = *node;
    for (size_t r = row; r < end; r++)
        if (p->pos[r] / CUDA_KEYS > last_block) last_block = p->pos[r] / CUDA_KEYS;
    for (size_t block = 0; block <= last_block; block++) {
        size_t tile_entries = p->n_entries;
        for (size_t i = from; i < t->n_nodes && t->nodes[i].at < end; i++) {
            const tree_node *d = &t->nodes[i];
            if (!d->n) continue;
            size_t a = d->at > row ? d->at : row, b = d->at + d->n < end ? d->at + d->n : end; /* its rows in the tile */
            if (a >= b) continue;
            size_t top = d->pos + (b - 1 - d->at), low = d->pos + (a - d->at);
            if (block > top / CUDA_KEYS || (window && (block + 1) * CUDA_KEYS + window <= low + 1)) continue;
            uint32_t keys = (uint32_t)keys_of(p, t, i, block);
            if (p->n_entries > tile_entries && p->entries[p->n_entries - 1].keys == keys) {
                see(&p->entries[p->n_entries - 1], a - row, b - a);
                continue;
            }
            if (!mem_grow((void **)&p->entries, &p->cap_entries, p->n_entries + 1, sizeof *p->entries)) return err_memory(e, p->n_entries * sizeof *p->entries);
            p->entries[p->n_entries] = (cuda_entry){.keys = keys, .start = (uint32_t)(block * CUDA_KEYS)};
            see(&p->entries[p->n_entries++], a - row, b - a);
        }
    }
    while (*node < t->n_nodes && t->nodes[*node].at + t->nodes[*node].n <= end) ++*node;
    if (!mem_grow((void **)&p->tiles, &p->cap_tiles, p->n_tiles + 1, sizeof *p->tiles)) return err_memory(e, p->n_tiles * sizeof *p->tiles);
    p->tiles[p->n_tiles++] = (cuda_tile){(uint32_t)row, (uint32_t)n, (uint32_t)first_entry, (uint32_t)(p->n_entries - first_entry)};
    return ST_OK;
}

status cuda_plan_make(cuda_plan *p, const tree *t, size_t chunk, size_t tile_rows, size_t window, err *e) {
    size_t rows = 0;
    cuda_plan_free(p);
    for (size_t i = 0; i < t->n_nodes; i++) rows += t->nodes[i].n;
    size_t chunks = (rows + chunk - 1) / chunk;
    p->pos = mem_alloc(rows, sizeof *p->pos);
    p->first_keys = mem_alloc(t->n_nodes, sizeof *p->first_keys);
    p->chunk_tiles = mem_zero(chunks + 1, sizeof *p->chunk_tiles);
    if (!p->pos || !p->first_keys || !p->chunk_tiles) return err_memory(e, rows * sizeof *p->pos);
    /* Row and block numbers have 32 bits on the device. */
    if (rows >= CUDA_NO_ROW) return err_set(e, ST_REFUSED, "a batch of %zu tokens is too large", rows);
    for (size_t i = 0; i < t->n_nodes; i++)
        for (size_t j = 0; j < t->nodes[i].n; j++) p->pos[t->nodes[i].at + j] = (uint32_t)(t->nodes[i].pos + j);
    status s = make_keys(p, t, e);
    size_t node = 0;
    for (size_t c = 0; !s && c < chunks; c++) {
        size_t end = rows - c * chunk < chunk ? rows : (c + 1) * chunk;
        for (size_t row = c * chunk; !s && row < end; row += tile_rows) s = add_tile(p, t, row, end - row < tile_rows ? end - row : tile_rows, &node, window, e);
        p->chunk_tiles[c + 1] = p->n_tiles;
    }
    p->out.rows = rows;
    p->out.pos = p->pos, p->out.keys = p->keys, p->out.entries = p->entries, p->out.tiles = p->tiles;
    p->out.n_entries = p->n_entries, p->out.n_tiles = p->n_tiles, p->out.chunk_tiles = p->chunk_tiles;
    return s;
}

void cuda_plan_free(cuda_plan *p) {
    free(p->pos);
    free(p->keys);
    free(p->entries);
    free(p->tiles);
    free(p->chunk_tiles);
    free(p->first_keys);
    *p = (cuda_plan){0};
}
