/* Artifacts as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "decide/artifact.h"

/* --- writing --- */

/* {"dtype": "float32", "shape": [...], "b64": ...}, or nested lists. cols 0: a vector. */
static status put_array(const double *v, size_t rows, size_t cols, bool plain, jw *w, err *e) {
    size_t n = rows * (cols ? cols : 1);
    if (plain) {
        jw_open(w, '[');
        for (size_t i = 0; i < rows; i++) {
            if (!cols) {
                jw_real(w, (double)(float)v[i]);
                continue;
            }
            jw_open(w, '[');
            for (size_t j = 0; j < cols; j++) jw_real(w, (double)(float)v[i * cols + j]);
            jw_close(w, ']');
        }
        jw_close(w, ']');
        return ST_OK;
    }
    float *f = mem_alloc(n, sizeof *f);
    buf text = {0};
    if (!f) return err_memory(e, n * sizeof *f);
    for (size_t i = 0; i < n; i++) f[i] = (float)v[i];
    jw_open(w, '{');
    jw_key(w, "dtype");
    jw_text(w, "float32");
    jw_key(w, "shape");
    jw_open(w, '[');
    jw_size(w, rows);
    if (cols) jw_size(w, cols);
    jw_close(w, ']');
    jw_key(w, "b64");
    base64_put(&text, f, n * sizeof *f); /* little endian, as every machine that we build for */
    jw_view(w, buf_strv(&text));
    jw_close(w, '}');
    buf_free(&text);
    free(f);
    return ST_OK;
}

static void put_reals(const double *v, size_t n, jw *w) {
    jw_open(w, '[');
    for (size_t i = 0; i < n; i++) jw_real(w, v[i]);
    jw_close(w, ']');
}

static void key_real(jw *w, const char *key, double v) {
    jw_key(w, key);
    jw_real(w, v);
}

static void key_size(jw *w, const char *key, size_t v) {
    jw_key(w, key);
    jw_size(w, v);
}

static status put_head(const artifact *a, bool plain, jw *w, err *e) {
    const head *h = &a->head;
    buf method = {0};
    buf_printf(&method, "head:%s", h->solver);
    jw_key(w, "method");
    jw_view(w, buf_strv(&method));
    buf_free(&method);
    /* layer counts the candidates in AnyJev; layer_abs is the block */
    key_size(w, "layer", 0);
    key_size(w, "layer_abs", h->block);
    key_size(w, "n_blocks", h->n_blocks);
    key_size(w, "hidden_size", h->d);
    key_real(w, "temperature", a->temperature);
    jw_key(w, "params");
    jw_open(w, '{');
    key_real(w, strcmp(h->solver, "lda") == 0 ? "shrinkage" : "lam", h->param);
    jw_key(w, "listing");
    jw_text(w, h->random_listing ? "random" : "canonical");
    jw_close(w, '}');
    key_size(w, "n_calib", a->n_calib);
    jw_key(w, "cv");
    jw_open(w, '{');
    key_real(w, "oof_nll", h->oof_nll);
    key_real(w, "oof_acc", h->oof_accuracy);
    jw_close(w, '}');
    jw_key(w, "W");
    status s = put_array(h->W, h->d, a->k, plain, w, e);
    jw_key(w, "b");
    if (!s) s = put_array(h->b, a->k, 0, true, w, e);
    jw_key(w, "mean");
    if (!s) s = put_array(h->mean, h->d, 0, plain, w, e);
    jw_key(w, "scale");
    if (!s) s = put_array(h->scale, h->d, 0, plain, w, e);
    return s;
}

static const char *const source_names[] = {"none", "batch", "content_free"};

static void put_temperature(const artifact *a, jw *w) {
    jw_key(w, "method");
    jw_text(w, "temperature");
    key_real(w, "temperature", a->temperature);
    jw_key(w, "prior_method");
    jw_text(w, source_names[a->source]);
    key_real(w, "prior_strength", a->strength);
    key_size(w, "n_calib", a->n_calib);
    if (a->source == DECIDE_NONE) return;
    jw_key(w, "prior");
    jw_open(w, '[');
    for (size_t s = 0; s < a->shifts; s++) put_reals(a->prior[s], a->k, w);
    jw_close(w, ']');
}

