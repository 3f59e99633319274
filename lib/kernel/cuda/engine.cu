/* engine.cu: the forward pass on a device, behind cuda_api.h. Compiled by nvcc against gpu_cuda.cu and, for the tests, by
 * a plain C++ compiler against gpu_emu.cpp. */
#include <stdio.h>
#include <stdlib.h>

#include <new>

#include "kernel/cuda/attn.cuh"
#include "kernel/cuda/cuda_api.h"
#include "kernel/cuda/gpu.h"
#include "kernel/cuda/rows.cuh"

namespace {

/* Fixed shapes. CHUNK: rows of the products inside a block; LEAVES: rows of the vocabulary product, which runs in pieces
 * of PIECE columns; the emulation's are small so that little batches have many. */
#ifdef CUDA_EMULATION
enum { CHUNK = 48, LEAVES = 3, PIECE = 96 };
#else
enum { CHUNK = 1024, LEAVES = 64, PIECE = 8192 };
#endif
enum { STAGES = 4, ALIGN = 256 };
const size_t STAGE_BYTES = (size_t)32 << 20;

typedef void tensor_kernel(attn_args<bf16> a);

struct buffer {
    void *p = nullptr;
    size_t bytes = 0;
};

} // namespace

struct cuda_dev {
    gpu g = {};
    cuda_shape s = {};
    size_t q_dim = 0, kv_dim = 0, qkv_dim = 0, element = 0;
    unsigned char *weights = nullptr;
    size_t weight_bytes = 0, part_at[CUDA_PARTS] = {}, block_bytes = 0;
    void *stages[STAGES] = {};
    int stage = 0;
    size_t room = 0; /* rows that x, k, v, pos and which hold */
    float *x = nullptr; /* [room][hidden]: the residual stream */
    void *k = nullptr, *v = nullptr; /* [room][kv_dim], of the block at hand */
    uint32_t *pos = nullptr, *which = nullptr;
    void *h = nullptr, *q = nullptr, *att = nullptr, *act = nullptr; /* [CHUNK][...] in the compute type */
    float *wide = nullptr; /* [CHUNK][max(qkv_dim, 2 ffn, hidden)]: what products give */
    void *leaf_h = nullptr;
    float *logits = nullptr, *at_labels = nullptr;
    lse_state *lse = nullptr;
    uint32_t *labels = nullptr, *n_labels = nullptr;
    float *cosine = nullptr, *sine = nullptr;
    size_t positions = 0;
    buffer keys, entries, tiles;
    size_t rows = 0, n_chunks = 0, *chunk_tiles = nullptr;
    tensor_kernel *tensor = nullptr; /* NULL: attn_plain */
};

namespace {

size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }
size_t largest(size_t a, size_t b) { return a > b ? a : b; }

size_t tile_rows(const cuda_shape *s) { return CUDA_TILE / heads_together(s->heads, s->kv_heads); }

bool matrix_part(cuda_part p) { return p == CUDA_EMBED || p == CUDA_OUTPUT || p == CUDA_QKV || p == CUDA_O || p == CUDA_GATE_UP || p == CUDA_DOWN; }
bool whole_part(cuda_part p) { return p == CUDA_EMBED || p == CUDA_OUTPUT || p == CUDA_NORM; }

/* Elements of a part (of one block); 0 when this model has none. */
size_t part_elements(const cuda_dev *d, cuda_part p) {
    const cuda_shape *s = &d->s;
    switch (p) {
    case CUDA_EMBED: return s->vocab * s->hidden_dim;
    case CUDA_OUTPUT: return s->tied ? 0 : s->vocab * s->hidden_dim;
    case CUDA_NORM:
    case CUDA_ATTN_NORM:
    case CUDA_FFN_NORM: return s->hidden_dim;
    case CUDA_QKV: return d->qkv_dim * s->hidden_dim;
    case CUDA_QKV_BIAS: return s->qkv_bias ? d->qkv_dim : 0;
    case CUDA_Q_NORM:
    case CUDA_K_NORM: return s->qk_norm ? s->head_dim : 0;
    case CUDA_O: return s->hidden_dim * d->q_dim;
    case CUDA_GATE_UP: return 2 * s->ffn_dim * s->hidden_dim;
    case CUDA_DOWN: return s->hidden_dim * s->ffn_dim;
    default: return 0;
    }
}

