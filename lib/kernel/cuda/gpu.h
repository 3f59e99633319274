/* gpu.h: a device as the engine needs it: memory, copies, marks in the stream, matrix products. gpu_cuda.cu has it from
 * the CUDA runtime and cuBLASLt, gpu_emu.cpp from the host. Functions that return bool write to g->why on failure. */
#ifndef ANYJEV_CUDA_GPU_H
#define ANYJEV_CUDA_GPU_H

#include <stddef.h>

#include "kernel/cuda/cuda_api.h"
#include "kernel/cuda/port.h"

enum { GPU_MARKS = 4 };

#ifdef CUDA_EMULATION
typedef int gpu_stream;
#else
typedef cudaStream_t gpu_stream;
#endif

struct gpu {
    char *why; /* [CUDA_WHY_MAX] */
    gpu_stream stream;
    void *own; /* of the implementation */
};

/* ST_REFUSED: no driver, one that is too old, no such device, one that this build has no machine code for. */
status gpu_open(gpu *g, int ordinal, char *why);
void gpu_close(gpu *g);
void gpu_info(const gpu *g, cuda_info *out);
bool gpu_free_bytes(gpu *g, size_t *bytes);

void *gpu_alloc(gpu *g, size_t bytes); /* zeroed; NULL when memory is short */
void gpu_free(gpu *g, void *p);
void *gpu_pinned(gpu *g, size_t bytes);
void gpu_pinned_free(gpu *g, void *p);
bool gpu_put(gpu *g, void *to, const void *from, size_t bytes); /* in the stream; the source must stay until it is done */
bool gpu_get(gpu *g, void *to, const void *from, size_t bytes); /* done on return */
bool gpu_mark(gpu *g, int mark);                                /* remembers the place in the stream ... */
bool gpu_wait_mark(gpu *g, int mark);                           /* ... and waits until it is reached */
bool gpu_wait(gpu *g);
bool gpu_launched(gpu *g, const char *kernel); /* did the launch before this succeed? */
bool gpu_shared_limit(gpu *g, const void *kernel, size_t bytes); /* lets a kernel take so much shared memory */

/* y[m][n] (float, dense) = or += x[m][k] w[n][k]^T; x and w in float32 or bf16, sums in float32. One of a shape always
 * runs the same way. */
bool gpu_matmul(gpu *g, bool f32, size_t m, size_t n, size_t k, const void *x, const void *w, float *y, bool add);
/* Seconds that `times` products of bf16 n x n matrices take. */
bool gpu_time_matmul(gpu *g, size_t n, int times, double *seconds);

#endif
