#include "token/control.h"

#include <string.h>

static const char *const mistral[] = {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]",
                                      "[/TOOL_RESULTS]", "<<SYS>>", "<</SYS>>", "<s>", "</s>", NULL};
static const char *const gemma[] = {"<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", NULL};

enum { WORD_MAX = 64 };

/* Length of <|word|> at the start of v, else 0. The bars of some models are full-width (U+FF5C). */
static size_t barred(strv v) {
    static const char wide[] = "\xEF\xBD\x9C";
    bool is_wide = strv_starts(v, "<\xEF\xBD\x9C");
    if (!is_wide && !strv_starts(v, "<|")) return 0;
    size_t bar = is_wide ? 3 : 1;
    for (size_t i = 1 + bar; i + bar < v.n && i < WORD_MAX; i++) {
        if (v.p[i] == '<' || v.p[i] == '\n') return 0;
        if (memcmp(v.p + i, is_wide ? wide : "|", bar) == 0 && v.p[i + bar] == '>') return i > 1 + bar ? i + bar + 1 : 0;
    }
    return 0;
}

static size_t listed(strv v, const char *const *list) {
    for (; *list; list++)
        if (strv_starts(v, *list)) return strlen(*list);
    return 0;
}

bool control_find(strv text, strv template, strv *which) {
    bool is_mistral = strv_starts(template, "mistral"), is_gemma = strv_starts(template, "gemma");
    bool is_barred = strv_starts(template, "chatml") || strv_starts(template, "qwen") || strv_starts(template, "llama") || strv_starts(template, "smollm");
    bool all = !is_mistral && !is_gemma && !is_barred;
    for (size_t i = 0; i < text.n; i++) {
        strv rest = {text.p + i, text.n - i};
        if (*rest.p != '<' && *rest.p != '[') continue;
        size_t n = all || is_barred ? barred(rest) : 0;
        if (!n && (all || is_mistral)) n = listed(rest, mistral);
        if (!n && (all || is_gemma)) n = listed(rest, gemma);
        if (!n) continue;
        *which = (strv){rest.p, n};
        return true;
    }
    return false;
}