static void put_calibrator(const artifact *a, jw *w) {
    const calibration *c = &a->calibration;
    if (c->kind == CALIBRATOR_TEMPERATURE) return;
    jw_key(w, "calibrator");
    jw_open(w, '{');
    jw_key(w, "method");
    jw_text(w, calibrator_name(c->kind));
    if (c->kind == CALIBRATOR_VECTOR) {
        jw_key(w, "w");
        put_reals(c->w, a->k, w);
        jw_key(w, "b");
        put_reals(c->b, a->k, w);
    } else {
        jw_key(w, "edges");
        put_reals(c->edge, c->steps - 1, w);
        jw_key(w, "values");
        put_reals(c->value, c->steps, w);
    }
    jw_close(w, '}');
}

static void put_certificate(const certificate *c, jw *w) {
    if (!c->made) return;
    jw_key(w, "certificate");
    jw_open(w, '{');
    key_real(w, "risk", c->risk);
    key_real(w, "delta", c->delta);
    jw_key(w, "threshold");
    if (c->found) jw_real(w, c->threshold);
    else jw_null(w);
    if (c->found) {
        key_real(w, "bound", c->bound);
        key_real(w, "coverage", c->coverage);
        key_size(w, "errors", c->errors);
    }
    key_size(w, "n", c->n);
    key_size(w, "negatives", c->negatives);
    key_size(w, "missing_negatives", c->missing_negatives);
    jw_close(w, '}');
}

/* The model's name: the identity's, or nothing. */
static status put_model(const artifact *a, jw *w, err *e) {
    json doc = {0};
    status s = ST_OK;
    jw_key(w, "model");
    if (a->identity && !(s = json_parse(&doc, a->identity, strlen(a->identity), e)) && json_kind_of(&doc, json_get(&doc, JREF_ROOT, "name")) == JSON_STRING)
        jw_raw(w, json_raw(&doc, json_get(&doc, JREF_ROOT, "name")));
    else jw_null(w);
    json_free(&doc);
    return s;
}

status artifact_put(const artifact *a, bool plain, buf *out, err *e) {
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "artifact");
    jw_key(&w, "level");
    jw_text(&w, artifact_level(a));
    status s = put_model(a, &w, e);
    jw_key(&w, "question");
    jw_text(&w, a->key);
    jw_key(&w, "question_id");
    jw_text(&w, a->question_id);
    jw_key(&w, "kind");
    jw_text(&w, question_kind_name(a->kind));
    jw_key(&w, "text");
    jw_text(&w, a->text);
    jw_key(&w, "options");
    jw_open(&w, '[');
    for (size_t i = 0; i < a->k; i++) jw_text(&w, a->options[i]);
    jw_close(&w, ']');
    if (!s && a->is_head) s = put_head(a, plain, &w, e);
    else put_temperature(a, &w);
    put_calibrator(a, &w);
    put_certificate(&a->certificate, &w);
    if (a->identity) {
        jw_key(&w, "identity");
        jw_raw(&w, strv_of(a->identity));
    }
    jw_close(&w, '}');
    return s ? s : buf_ok(out, e);
}

/* --- reading --- */

static status read_reals(const json *doc, jref list, const char *what, double *v, size_t n, err *e) {
    size_t i = 0;
    if (json_kind_of(doc, list) != JSON_ARRAY || json_count(doc, list) != n) return err_set(e, ST_INPUT, "field '%s': expected %zu numbers", what, n);
    status s = ST_OK;
    for (jref r = json_first(doc, list); !s && r != JREF_NONE; r = json_next(doc, list, r)) s = json_real(doc, r, what, &v[i++], e);
    return s;
}