size_t part_bytes(const cuda_dev *d, cuda_part p) { return part_elements(d, p) * (matrix_part(p) ? d->element : sizeof(float)); }

/* The whole parts first, then block after block. */
void lay_weights(cuda_dev *d) {
    size_t whole = 0, block = 0;
    for (int p = 0; p < CUDA_PARTS; p++) {
        size_t *at = whole_part((cuda_part)p) ? &whole : &block;
        d->part_at[p] = *at;
        *at += up(part_bytes(d, (cuda_part)p), ALIGN);
    }
    d->block_bytes = block;
    for (int p = 0; p < CUDA_PARTS; p++)
        if (!whole_part((cuda_part)p)) d->part_at[p] += whole;
    d->weight_bytes = whole + d->s.n_blocks * block;
}

unsigned char *part_at(const cuda_dev *d, cuda_part p, size_t block) {
    return d->weights + d->part_at[p] + (whole_part(p) ? 0 : block * d->block_bytes);
}
const float *vector_at(const cuda_dev *d, cuda_part p, size_t block) {
    return part_elements(d, p) ? (const float *)(const void *)part_at(d, p, block) : nullptr;
}

/* Bytes that grow with the rows of a batch. The tree's lists come to less than 512 bytes a row but for odd trees. */
size_t row_bytes(const cuda_dev *d) { return d->s.hidden_dim * sizeof(float) + 2 * d->kv_dim * d->element + 2 * sizeof(uint32_t) + 512; }

size_t wide_columns(const cuda_dev *d) { return largest(largest(d->qkv_dim, 2 * d->s.ffn_dim), d->s.hidden_dim); }

size_t fixed_bytes(const cuda_dev *d) {
    size_t e = d->element, c = CHUNK;
    return c * (d->s.hidden_dim + 2 * d->q_dim + d->s.ffn_dim) * e + c * wide_columns(d) * sizeof(float) + LEAVES * (d->s.hidden_dim * e + PIECE * sizeof(float)) +
           ((size_t)64 << 10);
}

double gb(size_t bytes) { return (double)bytes / 1e9; }

status refuse(cuda_dev *d, size_t rows, size_t there, size_t want) {
    size_t fixed = d->weight_bytes + fixed_bytes(d), fits = there > fixed ? (there - fixed) / row_bytes(d) / CHUNK * CHUNK : 0;
    char help[160] = "no option makes this model fit: take a GPU with more memory, or --device cpu";
    if (fits) snprintf(help, sizeof help, "--batch-tokens %zu fits", fits);
    else if (d->s.f32) snprintf(help, sizeof help, "--compute bf16 needs half");
    snprintf(d->g.why, CUDA_WHY_MAX, "not enough memory on the device: %.3f GB for weights and %.3f GB for a batch of %zu tokens, %.3f GB are free: %.3f GB are missing; %s",
             gb(d->weight_bytes), gb(fixed_bytes(d) + rows * row_bytes(d)), rows, gb(there), gb(want - there), help);
    return ST_REFUSED;
}

void free_rows(cuda_dev *d) {
    void *all[] = {d->x, d->k, d->v, d->pos, d->which};
    for (void *p : all) gpu_free(&d->g, p);
    d->x = nullptr, d->k = d->v = nullptr, d->pos = d->which = nullptr;
    d->room = 0;
}

bool take_rows(cuda_dev *d, size_t rows) {
    gpu *g = &d->g;
    bool ok = (d->x = (float *)gpu_alloc(g, rows * d->s.hidden_dim * sizeof(float))) && (d->k = gpu_alloc(g, rows * d->kv_dim * d->element)) &&
              (d->v = gpu_alloc(g, rows * d->kv_dim * d->element)) && (d->pos = (uint32_t *)gpu_alloc(g, rows * sizeof(uint32_t))) &&
              (d->which = (uint32_t *)gpu_alloc(g, rows * sizeof(uint32_t)));
    if (ok) d->room = rows;
    return ok;
}

