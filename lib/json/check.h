/* check.h (internal to lib/json): the grammar. */
#ifndef ANYJEV_JSON_CHECK_H
#define ANYJEV_JSON_CHECK_H

#include "json/json.h"

/* RFC 8259 and the limits of json.h; *tokens is the number of values and keys. */
status json_check(const char *text, size_t len, size_t *tokens, err *e);
/* A unit of UTF-16 from four hex digits (checked before). */
uint32_t json_hex4(const char *p);

#endif
