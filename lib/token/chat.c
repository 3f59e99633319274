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
    const char *joined; /* not NULL: the system text goes before the user's, in the user's turn, with this between */
    bool trims;         /* the template trims white space around each text */
} family;

static const family families[CHAT_COUNT] = {
    [CHAT_NONE] = {"none", "", "\n\n", "", "", "", NULL, false},
    [CHAT_CHATML] = {"chatml", "<|im_start|>system\n", "<|im_end|>\n",
                     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n",
                     "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", NULL, false},
    [CHAT_QWEN3] = {"qwen3", "<|im_start|>system\n", "<|im_end|>\n", "", "<|im_start|>user\n",
                    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", NULL, false},
    [CHAT_SMOLLM2] = {"smollm2", "<|im_start|>system\n", "<|im_end|>\n",
                      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n",
                      "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", NULL, false},
    [CHAT_LLAMA3] = {"llama3", "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", "<|begin_of_text|>",
                     "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", NULL, true},
    [CHAT_MISTRAL] = {"mistral", "<s>[INST] ", "", "<s>[INST] ", "", "[/INST]", "\n\n", false},
    [CHAT_GEMMA] = {"gemma", "<bos><start_of_turn>user\n", "", "<bos><start_of_turn>user\n", "", "<end_of_turn>\n<start_of_turn>model\n", "\n\n", true},
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

static bool has(strv text, const char *part) {
    return text.n && memmem(text.p, text.n, part, strlen(part)) != NULL;
}

status chat_of_template(strv text, const char *what, chat *c, err *e) {
    if (has(text, "<|im_start|>")) {
        if (has(text, "<think>")) {
            /* Qwen3 closes an empty think block when thinking is off; later families write other blocks. */
            bool off = has(text, "enable_thinking") && has(text, "<think>\\n\\n</think>\\n\\n");
            if (!off) return err_set(e, ST_REFUSED, "%s: the chat template thinks in a way that is not known", what);
            *c = CHAT_QWEN3;
        } else if (has(text, "SmolLM")) {
            *c = CHAT_SMOLLM2;
        } else if (has(text, "You are Qwen") || !has(text, "You are a helpful")) {
            *c = CHAT_CHATML;
        } else {
            return err_set(e, ST_REFUSED, "%s: the chat template is a ChatML whose default system text is not known", what);
        }
        return ST_OK;
    }
    if (has(text, "<|start_header_id|>") && has(text, "<|eot_id|>")) {
        /* Llama 3.1 and later put the date of the day into the system turn: the same input would not give the same bytes. */
        if (has(text, "Cutting Knowledge Date"))
            return err_set(e, ST_REFUSED, "%s: the chat template writes today's date into the prompt, which cannot be reproduced; give --template llama3 to leave it out", what);
        *c = CHAT_LLAMA3;
        return ST_OK;
    }
    if (has(text, "[INST]") && !has(text, "<<SYS>>") && !has(text, "[SYSTEM_PROMPT]")) {
        *c = CHAT_MISTRAL;
        return ST_OK;
    }
    if (has(text, "<start_of_turn>")) {
        *c = CHAT_GEMMA;
        return ST_OK;
    }
    return err_set(e, ST_REFUSED, "%s: the chat template is of no known family (%s); name one with --template", what, CHAT_NAMES);
}

static status of_gguf(const char *path, chat *c, err *e) {
    gguf *g;
    status s = gguf_open(&g, path, e);
    if (s) return s;
    strv text;
    if (gguf_text(g, "tokenizer.chat_template", &text)) s = chat_of_template(text, path, c, e);
    gguf_close(g);
    return s;
}

static status of_config(const char *path, chat *c, err *e) {
    buf text = {0}, scratch = {0};
    json doc = {0};
    status s = file_read(path, &text, e);
    if (!s && (s = json_parse(&doc, text.p, text.len, e))) err_prefix(e, "%s", path);
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

status chat_of_model(const char *path, chat *c, err *e) {
    struct stat st;
    *c = CHAT_NONE;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return of_gguf(path, c, e);
    buf file = {0}, text = {0};
    buf_printf(&file, "%s/chat_template.jinja", path);
    status s = buf_ok(&file, e);
    if (!s && access(file.p, F_OK) == 0) {
        s = file_read(file.p, &text, e);
        if (!s) s = chat_of_template(buf_strv(&text), file.p, c, e);
    } else if (!s) {
        buf_clear(&file);
        buf_printf(&file, "%s/tokenizer_config.json", path);
        s = buf_ok(&file, e);
        if (!s && access(file.p, F_OK) == 0) s = of_config(file.p, c, e);
    }
    buf_free(&file);
    buf_free(&text);
    return s;
}

static bool white(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Adds one text, trimmed where the template trims, and moves the split along. */
static void add_text(const family *f, strv v, size_t *split, chat_text *out, tok_span *where) {
    size_t lead = 0;
    if (f->trims) {
        while (lead < v.n && white(v.p[lead])) lead++;
        v.p += lead;
        v.n -= lead;
        while (v.n && white(v.p[v.n - 1])) v.n--;
    }
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
    out->plain[0] = (tok_span){0, 0};
    if (split > user.n) return err_set(e, ST_INPUT, "field 'split': %zu lies behind the user's text of %zu bytes", split, user.n);
    if (system.n) {
        buf_text(&out->text, f->system_head);
        add_text(f, system, NULL, out, &out->plain[0]);
        buf_text(&out->text, f->joined ? f->joined : f->system_tail);
    } else {
        buf_text(&out->text, f->no_system);
        out->plain[0] = (tok_span){out->text.len, out->text.len};
    }
    buf_text(&out->text, f->user_head);
    add_text(f, user, &split, out, &out->plain[1]);
    buf_text(&out->text, f->user_tail);
    return buf_ok(&out->text, e);
}

void chat_text_free(chat_text *t) {
    buf_free(&t->text);
}
