#include "question/question.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"

static const char *const kinds[] = {"choice", "noul", "score"};

const char *question_kind_name(question_kind k) {
    return kinds[k];
}

status question_kind_read(const json *doc, jref r, question_kind *k, err *e) {
    for (int i = 0; i < 3; i++)
        if (json_is(doc, r, kinds[i])) {
            *k = (question_kind)i;
            return ST_OK;
        }
    return err_set(e, ST_INPUT, "field 'kind': expected choice, noul or score");
}

status question_noul_check(const char *first, const char *second, err *e) {
    if (strcmp(first, "No") != 0 && strcmp(second, "Yes") != 0) return ST_OK;
    return err_set(e, ST_INPUT, "field 'options': a noul question lists first the one answered Yes");
}

static bool there(const json *doc, jref r) {
    json_kind k = json_kind_of(doc, r);
    return k != JSON_NONE && k != JSON_NULL;
}

/* Two finite numbers, the second larger; [0, 1] where the question says nothing. */
static status scale_of(const json *doc, jref scale, double *low, double *high, err *e) {
    *low = 0;
    *high = 1;
    if (!there(doc, scale)) return ST_OK;
    status s = json_kind_of(doc, scale) == JSON_ARRAY && json_count(doc, scale) == 2 ? ST_OK : err_set(e, ST_INPUT, "field 'scale': expected two numbers");
    if (!s) s = json_real(doc, json_at(doc, scale, 0), "scale", low, e);
    if (!s) s = json_real(doc, json_at(doc, scale, 1), "scale", high, e);
    if (!s && !(*high > *low)) s = err_set(e, ST_INPUT, "field 'scale': its end must lie above its start");
    return s;
}

/* "0 to 0.2", "0.2 to 0.4", ...: the ends to six digits. */
static status make_bins(question *q, const json *doc, jref obj, err *e) {
    enum { BINS = 5, BINS_MAX = 10 };
    size_t n = BINS;
    double low, high;
    jref bins = json_get(doc, obj, "bins");
    status s = there(doc, bins) ? json_size(doc, bins, "bins", &n, e) : ST_OK;
    if (!s && (n < 2 || n > BINS_MAX)) s = err_set(e, ST_INPUT, "field 'bins': expected 2 to %d, found %zu", BINS_MAX, n);
    if (!s) s = scale_of(doc, json_get(doc, obj, "scale"), &low, &high, e);
    for (size_t i = 0; !s && i < n; i++) {
        buf b = {0};
        buf_printf(&b, "%g to %g", low + (high - low) * (double)i / (double)n, low + (high - low) * (double)(i + 1) / (double)n);
        if (!(q->options[q->n_options] = buf_take(&b))) s = err_memory(e, 32);
        else q->n_options++;
    }
    return s;
}

static status read_options(question *q, const json *doc, jref obj, err *e) {
    static const size_t most[] = {OPTIONS_MAX, 2, 10};
    jref list = json_get(doc, obj, "options");
    size_t n = json_count(doc, list);
    if (list == JREF_NONE && q->kind == QUESTION_NOUL) {
        q->options[0] = mem_text("Yes", 3);
        q->options[1] = mem_text("No", 2);
        q->n_options = 2;
        return q->options[0] && q->options[1] ? ST_OK : err_memory(e, 4);
    }
    if (list == JREF_NONE && q->kind == QUESTION_SCORE) return make_bins(q, doc, obj, e);
    if (json_kind_of(doc, list) != JSON_ARRAY) return err_set(e, ST_INPUT, "field 'options': found %s, expected an array of strings", json_kind_name(json_kind_of(doc, list)));
    if (n < 2 || n > most[q->kind]) {
        if (q->kind == QUESTION_NOUL) return err_set(e, ST_INPUT, "field 'options': a noul question has 2 options, found %zu", n);
        return err_set(e, ST_INPUT, "field 'options': a %s question has 2 to %zu options, found %zu", kinds[q->kind], most[q->kind], n);
    }
    for (jref o = json_first(doc, list); o != JREF_NONE; o = json_next(doc, list, o)) {
        status s = json_text_copy(doc, o, "options", &q->options[q->n_options], e);
        if (s) return s;
        const char *text = q->options[q->n_options];
        if (!*text) {
            free(q->options[q->n_options]);
            q->options[q->n_options] = NULL;
            return err_set(e, ST_INPUT, "field 'options': an option is empty");
        }
        if (question_option(q, strv_of(text)) < q->n_options) {
            free(q->options[q->n_options]);
            q->options[q->n_options] = NULL;
            return err_set(e, ST_INPUT, "field 'options': an option comes twice");
        }
        q->n_options++;
    }
    return q->kind == QUESTION_NOUL ? question_noul_check(q->options[0], q->options[1], e) : ST_OK;
}

