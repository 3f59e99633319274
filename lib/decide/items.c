#include "decide/items.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/npy.h"
#include "base/num.h"

size_t item_full(const item *x) {
    return question_full(x->kind, x->k);
}

/* Fields that describe one prompt or its question: they do not pass through as they are. */
static bool of_prompt(const json *doc, jref key) {
    static const char *const names[] = {"type", "id", "item", "question", "key", "kind", "options", "centers", "perm", "labels", "system", "user",
                                        "split", "template", "prefix", "suffix", "need", "prompt_sha256", "allow_control_tokens", "logprobs",
                                        "answer_mass", "missing", "label_ids", "shift", "n_tokens", "n_reused", "blocks", "hidden", "model",
                                        /* what a decision says itself: of equal keys the last one would count */
                                        "probs", "answer", "answer_index", "confidence", "margin", "p_true", "value", "level", "calibration",
                                        "diagnostics", "missing_labels", "bundle", "run", "certified", "held_out", "text", "hidden_file"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_is(doc, key, names[i])) return true;
    return false;
}

static status take_head(item *x, const json *rec, err *e) {
    static const char *const names[] = {"question", "key", "kind", "options"};
    buf b = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        jref r = json_get(rec, JREF_ROOT, names[i]);
        if (r == JREF_NONE) {
            buf_free(&b);
            return err_set(e, ST_INPUT, "field '%s' is missing", names[i]);
        }
        buf_printf(&b, "%s\"%s\":", i ? "," : "", names[i]);
        buf_view(&b, json_raw(rec, r));
    }
    x->head = buf_take(&b);
    for (jref k = json_first(rec, JREF_ROOT); k != JREF_NONE; k = json_next(rec, JREF_ROOT, k)) {
        if (of_prompt(rec, k)) continue;
        buf_byte(&b, ',');
        buf_view(&b, json_raw(rec, k));
        buf_byte(&b, ':');
        buf_view(&b, json_raw(rec, json_value(rec, k)));
    }
    x->tail = buf_take(&b);
    return x->head && x->tail ? ST_OK : err_memory(e, rec->len);
}

static status take_options(item *x, const json *rec, err *e) {
    jref kind = json_get(rec, JREF_ROOT, "kind"), list = json_get(rec, JREF_ROOT, "options"), centers = json_get(rec, JREF_ROOT, "centers");
    size_t n = json_count(rec, list);
    status s = question_kind_read(rec, kind, &x->kind, e);
    if (s) return s;
    if (json_kind_of(rec, list) != JSON_ARRAY || n < 2 || n > DECIDE_MAX) return err_set(e, ST_INPUT, "field 'options': expected 2 to %d strings", DECIDE_MAX);
    if (!(x->options = mem_zero(n, sizeof *x->options))) return err_memory(e, n * sizeof *x->options);
    for (jref o = json_first(rec, list); !s && o != JREF_NONE; o = json_next(rec, list, o))
        if (!(s = json_text_copy(rec, o, "options", &x->options[x->k], e))) x->k++;
    if (!s && x->kind == QUESTION_NOUL)
        s = n == 2 ? question_noul_check(x->options[0], x->options[1], e) : err_set(e, ST_INPUT, "field 'options': a noul question has two options, found %zu", n);
    bool given = json_count(rec, centers) == n;
    jref c = json_first(rec, centers);
    for (size_t i = 0; !s && i < n; i++) {
        x->centers[i] = ((double)i + 0.5) / (double)n; /* of equal bins on [0, 1] */
        if (given) {
            s = json_real(rec, c, "centers", &x->centers[i], e);
            c = json_next(rec, centers, c);
        }
    }
    return s;
}

/* card:column (or the target), when meta says so. */
static status take_name(item *x, const json *rec, err *e) {
    jref meta = json_get(rec, JREF_ROOT, "meta"), card = json_get(rec, meta, "card"), column = json_get(rec, meta, "column");
    buf b = {0}, scratch = {0};
    strv v;
    status s = ST_OK;
    if (json_kind_of(rec, card) == JSON_STRING && json_kind_of(rec, column) == JSON_STRING) {
        if (!(s = json_text(rec, card, &scratch, &v, e))) buf_view(&b, v);
        buf_byte(&b, ' ');
        if (!s && !(s = json_text(rec, column, &scratch, &v, e))) buf_view(&b, v);
    } else {
        buf_text(&b, x->id);
    }
    buf_free(&scratch);
    if (!s && !(x->name = buf_take(&b))) s = err_memory(e, 1);
    buf_free(&b);
    return s ? s : json_text_copy(rec, json_get(rec, JREF_ROOT, "question"), "question", &x->question, e);
}

