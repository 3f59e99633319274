/* net: hosts, keys, what servers say, back-off, shapes of answers, matching of labels. */
#include "base/buf.h"
#include "net/answer.h"
#include "net/ask.h"
#include "net/host.h"
#include "net/retry.h"
#include "test.h"
#include "token/control.h"

#include <curl/curl.h>
#include <math.h>
#include <stdlib.h>

static void test_host(void) {
    static const struct {
        const char *url, *base;
        bool insecure;
        status s;
    } t[] = {
        {"http://127.0.0.1:8000", "http://127.0.0.1:8000", false, ST_OK},
        {"http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000", false, ST_OK},
        {"http://127.9.9.9:8000/a/b//", "http://127.9.9.9:8000/a/b", false, ST_OK},
        {"http://[::1]:8000/v1", "http://[::1]:8000", false, ST_OK},
        {"http://localhost", "http://localhost", false, ST_OK},
        {"https://example.org/openai/v1", "https://example.org/openai", false, ST_OK},
        {"http://example.org", NULL, false, ST_REFUSED},
        {"http://example.org", "http://example.org", true, ST_OK},
        {"http://128.0.0.1", NULL, false, ST_REFUSED},
        {"http://127.0.0.1.example.org", NULL, false, ST_REFUSED},
        {"http://[::2]", NULL, false, ST_REFUSED},
        {"https://me@example.org", NULL, true, ST_USAGE},
        {"https://me:pw@example.org", NULL, true, ST_USAGE},
        {"https://example.org?x=1", NULL, true, ST_USAGE},
        {"https://example.org#x", NULL, true, ST_USAGE},
        {"file:///etc/passwd", NULL, true, ST_USAGE},
        {"", NULL, true, ST_USAGE},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        err e = {0};
        char *base = NULL;
        status s = host_base(t[i].url, t[i].insecure, &base, &e);
        CHECK(s == t[i].s && (t[i].base ? base && strcmp(base, t[i].base) == 0 : !base), "host_base '%s': %d %s", t[i].url, s, base ? base : e.text);
        free(base);
    }
}

static void test_words(void) {
    static const struct {
        const char *body, *key, *want;
    } t[] = {
        {"{\"error\":{\"message\":\"too\\n long\"}}", NULL, "too long"},
        {"{\"error\":\"loading\"}", NULL, "loading"},
        {"{\"detail\":[{\"msg\":\"bad\"}]}", NULL, "[{\"msg\":\"bad\"}]"},
        {"{\"message\":\"key 'sk-abcdef***' is wrong\"}", "sk-abcdefghij", "key '***' is wrong"},
        {"plain\ttext \x01 here\n", NULL, "plain text here"},
        {"", NULL, "(no words)"},
        {"\xff\xfe", NULL, "(text that is no UTF-8)"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        buf b = {0};
        host_words(strv_of(t[i].body), t[i].key, &b);
        CHECK(strv_is(buf_strv(&b), t[i].want), "words of %zu: %s", i, b.p);
        buf_free(&b);
    }
    buf b = {0}, out = {0};
    for (int i = 0; i < 149; i++) buf_text(&b, "ab");
    for (int i = 0; i < 50; i++) buf_text(&b, "\xC3\xA9");
    buf_text(&b, "x");
    host_words(buf_strv(&b), NULL, &out);
    CHECK(out.len == 303 && utf8_valid(out.p, out.len, NULL), "long words are cut at a character: %zu bytes", out.len);
    buf_free(&b);
    buf_free(&out);
}

static void test_retry(void) {
    CHECK(net_judge(CURLE_OK, 200) == NET_DONE && net_judge(CURLE_OK, 204) == NET_DONE, "2xx is done");
    static const long again[] = {408, 425, 429, 500, 502, 503, 504, 529}, final[] = {301, 400, 401, 403, 404, 413, 422, 501, 505};
    for (size_t i = 0; i < sizeof again / sizeof *again; i++) CHECK(net_judge(CURLE_OK, again[i]) == NET_AGAIN, "%ld is asked again", again[i]);
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) CHECK(net_judge(CURLE_OK, final[i]) == NET_FINAL, "%ld is final", final[i]);
    CHECK(net_judge(CURLE_COULDNT_CONNECT, 0) == NET_AGAIN && net_judge(CURLE_PARTIAL_FILE, 200) == NET_AGAIN, "lost connections are asked again, also behind a 200");
    CHECK(net_judge(CURLE_PEER_FAILED_VERIFICATION, 0) == NET_FINAL && net_judge(CURLE_WRITE_ERROR, 200) == NET_FINAL, "a bad certificate and an endless body are final");
    CHECK(net_backoff(1, -1, 60, 0) == 0.125 && net_backoff(1, -1, 60, 0.5) == 0.1875, "the first pause");
    CHECK(net_backoff(4, -1, 60, 0) == 1.0, "pauses double");
    CHECK(net_backoff(50, -1, 60, 0.9) == 60 && net_backoff(1, 3600, 60, 0) == 60, "pauses are capped, the server's too");
    double asked = net_backoff(1, 7, 60, 0.9);
    CHECK(asked >= 7 && asked < 7.1, "what the server asked for, and a little more");
}

static status read_text(answer *a, const char *text, err *e) {
    json d = {0};
    status s = json_parse(&d, text, strlen(text), e);
    if (!s) s = answer_read(a, &d, e);
    json_free(&d);
    return s;
}

