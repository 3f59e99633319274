/* lib/model against transformers: hidden states after every block and logits of the tiny models, and what a
 * prompt's company may change: nothing. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/io.h"
#include "json/json.h"
#include "model/model.h"

enum { VOCAB = 320, MAX_IDS = 512 };

static double worst;

/* Largest difference by the largest magnitude; infinite when anything is not a number. */
static double distance(const float *a, const float *b, size_t n) {
    double top = 0, diff = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i])) return INFINITY;
        if (fabs((double)b[i]) > top) top = fabs((double)b[i]);
        if (fabs((double)a[i] - (double)b[i]) > diff) diff = fabs((double)a[i] - (double)b[i]);
    }
    return diff / top;
}

static const float *decoded(const json *d, jref r, buf *out) {
    err e = {0};
    buf scratch = {0};
    strv v;
    buf_clear(out);
    if (json_text(d, r, &scratch, &v, &e) || base64_get(v, out, &e)) out->len = 0;
    buf_free(&scratch);
    return (const float *)(const void *)out->p;
}

static void one_line(const json *d, kernel *kn, const char *golden) {
    err e = {0};
    buf name = {0}, bytes = {0};
    char *model_name = NULL;
    json_text_copy(d, json_get(d, JREF_ROOT, "model"), "model", &model_name, &e);
    buf_printf(&name, "%s/models/%s", golden, model_name);
    model *m = NULL;
    status s = model_open(&m, name.p, &e);
    CHECK(s == ST_OK, "%s opens %s", model_name, s ? e.text : "");
    if (!s) {
        const model_config *c = model_shape(m);
        uint32_t ids[MAX_IDS], labels[VOCAB];
        size_t blocks[16], n = 0;
        jref list = json_get(d, JREF_ROOT, "ids"), hidden = json_get(d, JREF_ROOT, "hidden");
        for (jref x = json_first(d, list); x != JREF_NONE; x = json_next(d, list, x), n++) {
            size_t id = 0;
            json_size(d, x, "ids", &id, &e);
            ids[n] = (uint32_t)id;
        }
        for (size_t i = 0; i <= c->n_blocks; i++) blocks[i] = i;
        for (uint32_t i = 0; i < VOCAB; i++) labels[i] = i;
        double *logprobs = calloc(VOCAB, sizeof *logprobs);
        float *h = calloc((c->n_blocks + 1) * c->hidden_dim, sizeof *h);
        model_prompt p = {.ids = ids, .n_ids = n, .want_logits = true, .labels = labels, .n_labels = VOCAB, .blocks = blocks, .n_blocks = c->n_blocks + 1,
                          .logprobs = logprobs, .hidden = h};
        model_stats stats;
        size_t bad;
        s = model_run(m, kn, &p, 1, &stats, NULL, NULL, &bad, &e);
        double far = s ? INFINITY : 0;
        for (jref k = json_first(d, hidden); !s && k != JREF_NONE; k = json_next(d, hidden, k)) {
            size_t b = strtoul(json_raw(d, k).p + 1, NULL, 10);
            const float *want = decoded(d, json_value(d, k), &bytes);
            double x = bytes.len == c->hidden_dim * sizeof(float) ? distance(h + b * c->hidden_dim, want, c->hidden_dim) : INFINITY;
            if (!(x <= far)) far = x;
        }
        /* Log-probabilities are logits less a constant: compared up to the largest one's place. */
        const float *want = decoded(d, json_get(d, JREF_ROOT, "logits"), &bytes);
        double top = 0, shift = 0, diff = 0;
        for (size_t i = 0; !s && i < VOCAB && bytes.len == VOCAB * sizeof(float); i++) {
            if (fabs((double)want[i]) > top) top = fabs((double)want[i]), shift = (double)want[i] - logprobs[i];
        }
        for (size_t i = 0; !s && i < VOCAB; i++) {
            double x = fabs((double)want[i] - logprobs[i] - shift);
            if (!(x <= diff)) diff = x;
        }
        double logits = s || bytes.len != VOCAB * sizeof(float) ? INFINITY : diff / top;
        if (far > worst) worst = far;
        if (logits > worst) worst = logits;
        CHECK(far <= 2e-4, "%s, %zu tokens: hidden states within 2e-4 (%.1e)", model_name, n, far);
        CHECK(logits <= 2e-4, "%s, %zu tokens: logits within 2e-4 (%.1e)", model_name, n, logits);
        free(logprobs);
        free(h);
    }
    model_close(m);
    free(model_name);
    buf_free(&name);
    buf_free(&bytes);
}

