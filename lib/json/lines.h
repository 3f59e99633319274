/* lines.h: a side file of JSON Lines (not the stream that a filter passes on), read to its end. */
#ifndef ANYJEV_JSON_LINES_H
#define ANYJEV_JSON_LINES_H

#include "json/json.h"

/* Calls take(ctx, doc) for every line that is not blank; doc is valid during the call. Stops at the first
 * failure, whose message then begins with "path:line". */
typedef status json_take(void *ctx, const json *doc, err *e);
status json_lines(const char *path, json_take *take, void *ctx, err *e);

#endif
