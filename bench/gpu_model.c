/* gpu_model: writes a model of random weights in Hugging Face form (config.json, one safetensors file, bfloat16; no
 * tokenizer), in the shape of Qwen3-8B or, with `small`, of a model that fits anywhere. For measuring speed: the
 * numbers have the size of real ones and no sense. Usage: gpu_model FOLDER [8b|small] */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

typedef struct shape {
    size_t blocks, hidden, heads, kv_heads, head_dim, ffn, vocab;
} shape;

typedef struct tensor {
    char name[64];
    size_t rows, cols; /* cols 0: a vector */
    bool norm;
} tensor;

enum { NOISE = 1 << 24 }; /* elements; tensors take stretches of it */

static int fail(const char *what) {
    perror(what);
    return 6;
}

static size_t list(const shape *s, tensor *t) {
    size_t n = 0, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const struct {
        const char *name;
        size_t rows, cols;
        bool norm;
    } block[] = {{"input_layernorm", s->hidden, 0, true},       {"mlp.down_proj", s->hidden, s->ffn, false},     {"mlp.gate_proj", s->ffn, s->hidden, false},
                 {"mlp.up_proj", s->ffn, s->hidden, false},     {"post_attention_layernorm", s->hidden, 0, true}, {"self_attn.k_norm", s->head_dim, 0, true},
                 {"self_attn.k_proj", kv, s->hidden, false},    {"self_attn.o_proj", s->hidden, q, false},       {"self_attn.q_norm", s->head_dim, 0, true},
                 {"self_attn.q_proj", q, s->hidden, false},     {"self_attn.v_proj", kv, s->hidden, false}};
    t[n++] = (tensor){"lm_head.weight", s->vocab, s->hidden, false};
    t[n++] = (tensor){"model.embed_tokens.weight", s->vocab, s->hidden, false};
    for (size_t b = 0; b < s->blocks; b++)
        for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
            t[n] = (tensor){"", block[i].rows, block[i].cols, block[i].norm};
            snprintf(t[n++].name, sizeof t->name, "model.layers.%zu.%s.weight", b, block[i].name);
        }
    t[n++] = (tensor){"model.norm.weight", s->hidden, 0, true};
    return n;
}

static size_t elements(const tensor *t) {
    return t->rows * (t->cols ? t->cols : 1);
}

static bool put(int fd, const void *p, size_t n) {
    const char *at = p;
    while (n) {
        ssize_t k = write(fd, at, n);
        if (k <= 0) return false;
        at += k;
        n -= (size_t)k;
    }
    return true;
}

/* Uniform in (-0.03, 0.03), as bfloat16: about the spread of trained weights. */
static uint16_t *noise(void) {
    uint16_t *p = mem_alloc(NOISE, sizeof *p);
    uint64_t r = 1;
    for (size_t i = 0; p && i < NOISE; i++) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        float f = (float)(int32_t)(r >> 32) * 0x1p-31f * 0.03f;
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        p[i] = (uint16_t)(u >> 16);
    }
    return p;
}

static int write_tensors(const char *path, const tensor *t, size_t n, const uint16_t *random, uint16_t *ones) {
    buf head = {0};
    size_t at = 0;
    buf_byte(&head, '{');
    for (size_t i = 0; i < n; i++) {
        buf_printf(&head, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%zu", i ? "," : "", t[i].name, t[i].rows);
        if (t[i].cols) buf_printf(&head, ",%zu", t[i].cols);
        buf_printf(&head, "],\"data_offsets\":[%zu,%zu]}", at, at + 2 * elements(&t[i]));
        at += 2 * elements(&t[i]);
    }
    buf_byte(&head, '}');
    while (head.len % 64 != 56) buf_byte(&head, ' ');
    if (head.failed) return fail("gpu_model");
    uint64_t len = head.len;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return fail(path);
    bool ok = put(fd, &len, sizeof len) && put(fd, head.p, head.len);
    size_t from = 0;
    for (size_t i = 0; ok && i < n; i++)
        for (size_t left = elements(&t[i]); ok && left;) {
            size_t many = NOISE - from < left ? NOISE - from : left;
            ok = put(fd, t[i].norm ? ones : random + from, 2 * many);
            left -= many;
            from = t[i].norm ? from : (from + many) % NOISE;
        }
    if (close(fd) || !ok) return fail(path);
    buf_free(&head);
    return 0;
}

int main(int argc, char **argv) {
    shape s = {36, 4096, 32, 8, 128, 12288, 151936};
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "8b") != 0 && strcmp(argv[2], "small") != 0)) {
        fputs("usage: gpu_model FOLDER [8b|small]\n", stderr);
        return 2;
    }
    if (argc == 3 && strcmp(argv[2], "small") == 0) s = (shape){2, 256, 4, 2, 64, 512, 1000};
    if (mkdir(argv[1], 0777) && access(argv[1], W_OK)) return fail(argv[1]);
    buf path = {0};
    buf_printf(&path, "%s/config.json", argv[1]);
    FILE *f = path.failed ? NULL : fopen(path.p, "w");
    if (!f) return fail(argv[1]);
    fprintf(f,
            "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"hidden_act\": \"silu\", \"attention_bias\": false, \"torch_dtype\": \"bfloat16\",\n"
            " \"num_hidden_layers\": %zu, \"hidden_size\": %zu, \"num_attention_heads\": %zu, \"num_key_value_heads\": %zu, \"head_dim\": %zu, \"intermediate_size\": %zu,\n"
            " \"vocab_size\": %zu, \"max_position_embeddings\": 40960, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"tie_word_embeddings\": false}\n",
            s.blocks, s.hidden, s.heads, s.kv_heads, s.head_dim, s.ffn, s.vocab);
    if (fclose(f)) return fail(path.p);
    tensor *t = mem_alloc(3 + 11 * s.blocks, sizeof *t);
    uint16_t *random = noise(), *ones = mem_alloc(NOISE, sizeof *ones);
    if (!t || !random || !ones) return fail("gpu_model");
    for (size_t i = 0; i < NOISE; i++) ones[i] = 0x3f80;
    buf_clear(&path);
    buf_printf(&path, "%s/model.safetensors", argv[1]);
    int rc = path.failed ? fail("gpu_model") : write_tensors(path.p, t, list(&s, t), random, ones);
    buf_free(&path);
    free(t);
    free(random);
    free(ones);
    return rc;
}
