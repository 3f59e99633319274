/* rows.cuh: what happens to single rows: embedding, RMSNorm, rotation, SwiGLU, log-sum-exp. T is the compute type of
 * activations and weights (float or bf16); the residual stream and all sums are float. A block handles one row (or a
 * warp one head), so that no row's numbers depend on another. */
#ifndef ANYJEV_CUDA_ROWS_CUH
#define ANYJEV_CUDA_ROWS_CUH

#include "kernel/cuda/port.h"

enum { ROW_THREADS = 256 };

/* Sum and maximum over the block; the same bits in every thread. */
DEVICE float block_sum(float v) {
    SHARED float part[WARP];
    v = warp_sum(v);
    __syncthreads(); /* part may still be read from the call before */
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    float s = 0;
    for (unsigned w = 0; w < blockDim.x / WARP; w++) s += part[w];
    return s;
}

DEVICE float block_max(float v) {
    SHARED float part[WARP];
    v = warp_max(v);
    __syncthreads();
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    float m = part[0];
    for (unsigned w = 1; w < blockDim.x / WARP; w++) m = fmaxf(m, part[w]);
    return m;
}

/* x[row][n] = embed[ids[row]][n]; one block per row. */
template <typename T> KERNEL void embed_rows(float *x, const T *embed, const uint32_t *ids, size_t n) {
    size_t row = blockIdx.x;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) x[row * n + i] = to_float(embed[ids[row] * n + i]);
}

/* to[row][n] = from[which[row]][n] */
KERNEL void gather_rows(float *to, const float *from, const uint32_t *which, size_t n) {
    size_t row = blockIdx.x;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[row * n + i] = from[which[row] * n + i];
}

KERNEL void copy_rows(float *to, const float *from, size_t n) {
    size_t row = blockIdx.x;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[row * n + i] = from[row * n + i];
}

/* y[row] = x[which[row]] / sqrt(mean(x^2) + eps) * w; which NULL: row itself. */
template <typename T> KERNEL void rmsnorm_rows(T *y, const float *x, const uint32_t *which, size_t n, const float *w, float eps) {
    size_t row = blockIdx.x;
    const float *from = x + (which ? which[row] : row) * n;
    float sum = 0;
    if (n % 4 == 0) {
        for (size_t i = threadIdx.x; i < n / 4; i += blockDim.x) {
            float4 v = ((const float4 *)from)[i];
            sum += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
        }
    } else {
        for (size_t i = threadIdx.x; i < n; i += blockDim.x) sum += from[i] * from[i];
    }
    float scale = 1.0f / sqrtf(block_sum(sum) / (float)n + eps);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) from_float(&y[row * n + i], from[i] * scale * w[i]);
}

struct heads_args {
    const float *qkv; /* [rows][(heads + 2 kv_heads) * head_dim], of one chunk */
    const float *bias, *q_norm, *k_norm; /* or NULL */
    const float *cosine, *sine;          /* [positions][head_dim / 2] */
    const uint32_t *pos;                 /* [rows], of the chunk */
    size_t rows, heads, kv_heads, head_dim;
    float eps;
    bool interleaved;
};

/* Bias, RMSNorm per head, rotation of q and k; q goes to q[row][heads * head_dim], k and v to the cache rows of the
 * chunk. A warp per head; `half` pairs, each rotated by one lane. */
