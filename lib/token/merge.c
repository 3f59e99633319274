/* Byte-pair merging (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"):
 * of all neighbouring pairs the one of lowest rank is merged, the leftmost first, until none can be. A heap
 * of pairs and a linked list of symbols keep it at n log n, whatever the text. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "token/tokenizer_internal.h"

typedef struct symbol {
    uint32_t id; /* TOKEN_NONE: merged into its left neighbour */
    uint32_t prev, next;
} symbol;

typedef struct pair {
    uint32_t rank, at; /* at: index of the left symbol */
    uint32_t left, right, id;
} pair;

typedef struct heap {
    pair *p;
    size_t n, cap;
} heap;

static bool before(const pair *a, const pair *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static bool heap_push(heap *h, pair x) {
    if (!mem_grow((void **)&h->p, &h->cap, h->n + 1, sizeof *h->p)) return false;
    size_t i = h->n++;
    while (i && before(&x, &h->p[(i - 1) / 2])) {
        h->p[i] = h->p[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->p[i] = x;
    return true;
}

static pair heap_pop(heap *h) {
    pair top = h->p[0], x = h->p[--h->n];
    size_t i = 0;
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= h->n) break;
        if (c + 1 < h->n && before(&h->p[c + 1], &h->p[c])) c++;
        if (!before(&h->p[c], &x)) break;
        h->p[i] = h->p[c];
        i = c;
    }
    if (h->n) h->p[i] = x;
    return top;
}

static uint64_t mix(uint32_t a, uint32_t b) {
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

status tok_merges_reserve(tokenizer *t, size_t n, err *e) {
    size_t slots = 16;
    while (slots < n * 2) slots *= 2;
    t->merges = mem_alloc(slots, sizeof *t->merges);
    if (!t->merges) return err_memory(e, slots * sizeof *t->merges);
    memset(t->merges, 0xFF, slots * sizeof *t->merges);
    t->merge_slots = slots;
    return ST_OK;
}

static tok_merge *slot(const tokenizer *t, uint32_t left, uint32_t right) {
    size_t i = (size_t)mix(left, right) & (t->merge_slots - 1);
    while (t->merges[i].rank != UINT32_MAX && (t->merges[i].left != left || t->merges[i].right != right))
        i = (i + 1) & (t->merge_slots - 1);
    return &t->merges[i];
}

status tok_merge_add(tokenizer *t, strv left, strv right, size_t rank, err *e) {
    buf l = {0}, r = {0}, both = {0};
    tok_unmap(left, &l);
    tok_unmap(right, &r);
    buf_view(&both, buf_strv(&l));
    buf_view(&both, buf_strv(&r));
    uint32_t a = tok_lookup(t, buf_strv(&l)), b = tok_lookup(t, buf_strv(&r)), c = tok_lookup(t, buf_strv(&both));
    status s = buf_ok(&both, e);
    if (!s && (a == TOKEN_NONE || b == TOKEN_NONE || c == TOKEN_NONE))
        s = err_set(e, ST_INPUT, "merge %zu ('%.*s' with '%.*s') makes a token that is not in the vocabulary", rank + 1,
                    (int)left.n, left.p, (int)right.n, right.p);
    if (!s) {
        *slot(t, a, b) = (tok_merge){a, b, (uint32_t)rank, c}; /* of equal ones the last counts, as in the reference */
    }
    buf_free(&l);
    buf_free(&r);
    buf_free(&both);
    return s;
}

status tok_push(tok_ids *out, uint32_t id, err *e) {
    if (!mem_grow((void **)&out->id, &out->cap, out->n + 1, sizeof *out->id)) return err_memory(e, out->n * sizeof *out->id);
    out->id[out->n++] = id;
    return ST_OK;
}

static bool consider(const tokenizer *t, heap *h, const symbol *s, uint32_t at) {
    if (at == TOKEN_NONE || s[at].next == TOKEN_NONE) return true;
    const tok_merge *m = slot(t, s[at].id, s[s[at].next].id);
    if (m->rank == UINT32_MAX) return true;
    return heap_push(h, (pair){m->rank, at, m->left, m->right, m->id});
}

status tok_bpe(const tokenizer *t, strv piece, tok_ids *out, err *e) {
    if (piece.n >= UINT32_MAX) return err_set(e, ST_INPUT, "a piece of %zu bytes is too long to merge", piece.n);
    if (piece.n == 1 || t->ignore_merges) {
        uint32_t id = tok_lookup(t, piece);
        if (id != TOKEN_NONE) return tok_push(out, id, e);
    }
    symbol few[64], *s = few;
    heap h = {0};
    status st = ST_OK;
    if (piece.n > 64 && !(s = mem_alloc(piece.n, sizeof *s))) return err_memory(e, piece.n * sizeof *s);
    /* A byte without a token becomes the unknown token; where there is none the reference leaves it out, and its
     * neighbours meet. */
    uint32_t n = 0;
    bool unknown = false; /* the last one was */
    for (size_t i = 0; i < piece.n; i++) {
        uint32_t id = t->byte_id[(unsigned char)piece.p[i]];
        bool fused = unknown && t->fuse_unk;
        unknown = id == TOKEN_NONE;
        if (unknown && (fused || t->unk == TOKEN_NONE)) continue;
        s[n] = (symbol){unknown ? t->unk : id, n ? n - 1 : TOKEN_NONE, n + 1};
        n++;
    }
    if (n) s[n - 1].next = TOKEN_NONE;
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++) ok = consider(t, &h, s, i);
    while (!st && ok && h.n) {
        pair p = heap_pop(&h);
        symbol *a = &s[p.at];
        /* A pair whose symbols were merged with others meanwhile is stale. */
        if (a->id != p.left || a->next == TOKEN_NONE || s[a->next].id != p.right) continue;
        symbol *b = &s[a->next];
        a->id = p.id;
        b->id = TOKEN_NONE;
        a->next = b->next;
        if (a->next != TOKEN_NONE) s[a->next].prev = p.at;
        ok = consider(t, &h, s, p.at) && consider(t, &h, s, a->prev);
    }
    if (!ok) st = err_memory(e, h.cap * sizeof *h.p);
    for (uint32_t i = n ? 0 : TOKEN_NONE; !st && i != TOKEN_NONE; i = s[i].next) st = tok_push(out, s[i].id, e);
    free(h.p);
    if (s != few) free(s);
    return st;
}
