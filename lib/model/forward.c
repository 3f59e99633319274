/* The forward pass over a prefix tree, block by block: all tokens of the batch go through one block before
 * any goes through the next, so that the weights are read once and only one block's keys and values are kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/model_internal.h"
#include "model/tree.h"

/* Rows that go through a block's matrix products together. */
enum { CHUNK = 512, LEAVES = 32 };

typedef struct pass {
    const model *m;
    const model_config *c;
    kernel *kn;
    model_prompt *prompts;
    size_t n_prompts, half;
    size_t *need; /* [n_prompts]: blocks that it goes through */
    tree t;
    size_t q_dim, kv_dim;
    float *x;             /* [rows][hidden_dim]: the residual stream */
    float *k, *v;         /* [rows][kv_dim]: of the block at hand */
    float *cosine, *sine; /* [rows][half] */
    float *h, *q, *a;     /* [CHUNK][hidden_dim], [CHUNK][q_dim] twice */
    float *gate, *up;     /* [CHUNK][ffn_dim] */
    float *fx, *fc, *fs;  /* the few rows of a chunk that go on: [CHUNK][hidden_dim], [CHUNK][half] twice */
    size_t *keep, *on;    /* [nodes]: tokens that this block and the next still need */
    bool *live;           /* [rows]: what this block gives is used; every row's keys are */
    size_t *few;          /* [CHUNK]: rows of a chunk that are live */
    kernel_branch *branches;
    kernel_run *runs;
    size_t cap_branches, n_branches, cap_runs, n_runs;
    err *e;
} pass;

static status allocate(pass *p) {
    const model_config *c = p->c;
    size_t rows = p->t.n_tokens, chunk = rows < CHUNK ? rows : CHUNK;
    struct {
        float **to;
        size_t rows, cols;
    } all[] = {{&p->x, rows, c->hidden_dim}, {&p->k, rows, p->kv_dim},  {&p->v, rows, p->kv_dim},     {&p->cosine, rows, p->half}, {&p->sine, rows, p->half},
               {&p->h, chunk, c->hidden_dim}, {&p->q, chunk, p->q_dim}, {&p->a, chunk, p->q_dim},     {&p->gate, chunk, c->ffn_dim}, {&p->up, chunk, c->ffn_dim},
               {&p->fx, chunk, c->hidden_dim}, {&p->fc, chunk, p->half}, {&p->fs, chunk, p->half}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n;
        if (!size_mul(all[i].rows, all[i].cols, &n) || !(*all[i].to = mem_aligned(n, sizeof(float)))) return err_memory(p->e, n * sizeof(float));
    }
    p->keep = mem_alloc(p->t.n_nodes, sizeof *p->keep);
    p->on = mem_alloc(p->t.n_nodes, sizeof *p->on);
    p->live = mem_alloc(rows, sizeof *p->live);
    p->few = mem_alloc(chunk, sizeof *p->few);
    return p->keep && p->on && p->live && p->few ? ST_OK : err_memory(p->e, rows);
}

/* Per token: the rows of allocate(), the mark of being live, and the tree's share where every token is a node. Beside them
 * a chunk, the logits of LEAVES prompts, and the kernels' scratch (packed rows of a chunk; a piece for every thread). */
size_t model_run_bytes(const model *m, unsigned threads, size_t tokens) {
    const model_config *c = &m->c;
    size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, half = c->head_dim / 2, widest = q > c->ffn_dim ? q : c->ffn_dim, all;
    size_t row = (c->hidden_dim + 2 * kv + 2 * half) * sizeof(float) + sizeof(tree_node) + 4 * sizeof(size_t);
    size_t chunk = (2 * c->hidden_dim + 2 * q + 2 * c->ffn_dim + 2 * half + widest + widest / 8 + 512) * sizeof(float);
    size_t fixed = LEAVES * (c->vocab + c->hidden_dim) * sizeof(float) + CHUNK * chunk + threads * ((size_t)1 << 20);
    return size_mul(row, tokens, &all) && size_add(all, fixed, &all) ? all : SIZE_MAX;
}

