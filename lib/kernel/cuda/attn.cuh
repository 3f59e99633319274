/* attn.cuh: attention over the prefix tree. A tile is some neighbouring rows of the batch with the heads that share a
 * key head; it walks the key blocks that any of its rows sees, so that the keys of a shared prefix are read once for
 * all branches in the tile. A row's sums run over blocks of CUDA_KEYS absolute positions in order; a block that a row
 * does not see leaves its numbers as they are, to the bit. So the row's result depends neither on the tile's other rows
 * nor on where the tree's stretches were cut.
 *
 * attn_tensor: bf16 products on tensor cores, head dimensions that are multiples of 16. attn_plain: any head dimension
 * and type. Which of the two runs is a matter of the model, not of the batch. */
#ifndef ANYJEV_CUDA_ATTN_CUH
#define ANYJEV_CUDA_ATTN_CUH

#include "kernel/cuda/cuda_api.h"
#include "kernel/cuda/mma.cuh"
#include "kernel/cuda/port.h"

enum { TENSOR_WARPS = CUDA_TILE / 16, TENSOR_THREADS = TENSOR_WARPS * WARP, PLAIN_WARPS = 4, PLAIN_THREADS = PLAIN_WARPS * WARP };

template <typename T> struct attn_args {
    const T *q; /* [rows of the chunk][heads * head_dim] */
    T *out;     /* the same shape */
    const T *k, *v; /* [rows of the batch][kv_heads * head_dim] */
    const uint32_t *pos; /* [rows of the batch] */
    const cuda_keys *keys;
    const cuda_entry *entries;
    const cuda_tile *tiles; /* of the chunk */
    size_t first_row;       /* the chunk's first row in the batch */
    size_t heads, kv_heads, head_dim, window;
    float scale;
};

DEVICE bool sees(const cuda_entry &e, unsigned row) {
    return (row < 64 ? e.rows[0] : e.rows[1]) >> (row % 64) & 1;
}

/* Does a row at `pos` see position p? */
DEVICE bool in_sight(size_t p, size_t pos, size_t window) {
    return p <= pos && (window == 0 || p + window > pos);
}

BOTH size_t tensor_shared_bytes(int d) {
    return (size_t)4 * CUDA_KEYS * (size_t)(d + 8) * sizeof(bf16);
}

/* Heads of a group that one tile takes. */
BOTH size_t heads_together(size_t heads, size_t kv_heads) {
    size_t group = heads / kv_heads;
    return group < CUDA_TILE ? group : (size_t)CUDA_TILE;
}

/* Starts the copies of one key block: K and V rows of key head `head` into shared memory, row stride D + 8 (which
 * keeps the eight rows of a matrix in different banks). */
template <int D> DEVICE void fetch_keys(const attn_args<bf16> &a, const cuda_keys &b, size_t head, bf16 *k, bf16 *v) {
    enum { PIECES = D / 8 };
    for (unsigned i = threadIdx.x; i < CUDA_KEYS * PIECES; i += TENSOR_THREADS) {
        unsigned key = i / PIECES, piece = i % PIECES;
        uint32_t row = b.row[key];
        bool there = row != CUDA_NO_ROW;
        size_t from = (there ? row : 0) * a.kv_heads * D + head * D + piece * 8;
        copy16(k + key * (D + 8) + piece * 8, a.k + from, there);
        copy16(v + key * (D + 8) + piece * 8, a.v + from, there);
    }
}

