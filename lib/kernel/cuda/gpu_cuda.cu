/* The device of gpu.h by the CUDA runtime and cuBLASLt. Products of one shape run by one algorithm, chosen once and
 * without splitting sums between blocks, so that a row's numbers do not depend on its place. */
#include <cublasLt.h>
#include <stdio.h>

#include <map>
#include <new>
#include <tuple>

#include "kernel/cuda/gpu.h"

namespace {

const size_t WORKSPACE = (size_t)32 << 20;

struct plan {
    cublasLtMatmulDesc_t op = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
    cublasLtMatmulAlgo_t algo = {};
};

typedef std::tuple<bool, size_t, size_t, size_t> shape_key;

struct device {
    cudaDeviceProp prop = {};
    int runtime = 0, driver = 0;
    cudaEvent_t marks[GPU_MARKS] = {};
    cublasLtHandle_t lt = nullptr;
    void *workspace = nullptr;
    std::map<shape_key, plan> plans;
};

device *of(const gpu *g) { return (device *)g->own; }

bool fine(gpu *g, cudaError_t r, const char *what) {
    if (r == cudaSuccess) return true;
    snprintf(g->why, CUDA_WHY_MAX, "%s: %s", what, cudaGetErrorString(r));
    return false;
}

bool fine(gpu *g, cublasStatus_t r, const char *what) {
    if (r == CUBLAS_STATUS_SUCCESS) return true;
    snprintf(g->why, CUDA_WHY_MAX, "%s: cuBLASLt status %d", what, (int)r);
    return false;
}

__global__ void probe() {}

void drop(plan *p) {
    if (p->op) cublasLtMatmulDescDestroy(p->op);
    if (p->w) cublasLtMatrixLayoutDestroy(p->w);
    if (p->x) cublasLtMatrixLayoutDestroy(p->x);
    if (p->y) cublasLtMatrixLayoutDestroy(p->y);
}

/* cuBLAS counts columns first: y^T[n][m] = w[k][n]^T x[k][m], all dense. */
bool make_plan(gpu *g, bool f32, size_t m, size_t n, size_t k, plan *p) {
    device *d = of(g);
    cudaDataType_t type = f32 ? CUDA_R_32F : CUDA_R_16BF;
    cublasOperation_t turned = CUBLAS_OP_T;
    cublasLtMatmulPreference_t want = nullptr;
    cublasLtMatmulHeuristicResult_t found[1];
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
    size_t workspace = WORKSPACE;
    int n_found = 0;
    bool ok = fine(g, cublasLtMatmulDescCreate(&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matrix product") &&
              fine(g, cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned), "matrix product") &&
              fine(g, cublasLtMatrixLayoutCreate(&p->w, type, k, n, (int64_t)k), "matrix product") &&
              fine(g, cublasLtMatrixLayoutCreate(&p->x, type, k, m, (int64_t)k), "matrix product") &&
              fine(g, cublasLtMatrixLayoutCreate(&p->y, CUDA_R_32F, n, m, (int64_t)n), "matrix product") &&
              fine(g, cublasLtMatmulPreferenceCreate(&want), "matrix product") &&
              fine(g, cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace), "matrix product") &&
              fine(g, cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes), "matrix product");
    if (ok) {
        cublasStatus_t r = cublasLtMatmulAlgoGetHeuristic(d->lt, p->op, p->w, p->x, p->y, p->y, want, 1, found, &n_found);
        if (r != CUBLAS_STATUS_SUCCESS || n_found < 1) {
            snprintf(g->why, CUDA_WHY_MAX, "cuBLASLt has no way to multiply %zu x %zu x %zu (%s) on this device; status %d", m, n, k, f32 ? "f32" : "bf16", (int)r);
            ok = false;
        } else {
            p->algo = found[0].algo;
        }
    }
    if (want) cublasLtMatmulPreferenceDestroy(want);
    return ok;
}

} // namespace

