/* tree.h: the prefix tree of a batch. A node is a stretch of tokens that follow each other; it hangs on a
 * place inside its parent (or on none). Nodes and their tokens lie in depth-first order, so that what a token
 * attends to lies before it. */
#ifndef ANYJEV_MODEL_TREE_H
#define ANYJEV_MODEL_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/model.h"

#define TREE_NONE SIZE_MAX

typedef struct tree_node {
    size_t parent;     /* TREE_NONE for a root */
    size_t pos;        /* position of its first token: tokens of its ancestors before it */
    size_t n;          /* tokens that are still in the pass: tree_keep() cuts them */
    const uint32_t *ids;
    size_t depth;      /* blocks that its tokens go through: the most that a prompt through it needs */
    size_t at;         /* row of its first token in the batch */
    size_t head;       /* the node where the unbroken stretch of rows and positions that it ends begins */
} tree_node;

typedef struct tree_leaf {
    size_t node, offset; /* the prompt's last token */
} tree_leaf;

typedef struct tree {
    tree_node *nodes;
    size_t n_nodes, cap_nodes;
    tree_leaf *leaves; /* by prompt */
    size_t n_tokens;
} tree;

/* need[i]: blocks that prompt i goes through. Sets n_reused of the prompts. tree starts as {0}; tree_free ends it. */
status tree_build(tree *t, model_prompt *prompts, const size_t *need, size_t n, err *e);
/* keep[node]: how many of its tokens lie on the way to a prompt with need[i] > done (0: none). */
void tree_keep(const tree *t, const size_t *need, size_t n_prompts, size_t done, size_t *keep);
/* Cuts every node to keep[node] tokens and lays the rows together; n_tokens follows. move(ctx, to, from, n) moves n rows. */
typedef void tree_move(void *ctx, size_t to, size_t from, size_t n);
void tree_cut(tree *t, const size_t *keep, tree_move *move, void *ctx);
void tree_free(tree *t);

#endif
