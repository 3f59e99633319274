/* lib/base: numbers, base64, buffers, checked sizes. */
#include "test.h"

#include <float.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"

static void repr(double x, const char *want) {
    char t[NUM_TEXT_MAX];
    size_t n = num_repr(x, t);
    CHECK(strcmp(t, want) == 0 && n == strlen(want), "repr of %.17g is %s (got %s)", x, want, t);
}

int main(void) {
    repr(0.1, "0.1");
    repr(1.0, "1.0");
    repr(-0.0, "-0.0");
    repr(1e16, "1e+16");
    repr(1e15, "1000000000000000.0");
    repr(9007199254740993.0, "9007199254740992.0");
    repr(123456789.125, "123456789.125");
    repr(1e-4, "0.0001");
    repr(1e-5, "1e-05");
    repr(1.5e-7, "1.5e-07");
    repr(1.0 / 3, "0.3333333333333333");
    repr(2.0 / 3, "0.6666666666666666");
    repr(0.1 + 0.2, "0.30000000000000004");
    repr(5e-324, "5e-324");
    repr(DBL_MAX, "1.7976931348623157e+308");
    repr(-120.0, "-120.0");
    uint64_t x = 88172645463325252u;
    size_t wrong = 0;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        double d;
        char t[NUM_TEXT_MAX];
        memcpy(&d, &x, sizeof d);
        if (d != d || d - d != 0) continue;
        num_repr(d, t);
        wrong += strtod(t, NULL) != d;
    }
    CHECK(wrong == 0, "20,000 random doubles read back the same");

    err e = {0};
    buf b = {0}, c = {0};
    unsigned char bytes[256];
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
    size_t bad = 0;
    for (size_t n = 0; n <= 256; n++) {
        buf_clear(&b);
        buf_clear(&c);
        base64_put(&b, bytes, n);
        bad += base64_get(buf_strv(&b), &c, &e) != ST_OK || c.len != n || (n && memcmp(c.p, bytes, n) != 0);
    }
    CHECK(bad == 0, "base64 of 0 to 256 bytes reads back the same");
    CHECK(base64_get(strv_of("QQ=A"), &c, &e) == ST_INPUT, "base64: padding inside is refused");
    CHECK(base64_get(strv_of("QR=="), &c, &e) == ST_INPUT, "base64: stray bits are refused");
    CHECK(base64_get(strv_of("QQ="), &c, &e) == ST_INPUT, "base64: three characters are refused");

    char hex[SHA256_HEX_SIZE];
    CHECK(sha256_hex("abc", 3, hex, &e) == ST_OK &&
              strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0,
          "SHA-256 of abc is that of FIPS 180-4");

    size_t v;
    CHECK(!size_mul(SIZE_MAX / 2, 3, &v), "a product that overflows is told");
    CHECK(mem_alloc(SIZE_MAX / 4, 8) == NULL, "an allocation that overflows fails");
    CHECK(num_size("12", 0, 20, "n", &v, &e) == ST_OK && v == 12, "12 is a size");
    CHECK(num_size("12x", 0, 20, "n", &v, &e) == ST_USAGE, "12x is none");
    CHECK(num_size("-1", 0, 20, "n", &v, &e) == ST_USAGE, "-1 is none");
    CHECK(num_size("21", 0, 20, "n", &v, &e) == ST_USAGE, "21 is out of range");
    double r;
    CHECK(num_real("nan", 0, 1, "r", &r, &e) == ST_USAGE, "nan is no number");
    buf_free(&b);
    buf_free(&c);
    strv rest = strv_of("a\r\n\nb");
    CHECK(strv_is(strv_line(&rest), "a") && strv_is(strv_line(&rest), "") && strv_is(strv_line(&rest), "b") && rest.n == 0 && strv_line(&rest).n == 0, "lines of a text, CRLF or LF, the last one without");
    return test_end();
}