/* Grid: tiles x (kv_heads * parts of a group). Each warp has 16 query rows; a lane has two of them (g and g + 8). */
template <int D> KERNEL void __launch_bounds__(TENSOR_THREADS) attn_tensor(attn_args<bf16> a) {
    enum { STEPS = D / 16, STRIDE = D + 8, STAGE = CUDA_KEYS * STRIDE };
    DYN_SHARED(memory);
    bf16 *ks = (bf16 *)memory, *vs = ks + 2 * STAGE;
    cuda_tile tile = a.tiles[gridDim.x - 1 - blockIdx.x]; /* the longest first */
    size_t group = a.heads / a.kv_heads, together = heads_together(a.heads, a.kv_heads), parts = (group + together - 1) / together;
    size_t kv_head = blockIdx.y / parts, first_head = blockIdx.y % parts * together;
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
    unsigned local[2];
    bool valid[2];
    size_t pos[2], at[2];
    for (int r = 0; r < 2; r++) {
        size_t i = warp * 16 + g + 8 * (unsigned)r, head = first_head + i % together;
        local[r] = (unsigned)(i / together);
        valid[r] = local[r] < tile.n_rows && head < group;
        if (!valid[r]) local[r] = 0;
        pos[r] = a.pos[tile.row + local[r]];
        at[r] = ((tile.row + local[r] - a.first_row) * a.heads + kv_head * group + (head < group ? head : 0)) * D;
    }
    uint32_t qf[STEPS][4];
#pragma unroll
    for (int s = 0; s < STEPS; s++)
        for (int i = 0; i < 4; i++) qf[s][i] = valid[i % 2] ? *(const uint32_t *)(const void *)(a.q + at[i % 2] + s * 16 + 2 * t + i / 2 * 8) : 0;
    float o[D / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, log2e_scale = a.scale * 1.44269504f;

    fetch_keys<D>(a, a.keys[a.entries[tile.first].keys], kv_head, ks, vs);
    copy_commit();
    for (uint32_t e = 0; e < tile.n; e++) {
        cuda_entry entry = a.entries[tile.first + e];
        unsigned now = e % 2, next = (e + 1) % 2;
        if (e + 1 < tile.n) fetch_keys<D>(a, a.keys[a.entries[tile.first + e + 1].keys], kv_head, ks + next * STAGE, vs + next * STAGE);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        bool see[2] = {valid[0] && sees(entry, local[0]), valid[1] && sees(entry, local[1])};
        if (__any_sync(ALL_LANES, see[0] || see[1])) {
            const bf16 *k = ks + now * STAGE, *v = vs + now * STAGE;
            float p[8][4] = {};
#pragma unroll
            for (int s = 0; s < STEPS; s++)
#pragma unroll
                for (int n = 0; n < 8; n += 2) {
                    uint32_t b[4];
                    load_matrices<false>(b, k + (n * 8 + lane / 16 * 8 + lane % 8) * STRIDE + s * 16 + lane / 8 % 2 * 8);
                    mma_bf16(p[n], qf[s], b[0], b[1]);
                    mma_bf16(p[n + 1], qf[s], b[2], b[3]);
                }
            float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int r = i / 2;
                    if (!see[r] || !in_sight(entry.start + n * 8 + 2 * t + (unsigned)i % 2, pos[r], a.window)) p[n][i] = -INFINITY;
                    high[r] = fmaxf(high[r], p[n][i]);
                }
            float factor[2], base[2];
            for (int r = 0; r < 2; r++) {
                high[r] = fmaxf(high[r], __shfl_xor_sync(ALL_LANES, high[r], 1));
                high[r] = fmaxf(high[r], __shfl_xor_sync(ALL_LANES, high[r], 2));
                high[r] = fmaxf(high[r], top[r]);
                base[r] = high[r] == -INFINITY ? 0.0f : high[r];
                factor[r] = exp2f((top[r] - base[r]) * log2e_scale); /* exactly 1 when the maximum stays */
                top[r] = high[r];
                sum[r] *= factor[r];
            }
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    p[n][i] = exp2f((p[n][i] - base[i / 2]) * log2e_scale);
                    sum[i / 2] += p[n][i];
                }
#pragma unroll
            for (int d = 0; d < D / 8; d++)
#pragma unroll
                for (int i = 0; i < 4; i++) o[d][i] *= factor[i / 2];
#pragma unroll
            for (int s = 0; s < CUDA_KEYS / 16; s++) {
                uint32_t pf[4] = {pack_pair(p[2 * s][0], p[2 * s][1]), pack_pair(p[2 * s][2], p[2 * s][3]), pack_pair(p[2 * s + 1][0], p[2 * s + 1][1]),
                                  pack_pair(p[2 * s + 1][2], p[2 * s + 1][3])};
#pragma unroll
                for (int d = 0; d < D / 8; d += 2) {
                    uint32_t b[4];
                    load_matrices<true>(b, v + (s * 16 + lane / 8 % 2 * 8 + lane % 8) * STRIDE + d * 8 + lane / 16 * 8);
                    mma_bf16(o[d], pf, b[0], b[1]);
                    mma_bf16(o[d + 1], pf, b[2], b[3]);
                }
            }
        }
        __syncthreads(); /* before the next copies go where these keys lie */
    }
    copy_wait<0>();
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(ALL_LANES, sum[r], 1);
        sum[r] += __shfl_xor_sync(ALL_LANES, sum[r], 2);
        if (!valid[r]) continue;
        float one = 1.0f / sum[r];