status gpu_open(gpu *g, int ordinal, char *why) {
    int n = 0, runtime = 0, driver = 0;
    g->why = why;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    cudaError_t r = cudaGetDeviceCount(&n);
    if (driver == 0) {
        snprintf(why, CUDA_WHY_MAX, "no NVIDIA driver is loaded on this host (libcuda.so.1); install it, or use --device cpu");
        return ST_REFUSED;
    }
    if (r == cudaErrorInsufficientDriver) {
        snprintf(why, CUDA_WHY_MAX, "the NVIDIA driver knows CUDA %d.%d, this build needs %d.%d; install a newer driver, or use --device cpu", driver / 1000,
                 driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
        return ST_REFUSED;
    }
    if (r == cudaErrorNoDevice || (r == cudaSuccess && n == 0)) {
        snprintf(why, CUDA_WHY_MAX, "no GPU: the driver shows none to this process (is CUDA_VISIBLE_DEVICES set?); use --device cpu");
        return ST_REFUSED;
    }
    if (r != cudaSuccess) {
        snprintf(why, CUDA_WHY_MAX, "the NVIDIA driver does not start: %s", cudaGetErrorString(r));
        return ST_REFUSED;
    }
    if (ordinal >= n) {
        snprintf(why, CUDA_WHY_MAX, "device %d does not exist: this host has %d, numbered from 0", ordinal, n);
        return ST_REFUSED;
    }
    device *d = new (std::nothrow) device;
    if (!d) return ST_INCOMPLETE;
    g->own = d;
    d->runtime = runtime;
    d->driver = driver;
    if (!fine(g, cudaSetDevice(ordinal), "device") || !fine(g, cudaGetDeviceProperties(&d->prop, ordinal), "device")) return ST_REFUSED;
    cudaFuncAttributes code;
    if (d->prop.major < 8 || cudaFuncGetAttributes(&code, probe) != cudaSuccess) {
        cudaGetLastError();
        snprintf(why, CUDA_WHY_MAX, "%.100s (compute capability %d.%d): this build has no machine code for it; it needs 8.0 or newer", d->prop.name, d->prop.major,
                 d->prop.minor);
        return ST_REFUSED;
    }
    bool ok = fine(g, cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "stream") && fine(g, cublasLtCreate(&d->lt), "cuBLASLt");
    for (int i = 0; ok && i < GPU_MARKS; i++) ok = fine(g, cudaEventCreateWithFlags(&d->marks[i], cudaEventDisableTiming), "event");
    if (ok) ok = fine(g, cudaMalloc(&d->workspace, WORKSPACE), "workspace of 32 MiB");
    return ok ? ST_OK : ST_REFUSED;
}

void gpu_close(gpu *g) {
    device *d = of(g);
    if (!d) return;
    for (auto &p : d->plans) drop(&p.second);
    if (d->lt) cublasLtDestroy(d->lt);
    if (d->workspace) cudaFree(d->workspace);
    for (int i = 0; i < GPU_MARKS; i++)
        if (d->marks[i]) cudaEventDestroy(d->marks[i]);
    if (g->stream) cudaStreamDestroy(g->stream);
    delete d;
    g->own = nullptr;
}

void gpu_info(const gpu *g, cuda_info *out) {
    const device *d = of(g);
    snprintf(out->name, sizeof out->name, "%s", d->prop.name);
    snprintf(out->runtime, sizeof out->runtime, "CUDA %d.%d, driver %d.%d, sm_%d%d", d->runtime / 1000, d->runtime % 1000 / 10, d->driver / 1000, d->driver % 1000 / 10,
             d->prop.major, d->prop.minor);
    if (cudaMemGetInfo(&out->memory_free, &out->memory_total) != cudaSuccess) out->memory_free = out->memory_total = 0;
    out->integrated = d->prop.integrated != 0;
}

bool gpu_free_bytes(gpu *g, size_t *bytes) {
    size_t total;
    return fine(g, cudaMemGetInfo(bytes, &total), "free memory");
}

void *gpu_alloc(gpu *g, size_t bytes) {
    void *p = nullptr;
    if (!fine(g, cudaMalloc(&p, bytes), "memory")) {
        cudaGetLastError(); /* being short of memory is no lasting error */
        snprintf(g->why, CUDA_WHY_MAX, "cannot allocate %zu bytes on the device", bytes);
        return nullptr;
    }
    if (!fine(g, cudaMemsetAsync(p, 0, bytes, g->stream), "memory")) {
        cudaFree(p);
        return nullptr;
    }
    return p;
}

void gpu_free(gpu *, void *p) {
    if (p) cudaFree(p);
}

void *gpu_pinned(gpu *g, size_t bytes) {
    void *p = nullptr;
    return fine(g, cudaMallocHost(&p, bytes), "pinned memory") ? p : nullptr;
}

void gpu_pinned_free(gpu *, void *p) {
    if (p) cudaFreeHost(p);
}

bool gpu_put(gpu *g, void *to, const void *from, size_t bytes) {
    return bytes == 0 || fine(g, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, g->stream), "copy to the device");
}

