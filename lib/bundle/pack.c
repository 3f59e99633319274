#include "bundle/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decide/level.h"
#include "json/lines.h"

void pack_free(pack *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->names[i]);
        buf_free(&p->fits[i]);
        buf_free(&p->artifacts[i]);
        buf_free(&p->observations[i]);
    }
    free(p->names);
    free(p->fits);
    free(p->artifacts);
    free(p->observations);
    free(p->identity);
    buf_free(&p->inputs);
    json_free(&p->results);
    buf_free(&p->results_text);
}

/* The place of a name, made when it is new. */
static status place(pack *p, const char *name, size_t *at, err *e) {
    for (*at = 0; *at < p->n; ++*at)
        if (strcmp(p->names[*at], name) == 0) return ST_OK;
    size_t cap = p->cap, need = p->n + 1;
    /* four arrays that grow together */
    size_t c[4] = {cap, cap, cap, cap};
    if (!mem_grow((void **)&p->names, &c[0], need, sizeof *p->names) || !mem_grow((void **)&p->fits, &c[1], need, sizeof *p->fits) ||
        !mem_grow((void **)&p->artifacts, &c[2], need, sizeof *p->artifacts) || !mem_grow((void **)&p->observations, &c[3], need, sizeof *p->observations))
        return err_memory(e, need * sizeof *p->fits);
    p->cap = c[0];
    if (!(p->names[p->n] = mem_text(name, strlen(name)))) return err_memory(e, strlen(name));
    p->fits[p->n] = p->artifacts[p->n] = p->observations[p->n] = (buf){0};
    p->n++;
    return ST_OK;
}

static status same_model(pack *p, strv identity, err *e) {
    if (!p->identity) {
        p->identity = mem_text(identity.p, identity.n);
        return p->identity ? ST_OK : err_memory(e, identity.n);
    }
    if (identity_same(strv_of(p->identity), identity)) return ST_OK;
    return err_set(e, ST_REFUSED, "fitted on another model than the rest: %.*s, expected %.400s", (int)(identity.n > 400 ? 400 : identity.n), identity.p, p->identity);
}

/* A line that the parts keep, under question/level. */
static status name_of(const json *doc, const char *id_key, buf *name, err *e) {
    buf scratch = {0};
    strv v;
    const char *keys[] = {id_key, "level"};
    status s = ST_OK;
    buf_clear(name);
    for (int i = 0; !s && i < 2; i++) {
        if ((s = json_text(doc, json_get(doc, JREF_ROOT, keys[i]), &scratch, &v, e))) err_prefix(e, "field '%s'", keys[i]);
        if (i) buf_byte(name, '/');
        if (!s) buf_view(name, v);
    }
    buf_free(&scratch);
    return s ? s : buf_ok(name, e);
}

typedef struct reader {
    pack *p;
    size_t at;
    bool in_fit, has_artifact;
} reader;

