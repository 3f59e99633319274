/* lib/token: the splitter's white space, normal form C, merging, added tokens and plain spans, on a vocabulary made
 * here; a tokenizer.json cut and changed. The goldens of real models are in tests/tokenize.bats. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "test.h"
#include "token/nfc.h"
#include "token/split.h"
#include "token/tokenizer.h"

/* --- splitting --- */

static status join(void *ctx, strv piece, err *e) {
    buf *b = ctx;
    if (b->len) buf_byte(b, '|');
    buf_view(b, piece);
    return buf_ok(b, e);
}

static void splits(const char *pattern, bool drop, const char *text, const char *want) {
    splitter *s;
    err e = {0};
    buf out = {0};
    status st = splitter_create(&s, &e);
    if (!st) st = splitter_add(s, strv_of(pattern), drop, &e);
    if (!st) st = splitter_run(s, strv_of(text), join, &out, &e);
    bool same = !st && strv_is(buf_strv(&out), want);
    CHECK(same, "split into '%s'", want);
    if (!same) printf("# found '%s' %s\n", out.p ? out.p : "", e.text);
    splitter_free(s);
    buf_free(&out);
}

static void test_split(void) {
    splits(split_gpt2, false, "It's 12 a  b!", "It|'s| 12| a| | b|!");
    splits(split_qwen2, false, "I'LL 123", "I|'LL| |1|2|3");
    splits(split_llama3, false, "1234 a", "123|4| a");
    splits(split_tekken, false, "HelloWorld ABc 12", "Hello|World| ABc| |1|2");
    splits(split_digit, false, "a12b", "a|1|2|b");
    splits("\\p{L}+", true, "a1b", "a|b");
    splits("\\s", false, "a\xC2\x85" "b", "a|\xC2\x85|b");               /* U+0085 is white space */
    splits("\\s", false, "a\xEF\xBB\xBF" "b", "a\xEF\xBB\xBF" "b");       /* U+FEFF is not */
    splits("[^\\s]+", true, "a\xE1\xA0\x8E" "b c", "a\xE1\xA0\x8E" "b|c"); /* nor is U+180E */
    splits("\\S+", true, "a\xE3\x80\x80" "b", "a|b");
    splitter *s;
    err e = {0};
    if (splitter_create(&s, &e)) return;
    CHECK(splitter_add(s, strv_of("(a"), false, &e) == ST_INPUT && strstr(e.text, "'(a' is not understood"), "a bad pattern: %s", e.text);
    CHECK(splitter_add(s, strv_of("a*"), false, &e) == ST_OK && splitter_run(s, strv_of("b"), join, &(buf){0}, &e) == ST_INPUT,
          "a pattern that matches nothing: %s", e.text);
    splitter_free(s);
}

/* Longer than PCRE2's own limit on going back. */
static void test_long_space(void) {
    splitter *s;
    err e = {0};
    buf text = {0}, out = {0};
    for (int i = 0; i < 12000000; i++) buf_byte(&text, ' ');
    buf_byte(&text, 'x');
    status st = splitter_create(&s, &e);
    if (!st) st = splitter_add(s, strv_of(split_qwen2), false, &e);
    if (!st) st = splitter_run(s, buf_strv(&text), join, &out, &e);
    CHECK(st == ST_OK && out.len == text.len + 1 && memcmp(out.p + out.len - 3, "| x", 3) == 0, "12,000,000 spaces and a word %s", e.text);
    splitter_free(s);
    buf_free(&text);
    buf_free(&out);
}

/* --- normal form C --- */

static void composes(const char *text, const char *want) {
    buf space = {0};
    strv out;
    err e = {0};
    CHECK(nfc_normalize(strv_of(text), &space, &out, &e) == ST_OK && strv_is(out, want), "normal form of %zu bytes", strlen(text));
    buf_free(&space);
}

