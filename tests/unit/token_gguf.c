/* lib/token/load_gguf: a small vocabulary made here, and vocabularies that are refused by name. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "test.h"
#include "token/tokenizer.h"

static void le(buf *b, uint64_t v, int n) {
    for (int i = 0; i < n; i++) buf_byte(b, (char)(v >> (8 * i) & 255));
}

static void str(buf *b, const char *s) {
    le(b, strlen(s), 8);
    buf_text(b, s);
}

static void text(buf *b, const char *key, const char *value) {
    str(b, key), le(b, 8, 4), str(b, value);
}

static void texts(buf *b, const char *key, const char *const *list, size_t n) {
    str(b, key), le(b, 9, 4), le(b, 8, 4), le(b, n, 8);
    for (size_t i = 0; i < n; i++) str(b, list[i]);
}

static char path[] = "/tmp/anyjev-vocab-XXXXXX";

/* model, pre, or merge NULL: without; n_types: how many types stand there */
static tokenizer *open_with(const char *model, const char *pre, const char *merge, size_t n_types, err *e) {
    static const char *const tokens[] = {"<|s|>", "a", "b", "ab", "\xC4\xA0", "1", "", "<u>"};
    static const uint32_t types[] = {3, 1, 1, 1, 1, 1, 5, 4, 1, 1};
    buf b = {0};
    buf_text(&b, "GGUF"), le(&b, 3, 4), le(&b, 0, 8), le(&b, 3 + (model != NULL) + (pre != NULL) + (merge != NULL), 8);
    if (model) text(&b, "tokenizer.ggml.model", model);
    if (pre) text(&b, "tokenizer.ggml.pre", pre);
    texts(&b, "tokenizer.ggml.tokens", tokens, sizeof tokens / sizeof *tokens);
    str(&b, "tokenizer.ggml.token_type"), le(&b, 9, 4), le(&b, 5, 4), le(&b, n_types, 8);
    for (size_t i = 0; i < n_types; i++) le(&b, types[i], 4);
    str(&b, "tokenizer.ggml.bos_token_id"), le(&b, 4, 4), le(&b, 0, 4);
    if (merge) texts(&b, "tokenizer.ggml.merges", &merge, 1);
    tokenizer *t = NULL;
    *e = (err){0};
    if (file_write(path, b.p, b.len, e)) exit(99);
    tokenizer_open(&t, path, e);
    buf_free(&b);
    return t;
}

static void refused(const char *model, const char *pre, const char *merge, size_t n_types, const char *why) {
    err e;
    tokenizer *t = open_with(model, pre, merge, n_types, &e);
    CHECK(!t && e.status == ST_INPUT && strstr(e.text, path) && strstr(e.text, why), "refused: %s", e.text);
    tokenizer_close(t);
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0) return 99;
    close(fd);
    err e;
    tokenizer *t = open_with("gpt2", "smollm", "a b", 8, &e);
    CHECK(t != NULL, "a vocabulary opens %s", e.text);
    tok_ids ids = {0};
    if (t) {
        CHECK(tokenizer_encode(t, strv_of("ab<|s|>a<u> 11"), NULL, 0, &ids, &e) == ST_OK && ids.n == 7, "encodes %s", e.text);
        static const uint32_t want[] = {3, 0, 1, 7, 4, 5, 5};
        CHECK(ids.n == 7 && memcmp(ids.id, want, sizeof want) == 0, "ids");
        CHECK(tokenizer_bos(t) == TOKEN_NONE, "no BOS unless it says so");
        CHECK(strlen(tokenizer_sha256(t)) == 64, "an identity");
    }
    tokenizer_close(t);
    t = open_with("gpt2", "llama-bpe", "a b", 8, &e);
    CHECK(t && tokenizer_bos(t) == 0, "Llama 3 puts a BOS where nothing else is said");
    tokenizer_close(t);
    refused("llama", NULL, NULL, 8, "tokenizer 'llama' is not supported");
    refused(NULL, NULL, NULL, 8, "carries no tokenizer");
    refused("gpt2", NULL, "a b", 8, "pre-tokenizer 'default' is not supported");
    refused("gpt2", "some-new", "a b", 8, "pre-tokenizer 'some-new' is not supported");
    refused("gpt2", "smollm", NULL, 8, "not whole");
    refused("gpt2", "smollm", "a b", 7, "not whole");
    refused("gpt2", "smollm", "a b", 10, "not whole");
    refused("gpt2", "smollm", "ab", 8, "merge 1 has no space");
    refused("gpt2", "smollm", "b a", 8, "not in the vocabulary");
    tok_ids_free(&ids);
    unlink(path);
    return test_end();
}
