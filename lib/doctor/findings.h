/* findings.h: what the doctor found, a line per check. A check that could not run has not passed. */
#ifndef ANYJEV_DOCTOR_FINDINGS_H
#define ANYJEV_DOCTOR_FINDINGS_H

#include <stdbool.h>

#include "base/io.h"

typedef enum finding { FINDING_OK, FINDING_WARN, FINDING_FAIL, FINDING_NOT_RUN } finding;

/* Starts with out and json set, the rest 0; findings_free ends it. */
typedef struct findings {
    output *out; /* borrowed */
    bool json;
    size_t count[4]; /* by finding */
    buf line;
    status status; /* of writing */
    err *e;
} findings;

/* remedy NULL: there is nothing to do. FINDING_NOT_RUN counts as failed, and says is why it could not run. */
void findings_put(findings *r, finding f, const char *check, const char *remedy, const char *says, ...) ERR_PRINTF(5, 6);
/* The last line, with the sums. */
void findings_end(findings *r, const char *backend);
bool findings_passed(const findings *r);
void findings_free(findings *r);

#endif