static void test_nfc(void) {
    composes("abc \xC3\xA9", "abc \xC3\xA9");
    composes("e\xCC\x81", "\xC3\xA9");
    composes("\xE2\x84\xAB", "\xC3\x85");                       /* the Angstrom sign */
    composes("a\xCC\x81\xCC\xA3", "\xE1\xBA\xA1\xCC\x81");      /* marks in order, then composed */
    composes("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81");
    composes("\xEA\xB0\x80\xE1\x86\xA7", "\xEA\xB0\x80\xE1\x86\xA7"); /* U+11A7 stays */
    composes("\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC");       /* excluded from composition */
    /* Long runs of marks: sorted, stable, and quickly. */
    buf many = {0}, want = {0}, space = {0};
    strv out;
    err e = {0};
    buf_byte(&many, 'q'), buf_byte(&want, 'q');
    for (int i = 0; i < 100000; i++) buf_text(&many, "\xCC\x8D"); /* class 230 */
    for (int i = 0; i < 100000; i++) buf_text(&many, "\xCC\xA3"), buf_text(&want, "\xCC\xA3"); /* class 220 */
    for (int i = 0; i < 100000; i++) buf_text(&want, "\xCC\x8D");
    CHECK(nfc_normalize(buf_strv(&many), &space, &out, &e) == ST_OK && strv_eq(out, buf_strv(&want)), "200,000 marks in a row");
    buf_free(&many);
    buf_free(&want);
    buf_free(&space);
}

/* --- encoding --- */

static char dir[] = "/tmp/anyjev-token-XXXXXX";
static char file[64];

static void write_bytes(const char *p, size_t n) {
    unlink(file); /* truncating would wait for the disk, thousands of times */
    FILE *f = fopen(file, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f)) exit(99);
}

static const char vocabulary[] =
    "{\"added_tokens\":[{\"id\":20,\"content\":\"<x>\",\"special\":true},{\"id\":21,\"content\":\"<x>y\",\"special\":false},"
    "{\"id\":22,\"content\":\"..\",\"special\":false},{\"id\":23,\"content\":\"[s]\",\"special\":true,\"lstrip\":true,\"rstrip\":true}],"
    "\"normalizer\":{\"type\":\"NFC\"},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\"}}]},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abab\":4,\"<\":5,\"x\":6,\">\":7,\".\":8,\"\xC4\xA0\":9,\"bc\":10,\"y\":11,"
    "\"[\":12,\"s\":13,\"]\":14,\"\xC4\xA0" "a\":15,\"aa\":16},"
    "\"merges\":[\"a b\",[\"ab\",\"ab\"],\"b c\",\"\xC4\xA0 a\",\"a a\"]}}";

static void encodes(const tokenizer *t, const char *text, size_t from, size_t to, const char *want) {
    tok_ids ids = {0};
    err e = {0};
    tok_span plain = {from, to};
    buf out = {0};
    status s = tokenizer_encode(t, strv_of(text), &plain, to > from, &ids, &e);
    for (size_t i = 0; i < ids.n; i++) buf_printf(&out, "%s%u", i ? " " : "", ids.id[i]);
    bool same = s == ST_OK && strv_is(buf_strv(&out), want);
    CHECK(same, "'%s' with plain [%zu, %zu) is %s", text, from, to, want);
    if (!same) printf("# found %s %s\n", out.p ? out.p : "", e.text);
    tok_ids_free(&ids);
    buf_free(&out);
}

