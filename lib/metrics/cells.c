#include "metrics/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static status read_options(cell *c, const json *rec, err *e) {
    jref list = json_get(rec, JREF_ROOT, "options");
    size_t n = json_count(rec, list);
    status s = question_kind_read(rec, json_get(rec, JREF_ROOT, "kind"), &c->kind, e);
    if (s) return s;
    if (json_kind_of(rec, list) != JSON_ARRAY || n < 2 || n > OPTIONS_MAX) return err_set(e, ST_INPUT, "field 'options': expected 2 to %d strings", OPTIONS_MAX);
    for (jref o = json_first(rec, list); !s && o != JREF_NONE; o = json_next(rec, list, o))
        if (!(s = json_text_copy(rec, o, "options", &c->options[c->k], e))) c->k++;
    return s;
}

static void cell_free(cell *c) {
    free(c->question);
    free(c->key);
    free(c->level);
    free(c->model);
    for (size_t i = 0; i < c->k; i++) free(c->options[i]);
    free(c->d);
}

static bool is_cell(const cell *c, const json *rec) {
    return json_is(rec, json_get(rec, JREF_ROOT, "key"), c->key) && json_is(rec, json_get(rec, JREF_ROOT, "level"), c->level) &&
           json_is(rec, json_get(rec, JREF_ROOT, "question"), c->question);
}

static status new_cell(cells *all, const json *rec, err *e) {
    cell c = {0};
    strv model = json_raw(rec, json_get(rec, JREF_ROOT, "model"));
    status s = json_text_copy(rec, json_get(rec, JREF_ROOT, "question"), "question", &c.question, e);
    if (!s) s = json_text_copy(rec, json_get(rec, JREF_ROOT, "key"), "key", &c.key, e);
    if (!s) s = json_text_copy(rec, json_get(rec, JREF_ROOT, "level"), "level", &c.level, e);
    if (!s) s = read_options(&c, rec, e);
    if (!s && !(c.model = mem_text(model.n ? model.p : "null", model.n ? model.n : 4))) s = err_memory(e, model.n);
    if (!s && !mem_grow((void **)&all->list, &all->cap, all->n + 1, sizeof *all->list)) s = err_memory(e, (all->n + 1) * sizeof c);
    if (s) cell_free(&c);
    else all->list[all->n++] = c;
    return s;
}

static status find_cell(cells *all, const json *rec, cell **found, err *e) {
    status s = ST_OK;
    if (!(all->last < all->n && is_cell(&all->list[all->last], rec))) {
        for (all->last = 0; all->last < all->n && !is_cell(&all->list[all->last], rec); all->last++) {}
        if (all->last == all->n) s = new_cell(all, rec, e);
    }
    if (s) return s;
    cell *c = *found = &all->list[all->last];
    strv model = json_raw(rec, json_get(rec, JREF_ROOT, "model"));
    if (model.n && !strv_is(model, c->model))
        return err_set(e, ST_REFUSED, "decided by another model than those before under question '%s' and level %s: %.*s, expected %.300s", c->question, c->level,
                       (int)(model.n > 300 ? 300 : model.n), model.p, c->model);
    jref list = json_get(rec, JREF_ROOT, "options"), o = json_first(rec, list);
    if (json_count(rec, list) != c->k) return err_set(e, ST_INPUT, "field 'options': not those of the decisions before with the key '%s'", c->key);
    for (size_t i = 0; i < c->k; i++, o = json_next(rec, list, o))
        if (!json_is(rec, o, c->options[i])) return err_set(e, ST_INPUT, "field 'options': not those of the decisions before with the key '%s'", c->key);
    return ST_OK;
}

