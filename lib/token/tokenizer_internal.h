/* tokenizer_internal.h: what the loaders (json.c, gguf.c), the splitter and the merger share. */
#ifndef ANYJEV_TOKEN_TOKENIZER_INTERNAL_H
#define ANYJEV_TOKEN_TOKENIZER_INTERNAL_H

#include "token/split.h"
#include "token/tokenizer.h"

typedef struct tok_added {
    char *text; /* owned */
    size_t len;
    uint32_t id;
    bool special, lstrip, rstrip, normalized;
    bool control; /* never cut out of plain text: special, or of the look <...>, [...] */
} tok_added;

typedef struct tok_merge {
    uint32_t left, right, rank, id;
} tok_merge;

struct tokenizer {
    buf bytes; /* of all pieces, one after the other */
    struct tok_piece {
        size_t at;
        uint32_t len;
        bool used;
    } *pieces;
    size_t n_pieces, cap_pieces;
    uint32_t *by_text; /* open addressing on the piece's bytes: id + 1 */
    size_t text_slots;
    tok_merge *merges; /* open addressing on (left, right); rank UINT32_MAX marks a free slot */
    size_t merge_slots;
    uint32_t byte_id[256];
    tok_added *added; /* sorted by their bytes */
    size_t n_added, cap_added;
    size_t first[257]; /* where in added the texts begin that start with this byte or a higher one */
    splitter *split;
    bool nfc, ignore_merges, fuse_unk;
    uint32_t bos, unk; /* TOKEN_NONE: there is none */
    char sha256[SHA256_HEX_SIZE];
};

/* Building, in this order: all pieces, tok_index, all merges (tok_merges_reserve first), all added tokens, tok_finish. */
status tok_piece_add(tokenizer *t, uint32_t id, strv bytes, err *e);
/* A vocabulary text in the byte-level alphabet (bytes shown as printable characters) as the bytes it stands for;
 * a text with other characters stays as it is. */
void tok_unmap(strv text, buf *out);
status tok_index(tokenizer *t, err *e);
uint32_t tok_lookup(const tokenizer *t, strv bytes);
status tok_merges_reserve(tokenizer *t, size_t n, err *e);
/* "left right" in the byte-level alphabet, or both apart; rank by order. */
status tok_merge_add(tokenizer *t, strv left, strv right, size_t rank, err *e);
status tok_added_add(tokenizer *t, strv text, uint32_t id, bool special, bool lstrip, bool rstrip, bool normalized, err *e);
status tok_finish(tokenizer *t, err *e);

status tok_load_json(tokenizer *t, const char *path, err *e);
status tok_load_gguf(tokenizer *t, const gguf *g, err *e);

/* Merges the bytes of one split-off piece (lib/token/merge.c). */
status tok_bpe(const tokenizer *t, strv piece, tok_ids *out, err *e);
status tok_push(tok_ids *out, uint32_t id, err *e);

#endif
