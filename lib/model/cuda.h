/* cuda.h: the forward pass on a GPU, through libanyjev_cuda.so (kernel/cuda/cuda_api.h), which is opened here and not
 * linked: a program that stays on the CPU needs no CUDA. */
#ifndef ANYJEV_MODEL_CUDA_H
#define ANYJEV_MODEL_CUDA_H

#include "kernel/cuda/cuda_api.h"
#include "model/model.h"

typedef struct model_cuda model_cuda;

/* "cuda" or "cuda:N"; false for another text. */
bool model_cuda_parse(const char *device, int *ordinal);

/* Opens the shared object ($ANYJEV_CUDA_LIB, or libanyjev_cuda.so beside the program) and the device, plans memory for
 * batches of `rows` distinct tokens, and uploads the weights of m, which must outlive it. ST_REFUSED when the object, a
 * library, the driver, the device or memory is missing: the text says which, and what helps. */
status model_cuda_open(model_cuda **out, const model *m, kernel *kn, int ordinal, bool f32, size_t rows, err *e);
void model_cuda_close(model_cuda *g);
/* What goes into a record as the compute mode: cuda-bf16 or cuda-f32. */
const char *model_cuda_compute(bool f32);
void model_cuda_info(const model_cuda *g, cuda_info *out);

/* Makes sure, before anything runs, that a batch of so many distinct tokens with prompts of so many tokens will fit. */
status model_cuda_prepare(model_cuda *g, size_t rows, size_t positions, err *e);
/* As model_run. */
status model_cuda_run(model_cuda *g, model_prompt *prompts, size_t n, model_stats *stats, model_progress *progress, void *ctx, size_t *bad, err *e);
/* The device's rate for bf16 products of n x n matrices, in FLOP/s. */
status model_cuda_rate(model_cuda *g, size_t n, double *flops, err *e);

#endif
