#include "net/served.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "net/answer.h"

void served_free(served *v) {
    free(v->name);
    buf_free(&v->entry);
    buf_free(&v->identity);
    buf_free(&v->probe);
    *v = (served){0};
}

/* A call whose reply must be JSON. */
static status call(net *n, const char *base, const char *path, const buf *body, json *doc, net_reply *r, err *e) {
    buf url = {0};
    buf_text(&url, base);
    buf_text(&url, path);
    status s = buf_ok(&url, e);
    if (!s) s = net_call(n, url.p, body, r, e);
    if (!s && r->status) s = err_set(e, r->status, "%s: %s", path, r->why);
    if (!s && json_parse(doc, r->body.p ? r->body.p : "", r->body.n, e)) {
        bool html = strv_starts(strv_trim(r->body), "<");
        s = html ? err_set(e, ST_REFUSED, "%s: the server answered with a web page, not with JSON: is this the address of an API?", path) : err_prefix(e, "%s: the answer is no JSON", path);
    }
    buf_free(&url);
    return s;
}

/* --- the list --- */

static status keep_entry(served *v, const json *d, jref x, err *e) {
    static const char *const moving[] = {"created", "permission", "status", "created_at", "loaded", "last_used"};
    json_field drop[sizeof moving / sizeof *moving];
    for (size_t i = 0; i < sizeof moving / sizeof *moving; i++) drop[i] = (json_field){moving[i], {NULL, 0}};
    buf text = {0};
    json doc = {0};
    json_edit(&text, d, x, drop, sizeof moving / sizeof *moving);
    status s = buf_ok(&text, e);
    if (!s) s = json_parse(&doc, text.p, text.len, e);
    const json_style style = {.sort = true, .item = ",", .key = ":"};
    buf_clear(&v->entry);
    if (!s) s = json_render(&v->entry, &doc, JREF_ROOT, &style, e);
    static const char *const contexts[] = {"max_model_len", "context_length", "max_context_length"};
    v->context = 0;
    for (size_t i = 0; !s && i < 3; i++) {
        jref c = json_get(&doc, JREF_ROOT, contexts[i]);
        if (json_kind_of(&doc, c) == JSON_NUMBER) s = json_size(&doc, c, contexts[i], &v->context, e);
    }
    json_free(&doc);
    buf_free(&text);
    return s;
}

static status pick(served *v, const json *d, const char *want, err *e) {
    jref list = json_get(d, JREF_ROOT, "data"), found = JREF_NONE;
    if (json_kind_of(d, list) != JSON_ARRAY) return err_set(e, ST_REFUSED, "/v1/models: the answer has no list 'data'");
    buf names = {0};
    for (jref x = json_first(d, list); x != JREF_NONE; x = json_next(d, list, x)) {
        jref id = json_get(d, x, "id");
        strv raw = json_raw(d, id);
        if (json_kind_of(d, id) != JSON_STRING) continue;
        if (want ? json_is(d, id, want) : json_count(d, list) == 1) found = x;
        if (names.len < 400) buf_printf(&names, "%s%.*s", names.len ? ", " : "", (int)(raw.n > 100 ? 100 : raw.n), raw.p);
    }
    status s = ST_OK;
    if (found == JREF_NONE && want) s = err_set(e, ST_REFUSED, "the server lists no model '%s'; it has: %s", want, names.len ? names.p : "none");
    else if (found == JREF_NONE) s = err_set(e, ST_USAGE, "--served-model is needed, since the server lists %zu models: %s", json_count(d, list), names.len ? names.p : "none");
    buf_free(&names);
    if (s) return s;
    free(v->name);
    v->name = NULL;
    s = json_text_copy(d, json_get(d, found, "id"), "id", &v->name, e);
    return s ? s : keep_entry(v, d, found, e);
}

status served_list(served *v, net *n, const char *base, const char *want, err *e) {
    json d = {0};
    net_reply r;
    status s = call(n, base, "/v1/models", NULL, &d, &r, e);
    if (!s) s = pick(v, &d, want, e);
    json_free(&d);
    return s;
}

/* --- the probe --- */

static const char probe_record[] =
    "{\"type\":\"prompt\",\"kind\":\"choice\",\"options\":[\"the sun\",\"the moon\"],\"perm\":[0,1],\"labels\":[\"A\",\"B\"],\"system\":\"\",\"split\":35,"
    "\"user\":\"Which one shines by its own light?\\n\\nA. the sun\\nB. the moon\\n\\nAnswer with the letter only.\","
    "\"prefix\":\"Which one shines by its own light?\\n\\nA. the sun\\nB. the moon\\n\\nAnswer with the letter only.\\nAnswer:\",\"suffix\":\"\"}";

