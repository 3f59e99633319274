/* Compute modes: how the matrices lie while products are made with them. */
#include <string.h>

#include "model/model_internal.h"

static const char *const names[] = {"f32", "int8"};

bool model_compute_parse(const char *name, model_compute *out) {
    for (int i = MODEL_F32; i <= MODEL_INT8; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (model_compute)i;
            return true;
        }
    return false;
}

const char *model_compute_name(model_compute c) {
    return names[c];
}

size_t model_matrices(const model *m) {
    return 1 + m->c.n_blocks * MODEL_BLOCK_MATRICES;
}

kmat **model_matrix(model *m, size_t i) {
    if (i == 0) return &m->output;
    model_block *b = &m->blocks[(i - 1) / MODEL_BLOCK_MATRICES];
    kmat **all[MODEL_BLOCK_MATRICES] = {&b->q, &b->k, &b->v, &b->o, &b->gate, &b->up, &b->down};
    return all[(i - 1) % MODEL_BLOCK_MATRICES];
}

void model_replace(model *m, kmat **place, kmat *packed) {
    if (*place != m->embed) kmat_close(*place); /* a tied embedding is still looked up as it is */
    *place = packed;
}

status model_pack(model *m, kernel *kn, model_compute c, err *e) {
    if (c == MODEL_F32) return ST_OK;
    for (size_t i = 0; i < model_matrices(m); i++) {
        kmat **place = model_matrix(m, i), *packed;
        status s = kmat_pack(kn, &packed, *place, KMAT_INT8, e);
        if (s) return err_prefix(e, "%s", m->path);
        model_replace(m, place, packed);
    }
    return ST_OK;
}
