#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "doctor/doctor.h"
#include "doctor/probe.h"
#include "net/host.h"
#include "net/task.h"
#include "weights/locate.h"

typedef struct gateway {
    findings *r;
    const doctor_options *o;
    net *n;
    char *base, *key, *path;
    tokenizer *t;
    chat family;
    served v;
    ask a;
} gateway;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void not_run(findings *r, const char *const *names, const char *why) {
    for (; *names; names++) findings_put(r, FINDING_NOT_RUN, *names, NULL, "%s", why);
}

/* The URL, the key and the served model's tokenizer: nothing is sent yet. */
static bool check_setup(gateway *g) {
    const doctor_options *o = g->o;
    err why = {0};
    status s = o->url ? host_base(o->url, o->insecure, &g->base, &why) : err_set(&why, ST_USAGE, "no --url was given");
    if (s) {
        findings_put(g->r, FINDING_FAIL, "url", "give https://HOST, or http://127.0.0.1:PORT", "%s", why.text);
        return false;
    }
    findings_put(g->r, FINDING_OK, "url", NULL, "%s", g->base);
    if (host_key(o->key_file, &g->key, &why)) {
        findings_put(g->r, FINDING_FAIL, "key", NULL, "%s", why.text);
        return false;
    }
    findings_put(g->r, FINDING_OK, "key", NULL, "%s", !g->key ? "none: neither --key-file nor ANYJEV_API_KEY is given" : o->key_file ? "from a file that only you can read" : "from ANYJEV_API_KEY");
    if (o->model) {
        s = model_locate(o->model, &g->path, &why);
        if (!s) s = tokenizer_open(&g->t, g->path, &why);
        if (!s) s = o->template ? chat_named(o->template, &g->family, &why) : chat_of_model(g->path, &g->family, &why);
        findings_put(g->r, s ? FINDING_FAIL : FINDING_OK, "tokenizer", s ? "name the served model's tokenizer with --model" : NULL, "%s", s ? why.text : o->model);
        if (s) return false;
    }
    const net_options no = {.key = g->key, .proxy = o->proxy, .workers = 1, .retries = 0, .connect_timeout = 5, .read_timeout = o->timeout, .retry_cap = 1};
    if (!net_open(&g->n, &no, &why)) return true;
    findings_put(g->r, FINDING_FAIL, "reachable", NULL, "%s", why.text);
    return false;
}

static bool check_listed(gateway *g) {
    err why = {0};
    double t0 = now();
    status s = served_list(&g->v, g->n, g->base, g->o->served_model, &why);
    double took = (now() - t0) * 1e3;
    if (s == ST_INCOMPLETE) {
        findings_put(g->r, FINDING_FAIL, "reachable", "start the server, or mend --url", "%s", why.text);
        return false;
    }
    findings_put(g->r, FINDING_OK, "reachable", NULL, "answered in %.0f ms", took);
    if (s) {
        bool key = strstr(why.text, "answered 401") || strstr(why.text, "answered 403");
        findings_put(g->r, FINDING_FAIL, "model listed", key ? "give the right key with --key-file or ANYJEV_API_KEY" : "name the model with --served-model", "%s", why.text);
        return false;
    }
    findings_put(g->r, FINDING_OK, "model listed", NULL, "%.*s", (int)g->v.entry.len, g->v.entry.p);
    return true;
}

/* --- the four probes and one more --- */

typedef struct asked {
    probe_answers answers;
    double again[2]; /* the first one, asked a second time */
    double ms[PROBES + 1];
    size_t fewest; /* tokens in the shortest list */
    bool reasoning, missing, cut, has_tokens;
} asked;

static status ask_one(gateway *g, const buf *record, double out[2], double *ms, asked *x, err *e) {
    json rec = {0}, reply = {0};
    buf body = {0}, url = {0};
    answer got = {0};
    answer_score score[2];
    net_reply r = {0};
    task t = {0};
    const task_rules rules = {.tokenizer = g->t, .family = g->family, .served = &g->v, .max_choice_k = OPTIONS_MAX};
    double mass;
    buf_text(&url, g->base);
    buf_text(&url, ask_path(&g->a));
    status s = buf_ok(&url, e);
    if (!s) s = json_parse(&rec, record->p, record->len, e);
    if (!s) s = task_read(&t, &rules, &g->a, &rec, e);
    size_t draws = 0;
    for (bool again = true; !s && again;) {
        unsigned version = g->a.version;
        again = false;
        buf_clear(&body);
        double t0 = now();
        if ((s = ask_body(&g->a, &rec, &body, e)) || (s = net_call(g->n, url.p, &body, &r, e))) break;
        *ms = (now() - t0) * 1e3;
        if (r.status) {
            again = r.status == ST_INPUT && ask_learn(&g->a, version, r.body);
            if (!again) s = err_set(e, r.status, "%s", r.why);
            continue;
        }
        if (json_parse(&reply, r.body.p ? r.body.p : "", r.body.n, e)) s = err_prefix(e, "the answer is no JSON");
        else if (g->a.api != ASK_SYSTEMONE && (s = answer_read(&got, &reply, e)) && got.undrawn && ++draws < 20) s = ST_OK, again = true;
    }
    if (!s && g->a.api == ASK_SYSTEMONE) {
        s = answer_decision(&reply, ASK_DECISION, t.options, 2, score, e);
        for (size_t k = 0; !s && k < 2; k++) out[k] = score[t.perm[k]].logprob;
    } else if (!s && !(s = answer_match(&got, t.labels, 2, score, &mass, e))) {
        for (size_t k = 0; k < 2; k++) {
            out[k] = score[k].logprob;
            x->missing = x->missing || score[k].missing;
        }
        x->reasoning = x->reasoning || task_reasoning(&got);
        x->has_tokens = got.has_tokens;
        x->cut = x->cut || (t.tokens && got.has_tokens && got.prompt_tokens < t.tokens);
        if (got.n < x->fewest) x->fewest = got.n;
    }
    answer_free(&got);
    task_free(&t);
    json_free(&rec);
    json_free(&reply);
    buf_free(&body);
    buf_free(&url);
    return s;
}