static void test_encode(void) {
    tokenizer *t;
    err e = {0};
    write_bytes(vocabulary, sizeof vocabulary - 1);
    CHECK(tokenizer_open(&t, dir, &e) == ST_OK, "the vocabulary opens %s", e.text);
    if (!t) return;
    encodes(t, "", 0, 0, "");
    encodes(t, "abab", 0, 0, "4");
    encodes(t, "abcab", 0, 0, "3 2 3"); /* the lowest rank first, not the longest */
    encodes(t, "aaaaa", 0, 0, "16 16 0");
    encodes(t, " ab a", 0, 0, "9 3 15");
    encodes(t, "aZb", 0, 0, "3"); /* a byte that the vocabulary lacks is left out, and its neighbours meet */
    encodes(t, "a<x>b", 0, 0, "0 20 1");
    encodes(t, "<x>yb", 0, 0, "21 1"); /* the longest */
    encodes(t, "a<x>b", 0, 5, "0 5 6 7 1");
    encodes(t, "<x>yb", 0, 5, "21 1");       /* no control token: found in plain text, too */
    encodes(t, "<x>a<x>", 4, 7, "20 0 5 6 7");
    encodes(t, "<x>a<x>", 3, 4, "20 0 20");
    encodes(t, "a<x>b", 0, 2, "0 5 6 7 1");  /* half of it written by the user is no token either */
    encodes(t, "a<x>b", 3, 5, "0 5 6 7 1");
    encodes(t, "a..b...", 0, 7, "0 22 1 22 8");
    encodes(t, "a [s] b", 0, 0, "0 23 1");
    encodes(t, "a [s] b", 0, 7, "0 9 12 13 14 9 1");
    uint32_t id;
    CHECK(tokenizer_single(t, strv_of("abab"), &id, &e) == ST_OK && id == 4, "a single token");
    CHECK(tokenizer_single(t, strv_of("abc"), &id, &e) == ST_OK && id == TOKEN_NONE, "more than one is none");
    CHECK(tokenizer_bos(t) == 20 && tokenizer_size(t) == 24, "BOS and size");
    CHECK(strv_is(tokenizer_piece(t, 15), " a") && strv_is(tokenizer_piece(t, 20), "<x>") && tokenizer_piece(t, 18).n == 0 &&
              tokenizer_piece(t, 1000).n == 0, "pieces");
    tok_ids ids = {0};
    CHECK(tokenizer_encode(t, (strv){"a\xC3", 2}, NULL, 0, &ids, &e) == ST_INPUT && strstr(e.text, "byte 2"), "invalid UTF-8: %s", e.text);
    buf many = {0};
    for (int i = 0; i < 1000000; i++) buf_byte(&many, 'a');
    ids.n = 0;
    CHECK(tokenizer_encode(t, buf_strv(&many), NULL, 0, &ids, &e) == ST_OK && ids.n == 500000, "a million equal characters");
    buf_free(&many);
    tok_ids_free(&ids);
    tokenizer_close(t);
}

/* What is not JSON, or other JSON, never crashes. */
static void test_hostile(void) {
    tokenizer *t;
    size_t wrong = 0, opened = 0, n = sizeof vocabulary - 1;
    tok_ids ids = {0};
    for (size_t cut = 0; cut < n; cut++) {
        err e = {0};
        write_bytes(vocabulary, cut);
        if (tokenizer_open(&t, file, &e) != ST_INPUT || t || !strstr(e.text, file)) wrong++;
    }
    CHECK(wrong == 0, "cut at each of %zu bytes: refused with the file's name", n);
    static const char to[] = {'0', '9', '}', '"', 'Z', ' '};
    wrong = 0;
    char *copy = malloc(n);
    for (size_t i = 0; copy && i < n; i++)
        for (size_t k = 0; k < sizeof to; k++) {
            err e = {0};
            memcpy(copy, vocabulary, n);
            copy[i] = to[k];
            write_bytes(copy, n);
            status s = tokenizer_open(&t, file, &e);
            if (s != ST_OK && (s != ST_INPUT || !strstr(e.text, file))) wrong++;
            if (s == ST_OK) {
                opened++;
                ids.n = 0;
                s = tokenizer_encode(t, strv_of("a<x>yb.. [s] abab 12 \xC3\xA9"), NULL, 0, &ids, &e);
                if (s != ST_OK && s != ST_INPUT) wrong++;
                for (size_t j = 0; j < ids.n; j++) wrong += ids.id[j] >= tokenizer_size(t);
                tokenizer_close(t);
            }
        }
    CHECK(wrong == 0 && opened > 0, "every byte changed: refused, or ids within the vocabulary (%zu opened)", opened);
    free(copy);
    tok_ids_free(&ids);
}

int main(void) {
    if (!mkdtemp(dir)) return 99;
    snprintf(file, sizeof file, "%s/tokenizer.json", dir);
    test_split();
    test_long_space();
    test_nfc();
    test_encode();
    test_hostile();
    unlink(file);
    rmdir(dir);
    return test_end();
}
