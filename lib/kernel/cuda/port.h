/* port.h: the words that kernel bodies are written in. nvcc has them; under CUDA_EMULATION emu.h gives them to a plain
 * C++ compiler, so that the same bodies run on a host and can be compared with the CPU's arithmetic. */
#ifndef ANYJEV_CUDA_PORT_H
#define ANYJEV_CUDA_PORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef CUDA_EMULATION
#include "kernel/cuda/emu.h"
#define KERNEL static
#define DEVICE static inline
#define SHARED static
#define DYN_SHARED(name) unsigned char *name = emu::machine().dynamic()
/* A kernel with commas in its template arguments is put into a variable first. */
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) emu::launch(grid, block, shared_bytes, [&] { kernel(__VA_ARGS__); })
#else
#include <cuda_runtime.h>
#define KERNEL static __global__
#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define DYN_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#endif

#ifdef CUDA_EMULATION
#define BOTH static inline
#else
#define BOTH static __host__ __device__ __forceinline__
#endif

/* bfloat16: the upper half of a float, rounded to nearest even; a NaN stays one. */
struct bf16 {
    uint16_t bits;
};

BOTH uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

BOTH float bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

BOTH float to_float(float v) { return v; }
BOTH float to_float(bf16 v) { return bits_float((uint32_t)v.bits << 16); }

BOTH void from_float(float *to, float v) { *to = v; }
BOTH void from_float(bf16 *to, float v) {
    uint32_t u = float_bits(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) to->bits = (uint16_t)(u >> 16 | 0x40);
    else to->bits = (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* Two neighbours in one register, the first in the lower half, as the tensor cores take them. */
BOTH uint32_t pack_pair(float first, float second) {
    bf16 a, b;
    from_float(&a, first);
    from_float(&b, second);
    return (uint32_t)a.bits | (uint32_t)b.bits << 16;
}

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

/* The sum and the maximum over a warp; the same bits in every lane. */
DEVICE float warp_sum(float v) {
    for (int d = WARP / 2; d > 0; d /= 2) v += __shfl_xor_sync(ALL_LANES, v, d);
    return v;
}

DEVICE float warp_max(float v) {
    for (int d = WARP / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, d));
    return v;
}

#endif