static status take_fit(reader *r, const json *doc, const char *name, err *e) {
    static const json_field drop[] = {{"type", {0}}, {"identity", {0}}, {"inputs", {0}}};
    jref identity = json_get(doc, JREF_ROOT, "identity"), inputs = json_get(doc, JREF_ROOT, "inputs");
    if (json_kind_of(doc, identity) != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'identity': expected the model's object");
    status s = same_model(r->p, json_raw(doc, identity), e);
    if (!s) s = place(r->p, name, &r->at, e);
    if (s) return s;
    buf_clear(&r->p->fits[r->at]);
    buf_clear(&r->p->artifacts[r->at]);
    buf_clear(&r->p->observations[r->at]);
    json_edit(&r->p->fits[r->at], doc, JREF_ROOT, drop, 3);
    for (jref k = json_first(doc, inputs); k != JREF_NONE; k = json_next(doc, inputs, k)) {
        if (r->p->inputs.len) buf_byte(&r->p->inputs, ',');
        buf_view(&r->p->inputs, json_raw(doc, k));
        buf_byte(&r->p->inputs, ':');
        buf_view(&r->p->inputs, json_raw(doc, json_value(doc, k)));
    }
    r->in_fit = true;
    return buf_ok(&r->p->fits[r->at], e);
}

static status take_line(void *ctx, const json *doc, err *e) {
    reader *r = ctx;
    buf name = {0};
    jref type = json_get(doc, JREF_ROOT, "type");
    status s = ST_OK;
    if (json_is(doc, type, "fit")) {
        if (!(s = name_of(doc, "question_id", &name, e))) s = take_fit(r, doc, name.p, e);
    } else if (!r->in_fit) {
        s = err_set(e, ST_INPUT, "expected a record of type 'fit' first, as head-fit writes it");
    } else if (json_is(doc, type, "artifact")) {
        artifact a;
        if (!(s = artifact_read(&a, doc, JREF_ROOT, e))) artifact_free(&a);
        buf *to = &r->p->artifacts[r->at];
        buf_view(to, (strv){doc->text, doc->len});
        buf_byte(to, '\n');
        if (!s) s = buf_ok(to, e);
        r->has_artifact = true;
    } else if (json_is(doc, type, "observation")) {
        buf *to = &r->p->observations[r->at];
        buf_view(to, (strv){doc->text, doc->len});
        buf_byte(to, '\n');
        s = buf_ok(to, e);
    } else {
        s = err_set(e, ST_INPUT, "expected records of type 'fit', 'artifact' and 'observation'");
    }
    buf_free(&name);
    return s;
}

status pack_artifacts(pack *p, const char *path, err *e) {
    reader r = {.p = p};
    status s = json_lines(path, take_line, &r, e);
    if (!s && !r.has_artifact) s = err_set(e, ST_INPUT, "%s: no artifact in it", path);
    return s;
}

/* --- what the version in service has --- */

typedef struct carrier {
    pack *p;
    bool observations;
} carrier;

static status carry_line(carrier *c, strv line, err *e) {
    json doc = {0};
    buf name = {0};
    size_t at = 0;
    status s = json_parse(&doc, line.p, line.n, e);
    if (!s) s = name_of(&doc, c->observations ? "question" : "question_id", &name, e);
    if (!s) s = place(c->p, name.p, &at, e);
    if (!s) {
        buf *to = c->observations ? &c->p->observations[at] : &c->p->artifacts[at];
        buf_view(to, line);
        buf_byte(to, '\n');
        s = buf_ok(to, e);
    }
    json_free(&doc);
    buf_free(&name);
    return s;
}

static status carry_lines(carrier *c, strv text, err *e) {
    status s = ST_OK;
    while (!s && text.n) {
        s = carry_line(c, strv_line(&text), e);
    }
    return s;
}

static status carry_manifest(pack *p, const bundle *b, err *e) {
    json doc = {0};
    buf scratch = {0}, name = {0};
    status s = json_parse(&doc, b->manifest, strlen(b->manifest), e);
    jref list = s ? JREF_NONE : json_get(&doc, JREF_ROOT, "questions"), inputs = s ? JREF_NONE : json_get(&doc, JREF_ROOT, "inputs");
    for (jref k = json_first(&doc, list); !s && k != JREF_NONE; k = json_next(&doc, list, k)) {
        strv v;
        size_t at;
        buf_clear(&name);
        if ((s = json_text(&doc, k, &scratch, &v, e))) break;
        buf_view(&name, v);
        if (!(s = buf_ok(&name, e)) && !(s = place(p, name.p, &at, e))) buf_view(&p->fits[at], json_raw(&doc, json_value(&doc, k)));
    }
    for (jref k = json_first(&doc, inputs); !s && k != JREF_NONE; k = json_next(&doc, inputs, k)) {
        if (p->inputs.len) buf_byte(&p->inputs, ',');
        buf_view(&p->inputs, json_raw(&doc, k));
        buf_byte(&p->inputs, ':');
        buf_view(&p->inputs, json_raw(&doc, json_value(&doc, k)));
    }
    json_free(&doc);
    buf_free(&scratch);
    buf_free(&name);
    return s;
}

status pack_carry(pack *p, const bundle *b, err *e) {
    status s = same_model(p, strv_of(b->identity), e);
    if (!s) s = carry_manifest(p, b, e);
    if (!s) s = carry_lines(&(carrier){p, false}, buf_strv(&b->artifact_lines), e);
    if (!s) s = carry_lines(&(carrier){p, true}, buf_strv(&b->observations), e);
    return s;
}

/* --- held-out figures --- */

status pack_results(pack *p, const char *path, const char *lock_sha, err *e) {
    status s = json_read_file(&p->results, &p->results_text, path, e);
    if (!s && !json_is(&p->results, json_get(&p->results, JREF_ROOT, "type"), "results")) s = err_set(e, ST_INPUT, "%s: expected a record of type 'results'", path);
    jref lock = s ? JREF_NONE : json_get(&p->results, json_get(&p->results, JREF_ROOT, "environment"), "lock_sha");
    if (!s && json_kind_of(&p->results, lock) == JSON_STRING && !json_is(&p->results, lock, lock_sha))
        s = err_set(e, ST_REFUSED, "%s: made under lock %.*s, the registry at hand has %.12s", path, (int)json_raw(&p->results, lock).n, json_raw(&p->results, lock).p, lock_sha);
    return s;
}

static const char *const figures[] = {"accuracy", "ece", "nll", "brier", "aurc", "coverage_at_5", "coverage_at_10"};

/* {"accuracy": ..., "n": ..., ...} of the cell of this name, when it rests on held-out decisions. */
static void put_held_out(const pack *p, const char *name, jw *w) {
    const json *r = &p->results;
    jref cells = p->results_text.len ? json_get(r, JREF_ROOT, "cells") : JREF_NONE;
    for (jref c = cells == JREF_NONE ? JREF_NONE : json_first(r, cells); c != JREF_NONE; c = json_next(r, cells, c)) {
        if (!json_is(r, json_get(r, c, "cell"), name) || !json_is(r, json_get(r, c, "evaluation"), "leave-one-out")) continue;
        jref metrics = json_get(r, c, "metrics");
        static const char *const counts[] = {"n", "groups", "negatives"};
        jw_key(w, "held_out");
        jw_open(w, '{');
        for (size_t i = 0; i < 3; i++) {
            jw_key(w, counts[i]);
            jw_raw(w, json_raw(r, json_get(r, c, counts[i])));
        }
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
            jref v = json_get(r, json_get(r, metrics, figures[i]), "value");
            if (json_kind_of(r, v) != JSON_NUMBER) continue;
            jw_key(w, figures[i]);
            jw_raw(w, json_raw(r, v));
        }
        jw_close(w, '}');
        return;
    }
}

