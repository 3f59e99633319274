/* A batch on the device: the prefix tree of forward.c, block after block, with the same early exits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/cuda_internal.h"
#include "model/cuda_layout.h"

/* Blocks that the device is given at once; progress is told after them. */
enum { STRIDE = 6 };

typedef struct pass {
    model_cuda *g;
    const model_config *c;
    model_prompt *prompts;
    size_t n_prompts;
    tree t;
    cuda_plan plan;
    size_t rows;
    uint32_t *list;     /* [tokens or prompts * blocks asked for]: ids, then rows */
    size_t *need;       /* [prompts] */
    err *e;
} pass;

#define SAID(p, call) model_cuda_said((p)->g, (call), (p)->e)

status model_cuda_prepare(model_cuda *g, size_t rows, size_t positions, err *e) {
    status s = model_cuda_said(g, g->api->reserve(g->dev, rows), e);
    if (s || positions <= g->positions) return s;
    size_t half = g->m->c.head_dim / 2;
    /* The same table as on the CPU. */
    uint32_t *pos = mem_alloc(positions, sizeof *pos);
    float *cosine = mem_alloc(positions * half, sizeof *cosine), *sine = mem_alloc(positions * half, sizeof *sine);
    if (!pos || !cosine || !sine) {
        s = err_memory(e, positions * half * sizeof *cosine);
    } else {
        for (size_t i = 0; i < positions; i++) pos[i] = (uint32_t)i;
        kernel_rope_table(cosine, sine, pos, positions, g->m->inv_freq, half, g->m->rope_scale);
        s = model_cuda_said(g, g->api->rope(g->dev, cosine, sine, positions), e);
        if (!s) g->positions = positions;
    }
    free(pos);
    free(cosine);
    free(sine);
    return s;
}

static uint32_t leaf_row(const pass *p, size_t prompt) {
    const tree_leaf *l = &p->t.leaves[prompt];
    return (uint32_t)(p->t.nodes[l->node].at + l->offset);
}

static status embed(pass *p) {
    for (size_t i = 0; i < p->t.n_nodes; i++) memcpy(p->list + p->t.nodes[i].at, p->t.nodes[i].ids, p->t.nodes[i].n * sizeof *p->list);
    return SAID(p, p->g->api->embed(p->g->dev, p->list, p->rows));
}

/* Hidden states asked for after `done` blocks. */
static status harvest(pass *p, size_t done) {
    size_t hd = p->c->hidden_dim, n = 0;
    for (size_t i = 0; i < p->n_prompts; i++)
        for (size_t b = 0; b < p->prompts[i].n_blocks; b++)
            if (p->prompts[i].blocks[b] == done) p->list[n++] = leaf_row(p, i);
    if (!n) return ST_OK;
    float *all = mem_alloc(n, hd * sizeof *all), *at = all;
    if (!all) return err_memory(p->e, n * hd * sizeof *all);
    status s = SAID(p, p->g->api->hidden(p->g->dev, p->list, n, done == p->c->n_blocks, all));
    for (size_t i = 0; !s && i < p->n_prompts; i++)
        for (size_t b = 0; b < p->prompts[i].n_blocks; b++)
            if (p->prompts[i].blocks[b] == done) {
                memcpy(p->prompts[i].hidden + b * hd, at, hd * sizeof *at);
                at += hd;
            }
    free(all);
    return s;
}

/* Drops the rows of nodes that leave before block `next` + 1, and lays out what stays. */
static status leave(pass *p, size_t next) {
    size_t at = 0;
    bool moved = next == 0;
    for (size_t i = 0; i < p->t.n_nodes; i++) {
        tree_node *n = &p->t.nodes[i];
        if (n->depth <= next) {
            moved |= n->n > 0;
            n->n = 0;
        }
        for (size_t j = 0; j < n->n; j++) p->list[at + j] = (uint32_t)(n->at + j);
        n->at = at;
        at += n->n;
    }
    if (!moved) return ST_OK;
    status s = at < p->rows ? SAID(p, p->g->api->move(p->g->dev, p->list, at)) : ST_OK;
    p->rows = at;
    if (!s) s = cuda_plan_make(&p->plan, &p->t, p->g->info.chunk, p->g->info.tile_rows, p->c->window, p->e);
    if (!s) s = SAID(p, p->g->api->layout(p->g->dev, &p->plan.out));
    return s;
}

/* The next block count after `done` at which something is read or leaves. */
static size_t next_stop(const pass *p, size_t done, size_t deepest) {
    size_t stop = done + STRIDE < deepest ? done + STRIDE : deepest;
    for (size_t i = 0; i < p->n_prompts; i++) {
        for (size_t b = 0; b < p->prompts[i].n_blocks; b++)
            if (p->prompts[i].blocks[b] > done && p->prompts[i].blocks[b] < stop) stop = p->prompts[i].blocks[b];
        if (p->need[i] > done && p->need[i] < stop) stop = p->need[i];
    }
    return stop;
}

