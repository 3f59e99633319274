/* The device of gpu.h on the host, for tests. ANYJEV_EMULATED_MEMORY: its memory in bytes. */
#include "kernel/cuda/gpu.h"

namespace {
struct emulated {
    size_t total, used;
};
emulated *of(const gpu *g) { return (emulated *)g->own; }
/* Every allocation has its size before it. */
const size_t HEAD = 64;
}

status gpu_open(gpu *g, int ordinal, char *why) {
    const char *memory = getenv("ANYJEV_EMULATED_MEMORY");
    g->why = why;
    if (ordinal != 0) {
        snprintf(why, CUDA_WHY_MAX, "device %d does not exist: this host has 1, numbered from 0", ordinal);
        return ST_REFUSED;
    }
    g->own = new emulated{memory ? (size_t)strtoull(memory, nullptr, 10) : (size_t)1 << 30, 0};
    return ST_OK;
}

void gpu_close(gpu *g) {
    delete of(g);
    g->own = nullptr;
}

void gpu_info(const gpu *g, cuda_info *out) {
    snprintf(out->name, sizeof out->name, "emulation on the host");
    snprintf(out->runtime, sizeof out->runtime, "none");
    out->memory_total = of(g)->total;
    out->memory_free = of(g)->total - of(g)->used;
    out->integrated = true;
}

bool gpu_free_bytes(gpu *g, size_t *bytes) {
    *bytes = of(g)->total - of(g)->used;
    return true;
}

void *gpu_alloc(gpu *g, size_t bytes) {
    emulated *e = of(g);
    if (bytes > e->total - e->used) {
        snprintf(g->why, CUDA_WHY_MAX, "cannot allocate %zu bytes on the device", bytes);
        return nullptr;
    }
    char *p = (char *)aligned_alloc(64, HEAD + (bytes + 63) / 64 * 64);
    if (!p) return nullptr;
    memcpy(p, &bytes, sizeof bytes);
    memset(p + HEAD, 0, bytes);
    e->used += bytes;
    return p + HEAD;
}

void gpu_free(gpu *g, void *p) {
    if (!p) return;
    char *at = (char *)p - HEAD;
    size_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    of(g)->used -= bytes;
    free(at);
}

void *gpu_pinned(gpu *, size_t bytes) { return malloc(bytes ? bytes : 1); }
void gpu_pinned_free(gpu *, void *p) { free(p); }

bool gpu_put(gpu *, void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    return true;
}

bool gpu_get(gpu *, void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    return true;
}

bool gpu_mark(gpu *, int) { return true; }
bool gpu_wait_mark(gpu *, int) { return true; }
bool gpu_wait(gpu *) { return true; }
bool gpu_launched(gpu *, const char *) { return true; }
bool gpu_shared_limit(gpu *, const void *, size_t) { return true; }

template <typename T> static void product(size_t m, size_t n, size_t k, const T *x, const T *w, float *y, bool add) {
    for (size_t r = 0; r < m; r++)
        for (size_t c = 0; c < n; c++) {
            float sum = 0;
            for (size_t i = 0; i < k; i++) sum += to_float(x[r * k + i]) * to_float(w[c * k + i]);
            y[r * n + c] = add ? y[r * n + c] + sum : sum;
        }
}

bool gpu_matmul(gpu *, bool f32, size_t m, size_t n, size_t k, const void *x, const void *w, float *y, bool add) {
    if (f32) product(m, n, k, (const float *)x, (const float *)w, y, add);
    else product(m, n, k, (const bf16 *)x, (const bf16 *)w, y, add);
    return true;
}

bool gpu_time_matmul(gpu *g, size_t, int, double *) {
    snprintf(g->why, CUDA_WHY_MAX, "the emulation has no rate worth measuring");
    return false;
}
