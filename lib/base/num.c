#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status num_size(const char *text, size_t min, size_t max, const char *what, size_t *out, err *e) {
    char *end;
    errno = 0;
    unsigned long long v = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    if (!isdigit((unsigned char)text[0]) || *end || errno || v < min || v > max) {
        if (max == SIZE_MAX)
            return err_set(e, ST_USAGE, "%s '%s': expected a whole number of at least %zu", what, text, min);
        return err_set(e, ST_USAGE, "%s '%s': expected a whole number from %zu to %zu", what, text, min, max);
    }
    *out = (size_t)v;
    return ST_OK;
}

status num_real(const char *text, double min, double max, const char *what, double *out, err *e) {
    char *end;
    double v = strtod(text, &end);
    bool spelt = text[0] == '-' || text[0] == '.' || isdigit((unsigned char)text[0]);
    if (!spelt || *end || end == text || !isfinite(v) || v < min || v > max)
        return err_set(e, ST_USAGE, "%s '%s': expected a number from %g to %g", what, text, min, max);
    *out = v;
    return ST_OK;
}

size_t num_repr(double x, char out[NUM_TEXT_MAX]) {
    char sci[NUM_TEXT_MAX];
    if (x == 0) return (size_t)snprintf(out, NUM_TEXT_MAX, signbit(x) ? "-0.0" : "0.0");
    /* When a decimal of n digits reads back as x, the one nearest to x does: 15, 16, 17 suffice,
     * since %e with fewer digits than needed only adds zeros, which are dropped below. */
    /* (Numbers below the normal range have fewer digits of their own: all lengths are tried.) */
    for (int digits = fabs(x) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(sci, sizeof sci, "%.*e", digits - 1, x);
        if (digits == 17 || strtod(sci, NULL) == x) break;
    }
    char *p = sci, mant[20];
    size_t n = 0, len = 0;
    if (*p == '-') out[len++] = *p++;
    for (; *p != 'e'; p++)
        if (*p != '.') mant[n++] = *p;
    int exp10 = atoi(p + 1);
    while (n > 1 && mant[n - 1] == '0') n--;
    if (exp10 < -4 || exp10 >= 16) {
        out[len++] = mant[0];
        if (n > 1) {
            out[len++] = '.';
            memcpy(out + len, mant + 1, n - 1);
            len += n - 1;
        }
        return len + (size_t)snprintf(out + len, NUM_TEXT_MAX - len, "e%c%02d", exp10 < 0 ? '-' : '+', abs(exp10));
    }
    if (exp10 < 0) {
        out[len++] = '0';
        out[len++] = '.';
        for (int i = -1; i > exp10; i--) out[len++] = '0';
        memcpy(out + len, mant, n);
        len += n;
    } else {
        for (size_t i = 0; i < n || i <= (size_t)exp10; i++) {
            if (i == (size_t)exp10 + 1) out[len++] = '.';
            out[len++] = i < n ? mant[i] : '0';
        }
        if (n <= (size_t)exp10 + 1) {
            out[len++] = '.';
            out[len++] = '0';
        }
    }
    out[len] = '\0';
    return len;
}