static int downwards(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static status take_numbers(served *v, const ask *a, const json *d, bool *undrawn, err *e) {
    answer got = {0};
    answer_score two[2];
    static const strv options[2] = {{"the sun", 7}, {"the moon", 8}};
    v->n_numbers = 0;
    status s = a->api == ASK_SYSTEMONE ? answer_decision(d, ASK_DECISION, options, 2, two, e) : answer_read(&got, d, e);
    for (size_t i = 0; !s && a->api == ASK_SYSTEMONE && i < 2; i++) v->numbers[v->n_numbers++] = two[i].logprob;
    if (!s && a->api != ASK_SYSTEMONE) {
        double *all = mem_zero(got.n, sizeof *all);
        if (!all) s = err_memory(e, got.n * sizeof *all);
        for (size_t i = 0; all && i < got.n; i++) all[i] = got.list[i].logprob;
        if (all) qsort(all, got.n, sizeof *all, downwards);
        for (size_t i = 0; all && i < got.n && i < SERVED_PROBE; i++) v->numbers[v->n_numbers++] = all[i];
        free(all);
    }
    *undrawn = got.undrawn;
    answer_free(&got);
    if (s) return err_prefix(e, "the probe");
    jw w = jw_of(&v->probe);
    buf_clear(&v->probe);
    jw_open(&w, '[');
    for (size_t i = 0; i < v->n_numbers; i++) {
        v->numbers[i] = round(v->numbers[i] * 1e4) / 1e4;
        jw_real(&w, v->numbers[i] == 0 ? 0 : v->numbers[i]);
    }
    jw_close(&w, ']');
    return buf_ok(&v->probe, e);
}

enum { DRAWS = 20 };

status served_probe(served *v, net *n, const char *base, ask *a, err *e) {
    json rec = {0}, d = {0};
    buf body = {0};
    net_reply r;
    status s = json_parse(&rec, probe_record, sizeof probe_record - 1, e);
    size_t draws = 0;
    for (bool again = true; !s && again;) {
        buf_clear(&body);
        again = false;
        if ((s = ask_body(a, &rec, &body, e))) break;
        unsigned version = a->version;
        s = call(n, base, ask_path(a), &body, &d, &r, e);
        if (s == ST_INPUT && r.status && ask_learn(a, version, r.body)) s = ST_OK, again = true;
        else if (s) err_prefix(e, "the probe");
        bool undrawn = false;
        if (!s && !again && (s = take_numbers(v, a, &d, &undrawn, e)) && undrawn && ++draws < DRAWS) s = ST_OK, again = true;
    }
    json_free(&rec);
    json_free(&d);
    buf_free(&body);
    return s;
}

bool served_probe_same(const double *a, size_t n, const double *b, size_t m) {
    if (n != m) return false;
    for (size_t i = 0; i < n; i++)
        if (!(fabs(a[i] - b[i]) <= 0.05)) return false;
    return true;
}

status served_same(const served *start, const served *now, err *e) {
    if (strv_eq(buf_strv(&start->entry), buf_strv(&now->entry))) {
        if (served_probe_same(start->numbers, start->n_numbers, now->numbers, now->n_numbers)) return ST_OK;
        return err_set(e, ST_INCOMPLETE, "the served model '%s' answers the probe otherwise than at the start (%.*s, then %.*s): another model may stand behind the name now", start->name,
                       (int)start->probe.len, start->probe.p, (int)now->probe.len, now->probe.p);
    }
    return err_set(e, ST_INCOMPLETE, "the served model '%s' changed during the run: %.300s, then %.300s", start->name, start->entry.p, now->entry.p);
}

/* --- identity --- */

static void copy_text(jw *w, const json *d, const char *key) {
    jref r = json_get(d, JREF_ROOT, key);
    if (json_kind_of(d, r) != JSON_STRING) return;
    jw_key(w, key);
    jw_raw(w, json_raw(d, r));
}

status served_identify(served *v, const ask *a, const char *tokenizer_sha256, err *e) {
    static const char *const apis[] = {"completions", "chat", "systemone"};
    char hex[SHA256_HEX_SIZE];
    json d = {0};
    buf all = {0};
    buf_printf(&all, "%s ", apis[a->api]);
    buf_view(&all, buf_strv(&v->entry));
    status s = buf_ok(&all, e);
    if (!s) s = sha256_hex(all.p, all.len, hex, e);
    if (!s) s = json_parse(&d, v->entry.p, v->entry.len, e);
    buf_free(&all);
    if (s) return s;
    buf_clear(&v->identity);
    jw w = jw_of(&v->identity);
    jw_open(&w, '{');
    jw_key(&w, "name");
    jw_text(&w, v->name);
    jw_key(&w, "backend");
    jw_text(&w, "gateway");
    jw_key(&w, "api");
    jw_text(&w, apis[a->api]);
    jw_key(&w, "fingerprint");
    jw_text(&w, hex);
    jw_key(&w, "served_model");
    jw_text(&w, v->name);
    copy_text(&w, &d, "root");
    copy_text(&w, &d, "revision");
    if (tokenizer_sha256) {
        jw_key(&w, "tokenizer_sha256");
        jw_text(&w, tokenizer_sha256);
    }
    jw_close(&w, '}');
    json_free(&d);
    return buf_ok(&v->identity, e);
}

/* --- label ids --- */

const char *served_label(size_t i, char text[4]) {
    if (i == 26) return "Yes";
    if (i == 27) return "No";
    text[0] = (char)(i < 26 ? 'A' + (int)i : '1' + (int)(i - 28));
    text[1] = '\0';
    return text;
}

size_t served_label_index(strv label) {
    char text[4];
    for (size_t i = 0; i < SERVED_LABELS; i++)
        if (strv_is(label, served_label(i, text))) return i;
    return SERVED_LABELS;
}

enum { PIECES = 8 };

/* The ids of a short text, as {"tokens": [...]}. r->http tells when there is no such path. */
static status tokenize(net *n, const char *base, const char *path, const char *model, const char *text, size_t ids[PIECES], size_t *n_ids, net_reply *r, err *e) {
    json d = {0};
    buf body = {0};
    jw w = jw_of(&body);
    static const char *const names[] = {"content", "prompt", "input"}; /* as different servers call it */
    jw_open(&w, '{');
    jw_key(&w, "model");
    jw_text(&w, model);
    for (size_t i = 0; i < 3; i++) {
        jw_key(&w, names[i]);
        jw_text(&w, text);
    }
    jw_key(&w, "add_special");
    jw_bool(&w, false);
    jw_key(&w, "add_special_tokens");
    jw_bool(&w, false);
    jw_close(&w, '}');
    status s = buf_ok(&body, e);
    if (!s) s = call(n, base, path, &body, &d, r, e);
    jref list = json_get(&d, JREF_ROOT, "tokens");
    if (!s && json_kind_of(&d, list) != JSON_ARRAY) s = err_set(e, ST_REFUSED, "%s: the answer has no list 'tokens'", path);
    *n_ids = 0;
    for (jref x = json_first(&d, list); !s && x != JREF_NONE && *n_ids < PIECES; x = json_next(&d, list, x)) s = json_size(&d, x, "tokens", &ids[(*n_ids)++], e);
    json_free(&d);
    buf_free(&body);
    return s;
}

status served_ids(served *v, net *n, const char *base, const char *model, err *e) {
    static const char *const paths[] = {"/tokenize", "/extras/tokenize"};
    const char *path = NULL;
    size_t ids[PIECES], lead = 0, k;
    net_reply r;
    status s = ST_OK;
    /* What an empty text gives stands before every text: a BOS. */
    for (size_t i = 0; !path && i < 2; i++) {
        err why = {0};
        r = (net_reply){0};
        status t = tokenize(n, base, paths[i], model, "", ids, &lead, &r, &why);
        if (!t) path = paths[i];
        else if (t == ST_INCOMPLETE) return err_set(e, t, "%s", why.text);
    }
    if (!path) return ST_OK;
    for (size_t i = 0; !s && i < SERVED_LABELS; i++) {
        char text[4];
        if ((s = tokenize(n, base, path, model, served_label(i, text), ids, &k, &r, e))) break;
        v->ids[i] = k == lead + 1 ? (uint32_t)ids[lead] : TOKEN_NONE;
    }
    v->has_ids = !s;
    return s;
}

status served_ids_check(const served *v, const tokenizer *t, err *e) {
    buf bad = {0};
    status s = ST_OK;
    for (size_t i = 0; !s && i < SERVED_LABELS; i++) {
        char text[4];
        uint32_t id;
        const char *label = served_label(i, text);
        s = tokenizer_single(t, strv_of(label), &id, e);
        if (!s && (id == TOKEN_NONE || id != v->ids[i])) buf_printf(&bad, "%s%s", bad.len ? ", " : "", label);
    }
    if (!s && bad.len) s = err_set(e, ST_REFUSED, "the server's tokenizer and the local one do not give the same single ids for the labels %s", bad.p);
    buf_free(&bad);
    return s;
}
