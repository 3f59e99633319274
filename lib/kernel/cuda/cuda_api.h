/* cuda_api.h: what the shared object libanyjev_cuda.so offers; the only thing that the C program and it share. The
 * program opens it for --device cuda alone, so that a program on the CPU needs no CUDA library.
 *
 * Rows are the distinct tokens of a batch, in the order of the prefix tree. A row's numbers do not depend on the
 * others: matrix products have fixed shapes (padded), sums over keys run in blocks of CUDA_KEYS absolute positions.
 * Every function that returns a status writes a line to the `why` of cuda_open on failure. One thread at a time. */
#ifndef ANYJEV_CUDA_API_H
#define ANYJEV_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_API_VERSION 1u
#define CUDA_API_SYMBOL "anyjev_cuda_api"
#define CUDA_WHY_MAX 512

enum {
    CUDA_KEYS = 64,       /* positions in a key block */
    CUDA_TILE = 128,      /* query rows (tokens times heads that share a key head) in an attention tile */
    CUDA_LABELS_MAX = 256 /* label logits read per row */
};
#define CUDA_NO_ROW UINT32_MAX

typedef struct cuda_shape {
    size_t n_blocks, hidden_dim, heads, kv_heads, head_dim, ffn_dim, vocab;
    size_t window; /* 0: all */
    float norm_eps;
    bool tied, qk_norm, qkv_bias, rope_interleaved;
    bool f32; /* weights and activations in float32; else bfloat16 with float32 sums */
} cuda_shape;

/* Weights, by what they are and block (0 where there is one only). Matrices are in the compute type (2 or 4 bytes),
 * row-major [n_out][n_in], several stacked where they read the same input; vectors are float32. */
typedef enum cuda_part {
    CUDA_EMBED,     /* [vocab][hidden] */
    CUDA_OUTPUT,    /* [vocab][hidden]; not there when tied */
    CUDA_NORM,      /* [hidden] */
    CUDA_ATTN_NORM, /* [hidden] */
    CUDA_QKV,       /* [q_dim + 2 kv_dim][hidden] */
    CUDA_QKV_BIAS,  /* [q_dim + 2 kv_dim] */
    CUDA_Q_NORM,    /* [head_dim] */
    CUDA_K_NORM,    /* [head_dim] */
    CUDA_O,         /* [hidden][q_dim] */
    CUDA_FFN_NORM,  /* [hidden] */
    CUDA_GATE_UP,   /* [2 ffn][hidden] */
    CUDA_DOWN,      /* [hidden][ffn] */
    CUDA_PARTS
} cuda_part;

/* A key block: for CUDA_KEYS positions from `start` on along one path of the tree, the rows of their tokens. */
typedef struct cuda_keys {
    uint32_t row[CUDA_KEYS]; /* CUDA_NO_ROW behind the last token */
} cuda_keys;

/* A key block as the rows of a tile see it: bit r of rows[r / 64] is the tile's row r. */
typedef struct cuda_entry {
    uint64_t rows[2];
    uint32_t keys, start;
} cuda_entry;

/* Neighbouring rows of one chunk; their entries, positions ascending. */
typedef struct cuda_tile {
    uint32_t row, n_rows, first, n;
} cuda_tile;

typedef struct cuda_layout {
    size_t rows;
    const uint32_t *pos; /* [rows] */
    const cuda_keys *keys;
    const cuda_entry *entries;
    const cuda_tile *tiles;
    size_t n_keys, n_entries, n_tiles;
    const size_t *chunk_tiles; /* [chunks + 1]: the first tile of every chunk */
} cuda_layout;

typedef struct cuda_dev cuda_dev;

typedef struct cuda_info {
    char name[256], runtime[64];
    size_t memory_total, memory_free, weight_bytes, work_bytes;
    size_t chunk;     /* rows of a matrix product */
    size_t tile_rows; /* rows of an attention tile, at most CUDA_TILE */
    bool integrated;
} cuda_info;

typedef struct cuda_api {
    unsigned version;
    /* Opens device `ordinal`, plans weights and room for `rows` rows against free memory (ST_REFUSED with the figures)
     * and takes it. why[CUDA_WHY_MAX] is kept and written by all that fails later. */
    status (*open)(cuda_dev **out, int ordinal, const cuda_shape *shape, size_t rows, char *why);
    void (*close)(cuda_dev *d);
    void (*info)(const cuda_dev *d, cuda_info *out);

    /* Uploading: take a pinned buffer (NULL on failure; *room bytes), fill it, send it to [at, at + bytes) of a part. */
    void *(*stage)(cuda_dev *d, size_t *room);
    status (*send)(cuda_dev *d, cuda_part part, size_t block, size_t at, size_t bytes);
    status (*finish)(cuda_dev *d); /* all is there */
    /* cos and sin [positions][head_dim / 2] */
    status (*rope)(cuda_dev *d, const float *cosine, const float *sine, size_t positions);

    /* A batch: more room if it needs more than was planned, embeddings, then blocks [from, to) as often as wanted. */
    status (*reserve)(cuda_dev *d, size_t rows);
    status (*embed)(cuda_dev *d, const uint32_t *ids, size_t rows);
    status (*layout)(cuda_dev *d, const cuda_layout *l);
    status (*move)(cuda_dev *d, const uint32_t *from, size_t rows); /* row i becomes row from[i]; from ascends, from[i] >= i */
    status (*blocks)(cuda_dev *d, size_t from, size_t to);
    status (*wait)(cuda_dev *d);
    /* out[n][hidden]: the residual stream at rows, or after the final norm. */
    status (*hidden)(cuda_dev *d, const uint32_t *rows, size_t n, bool normed, float *out);
    /* For n rows: log(sum(exp(logits))) and the logits at n_labels[i] labels; stride elements from row to row.
     * bad[i]: a logit was NaN or infinite. */
    status (*logits)(cuda_dev *d, const uint32_t *rows, size_t n, const uint32_t *labels, const uint32_t *n_labels, size_t stride, float *at_labels,
                     double *lse, bool *bad);
    /* The device's rate for products of two bf16 matrices of n x n, in FLOP/s. */
    status (*rate)(cuda_dev *d, size_t n, double *flops);
} cuda_api;

typedef const cuda_api *cuda_api_fn(void);

#ifdef __cplusplus
}
#endif

#endif
