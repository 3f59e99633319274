/* run.h: how records name the program that made them. */
#ifndef ANYJEV_JSON_RUN_H
#define ANYJEV_JSON_RUN_H

#include "json/json.h"

/* "run": {"version", "commit", "dirty"} of this build, as a member of the object at hand. */
void run_put(jw *w);

#endif
