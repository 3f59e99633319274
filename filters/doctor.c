/* doctor: what this host can do and what is wrong, before an hour is spent. One line per check. */
#include <string.h>

#include "base/opt.h"
#include "doctor/doctor.h"
#include "doctor/probe.h"
#include "token/chat.h"

static status run(findings *r, const doctor_options *o, const char *backend) {
    bool composite = strcmp(backend, "composite") == 0;
    probe_instrument(r);
    doctor_share(r);
    if (composite || strcmp(backend, "local") == 0) doctor_local(r, o);
    if (composite || strcmp(backend, "gateway") == 0) doctor_gateway(r, o, composite);
    findings_end(r, backend);
    return r->status;
}

int main(int argc, char **argv) {
    doctor_options o;
    const char *backend;
    bool as_json;
    const opt_def opts[] = {
        {.name = "backend", .letter = 'b', .kind = OPT_CHOICE, .arg = "BACKEND", .to = &backend, .initial = "local", .choices = "local|gateway|composite|fake",
         .help = "what is to be used: weights on this host, a server, both, or planted answers"},
        {.name = "model", .letter = 'm', .kind = OPT_TEXT, .arg = "MODEL", .to = &o.model, .help = "local, composite: the model; gateway: the served model's tokenizer and chat template"},
        {.name = "template", .kind = OPT_CHOICE, .arg = "NAME", .to = &o.template, .choices = CHAT_NAMES, .help = "take this chat template instead of the model's own"},
        {.name = "bundles", .kind = OPT_TEXT, .arg = "DIR", .to = &o.bundles, .initial = "bundles", .help = "local, composite: where bundle-pack keeps what was learnt"},
        {.name = "threads", .kind = OPT_SIZE, .arg = "N", .to = &o.threads, .initial = "0", .max = 1024, .help = "threads; 0 means all cores that this process may use"},
        {.name = "url", .letter = 'u', .kind = OPT_TEXT, .arg = "URL", .to = &o.url, .help = "gateway, composite: the server"},
        {.name = "served-model", .letter = 's', .kind = OPT_TEXT, .arg = "NAME", .to = &o.served_model, .help = "the model's name at the server; may be left out when it has one only"},
        {.name = "api", .kind = OPT_CHOICE, .arg = "API", .to = &o.api, .choices = ASK_APIS, .help = "as prefill-gateway's; without it completions when there is a --model, else chat"},
        {.name = "key-file", .kind = OPT_TEXT, .arg = "FILE", .to = &o.key_file, .help = "the key, in a file that only you can read; otherwise it is taken from ANYJEV_API_KEY"},
        {.name = "proxy", .kind = OPT_TEXT, .arg = "URL", .to = &o.proxy, .help = "go through this proxy; those of the environment are ignored"},
        {.name = "allow-insecure", .kind = OPT_FLAG, .to = &o.insecure, .help = "permit http to another host"},
        {.name = "timeout", .kind = OPT_REAL, .arg = "SECONDS", .to = &o.timeout, .initial = "30", .min = 0.01, .max = 3600, .help = "what a server has for an answer"},
        {.name = "json", .kind = OPT_FLAG, .to = &as_json, .help = "write JSON Lines, a record per check and one for the whole"},
    };
    const opt_program program = {.name = "doctor", .operands = "", .summary = "what this host can do and what is wrong: one line per check",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "examples:\n  anyjev-pipe doctor --model m.gguf\n  anyjev-pipe doctor --backend gateway --url http://127.0.0.1:8000\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    findings r = {.json = as_json, .e = &e};
    status s = rest.n ? err_set(&e, ST_USAGE, "'%s': the doctor reads no files", rest.files[0]) : ST_OK;
    if (!s) s = output_open(&r.out, NULL, true, &e);
    if (!s) s = output_end(r.out, run(&r, &o, backend), &e);
    bool failed = !s && !findings_passed(&r);
    findings_free(&r);
    /* The lines have said what failed. */
    return failed ? ST_REFUSED : opt_finish(&program, s, &e);
}