static status put_question(const pack *p, size_t i, jw *w, err *e) {
    json doc = {0};
    status s = json_parse(&doc, p->fits[i].p, p->fits[i].len, e);
    buf held = {0};
    jw h = jw_of(&held);
    put_held_out(p, p->names[i], &h);
    jw_key(w, p->names[i]);
    jw_open(w, '{');
    for (jref k = s ? JREF_NONE : json_first(&doc, JREF_ROOT); k != JREF_NONE; k = json_next(&doc, JREF_ROOT, k)) {
        if (held.len && json_is(&doc, k, "held_out")) continue;
        jw_key_raw(w, json_raw(&doc, k));
        jw_raw(w, json_raw(&doc, json_value(&doc, k)));
    }
    jw_close(w, '}');
    if (!s && held.len) {
        /* into the object: before its end */
        buf *out = w->out;
        if (!(s = buf_ok(out, e))) {
            out->len--;
            buf_byte(out, ',');
            buf_view(out, buf_strv(&held));
            buf_byte(out, '}');
        }
    }
    json_free(&doc);
    buf_free(&held);
    return s;
}

status pack_parts(pack *p, const char *lock_sha, bundle_parts *parts, buf texts[4], err *e) {
    status s = p->n && p->identity ? ST_OK : err_set(e, ST_INPUT, "no artifact: nothing can be packed");
    jw w = jw_of(&texts[0]);
    jw_open(&w, '{');
    for (size_t i = 0; !s && i < p->n; i++) {
        s = put_question(p, i, &w, e);
        buf_view(&texts[2], buf_strv(&p->artifacts[i]));
        buf_view(&texts[3], buf_strv(&p->observations[i]));
    }
    jw_close(&w, '}');
    buf_byte(&texts[1], '{');
    buf_view(&texts[1], buf_strv(&p->inputs));
    buf_byte(&texts[1], '}');
    for (int i = 0; !s && i < 4; i++) s = buf_ok(&texts[i], e);
    if (!s)
        *parts = (bundle_parts){.identity = p->identity, .lock_sha = lock_sha, .questions = buf_strv(&texts[0]), .inputs = buf_strv(&texts[1]),
                                .artifact_lines = buf_strv(&texts[2]), .observations = buf_strv(&texts[3])};
    return s;
}

