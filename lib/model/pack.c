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

kmat_form model_form(const kmat *read, model_compute c) {
    if (c == MODEL_INT8) return KMAT_INT8;
    return kmat_pack_bytes(KMAT_PANELS, kmat_type_in(read), kmat_n_out(read), kmat_n_in(read)) ? KMAT_PANELS : KMAT_ROWS;
}

status model_prepare(model *m, kernel *kn, model_compute c, const char *tokenizer_sha256, bool verify, buf *note, err *e) {
    bool taken;
    status s = pack_take(m, kn, c, tokenizer_sha256, verify, &taken, note, e);
    if (s || taken || c == MODEL_F32) return s; /* rows of the file are nearly as fast as panels */
    for (size_t i = 0; i < model_matrices(m); i++) {
        kmat **place = model_matrix(m, i), *packed;
        if ((s = kmat_pack(kn, &packed, *place, KMAT_INT8, e))) return err_prefix(e, "%s", m->path);
        model_replace(m, place, packed);
    }
    return ST_OK;
}
