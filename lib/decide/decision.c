#include "decide/decision.h"

#include <string.h>

#include "json/run.h"

static double value_of(const item *x, const verdict *v) {
    double value = 0;
    for (size_t i = 0; i < x->k; i++) value += x->centers[i] * v->result.probs[i];
    return value;
}

static const char *source_name(decide_source s) {
    static const char *const names[] = {"none", "batch", "content_free"};
    return names[s];
}

static void put_calibration(const verdict *v, jw *w) {
    jw_key(w, "calibration");
    if (strcmp(v->level, "raw") == 0) {
        jw_null(w);
        return;
    }
    jw_open(w, '{');
    if (v->permuted || !v->more.n) {
        jw_key(w, "prior");
        jw_text(w, source_name(v->prior_items ? v->source : DECIDE_NONE));
        jw_key(w, "prior_strength");
        jw_real(w, v->prior_items ? v->strength : 0);
        jw_key(w, "prior_items");
        jw_size(w, v->prior_items);
    }
    if (v->temperature > 0) {
        jw_key(w, "temperature");
        jw_real(w, v->temperature);
    }
    if (v->more.n) {
        /* the members bring their own comma; the first of an empty object does not want it */
        strv m = v->more;
        if (w->out->p[w->out->len - 1] == '{') m = (strv){m.p + 1, m.n - 1};
        buf_view(w->out, m);
    }
    jw_close(w, '}');
}

static void put_diagnostics(const item *x, const verdict *v, jw *w) {
    jw_key(w, "diagnostics");
    jw_open(w, '{');
    jw_key(w, "permutations");
    jw_size(w, v->permutations);
    if (x->n_mass) {
        jw_key(w, "answer_mass");
        jw_real(w, x->mass / (double)x->n_mass);
    }
    if (v->permuted) {
        jw_key(w, "flips_raw");
        jw_real(w, v->result.flips_raw);
        jw_key(w, "flips");
        jw_real(w, v->result.flips);
    }
    if (x->n_masked) {
        jw_key(w, "masked_mass");
        jw_real(w, v->masked_mass);
    }
    jw_close(w, '}');
}

void decision_put(const item *x, const verdict *v, strv model, buf *out) {
    jw w = jw_of(out);
    jw_open(&w, '{');
    jw_key(&w, "type");
    jw_text(&w, "decision");
    jw_key(&w, "id");
    jw_text(&w, x->id);
    buf_byte(out, ',');
    buf_text(out, x->head);
    jw_key(&w, "probs");
    jw_open(&w, '[');
    for (size_t i = 0; i < x->k; i++) jw_real(&w, v->result.probs[i]);
    jw_close(&w, ']');
    jw_key(&w, "answer");
    jw_text(&w, x->options[v->result.answer]);
    jw_key(&w, "answer_index");
    jw_size(&w, v->result.answer);
    jw_key(&w, "confidence");
    jw_real(&w, v->result.confidence);
    jw_key(&w, "margin");
    jw_real(&w, v->result.margin);
    if (x->kind == QUESTION_NOUL) {
        jw_key(&w, "p_true");
        jw_real(&w, v->result.probs[0]);
    }
    if (x->kind == QUESTION_SCORE) {
        jw_key(&w, "value");
        jw_real(&w, value_of(x, v));
    }
    jw_key(&w, "level");
    jw_text(&w, v->level);
    put_calibration(v, &w);
    put_diagnostics(x, v, &w);
    jw_key(&w, "missing_labels");
    if (x->missing) jw_raw(&w, strv_of(x->missing));
    else jw_raw(&w, strv_of("[]"));
    if (v->held_out) {
        jw_key(&w, "held_out");
        jw_bool(&w, true);
    }
    if (v->certified >= 0) {
        jw_key(&w, "certified");
        jw_bool(&w, v->certified > 0 && !x->missing);
    }
    jw_key(&w, "model");
    jw_raw(&w, model);
    jw_key(&w, "bundle");
    if (v->bundle.n) jw_raw(&w, v->bundle);
    else jw_null(&w);
    buf_text(out, x->tail);
    run_put(&w);
    jw_close(&w, '}');
}

/* --- System One --- */

status decision_model_name(strv model, buf *out, err *e) {
    json doc = {0};
    strv name = {0};
    buf scratch = {0};
    status s = json_parse(&doc, model.p, model.n, e);
    jref at = json_get(&doc, JREF_ROOT, "name");
    if (!s && json_kind_of(&doc, at) == JSON_STRING) s = json_text(&doc, at, &scratch, &name, e);
    if (!s) buf_view(out, name);
    json_free(&doc);
    buf_free(&scratch);
    return s;
}

void decision_answer(const item *x, const verdict *v, jw *w) {
    const char *kind = question_kind_name(x->kind);
    jw_open(w, '{');
    jw_key(w, "type");
    jw_text(w, kind);
    jw_key(w, kind);
    if (x->kind == QUESTION_NOUL) jw_real(w, v->result.probs[0]);
    else if (x->kind == QUESTION_SCORE) jw_real(w, value_of(x, v));
    else jw_text(w, x->options[v->result.answer]);
    if (x->kind != QUESTION_NOUL) {
        jw_key(w, "confidence");
        jw_real(w, v->result.confidence);
        jw_key(w, "probabilities");
        jw_open(w, '{');
        for (size_t i = 0; i < x->k; i++) {
            jw_key(w, x->options[i]);
            jw_real(w, v->result.probs[i]);
        }
        jw_close(w, '}');
    }
    jw_key(w, "level");
    jw_text(w, v->level);
    jw_close(w, '}');
}
