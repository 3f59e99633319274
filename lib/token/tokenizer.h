/* tokenizer.h: text to token ids, by the model's own byte-level BPE tokenizer, from a Hugging Face
 * tokenizer.json (also compressed with zstd) or a GGUF vocabulary. Exact: ids equal those of the reference
 * implementation. Everything else (SentencePiece, WordPiece, unknown steps) is refused by name. */
#ifndef ANYJEV_TOKEN_TOKENIZER_H
#define ANYJEV_TOKEN_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "weights/gguf.h"

typedef struct tokenizer tokenizer;

/* Bytes [from, to) of a text. */
typedef struct tok_span {
    size_t from, to;
} tok_span;

/* Starts as {0}; tok_ids_free ends it. */
typedef struct tok_ids {
    uint32_t *id;
    size_t n, cap;
} tok_ids;

#define TOKEN_NONE UINT32_MAX

/* path: a model folder, a tokenizer.json or tokenizer.json.zst, or a GGUF file. */
status tokenizer_open(tokenizer **t, const char *path, err *e);
/* From a GGUF that is open; it is not needed afterwards. */
status tokenizer_of_gguf(tokenizer **t, const gguf *g, err *e);
void tokenizer_close(tokenizer *t);

/* Appends the ids of text (valid UTF-8, NUL bytes welcome). Added tokens are cut out of the raw text first
 * (leftmost, longest), except that inside the plain spans (sorted, apart) no control token is: text that looks
 * like one is encoded as text there. Splitting and merging run over the joint text between cut-out tokens,
 * so that spans without look-alikes change nothing. No BOS is added. */
status tokenizer_encode(const tokenizer *t, strv text, const tok_span *plain, size_t n_plain, tok_ids *out, err *e);
void tok_ids_free(tok_ids *ids);

/* The id when text is exactly one token by tokenizer_encode, else TOKEN_NONE. */
status tokenizer_single(const tokenizer *t, strv text, uint32_t *id, err *e);
size_t tokenizer_size(const tokenizer *t); /* highest id + 1 */
/* The bytes of a token (its text, for added ones); an empty view for an unused id. */
strv tokenizer_piece(const tokenizer *t, uint32_t id);
/* The id of the added token with this text, or TOKEN_NONE. */
uint32_t tokenizer_added(const tokenizer *t, strv text);
/* The token put before every text when no template brings it; TOKEN_NONE when there is none. */
uint32_t tokenizer_bos(const tokenizer *t);
/* SHA-256 of tokenizer.json (uncompressed), or of the GGUF's vocabulary (model, pre, tokens, types, merges). */
const char *tokenizer_sha256(const tokenizer *t);

#endif
