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
    size_t n_prompts;
    tree t;
    size_t q_dim, kv_dim, rows;
    float *x;             /* [rows][hidden_dim]: the residual stream */
    float *k, *v;         /* [rows][kv_dim]: of the block at hand */
    uint32_t *pos;        /* [rows] */
    float *h, *q, *a;     /* [CHUNK][hidden_dim], [CHUNK][q_dim] twice */
    float *gate, *up;     /* [CHUNK][ffn_dim] */
    float *cosine, *sine; /* [CHUNK][head_dim / 2] */
    kernel_branch *branches;
    kernel_run *runs;
    size_t cap_branches, n_branches, cap_runs, n_runs;
    err *e;
} pass;

static status allocate(pass *p) {
    const model_config *c = p->c;
    struct {
        float **to;
        size_t rows, cols;
    } all[] = {{&p->x, p->rows, c->hidden_dim}, {&p->k, p->rows, p->kv_dim}, {&p->v, p->rows, p->kv_dim},   {&p->h, CHUNK, c->hidden_dim},
               {&p->q, CHUNK, p->q_dim},        {&p->a, CHUNK, p->q_dim},    {&p->gate, CHUNK, c->ffn_dim}, {&p->up, CHUNK, c->ffn_dim},
               {&p->cosine, CHUNK, c->head_dim / 2}, {&p->sine, CHUNK, c->head_dim / 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n;
        if (!size_mul(all[i].rows, all[i].cols, &n) || !(*all[i].to = mem_aligned(n, sizeof(float)))) return err_memory(p->e, n * sizeof(float));
    }
    p->pos = mem_alloc(p->rows, sizeof *p->pos);
    return p->pos ? ST_OK : err_memory(p->e, p->rows * sizeof *p->pos);
}

static void release(pass *p) {
    float *all[] = {p->x, p->k, p->v, p->h, p->q, p->a, p->gate, p->up, p->cosine, p->sine};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(p->pos);
    free(p->branches);
    free(p->runs);
    tree_free(&p->t);
}

static void embed(pass *p) {
    for (size_t i = 0; i < p->t.n_nodes; i++) {
        const tree_node *n = &p->t.nodes[i];
        for (size_t j = 0; j < n->n; j++) {
            kmat_row(p->m->embed, n->ids[j], p->x + (n->at + j) * p->c->hidden_dim);
            p->pos[n->at + j] = (uint32_t)(n->pos + j);
        }
    }
}

/* The keys that tokens [0, upto) of node i see: those of its ancestors, then its own; in ascending order. */
static status add_runs(pass *p, size_t i, size_t upto) {
    size_t start = p->n_runs, end = p->t.nodes[i].pos + upto;
    for (size_t k = i; k != TREE_NONE; k = p->t.nodes[k].parent) {
        const tree_node *n = &p->t.nodes[k];
        if (!mem_grow((void **)&p->runs, &p->cap_runs, p->n_runs + 1, sizeof *p->runs)) return err_memory(p->e, p->n_runs * sizeof *p->runs);
        p->runs[p->n_runs++] = (kernel_run){.k = p->k + n->at * p->kv_dim, .v = p->v + n->at * p->kv_dim, .start = n->pos, .len = end - n->pos,
                                            .stride = p->kv_dim, .head_stride = p->c->head_dim};
        end = n->pos;
    }
    for (size_t a = start, b = p->n_runs; a + 1 < b; a++) { /* from the root down */
        kernel_run t = p->runs[a];
        p->runs[a] = p->runs[--b];
        p->runs[b] = t;
    }
    return ST_OK;
}

/* Attention of rows [from, to) of the batch; *node is the first node that reaches beyond from. */
static status attend(pass *p, size_t from, size_t to, size_t *node) {
    p->n_branches = p->n_runs = 0;
    size_t i = *node;
    for (size_t row = from; row < to;) {
        while (p->t.nodes[i].n == 0 || p->t.nodes[i].at + p->t.nodes[i].n <= row) i++;
        const tree_node *n = &p->t.nodes[i];
        size_t first = row - n->at, last = to - n->at < n->n ? to - n->at : n->n, before = p->n_runs;
        status s = add_runs(p, i, last);
        if (s) return s;
        if (!mem_grow((void **)&p->branches, &p->cap_branches, p->n_branches + 1, sizeof *p->branches)) return err_memory(p->e, p->n_branches * sizeof *p->branches);
        p->branches[p->n_branches++] = (kernel_branch){
            .q = p->q + (row - from) * p->q_dim, .out = p->a + (row - from) * p->q_dim, .q_stride = p->q_dim, .out_stride = p->q_dim,
            .n_rows = last - first, .pos = n->pos + first, .n_runs = p->n_runs - before, .window = p->c->window};
        row += last - first;
    }
    *node = i;
    /* The array of runs has stopped moving. */
    for (size_t b = 0, at = 0; b < p->n_branches; at += p->branches[b++].n_runs) p->branches[b].runs = p->runs + at;
    return kernel_attn(p->kn, p->branches, p->n_branches, p->c->heads, p->c->kv_heads, p->c->head_dim, 1.0f / sqrtf((float)p->c->head_dim), p->e);
}

/* Rows [from, to) through one block; rows before from have been. */
static status block_rows(pass *p, const model_block *b, size_t from, size_t to, size_t *node) {
    const model_config *c = p->c;
    size_t n = to - from, hd = c->hidden_dim, half = c->head_dim / 2;
    float *x = p->x + from * hd, *k = p->k + from * p->kv_dim, *v = p->v + from * p->kv_dim, eps = (float)c->norm_eps;
    status s;
    kernel_rmsnorm(p->kn, p->h, hd, x, hd, n, hd, b->attn_norm, eps);
    if ((s = kmat_mul(p->kn, b->q, p->q, p->q_dim, p->h, hd, n, b->q_bias, KMAT_SET, p->e))) return s;
    if ((s = kmat_mul(p->kn, b->k, k, p->kv_dim, p->h, hd, n, b->k_bias, KMAT_SET, p->e))) return s;
    if ((s = kmat_mul(p->kn, b->v, v, p->kv_dim, p->h, hd, n, b->v_bias, KMAT_SET, p->e))) return s;
    if (b->q_norm) {
        kernel_rmsnorm_heads(p->kn, p->q, p->q_dim, n, c->heads, c->head_dim, b->q_norm, eps);
        kernel_rmsnorm_heads(p->kn, k, p->kv_dim, n, c->kv_heads, c->head_dim, b->k_norm, eps);
    }
    kernel_rope_table(p->cosine, p->sine, p->pos + from, n, p->m->inv_freq, half, p->m->rope_scale);
    kernel_rope(p->kn, p->q, p->q_dim, n, c->heads, c->head_dim, p->cosine, p->sine, half, c->rope_interleaved);
    kernel_rope(p->kn, k, p->kv_dim, n, c->kv_heads, c->head_dim, p->cosine, p->sine, half, c->rope_interleaved);
    if ((s = attend(p, from, to, node))) return s;
    if ((s = kmat_mul(p->kn, b->o, x, hd, p->a, p->q_dim, n, NULL, KMAT_ADD, p->e))) return s;
    kernel_rmsnorm(p->kn, p->h, hd, x, hd, n, hd, b->ffn_norm, eps);
    if ((s = kmat_mul(p->kn, b->gate, p->gate, c->ffn_dim, p->h, hd, n, NULL, KMAT_SET, p->e))) return s;
    if ((s = kmat_mul(p->kn, b->up, p->up, c->ffn_dim, p->h, hd, n, NULL, KMAT_SET, p->e))) return s;
    kernel_swiglu(p->kn, p->gate, c->ffn_dim, p->up, c->ffn_dim, n, c->ffn_dim);
    return kmat_mul(p->kn, b->down, x, hd, p->gate, c->ffn_dim, n, NULL, KMAT_ADD, p->e);
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

/* Drops the rows of nodes that leave before block `next` + 1. */
static void leave(pass *p, size_t next) {
    size_t hd = p->c->hidden_dim, at = 0;
    for (size_t i = 0; i < p->t.n_nodes; i++) {
        tree_node *n = &p->t.nodes[i];
        if (n->depth <= next) {
            n->n = 0;
            n->at = at;
            continue;
        }
        if (n->at != at) {
            memmove(p->x + at * hd, p->x + n->at * hd, n->n * hd * sizeof *p->x);
            memmove(p->pos + at, p->pos + n->at, n->n * sizeof *p->pos);
            n->at = at;
        }
        at += n->n;
    }
    p->rows = at;
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Logits of up to LEAVES prompts at once, and what is kept of them. */
static status project(pass *p, const size_t *who, size_t n, float *h, float *logits, size_t *bad) {
    size_t hd = p->c->hidden_dim, vocab = p->c->vocab;
    for (size_t i = 0; i < n; i++) kernel_rmsnorm(p->kn, h + i * hd, hd, leaf_row(p, who[i]), hd, 1, hd, p->m->norm, (float)p->c->norm_eps);
    status s = kmat_mul(p->kn, p->m->output, logits, vocab, h, hd, n, NULL, KMAT_SET, p->e);
    for (size_t i = 0; !s && i < n; i++) {
        model_prompt *q = &p->prompts[who[i]];
        const float *row = logits + i * vocab;
        if (!all_finite(row, vocab)) {
            *bad = who[i];
            return err_set(p->e, ST_INPUT, "%s: the model gives a NaN or an infinity as a logit", p->m->path);
        }
        double all = kernel_logsumexp(row, vocab);
        for (size_t l = 0; l < q->n_labels; l++) q->logprobs[l] = (double)row[q->labels[l]] - all;
    }
    return s;
}

static status project_all(pass *p, size_t *bad) {
    size_t n = 0, who[LEAVES];
    float *h = mem_aligned(LEAVES * p->c->hidden_dim, sizeof *h), *logits = mem_aligned(LEAVES * p->c->vocab, sizeof *logits);
    status s = h && logits ? ST_OK : err_memory(p->e, LEAVES * p->c->vocab * sizeof *logits);
    for (size_t i = 0; !s && i < p->n_prompts; i++) {
        if (p->prompts[i].want_logits) who[n++] = i;
        if (n == LEAVES) s = project(p, who, n, h, logits, bad), n = 0;
    }
    if (!s && n) s = project(p, who, n, h, logits, bad);
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
    pass p = {.m = m, .c = &m->c, .kn = kn, .prompts = prompts, .n_prompts = n, .e = e,
              .q_dim = m->c.heads * m->c.head_dim, .kv_dim = m->c.kv_heads * m->c.head_dim};
    *stats = (model_stats){0};
    *bad = 0;
    if (!n) return ST_OK;
    size_t *need = mem_alloc(n, sizeof *need), deepest = 0;
    status s = need ? ST_OK : err_memory(e, n * sizeof *need);
    for (size_t i = 0; !s && i < n; i++) {
        need[i] = prompts[i].blocks_run = model_prompt_depth(p.c, &prompts[i]);
        if (need[i] > deepest) deepest = need[i];
        stats->tokens += prompts[i].n_ids;
        if ((s = model_check_prompt(p.c, &prompts[i], e))) *bad = i;
    }
    if (!s) s = tree_build(&p.t, prompts, need, n, e);
    p.rows = stats->computed = p.t.n_tokens;
    if (!s) s = allocate(&p);
    if (!s) embed(&p);
    for (size_t b = 0; !s && b <= deepest; b++) {
        harvest(&p, b);
        if (b == deepest) break;
        leave(&p, b);
        size_t node = 0;
        for (size_t from = 0; !s && from < p.rows; from += CHUNK) {
            size_t to = p.rows - from < CHUNK ? p.rows : from + CHUNK;
            s = block_rows(&p, &m->blocks[b], from, to, &node);
            if (!s && progress) progress(ctx, to - from);
        }
    }
    if (!s) s = check_hidden(&p, bad);
    if (!s) s = project_all(&p, bad);
    free(need);
    release(&p);
    return s;
}
