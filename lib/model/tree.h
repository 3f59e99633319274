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
    size_t n;          /* tokens */
    const uint32_t *ids;
    size_t depth;      /* blocks that its tokens go through: the most that a prompt through it needs */
    size_t at;         /* row of its first token in the batch */
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
void tree_free(tree *t);

#endif