static status read_probs(const cell *c, const json *rec, double p[OPTIONS_MAX], err *e) {
    jref list = json_get(rec, JREF_ROOT, "probs");
    double sum = 0;
    size_t i = 0;
    if (json_kind_of(rec, list) != JSON_ARRAY || json_count(rec, list) != c->k)
        return err_set(e, ST_INPUT, "field 'probs': expected %zu probabilities, one per option", c->k);
    for (jref x = json_first(rec, list); x != JREF_NONE; x = json_next(rec, list, x), i++) {
        status s = json_real(rec, x, "probs", &p[i], e);
        if (s) return s;
        if (p[i] < 0 || p[i] > 1) return err_set(e, ST_INPUT, "field 'probs': %g is no probability", p[i]);
        sum += p[i];
    }
    return fabs(sum - 1) <= 1e-6 ? ST_OK : err_set(e, ST_INPUT, "field 'probs': they sum to %.9g, expected 1", sum);
}

static status append(const json *rec, jref r, buf *scratch, buf *out, err *e) {
    strv v = {0};
    if (json_kind_of(rec, r) == JSON_STRING) {
        status s = json_text(rec, r, scratch, &v, e);
        if (s) return s;
    } else if (json_kind_of(rec, r) != JSON_NONE && json_kind_of(rec, r) != JSON_NULL) {
        v = json_raw(rec, r);
    }
    buf_view(out, v);
    buf_byte(out, '\0');
    return ST_OK;
}

/* id, question and level: what a decision is of. (The key changes when the options are listed in reverse.) */
static status identity(cells *all, const json *rec, err *e) {
    static const char *const names[] = {"id", "question", "level"};
    status s = ST_OK;
    buf_clear(&all->path);
    for (size_t i = 0; !s && i < 3; i++) s = append(rec, json_get(rec, JREF_ROOT, names[i]), &all->scratch, &all->path, e);
    return s ? s : buf_ok(&all->path, e);
}

static status intern_of(intern *t, const buf *b, uint32_t *number, bool *fresh, err *e) {
    size_t i = intern_put(t, buf_strv(b), fresh);
    if (i >= UINT32_MAX) return err_memory(e, b->len);
    *number = (uint32_t)i;
    return ST_OK;
}

static status find_group(cells *all, const json *rec, uint32_t *group, err *e) {
    jref g = json_get(rec, JREF_ROOT, "group");
    json_kind k = json_kind_of(rec, g);
    /* A decision without a group stands for itself. */
    if (k == JSON_NONE || k == JSON_NULL) {
        status s = identity(all, rec, e);
        buf_byte(&all->path, '\1');
        return s ? s : intern_of(&all->groups, &all->path, group, NULL, e);
    }
    buf_clear(&all->path);
    status s = append(rec, g, &all->scratch, &all->path, e);
    return s ? s : intern_of(&all->groups, &all->path, group, NULL, e);
}

/* (question, scope, target, option); a column is its own target. */
static status find_lookup(cells *all, const json *rec, uint32_t *lookup, err *e) {
    jref meta = json_get(rec, JREF_ROOT, "meta"), scope = json_get(rec, meta, "scope"), target = json_get(rec, meta, "target");
    jref column = json_get(rec, meta, "column"), option = json_get(rec, meta, "option");
    *lookup = UINT32_MAX;
    if (target == JREF_NONE) target = column;
    if (target == JREF_NONE && option == JREF_NONE) return ST_OK;
    buf_clear(&all->path);
    status s = append(rec, json_get(rec, JREF_ROOT, "question"), &all->scratch, &all->path, e);
    if (!s && scope == JREF_NONE && column != JREF_NONE) buf_put(&all->path, "column", 7);
    else if (!s) s = append(rec, scope, &all->scratch, &all->path, e);
    if (!s) s = append(rec, target, &all->scratch, &all->path, e);
    if (!s) s = append(rec, option, &all->scratch, &all->path, e);
    return s ? s : intern_of(&all->lookups, &all->path, lookup, NULL, e);
}

static status check_type(const json *rec, err *e) {
    return json_is(rec, json_get(rec, JREF_ROOT, "type"), "decision") ? ST_OK : err_set(e, ST_INPUT, "expected a record of type 'decision'");
}

