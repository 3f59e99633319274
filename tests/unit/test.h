/* test.h: what a unit test needs: TAP on stdout, and a failing exit status when anything failed. */
#ifndef ANYJEV_TEST_H
#define ANYJEV_TEST_H

#include <stdio.h>
#include <string.h>

static int test_count, test_failed;

#define CHECK(cond, ...)                                                                  \
    do {                                                                                  \
        int ok_ = !!(cond);                                                               \
        test_count++;                                                                     \
        test_failed += !ok_;                                                              \
        printf("%s %d - ", ok_ ? "ok" : "not ok", test_count);                            \
        printf(__VA_ARGS__);                                                              \
        putchar('\n');                                                                    \
        if (!ok_) printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond);                     \
    } while (0)

/* What is skipped is shown; ANYJEV_STRICT=1 makes it fail (see tests/run). */
#define SKIP(why)                                                        \
    do {                                                                 \
        test_count++;                                                    \
        printf("ok %d # SKIP %s\n", test_count, why);                    \
    } while (0)

static inline int test_end(void) {
    printf("1..%d\n", test_count);
    return test_failed != 0;
}

#endif