/* --- AnyJev's own form --- */

static status put_all(const bundle *b, bool heads, bool plain, jw *w, err *e) {
    status s = ST_OK;
    jw_key(w, heads ? "heads" : "artifacts");
    jw_open(w, '{');
    for (size_t i = 0; !s && i < b->n; i++) {
        buf text = {0};
        if (b->artifacts[i].is_head != heads) continue;
        s = artifact_put(&b->artifacts[i], plain, &text, e);
        jw_key(w, b->artifacts[i].key);
        jw_raw(w, buf_strv(&text));
        buf_free(&text);
    }
    jw_close(w, '}');
    return s;
}

status pack_export(const bundle *b, bool plain, buf *out, err *e) {
    json doc = {0};
    jw w = jw_of(out);
    status s = json_parse(&doc, b->identity, strlen(b->identity), e);
    jw_open(&w, '{');
    jw_key(&w, "model");
    if (!s) jw_raw(&w, json_raw(&doc, json_get(&doc, JREF_ROOT, "name")));
    if (!s) s = put_all(b, false, plain, &w, e);
    if (!s) s = put_all(b, true, plain, &w, e);
    jw_close(&w, '}');
    json_free(&doc);
    return s ? s : buf_ok(out, e);
}

static status import_one(const json *doc, jref obj, strv key, const char *identity, buf *out, err *e) {
    artifact a;
    buf line = {0};
    status s = artifact_read(&a, doc, obj, e);
    if (s) return err_prefix(e, "artifact %.*s", (int)key.n, key.p);
    if (!a.question_id && !(a.question_id = mem_text(a.key, strlen(a.key)))) s = err_memory(e, KEY_SIZE);
    free(a.identity);
    if (!(a.identity = mem_text(identity, strlen(identity)))) s = err_memory(e, strlen(identity));
    jw w = jw_of(&line);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "fit");
    jw_key(&w, "question_id");
    jw_text(&w, a.question_id);
    jw_key(&w, "key");
    jw_text(&w, a.key);
    jw_key(&w, "level");
    jw_text(&w, artifact_level(&a));
    jw_key(&w, "n");
    jw_size(&w, a.n_calib);
    jw_key(&w, "imported");
    jw_bool(&w, true);
    jw_key(&w, "identity");
    jw_raw(&w, strv_of(identity));
    jw_close(&w, '}');
    buf_byte(&line, '\n');
    if (!s && a.k) s = artifact_put(&a, false, &line, e);
    else if (!s) s = err_set(e, ST_INPUT, "artifact %.*s does not say its options; AnyJev's temperatures need kind and options added", (int)key.n, key.p);
    buf_byte(&line, '\n');
    if (!s) s = buf_ok(&line, e);
    if (!s) buf_view(out, buf_strv(&line));
    artifact_free(&a);
    buf_free(&line);
    return s ? s : buf_ok(out, e);
}

status pack_import(const json *doc, const char *identity, buf *out, err *e) {
    static const char *const lists[] = {"artifacts", "heads"};
    status s = ST_OK;
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) {
        jref list = json_get(doc, JREF_ROOT, lists[i]);
        for (jref k = json_first(doc, list); !s && k != JREF_NONE; k = json_next(doc, list, k), n++) s = import_one(doc, json_value(doc, k), json_raw(doc, k), identity, out, e);
    }
    if (!s && !n) s = err_set(e, ST_INPUT, "neither 'artifacts' nor 'heads' holds anything");
    return s;
}