status cells_reversed(cells *all, const json *rec, err *e) {
    uint32_t number = 0, answer = 0;
    bool fresh;
    status s = check_type(rec, e);
    all->any_reversed = true;
    if (!s) s = identity(all, rec, e);
    if (!s) s = intern_of(&all->reversed, &all->path, &number, &fresh, e);
    if (!s && !fresh) s = err_set(e, ST_INPUT, "the decision comes twice");
    if (!s) {
        buf_clear(&all->path);
        s = append(rec, json_get(rec, JREF_ROOT, "answer"), &all->scratch, &all->path, e);
    }
    if (!s) s = intern_of(&all->names, &all->path, &answer, NULL, e);
    if (!s && !mem_grow((void **)&all->reversed_answer, &all->cap_reversed, (size_t)number + 1, sizeof *all->reversed_answer)) s = err_memory(e, number * sizeof(size_t));
    if (!s) all->reversed_answer[number] = answer;
    return s;
}

static status compare_reversed(cells *all, const json *rec, scored *x, err *e) {
    status s = identity(all, rec, e);
    if (s) return s;
    size_t partner = intern_find(&all->reversed, buf_strv(&all->path));
    if (partner == INTERN_NONE) {
        all->unmatched++;
        return ST_OK;
    }
    buf_clear(&all->path);
    if ((s = append(rec, json_get(rec, JREF_ROOT, "answer"), &all->scratch, &all->path, e))) return s;
    x->reversed = intern_find(&all->names, buf_strv(&all->path)) != all->reversed_answer[partner];
    return ST_OK;
}

static status take(cells *all, cell *c, const json *rec, err *e) {
    jref label = json_get(rec, JREF_ROOT, "label"), flips = json_get(rec, json_get(rec, JREF_ROOT, "diagnostics"), "flips");
    double p[OPTIONS_MAX];
    decided d;
    bool fresh;
    size_t k = 0;
    status s = read_probs(c, rec, p, e);
    if (s) return s;
    while (k < c->k && !json_is(rec, label, c->options[k])) k++;
    if (k == c->k) {
        strv v = json_raw(rec, label);
        return err_set(e, ST_INPUT, "field 'label': %.*s is none of the options", (int)(v.n > 100 ? 100 : v.n), v.p);
    }
    scored_set(&d.s, p, c->k, k);
    if (json_kind_of(rec, flips) == JSON_NUMBER) s = json_real(rec, flips, "flips", &d.s.flips, e);
    if (!s) s = identity(all, rec, e);
    if (!s && intern_put(&all->seen, buf_strv(&all->path), &fresh) == INTERN_NONE) s = err_memory(e, all->path.len);
    if (!s && !fresh) s = err_set(e, ST_INPUT, "the decision comes twice: an item counts once per question and level");
    if (!s) s = find_group(all, rec, &d.s.group, e);
    if (!s) s = find_lookup(all, rec, &d.lookup, e);
    if (!s && all->any_reversed) s = compare_reversed(all, rec, &d.s, e);
    if (!s && !mem_grow((void **)&c->d, &c->cap, c->n + 1, sizeof *c->d)) s = err_memory(e, (c->n + 1) * sizeof d);
    if (s) return s;
    c->d[c->n++] = d;
    c->missing += json_count(rec, json_get(rec, JREF_ROOT, "missing_labels")) > 0;
    c->held_out += json_true(rec, json_get(rec, JREF_ROOT, "held_out"));
    return ST_OK;
}

status cells_add(cells *all, const json *rec, err *e) {
    cell *c;
    status s = check_type(rec, e);
    json_kind label = json_kind_of(rec, json_get(rec, JREF_ROOT, "label"));
    if (!s && (label == JSON_NONE || label == JSON_NULL)) {
        all->unlabelled++;
        return ST_OK;
    }
    if (!s) s = find_cell(all, rec, &c, e);
    return s ? s : take(all, c, rec, e);
}

void cells_free(cells *all) {
    for (size_t i = 0; i < all->n; i++) cell_free(&all->list[i]);
    free(all->list);
    free(all->reversed_answer);
    intern *tables[] = {&all->groups, &all->lookups, &all->seen, &all->names, &all->reversed};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) intern_free(tables[i]);
    buf_free(&all->scratch);
    buf_free(&all->path);
    *all = (cells){0};
}
