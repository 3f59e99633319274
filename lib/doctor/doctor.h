/* doctor.h: the checks of each backend. They report, and go on as far as they can; what depends on something that failed is
 * reported as not run. */
#ifndef ANYJEV_DOCTOR_DOCTOR_H
#define ANYJEV_DOCTOR_DOCTOR_H

#include "doctor/findings.h"
#include "net/ask.h"

/* Borrowed. */
typedef struct doctor_options {
    const char *bundles; /* where bundle-pack keeps what was learnt */
    const char *model, *template;                           /* of the weights here, or of the served model's tokenizer */
    const char *url, *served_model, *api, *key_file, *proxy; /* api NULL: completions with a model, else chat */
    bool insecure;
    size_t threads;
    double timeout; /* seconds a server has for an answer */
} doctor_options;

void doctor_share(findings *r); /* the data files: questions, their lock, the wording */
void doctor_local(findings *r, const doctor_options *o);
/* What is in service there, and whether it was fitted on the model with this fingerprint. */
void doctor_bundles(findings *r, const char *home, const char *fingerprint);
/* ids: the server must tell the ids of the labels, and they must be those of the model here (composite). */
void doctor_gateway(findings *r, const doctor_options *o, bool ids);

#endif
