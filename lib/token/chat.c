#include "token/chat.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "json/json.h"
#include "weights/gguf.h"

/* What stands around the texts. */
typedef struct family {
    const char *name;
    const char *system_head, *system_tail; /* around the system text */
    const char *no_system;                 /* instead of both when there is none */
    const char *user_head, *user_tail;
    bool trim_system, trim_user; /* the template trims white space around the text */
} family;

#define LLAMA31_SYSTEM                                                                                                 \
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: " \
    "26 Jul 2024\n\n"

static const family families[CHAT_COUNT] = {
    [CHAT_NONE] = {"none", "", "\n\n", "", "", "", false, false},
    [CHAT_CHATML] = {"chatml", "<|im_start|>system\n", "<|im_end|>\n", "", "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", false, false},
    [CHAT_QWEN2] = {"qwen2", "<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n",
                    "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", false, false},
    [CHAT_QWEN25] = {"qwen2.5", "<|im_start|>system\n", "<|im_end|>\n",
                     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n",
                     "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", false, false},
    [CHAT_QWEN3] = {"qwen3", "<|im_start|>system\n", "<|im_end|>\n", "", "<|im_start|>user\n",
                    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", false, false},
    [CHAT_SMOLLM2] = {"smollm2", "<|im_start|>system\n", "<|im_end|>\n",
                      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n",
                      "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", false, false},
    [CHAT_LLAMA3] = {"llama3", "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", "<|begin_of_text|>",
                     "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", true, true},
    [CHAT_LLAMA31] = {"llama3.1", LLAMA31_SYSTEM, "<|eot_id|>", LLAMA31_SYSTEM "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\n",
                      "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", true, true},
    [CHAT_MISTRAL] = {"mistral", "<s>[INST] ", "\n\n", "<s>[INST] ", "", "[/INST]", false, false},
    [CHAT_MISTRAL_TEKKEN] = {"mistral-tekken", "<s>[INST]", "\n\n", "<s>[INST]", "", "[/INST]", false, false},
    [CHAT_GEMMA] = {"gemma", "<bos><start_of_turn>user\n", "\n\n", "<bos><start_of_turn>user\n", "", "<end_of_turn>\n<start_of_turn>model\n", false, true},
};

const char *chat_name(chat c) {
    return families[c].name;
}

status chat_named(const char *name, chat *c, err *e) {
    for (int i = 0; i < CHAT_COUNT; i++)
        if (strcmp(families[i].name, name) == 0) {
            *c = (chat)i;
            return ST_OK;
        }
    return err_set(e, ST_USAGE, "chat template '%s' is not known; expected one of %s", name, CHAT_NAMES);
}

static bool has(const buf *text, const char *part) {
    return text->len && memmem(text->p, text->len, part, strlen(part)) != NULL;
}

/* Templates differ in how they quote: here \n is a line end and every quote a single one. */
static void plain_template(strv text, buf *out) {
    for (size_t i = 0; i < text.n; i++) {
        bool escape = text.p[i] == '\\' && i + 1 < text.n;
        if (escape && text.p[i + 1] == 'n') buf_byte(out, '\n'), i++;
        else buf_byte(out, text.p[i] == '"' ? '\'' : text.p[i]);
    }
}

/* The system turn starts with words of the template's own. */
static bool has_own_system(const buf *text, const char *head) {
    size_t n = strlen(head);
    for (const char *p = text->p, *end = text->p + text->len; (p = memmem(p, (size_t)(end - p), head, n)) != NULL; p += n)
        if (p + n < end && p[n] != '\'') return true;
    return false;
}

static const char *chatml_of(const buf *t, chat *c) {
    static const char own[] = "<|im_start|>system\n";
    if (has(t, "<|im_sep|>")) return "is a ChatML with other marks";
    if (has(t, "bos_token")) return "is a ChatML that writes a BOS token";
    if (has(t, "trim")) return "is a ChatML that trims its texts";
    if (has(t, "<think>")) {
        /* Qwen3 closes an empty think block when thinking is off; others think always, or close it otherwise. */
        *c = CHAT_QWEN3;
        return has(t, "enable_thinking is false") && has(t, "'<think>\n\n</think>\n\n'") && !has_own_system(t, own) ? NULL : "thinks in a way that is not known";
    }
    /* A default system turn is a literal that ends where the turn ends. */
    *c = CHAT_CHATML;
    static const chat with_default[] = {CHAT_QWEN2, CHAT_QWEN25, CHAT_SMOLLM2};
    for (size_t i = 0; i < sizeof with_default / sizeof *with_default; i++)
        if (has(t, families[with_default[i]].no_system)) *c = with_default[i];
    return *c == CHAT_CHATML && (has_own_system(t, own) || has(t, "You are")) ? "is a ChatML whose default system text is not known" : NULL;
}

static const char *llama_of(const buf *t, chat *c) {
    *c = CHAT_LLAMA3;
    if (!has(t, "'Cutting Knowledge Date")) return has(t, "strftime_now") || has(t, "date_string") ? "writes a date in a way that is not known" : NULL;
    *c = CHAT_LLAMA31;
    return has(t, "'Cutting Knowledge Date: December 2023\n'") && has(t, "date_string = '26 Jul 2024'") ? NULL : "writes a date in a way that is not known";
}

static const char *mistral_of(const buf *t, chat *c) {
    if (has(t, "<<SYS>>") || has(t, "[SYSTEM_PROMPT]") || has(t, " [/INST]") || has(t, " [INST]")) return "is an [INST] form that is not known";
    if (!has(t, "system_message + '\n\n'")) return "is an [INST] form without a system text";
    *c = has(t, "'[INST] '") ? CHAT_MISTRAL : CHAT_MISTRAL_TEKKEN;
    return has(t, "'[INST] '") || has(t, "'[INST]'") ? NULL : "is an [INST] form that is not known";
}

static const char *gemma_of(const buf *t, chat *c) {
    *c = CHAT_GEMMA;
    return has(t, "first_user_prefix") ? NULL : "has no place for a system text";
}

status chat_of_template(strv text, const char *what, chat *c, err *e) {
    buf t = {0};
    plain_template(text, &t);
    status s = buf_ok(&t, e);
    if (s) return s;
    const char *why = "is of no known family";
    if (has(&t, "<|im_start|>")) why = chatml_of(&t, c);
    else if (has(&t, "<|start_header_id|>") && has(&t, "<|eot_id|>")) why = llama_of(&t, c);
    else if (has(&t, "[INST]")) why = mistral_of(&t, c);
    else if (has(&t, "<start_of_turn>")) why = gemma_of(&t, c);
    buf_free(&t);
    return why ? err_set(e, ST_REFUSED, "%s: the chat template %s; name one with --template: %s", what, why, CHAT_NAMES) : ST_OK;
}

status chat_of_gguf(const gguf *g, chat *c, err *e) {
    strv text;
    *c = CHAT_NONE;
    return gguf_text(g, "tokenizer.chat_template", &text) ? chat_of_template(text, gguf_path(g), c, e) : ST_OK;
}

static status of_gguf(const char *path, chat *c, err *e) {
    gguf *g;
    status s = gguf_open(&g, path, e);
    if (s) return s;
    s = chat_of_gguf(g, c, e);
    gguf_close(g);
    return s;
}

static status of_config(const char *path, chat *c, err *e) {
    buf text = {0}, scratch = {0};
    json doc = {0};
    status s = json_read_file(&doc, &text, path, e);
    if (!s) {
        jref t = json_get(&doc, JREF_ROOT, "chat_template");
        if (json_kind_of(&doc, t) == JSON_ARRAY) { /* several by name: "default" counts */
            jref list = t;
            t = JREF_NONE;
            for (jref x = json_first(&doc, list); x != JREF_NONE; x = json_next(&doc, list, x))
                if (json_is(&doc, json_get(&doc, x, "name"), "default")) t = json_get(&doc, x, "template");
        }
        strv v;
        if (json_kind_of(&doc, t) == JSON_STRING && !(s = json_text(&doc, t, &scratch, &v, e))) s = chat_of_template(v, path, c, e);
    }
    json_free(&doc);
    buf_free(&text);
    buf_free(&scratch);
    return s;
}

/* The folder of the model: path itself, or where the file lies. */
static void folder_of(const char *path, bool is_folder, buf *out) {
    const char *slash = strrchr(path, '/');
    if (is_folder) buf_text(out, path);
    else if (slash) buf_put(out, path, (size_t)(slash - path) + (slash == path));
    else buf_text(out, ".");
}

static bool ends_in(const char *s, const char *tail) {
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* No template is a model's right; no model at all is a mistake in the path, and must not pass for it. */
static status check_model(const char *path, bool is_folder, err *e) {
    static const char *const marks[] = {"tokenizer.json", "tokenizer.json.zst", "tokenizer_config.json", "chat_template.jinja"};
    bool found = !is_folder && (ends_in(path, ".json") || ends_in(path, ".json.zst"));
    buf file = {0};
    for (size_t i = 0; is_folder && !found && i < sizeof marks / sizeof *marks; i++) {
        buf_clear(&file);
        buf_printf(&file, "%s/%s", path, marks[i]);
        found = !file.failed && access(file.p, F_OK) == 0;
    }
    buf_free(&file);
    if (found) return ST_OK;
    return err_set(e, ST_INPUT, "%s: no model; expected a GGUF file, or a folder with tokenizer.json", path);
}

status chat_of_model(const char *path, chat *c, err *e) {
    struct stat st;
    *c = CHAT_NONE;
    bool is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!is_folder && gguf_is(path)) return of_gguf(path, c, e);
    status m = check_model(path, is_folder, e);
    if (m) return m;
    buf file = {0}, text = {0};
    folder_of(path, is_folder, &file);
    size_t n = file.len;
    buf_text(&file, "/chat_template.jinja");
    status s = buf_ok(&file, e);
    if (!s && access(file.p, F_OK) == 0) {
        s = file_read(file.p, &text, e);
        if (!s) s = chat_of_template(buf_strv(&text), file.p, c, e);
    } else if (!s) {
        file.len = n;
        buf_text(&file, "/tokenizer_config.json");
        s = buf_ok(&file, e);
        if (!s && access(file.p, F_OK) == 0) s = of_config(file.p, c, e);
    }
    buf_free(&file);
    buf_free(&text);
    return s;
}

/* White space as the templates' trim means it: Python's str.strip. Bytes of the character at p when it is, else 0. */
static size_t white(const char *p, size_t n) {
    const unsigned char *u = (const unsigned char *)p;
    if (n && (u[0] == ' ' || (u[0] >= 0x09 && u[0] <= 0x0D) || (u[0] >= 0x1C && u[0] <= 0x1F))) return 1;
    if (n > 1 && u[0] == 0xC2 && (u[1] == 0x85 || u[1] == 0xA0)) return 2;
    if (n < 3) return 0;
    unsigned c = u[0] == 0xE1 || u[0] == 0xE2 || u[0] == 0xE3 ? (u[0] & 15u) << 12 | (u[1] & 63u) << 6 | (u[2] & 63u) : 0;
    return c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000 ? 3 : 0;
}

/* *lead: bytes taken away in front. */
static strv trimmed(strv v, size_t *lead) {
    size_t k;
    *lead = 0;
    while ((k = white(v.p, v.n))) v.p += k, v.n -= k, *lead += k;
    for (;;) {
        size_t at = v.n; /* the last character starts here */
        while (at && ((unsigned char)v.p[--at] & 0xC0) == 0x80) continue;
        if (!v.n || white(v.p + at, v.n - at) != v.n - at) return v;
        v.n = at;
    }
}

/* Adds one text, trimmed where the template trims, and moves the split along. */
static void add_text(bool trim, strv v, size_t *split, chat_text *out, tok_span *where) {
    size_t lead = 0;
    if (trim) v = trimmed(v, &lead);
    where->from = out->text.len;
    if (split) {
        size_t at = *split > lead ? *split - lead : 0;
        out->split = out->text.len + (at > v.n ? v.n : at);
    }
    buf_view(&out->text, v);
    where->to = out->text.len;
}

status chat_render(chat c, strv system, strv user, size_t split, chat_text *out, err *e) {
    const family *f = &families[c];
    buf_clear(&out->text);
    if (split > user.n) return err_set(e, ST_INPUT, "field 'split': %zu lies behind the user's text of %zu bytes", split, user.n);
    if (system.n) {
        buf_text(&out->text, f->system_head);
        add_text(f->trim_system, system, NULL, out, &out->plain[0]);
        buf_text(&out->text, f->system_tail);
    } else {
        buf_text(&out->text, f->no_system);
        out->plain[0] = (tok_span){out->text.len, out->text.len};
    }
    buf_text(&out->text, f->user_head);
    add_text(f->trim_user, user, &split, out, &out->plain[1]);
    buf_text(&out->text, f->user_tail);
    return buf_ok(&out->text, e);
}

void chat_text_free(chat_text *t) {
    buf_free(&t->text);
}