bool gpu_get(gpu *g, void *to, const void *from, size_t bytes) {
    return bytes == 0 || (fine(g, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, g->stream), "copy from the device") && gpu_wait(g));
}

bool gpu_mark(gpu *g, int mark) { return fine(g, cudaEventRecord(of(g)->marks[mark], g->stream), "event"); }
bool gpu_wait_mark(gpu *g, int mark) { return fine(g, cudaEventSynchronize(of(g)->marks[mark]), "event"); }
bool gpu_wait(gpu *g) { return fine(g, cudaStreamSynchronize(g->stream), "the device"); }
bool gpu_launched(gpu *g, const char *kernel) { return fine(g, cudaGetLastError(), kernel); }

bool gpu_shared_limit(gpu *g, const void *kernel, size_t bytes) {
    return fine(g, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "shared memory");
}

bool gpu_matmul(gpu *g, bool f32, size_t m, size_t n, size_t k, const void *x, const void *w, float *y, bool add) {
    device *d = of(g);
    plan *p = &d->plans[shape_key(f32, m, n, k)];
    if (!p->op && !make_plan(g, f32, m, n, k, p)) {
        drop(p);
        *p = plan();
        return false;
    }
    float one = 1, more = add ? 1.0f : 0.0f;
    return fine(g, cublasLtMatmul(d->lt, p->op, &one, w, p->w, x, p->x, &more, y, p->y, y, p->y, &p->algo, d->workspace, WORKSPACE, g->stream), "matrix product");
}

bool gpu_time_matmul(gpu *g, size_t n, int times, double *seconds) {
    void *x = gpu_alloc(g, n * n * sizeof(bf16)), *w = x ? gpu_alloc(g, n * n * sizeof(bf16)) : nullptr;
    float *y = w ? (float *)gpu_alloc(g, n * n * sizeof(float)) : nullptr;
    cudaEvent_t from = nullptr, to = nullptr;
    float ms = 0;
    bool ok = y && fine(g, cudaEventCreate(&from), "event") && fine(g, cudaEventCreate(&to), "event");
    /* Numbers that are no zeros: a device draws less power on zeros and runs faster than it ever will on weights. */
    if (ok) ok = fine(g, cudaMemsetAsync(x, 0x3e, n * n * sizeof(bf16), g->stream), "memory") && fine(g, cudaMemsetAsync(w, 0xbd, n * n * sizeof(bf16), g->stream), "memory");
    for (int i = 0; ok && i < times + 3; i++) {
        if (i == 3) ok = fine(g, cudaEventRecord(from, g->stream), "event");
        if (ok) ok = gpu_matmul(g, false, n, n, n, x, w, y, false);
    }
    ok = ok && fine(g, cudaEventRecord(to, g->stream), "event") && gpu_wait(g) && fine(g, cudaEventElapsedTime(&ms, from, to), "event");
    *seconds = (double)ms / 1000;
    if (from) cudaEventDestroy(from);
    if (to) cudaEventDestroy(to);
    gpu_free(g, x), gpu_free(g, w), gpu_free(g, y);
    return ok;
}
