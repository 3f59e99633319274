/* index_internal.h: shared by the building and the searching of an index. */
#ifndef ANYJEV_TERM_INDEX_INTERNAL_H
#define ANYJEV_TERM_INDEX_INTERNAL_H

#include "base/buf.h"
#include "base/err.h"

enum { INDEX_VERSION = 1 };

/* A name for comparing: case folded (Unicode), white space single. */
status index_fold(strv text, buf *out, err *e);

#endif