/* Prompts that share prefixes in all ways: alone, all together, backwards, in small batches, on other numbers of threads. */
enum { N_PROMPTS = 60 };

static uint32_t drawn(uint64_t *x) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return (uint32_t)(*x >> 20);
}

static void run_all(const model *m, kernel *kn, uint32_t ids[][MAX_IDS], const size_t *len, const size_t *order, size_t n, double *out) {
    static const uint32_t labels[] = {1, 2, 3};
    model_prompt p[N_PROMPTS];
    model_stats stats;
    size_t bad;
    err e = {0};
    for (size_t i = 0; i < n; i++)
        p[i] = (model_prompt){.index = order[i], .ids = ids[order[i]], .n_ids = len[order[i]], .want_logits = true, .labels = labels, .n_labels = 3, .logprobs = out + order[i] * 3};
    if (model_run(m, kn, p, n, &stats, NULL, NULL, &bad, &e)) memset(out, 0xFF, sizeof(double) * 3 * N_PROMPTS);
}

static void company(const char *golden) {
    static uint32_t ids[N_PROMPTS][MAX_IDS];
    size_t len[N_PROMPTS], order[N_PROMPTS];
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < N_PROMPTS; i++) {
        size_t from = i ? drawn(&x) % i : 0, shared = i ? drawn(&x) % (len[from] + 1) : 0;
        len[i] = shared + drawn(&x) % 90;
        if (len[i] == 0 || len[i] > MAX_IDS) len[i] = len[i] ? MAX_IDS : 1;
        for (size_t t = 0; t < len[i]; t++) ids[i][t] = t < shared ? ids[from][t] : drawn(&x) % 300;
        order[i] = i;
    }
    buf path = {0};
    buf_printf(&path, "%s/models/qwen3-bf16", golden);
    model *m = NULL;
    err e = {0};
    static double alone[N_PROMPTS * 3], other[N_PROMPTS * 3];
    CHECK(model_open(&m, path.p, &e) == ST_OK, "qwen3-bf16 opens %s", e.text);
    for (unsigned threads = 1; m && threads <= 7; threads += threads == 3 ? 4 : 1) {
        kernel *kn = NULL;
        if (kernel_open(&kn, KERNEL_AUTO, threads, &e)) break;
        if (threads == 1)
            for (size_t i = 0; i < N_PROMPTS; i++) run_all(m, kn, ids, len, order + i, 1, alone);
        memset(other, 0, sizeof other);
        run_all(m, kn, ids, len, order, N_PROMPTS, other);
        CHECK(memcmp(alone, other, sizeof alone) == 0, "60 prompts together on %u threads give the bits of each alone", threads);
        kernel_close(kn);
    }
    kernel *kn = NULL;
    if (m && kernel_open(&kn, KERNEL_REF, 2, &e) == ST_OK) {
        size_t back[N_PROMPTS];
        for (size_t i = 0; i < N_PROMPTS; i++) back[i] = N_PROMPTS - 1 - i;
        memset(other, 0, sizeof other);
        run_all(m, kn, ids, len, back, N_PROMPTS, other);
        CHECK(memcmp(alone, other, sizeof alone) == 0, "backwards, by the plain C reference: the same bits");
        memset(other, 0, sizeof other);
        for (size_t i = 0; i < N_PROMPTS; i += 7) run_all(m, kn, ids, len, order + i, N_PROMPTS - i < 7 ? N_PROMPTS - i : 7, other);
        CHECK(memcmp(alone, other, sizeof alone) == 0, "in batches of seven: the same bits");
        alone[5] += 1e-15;
        CHECK(memcmp(alone, other, sizeof alone) != 0, "and the comparison notices a changed bit");
    }
    kernel_close(kn);
    model_close(m);
    buf_free(&path);
}

int main(void) {
    const char *golden = "tests/golden";
    char file[] = "tests/golden/forward.jsonl", *files[] = {file};
    err e = {0};
    input *in = NULL;
    kernel *kn = NULL;
    json d = {0};
    bool more = true;
    size_t lines = 0;
    if (input_open(&in, files, 1, &e) || kernel_open(&kn, KERNEL_AUTO, 2, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    while (more) {
        strv line;
        if (input_next(in, &more, &line, &e) || !more) break;
        lines++;
        if (json_parse(&d, line.p, line.n, &e) == ST_OK) one_line(&d, kn, golden);
    }
    CHECK(lines == 48, "all 48 golden lines were read (%zu)", lines);
    printf("# largest error: %.2e of the largest magnitude\n", worst);
    json_free(&d);
    input_close(in);
    kernel_close(kn);
    company(golden);
    return test_end();
}