bool take_fixed(cuda_dev *d) {
    gpu *g = &d->g;
    size_t e = d->element, c = CHUNK;
    return (d->weights = (unsigned char *)gpu_alloc(g, d->weight_bytes)) && (d->h = gpu_alloc(g, c * d->s.hidden_dim * e)) && (d->q = gpu_alloc(g, c * d->q_dim * e)) &&
           (d->att = gpu_alloc(g, c * d->q_dim * e)) && (d->act = gpu_alloc(g, c * d->s.ffn_dim * e)) &&
           (d->wide = (float *)gpu_alloc(g, c * wide_columns(d) * sizeof(float))) && (d->leaf_h = gpu_alloc(g, LEAVES * d->s.hidden_dim * e)) &&
           (d->logits = (float *)gpu_alloc(g, LEAVES * PIECE * sizeof(float))) && (d->lse = (lse_state *)gpu_alloc(g, LEAVES * sizeof(lse_state))) &&
           (d->labels = (uint32_t *)gpu_alloc(g, LEAVES * CUDA_LABELS_MAX * sizeof(uint32_t))) &&
           (d->n_labels = (uint32_t *)gpu_alloc(g, LEAVES * sizeof(uint32_t))) && (d->at_labels = (float *)gpu_alloc(g, LEAVES * CUDA_LABELS_MAX * sizeof(float)));
}

template <int D> tensor_kernel *tensor_for(gpu *g) {
    tensor_kernel *k = attn_tensor<D>;
    return gpu_shared_limit(g, (const void *)k, tensor_shared_bytes(D)) ? k : nullptr;
}

/* Head dimensions that tensor cores serve; the others (and float32) go the plain way. */
bool choose_attention(cuda_dev *d) {
    if (d->s.f32) return true;
    switch (d->s.head_dim) {
    case 16: return (d->tensor = tensor_for<16>(&d->g)) != nullptr;
    case 64: return (d->tensor = tensor_for<64>(&d->g)) != nullptr;
    case 80: return (d->tensor = tensor_for<80>(&d->g)) != nullptr;
    case 96: return (d->tensor = tensor_for<96>(&d->g)) != nullptr;
    case 128: return (d->tensor = tensor_for<128>(&d->g)) != nullptr;
    default: return true;
    }
}

void api_close(cuda_dev *d) {
    if (!d) return;
    gpu *g = &d->g;
    if (g->own) {
        free_rows(d);
        void *all[] = {d->weights, d->h, d->q, d->att, d->act, d->wide, d->leaf_h, d->logits, d->lse, d->labels, d->n_labels, d->at_labels, d->cosine, d->sine, d->keys.p,
                       d->entries.p, d->tiles.p};
        for (void *p : all) gpu_free(g, p);
        for (void *p : d->stages) gpu_pinned_free(g, p);
        gpu_close(g);
    }
    free(d->chunk_tiles);
    delete d;
}

status api_open(cuda_dev **out, int ordinal, const cuda_shape *shape, size_t rows, char *why) {
    *out = nullptr;
    cuda_dev *d = new (std::nothrow) cuda_dev;
    if (!d) {
        snprintf(why, CUDA_WHY_MAX, "out of memory");
        return ST_INCOMPLETE;
    }
    d->s = *shape;
    d->element = shape->f32 ? sizeof(float) : sizeof(bf16);
    d->q_dim = shape->heads * shape->head_dim;
    d->kv_dim = shape->kv_heads * shape->head_dim;
    d->qkv_dim = d->q_dim + 2 * d->kv_dim;
    lay_weights(d);
    rows = up(rows, CHUNK);
    size_t there = 0, want = d->weight_bytes + fixed_bytes(d) + rows * row_bytes(d);
    status s = gpu_open(&d->g, ordinal, why);
    if (!s && !gpu_free_bytes(&d->g, &there)) s = ST_INCOMPLETE;
    if (!s && want > there) s = refuse(d, rows, there, want);
    if (!s && (!take_fixed(d) || !take_rows(d, rows))) s = ST_REFUSED;
    if (!s && !choose_attention(d)) s = ST_REFUSED;
    if (s) {
        api_close(d);
        return s;
    }
    *out = d;
    return ST_OK;
}

void api_info(const cuda_dev *d, cuda_info *out) {
    *out = cuda_info();
    gpu_info(&d->g, out);
    out->weight_bytes = d->weight_bytes;
    out->work_bytes = fixed_bytes(d) + d->room * row_bytes(d);
    out->chunk = CHUNK;
    out->tile_rows = tile_rows(&d->s);
}

/* --- uploading --- */

void *api_stage(cuda_dev *d, size_t *room) {
    int i = d->stage = (d->stage + 1) % STAGES;
    *room = STAGE_BYTES;
    if (!d->stages[i]) return d->stages[i] = gpu_pinned(&d->g, STAGE_BYTES);
    return gpu_wait_mark(&d->g, i) ? d->stages[i] : nullptr;
}

