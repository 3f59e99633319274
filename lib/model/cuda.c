#include "model/cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "model/cuda_internal.h"

#define OBJECT "libanyjev_cuda.so"

/* Bytes that one worker copies or rows that it converts at a time. */
enum { COPY_GRAIN = 1 << 20, ROW_GRAIN = 8 };

bool model_cuda_parse(const char *device, int *ordinal) {
    *ordinal = 0;
    if (strncmp(device, "cuda", 4) != 0) return false;
    if (!device[4]) return true;
    const char *p = device + 5;
    if (device[4] != ':' || !*p || strlen(p) > 4) return false;
    for (; *p; p++) {
        if (*p < '0' || *p > '9') return false;
        *ordinal = *ordinal * 10 + (*p - '0');
    }
    return true;
}

const char *model_cuda_compute(bool f32) {
    return f32 ? "cuda-f32" : "cuda-bf16";
}

status model_cuda_said(model_cuda *g, status s, err *e) {
    return s ? err_set(e, s, "--device cuda: %s", g->why[0] ? g->why : "failed") : ST_OK;
}

static status find_object(buf *path, err *e) {
    const char *given = getenv("ANYJEV_CUDA_LIB");
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (given && *given) {
        buf_text(path, given);
    } else {
        if (n <= 0) n = 0;
        exe[n] = '\0';
        char *slash = strrchr(exe, '/');
        buf_printf(path, "%.*s/" OBJECT, (int)(slash ? slash - exe : 0), exe);
    }
    status s = buf_ok(path, e);
    if (s || access(path->p, R_OK) == 0) return s;
    return err_set(e, ST_REFUSED, "--device cuda: %s is missing: this build carries no CUDA; build it where nvcc is (make CUDA=1), or use --device cpu", path->p);
}

static status open_object(model_cuda *g, err *e) {
    buf path = {0};
    status s = find_object(&path, e);
    if (!s && !(g->object = dlopen(path.p, RTLD_NOW | RTLD_LOCAL))) {
        const char *said = dlerror();
        s = err_set(e, ST_REFUSED, "--device cuda: %s; %s", said ? said : path.p,
                    said && strstr(said, "cublas") ? "install cuBLAS of that CUDA version (its folder in LD_LIBRARY_PATH, or the file beside the program), or use --device cpu"
                                                   : "build it again (make CUDA=1), or use --device cpu");
    }
    if (!s) {
        cuda_api_fn *get = NULL;
        void *symbol = dlsym(g->object, CUDA_API_SYMBOL);
        memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from an object's to a function's pointer */
        g->api = get ? get() : NULL;
        if (!g->api || g->api->version != CUDA_API_VERSION) s = err_set(e, ST_REFUSED, "--device cuda: %s belongs to another version; build it again (make CUDA=1)", path.p);
    }
    buf_free(&path);
    return s;
}

/* --- weights --- */

static uint16_t bf16_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

typedef struct filling {
    const kmat *m;
    unsigned char *to;
    const unsigned char *from; /* bytes that go as they are; NULL: rows are converted */
    size_t first, n_in;
    bool f32;
    float *rows; /* [threads][n_in] */
} filling;

static void fill_bytes(void *arg, size_t begin, size_t end, unsigned worker) {
    filling *f = arg;
    (void)worker;
    memcpy(f->to + begin, f->from + begin, end - begin);
}

static void fill_rows(void *arg, size_t begin, size_t end, unsigned worker) {
    filling *f = arg;
    float *row = f->rows + worker * f->n_in;
    for (size_t r = begin; r < end; r++) {
        kmat_row(f->m, f->first + r, row);
        unsigned char *to = f->to + r * f->n_in * (f->f32 ? sizeof(float) : sizeof(uint16_t));
        if (f->f32) {
            memcpy(to, row, f->n_in * sizeof *row);
        } else {
            for (size_t i = 0; i < f->n_in; i++) {
                uint16_t b = bf16_of(row[i]);
                memcpy(to + i * sizeof b, &b, sizeof b);
            }
        }
    }
}

typedef struct loading {
    model_cuda *g;
    kernel *kn;
    bool f32;
    err *e;
} loading;

/* A matrix goes to row `at` of a part, through pinned memory, by all threads. */
static status put_matrix(loading *l, cuda_part part, size_t block, size_t at, const kmat *m) {
    model_cuda *g = l->g;
    size_t n_out = kmat_n_out(m), n_in = kmat_n_in(m), bytes = n_in * (l->f32 ? sizeof(float) : sizeof(uint16_t)), room;
    bool as_is = kmat_form_in(m) == KMAT_ROWS && kmat_type_in(m) == (l->f32 ? KMAT_F32 : KMAT_BF16);
    filling f = {.m = m, .n_in = n_in, .f32 = l->f32};
    if (!as_is && !(f.rows = mem_alloc(kernel_threads(l->kn) * n_in, sizeof *f.rows))) return err_memory(l->e, n_in * sizeof *f.rows);
    status s = ST_OK;
    for (size_t row = 0, n; !s && row < n_out; row += n) {
        f.to = g->api->stage(g->dev, &room);
        n = n_out - row < room / bytes ? n_out - row : room / bytes;
        if (!f.to || !n) {
            s = model_cuda_said(g, ST_INCOMPLETE, l->e);
            break;
        }
        f.first = row;
        if (as_is) {
            f.from = (const unsigned char *)kmat_data(m) + row * bytes;
            kernel_for(l->kn, n * bytes, COPY_GRAIN, fill_bytes, &f);
        } else {
            kernel_for(l->kn, n, ROW_GRAIN, fill_rows, &f);
        }
        s = model_cuda_said(g, g->api->send(g->dev, part, block, (at + row) * bytes, n * bytes), l->e);
    }
    free(f.rows);
    return s;
}