#pragma unroll
        for (int d = 0; d < D / 8; d++) *(uint32_t *)(void *)(a.out + at[r] + d * 8 + 2 * t) = pack_pair(o[d][2 * r] * one, o[d][2 * r + 1] * one);
    }
}

/* Shared memory of a warp: the weights of a key block, and its sums over V. */
BOTH size_t plain_shared_bytes(size_t head_dim) {
    return PLAIN_WARPS * (CUDA_KEYS + head_dim) * sizeof(float);
}

/* Grid: tiles x heads. A warp takes rows of the tile in turn; a lane has two keys of a block, then some of the sums. */
template <typename T> KERNEL void attn_plain(attn_args<T> a) {
    DYN_SHARED(memory);
    cuda_tile tile = a.tiles[gridDim.x - 1 - blockIdx.x];
    size_t d = a.head_dim, head = blockIdx.y, kv_head = head / (a.heads / a.kv_heads), kv_dim = a.kv_heads * d;
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float *p = (float *)memory + warp * (CUDA_KEYS + d), *o = p + CUDA_KEYS;
    for (unsigned local = warp; local < tile.n_rows; local += PLAIN_WARPS) {
        size_t row = tile.row + local, pos = a.pos[row];
        const T *q = a.q + ((row - a.first_row) * a.heads + head) * d;
        T *out = a.out + ((row - a.first_row) * a.heads + head) * d;
        float top = -INFINITY, sum = 0;
        for (size_t i = lane; i < d; i += WARP) o[i] = 0;
        for (uint32_t e = 0; e < tile.n; e++) {
            const cuda_entry &entry = a.entries[tile.first + e];
            if (!sees(entry, local)) continue;
            const cuda_keys &keys = a.keys[entry.keys];
            float s[2];
            for (unsigned j = 0; j < 2; j++) {
                unsigned key = lane + j * WARP;
                s[j] = -INFINITY;
                if (!in_sight(entry.start + key, pos, a.window)) continue;
                const T *k = a.k + keys.row[key] * kv_dim + kv_head * d;
                float dot = 0;
                for (size_t i = 0; i < d; i++) dot = fmaf(to_float(q[i]), to_float(k[i]), dot);
                s[j] = dot * a.scale;
            }
            float high = fmaxf(warp_max(fmaxf(s[0], s[1])), top), base = high == -INFINITY ? 0.0f : high, factor = expf(top - base);
            float e0 = expf(s[0] - base), e1 = expf(s[1] - base);
            top = high;
            sum = sum * factor + warp_sum(e0 + e1);
            __syncwarp(); /* the sums below have read p */
            p[lane] = e0;
            p[lane + WARP] = e1;
            __syncwarp();
            for (size_t i = lane; i < d; i += WARP) {
                float acc = 0;
                for (unsigned key = 0; key < CUDA_KEYS; key++)
                    if (p[key] > 0) acc = fmaf(p[key], to_float(a.v[keys.row[key] * kv_dim + kv_head * d + i]), acc);
                o[i] = o[i] * factor + acc;
            }
        }
        for (size_t i = lane; i < d; i += WARP) from_float(&out[i], o[i] / sum);
        __syncwarp();
    }
}

#endif