static status read_base64(const json *doc, jref r, const char *what, double *v, size_t n, err *e) {
    buf scratch = {0}, bytes = {0};
    strv text;
    jref dtype = json_get(doc, r, "dtype");
    bool wide = json_is(doc, dtype, "float64");
    if (!wide && dtype != JREF_NONE && !json_is(doc, dtype, "float32")) return err_set(e, ST_INPUT, "field '%s': expected float32 or float64", what);
    status s = json_text(doc, json_get(doc, r, "b64"), &scratch, &text, e);
    if (!s) s = base64_get(text, &bytes, e);
    if (s) err_prefix(e, "field '%s'", what);
    else if (bytes.len != n * (wide ? 8 : 4)) s = err_set(e, ST_INPUT, "field '%s': %zu bytes, expected %zu numbers", what, bytes.len, n);
    for (size_t i = 0; !s && i < n; i++) {
        float f;
        if (wide) {
            memcpy(&v[i], bytes.p + i * 8, 8);
        } else {
            memcpy(&f, bytes.p + i * 4, 4);
            v[i] = (double)f;
        }
        if (!isfinite(v[i])) s = err_set(e, ST_INPUT, "field '%s': number %zu is not finite", what, i);
    }
    buf_free(&scratch);
    buf_free(&bytes);
    return s;
}

/* rows x cols (cols 0: a vector), allocated. */
static status read_array(const json *doc, jref obj, const char *what, size_t rows, size_t cols, double **out, err *e) {
    jref r = json_get(doc, obj, what);
    size_t n;
    if (!size_mul(rows, cols ? cols : 1, &n) || !(*out = mem_alloc(n, sizeof **out))) return err_memory(e, rows * sizeof **out);
    if (json_kind_of(doc, r) == JSON_OBJECT) return read_base64(doc, r, what, *out, n, e);
    if (!cols) return read_reals(doc, r, what, *out, n, e);
    if (json_kind_of(doc, r) != JSON_ARRAY || json_count(doc, r) != rows) return err_set(e, ST_INPUT, "field '%s': expected %zu rows", what, rows);
    size_t i = 0;
    status s = ST_OK;
    for (jref x = json_first(doc, r); !s && x != JREF_NONE; x = json_next(doc, r, x)) s = read_reals(doc, x, what, *out + i++ * cols, cols, e);
    return s;
}

/* How many rows an array has, however it is written. */
static size_t rows_of(const json *doc, jref r) {
    size_t n = 0;
    err ignored = {0};
    if (json_kind_of(doc, r) == JSON_ARRAY) return json_count(doc, r);
    return json_size(doc, json_at(doc, json_get(doc, r, "shape"), 0), "shape", &n, &ignored) == ST_OK ? n : 0;
}

static status read_head(artifact *a, const json *doc, jref obj, strv method, err *e) {
    head *h = &a->head;
    jref params = json_get(doc, obj, "params"), cv = json_get(doc, obj, "cv"), blocks = json_get(doc, obj, "n_blocks");
    bool lda = strv_is(method, "head:lda");
    a->is_head = true;
    if (!lda && !strv_is(method, "head:ridge")) return err_set(e, ST_INPUT, "field 'method': '%.*s' is no head that this program knows (head:lda, head:ridge)", (int)method.n, method.p);
    h->solver = mem_text(lda ? "lda" : "ridge", lda ? 3 : 5);
    if (!h->solver) return err_memory(e, 6);
    h->d = rows_of(doc, json_get(doc, obj, "W"));
    if (!h->d || h->d > (size_t)1 << 20) return err_set(e, ST_INPUT, "field 'W': expected one row per hidden dimension");
    jref param = json_get(doc, params, lda ? "shrinkage" : "lam");
    status s = json_size(doc, json_get(doc, obj, "layer_abs"), "layer_abs", &h->block, e);
    if (!s && blocks != JREF_NONE) s = json_size(doc, blocks, "n_blocks", &h->n_blocks, e);
    if (!s && param != JREF_NONE) s = json_real(doc, param, "params", &h->param, e);
    h->random_listing = json_is(doc, json_get(doc, params, "listing"), "random");
    if (!s && cv != JREF_NONE && json_get(doc, cv, "oof_nll") != JREF_NONE) s = json_real(doc, json_get(doc, cv, "oof_nll"), "cv", &h->oof_nll, e);
    if (!s && cv != JREF_NONE && json_get(doc, cv, "oof_acc") != JREF_NONE) s = json_real(doc, json_get(doc, cv, "oof_acc"), "cv", &h->oof_accuracy, e);
    if (!s) s = read_array(doc, obj, "W", h->d, a->k, &h->W, e);
    if (!s) s = read_array(doc, obj, "b", a->k, 0, &h->b, e);
    if (!s) s = read_array(doc, obj, "mean", h->d, 0, &h->mean, e);
    if (!s) s = read_array(doc, obj, "scale", h->d, 0, &h->scale, e);
    for (size_t i = 0; !s && i < h->d; i++)
        if (!(h->scale[i] > 0)) s = err_set(e, ST_INPUT, "field 'scale': expected positive numbers");
    return s;
}

