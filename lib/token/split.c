#define PCRE2_CODE_UNIT_WIDTH 8
#include "token/split.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Published with the models (their tokenizer.json). A contraction; a word with one leading other character;
 * digits; a run of symbols with line ends; line ends; white space but for the last before a word. */
const char *const split_gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char *const split_qwen2 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char *const split_llama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char *const split_tekken = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
                                 "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
                                 "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char *const split_digit = "\\p{N}";

#define WHITE_SPACE "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

typedef struct step {
    pcre2_code *code;
    bool drop_gaps;
} step;

struct splitter {
    step *steps;
    size_t n, cap;
};

status splitter_create(splitter **s, err *e) {
    *s = mem_zero(1, sizeof **s);
    return *s ? ST_OK : err_memory(e, sizeof **s);
}

void splitter_free(splitter *s) {
    if (!s) return;
    for (size_t i = 0; i < s->n; i++) pcre2_code_free(s->steps[i].code);
    free(s->steps);
    free(s);
}

/* Spells \s and \S out, since PCRE2's own differ from Unicode White_Space (U+180E). */
static status spell_space(strv pattern, buf *out, err *e) {
    bool in_class = false;
    for (size_t i = 0; i < pattern.n; i++) {
        char c = pattern.p[i], next = i + 1 < pattern.n ? pattern.p[i + 1] : '\0';
        if (c == '\\' && (next == 's' || next == 'S')) {
            if (next == 'S' && in_class) return err_set(e, ST_INPUT, "a split pattern with \\S inside brackets is not supported");
            buf_text(out, in_class ? WHITE_SPACE : next == 's' ? "[" WHITE_SPACE "]" : "[^" WHITE_SPACE "]");
            i++;
        } else if (c == '\\' && next) {
            buf_put(out, pattern.p + i, 2);
            i++;
        } else {
            if (c == '[') in_class = true;
            if (c == ']') in_class = false;
            buf_byte(out, c);
        }
    }
    return buf_ok(out, e);
}

status splitter_add(splitter *s, strv pattern, bool drop_gaps, err *e) {
    buf p = {0};
    status st = spell_space(pattern, &p, e);
    if (!st && !mem_grow((void **)&s->steps, &s->cap, s->n + 1, sizeof *s->steps)) st = err_memory(e, sizeof *s->steps);
    if (!st) {
        int code;
        PCRE2_SIZE at;
        pcre2_code *c = pcre2_compile((PCRE2_SPTR)p.p, p.len, PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
        if (!c) {
            PCRE2_UCHAR text[200];
            pcre2_get_error_message(code, text, sizeof text);
            st = err_set(e, ST_INPUT, "the split pattern '%.*s' is not understood: %s", (int)(pattern.n > 300 ? 300 : pattern.n), pattern.p, (char *)text);
        } else {
            pcre2_jit_compile(c, PCRE2_JIT_COMPLETE); /* without JIT the interpreter does the same */
            s->steps[s->n++] = (step){c, drop_gaps};
        }
    }
    buf_free(&p);
    return st;
}

typedef struct run {
    const splitter *s;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    splitter_piece piece;
    void *ctx;
} run;

static status run_step(const run *r, size_t i, strv text, err *e) {
    if (text.n == 0) return ST_OK;
    if (i == r->s->n) return r->piece(r->ctx, text, e);
    const step *st = &r->s->steps[i];
    size_t at = 0;
    status s = ST_OK;
    while (!s && at < text.n) {
        int rc = pcre2_match(st->code, (PCRE2_SPTR)text.p, text.n, at, PCRE2_NO_UTF_CHECK, r->match, r->limits);
        if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) return err_set(e, ST_INPUT, "splitting the text failed (PCRE2 %d)", rc);
        PCRE2_SIZE from = text.n, to = text.n;
        if (rc >= 0) {
            PCRE2_SIZE *v = pcre2_get_ovector_pointer(r->match);
            from = v[0], to = v[1];
            if (to == from) return err_set(e, ST_INPUT, "the split pattern matches nothing at byte %zu", (size_t)from);
        }
        if (from > at && !st->drop_gaps) s = run_step(r, i + 1, (strv){text.p + at, from - at}, e);
        /* The match data is used by the steps below: from and to are ours by now. */
        if (!s && to > from) s = run_step(r, i + 1, (strv){text.p + from, to - from}, e);
        at = to;
    }
    return s;
}

status splitter_run(const splitter *s, strv text, splitter_piece piece, void *ctx, err *e) {
    run r = {s, pcre2_match_data_create(1, NULL), pcre2_match_context_create(NULL), piece, ctx};
    if (!r.match || !r.limits) {
        pcre2_match_data_free(r.match);
        pcre2_match_context_free(r.limits);
        return err_memory(e, 64);
    }
    /* A long run of white space is gone through backwards, once by each alternative. */
    pcre2_set_match_limit(r.limits, text.n > UINT32_MAX / 16 ? UINT32_MAX : (uint32_t)text.n * 8 + 10000000);
    status st = run_step(&r, 0, text, e);
    pcre2_match_data_free(r.match);
    pcre2_match_context_free(r.limits);
    return st;
}