template <typename T> KERNEL void heads_rows(heads_args a, T *q, T *k, T *v) {
    size_t all = a.heads + 2 * a.kv_heads, item = (size_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (item >= a.rows * all) return;
    size_t row = item / all, head = item % all, d = a.head_dim, half = d / 2;
    const float *from = a.qkv + (row * all + head) * d, *bias = a.bias ? a.bias + head * d : nullptr;
    bool is_q = head < a.heads, is_v = head >= a.heads + a.kv_heads;
    T *to = is_q ? q + (row * a.heads + head) * d : is_v ? v + (row * a.kv_heads + head - a.heads - a.kv_heads) * d : k + (row * a.kv_heads + head - a.heads) * d;
    if (is_v) {
        for (size_t i = lane; i < d; i += WARP) from_float(&to[i], bias ? from[i] + bias[i] : from[i]);
        return;
    }
    const float *norm = is_q ? a.q_norm : a.k_norm;
    float scale = 1;
    if (norm) {
        float sum = 0;
        for (size_t i = lane; i < d; i += WARP) {
            float x = bias ? from[i] + bias[i] : from[i];
            sum += x * x;
        }
        scale = 1.0f / sqrtf(warp_sum(sum) / (float)d + a.eps);
    }
    for (size_t i = lane; i < half; i += WARP) {
        size_t i0 = a.interleaved ? 2 * i : i, i1 = a.interleaved ? 2 * i + 1 : i + half;
        float x0 = bias ? from[i0] + bias[i0] : from[i0], x1 = bias ? from[i1] + bias[i1] : from[i1];
        if (norm) x0 *= scale * norm[i0], x1 *= scale * norm[i1];
        float c = a.cosine[a.pos[row] * half + i], s = a.sine[a.pos[row] * half + i];
        from_float(&to[i0], x0 * c - x1 * s);
        from_float(&to[i1], x1 * c + x0 * s);
    }
}

/* y[row][n] = silu(x[row][i]) * x[row][n + i]; x[row][2n]. Grid: pieces of 4 * ROW_THREADS columns x rows. */
template <typename T> KERNEL void swiglu_rows(T *y, const float *x, size_t n) {
    const float *gate = x + (size_t)blockIdx.y * 2 * n, *up = gate + n;
    T *to = y + (size_t)blockIdx.y * n;
    size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    float g[4], u[4];
    size_t many = n - i < 4 ? n - i : 4;
    if (n % 4 == 0) {
        float4 a = *(const float4 *)(gate + i), b = *(const float4 *)(up + i);
        g[0] = a.x, g[1] = a.y, g[2] = a.z, g[3] = a.w;
        u[0] = b.x, u[1] = b.y, u[2] = b.z, u[3] = b.w;
    } else {
        for (size_t j = 0; j < many; j++) g[j] = gate[i + j], u[j] = up[i + j];
    }
    for (size_t j = 0; j < many; j++) from_float(&to[i + j], g[j] / (1.0f + expf(-g[j])) * u[j]);
}

/* The running log-sum-exp of one row over pieces of the vocabulary. */
struct lse_state {
    double sum; /* of exp(logit - max) */
    float max;
    uint32_t bad; /* a logit was NaN or infinite */
};

KERNEL void lse_begin(lse_state *s, size_t rows) {
    for (size_t i = threadIdx.x; i < rows; i += blockDim.x) s[i].sum = 0, s[i].max = -INFINITY, s[i].bad = 0;
}

/* Takes logits [first, first + n) of every row (row stride n) into its state, and keeps those at labels; logits of the
 * whole vocabulary stand nowhere. One block per row. */
KERNEL void lse_piece(lse_state *state, const float *logits, size_t first, size_t n, const uint32_t *labels, const uint32_t *n_labels, size_t stride,
                      float *at_labels) {
    size_t row = blockIdx.x;
    const float *x = logits + row * n;
    float top = -INFINITY, sum = 0, bad = 0;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        float v = x[i];
        if (!(fabsf(v) <= 3.402823466e38f)) bad = 1;
        top = fmaxf(top, v);
    }
    float before = state[row].max;
    top = fmaxf(block_max(top), before);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) sum += expf(x[i] - top);
    sum = block_sum(sum);
    bad = block_max(bad);
    for (size_t i = threadIdx.x; i < n_labels[row]; i += blockDim.x) {
        size_t l = labels[row * stride + i];
        if (l >= first && l < first + n) at_labels[row * stride + i] = x[l - first];
    }
    if (threadIdx.x == 0) {
        state[row].sum = state[row].sum * exp((double)before - (double)top) + (double)sum;
        state[row].max = top;
        if (bad > 0) state[row].bad = 1;
    }
}

#endif
