/* attn.c: attention over a tree of runs.
 *
 * The bits: a row's scores are q * scale (rounded), then one fmaf chain over the head's elements per key
 * (blocks of KBLOCK elements, should a head be longer). Keys are taken in blocks of ABLOCK absolute positions;
 * a block in which the row sees no key is passed over; in the others the keys that it does not see count as
 * probability 0 and value 0. ops.attn_block merges the block into the running maximum and sum; the block's
 * weighted values are one fmaf chain over the ABLOCK positions, then o = fmaf(o, factor, that). Blocks come in
 * position order; the result is o * (1 / sum). So it does not matter where runs were cut or who shares them.
 * The speed: a task is a tile of rows (positions times the query heads of one key head) against all blocks;
 * keys are transposed once per tile and block, and both products are the weight product's inner loop. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/internal.h"

enum { TILE = 128 }; /* rows of a tile */

typedef struct attn_job {
    kernel *kn;
    const kernel_branch *branches;
    const size_t *first; /* [n_branches + 1]: number of the branch's first task */
    size_t n_branches, heads, kv_heads, head_dim, per_tile;
    float scale;
    float *own;
    size_t own_floats;
} attn_job;

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* The worker's scratch for a tile. dim is head_dim rounded up to whole panels. */
typedef struct attn_tile {
    size_t dim;
    float *q;   /* [head blocks][TILE][XSTRIDE] */
    float *s;   /* [TILE][XSTRIDE] scores, then probabilities */
    float *kt;  /* [head blocks][2][KBLOCK][PANEL] keys of a block, transposed */
    float *v;   /* [ABLOCK][dim] */
    float *pv;  /* [TILE][dim] */
    float *o;   /* [TILE][dim] */
    float *max, *sum, *factor; /* [TILE] */
} attn_tile;

static size_t tile_floats(size_t head_dim) {
    size_t dim = round_up(head_dim, PANEL), hb = (head_dim + KBLOCK - 1) / KBLOCK;
    return hb * TILE * XSTRIDE + TILE * XSTRIDE + hb * 2 * KBLOCK * PANEL + ABLOCK * dim + 2 * TILE * dim + 3 * TILE;
}

static attn_tile tile_cut(float *p, size_t head_dim) {
    size_t dim = round_up(head_dim, PANEL), hb = (head_dim + KBLOCK - 1) / KBLOCK;
    attn_tile t = {.dim = dim};
    t.q = p, p += hb * TILE * XSTRIDE;
    t.s = p, p += TILE * XSTRIDE;
    t.kt = p, p += hb * 2 * KBLOCK * PANEL;
    t.v = p, p += ABLOCK * dim;
    t.pv = p, p += TILE * dim;
    t.o = p, p += TILE * dim;
    t.max = p, p += TILE;
    t.sum = p, p += TILE;
    t.factor = p;
    return t;
}

/* Gathers the keys and values of block `at` (positions at to at + ABLOCK) that lie in runs and are not past
 * `last`; returns which. Absent ones are zero. */
static uint64_t tile_gather(const attn_job *j, const kernel_branch *br, size_t kv_head, size_t at, size_t last,
                            attn_tile *t) {
    static const float zero[KBLOCK];
    size_t d = j->head_dim;
    const float *keys[ABLOCK], *values[ABLOCK];
    uint64_t present = 0;
    for (size_t i = 0; i < br->n_runs; i++) {
        const kernel_run *r = &br->runs[i];
        size_t lo = r->start > at ? r->start : at, end = r->start + r->len;
        size_t hi = end < at + ABLOCK ? end : at + ABLOCK;
        if (hi > last + 1) hi = last + 1;
        for (size_t p = lo; p < hi; p++) {
            size_t offset = (p - r->start) * r->stride + kv_head * r->head_stride;
            keys[p - at] = r->k + offset;
            values[p - at] = r->v + offset;
            present |= (uint64_t)1 << (p - at);
        }
    }
    if (!present) return 0;
    for (size_t p = 0; p < ABLOCK; p++) {
        float *v = t->v + p * t->dim;
        if (present >> p & 1) {
            memcpy(v, values[p], d * sizeof *v);
            if (t->dim > d) memset(v + d, 0, (t->dim - d) * sizeof *v);
        } else {
            memset(v, 0, t->dim * sizeof *v);
        }
    }
    for (size_t b = 0; b * KBLOCK < d; b++) {
        size_t len = d - b * KBLOCK < KBLOCK ? d - b * KBLOCK : KBLOCK;
        for (size_t half = 0; half < 2; half++) {
            float *rows = t->pv; /* free at this time, and TILE * dim is at least PANEL * len */
            for (size_t p = 0; p < PANEL; p++) {
                size_t key = half * PANEL + p;
                memcpy(rows + p * len, present >> key & 1 ? keys[key] + b * KBLOCK : zero, len * sizeof *rows);
            }
            j->kn->ops.transpose(rows, len, len, t->kt + (b * 2 + half) * KBLOCK * PANEL);
        }
    }
    return present;
}

/* Bits [lo, hi) of 64. */
static uint64_t bit_range(size_t lo, size_t hi) {
    uint64_t up = hi >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << hi) - 1;
    return lo >= 64 ? 0 : up & ~(((uint64_t)1 << lo) - 1);
}