static status find_group(items *all, const char *key, size_t *group, err *e) {
    for (*group = 0; *group < all->n_keys; ++*group)
        if (strcmp(all->keys[*group], key) == 0) return ST_OK;
    if (!mem_grow((void **)&all->keys, &all->cap_keys, all->n_keys + 1, sizeof *all->keys)) return err_memory(e, sizeof *all->keys);
    if (!(all->keys[all->n_keys] = mem_text(key, strlen(key)))) return err_memory(e, strlen(key));
    if (!mem_grow((void **)&all->first, &all->cap_first, all->n_keys + 1, sizeof *all->first)) {
        free(all->keys[all->n_keys]);
        return err_memory(e, sizeof *all->first);
    }
    all->first[all->n_keys++] = SIZE_MAX;
    return ST_OK;
}

static size_t *slot_of(const items *all, const char *id, const char *key) {
    uint64_t h = fnv1a(fnv1a(FNV_START, id, strlen(id) + 1), key, strlen(key));
    size_t i = (size_t)(h ^ h >> 29) & (all->n_slots - 1);
    for (; all->slots[i]; i = (i + 1) & (all->n_slots - 1)) {
        const item *x = &all->items[all->slots[i] - 1];
        if (strcmp(x->id, id) == 0 && strcmp(all->keys[x->group], key) == 0) break;
    }
    return &all->slots[i];
}

static bool slots_grow(items *all) {
    if (all->n_slots > all->n * 2 + 1) return true;
    size_t n = all->n_slots ? all->n_slots * 2 : 64, *old = all->slots;
    if (!(all->slots = mem_zero(n, sizeof *all->slots))) {
        all->slots = old;
        return false;
    }
    all->n_slots = n;
    for (size_t i = 0; i < all->n; i++) *slot_of(all, all->items[i].id, all->keys[all->items[i].group]) = i + 1;
    free(old);
    return true;
}

static void item_free(item *x) {
    free(x->id);
    free(x->head);
    free(x->tail);
    free(x->name);
    free(x->question);
    for (size_t i = 0; x->options && i < x->k; i++) free(x->options[i]);
    free(x->options);
    for (size_t i = 0; i < x->n_shifts; i++) free(x->shifts[i]);
    free(x->shifts);
    free(x->missing);
    free(x->request);
    free(x->label);
    free(x->text);
    free(x->cluster);
    free(x->state_sha256);
    for (size_t i = 0; i < x->n_hidden; i++) free(x->hidden[i].h);
    free(x->hidden);
}

/* Does the prompt ask what x asks? (Compared in place: this is done for every prompt.) */
static bool asks_the_same(const item *x, const json *rec) {
    jref list = json_get(rec, JREF_ROOT, "options"), o = json_first(rec, list);
    bool same = json_is(rec, json_get(rec, JREF_ROOT, "kind"), question_kind_name(x->kind)) && json_count(rec, list) == x->k;
    for (size_t i = 0; same && i < x->k; i++, o = json_next(rec, list, o)) same = json_is(rec, o, x->options[i]);
    return same;
}

/* A text field, when it is there. */
static status take_text(const json *rec, const char *name, char **out, err *e) {
    jref r = json_get(rec, JREF_ROOT, name);
    return json_kind_of(rec, r) == JSON_STRING ? json_text_copy(rec, r, name, out, e) : ST_OK;
}