static int upwards(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report_asked(gateway *g, asked *x) {
    findings *r = g->r;
    bool lists = g->a.api != ASK_SYSTEMONE;
    findings_put(r, FINDING_OK, "answers", NULL, "%s gives log-probabilities in a shape that is known%s", ask_path(&g->a), g->a.left_out ? "; members that it does not know are left out" : "");
    if (lists) {
        bool few = x->fewest < ASK_TOP;
        findings_put(r, few ? FINDING_WARN : FINDING_OK, "top 20", few ? "labels may be missing; raise the server's limit (vLLM: --max-logprobs 20)" : NULL,
                   "%zu tokens are given%s", x->fewest, g->a.top < ASK_TOP ? ", the server's own cap" : "");
        findings_put(r, x->missing ? FINDING_FAIL : FINDING_OK, "labels", x->missing ? "the template does not lead to an answer; try --api chat" : NULL, "%s", x->missing ? "Yes or No is not among the most probable tokens" : "Yes and No are among the most probable tokens");
        findings_put(r, x->reasoning ? FINDING_FAIL : FINDING_OK, "thinking", x->reasoning ? "turn thinking off at the server, or use --api completions with the model's template" : NULL,
                   "%s", x->reasoning ? "the first token opens a chain of thought" : "off: the first token is the answer");
    }
    probe_report(r, &x->answers);
    double d = fmax(fabs(x->again[0] - x->answers.logprobs[0][0]), fabs(x->again[1] - x->answers.logprobs[0][1]));
    findings_put(r, d <= 0.05 ? FINDING_OK : FINDING_WARN, "repeatable", d <= 0.05 ? NULL : "decisions near a threshold will differ from run to run", "the same prompt twice differs by %.2g", d);
    qsort(x->ms, PROBES + 1, sizeof *x->ms, upwards);
    findings_put(r, FINDING_OK, "latency", NULL, "%d calls, median %.0f ms, slowest %.0f ms", PROBES + 1, x->ms[(PROBES + 1) / 2], x->ms[PROBES]);
    if (g->t && lists) {
        if (!x->has_tokens) findings_put(r, FINDING_NOT_RUN, "prompt whole", NULL, "the server does not count the prompt's tokens");
        else findings_put(r, x->cut ? FINDING_FAIL : FINDING_OK, "prompt whole", x->cut ? "raise the server's context" : NULL, "%s", x->cut ? "the server counts fewer tokens than the prompt has" : "the server counts as many tokens as the prompt has, or more");
    }
}

static void check_answers(gateway *g) {
    static const char *const later[] = {"known answer", "latency", NULL};
    buf records[PROBES] = {{0}};
    asked x = {.fewest = SIZE_MAX};
    err why = {0};
    status s = probe_prompts(g->family, records, &why);
    for (size_t i = 0; !s && i < PROBES; i++) s = ask_one(g, &records[i], x.answers.logprobs[i], &x.ms[i], &x, &why);
    if (!s) s = ask_one(g, &records[0], x.again, &x.ms[PROBES], &x, &why);
    if (s) {
        findings_put(g->r, FINDING_FAIL, "answers", "try another --api, or a server that gives log-probabilities", "%s", why.text);
        not_run(g->r, later, "there are no answers");
    } else {
        report_asked(g, &x);
    }
    for (size_t i = 0; i < PROBES; i++) buf_free(&records[i]);
}

static void check_ids(gateway *g) {
    err why = {0};
    if (!g->t) {
        findings_put(g->r, FINDING_NOT_RUN, "label ids", "give the served model's tokenizer with --model", "there is no local tokenizer to compare with");
        return;
    }
    status s = served_ids(&g->v, g->n, g->base, g->v.name, &why);
    if (!s && !g->v.has_ids) {
        findings_put(g->r, FINDING_NOT_RUN, "label ids", "composite needs a server with /tokenize (llama.cpp, vLLM)", "the server does not tell the ids of tokens");
        return;
    }
    if (!s) s = served_ids_check(&g->v, g->t, &why);
    if (s) findings_put(g->r, FINDING_FAIL, "label ids", "name the tokenizer of the served model", "%s", why.text);
    else findings_put(g->r, FINDING_OK, "label ids", NULL, "the server and the local tokenizer give the same ids for A to Z, Yes, No and 1 to 9");
}

void doctor_gateway(findings *r, const doctor_options *o, bool ids) {
    static const char *const all[] = {"reachable", "model listed", "answers", "known answer", "latency", NULL};
    static const char *const rest[] = {"answers", "known answer", "latency", NULL};
    gateway g = {.r = r, .o = o, .family = CHAT_NONE};
    if (!check_setup(&g)) {
        not_run(r, all, "the set-up is not complete");
    } else if (!check_listed(&g)) {
        not_run(r, rest, "there is no model to ask");
        if (ids) findings_put(r, FINDING_NOT_RUN, "label ids", NULL, "there is no model to ask");
    } else {
        g.a = ask_of(o->api ? o->api : o->model ? "completions" : "chat", g.v.name);
        check_answers(&g);
        if (ids) check_ids(&g);
    }
    net_close(g.n);
    served_free(&g.v);
    tokenizer_close(g.t);
    free(g.base);
    free(g.key);
    free(g.path);
}
