#include "model/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

typedef struct order {
    const model_prompt *p;
    size_t index;
} order;

static int compare(const model_prompt *x, const model_prompt *y) {
    size_t n = x->n_ids < y->n_ids ? x->n_ids : y->n_ids;
    for (size_t i = 0; i < n; i++)
        if (x->ids[i] != y->ids[i]) return x->ids[i] < y->ids[i] ? -1 : 1;
    if (x->n_ids != y->n_ids) return x->n_ids < y->n_ids ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int by_ids(const void *a, const void *b) {
    return compare(((const order *)a)->p, ((const order *)b)->p);
}

static int prompts_by_ids(const void *a, const void *b) {
    return compare(a, b);
}

void model_sort(model_prompt *prompts, size_t n) {
    qsort(prompts, n, sizeof *prompts, prompts_by_ids);
}

static size_t common(const model_prompt *a, const model_prompt *b) {
    size_t i = 0;
    while (i < a->n_ids && i < b->n_ids && a->ids[i] == b->ids[i]) i++;
    return i;
}

size_t model_tokens(const model_prompt *prompts, size_t n) {
    size_t tokens = 0;
    for (size_t k = 0; k < n; k++) tokens += prompts[k].n_ids - (k ? common(&prompts[k - 1], &prompts[k]) : 0);
    return tokens;
}

size_t model_batch(const model_prompt *prompts, size_t n, size_t max_tokens) {
    size_t k = 0, tokens = 0;
    for (; k < n; k++) {
        size_t more = prompts[k].n_ids - (k ? common(&prompts[k - 1], &prompts[k]) : 0);
        if (k && tokens + more > max_tokens) break;
        tokens += more;
    }
    return k;
}

/* In sorted order the prompt before shares the longest prefix of all that came before; the nodes on its path
 * are where the next one branches off. */
static status add(tree *t, size_t *tip, model_prompt *p, const model_prompt *last, size_t index, err *e) {
    size_t shared = last ? common(last, p) : 0;
    /* Climb from the last prompt's node to the one that holds the last shared token. */
    while (*tip != TREE_NONE && t->nodes[*tip].pos >= shared) *tip = t->nodes[*tip].parent;
    p->n_reused = shared;
    if (shared < p->n_ids) {
        if (!mem_grow((void **)&t->nodes, &t->cap_nodes, t->n_nodes + 1, sizeof *t->nodes)) return err_memory(e, t->n_nodes * sizeof *t->nodes);
        t->nodes[t->n_nodes] = (tree_node){.parent = *tip, .pos = shared, .n = p->n_ids - shared, .ids = p->ids + shared, .at = t->n_tokens};
        t->n_tokens += p->n_ids - shared;
        *tip = t->n_nodes++;
    }
    t->leaves[index] = (tree_leaf){*tip, p->n_ids - 1 - t->nodes[*tip].pos};
    return ST_OK;
}

/* Rows of chains of prompts that extend each other follow each other: one run of keys, however many nodes. */
static void find_heads(tree *t) {
    for (size_t i = 0; i < t->n_nodes; i++) {
        tree_node *n = &t->nodes[i];
        const tree_node *up = n->parent == TREE_NONE ? NULL : &t->nodes[n->parent];
        n->head = up && up->at + (n->pos - up->pos) == n->at ? up->head : i;
    }
}

status tree_build(tree *t, model_prompt *prompts, const size_t *need, size_t n, err *e) {
    order *sorted = mem_alloc(n, sizeof *sorted);
    t->leaves = mem_zero(n, sizeof *t->leaves);
    status s = sorted && t->leaves ? ST_OK : err_memory(e, n * sizeof *sorted);
    for (size_t i = 0; !s && i < n; i++) sorted[i] = (order){&prompts[i], i};
    if (!s) qsort(sorted, n, sizeof *sorted, by_ids);
    size_t tip = TREE_NONE;
    for (size_t i = 0; !s && i < n; i++) s = add(t, &tip, &prompts[sorted[i].index], i ? sorted[i - 1].p : NULL, sorted[i].index, e);
    for (size_t i = 0; !s && i < n; i++)
        for (size_t k = t->leaves[i].node; k != TREE_NONE && t->nodes[k].depth < need[i]; k = t->nodes[k].parent) t->nodes[k].depth = need[i];
    find_heads(t);
    free(sorted);
    return s;
}

void tree_keep(const tree *t, const size_t *need, size_t n_prompts, size_t done, size_t *keep) {
    memset(keep, 0, t->n_nodes * sizeof *keep);
    for (size_t i = 0; i < n_prompts; i++) {
        const tree_leaf *l = &t->leaves[i];
        if (need[i] > done && keep[l->node] <= l->offset) keep[l->node] = l->offset + 1;
    }
    for (size_t i = t->n_nodes; i-- > 0;) { /* children come after their parent */
        const tree_node *n = &t->nodes[i];
        if (!keep[i] || n->parent == TREE_NONE) continue;
        size_t upto = n->pos - t->nodes[n->parent].pos;
        if (keep[n->parent] < upto) keep[n->parent] = upto;
    }
}

void tree_cut(tree *t, const size_t *keep, tree_move *move, void *ctx) {
    size_t at = 0;
    for (size_t i = 0; i < t->n_nodes; i++) {
        tree_node *n = &t->nodes[i];
        if (keep[i] && n->at != at) move(ctx, at, n->at, keep[i]);
        n->n = keep[i];
        n->at = at;
        at += n->n;
    }
    t->n_tokens = at;
    find_heads(t);
}

void tree_free(tree *t) {
    free(t->nodes);
    free(t->leaves);
    *t = (tree){0};
}
