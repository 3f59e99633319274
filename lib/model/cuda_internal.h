/* cuda_internal.h: what cuda.c (opening, uploading) and cuda_run.c (a batch) share. */
#ifndef ANYJEV_MODEL_CUDA_INTERNAL_H
#define ANYJEV_MODEL_CUDA_INTERNAL_H

#include "model/cuda.h"
#include "model/model_internal.h"

struct model_cuda {
    const model *m;
    void *object; /* of dlopen */
    const cuda_api *api;
    cuda_dev *dev;
    cuda_info info; /* as it was after opening */
    size_t positions; /* of the table of rotations on the device */
    char why[CUDA_WHY_MAX];
};

/* The device's own words as an error; s itself when it is ST_OK. */
status model_cuda_said(model_cuda *g, status s, err *e);

#endif
