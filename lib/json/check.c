/* The strict grammar of a JSON text: one value, nothing else. jsmn runs after it and finds the tokens. */
#include "json/check.h"

#include <string.h>

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

uint32_t json_hex4(const char *p) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) v = v << 4 | (uint32_t)hex_value(p[i]);
    return v;
}

/* Length of the UTF-8 character at p (n bytes are there), 0 when it is none (RFC 3629). */
static size_t utf8_char(const unsigned char *p, size_t n) {
    unsigned char c = p[0];
    if (c < 0x80) return 1;
    size_t k = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || n < k) return 0;
    if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) || (c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F))
        return 0;
    for (size_t i = 1; i < k; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return k;
}

bool utf8_valid(const char *s, size_t n, size_t *at) {
    size_t i = 0;
    while (i < n) {
        size_t k = utf8_char((const unsigned char *)s + i, n - i);
        if (!k) {
            if (at) *at = i;
            return false;
        }
        i += k;
    }
    return true;
}

size_t utf8_prefix(strv s, size_t points) {
    size_t i = 0;
    while (i < s.n && points) {
        i++;
        while (i < s.n && ((unsigned char)s.p[i] & 0xC0) == 0x80) i++;
        points--;
    }
    return i;
}

static status bad(err *e, size_t at, const char *what) {
    return err_set(e, ST_INPUT, "not JSON at byte %zu: %s", at + 1, what);
}

/* From the opening quote; returns the offset behind the closing one in *end. */
static status check_string(const char *t, size_t len, size_t i, size_t *end, err *e) {
    size_t start = i++;
    for (;;) {
        /* Most bytes are plain: a run of them is passed in a tight loop. */
        while (i < len && (unsigned char)t[i] >= 0x20 && (unsigned char)t[i] < 0x80 && t[i] != '"' && t[i] != '\\') i++;
        if (i >= len) return bad(e, start, "a string that does not end");
        unsigned char c = (unsigned char)t[i];
        if (c == '"') {
            *end = i + 1;
            return ST_OK;
        }
        if (c < 0x20) return bad(e, i, "a control byte inside a string (write it as \\u00XX)");
        if (c >= 0x80) {
            size_t k = utf8_char((const unsigned char *)t + i, len - i);
            if (!k) return bad(e, i, "invalid UTF-8");
            i += k;
            continue;
        }
        if (i + 1 >= len) return bad(e, start, "a string that does not end");
        char esc = t[i + 1];
        if (esc != 'u') {
            if (!esc || !strchr("\"\\/bfnrt", esc)) return bad(e, i, "an unknown escape");
            i += 2;
            continue;
        }
        for (size_t j = i + 2; j < i + 6; j++)
            if (j >= len || hex_value(t[j]) < 0) return bad(e, i, "\\u needs four hex digits");
        uint32_t u = json_hex4(t + i + 2);
        i += 6;
        if (u >= 0xDC00 && u <= 0xDFFF) return bad(e, i - 6, "a lone low surrogate");
        if (u >= 0xD800 && u <= 0xDBFF) {
            bool low = i + 6 <= len && t[i] == '\\' && t[i + 1] == 'u';
            for (size_t j = i + 2; low && j < i + 6; j++) low = hex_value(t[j]) >= 0;
            if (low) {
                uint32_t v = json_hex4(t + i + 2);
                low = v >= 0xDC00 && v <= 0xDFFF;
            }
            if (!low) return bad(e, i - 6, "a lone high surrogate");
            i += 6;
        }
    }
}

static status check_number(const char *t, size_t len, size_t i, size_t *end, err *e) {
    size_t start = i;
    if (t[i] == '-') i++;
    if (i >= len || !is_digit(t[i])) return bad(e, start, "a number needs a digit");
    if (t[i] == '0' && i + 1 < len && is_digit(t[i + 1])) return bad(e, start, "a number with a leading zero");
    while (i < len && is_digit(t[i])) i++;
    if (i < len && t[i] == '.') {
        if (++i >= len || !is_digit(t[i])) return bad(e, start, "a number needs a digit after the point");
        while (i < len && is_digit(t[i])) i++;
    }
    if (i < len && (t[i] == 'e' || t[i] == 'E')) {
        i++;
        if (i < len && (t[i] == '+' || t[i] == '-')) i++;
        if (i >= len || !is_digit(t[i])) return bad(e, start, "a number needs a digit in the exponent");
        while (i < len && is_digit(t[i])) i++;
    }
    *end = i;
    return ST_OK;
}

static status check_word(const char *t, size_t len, size_t i, size_t *end, err *e) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t w = 0; w < 3; w++) {
        size_t n = strlen(words[w]);
        if (len - i >= n && memcmp(t + i, words[w], n) == 0) {
            *end = i + n;
            return ST_OK;
        }
    }
    return bad(e, i, "expected a value");
}

enum want { WANT_VALUE, WANT_VALUE_OR_END, WANT_KEY, WANT_KEY_OR_END, WANT_COLON, WANT_COMMA_OR_END };

status json_check(const char *t, size_t len, size_t *tokens, err *e) {
    char stack[JSON_DEPTH_MAX]; /* the closing bracket of each open container */
    size_t depth = 0, n = 0, i = 0;
    enum want want = WANT_VALUE;
    bool done = false;
    status s = ST_OK;
    for (;;) {
        while (i < len && is_space(t[i])) i++;
        if (i >= len) break;
        if (done) return bad(e, i, "something after the value; expected one value per line");
        char c = t[i];
        if (want == WANT_COLON) {
            if (c != ':') return bad(e, i, "expected ':' after a key");
            i++;
            want = WANT_VALUE;
            continue;
        }
        if (want == WANT_COMMA_OR_END || ((want == WANT_VALUE_OR_END || want == WANT_KEY_OR_END) && c == stack[depth - 1])) {
            if (c == stack[depth - 1]) {
                depth--;
                done = depth == 0;
                want = WANT_COMMA_OR_END;
            } else if (c == ',') {
                want = stack[depth - 1] == '}' ? WANT_KEY : WANT_VALUE;
            } else {
                return bad(e, i, stack[depth - 1] == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
            }
            i++;
            continue;
        }
        n++;
        if (want == WANT_KEY || want == WANT_KEY_OR_END) {
            if (c != '"') return bad(e, i, "expected a key in double quotes");
            if ((s = check_string(t, len, i, &i, e))) return s;
            want = WANT_COLON;
            continue;
        }
        if (c == '{' || c == '[') {
            if (depth == JSON_DEPTH_MAX) return bad(e, i, "nested deeper than 512");
            stack[depth++] = c == '{' ? '}' : ']';
            want = c == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
            i++;
            continue;
        }
        if (c == '"') s = check_string(t, len, i, &i, e);
        else if (c == '-' || is_digit(c)) s = check_number(t, len, i, &i, e);
        else s = check_word(t, len, i, &i, e);
        if (s) return s;
        want = WANT_COMMA_OR_END;
        done = depth == 0;
    }
    if (!done) return bad(e, len, n ? "the value is cut" : "expected a value, found nothing");
    *tokens = n;
    return ST_OK;
}
