/* gpu: speed of the forward pass on a GPU. One JSON object on stdout: the device, its own bf16 matmul rate, model load,
 * prefill of distinct tokens, the shared-prefix workloads, and whether a prompt's numbers are the same bits alone and
 * in company. Medians of ROUNDS after a first round that does not count. Usage: gpu MODEL [DEVICE [small]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "json/json.h"
#include "model/cuda.h"
#include "weights/weights.h"

enum { ROUNDS = 5, LABELS = 3 };

typedef struct bench {
    model *m;
    kernel *kn;
    model_cuda *g;
    double flops; /* the device's own rate */
    jw w;
    err e;
} bench;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* --- the page cache's speed: all weights once through all threads, as the upload reads them --- */

typedef struct reading {
    const unsigned char *p;
    unsigned char *to; /* [threads][PIECE] */
} reading;
enum { PIECE = 1 << 20 };

static void read_piece(void *arg, size_t begin, size_t end, unsigned worker) {
    reading *r = arg;
    for (size_t at = begin; at < end; at += PIECE) memcpy(r->to + (size_t)worker * PIECE, r->p + at, end - at < PIECE ? end - at : PIECE);
}

static status page_cache_speed(bench *b, const char *path, double *gbs) {
    weights *w;
    size_t bytes = 0;
    status s = weights_open(&w, path, &b->e);
    if (s) return s;
    reading r = {.to = mem_alloc(kernel_threads(b->kn), PIECE)};
    if (!r.to) s = err_memory(&b->e, PIECE);
    double from = 0;
    for (int round = 0; !s && round < 2; round++) { /* the first brings the file into the cache */
        from = now();
        bytes = 0;
        for (size_t i = 0; i < weights_count(w); i++) {
            const weight *t = weights_at(w, i);
            r.p = t->data;
            kernel_for(b->kn, t->bytes, PIECE, read_piece, &r);
            bytes += t->bytes;
        }
    }
    *gbs = (double)bytes / (now() - from) / 1e9;
    free(r.to);
    weights_close(w);
    return s;
}

/* --- workloads --- */

/* One prompt of n tokens, or `branches` prompts that share `prefix` tokens and have `tail` of their own; `groups` of those. */
typedef struct workload {
    const char *name;
    size_t groups, branches, prefix, tail;
    bool same; /* the name stands for prefill: percent of the matmul rate is told */
} workload;

typedef struct batch {
    model_prompt *p;
    uint32_t *ids;
    double *logprobs;
    size_t n, tokens;
} batch;

static const uint32_t labels[LABELS] = {32, 33, 34};

static status batch_make(bench *b, const workload *k, batch *out) {
    size_t len = k->prefix + k->tail, n = k->groups * k->branches, vocab = model_shape(b->m)->vocab;
    *out = (batch){.p = mem_zero(n, sizeof *out->p), .ids = mem_alloc(n * len, sizeof *out->ids), .logprobs = mem_zero(n * LABELS, sizeof *out->logprobs), .n = n};
    if (!out->p || !out->ids || !out->logprobs) return err_memory(&b->e, n * len * sizeof *out->ids);
    for (size_t i = 0; i < n; i++) {
        uint32_t *ids = out->ids + i * len;
        size_t group = i / k->branches;
        for (size_t t = 0; t < len; t++) ids[t] = (uint32_t)(((t < k->prefix ? group * 7919 : i * 104729 + 13) + t * 31 + t * t % 17) % (vocab - 40) + 40);
        out->p[i] = (model_prompt){.index = i, .ids = ids, .n_ids = len, .want_logits = true, .labels = labels, .n_labels = LABELS, .logprobs = out->logprobs + i * LABELS};
    }
    model_sort(out->p, n);
    out->tokens = model_tokens(out->p, n);
    return ST_OK;
}

static void batch_free(batch *b) {
    free(b->p);
    free(b->ids);
    free(b->logprobs);
}

static status batch_run(bench *b, batch *t) {
    model_stats stats;
    size_t bad;
    return model_cuda_run(b->g, t->p, t->n, &stats, NULL, NULL, &bad, &b->e);
}

/* Products and attention of so many distinct tokens; each sees `seen` keys on average. */
static double work(const model_config *c, double tokens, double seen) {
    double q = (double)(c->heads * c->head_dim), kv = (double)(c->kv_heads * c->head_dim), h = (double)c->hidden_dim, f = (double)c->ffn_dim;
    return tokens * (double)c->n_blocks * (2 * (h * (q + 2 * kv) + q * h + 3 * h * f) + 4 * seen * q);
}

