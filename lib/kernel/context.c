/* context.c: which instruction set, how many threads. The choice lives in the context, not in a global. */
#include <string.h>

#include "base/mem.h"
#include "kernel/internal.h"

static const char *const isa_names[] = {"auto", "ref", "avx2", "avx512", "neon"};

bool kernel_isa_parse(const char *name, kernel_isa *out) {
    for (int i = KERNEL_AUTO; i <= KERNEL_NEON; i++)
        if (strcmp(name, isa_names[i]) == 0) {
            *out = (kernel_isa)i;
            return true;
        }
    return false;
}

const char *kernel_isa_name(kernel_isa isa) { return isa_names[isa]; }

bool kernel_isa_supported(kernel_isa isa) {
    switch (isa) {
    case KERNEL_AUTO:
    case KERNEL_REF: return true;
#if defined(__x86_64__)
    case KERNEL_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi");
    case KERNEL_AVX512:
        return kernel_isa_supported(KERNEL_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
    case KERNEL_NEON: return true;
#endif
    default: return false;
    }
}

const char *kernel_isa_list(void) {
#if defined(__x86_64__)
    if (kernel_isa_supported(KERNEL_AVX512)) return "ref avx2 avx512";
    return kernel_isa_supported(KERNEL_AVX2) ? "ref avx2" : "ref";
#elif defined(__aarch64__)
    return "ref neon";
#else
    return "ref";
#endif
}

static const kernel_ops *isa_ops(kernel_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case KERNEL_AVX2: return &kernel_ops_avx2;
    case KERNEL_AVX512: return &kernel_ops_avx512;
#elif defined(__aarch64__)
    case KERNEL_NEON: return &kernel_ops_neon;
#endif
    default: return &kernel_ops_ref;
    }
}

status kernel_open(kernel **out, kernel_isa isa, unsigned threads, err *e) {
    *out = NULL;
    if (!kernel_isa_supported(isa))
        return err_set(e, ST_REFUSED, "this processor does not run '%s'; it runs: %s", kernel_isa_name(isa),
                       kernel_isa_list());
    if (isa == KERNEL_AUTO) {
        isa = KERNEL_REF;
        for (int i = KERNEL_AVX2; i <= KERNEL_NEON; i++)
            if (kernel_isa_supported((kernel_isa)i)) isa = (kernel_isa)i;
    }
    kernel *kn = mem_zero(1, sizeof *kn);
    if (!kn) return err_memory(e, sizeof *kn);
    kn->ops = *isa_ops(isa);
    status st = kernel_pool_open(&kn->pool, threads, e);
    if (st != ST_OK) {
        free(kn);
        return st;
    }
    *out = kn;
    return ST_OK;
}

void kernel_close(kernel *kn) {
    if (!kn) return;
    kernel_pool_close(kn->pool);
    free(kn->own.p);
    free(kn->shared.p);
    free(kn);
}

unsigned kernel_threads(const kernel *kn) { return kernel_pool_threads(kn->pool); }
kernel_isa kernel_used_isa(const kernel *kn) { return kn->ops.isa; }

void kernel_for(kernel *kn, size_t n, size_t grain, kernel_fn *fn, void *arg) {
    kernel_pool_run(kn->pool, n, grain, fn, arg);
}

void *scratch_need(scratch *s, size_t bytes, err *e) {
    if (bytes <= s->bytes) return s->p;
    free(s->p);
    s->bytes = 0;
    s->p = mem_aligned(bytes, 1);
    if (!s->p) {
        err_memory(e, bytes);
        return NULL;
    }
    s->bytes = bytes;
    return s->p;
}