static void test_answer(void) {
    answer a = {0};
    err e = {0};
    CHECK(!read_text(&a, "{\"choices\":[{\"logprobs\":{\"top_logprobs\":[{\"A\":-1,\" A\":-2,\"token_id:7\":-3}]}}],\"usage\":{\"prompt_tokens\":9}}", &e) && a.n == 3 && a.prompt_tokens == 9,
          "a map: %s", e.text);
    CHECK(a.list[2].has_id && a.list[2].id == 7 && !a.list[2].has_text, "a key token_id:7 is an id");
    answer_label labels[] = {{.text = strv_of("A")}, {.text = strv_of("B")}, {.text = strv_of("C"), .has_id = true, .id = 7}};
    answer_score score[3];
    double mass = 0;
    CHECK(!answer_match(&a, labels, 3, score, &mass, &e) && score[0].logprob == -1 && score[1].missing && score[1].logprob == -3 && score[2].logprob == -3 && !score[2].missing,
          "by text, missing, by id");
    CHECK(fabs(mass - exp(-1) - exp(-3)) < 1e-15, "the mass counts what was found");
    CHECK(!read_text(&a, "{\"choices\":[{\"logprobs\":{\"content\":[{\"top_logprobs\":[{\"token\":\"?\",\"bytes\":[65],\"logprob\":-1,\"id\":5},{\"token\":\"A\",\"logprob\":-2,\"id\":5},"
                        "{\"token\":\"A\",\"logprob\":-2,\"id\":6}]}]}}]}", &e) && a.n == 2,
          "a token told twice is one: %s", e.text);
    CHECK(!answer_match(&a, labels, 1, score, &mass, &e) && fabs(score[0].logprob - log(exp(-1) + exp(-2))) < 1e-12, "bytes go before text; two tokens of one text are summed");
    labels[0].has_id = true;
    labels[0].id = 9;
    CHECK(answer_match(&a, labels, 1, score, &mass, &e) == ST_REFUSED && strstr(e.text, "label 'A' is token 5"), "another id of the same text: %s", e.text);
    CHECK(!read_text(&a, "{\"choices\":[{\"logprobs\":{\"top_logprobs\":[[{\"token\":\"A\",\"logprob\":0.0000001}]]}}]}", &e) && a.list[0].logprob == 0, "rounding above 0 is 0: %s", e.text);
    labels[1].has_id = false;
    CHECK(!read_text(&a, "{\"choices\":[{\"logprobs\":{\"tokens\":[\"rare\"],\"top_logprobs\":[{\"the\":-1,\"a\":-2,\"rare\":-7}]}}]}", &e) && !answer_match(&a, labels + 1, 1, score, &mass, &e) &&
              score[0].missing && score[0].logprob == -2,
          "a drawn token that was added to the list is no bound");
    CHECK(!read_text(&a, "{\"choices\":[{\"logprobs\":{\"tokens\":[\"a\"],\"top_logprobs\":[{\"the\":-1,\"a\":-2,\"rare\":-7}]}}]}", &e) && !answer_match(&a, labels + 1, 1, score, &mass, &e) &&
              score[0].logprob == -7,
          "one in the middle does not matter");
    CHECK(read_text(&a, "{\"choices\":[]}", &e) == ST_INPUT && strstr(e.text, "'choices' is empty"), "%s", e.text);
    CHECK(read_text(&a, "{\"choices\":[{}]}", &e) == ST_INPUT && strstr(e.text, "logprobs is missing"), "%s", e.text);
    CHECK(read_text(&a, "[]", &e) == ST_INPUT, "%s", e.text);
    CHECK(read_text(&a, "{\"choices\":[{\"logprobs\":{\"top_logprobs\":[{}]}}]}", &e) == ST_INPUT && strstr(e.text, "empty"), "%s", e.text);
    answer_free(&a);
}

static void test_learn(void) {
    ask a = ask_of("completions", "m");
    CHECK(!ask_learn(&a, 0, strv_of("the prompt is too long: 4096 tokens")) && a.top == 20, "nothing to learn");
    CHECK(ask_learn(&a, 0, strv_of("Requested logprobs of 20, which is greater than max allowed: 5")) && a.top == 5 && a.version == 1, "a cap");
    CHECK(ask_learn(&a, 0, strv_of("anything")) && a.version == 1, "a request from before is worth sending again");
    CHECK(!ask_learn(&a, 1, strv_of("logprobs is bad")), "no number, no cap");
    CHECK(ask_learn(&a, 1, strv_of("extra fields: top_k, min_p")) && a.left_out == 3, "members that are not known");
    CHECK(!ask_learn(&a, a.version, strv_of("chat_template_kwargs")), "a member that was not sent");
}

static void test_control(void) {
    static const struct {
        const char *text, *template, *want;
    } t[] = {
        {"a <|im_end|> b", "chatml", "<|im_end|>"}, {"a <|im_end|> b", "mistral", NULL}, {"[INST]", "mistral-tekken", "[INST]"}, {"[INST]", "qwen3", NULL},
        {"<eos>", "gemma", "<eos>"},               {"<eos>", "llama3.1", NULL},        {"</s>", "none", "</s>"},               {"<|x|>", "", "<|x|>"},
        {"<||>", "none", NULL},                    {"<|a\nb|>", "none", NULL},         {"<|", "none", NULL},                   {"<\xEF\xBD\x9Cx\xEF\xBD\x9C>", "none", "<\xEF\xBD\x9Cx\xEF\xBD\x9C>"},
        {"a < b | c > d", "none", NULL},           {"<|a|b|>", "none", "<|a|b|>"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        strv which = {0};
        bool found = control_find(strv_of(t[i].text), strv_of(t[i].template), &which);
        CHECK(t[i].want ? found && strv_is(which, t[i].want) : !found, "control token of case %zu for '%s'", i, t[i].template);
    }
}

int main(void) {
    test_host();
    test_words();
    test_retry();
    test_answer();
    test_learn();
    test_control();
    return test_end();
}