static status put_vector(loading *l, cuda_part part, size_t block, size_t at, const float *v, size_t n) {
    model_cuda *g = l->g;
    size_t room;
    void *to = g->api->stage(g->dev, &room);
    if (!to || n * sizeof *v > room) return model_cuda_said(g, ST_INCOMPLETE, l->e);
    memcpy(to, v, n * sizeof *v);
    return model_cuda_said(g, g->api->send(g->dev, part, block, at * sizeof *v, n * sizeof *v), l->e);
}

static status put_block(loading *l, size_t i) {
    const model_config *c = &l->g->m->c;
    const model_block *b = &l->g->m->blocks[i];
    size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, h = c->hidden_dim;
    status s;
    if ((s = put_vector(l, CUDA_ATTN_NORM, i, 0, b->attn_norm, h)) || (s = put_vector(l, CUDA_FFN_NORM, i, 0, b->ffn_norm, h)) ||
        (s = put_matrix(l, CUDA_QKV, i, 0, b->q)) || (s = put_matrix(l, CUDA_QKV, i, q, b->k)) || (s = put_matrix(l, CUDA_QKV, i, q + kv, b->v)) ||
        (s = put_matrix(l, CUDA_O, i, 0, b->o)) || (s = put_matrix(l, CUDA_GATE_UP, i, 0, b->gate)) || (s = put_matrix(l, CUDA_GATE_UP, i, c->ffn_dim, b->up)) ||
        (s = put_matrix(l, CUDA_DOWN, i, 0, b->down)))
        return s;
    if (b->q_bias && ((s = put_vector(l, CUDA_QKV_BIAS, i, 0, b->q_bias, q)) || (s = put_vector(l, CUDA_QKV_BIAS, i, q, b->k_bias, kv)) ||
                      (s = put_vector(l, CUDA_QKV_BIAS, i, q + kv, b->v_bias, kv))))
        return s;
    if (b->q_norm && ((s = put_vector(l, CUDA_Q_NORM, i, 0, b->q_norm, c->head_dim)) || (s = put_vector(l, CUDA_K_NORM, i, 0, b->k_norm, c->head_dim)))) return s;
    return ST_OK;
}

static status put_all(loading *l) {
    const model *m = l->g->m;
    status s = put_matrix(l, CUDA_EMBED, 0, 0, m->embed);
    if (!s && m->output != m->embed) s = put_matrix(l, CUDA_OUTPUT, 0, 0, m->output);
    if (!s) s = put_vector(l, CUDA_NORM, 0, 0, m->norm, m->c.hidden_dim);
    for (size_t i = 0; !s && i < m->c.n_blocks; i++) s = put_block(l, i);
    return s ? s : model_cuda_said(l->g, l->g->api->finish(l->g->dev), l->e);
}

status model_cuda_open(model_cuda **out, const model *m, kernel *kn, int ordinal, bool f32, size_t rows, err *e) {
    const model_config *c = &m->c;
    *out = NULL;
    model_cuda *g = mem_zero(1, sizeof *g);
    if (!g) return err_memory(e, sizeof *g);
    g->m = m;
    cuda_shape shape = {.n_blocks = c->n_blocks, .hidden_dim = c->hidden_dim, .heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .ffn_dim = c->ffn_dim,
                        .vocab = c->vocab, .window = c->window, .norm_eps = (float)c->norm_eps, .tied = m->output == m->embed, .qk_norm = c->qk_norm,
                        .qkv_bias = c->qkv_bias, .rope_interleaved = c->rope_interleaved, .f32 = f32};
    loading l = {.g = g, .kn = kn, .f32 = f32, .e = e};
    status s = open_object(g, e);
    if (!s) s = model_cuda_said(g, g->api->open(&g->dev, ordinal, &shape, rows, g->why), e);
    if (!s) g->api->info(g->dev, &g->info);
    if (!s) s = put_all(&l);
    if (s) {
        model_cuda_close(g);
        return s;
    }
    *out = g;
    return ST_OK;
}

void model_cuda_close(model_cuda *g) {
    if (!g) return;
    if (g->dev) g->api->close(g->dev);
    if (g->object) dlclose(g->object);
    free(g);
}

void model_cuda_info(const model_cuda *g, cuda_info *out) {
    *out = g->info;
}

status model_cuda_rate(model_cuda *g, size_t n, double *flops, err *e) {
    return model_cuda_said(g, g->api->rate(g->dev, n, flops), e);
}