status api_send(cuda_dev *d, cuda_part part, size_t block, size_t at, size_t bytes) {
    size_t all = part < CUDA_PARTS ? part_bytes(d, part) : 0;
    if (at > all || bytes > all - at || bytes > STAGE_BYTES || block >= d->s.n_blocks || !d->stages[d->stage]) {
        snprintf(d->g.why, CUDA_WHY_MAX, "part %d of block %zu has no bytes %zu to %zu", (int)part, block, at, at + bytes);
        return ST_INPUT;
    }
    bool ok = gpu_put(&d->g, part_at(d, part, block) + at, d->stages[d->stage], bytes) && gpu_mark(&d->g, d->stage);
    return ok ? ST_OK : ST_INCOMPLETE;
}

status api_finish(cuda_dev *d) {
    if (!gpu_wait(&d->g)) return ST_INCOMPLETE;
    for (void *&p : d->stages) {
        gpu_pinned_free(&d->g, p);
        p = nullptr;
    }
    return ST_OK;
}

status api_rope(cuda_dev *d, const float *cosine, const float *sine, size_t positions) {
    size_t bytes = positions * (d->s.head_dim / 2) * sizeof(float);
    gpu_free(&d->g, d->cosine);
    gpu_free(&d->g, d->sine);
    d->positions = 0;
    d->sine = nullptr;
    d->cosine = (float *)gpu_alloc(&d->g, bytes);
    if (d->cosine) d->sine = (float *)gpu_alloc(&d->g, bytes);
    if (!d->sine) return ST_REFUSED;
    if (!gpu_put(&d->g, d->cosine, cosine, bytes) || !gpu_put(&d->g, d->sine, sine, bytes) || !gpu_wait(&d->g)) return ST_INCOMPLETE;
    d->positions = positions;
    return ST_OK;
}

/* --- a batch --- */

status api_reserve(cuda_dev *d, size_t rows) {
    rows = up(rows, CHUNK);
    if (rows <= d->room) return ST_OK;
    size_t before = d->room, there = 0;
    free_rows(d);
    if (!gpu_free_bytes(&d->g, &there)) return ST_INCOMPLETE;
    if (rows * row_bytes(d) > there) {
        size_t taken = d->weight_bytes + fixed_bytes(d);
        status s = refuse(d, rows, there + taken, taken + rows * row_bytes(d));
        /* The weights are there already; what was planned stays usable. */
        return take_rows(d, before) ? s : ST_REFUSED;
    }
    return take_rows(d, rows) ? ST_OK : ST_REFUSED;
}

status api_embed(cuda_dev *d, const uint32_t *ids, size_t rows) {
    if (rows > d->room) {
        snprintf(d->g.why, CUDA_WHY_MAX, "%zu rows, room for %zu", rows, d->room);
        return ST_INPUT;
    }
    if (!gpu_put(&d->g, d->which, ids, rows * sizeof *ids)) return ST_INCOMPLETE;
    if (d->s.f32) LAUNCH(embed_rows<float>, (unsigned)rows, ROW_THREADS, 0, d->g.stream, d->x, (const float *)part_at(d, CUDA_EMBED, 0), d->which, d->s.hidden_dim);
    else LAUNCH(embed_rows<bf16>, (unsigned)rows, ROW_THREADS, 0, d->g.stream, d->x, (const bf16 *)part_at(d, CUDA_EMBED, 0), d->which, d->s.hidden_dim);
    return gpu_launched(&d->g, "embed_rows") ? ST_OK : ST_INCOMPLETE;
}

bool put_list(cuda_dev *d, buffer *b, const void *from, size_t bytes) {
    if (bytes > b->bytes) {
        gpu_free(&d->g, b->p);
        b->bytes = 0;
        b->p = gpu_alloc(&d->g, bytes);
        if (!b->p) return false;
        b->bytes = bytes;
    }
    return gpu_put(&d->g, b->p, from, bytes);
}