size_t question_option(const question *q, strv text) {
    size_t i = 0;
    while (i < q->n_options && !strv_is(text, q->options[i])) i++;
    return i;
}

static status read_json(const json *doc, jref r, char **out, err *e) {
    static const json_style style = {.sort = true, .ascii = true, .item = ", ", .key = ": "};
    buf b = {0};
    if (!there(doc, r)) return ST_OK;
    status s = json_render(&b, doc, r, &style, e);
    if (!s && !(*out = buf_take(&b))) s = err_memory(e, 1);
    buf_free(&b);
    return s;
}

static status read_centers(question *q, const json *doc, jref obj, err *e) {
    jref c = json_get(doc, obj, "centers"), scale = json_get(doc, obj, "scale");
    if (there(doc, c)) {
        if (q->kind != QUESTION_SCORE || json_kind_of(doc, c) != JSON_ARRAY || json_count(doc, c) != q->n_options)
            return err_set(e, ST_INPUT, "field 'centers': expected one number per option of a score question");
        for (jref x = json_first(doc, c); x != JREF_NONE; x = json_next(doc, c, x)) {
            double v;
            status s = json_real(doc, x, "centers", &v, e);
            if (s) return s;
        }
    }
    double low, high;
    if (there(doc, scale) && q->kind != QUESTION_SCORE) return err_set(e, ST_INPUT, "field 'scale': only a score question has one");
    status s = scale_of(doc, scale, &low, &high, e);
    if (!s) s = read_json(doc, c, &q->centers, e);
    return s ? s : read_json(doc, scale, &q->scale, e);
}

void question_options_put(const question *q, const char *item, bool ascii, buf *out) {
    buf_byte(out, '[');
    for (size_t i = 0; i < q->n_options; i++) {
        if (i) buf_text(out, item);
        json_quote(out, strv_of(q->options[i]), ascii);
    }
    buf_byte(out, ']');
}

static status make_key(question *q, err *e) {
    buf b = {0};
    char hex[SHA256_HEX_SIZE];
    buf_printf(&b, "{\"centers\": %s, \"kind\": \"%s\", \"options\": ", q->centers ? q->centers : "null", kinds[q->kind]);
    question_options_put(q, ", ", true, &b);
    buf_printf(&b, ", \"scale\": %s, \"text\": ", q->scale ? q->scale : "[0.0, 1.0]");
    json_quote(&b, strv_of(q->text), true);
    buf_byte(&b, '}');
    status s = buf_ok(&b, e);
    if (!s) s = sha256_hex(b.p, b.len, hex, e);
    if (!s) {
        memcpy(q->key, hex, KEY_SIZE - 1);
        q->key[KEY_SIZE - 1] = '\0';
    }
    buf_free(&b);
    return s;
}

