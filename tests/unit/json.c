/* lib/json: what is accepted, what is refused, what passes through, and the renderings. */
#include "test.h"

#include <stdlib.h>

#include "json/json.h"

static status parse(const char *t, size_t n) {
    json d = {0};
    err e = {0};
    status s = json_parse(&d, t, n, &e);
    json_free(&d);
    return s;
}

static void render(const char *t, json_style style, const char *want) {
    json d = {0};
    err e = {0};
    buf b = {0};
    status s = json_parse(&d, t, strlen(t), &e);
    if (!s) s = json_render(&b, &d, JREF_ROOT, &style, &e);
    CHECK(s == ST_OK && b.p && strcmp(b.p, want) == 0, "%s renders as %s (got %s)", t, want, b.p ? b.p : e.text);
    buf_free(&b);
    json_free(&d);
}

static void deep(size_t depth, status want) {
    buf b = {0};
    for (size_t i = 0; i < depth; i++) buf_byte(&b, '[');
    for (size_t i = 0; i < depth; i++) buf_byte(&b, ']');
    CHECK(parse(b.p, b.len) == want, "nesting of %zu", depth);
    buf_free(&b);
}

int main(void) {
    static const char *const good[] = {
        "{}", "[]", "0", "-0", "1e5", "1.5E-3", "\"\"", "true", "false", "null", " [1 , 2 ] \r", "{\"a\":{\"b\":[1,{}]}}",
        "\"\\u0000\"", "\"\\ud83d\\ude00\"", "\"\\/\"", "12345678901234567890123", "[[],[[]],{\"a\":[]}]", "{\"a\":1,\"a\":2}"};
    static const char *const bad[] = {
        "", " ", "{} {}", "1 2", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]", "[,1]", "01", "-", "-01", "1.", ".5", "1e", "+1", "tru",
        "truex", "nul", "NaN", "Infinity", "'a'", "{a:1}", "\"\t\"", "\"\\x\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\ud800\\u0041\"",
        "\"\\udc00\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "[1", "{\"a\":1", "\"abc",
        "\"abc\\", "]", "}", "[}", "{]", "{\"a\" 1}", "[1 2]", "{1:2}", "{\"a\":1 \"b\":2}", "[1]]", ",", ":", "\"a\":1", "[\"a\":1]", "\xef\xbb\xbf{}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(parse(good[i], strlen(good[i])) == ST_OK, "accepted: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(parse(bad[i], strlen(bad[i])) == ST_INPUT, "refused: case %zu", i);
    CHECK(parse("{}\0", 3) == ST_INPUT, "refused: a NUL behind the value");
    deep(512, ST_OK);
    deep(513, ST_INPUT);

    json d = {0};
    err e = {0};
    const char *t = "{\"x\":1.50,\"big\":9007199254740993,\"s\":\"a\\u0000b\",\"k\\u0065y\":[1,[2,3],{\"z\":4}],\"x\":2}";
    CHECK(json_parse(&d, t, strlen(t), &e) == ST_OK, "a record is read");
    buf b = {0};
    strv v;
    CHECK(json_text(&d, json_get(&d, 0, "s"), &b, &v, &e) == ST_OK && v.n == 3 && memcmp(v.p, "a\0b", 3) == 0,
          "U+0000 in a string is a byte like others");
    char *copy;
    CHECK(json_text_copy(&d, json_get(&d, 0, "s"), "s", &copy, &e) == ST_INPUT && !copy, "a C string with U+0000 is refused");
    jref arr = json_get(&d, 0, "key");
    CHECK(json_count(&d, arr) == 3, "a key with an escape is found");
    CHECK(json_kind_of(&d, json_at(&d, arr, 2)) == JSON_OBJECT && json_at(&d, arr, 3) == JREF_NONE, "elements are walked over subtrees");
    CHECK(strv_is(json_raw(&d, json_get(&d, 0, "x")), "2"), "of equal keys the last counts");
    json_field f[] = {{"s", {NULL, 0}}, {"big", strv_of("7")}, {"new", strv_of("[true]")}};
    buf_clear(&b);
    json_edit(&b, &d, 0, f, 3);
    CHECK(strcmp(b.p, "{\"x\":1.50,\"big\":7,\"k\\u0065y\":[1,[2,3],{\"z\":4}],\"x\":2,\"new\":[true]}") == 0,
          "fields change in place, the rest keeps its bytes: %s", b.p);

    buf_clear(&b);
    jw w = jw_of(&b);
    jw_open(&w, '{');
    jw_key(&w, "a");
    jw_open(&w, '[');
    jw_real(&w, 0.5);
    jw_text(&w, "q\"\n\x01\xc3\xa9");
    jw_null(&w);
    jw_close(&w, ']');
    jw_key(&w, "b");
    jw_bool(&w, true);
    jw_close(&w, '}');
    CHECK(strcmp(b.p, "{\"a\":[0.5,\"q\\\"\\n\\u0001\xc3\xa9\",null],\"b\":true}") == 0, "the writer: %s", b.p);
    jw_real(&w, 0.0 / 1e308 / 0.0);
    CHECK(buf_ok(&b, &e) != ST_OK, "a NaN cannot be written");

    json_style sorted = {.sort = true, .item = ",", .key = ":"};
    json_style ascii = {.sort = true, .ascii = true, .item = ", ", .key = ": "};
    json_style pretty = {.item = ",", .key = ": ", .indent = 2};
    render("{\"b\":1.0,\"a\":[1e16,-0,0.10,12345678901234567890]}", sorted, "{\"a\":[1e+16,-0,0.1,12345678901234567890],\"b\":1.0}");
    render("{\"\xc3\xa9\":\"\\ud83d\\ude00\x7f/\"}", ascii, "{\"\\u00e9\": \"\\ud83d\\ude00\\u007f/\"}");
    render("{\"b\":[],\"a\":{},\"c\":[1,{\"d\":null}]}", pretty, "{\n  \"b\": [],\n  \"a\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": null\n    }\n  ]\n}");
    render("{\"a\":1,\"b\":2,\"a\":3}", sorted, "{\"a\":3,\"b\":2}");
    render("{\"b\":2,\"a\":1,\"b\":3}", pretty, "{\n  \"b\": 3,\n  \"a\": 1\n}");
    json_free(&d);

    buf wide = {0};
    buf_byte(&wide, '[');
    for (size_t i = 0; i < 2000000; i++) buf_text(&wide, i ? ",[]" : "[]");
    buf_byte(&wide, ']');
    CHECK(parse(wide.p, wide.len) == ST_OK, "two million empty arrays are read (in linear time, or this never ends)");
    buf_free(&wide);
    buf_free(&b);
    return test_end();
}