/* Which options are out of play, the probe's number, the request. */
static status take_play(item *x, const json *rec, err *e) {
    jref mask = json_get(rec, JREF_ROOT, "mask"), probe = json_get(rec, JREF_ROOT, "probe"), request = json_get(rec, JREF_ROOT, "request");
    jref label = json_get(rec, JREF_ROOT, "label");
    strv raw = json_raw(rec, label);
    status s = ST_OK;
    size_t n;
    x->probe = -1;
    if (probe != JREF_NONE) {
        if ((s = json_size(rec, probe, "probe", &n, e))) return s;
        x->probe = n < 100 ? (int)n : 100;
    }
    if (json_kind_of(rec, mask) != JSON_ARRAY && json_kind_of(rec, mask) != JSON_NONE && json_kind_of(rec, mask) != JSON_NULL)
        return err_set(e, ST_INPUT, "field 'mask': expected an array of options");
    for (jref m = json_first(rec, mask); m != JREF_NONE; m = json_next(rec, mask, m)) {
        size_t i = 0;
        while (i < x->k && !json_is(rec, m, x->options[i])) i++;
        if (i == x->k) return err_set(e, ST_INPUT, "field 'mask': %.*s is none of the options", (int)(json_raw(rec, m).n > 100 ? 100 : json_raw(rec, m).n), json_raw(rec, m).p);
        x->n_masked += !x->masked[i];
        x->masked[i] = true;
    }
    if (x->n_masked == x->k) return err_set(e, ST_INPUT, "field 'mask': every option is out of play");
    if (request != JREF_NONE) s = json_text_copy(rec, request, "request", &x->request, e);
    if (!s && raw.n && !(x->label = mem_text(raw.p, raw.n))) s = err_memory(e, raw.n);
    x->weight = 1;
    if (!s && json_kind_of(rec, json_get(rec, JREF_ROOT, "weight")) == JSON_NUMBER) s = json_real(rec, json_get(rec, JREF_ROOT, "weight"), "weight", &x->weight, e);
    if (!s) s = take_text(rec, "text", &x->text, e);
    if (!s) s = take_text(rec, "group", &x->cluster, e);
    if (!s) s = take_text(rec, "state_sha256", &x->state_sha256, e);
    return s;
}

static status new_item(items *all, const json *rec, char *id, size_t group, item **out, err *e) {
    item x = {.id = id, .group = group};
    status s = take_options(&x, rec, e);
    /* A key is of one question: others under it would share its prior. */
    if (!s && all->first[group] != SIZE_MAX && !asks_the_same(&all->items[all->first[group]], rec))
        s = err_set(e, ST_INPUT, "field 'options': not those of the prompts before with the key '%s'", all->keys[group]);
    if (!s) s = take_head(&x, rec, e);
    if (!s) s = take_name(&x, rec, e);
    if (!s) s = take_play(&x, rec, e);
    if (!s && !(x.shifts = mem_zero(item_full(&x), sizeof *x.shifts))) s = err_memory(e, x.k * sizeof *x.shifts);
    if (!s && !mem_grow((void **)&all->items, &all->cap, all->n + 1, sizeof *all->items)) s = err_memory(e, (all->n + 1) * sizeof x);
    if (s) {
        item_free(&x);
        return s;
    }
    if (all->first[group] == SIZE_MAX) all->first[group] = all->n;
    all->items[all->n++] = x;
    *out = &all->items[all->n - 1];
    return ST_OK;
}

/* The option at position j of the listing, which a shift turned. */
static size_t listed_at(const item_shift *s, size_t k, size_t j) {
    return s->perm[(j + k - s->shift) % k];
}

static bool same_listing(const item_shift *a, const item_shift *b, size_t k) {
    for (size_t j = 0; j < k; j++)
        if (listed_at(a, k, j) != listed_at(b, k, j)) return false;
    return true;
}

bool item_same_listing(const item *a, const item *b) {
    return a->k == b->k && a->n_shifts && b->n_shifts && same_listing(a->shifts[0], b->shifts[0], a->k);
}

const item_shift *item_listed(const item *x) {
    for (size_t i = 0; i < x->n_shifts; i++)
        if (x->shifts[i]->shift == 0) return x->shifts[i];
    return NULL;
}

void item_distributions(const item *x, double p[][DECIDE_MAX], size_t perm[][DECIDE_MAX]) {
    for (size_t i = 0; i < x->n_shifts; i++) {
        const item_shift *s = x->shifts[i];
        decide_softmax(p[s->shift], s->logprobs, x->k);
        for (size_t k = 0; k < x->k; k++) perm[s->shift][k] = s->perm[k];
    }
}

