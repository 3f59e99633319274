/* weights_internal.h: what weights.c and safetensors.c share. */
#ifndef ANYJEV_WEIGHTS_WEIGHTS_INTERNAL_H
#define ANYJEV_WEIGHTS_WEIGHTS_INTERNAL_H

#include "weights/map.h"
#include "weights/weights.h"

struct weights {
    weight *t; /* sorted by name when open */
    size_t n, cap;
    map *maps;
    char **names; /* owned tensor names of safetensors */
    size_t n_maps, cap_maps, n_names, cap_names;
    gguf *g;
};

/* Adds the tensors of one safetensors file. */
status safetensors_add(weights *w, const char *path, err *e);
/* Adds all files of a folder, by its index when it has one. */
status safetensors_folder(weights *w, const char *dir, err *e);
status weights_add(weights *w, const weight *t, err *e);
void weights_sort(weights *w);

#endif