static status read_prior(artifact *a, const json *doc, jref obj, err *e) {
    jref prior = json_get(doc, obj, "prior"), method = json_get(doc, obj, "prior_method"), strength = json_get(doc, obj, "prior_strength");
    status s = ST_OK;
    if (json_kind_of(doc, prior) != JSON_ARRAY) return ST_OK;
    a->source = json_is(doc, method, "content_free") ? DECIDE_CONTENT_FREE : DECIDE_BATCH;
    a->shifts = json_count(doc, prior);
    if (a->shifts != question_full(a->kind, a->k)) return err_set(e, ST_INPUT, "field 'prior': %zu permutations, expected %zu", a->shifts, question_full(a->kind, a->k));
    if (strength != JREF_NONE) s = json_real(doc, strength, "prior_strength", &a->strength, e);
    size_t i = 0;
    for (jref r = json_first(doc, prior); !s && r != JREF_NONE; r = json_next(doc, prior, r)) s = read_reals(doc, r, "prior", a->prior[i++], a->k, e);
    return s;
}

static status read_calibrator(artifact *a, const json *doc, jref c, err *e) {
    calibration *out = &a->calibration;
    jref method = json_get(doc, c, "method");
    if (c == JREF_NONE) return ST_OK;
    int kind = CALIBRATOR_VECTOR;
    while (kind <= CALIBRATOR_HISTOGRAM && !json_is(doc, method, calibrator_name((calibrator)kind))) kind++;
    if (kind > CALIBRATOR_HISTOGRAM) return err_set(e, ST_INPUT, "field 'calibrator': unknown method");
    out->kind = (calibrator)kind;
    if (out->kind == CALIBRATOR_VECTOR) {
        status s = read_reals(doc, json_get(doc, c, "w"), "w", out->w, a->k, e);
        return s ? s : read_reals(doc, json_get(doc, c, "b"), "b", out->b, a->k, e);
    }
    out->steps = json_count(doc, json_get(doc, c, "values"));
    if (a->k != 2 || !out->steps || out->steps > CALIBRATOR_STEPS) return err_set(e, ST_INPUT, "field 'calibrator': expected 1 to %d steps of two options", CALIBRATOR_STEPS);
    status s = read_reals(doc, json_get(doc, c, "values"), "values", out->value, out->steps, e);
    return s ? s : read_reals(doc, json_get(doc, c, "edges"), "edges", out->edge, out->steps - 1, e);
}