static status measure(bench *b, const workload *k) {
    batch t;
    double times[ROUNDS];
    status s = batch_make(b, k, &t);
    for (int r = -1; !s && r < ROUNDS; r++) {
        double from = now();
        s = batch_run(b, &t);
        if (r >= 0) times[r] = now() - from;
    }
    if (!s) {
        qsort(times, ROUNDS, sizeof *times, by_value);
        double median = times[ROUNDS / 2];
        jw_open(&b->w, '{');
        jw_key(&b->w, "name");
        jw_text(&b->w, k->name);
        jw_key(&b->w, "prompts");
        jw_size(&b->w, t.n);
        jw_key(&b->w, "tokens");
        jw_size(&b->w, t.tokens);
        jw_key(&b->w, "seconds");
        jw_real(&b->w, median);
        jw_key(&b->w, "tokens_per_second");
        jw_real(&b->w, (double)t.tokens / median);
        jw_key(&b->w, "decisions_per_second");
        jw_real(&b->w, (double)t.n / median);
        if (k->same && b->flops > 0) {
            double flops = work(model_shape(b->m), (double)t.tokens, (double)(k->prefix + k->tail) / 2) / median;
            jw_key(&b->w, "tflops");
            jw_real(&b->w, flops / 1e12);
            jw_key(&b->w, "of_matmul_rate");
            jw_real(&b->w, flops / b->flops);
        }
        jw_close(&b->w, '}');
    }
    batch_free(&t);
    return s;
}

/* The last prompt of a workload alone gives the bits that it gave in company. */
static status invariant(bench *b, const workload *k, bool *same) {
    batch t;
    double company[LABELS];
    status s = batch_make(b, k, &t);
    if (!s) s = batch_run(b, &t);
    if (!s) {
        model_prompt one = t.p[t.n - 1];
        memcpy(company, one.logprobs, sizeof company);
        memset(one.logprobs, 0, sizeof company);
        batch alone = {.p = &one, .n = 1};
        s = batch_run(b, &alone);
        *same = memcmp(company, one.logprobs, sizeof company) == 0;
    }
    batch_free(&t);
    return s;
}

static status run(bench *b, const char *path, int ordinal, bool small) {
    double cache, load, from;
    cuda_info info;
    status s = kernel_open(&b->kn, KERNEL_AUTO, 0, &b->e);
    if (!s) s = model_open(&b->m, path, &b->e);
    if (!s) s = page_cache_speed(b, path, &cache);
    if (s) return s;
    from = now();
    if ((s = model_cuda_open(&b->g, b->m, b->kn, ordinal, false, small ? 256 : 32768, &b->e))) return s;
    load = now() - from;
    model_cuda_info(b->g, &info);
    err rate = {0};
    if (model_cuda_rate(b->g, 8192, &b->flops, &rate)) b->flops = 0;
    const struct {
        const char *key;
        double v;
    } facts[] = {{"matmul_tflops", b->flops / 1e12}, {"load_seconds", load}, {"load_gb_per_second", (double)info.weight_bytes / load / 1e9}, {"page_cache_gb_per_second", cache}};
    jw_open(&b->w, '{');
    jw_key(&b->w, "device");
    jw_text(&b->w, info.name);
    jw_key(&b->w, "runtime");
    jw_text(&b->w, info.runtime);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        jw_key(&b->w, facts[i].key);
        jw_real(&b->w, facts[i].v);
    }
    /* A 30-column card: one state for all its columns' questions, three permutations and more of each. */
    static const workload big[] = {{"prefill 512", 1, 1, 0, 512, true},   {"prefill 2048", 1, 1, 0, 2048, true},       {"prefill 8192", 1, 1, 0, 8192, true},
                                   {"24 x 60 on 800", 1, 24, 800, 60, false}, {"30 columns x 10", 30, 10, 900, 70, false}};
    static const workload little[] = {{"prefill 40", 1, 1, 0, 40, true}, {"4 x 6 on 70", 1, 4, 70, 6, false}};
    const workload *all = small ? little : big;
    size_t n = small ? sizeof little / sizeof *little : sizeof big / sizeof *big;
    jw_key(&b->w, "workloads");
    jw_open(&b->w, '[');
    for (size_t i = 0; !s && i < n; i++) s = measure(b, &all[i]);
    jw_close(&b->w, ']');
    bool same = false;
    if (!s) s = invariant(b, small ? &all[1] : &all[3], &same);
    jw_key(&b->w, "same_bits_alone");
    jw_bool(&b->w, same);
    jw_close(&b->w, '}');
    return s;
}

int main(int argc, char **argv) {
    int ordinal = 0;
    if (argc < 2 || argc > 4 || (argc > 2 && !model_cuda_parse(argv[2], &ordinal)) || (argc > 3 && strcmp(argv[3], "small") != 0)) {
        fputs("usage: gpu MODEL [cuda|cuda:N [small]]\n", stderr);
        return 2;
    }
    buf out = {0};
    bench b = {.w = jw_of(&out)};
    status s = run(&b, argv[1], ordinal, argc > 3);
    if (!s) s = buf_ok(&out, &b.e);
    if (!s && (printf("%.*s\n", (int)out.len, out.p) < 0 || fflush(stdout))) s = err_set(&b.e, ST_WRITE, "cannot write");
    model_cuda_close(b.g);
    model_close(b.m);
    kernel_close(b.kn);
    buf_free(&out);
    return s ? err_report(stderr, "gpu", &b.e) : 0;
}