static void release(pass *p) {
    float *all[] = {p->x, p->k, p->v, p->cosine, p->sine, p->h, p->q, p->a, p->gate, p->up, p->fx, p->fc, p->fs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(p->need);
    free(p->keep);
    free(p->on);
    free(p->live);
    free(p->few);
    free(p->branches);
    free(p->runs);
    tree_free(&p->t);
}

static void embed(pass *p) {
    for (size_t i = 0; i < p->t.n_nodes; i++) {
        const tree_node *n = &p->t.nodes[i];
        for (size_t j = 0; j < n->n; j++) {
            uint32_t pos = (uint32_t)(n->pos + j);
            size_t row = n->at + j;
            kmat_row(p->m->embed, n->ids[j], p->x + row * p->c->hidden_dim);
            kernel_rope_table(p->cosine + row * p->half, p->sine + row * p->half, &pos, 1, p->m->inv_freq, p->half, p->m->rope_scale);
        }
    }
}

static void move_rows(void *ctx, size_t to, size_t from, size_t n) {
    pass *p = ctx;
    memmove(p->x + to * p->c->hidden_dim, p->x + from * p->c->hidden_dim, n * p->c->hidden_dim * sizeof *p->x);
    memmove(p->cosine + to * p->half, p->cosine + from * p->half, n * p->half * sizeof *p->cosine);
    memmove(p->sine + to * p->half, p->sine + from * p->half, n * p->half * sizeof *p->sine);
}

/* Before block `b` (from 0): drops the rows that nobody needs any more, marks those whose outcome somebody needs. */
static void plan(pass *p, size_t b) {
    tree_keep(&p->t, p->need, p->n_prompts, b, p->keep);
    tree_cut(&p->t, p->keep, move_rows, p);
    tree_keep(&p->t, p->need, p->n_prompts, b + 1, p->on);
    for (size_t i = 0; i < p->t.n_nodes; i++) {
        const tree_node *n = &p->t.nodes[i];
        for (size_t j = 0; j < n->n; j++) p->live[n->at + j] = j < p->on[i];
    }
    for (size_t i = 0; i < p->n_prompts; i++)
        if (p->need[i] == b + 1) p->live[p->t.nodes[p->t.leaves[i].node].at + p->t.leaves[i].offset] = true;
}

/* The keys that tokens [0, upto) of node i see: those of its ancestors, then its own; in ascending order. */
static status add_runs(pass *p, size_t i, size_t upto) {
    size_t start = p->n_runs, end = p->t.nodes[i].pos + upto;
    for (size_t k = i; k != TREE_NONE;) {
        const tree_node *n = &p->t.nodes[p->t.nodes[k].head];
        if (!mem_grow((void **)&p->runs, &p->cap_runs, p->n_runs + 1, sizeof *p->runs)) return err_memory(p->e, p->n_runs * sizeof *p->runs);
        p->runs[p->n_runs++] = (kernel_run){.k = p->k + n->at * p->kv_dim, .v = p->v + n->at * p->kv_dim, .start = n->pos, .len = end - n->pos,
                                            .stride = p->kv_dim, .head_stride = p->c->head_dim};
        end = n->pos;
        k = n->parent;
    }
    for (size_t a = start, b = p->n_runs; a + 1 < b; a++) { /* from the root down */
        kernel_run t = p->runs[a];
        p->runs[a] = p->runs[--b];
        p->runs[b] = t;
    }
    return ST_OK;
}

/* Attention of the batch's rows few[0, n), which are rows 0 to n of q; *node is the first node that reaches to few[0]. */
static status attend(pass *p, const size_t *few, size_t n, size_t *node) {
    p->n_branches = p->n_runs = 0;
    size_t i = *node;
    for (size_t r = 0, len; r < n; r += len) {
        while (p->t.nodes[i].at + p->t.nodes[i].n <= few[r]) i++;
        const tree_node *t = &p->t.nodes[i];
        size_t first = few[r] - t->at, before = p->n_runs;
        for (len = 1; r + len < n && few[r + len] == few[r] + len && few[r + len] < t->at + t->n; len++) {}
        status s = add_runs(p, i, first + len);
        if (s) return s;
        if (!mem_grow((void **)&p->branches, &p->cap_branches, p->n_branches + 1, sizeof *p->branches)) return err_memory(p->e, p->n_branches * sizeof *p->branches);
        p->branches[p->n_branches++] = (kernel_branch){.q = p->q + r * p->q_dim, .out = p->a + r * p->q_dim, .q_stride = p->q_dim, .out_stride = p->q_dim, .n_rows = len,
                                                       .pos = t->pos + first, .n_runs = p->n_runs - before, .window = p->c->window};
    }
    *node = i;
    /* The array of runs has stopped moving. */
    for (size_t b = 0, at = 0; b < p->n_branches; at += p->branches[b++].n_runs) p->branches[b].runs = p->runs + at;
    return kernel_attn(p->kn, p->branches, p->n_branches, p->c->heads, p->c->kv_heads, p->c->head_dim, 1.0f / sqrtf((float)p->c->head_dim), p->e);
}

static void row_copy(float *to, size_t to_row, const float *from, size_t from_row, size_t n) {
    memmove(to + to_row * n, from + from_row * n, n * sizeof *to);
}

/* Keys and values of rows [from, to), whose normed rows are left in h. */
static status block_keys(pass *p, const model_block *b, size_t from, size_t to) {
    const model_config *c = p->c;
    size_t n = to - from, hd = c->hidden_dim;
    float *k = p->k + from * p->kv_dim, *v = p->v + from * p->kv_dim, eps = (float)c->norm_eps;
    status s;
    kernel_rmsnorm(p->kn, p->h, hd, p->x + from * hd, hd, n, hd, b->attn_norm, eps);
    if ((s = kmat_mul(p->kn, b->k, k, p->kv_dim, p->h, hd, n, b->k_bias, KMAT_SET, p->e))) return s;
    if ((s = kmat_mul(p->kn, b->v, v, p->kv_dim, p->h, hd, n, b->v_bias, KMAT_SET, p->e))) return s;
    if (b->k_norm) kernel_rmsnorm_heads(p->kn, k, p->kv_dim, n, c->kv_heads, c->head_dim, b->k_norm, eps);
    kernel_rope(p->kn, k, p->kv_dim, n, c->kv_heads, c->head_dim, p->cosine + from * p->half, p->sine + from * p->half, p->half, c->rope_interleaved);
    return ST_OK;
}

/* The rest of the block for n rows: h normed, x to be added to; they are rows few[] of the batch. */
static status block_rest(pass *p, const model_block *b, float *x, const float *cosine, const float *sine, size_t n, size_t *node) {
    const model_config *c = p->c;
    size_t hd = c->hidden_dim;
    float eps = (float)c->norm_eps;
    status s;
    if ((s = kmat_mul(p->kn, b->q, p->q, p->q_dim, p->h, hd, n, b->q_bias, KMAT_SET, p->e))) return s;
    if (b->q_norm) kernel_rmsnorm_heads(p->kn, p->q, p->q_dim, n, c->heads, c->head_dim, b->q_norm, eps);
    kernel_rope(p->kn, p->q, p->q_dim, n, c->heads, c->head_dim, cosine, sine, p->half, c->rope_interleaved);
    if ((s = attend(p, p->few, n, node))) return s;
    if ((s = kmat_mul(p->kn, b->o, x, hd, p->a, p->q_dim, n, NULL, KMAT_ADD, p->e))) return s;
    kernel_rmsnorm(p->kn, p->h, hd, x, hd, n, hd, b->ffn_norm, eps);
    if ((s = kmat_mul(p->kn, b->gate, p->gate, c->ffn_dim, p->h, hd, n, NULL, KMAT_SET, p->e))) return s;
    if ((s = kmat_mul(p->kn, b->up, p->up, c->ffn_dim, p->h, hd, n, NULL, KMAT_SET, p->e))) return s;
    kernel_swiglu(p->kn, p->gate, c->ffn_dim, p->up, c->ffn_dim, n, c->ffn_dim);
    return kmat_mul(p->kn, b->down, x, hd, p->gate, c->ffn_dim, n, NULL, KMAT_ADD, p->e);
}

/* Rows [from, to) through one block; rows before from have been. In a prompt's last block only its leaf does more
 * than give keys and values. */
static status block_rows(pass *p, const model_block *b, size_t from, size_t to, size_t *node) {
    size_t n = 0, hd = p->c->hidden_dim, half = p->half;
    status s = block_keys(p, b, from, to);
    if (s) return s;
    for (size_t r = from; r < to; r++)
        if (p->live[r]) p->few[n++] = r;
    if (n == to - from) return block_rest(p, b, p->x + from * hd, p->cosine + from * half, p->sine + from * half, n, node);
    if (n == 0) return ST_OK;
    for (size_t i = 0; i < n; i++) {
        row_copy(p->h, i, p->h, p->few[i] - from, hd);
        row_copy(p->fx, i, p->x, p->few[i], hd);
        row_copy(p->fc, i, p->cosine, p->few[i], half);
        row_copy(p->fs, i, p->sine, p->few[i], half);
    }
    s = block_rest(p, b, p->fx, p->fc, p->fs, n, node);
    for (size_t i = 0; !s && i < n; i++) row_copy(p->x, p->few[i], p->fx, i, hd);
    return s;
}

static const float *leaf_row(const pass *p, size_t prompt) {
    const tree_leaf *l = &p->t.leaves[prompt];
    return p->x + (p->t.nodes[l->node].at + l->offset) * p->c->hidden_dim;
}

/* Keeps the hidden states that are asked for after `done` blocks. */
static void harvest(pass *p, size_t done) {
    size_t hd = p->c->hidden_dim;
    for (size_t i = 0; i < p->n_prompts; i++) {
        model_prompt *q = &p->prompts[i];
        for (size_t b = 0; b < q->n_blocks; b++) {
            if (q->blocks[b] != done) continue;
            float *to = q->hidden + b * hd;
            if (done == p->c->n_blocks) kernel_rmsnorm(p->kn, to, hd, leaf_row(p, i), hd, 1, hd, p->m->norm, (float)p->c->norm_eps);
            else memcpy(to, leaf_row(p, i), hd * sizeof *to);
        }
    }
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Logits of up to LEAVES last tokens at once, and what is kept of them. Prompts [from, to) end in them: neighbours that
 * are the same prompt end in one. */
static status project(pass *p, size_t from, size_t to, size_t n, const float *h, float *logits, size_t *bad) {
    size_t hd = p->c->hidden_dim, vocab = p->c->vocab, slot = SIZE_MAX;
    const float *last = NULL;
    double all = 0;
    status s = kmat_mul(p->kn, p->m->output, logits, vocab, h, hd, n, NULL, KMAT_SET, p->e);
    for (size_t i = from; !s && i < to; i++) {
        model_prompt *q = &p->prompts[i];
        if (!q->want_logits) continue;
        if (leaf_row(p, i) != last) {
            last = leaf_row(p, i);
            const float *row = logits + ++slot * vocab;
            if (!all_finite(row, vocab)) {
                *bad = i;
                return err_set(p->e, ST_INPUT, "%s: the model gives a NaN or an infinity as a logit", p->m->path);
            }
            all = kernel_logsumexp(row, vocab);
        }
        for (size_t l = 0; l < q->n_labels; l++) q->logprobs[l] = (double)logits[slot * vocab + q->labels[l]] - all;
    }
    return s;
}

static status project_all(pass *p, size_t *bad) {
    size_t n = 0, from = 0, hd = p->c->hidden_dim, wanted = 0;
    for (size_t i = 0; i < p->n_prompts; i++) wanted += p->prompts[i].want_logits;
    if (!wanted) return ST_OK;
    const float *last = NULL;
    float *h = mem_aligned(LEAVES * hd, sizeof *h), *logits = mem_aligned(LEAVES * p->c->vocab, sizeof *logits);
    status s = h && logits ? ST_OK : err_memory(p->e, LEAVES * p->c->vocab * sizeof *logits);
    for (size_t i = 0; !s && i < p->n_prompts; i++) {
        if (!p->prompts[i].want_logits || leaf_row(p, i) == last) continue;
        if (n == LEAVES) {
            s = project(p, from, i, n, h, logits, bad);
            n = 0;
            from = i;
        }
        last = leaf_row(p, i);
        kernel_rmsnorm(p->kn, h + n++ * hd, hd, last, hd, 1, hd, p->m->norm, (float)p->c->norm_eps);
    }
    if (!s) s = project(p, from, p->n_prompts, n, h, logits, bad);
    free(h);
    free(logits);
    return s;
}

static status check_hidden(pass *p, size_t *bad) {
    for (size_t i = 0; i < p->n_prompts; i++)
        if (!all_finite(p->prompts[i].hidden, p->prompts[i].n_blocks * p->c->hidden_dim)) {
            *bad = i;
            return err_set(p->e, ST_INPUT, "%s: the model gives a NaN or an infinity in a hidden state", p->m->path);
        }
    return ST_OK;
}

size_t model_prompt_depth(const model_config *c, const model_prompt *q) {
    size_t d = q->want_logits ? c->n_blocks : 0;
    for (size_t b = 0; b < q->n_blocks; b++)
        if (q->blocks[b] > d) d = q->blocks[b];
    return d;
}

status model_check_prompt(const model_config *c, const model_prompt *q, err *e) {
    if (q->n_ids == 0) return err_set(e, ST_INPUT, "the prompt is empty");
    if (q->n_ids > c->context) return err_set(e, ST_INPUT, "the prompt has %zu tokens, the model's context %zu", q->n_ids, c->context);
    for (size_t i = 0; i < q->n_ids; i++)
        if (q->ids[i] >= c->vocab) return err_set(e, ST_INPUT, "token %u is outside the model's vocabulary of %zu", q->ids[i], c->vocab);
    for (size_t i = 0; i < q->n_labels; i++)
        if (q->labels[i] >= c->vocab) return err_set(e, ST_INPUT, "label token %u is outside the model's vocabulary of %zu", q->labels[i], c->vocab);
    for (size_t b = 0; b < q->n_blocks; b++)
        if (q->blocks[b] > c->n_blocks) return err_set(e, ST_INPUT, "hidden state of block %zu is asked for, the model has %zu", q->blocks[b], c->n_blocks);
    return ST_OK;
}

status model_run(const model *m, kernel *kn, model_prompt *prompts, size_t n, model_stats *stats, model_progress *progress,
                 void *ctx, size_t *bad, err *e) {
    pass p = {.m = m, .c = &m->c, .kn = kn, .prompts = prompts, .n_prompts = n, .e = e, .half = m->c.head_dim / 2,
              .q_dim = m->c.heads * m->c.head_dim, .kv_dim = m->c.kv_heads * m->c.head_dim};
    *stats = (model_stats){0};
    *bad = 0;
    if (!n) return ST_OK;
    p.need = mem_alloc(n, sizeof *p.need);
    size_t deepest = 0;
    status s = p.need ? ST_OK : err_memory(e, n * sizeof *p.need);
    for (size_t i = 0; !s && i < n; i++) {
        p.need[i] = prompts[i].blocks_run = model_prompt_depth(p.c, &prompts[i]);
        if (p.need[i] > deepest) deepest = p.need[i];
        stats->tokens += prompts[i].n_ids;
        if ((s = model_check_prompt(p.c, &prompts[i], e))) *bad = i;
    }
    if (!s) s = tree_build(&p.t, prompts, p.need, n, e);
    stats->computed = p.t.n_tokens;
    if (!s) s = allocate(&p);
    if (!s) embed(&p);
    if (!s) harvest(&p, 0);
    for (size_t b = 0; !s && b < deepest; b++) {
        plan(&p, b);
        size_t node = 0;
        for (size_t from = 0; !s && from < p.t.n_tokens; from += CHUNK) {
            size_t to = p.t.n_tokens - from < CHUNK ? p.t.n_tokens : from + CHUNK;
            s = block_rows(&p, &m->blocks[b], from, to, &node);
            if (!s && progress) progress(ctx, to - from);
        }
        if (!s) harvest(&p, b + 1);
    }
    if (!s) s = check_hidden(&p, bad);
    if (!s) s = project_all(&p, bad);
    release(&p);
    return s;
}
