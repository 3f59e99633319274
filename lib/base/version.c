#include "base/version.h"

#include "commit.h"

const char *version_number(void) {
    return ANYJEV_VERSION;
}

const char *version_commit(void) {
    return ANYJEV_COMMIT;
}

bool version_dirty(void) {
    return ANYJEV_DIRTY;
}

const char *version_compiler(void) {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}
