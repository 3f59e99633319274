/* lib/token/chat: what the families render, where the split and the plain spans stand, and which templates are known. */
#include "token/chat.h"

#include "test.h"

static void renders(chat c, const char *system, const char *user, size_t split, const char *text, size_t at) {
    chat_text out = {0};
    err e = {0};
    strv s = strv_of(system), u = strv_of(user);
    status st = chat_render(c, s, u, split, &out, &e);
    bool same = st == ST_OK && strv_is(buf_strv(&out.text), text);
    CHECK(same, "%s renders a system text of %zu and a user text of %zu bytes", chat_name(c), s.n, u.n);
    if (!same) printf("# found '%s'\n", out.text.p ? out.text.p : e.text);
    CHECK(out.split == at, "%s: split at %zu (expected %zu)", chat_name(c), out.split, at);
    const tok_span *p = out.plain;
    CHECK(p[0].from <= p[0].to && p[0].to <= p[1].from && p[1].from <= p[1].to && p[1].to <= out.text.len, "%s: spans in order", chat_name(c));
    chat_text_free(&out);
}

static void test_render(void) {
    renders(CHAT_NONE, "S", "ab", 1, "S\n\nab", 4);
    renders(CHAT_NONE, "", "ab", 2, "ab", 2);
    renders(CHAT_CHATML, "", "ab", 0, "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n", 17);
    renders(CHAT_CHATML, " S ", " ab ", 1, "<|im_start|>system\n S <|im_end|>\n<|im_start|>user\n ab <|im_end|>\n<|im_start|>assistant\n", 51);
    renders(CHAT_QWEN2, "", "a", 0,
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", 75);
    renders(CHAT_QWEN25, "", "a", 0,
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", 115);
    renders(CHAT_QWEN25, "S", "a", 0, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", 48);
    renders(CHAT_QWEN3, "S", "a", 0,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", 48);
    renders(CHAT_SMOLLM2, "", "a", 1,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", 116);
    /* Trimming: the split moves with the text, and to an end of it from within what goes. */
    renders(CHAT_LLAMA3, "\n S\t", " \xC2\xA0\n" "ab c\xE3\x80\x80 ", 6,
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
            "ab c<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", 114 + 2);
    renders(CHAT_LLAMA3, "", "  a", 1, "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", 59);
    renders(CHAT_LLAMA3, "", "a  ", 3, "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", 60);
    renders(CHAT_LLAMA3, "", " \n ", 2, "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", 59);
    renders(CHAT_LLAMA31, "S", "a", 0,
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
            "S<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", 177);
    renders(CHAT_MISTRAL, "S", "a", 0, "<s>[INST] S\n\na[/INST]", 13);
    renders(CHAT_MISTRAL_TEKKEN, "S", "a", 0, "<s>[INST]S\n\na[/INST]", 12);
    renders(CHAT_MISTRAL_TEKKEN, "", "a", 0, "<s>[INST]a[/INST]", 9);
    renders(CHAT_GEMMA, " S ", " a ", 1, "<bos><start_of_turn>user\n S \n\na<end_of_turn>\n<start_of_turn>model\n", 30);
    chat_text out = {0};
    err e = {0};
    CHECK(chat_render(CHAT_NONE, strv_of(""), strv_of("ab"), 3, &out, &e) == ST_INPUT && strstr(e.text, "'split'"), "a split behind the end: %s", e.text);
    chat_text_free(&out);
}

static void known(const char *text, chat want) {
    chat c = CHAT_COUNT;
    err e = {0};
    status s = chat_of_template(strv_of(text), "t", &c, &e);
    CHECK(s == ST_OK && c == want, "known as %s", chat_name(want));
    if (s) printf("# %s\n", e.text);
}

static void unknown(const char *text, const char *why) {
    chat c;
    err e = {0};
    CHECK(chat_of_template(strv_of(text), "t", &c, &e) == ST_REFUSED && strstr(e.text, why), "refused: %s", e.text);
}

static void test_known(void) {
    known("{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n'}}{% endfor %}", CHAT_CHATML);
    known("{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}", CHAT_QWEN25);
    known("{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}", CHAT_QWEN2);
    known("{{ \"<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\" }}", CHAT_SMOLLM2);
    known("{{- '<|im_start|>system\\n' + messages[0].content }}{%- if enable_thinking is defined and enable_thinking is false %}"
          "{{- '<think>\\n\\n</think>\\n\\n' }}", CHAT_QWEN3);
    known("{{ bos_token + '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}", CHAT_LLAMA3);
    known("{%- set date_string = \"26 Jul 2024\" %}<|start_header_id|>{{- \"Cutting Knowledge Date: December 2023\\n\" }}<|eot_id|>", CHAT_LLAMA31);
    known("{{- \"[INST] \" + system_message + \"\\n\\n\" + m.content + \"[/INST]\" }}", CHAT_MISTRAL);
    known("{{- \"[INST]\" + system_message + \"\\n\\n\" + m.content + \"[/INST]\" }}", CHAT_MISTRAL_TEKKEN);
    known("{%- set first_user_prefix = m.content + '\\n\\n' -%}{{ '<start_of_turn>' }}", CHAT_GEMMA);
    unknown("", "no known family");
    unknown("{{ messages | tojson }}", "no known family");
    unknown("{{ '<|im_start|>system\\nYou are a pirate.<|im_end|>\\n' }}", "default system text");
    unknown("{{ bos_token }}{{ '<|im_start|>' }}", "BOS");
    unknown("{{ '<|im_start|>' + m.content | trim }}", "trims");
    unknown("{{ '<|im_start|>assistant\\n<think>\\n' }}", "thinks");
    unknown("{{ '<|im_start|>user<|im_sep|>' }}", "other marks");
    unknown("<|start_header_id|>{{ 'Cutting Knowledge Date: March 2030\\n' }}<|eot_id|>", "date");
    unknown("{{ '[INST] <<SYS>>\\n' }}", "[INST]");
    unknown("{{ ' [INST] ' + system_message + '\\n\\n' + m.content + ' [/INST]' }}", "[INST]");
    unknown("{{ raise_exception('System role not supported') }}{{ '<start_of_turn>' }}", "system text");
}

static void test_names(void) {
    err e = {0};
    chat c;
    buf all = {0};
    size_t wrong = 0;
    for (int i = 0; i < CHAT_COUNT; i++) {
        if (chat_named(chat_name((chat)i), &c, &e) != ST_OK || c != (chat)i) wrong++;
        buf_printf(&all, "%s%s", i ? "|" : "", chat_name((chat)i));
    }
    CHECK(wrong == 0 && strv_is(buf_strv(&all), CHAT_NAMES), "every family has its name in CHAT_NAMES");
    CHECK(chat_named("alpaca", &c, &e) == ST_USAGE && strstr(e.text, "alpaca"), "an unknown name: %s", e.text);
    /* A model without a template has none; a path that is no model is a mistake, not such a model. */
    CHECK(chat_of_model("tests/fixtures/tokenizers/toy", &c, &e) == ST_OK && c == CHAT_NONE, "no template: none %s", e.text);
    CHECK(chat_of_model("/nowhere", &c, &e) == ST_INPUT, "no model: refused");
    buf_free(&all);
}

int main(void) {
    test_render();
    test_known();
    test_names();
    return test_end();
}