static status read_certificate(certificate *out, const json *doc, jref c, err *e) {
    jref threshold = json_get(doc, c, "threshold");
    if (c == JREF_NONE) return ST_OK;
    out->made = true;
    out->found = json_kind_of(doc, threshold) == JSON_NUMBER;
    struct {
        const char *key;
        double *to;
    } reals[] = {{"risk", &out->risk}, {"delta", &out->delta}, {"threshold", &out->threshold}, {"bound", &out->bound}, {"coverage", &out->coverage}};
    struct {
        const char *key;
        size_t *to;
    } sizes[] = {{"n", &out->n}, {"errors", &out->errors}, {"negatives", &out->negatives}, {"missing_negatives", &out->missing_negatives}};
    status s = ST_OK;
    for (size_t i = 0; !s && i < sizeof reals / sizeof *reals; i++)
        if (json_kind_of(doc, json_get(doc, c, reals[i].key)) == JSON_NUMBER) s = json_real(doc, json_get(doc, c, reals[i].key), reals[i].key, reals[i].to, e);
    for (size_t i = 0; !s && i < sizeof sizes / sizeof *sizes; i++)
        if (json_get(doc, c, sizes[i].key) != JREF_NONE) s = json_size(doc, json_get(doc, c, sizes[i].key), sizes[i].key, sizes[i].to, e);
    return s;
}

static status read_question(artifact *a, const json *doc, jref obj, err *e) {
    jref list = json_get(doc, obj, "options"), id = json_get(doc, obj, "question_id"), text = json_get(doc, obj, "text");
    status s = json_text_copy(doc, json_get(doc, obj, "question"), "question", &a->key, e);
    if (!s && json_kind_of(doc, id) == JSON_STRING) s = json_text_copy(doc, id, "question_id", &a->question_id, e);
    if (!s && json_kind_of(doc, text) == JSON_STRING) s = json_text_copy(doc, text, "text", &a->text, e);
    if (!s && json_get(doc, obj, "kind") == JREF_NONE) return ST_OK; /* AnyJev's temperatures do not say */
    if (!s) s = question_kind_read(doc, json_get(doc, obj, "kind"), &a->kind, e);
    if (!s && (json_kind_of(doc, list) != JSON_ARRAY || json_count(doc, list) < 2 || json_count(doc, list) > DECIDE_MAX))
        s = err_set(e, ST_INPUT, "field 'options': expected 2 to %d strings", DECIDE_MAX);
    for (jref o = json_first(doc, list); !s && o != JREF_NONE; o = json_next(doc, list, o))
        if (!(s = json_text_copy(doc, o, "options", &a->options[a->k], e))) a->k++;
    return s;
}

static status read_all(artifact *a, const json *doc, jref obj, err *e) {
    buf scratch = {0};
    strv method = {0}, raw;
    jref identity = json_get(doc, obj, "identity");
    status s = read_question(a, doc, obj, e);
    if (!s) s = json_text(doc, json_get(doc, obj, "method"), &scratch, &method, e);
    if (!s) s = json_real(doc, json_get(doc, obj, "temperature"), "temperature", &a->temperature, e);
    if (!s && !(a->temperature > 0)) s = err_set(e, ST_INPUT, "field 'temperature': expected a positive number");
    if (!s && json_get(doc, obj, "n_calib") != JREF_NONE) s = json_size(doc, json_get(doc, obj, "n_calib"), "n_calib", &a->n_calib, e);
    if (!s && strv_starts(method, "head:")) s = a->k ? read_head(a, doc, obj, method, e) : err_set(e, ST_INPUT, "a head needs 'kind' and 'options'");
    else if (!s && strv_is(method, "temperature")) s = a->k ? read_prior(a, doc, obj, e) : ST_OK;
    else if (!s) s = err_set(e, ST_INPUT, "field 'method': '%.*s' is unknown", (int)(method.n > 60 ? 60 : method.n), method.p);
    if (!s) s = read_calibrator(a, doc, json_get(doc, obj, "calibrator"), e);
    if (!s) s = read_certificate(&a->certificate, doc, json_get(doc, obj, "certificate"), e);
    raw = json_raw(doc, identity);
    if (!s && json_kind_of(doc, identity) == JSON_OBJECT && !(a->identity = mem_text(raw.p, raw.n))) s = err_memory(e, raw.n);
    buf_free(&scratch);
    return s;
}

status artifact_read(artifact *a, const json *doc, jref obj, err *e) {
    *a = (artifact){0};
    status s = read_all(a, doc, obj, e);
    if (s) artifact_free(a);
    return s;
}