status api_layout(cuda_dev *d, const cuda_layout *l) {
    size_t chunks = (l->rows + CHUNK - 1) / CHUNK, *tiles = (size_t *)malloc((chunks + 1) * sizeof *tiles);
    if (!tiles || l->rows > d->room) {
        free(tiles);
        snprintf(d->g.why, CUDA_WHY_MAX, "%zu rows, room for %zu", l->rows, d->room);
        return ST_INCOMPLETE;
    }
    memcpy(tiles, l->chunk_tiles, (chunks + 1) * sizeof *tiles);
    free(d->chunk_tiles);
    d->chunk_tiles = tiles;
    d->n_chunks = chunks;
    d->rows = l->rows;
    /* The lists that the stream still reads are replaced only when it has. */
    bool ok = gpu_wait(&d->g) && gpu_put(&d->g, d->pos, l->pos, l->rows * sizeof *l->pos) && put_list(d, &d->keys, l->keys, l->n_keys * sizeof *l->keys) &&
              put_list(d, &d->entries, l->entries, l->n_entries * sizeof *l->entries) && put_list(d, &d->tiles, l->tiles, l->n_tiles * sizeof *l->tiles);
    return ok ? ST_OK : ST_INCOMPLETE;
}

/* Piece by piece through scratch: a row moves up only, so that no row is written before it was read. */
status api_move(cuda_dev *d, const uint32_t *from, size_t rows) {
    if (!gpu_put(&d->g, d->which, from, rows * sizeof *from)) return ST_INCOMPLETE;
    for (size_t at = 0; at < rows; at += CHUNK) {
        size_t n = rows - at < CHUNK ? rows - at : (size_t)CHUNK;
        LAUNCH(gather_rows, (unsigned)n, ROW_THREADS, 0, d->g.stream, d->wide, d->x, d->which + at, d->s.hidden_dim);
        if (!gpu_launched(&d->g, "gather_rows")) return ST_INCOMPLETE;
        LAUNCH(copy_rows, (unsigned)n, ROW_THREADS, 0, d->g.stream, d->x + at * d->s.hidden_dim, d->wide, d->s.hidden_dim);
        if (!gpu_launched(&d->g, "copy_rows")) return ST_INCOMPLETE;
    }
    return ST_OK;
}

bool norm_chunk(cuda_dev *d, void *to, const float *x, const uint32_t *which, size_t rows, const float *w) {
    if (d->s.f32) LAUNCH(rmsnorm_rows<float>, (unsigned)rows, ROW_THREADS, 0, d->g.stream, (float *)to, x, which, d->s.hidden_dim, w, d->s.norm_eps);
    else LAUNCH(rmsnorm_rows<bf16>, (unsigned)rows, ROW_THREADS, 0, d->g.stream, (bf16 *)to, x, which, d->s.hidden_dim, w, d->s.norm_eps);
    return gpu_launched(&d->g, "rmsnorm_rows");
}

bool multiply(cuda_dev *d, cuda_part part, size_t block, size_t n_out, size_t n_in, const void *x, float *y, bool add) {
    return gpu_matmul(&d->g, d->s.f32, CHUNK, n_out, n_in, x, part_at(d, part, block), y, add);
}

template <typename T> bool heads_chunk(cuda_dev *d, size_t block, size_t first, size_t n) {
    heads_args a = {};
    a.qkv = d->wide;
    a.bias = vector_at(d, CUDA_QKV_BIAS, block);
    a.q_norm = vector_at(d, CUDA_Q_NORM, block);
    a.k_norm = vector_at(d, CUDA_K_NORM, block);
    a.cosine = d->cosine, a.sine = d->sine;
    a.pos = d->pos + first;
    a.rows = n, a.heads = d->s.heads, a.kv_heads = d->s.kv_heads, a.head_dim = d->s.head_dim;
    a.eps = d->s.norm_eps;
    a.interleaved = d->s.rope_interleaved;
    size_t warps = n * (a.heads + 2 * a.kv_heads), per_block = ROW_THREADS / WARP;
    LAUNCH(heads_rows<T>, (unsigned)((warps + per_block - 1) / per_block), ROW_THREADS, 0, d->g.stream, a, (T *)d->q, (T *)d->k + first * d->kv_dim,
           (T *)d->v + first * d->kv_dim);
    return gpu_launched(&d->g, "heads_rows");
}

template <typename T> attn_args<T> attention_args(cuda_dev *d, size_t chunk) {
    attn_args<T> a = {};
    a.q = (const T *)d->q, a.out = (T *)d->att, a.k = (const T *)d->k, a.v = (const T *)d->v;
    a.pos = d->pos;
    a.keys = (const cuda_keys *)d->keys.p, a.entries = (const cuda_entry *)d->entries.p, a.tiles = (const cuda_tile *)d->tiles.p + d->chunk_tiles[chunk];
    a.first_row = chunk * CHUNK;
    a.heads = d->s.heads, a.kv_heads = d->s.kv_heads, a.head_dim = d->s.head_dim, a.window = d->s.window;
    a.scale = 1.0f / sqrtf((float)d->s.head_dim);
    return a;
}