static status project_all(pass *p, size_t *bad) {
    size_t n = 0, stride = 1;
    for (size_t i = 0; i < p->n_prompts; i++)
        if (p->prompts[i].want_logits) {
            n++;
            if (p->prompts[i].n_labels > stride) stride = p->prompts[i].n_labels;
        }
    if (!n) return ST_OK;
    uint32_t *rows = mem_alloc(n, sizeof *rows), *labels = mem_zero(n, stride * sizeof *labels), *n_labels = mem_alloc(n, sizeof *n_labels);
    float *found = mem_alloc(n, stride * sizeof *found);
    double *lse = mem_alloc(n, sizeof *lse);
    bool *broken = mem_alloc(n, sizeof *broken);
    status s = rows && labels && n_labels && found && lse && broken ? ST_OK : err_memory(p->e, n * stride * sizeof *found);
    for (size_t i = 0, k = 0; !s && i < p->n_prompts; i++) {
        const model_prompt *q = &p->prompts[i];
        if (!q->want_logits) continue;
        rows[k] = leaf_row(p, i);
        n_labels[k] = (uint32_t)q->n_labels;
        if (q->n_labels) memcpy(labels + k * stride, q->labels, q->n_labels * sizeof *labels);
        k++;
    }
    if (!s) s = SAID(p, p->g->api->logits(p->g->dev, rows, n, labels, n_labels, stride, found, lse, broken));
    for (size_t i = 0, k = 0; !s && i < p->n_prompts; i++) {
        model_prompt *q = &p->prompts[i];
        if (!q->want_logits) continue;
        if (broken[k]) {
            *bad = i;
            s = err_set(p->e, ST_INPUT, "%s: the model gives a NaN or an infinity as a logit", p->g->m->path);
        }
        for (size_t l = 0; l < q->n_labels; l++) q->logprobs[l] = (double)found[k * stride + l] - lse[k];
        k++;
    }
    free(rows);
    free(labels);
    free(n_labels);
    free(found);
    free(lse);
    free(broken);
    return s;
}

static status check_hidden(pass *p, size_t *bad) {
    for (size_t i = 0; i < p->n_prompts; i++)
        for (size_t k = 0; k < p->prompts[i].n_blocks * p->c->hidden_dim; k++)
            if (!isfinite(p->prompts[i].hidden[k])) {
                *bad = i;
                return err_set(p->e, ST_INPUT, "%s: the model gives a NaN or an infinity in a hidden state", p->g->m->path);
            }
    return ST_OK;
}

status model_cuda_run(model_cuda *g, model_prompt *prompts, size_t n, model_stats *stats, model_progress *progress, void *ctx, size_t *bad, err *e) {
    pass p = {.g = g, .c = &g->m->c, .prompts = prompts, .n_prompts = n, .e = e};
    size_t deepest = 0, longest = 0, listed = 0;
    *stats = (model_stats){0};
    *bad = 0;
    if (!n) return ST_OK;
    status s = (p.need = mem_alloc(n, sizeof *p.need)) ? ST_OK : err_memory(e, n * sizeof *p.need);
    for (size_t i = 0; !s && i < n; i++) {
        p.need[i] = prompts[i].blocks_run = model_prompt_depth(p.c, &prompts[i]);
        if (p.need[i] > deepest) deepest = p.need[i];
        if (prompts[i].n_ids > longest) longest = prompts[i].n_ids;
        stats->tokens += prompts[i].n_ids;
        listed += prompts[i].n_blocks;
        if ((s = model_check_prompt(p.c, &prompts[i], e))) *bad = i;
    }
    if (!s) s = tree_build(&p.t, prompts, p.need, n, e);
    p.rows = stats->computed = p.t.n_tokens;
    if (p.rows > listed) listed = p.rows;
    if (!s && !(p.list = mem_alloc(listed, sizeof *p.list))) s = err_memory(e, listed * sizeof *p.list);
    if (!s) s = model_cuda_prepare(g, p.rows, longest, e);
    if (!s) s = embed(&p);
    for (size_t b = 0; !s;) {
        if ((s = harvest(&p, b)) || b == deepest || (s = leave(&p, b))) break;
        size_t stop = next_stop(&p, b, deepest);
        s = SAID(&p, g->api->blocks(g->dev, b, stop));
        if (!s) s = SAID(&p, g->api->wait(g->dev));
        if (!s && progress) progress(ctx, p.rows * (stop - b));
        b = stop;
    }
    if (!s) s = check_hidden(&p, bad);
    if (!s) s = project_all(&p, bad);
    cuda_plan_free(&p.plan);
    tree_free(&p.t);
    free(p.list);
    free(p.need);
    return s;
}