/* The positions of block `at` that the row at `pos` may see. */
static uint64_t row_sees(const kernel_branch *br, size_t pos, size_t at) {
    if (pos < at) return 0;
    size_t lo = br->window && pos + 1 > br->window ? pos + 1 - br->window : 0;
    return bit_range(lo > at ? lo - at : 0, pos - at + 1);
}

static void attn_tile_run(const attn_job *j, const kernel_branch *br, size_t kv_head, size_t row0, float *own) {
    const kernel_ops *ops = &j->kn->ops;
    size_t d = j->head_dim, group = j->heads / j->kv_heads;
    size_t n_rows = br->n_rows - row0 < j->per_tile ? br->n_rows - row0 : j->per_tile;
    size_t rows = n_rows * group; /* tile row r is position row0 + r / group, query head r % group */
    attn_tile t = tile_cut(own, d);
    for (size_t r = 0; r < rows; r++) {
        const float *q = br->q + (row0 + r / group) * br->q_stride + (kv_head * group + r % group) * d;
        for (size_t i = 0; i < d; i++)
            t.q[(i / KBLOCK * TILE + r) * XSTRIDE + i % KBLOCK] = q[i] * j->scale;
        t.max[r] = -INFINITY;
        t.sum[r] = 0;
        memset(t.o + r * t.dim, 0, t.dim * sizeof *t.o);
    }
    size_t pos = br->pos + row0, last = pos + n_rows - 1;
    size_t from = br->n_runs ? br->runs[0].start : 0;
    if (br->window && pos + 1 > br->window && pos + 1 - br->window > from) from = pos + 1 - br->window;
    for (size_t at = from / ABLOCK * ABLOCK; at <= last; at += ABLOCK) {
        uint64_t present = tile_gather(j, br, kv_head, at, last, &t);
        if (!present) continue;
        for (size_t b = 0; b * KBLOCK < d; b++) {
            size_t len = d - b * KBLOCK < KBLOCK ? d - b * KBLOCK : KBLOCK;
            for (size_t half = 0; half < 2; half++)
                ops->mul_panel(t.q + b * TILE * XSTRIDE, rows, t.kt + (b * 2 + half) * KBLOCK * PANEL, PANEL, len,
                               t.s + half * PANEL, XSTRIDE, b > 0);
        }
        for (size_t r = 0; r < rows; r++) {
            uint64_t mask = present & row_sees(br, pos + r / group, at);
            if (mask)
                t.factor[r] = ops->attn_block(t.s + r * XSTRIDE, mask, &t.max[r], &t.sum[r]);
            else
                t.factor[r] = -1;
        }
        for (size_t c = 0; c < t.dim; c += PANEL)
            ops->mul_panel(t.s, rows, t.v + c, t.dim, ABLOCK, t.pv + c, t.dim, false);
        for (size_t r = 0; r < rows; r++)
            if (t.factor[r] >= 0) ops->attn_merge(t.o + r * t.dim, t.factor[r], t.pv + r * t.dim, t.dim);
    }
    for (size_t r = 0; r < rows; r++) {
        float *out = br->out + (row0 + r / group) * br->out_stride + (kv_head * group + r % group) * d;
        float inv = 1.0f / t.sum[r];
        for (size_t i = 0; i < d; i++) out[i] = t.o[r * t.dim + i] * inv;
    }
}

static void attn_some(void *arg, size_t begin, size_t end, unsigned worker) {
    attn_job *j = arg;
    size_t b = 0;
    for (size_t i = begin; i < end; i++) {
        while (i >= j->first[b + 1]) b++;
        size_t n = i - j->first[b];
        attn_tile_run(j, &j->branches[b], n % j->kv_heads, n / j->kv_heads * j->per_tile, j->own + worker * j->own_floats);
    }
}

status kernel_attn(kernel *kn, const kernel_branch *branches, size_t n_branches, size_t heads, size_t kv_heads,
                   size_t head_dim, float scale, err *e) {
    if (kv_heads == 0 || heads % kv_heads != 0 || heads / kv_heads > TILE || head_dim == 0 || head_dim > 1024)
        return err_set(e, ST_INPUT, "attention with %zu heads, %zu key heads of %zu elements is not possible", heads,
                       kv_heads, head_dim);
    attn_job j = {.kn = kn, .branches = branches, .n_branches = n_branches, .heads = heads, .kv_heads = kv_heads};
    j.head_dim = head_dim;
    j.scale = scale;
    j.per_tile = TILE / (heads / kv_heads);
    j.own_floats = round_up(tile_floats(head_dim), 16);
    size_t *first = scratch_need(&kn->shared, (n_branches + 1) * sizeof *first, e);
    j.own = scratch_need(&kn->own, kernel_threads(kn) * j.own_floats * sizeof(float), e);
    if (!first || !j.own) return e->status;
    first[0] = 0;
    for (size_t b = 0; b < n_branches; b++)
        first[b + 1] = first[b] + (branches[b].n_rows + j.per_tile - 1) / j.per_tile * kv_heads;
    j.first = first;
    kernel_for(kn, first[n_branches], 1, attn_some, &j);
    return ST_OK;
}