/* All prompts of an item turn one listing. Without the field 'shift' the listing is that of the options. */
static status take_shift(const item *x, const json *rec, item_shift *out, err *e) {
    jref perm = json_get(rec, JREF_ROOT, "perm"), shift = json_get(rec, JREF_ROOT, "shift");
    bool seen[DECIDE_MAX] = {false};
    size_t j = 0;
    if (json_count(rec, perm) != x->k) return err_set(e, ST_INPUT, "field 'perm': expected %zu positions", x->k);
    for (jref p = json_first(rec, perm); p != JREF_NONE; p = json_next(rec, perm, p), j++) {
        size_t option;
        status s = json_size(rec, p, "perm", &option, e);
        if (s) return s;
        if (option >= x->k || seen[option]) return err_set(e, ST_INPUT, "field 'perm': expected every option from 0 to %zu once", x->k - 1);
        seen[option] = true;
        out->perm[j] = (unsigned char)option;
    }
    out->shift = out->perm[0];
    status s = shift == JREF_NONE ? ST_OK : json_size(rec, shift, "shift", &out->shift, e);
    if (s) return s;
    if (out->shift >= x->k) return err_set(e, ST_INPUT, "field 'shift': %zu, with %zu options", out->shift, x->k);
    for (j = 0; shift == JREF_NONE && j < x->k; j++)
        if (listed_at(out, x->k, j) != j) return err_set(e, ST_INPUT, "field 'perm': expected a cyclic shift of 0 to %zu, or a field 'shift'", x->k - 1);
    if (x->kind == QUESTION_SCORE && out->shift) return err_set(e, ST_INPUT, "field 'perm': a score question has its bins in order");
    if (x->n_shifts && !same_listing(x->shifts[0], out, x->k)) return err_set(e, ST_INPUT, "field 'perm': not a turn of the item's other prompts");
    for (size_t i = 0; i < x->n_shifts; i++)
        if (x->shifts[i]->shift == out->shift) return err_set(e, ST_INPUT, "this permutation of the item comes twice");
    return ST_OK;
}

static status take_logprobs(item *x, const json *rec, err *e) {
    jref list = json_get(rec, JREF_ROOT, "logprobs");
    bool asked = list != JREF_NONE;
    bool states = json_kind_of(rec, json_get(rec, JREF_ROOT, "hidden")) == JSON_OBJECT || json_kind_of(rec, json_get(rec, JREF_ROOT, "hidden_file")) == JSON_OBJECT;
    if (!asked && !states) return err_set(e, ST_INPUT, "field 'logprobs' is missing: the prompt was not filled");
    if (asked && json_count(rec, list) != x->k) return err_set(e, ST_INPUT, "field 'logprobs': %zu numbers for %zu options", json_count(rec, list), x->k);
    item_shift *s = mem_zero(1, sizeof *s + x->k * sizeof *s->logprobs);
    if (!s) return err_memory(e, sizeof *s);
    s->asked = asked;
    size_t j = 0;
    status st = take_shift(x, rec, s, e);
    for (jref v = json_first(rec, list); !st && v != JREF_NONE; v = json_next(rec, list, v), j++) {
        st = json_real(rec, v, "logprobs", &s->logprobs[j], e);
        if (!st && s->logprobs[j] > 1e-6) st = err_set(e, ST_INPUT, "field 'logprobs': %g is positive, which no log-probability is", s->logprobs[j]);
    }
    if (st) free(s);
    else x->shifts[x->n_shifts++] = s;
    return st;
}

/* A hidden state of either spelling. */
static status hidden_state(const json *rec, jref value, bool in_file, buf *scratch, buf *bytes, item_hidden *h, err *e) {
    strv v;
    status s = json_text(rec, in_file ? json_get(rec, value, "file") : value, scratch, &v, e);
    if (s) return s;
    if (in_file) {
        size_t row;
        buf_clear(bytes);
        buf_view(bytes, v);
        if ((s = buf_ok(bytes, e)) || (s = json_size(rec, json_get(rec, value, "row"), "row", &row, e))) return s;
        return npy_row(bytes->p, row, &h->h, &h->d, e);
    }
    if ((s = base64_get(v, bytes, e))) return s;
    h->d = bytes->len / sizeof *h->h;
    if (!h->d || bytes->len % sizeof *h->h) return err_set(e, ST_INPUT, "%zu bytes at block %zu are no float32 numbers", bytes->len, h->block);
    if (!(h->h = mem_alloc(h->d, sizeof *h->h))) return err_memory(e, bytes->len);
    memcpy(h->h, bytes->p, bytes->len);
    return ST_OK;
}

