/* version.h: what this build is. */
#ifndef ANYJEV_BASE_VERSION_H
#define ANYJEV_BASE_VERSION_H

#include <stdbool.h>

const char *version_number(void); /* 0.1.0 */
const char *version_commit(void); /* 40 hex digits, or "unknown" outside a checkout */
bool version_dirty(void);         /* built from a tree with uncommitted changes */
const char *version_compiler(void);

#endif