static status read_all(question *q, const json *doc, jref obj, err *e) {
    if (json_kind_of(doc, obj) != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'question': found %s, expected an id or an object", json_kind_name(json_kind_of(doc, obj)));
    jref id = json_get(doc, obj, "id"), twin = json_get(doc, obj, "twin"), text = json_get(doc, obj, "text");
    status s = there(doc, id) ? json_text_copy(doc, id, "id", &q->id, e) : ST_OK;
    if (!s && there(doc, twin)) s = json_text_copy(doc, twin, "twin", &q->twin, e);
    if (!s && !there(doc, text)) s = err_set(e, ST_INPUT, "field 'text' is missing: the question's wording");
    if (!s) s = json_text_copy(doc, text, "text", &q->text, e);
    if (!s && !*q->text) s = err_set(e, ST_INPUT, "field 'text' is empty");
    if (!s) s = question_kind_read(doc, json_get(doc, obj, "kind"), &q->kind, e);
    if (!s) s = read_options(q, doc, obj, e);
    if (!s) s = read_centers(q, doc, obj, e);
    return s ? s : make_key(q, e);
}

status question_read(question *q, const json *doc, jref obj, err *e) {
    *q = (question){0};
    status s = read_all(q, doc, obj, e);
    if (s) question_free(q);
    return s;
}

void question_free(question *q) {
    free(q->id);
    free(q->text);
    for (size_t i = 0; i < q->n_options; i++) free(q->options[i]);
    free(q->centers);
    free(q->scale);
    free(q->twin);
    *q = (question){0};
}

const char *question_label(const question *q, size_t i) {
    static const char *const letters[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M",
                                          "N", "O", "P", "Q", "R", "S", "T", "U", "V", "W", "X", "Y", "Z"};
    static const char *const digits[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    static const char *const yes_no[] = {"Yes", "No"};
    if (q->kind == QUESTION_NOUL) return yes_no[i];
    return q->kind == QUESTION_SCORE && q->n_options <= 9 ? digits[i] : letters[i];
}

size_t question_full(question_kind kind, size_t k) {
    return kind == QUESTION_SCORE ? 1 : k;
}

size_t question_shifts(const question *q) {
    return question_full(q->kind, q->n_options);
}

typedef struct by_text {
    const char *text;
    size_t option;
} by_text;

static int compare_text(const void *a, const void *b) {
    return strcmp(((const by_text *)a)->text, ((const by_text *)b)->text); /* option texts differ; UTF-8 orders as code points */
}

static void random_order(size_t n, size_t seed, strv id, size_t order[OPTIONS_MAX]) {
    rng r = {fnv1a(FNV_START ^ seed * 0x9E3779B97F4A7C15u, id.p, id.n)};
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(&r, i), t = order[j];
        order[j] = order[i - 1];
        order[i - 1] = t;
    }
}

void question_order(const question *q, listing l, size_t seed, strv id, size_t s, size_t perm[OPTIONS_MAX]) {
    enum { RANDOM_MOST = 8 };
    size_t n = q->n_options, order[OPTIONS_MAX];
    by_text sorted[OPTIONS_MAX];
    for (size_t i = 0; i < n; i++) {
        order[i] = l == LISTING_REVERSED && q->kind != QUESTION_SCORE ? n - 1 - i : i;
        sorted[i] = (by_text){q->options[i], i};
    }
    if (l == LISTING_CANONICAL && q->kind == QUESTION_CHOICE) {
        qsort(sorted, n, sizeof *sorted, compare_text);
        for (size_t i = 0; i < n; i++) order[i] = sorted[i].option;
    }
    if (l == LISTING_RANDOM && q->kind != QUESTION_SCORE && n <= RANDOM_MOST) random_order(n, seed, id, order);
    for (size_t j = 0; j < n; j++) perm[j] = order[(j + s) % n]; /* of two options the shifts are both orders */
}

status question_centers(const question *q, double centers[OPTIONS_MAX], err *e) {
    const char *text = q->centers ? q->centers : q->scale ? q->scale : "[0.0, 1.0]";
    json doc = {0};
    double v[OPTIONS_MAX];
    size_t n = 0;
    status s = json_parse(&doc, text, strlen(text), e);
    for (jref r = s ? JREF_NONE : json_first(&doc, JREF_ROOT); !s && r != JREF_NONE && n < OPTIONS_MAX; r = json_next(&doc, JREF_ROOT, r)) s = json_real(&doc, r, "centers", &v[n++], e);
    for (size_t i = 0; !s && i < q->n_options; i++) centers[i] = q->centers ? v[i] : v[0] + (v[1] - v[0]) * ((double)i + 0.5) / (double)q->n_options;
    json_free(&doc);
    return s;
}