/* {"25": base64 of little-endian float32} or {"25": {"file", "row"}} of the prompt with the options as listed. */
static status take_hidden(item *x, const json *rec, err *e) {
    bool in_file = json_get(rec, JREF_ROOT, "hidden") == JREF_NONE;
    jref all = json_get(rec, JREF_ROOT, in_file ? "hidden_file" : "hidden");
    buf scratch = {0}, name = {0}, bytes = {0};
    status s = ST_OK;
    if (json_kind_of(rec, all) != JSON_OBJECT || x->shifts[x->n_shifts - 1]->shift) return ST_OK;
    if (!(x->hidden = mem_zero(json_count(rec, all), sizeof *x->hidden))) return err_memory(e, json_count(rec, all) * sizeof *x->hidden);
    for (jref k = json_first(rec, all); !s && k != JREF_NONE; k = json_next(rec, all, k)) {
        item_hidden *h = &x->hidden[x->n_hidden];
        strv v;
        buf_clear(&name);
        buf_clear(&bytes);
        if ((s = json_text(rec, k, &scratch, &v, e))) break;
        buf_view(&name, v);
        if ((s = buf_ok(&name, e)) || (s = num_size(name.p, 0, 1 << 20, "hidden block", &h->block, e))) break;
        if ((s = hidden_state(rec, json_value(rec, k), in_file, &scratch, &bytes, h, e))) {
            err_prefix(e, "field '%s'", in_file ? "hidden_file" : "hidden");
            break;
        }
        x->n_hidden++;
        for (size_t i = 0; !s && i < h->d; i++)
            if (!isfinite(h->h[i])) s = err_set(e, ST_INPUT, "field 'hidden': number %zu at block %zu is not finite", i, h->block);
    }
    buf_free(&scratch);
    buf_free(&name);
    buf_free(&bytes);
    return s;
}

static status take_rest(item *x, const json *rec, err *e) {
    jref mass = json_get(rec, JREF_ROOT, "answer_mass"), missing = json_get(rec, JREF_ROOT, "missing");
    status s = ST_OK;
    if (mass != JREF_NONE) {
        double v;
        if ((s = json_real(rec, mass, "answer_mass", &v, e))) return s;
        x->mass += v;
        x->n_mass++;
    }
    if (json_count(rec, missing) && !x->missing) {
        strv raw = json_raw(rec, missing);
        if (!(x->missing = mem_text(raw.p, raw.n))) s = err_memory(e, raw.n);
    }
    return s;
}

static status check_model(items *all, const json *rec, err *e) {
    jref model = json_get(rec, JREF_ROOT, "model");
    if (json_kind_of(rec, model) != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'model': expected an object; the prompt was not filled");
    strv raw = json_raw(rec, model);
    if (!all->model) {
        all->model = mem_text(raw.p, raw.n);
        return all->model ? ST_OK : err_memory(e, raw.n);
    }
    if (strv_is(raw, all->model)) return ST_OK;
    return err_set(e, ST_REFUSED, "filled by another model than the prompts before: %.*s, expected %.300s", (int)(raw.n > 300 ? 300 : raw.n), raw.p, all->model);
}

status items_add(items *all, const json *rec, const char *file, size_t line, err *e) {
    if (!json_is(rec, json_get(rec, JREF_ROOT, "type"), "prompt")) return err_set(e, ST_INPUT, "expected a record of type 'prompt'");
    char *id = NULL, *key = NULL;
    size_t group = 0;
    item *x = NULL;
    bool named = json_get(rec, JREF_ROOT, "item") != JREF_NONE;
    status s = check_model(all, rec, e);
    if (!s) s = json_text_copy(rec, json_get(rec, JREF_ROOT, named ? "item" : "id"), named ? "item" : "id", &id, e);
    if (!s) s = json_text_copy(rec, json_get(rec, JREF_ROOT, "key"), "key", &key, e);
    if (!s) s = find_group(all, key, &group, e);
    if (!s && !slots_grow(all)) s = err_memory(e, all->n_slots * sizeof *all->slots);
    if (!s) {
        size_t *slot = slot_of(all, id, key);
        if (*slot) {
            x = &all->items[*slot - 1];
            free(id);
            strv label = json_raw(rec, json_get(rec, JREF_ROOT, "label"));
            if (!asks_the_same(x, rec)) s = err_set(e, ST_INPUT, "field 'options': not those of the item's other prompts");
            else if (!strv_is(label, x->label ? x->label : "")) s = err_set(e, ST_INPUT, "field 'label': not that of the item's other prompts");
        } else if (!(s = new_item(all, rec, id, group, &x, e))) {
            x->file = file;
            x->line = line;
            *slot = all->n;
        }
        id = NULL;
    }
    if (!s) s = take_logprobs(x, rec, e);
    if (!s && all->keep_hidden) s = take_hidden(x, rec, e);
    if (!s) s = take_rest(x, rec, e);
    if (s && x) x->bad = true; /* its prompt is told; that the item then lacks one need not be */
    free(id);
    free(key);
    return s;
}

void items_free(items *all) {
    for (size_t i = 0; i < all->n; i++) item_free(&all->items[i]);
    for (size_t i = 0; i < all->n_keys; i++) free(all->keys[i]);
    free(all->items);
    free(all->slots);
    free(all->keys);
    free(all->first);
    free(all->model);
    *all = (items){0};
}