template <typename T> bool plain_chunk(cuda_dev *d, size_t chunk) {
    unsigned tiles = (unsigned)(d->chunk_tiles[chunk + 1] - d->chunk_tiles[chunk]);
    LAUNCH(attn_plain<T>, dim3(tiles, (unsigned)d->s.heads), PLAIN_THREADS, plain_shared_bytes(d->s.head_dim), d->g.stream, attention_args<T>(d, chunk));
    return gpu_launched(&d->g, "attn_plain");
}

bool attend_chunk(cuda_dev *d, size_t chunk) {
    if (d->s.f32) return plain_chunk<float>(d, chunk);
    if (!d->tensor) return plain_chunk<bf16>(d, chunk);
    size_t group = d->s.heads / d->s.kv_heads, together = heads_together(d->s.heads, d->s.kv_heads), parts = (group + together - 1) / together;
    unsigned tiles = (unsigned)(d->chunk_tiles[chunk + 1] - d->chunk_tiles[chunk]);
    tensor_kernel *kernel = d->tensor;
    LAUNCH(kernel, dim3(tiles, (unsigned)(d->s.kv_heads * parts)), TENSOR_THREADS, tensor_shared_bytes((int)d->s.head_dim), d->g.stream,
           attention_args<bf16>(d, chunk));
    return gpu_launched(&d->g, "attn_tensor");
}

bool swiglu_chunk(cuda_dev *d, size_t n) {
    dim3 grid((unsigned)((d->s.ffn_dim + 4 * ROW_THREADS - 1) / (4 * ROW_THREADS)), (unsigned)n);
    if (d->s.f32) LAUNCH(swiglu_rows<float>, grid, ROW_THREADS, 0, d->g.stream, (float *)d->act, d->wide, d->s.ffn_dim);
    else LAUNCH(swiglu_rows<bf16>, grid, ROW_THREADS, 0, d->g.stream, (bf16 *)d->act, d->wide, d->s.ffn_dim);
    return gpu_launched(&d->g, "swiglu_rows");
}

/* One chunk through one block; the chunks before have been. Products run over CHUNK rows, whatever the batch has. */
bool block_chunk(cuda_dev *d, size_t b, size_t chunk) {
    const cuda_shape *s = &d->s;
    size_t first = chunk * CHUNK, n = d->rows - first < CHUNK ? d->rows - first : (size_t)CHUNK, hd = s->hidden_dim;
    float *x = d->x + first * hd;
    return norm_chunk(d, d->h, x, nullptr, n, vector_at(d, CUDA_ATTN_NORM, b)) && multiply(d, CUDA_QKV, b, d->qkv_dim, hd, d->h, d->wide, false) &&
           (s->f32 ? heads_chunk<float>(d, b, first, n) : heads_chunk<bf16>(d, b, first, n)) && attend_chunk(d, chunk) &&
           multiply(d, CUDA_O, b, hd, d->q_dim, d->att, x, true) && norm_chunk(d, d->h, x, nullptr, n, vector_at(d, CUDA_FFN_NORM, b)) &&
           multiply(d, CUDA_GATE_UP, b, 2 * s->ffn_dim, hd, d->h, d->wide, false) && swiglu_chunk(d, n) &&
           multiply(d, CUDA_DOWN, b, hd, s->ffn_dim, d->act, x, true);
}

status api_blocks(cuda_dev *d, size_t from, size_t to) {
    if (to > d->s.n_blocks || !d->chunk_tiles || !d->positions) {
        snprintf(d->g.why, CUDA_WHY_MAX, "blocks %zu to %zu: nothing is laid out for them", from, to);
        return ST_INPUT;
    }
    for (size_t b = from; b < to; b++)
        for (size_t chunk = 0; chunk < d->n_chunks; chunk++)
            if (!block_chunk(d, b, chunk)) return ST_INCOMPLETE;
    return ST_OK;
}

status api_wait(cuda_dev *d) { return gpu_wait(&d->g) ? ST_OK : ST_INCOMPLETE; }

