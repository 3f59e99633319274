/* tokenize: records with text, or prompts, get the ids of the model's own tokenizer. */
#include <stdlib.h>

#include "json/record.h"
#include "token/prompt.h"
#include "weights/locate.h"

typedef struct state {
    tokenizer *t;
    char *path; /* of the model */
    const char *family_name; /* --template, or NULL */
    chat family;
    bool family_known, pieces, allow;
    buf text, ids_json, pieces_json, line; /* of the record at hand */
    tok_ids ids;
} state;

/* The chat template is looked at when the first prompt needs it: plain texts do without. */
static status family_get(state *s, err *e) {
    if (s->family_known) return ST_OK;
    status st = s->family_name ? chat_named(s->family_name, &s->family, e) : chat_of_model(s->path, &s->family, e);
    s->family_known = st == ST_OK;
    return st;
}

static status encode(state *s, const json *rec, err *e) {
    jref text = json_get(rec, JREF_ROOT, "text");
    s->ids.n = 0;
    if (text == JREF_NONE || json_is(rec, json_get(rec, JREF_ROOT, "type"), "prompt")) {
        if (!prompt_has_user(rec) && json_get(rec, JREF_ROOT, "prefix") == JREF_NONE)
            return err_set(e, ST_INPUT, "found neither 'text' nor a prompt's 'user' or 'prefix'");
        status st = prompt_has_user(rec) ? family_get(s, e) : ST_OK;
        return st ? st : prompt_encode(s->t, s->family, rec, s->allow, &s->ids, e);
    }
    strv v;
    if (json_kind_of(rec, text) != JSON_STRING)
        return err_set(e, ST_INPUT, "field 'text': found %s, expected a string", json_kind_name(json_kind_of(rec, text)));
    status st = json_text(rec, text, &s->text, &v, e);
    tok_span whole = {0, v.n};
    return st ? err_prefix(e, "field 'text'") : tokenizer_encode(s->t, v, &whole, s->allow ? 0 : 1, &s->ids, e);
}

static void ids_write(state *s) {
    jw w = jw_of(&s->ids_json);
    buf_clear(&s->ids_json);
    jw_open(&w, '[');
    for (size_t i = 0; i < s->ids.n; i++) jw_size(&w, s->ids.id[i]);
    jw_close(&w, ']');
}

/* A piece is a string, or its bytes as numbers when it holds a part of a character only. */
static void pieces_write(state *s) {
    jw w = jw_of(&s->pieces_json);
    buf_clear(&s->pieces_json);
    jw_open(&w, '[');
    for (size_t i = 0; i < s->ids.n; i++) {
        strv p = tokenizer_piece(s->t, s->ids.id[i]);
        if (utf8_valid(p.p, p.n, NULL)) {
            jw_view(&w, p);
            continue;
        }
        jw_open(&w, '[');
        for (size_t k = 0; k < p.n; k++) jw_size(&w, (unsigned char)p.p[k]);
        jw_close(&w, ']');
    }
    jw_close(&w, ']');
}

static status record(state *s, const json *rec, records *r, err *e) {
    status st = encode(s, rec, e);
    if (st) return st;
    ids_write(s);
    if (s->pieces) pieces_write(s);
    if ((st = buf_ok(&s->ids_json, e)) || (st = buf_ok(&s->pieces_json, e))) return st;
    json_field fields[] = {{"ids", buf_strv(&s->ids_json)}, {"pieces", buf_strv(&s->pieces_json)}};
    buf_clear(&s->line);
    json_edit(&s->line, rec, JREF_ROOT, fields, s->pieces ? 2 : 1);
    st = buf_ok(&s->line, e);
    return st ? st : records_put(r, &s->line, e);
}

static status run(state *s, const char *model, const opt_program *program, const record_opts *o, const opt_rest *rest, err *e) {
    if (!model) return err_set(e, ST_USAGE, "option --model is needed");
    records *r = NULL;
    json *rec;
    status st = model_locate(model, &s->path, e);
    if (!st) st = tokenizer_open(&s->t, s->path, e);
    if (!st) st = records_open(&r, program->name, o, rest->files, rest->n, e);
    while (!st && !(st = records_next(r, &rec, e)) && rec)
        if ((st = record(s, rec, r, e))) st = records_bad(r, e);
    return records_close(r, st, e);
}

static void state_free(state *s) {
    tokenizer_close(s->t);
    free(s->path);
    tok_ids_free(&s->ids);
    buf_free(&s->text);
    buf_free(&s->ids_json);
    buf_free(&s->pieces_json);
    buf_free(&s->line);
}

int main(int argc, char **argv) {
    state s = {0};
    record_opts o = {0};
    const char *model = NULL;
    const opt_def opts[] = {
        {.name = "model", .letter = 'm', .kind = OPT_TEXT, .arg = "MODEL", .to = &model,
         .help = "take the tokenizer of MODEL: a model folder, a tokenizer.json (also .zst), a GGUF file, or a name in the local Hugging Face cache; needed"},
        {.name = "pieces", .kind = OPT_FLAG, .to = &s.pieces, .help = "add the tokens' texts as 'pieces'"},
        {.name = "allow-control-tokens", .kind = OPT_FLAG, .to = &s.allow,
         .help = "parse text that looks like a control token as that token, instead of as plain text"},
        {.name = "template", .kind = OPT_CHOICE, .arg = "NAME", .to = &s.family_name, .choices = CHAT_NAMES,
         .help = "render prompts by this chat template instead of the model's"},
        RECORD_OPTIONS(o),
    };
    const opt_program program = {
        .name = "tokenize",
        .operands = "--model MODEL [FILE ...]",
        .summary = "Add to records with 'text', and to prompts, the token ids of a model's own tokenizer.",
        .opts = opts,
        .n_opts = sizeof opts / sizeof *opts,
        .notes = "example:\n"
                 "  echo '{\"text\":\"The sky is blue.\"}' | tokenize --model models/SmolLM2-135M-Instruct.Q4_1.gguf --pieces\n",
    };
    opt_rest rest;
    bool go;
    int exit_status;
    opt_begin(&program, argc, argv, &rest, &go, &exit_status);
    if (!go) return exit_status;
    err e = {0};
    status st = run(&s, model, &program, &o, &rest, &e);
    state_free(&s);
    return opt_finish(&program, st, &e);
}
