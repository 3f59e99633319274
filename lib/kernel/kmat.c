/* kmat.c: weight matrices: shapes, forms, packing. */
#include <string.h>

#include "base/mem.h"
#include "kernel/internal.h"

static size_t panels_of(size_t n_out) { return n_out / PANEL + (n_out % PANEL != 0); }

static status kmat_new(kmat **out, kmat_form form, kmat_type t, const void *data, size_t n_out, size_t n_in, err *e) {
    kmat *m = mem_zero(1, sizeof *m);
    if (!m) return err_memory(e, sizeof *m);
    *m = (kmat){.type = t, .form = form, .n_out = n_out, .n_in = n_in, .data = data};
    if (form == KMAT_ROWS) kmat_bytes(t, n_in, &m->row_bytes);
    *out = m;
    return ST_OK;
}

status kmat_open(kmat **out, kmat_type t, const void *data, size_t bytes, size_t n_out, size_t n_in, err *e) {
    size_t row, all;
    *out = NULL;
    if (n_out == 0 || n_in == 0 || !kmat_bytes(t, n_in, &row) || !size_mul(row, n_out, &all))
        return err_set(e, ST_INPUT, "a %s matrix of %zu x %zu elements is not possible (blocks of %zu)", kmat_type_name(t),
                       n_out, n_in, kmat_block_elems(t));
    if (all != bytes)
        return err_set(e, ST_INPUT, "a %s matrix of %zu x %zu elements takes %zu bytes, not %zu", kmat_type_name(t), n_out,
                       n_in, all, bytes);
    return kmat_new(out, KMAT_ROWS, t, data, n_out, n_in, e);
}

size_t kmat_pack_bytes(kmat_form form, kmat_type t, size_t n_out, size_t n_in) {
    size_t n, row, whole;
    if (!kmat_bytes(t, n_in, &row) || !size_mul(row, n_out, &whole) || n_out > SIZE_MAX - PANEL) return 0;
    switch (form) {
    case KMAT_ROWS: return whole;
    case KMAT_PANELS:
        if (kmat_block_elems(t) != 1) return 0;
        return size_mul(panels_of(n_out) * PANEL, row, &n) ? n : 0;
    default: return int8_bytes(n_out, n_in);
    }
}

status kmat_open_packed(kmat **out, kmat_form form, kmat_type t, const void *data, size_t bytes, size_t n_out,
                        size_t n_in, err *e) {
    *out = NULL;
    size_t need = kmat_pack_bytes(form, t, n_out, n_in);
    if (need == 0 || need != bytes)
        return err_set(e, ST_INPUT, "a packed %s matrix of %zu x %zu elements takes %zu bytes, not %zu", kmat_type_name(t),
                       n_out, n_in, need, bytes);
    if (form == KMAT_INT8 && (uintptr_t)data % sizeof(float) != 0)
        return err_set(e, ST_INPUT, "a packed int8 matrix does not begin on a multiple of %zu bytes", sizeof(float));
    return kmat_new(out, form, t, data, n_out, n_in, e);
}

void kmat_close(kmat *m) {
    if (!m) return;
    free(m->owned);
    free(m);
}

size_t kmat_n_out(const kmat *m) { return m->n_out; }
size_t kmat_n_in(const kmat *m) { return m->n_in; }
kmat_type kmat_type_in(const kmat *m) { return m->type; }
kmat_form kmat_form_in(const kmat *m) { return m->form; }

const void *kmat_data(const kmat *m) {
    return m->data;
}

/* One panel of form PANELS: element bytes are moved, not converted; rows past n_out are zero. */
static void pack_panel(const kmat *src, size_t panel, unsigned char *dst) {
    size_t size = kmat_block_bytes(src->type), first = panel * PANEL;
    size_t rows = src->n_out - first < PANEL ? src->n_out - first : PANEL;
    if (rows < PANEL) memset(dst, 0, src->n_in * PANEL * size);
    /* In squares of 32 by 32, so that what is written stays in cache. */
    for (size_t k0 = 0; k0 < src->n_in; k0 += 32) {
        size_t k1 = src->n_in - k0 < 32 ? src->n_in : k0 + 32;
        for (size_t r = 0; r < rows; r++) {
            const unsigned char *s = src->data + (first + r) * src->row_bytes;
            if (size == 2)
                for (size_t k = k0; k < k1; k++) memcpy(dst + (k * PANEL + r) * 2, s + k * 2, 2);
            else
                for (size_t k = k0; k < k1; k++) memcpy(dst + (k * PANEL + r) * 4, s + k * 4, 4);
        }
    }
}

typedef struct pack_job {
    const kmat *src;
    kmat_form form;
    unsigned char *dst;
    size_t panel_bytes;
    float *rows; /* [threads][n_in] */
} pack_job;

static void pack_some(void *arg, size_t begin, size_t end, unsigned worker) {
    pack_job *j = arg;
    for (size_t p = begin; p < end; p++) {
        unsigned char *dst = j->dst + p * j->panel_bytes;
        if (j->form == KMAT_PANELS)
            pack_panel(j->src, p, dst);
        else
            int8_pack_panel(j->src, p, dst, j->rows + worker * j->src->n_in);
    }
}

status kmat_pack_into(kernel *kn, const kmat *src, kmat_form form, void *dst, size_t bytes, err *e) {
    size_t need = kmat_pack_bytes(form, src->type, src->n_out, src->n_in), scratch_bytes;
    if (src->form != KMAT_ROWS || need == 0 || need != bytes)
        return err_set(e, ST_INPUT, "a %s matrix cannot be packed so", kmat_type_name(src->type));
    if (form == KMAT_ROWS) {
        memcpy(dst, src->data, bytes);
        return ST_OK;
    }
    size_t panels = panels_of(src->n_out);
    pack_job j = {.src = src, .form = form, .dst = dst, .panel_bytes = bytes / panels};
    if (!size_mul(src->n_in, kernel_threads(kn) * sizeof(float), &scratch_bytes)) return err_memory(e, SIZE_MAX);
    j.rows = scratch_need(&kn->own, scratch_bytes, e);
    if (!j.rows) return e->status;
    kernel_for(kn, panels, 1, pack_some, &j);
    return ST_OK;
}

status kmat_pack(kernel *kn, kmat **out, const kmat *src, kmat_form form, err *e) {
    *out = NULL;
    size_t bytes = kmat_pack_bytes(form, src->type, src->n_out, src->n_in);
    if (bytes == 0) return err_set(e, ST_INPUT, "a %s matrix cannot be packed so", kmat_type_name(src->type));
    void *p = mem_aligned(bytes, 1);
    if (!p) return err_memory(e, bytes);
    status st = kmat_pack_into(kn, src, form, p, bytes, e);
    if (st == ST_OK) st = kmat_open_packed(out, form, src->type, p, bytes, src->n_out, src->n_in, e);
    if (st != ST_OK) {
        free(p);
        return st;
    }
    (*out)->owned = p;
    return ST_OK;
}

void kmat_row(const kmat *m, size_t row, float *out) {
    size_t size = kmat_block_bytes(m->type);
    switch (m->form) {
    case KMAT_ROWS: kmat_widen(m->type, m->data + row * m->row_bytes, m->n_in, out); return;
    case KMAT_PANELS: {
        const unsigned char *p = m->data + (row / PANEL * PANEL * m->n_in + row % PANEL) * size;
        for (size_t k = 0; k < m->n_in; k++) kmat_widen(m->type, p + k * PANEL * size, 1, out + k);
        return;
    }
    default: int8_row(m, row, out);
    }
}