status api_hidden(cuda_dev *d, const uint32_t *rows, size_t n, bool normed, float *out) {
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t many = n - at < CHUNK ? n - at : (size_t)CHUNK, hd = d->s.hidden_dim;
        if (!gpu_put(&d->g, d->which, rows + at, many * sizeof *rows)) return ST_INCOMPLETE;
        if (normed) LAUNCH(rmsnorm_rows<float>, (unsigned)many, ROW_THREADS, 0, d->g.stream, d->wide, d->x, d->which, hd, vector_at(d, CUDA_NORM, 0), d->s.norm_eps);
        else LAUNCH(gather_rows, (unsigned)many, ROW_THREADS, 0, d->g.stream, d->wide, d->x, d->which, hd);
        if (!gpu_launched(&d->g, "gather_rows") || !gpu_get(&d->g, out + at * hd, d->wide, many * hd * sizeof *out)) return ST_INCOMPLETE;
    }
    return ST_OK;
}

/* Up to LEAVES rows; the product always has LEAVES. */
bool leaf_logits(cuda_dev *d, const uint32_t *rows, size_t n, const uint32_t *labels, const uint32_t *n_labels, size_t stride, float *at_labels, lse_state *states) {
    gpu *g = &d->g;
    size_t hd = d->s.hidden_dim;
    cuda_part output = d->s.tied ? CUDA_EMBED : CUDA_OUTPUT;
    if (!gpu_put(g, d->which, rows, n * sizeof *rows) || !gpu_put(g, d->labels, labels, n * stride * sizeof *labels) ||
        !gpu_put(g, d->n_labels, n_labels, n * sizeof *n_labels) || !norm_chunk(d, d->leaf_h, d->x, d->which, n, vector_at(d, CUDA_NORM, 0)))
        return false;
    LAUNCH(lse_begin, 1, ROW_THREADS, 0, g->stream, d->lse, n);
    if (!gpu_launched(g, "lse_begin")) return false;
    for (size_t first = 0; first < d->s.vocab; first += PIECE) {
        size_t many = d->s.vocab - first < PIECE ? d->s.vocab - first : (size_t)PIECE;
        if (!gpu_matmul(g, d->s.f32, LEAVES, many, hd, d->leaf_h, part_at(d, output, 0) + first * hd * d->element, d->logits, false)) return false;
        LAUNCH(lse_piece, (unsigned)n, ROW_THREADS, 0, g->stream, d->lse, d->logits, first, many, d->labels, d->n_labels, stride, d->at_labels);
        if (!gpu_launched(g, "lse_piece")) return false;
    }
    return gpu_get(g, at_labels, d->at_labels, n * stride * sizeof *at_labels) && gpu_get(g, states, d->lse, n * sizeof *states);
}

status api_logits(cuda_dev *d, const uint32_t *rows, size_t n, const uint32_t *labels, const uint32_t *n_labels, size_t stride, float *at_labels, double *lse, bool *bad) {
    if (stride > CUDA_LABELS_MAX) {
        snprintf(d->g.why, CUDA_WHY_MAX, "%zu labels, at most %d", stride, (int)CUDA_LABELS_MAX);
        return ST_INPUT;
    }
    lse_state states[LEAVES];
    for (size_t at = 0; at < n; at += LEAVES) {
        size_t many = n - at < LEAVES ? n - at : (size_t)LEAVES;
        if (!leaf_logits(d, rows + at, many, labels + at * stride, n_labels + at, stride, at_labels + at * stride, states)) return ST_INCOMPLETE;
        for (size_t i = 0; i < many; i++) {
            lse[at + i] = (double)states[i].max + log(states[i].sum);
            bad[at + i] = states[i].bad != 0;
        }
    }
    return ST_OK;
}

status api_rate(cuda_dev *d, size_t n, double *flops) {
    double seconds = 0;
    enum { TIMES = 20 };
    if (!gpu_time_matmul(&d->g, n, TIMES, &seconds)) return ST_INCOMPLETE;
    *flops = 2.0 * (double)n * (double)n * (double)n * TIMES / seconds;
    return ST_OK;
}

const cuda_api api = {CUDA_API_VERSION, api_open,   api_close, api_info, api_stage, api_send,   api_finish, api_rope, api_reserve,
                      api_embed,        api_layout, api_move,  api_blocks, api_wait, api_hidden, api_logits, api_rate};

} // namespace

extern "C" __attribute__((visibility("default"))) const cuda_api *anyjev_cuda_api(void);
extern "C" const cuda_api *anyjev_cuda_api(void) { return &api; }
