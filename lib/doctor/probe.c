#include "doctor/probe.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/share.h"
#include "question/prompts.h"

static const char *const states[2] = {"\"Yes. Yes. Yes. Yes.\"", "\"No. No. No. No.\""};
static const char question_text[] = "{\"kind\":\"noul\",\"text\":\"Is the word yes or no?\"}";

typedef struct taker {
    buf *records;
    size_t n;
} taker;

static status take(void *ctx, const buf *record, err *e) {
    taker *t = ctx;
    if (t->n >= PROBES) return err_set(e, ST_INPUT, "the probe makes more prompts than expected");
    buf_view(&t->records[t->n], buf_strv(record));
    return buf_ok(&t->records[t->n++], e);
}

status probe_prompts(chat family, buf records[PROBES], err *e) {
    char *path = NULL;
    readout wording = {0};
    question q = {0};
    json doc = {0}, state = {0};
    taker t = {.records = records};
    prompts_ids ids = {0};
    status s = share_path("readout.json", &path, e);
    if (!s) s = readout_load(&wording, path, e);
    if (!s) s = json_parse(&doc, question_text, sizeof question_text - 1, e);
    if (!s) s = question_read(&q, &doc, JREF_ROOT, e);
    const prompts_style style = {.readout = &wording, .chat = family, .ids = &ids};
    for (size_t i = 0; !s && i < 2; i++) {
        strv text = strv_of(states[i]);
        if ((s = json_parse(&state, text.p, text.n, e))) break;
        prompts_item item = {.q = &q, .id = strv_of(i ? "no" : "yes"), .doc = &state, .state = JREF_ROOT};
        s = prompts_make(&style, &item, take, &t, e);
    }
    if (!s && t.n != PROBES) s = err_set(e, ST_INPUT, "the probe makes %zu prompts, expected %d", t.n, PROBES);
    prompts_ids_free(&ids);
    question_free(&q);
    readout_free(&wording);
    json_free(&doc);
    json_free(&state);
    free(path);
    return s;
}

/* P(Yes): the first option stands first in even prompts and second in odd ones. */
static double p_yes(const double first[2], const double turned[2]) {
    double logit = ((first[0] - first[1]) + (turned[1] - turned[0])) / 2;
    return 1 / (1 + exp(-logit));
}

probe_verdict probe_judge(const probe_answers *a) {
    probe_verdict v = {.finite = true, .mass = 1};
    for (size_t i = 0; i < PROBES; i++) {
        double mass = 0;
        for (size_t k = 0; k < 2; k++) {
            v.finite = v.finite && isfinite(a->logprobs[i][k]) && a->logprobs[i][k] <= 1e-6;
            mass += exp(a->logprobs[i][k]);
        }
        if (!(mass >= v.mass)) v.mass = mass;
    }
    v.yes = p_yes(a->logprobs[0], a->logprobs[1]);
    v.no = p_yes(a->logprobs[2], a->logprobs[3]);
    v.told_apart = v.finite && v.yes > v.no;
    return v;
}

void probe_report(findings *r, const probe_answers *a) {
    probe_verdict v = probe_judge(a);
    if (!v.finite) {
        findings_put(r, FINDING_FAIL, "finite", "the weights or the server are broken", "a number is NaN, an infinity or no log-probability");
        findings_put(r, FINDING_NOT_RUN, "label mass", NULL, "the numbers are not finite");
        findings_put(r, FINDING_NOT_RUN, "known answer", NULL, "the numbers are not finite");
        return;
    }
    findings_put(r, FINDING_OK, "finite", NULL, "all numbers are log-probabilities");
    bool thin = v.mass < 0.1;
    findings_put(r, thin ? FINDING_WARN : FINDING_OK, "label mass", thin ? "another template, or an instruction-tuned model, is needed" : NULL,
               "Yes and No have %.3f of the probability or more", v.mass);
    if (!v.told_apart)
        findings_put(r, FINDING_FAIL, "known answer", "wrong template, wrong tokenizer or wrong weights", "P(Yes) is %.3f for the state that says yes and %.3f for the one that says no", v.yes, v.no);
    else
        findings_put(r, v.yes - v.no < 0.1 ? FINDING_WARN : FINDING_OK, "known answer", v.yes - v.no < 0.1 ? "expect little of this model" : NULL,
                   "P(Yes) is %.3f for the state that says yes and %.3f for the one that says no", v.yes, v.no);
}

void probe_instrument(findings *r) {
    const probe_answers good = {{{-0.1, -3}, {-3, -0.1}, {-3, -0.1}, {-0.1, -3}}};
    const probe_answers reversed = {{{-3, -0.1}, {-0.1, -3}, {-0.1, -3}, {-3, -0.1}}};
    const probe_answers first_always = {{{-0.1, -3}, {-0.1, -3}, {-0.1, -3}, {-0.1, -3}}}; /* answers by position */
    const probe_answers broken = {{{NAN, -3}, {-3, -0.1}, {-3, -0.1}, {-0.1, -3}}};
    char hex[SHA256_HEX_SIZE];
    err ignored = {0};
    bool hash = sha256_hex("abc", 3, hex, &ignored) == ST_OK && strv_is(strv_of(hex), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    bool right = probe_judge(&good).told_apart && !probe_judge(&reversed).told_apart && !probe_judge(&first_always).told_apart && !probe_judge(&broken).told_apart && !probe_judge(&broken).finite;
    if (hash && right) findings_put(r, FINDING_OK, "instrument", NULL, "planted answers are judged right: a good one passes; a reversed one, one by position and a NaN do not");
    else findings_put(r, FINDING_FAIL, "instrument", "this build is broken: make clean all check", "planted answers are judged wrong");
}
