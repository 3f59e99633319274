/* bundle-pack: artifacts to versioned bundles; which version is in service; AnyJev's JSON in and out. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/share.h"
#include "bundle/pack.h"
#include "json/lines.h"
#include "question/registry.h"

typedef struct settings {
    const char *home, *model, *questions, *results, *output, *like;
    size_t version, keep;
    bool unmeasured, fresh, plain;
} settings;

typedef struct job {
    const settings *o;
    char **files;
    size_t n;
    output *out;
    char *lock_sha;
    err *e;
} job;

static status say(job *j, const char *text) {
    status s = output_put(j->out, text, strlen(text), j->e);
    return s ? s : output_put(j->out, "\n", 1, j->e);
}

static status read_lock(job *j) {
    registry r = {0};
    char *path = NULL;
    status s = j->o->questions ? ST_OK : share_path("questions.json", &path, j->e);
    if (!s) s = registry_load(&r, j->o->questions ? j->o->questions : path, j->e);
    if (!s && !(j->lock_sha = mem_text(r.lock_sha, strlen(r.lock_sha)))) s = err_memory(j->e, SHA256_HEX_SIZE);
    registry_free(&r);
    free(path);
    return s;
}

/* The last part of a model's path is its name. */
static strv name_of_model(const char *model) {
    strv v = strv_of(model);
    while (v.n > 1 && v.p[v.n - 1] == '/') v.n--;
    for (size_t i = v.n; i-- > 0;)
        if (v.p[i] == '/') return (strv){v.p + i + 1, v.n - i - 1};
    return v;
}

/* The folder that a command works on: named outright, or by --home, --model and the registry's lock. */
static status find_folder(job *j, char **folder) {
    if (j->n > 1) return err_set(j->e, ST_USAGE, "one folder of bundles, or --home and --model");
    if (j->n == 1) {
        *folder = mem_text(j->files[0], strlen(j->files[0]));
        return *folder ? ST_OK : err_memory(j->e, strlen(j->files[0]));
    }
    if (!j->o->model) return err_set(j->e, ST_USAGE, "name a folder of bundles, or the --model whose bundles lie under --home");
    status s = read_lock(j);
    return s ? s : store_folder(j->o->home, name_of_model(j->o->model), j->lock_sha, folder, j->e);
}

static status need_files(job *j, const char *what) {
    return j->n ? ST_OK : err_set(j->e, ST_USAGE, "%s", what);
}

/* --- commands --- */

static status model_of(const char *identity, buf *name, err *e) {
    json doc = {0};
    buf scratch = {0};
    strv v = {0};
    status s = json_parse(&doc, identity, strlen(identity), e);
    if (!s) s = json_text(&doc, json_get(&doc, JREF_ROOT, "name"), &scratch, &v, e);
    if (!s) buf_view(name, v);
    json_free(&doc);
    buf_free(&scratch);
    return s ? s : buf_ok(name, e);
}

/* The model of the first file decides where the bundle goes. */
static status first_identity(job *j, char **identity) {
    pack p = {0};
    status s = pack_artifacts(&p, j->files[0], j->e);
    if (!s && !(*identity = mem_text(p.identity, strlen(p.identity)))) s = err_memory(j->e, 64);
    pack_free(&p);
    return s;
}

static status carry_current(job *j, const char *folder, pack *p) {
    size_t current = 0;
    bundle b = {0};
    char *path = NULL;
    status s = store_current(folder, &current, j->e);
    if (s || !current) return s;
    s = store_path(folder, current, &path, j->e);
    if (!s) s = bundle_read(&b, path, j->e);
    if (!s) s = pack_carry(p, &b, j->e);
    bundle_free(&b);
    free(path);
    return s;
}

static status do_create(job *j) {
    pack p = {0};
    bundle_parts parts;
    buf texts[4] = {{0}}, name = {0};
    char *identity = NULL, *folder = NULL, *path = NULL;
    size_t version = 0;
    status s = need_files(j, "create needs the files that head-fit --artifact wrote");
    if (!s) s = read_lock(j);
    if (!s) s = first_identity(j, &identity);
    if (!s) s = model_of(identity, &name, j->e);
    if (!s) s = store_folder(j->o->home, j->o->model ? name_of_model(j->o->model) : buf_strv(&name), j->lock_sha, &folder, j->e);
    if (!s && !j->o->fresh) s = carry_current(j, folder, &p);
    for (size_t i = 0; !s && i < j->n; i++) s = pack_artifacts(&p, j->files[i], j->e);
    if (!s && j->o->results) s = pack_results(&p, j->o->results, j->lock_sha, j->e);
    if (!s) s = pack_parts(&p, j->lock_sha, &parts, texts, j->e);
    if (!s) s = store_create(folder, &parts, &version, j->e);
    if (!s) s = store_path(folder, version, &path, j->e);
    if (!s) s = say(j, path);
    for (int i = 0; i < 4; i++) buf_free(&texts[i]);
    buf_free(&name);
    pack_free(&p);
    free(identity);
    free(folder);
    free(path);
    return s;
}

/* Question, level, labels and held-out figures of a manifest, a line each. */
static status list_questions(job *j, const bundle *b, bool current) {
    json doc = {0};
    buf line = {0};
    status s = json_parse(&doc, b->manifest, strlen(b->manifest), j->e);
    jref list = s ? JREF_NONE : json_get(&doc, JREF_ROOT, "questions");
    for (jref k = s ? JREF_NONE : json_first(&doc, list); !s && k != JREF_NONE; k = json_next(&doc, list, k)) {
        jref q = json_value(&doc, k), held = json_get(&doc, q, "held_out");
        strv name = json_raw(&doc, k), n = json_raw(&doc, json_get(&doc, q, "n")), accuracy = json_raw(&doc, json_get(&doc, held, "accuracy")), ece = json_raw(&doc, json_get(&doc, held, "ece"));
        buf_clear(&line);
        buf_printf(&line, "v%zu%s\t%.*s\tn=%.*s\taccuracy=%.*s\tECE=%.*s", b->version, current ? " *" : "", (int)name.n - 2, name.p + 1, (int)n.n, n.p, accuracy.n ? (int)accuracy.n : 1,
                   accuracy.n ? accuracy.p : "-", ece.n ? (int)ece.n : 1, ece.n ? ece.p : "-");
        s = output_line(j->out, &line, j->e);
    }
    json_free(&doc);
    buf_free(&line);
    return s;
}

static status do_list(job *j) {
    char *folder = NULL;
    size_t *list = NULL, n = 0, current = 0;
    status s = find_folder(j, &folder);
    if (!s) s = store_versions(folder, &list, &n, j->e);
    if (!s) s = store_current(folder, &current, j->e);
    for (size_t i = 0; !s && i < n; i++) {
        bundle b = {0};
        char *path = NULL;
        s = store_path(folder, list[i], &path, j->e);
        if (!s) s = bundle_read(&b, path, j->e);
        if (!s) s = list_questions(j, &b, list[i] == current);
        bundle_free(&b);
        free(path);
    }
    free(folder);
    free(list);
    return s;
}

/* Every file (or folder's version in service) is looked at; the first that fails decides the end. */
static status do_verify(job *j) {
    status worst = need_files(j, "verify needs bundles");
    err first = *j->e;
    for (size_t i = 0; i < j->n; i++) {
        bundle b = {0};
        char *path = NULL;
        buf line = {0};
        err why = {0};
        status s = bundle_locate(j->files[i], &path, &why);
        if (!s) s = bundle_read(&b, path, &why);
        if (!s) {
            buf_printf(&line, "%s: ok: %zu artifacts", path, b.n);
            s = output_line(j->out, &line, &why);
        } else if (worst) {
            fprintf(stderr, "bundle-pack: %s\n", why.text);
        }
        if (s && !worst) worst = s, first = why;
        bundle_free(&b);
        buf_free(&line);
        free(path);
    }
    *j->e = first;
    return worst;
}

static status one_bundle(job *j, bundle *b) {
    char *path = NULL;
    if (j->n != 1) return err_set(j->e, ST_USAGE, "expected one bundle, or a folder with a version in service");
    status s = bundle_locate(j->files[0], &path, j->e);
    if (!s) s = bundle_read(b, path, j->e);
    free(path);
    return s;
}

static status do_inspect(job *j) {
    bundle b = {0};
    status s = one_bundle(j, &b);
    if (!s) s = say(j, b.manifest);
    bundle_free(&b);
    return s;
}

static status do_export(job *j) {
    bundle b = {0};
    buf text = {0};
    status s = one_bundle(j, &b);
    if (!s) s = pack_export(&b, j->o->plain, &text, j->e);
    if (!s) s = output_line(j->out, &text, j->e);
    bundle_free(&b);
    buf_free(&text);
    return s;
}

static status take_identity(void *ctx, const json *doc, err *e) {
    char **identity = ctx;
    jref model = json_get(doc, JREF_ROOT, "model");
    if (*identity) return ST_OK;
    if (json_kind_of(doc, model) != JSON_OBJECT) return err_set(e, ST_INPUT, "field 'model': expected an object; is this a filled prompt?");
    strv raw = json_raw(doc, model);
    *identity = mem_text(raw.p, raw.n);
    return *identity ? ST_OK : err_memory(e, raw.n);
}

static status do_import(job *j) {
    char *identity = NULL;
    json doc = {0};
    buf text = {0}, out = {0};
    if (j->n != 1 || !j->o->like) return err_set(j->e, ST_USAGE, "import needs AnyJev's JSON and --like FILLED: prompts that the same model filled");
    status s = json_lines(j->o->like, take_identity, &identity, j->e);
    if (!s && !identity) s = err_set(j->e, ST_INPUT, "%s: no filled prompt in it", j->o->like);
    if (!s) s = json_read_file(&doc, &text, j->files[0], j->e);
    if (!s && (s = pack_import(&doc, identity, &out, j->e))) err_prefix(j->e, "%s", j->files[0]);
    if (!s) s = output_put(j->out, out.p, out.len, j->e);
    json_free(&doc);
    buf_free(&text);
    buf_free(&out);
    free(identity);
    return s;
}

static status say_version(job *j, const char *folder, size_t version) {
    char *path = NULL;
    status s = store_path(folder, version, &path, j->e);
    if (!s) s = say(j, path);
    free(path);
    return s;
}

static status do_promote(job *j) {
    char *folder = NULL;
    size_t *list = NULL, n = 0, version = j->o->version;
    status s = find_folder(j, &folder);
    if (!s && !version) {
        s = store_versions(folder, &list, &n, j->e);
        if (!s && !n) s = err_set(j->e, ST_REFUSED, "%s: there is no bundle to promote", folder);
        if (!s) version = list[n - 1];
    }
    if (!s) s = store_promote(folder, version, !j->o->unmeasured, j->e);
    if (!s) s = say_version(j, folder, version);
    free(folder);
    free(list);
    return s;
}

static status do_current(job *j) {
    char *folder = NULL, *path = NULL;
    status s = find_folder(j, &folder);
    if (!s) s = bundle_locate(folder, &path, j->e);
    if (!s) s = say(j, path);
    free(folder);
    free(path);
    return s;
}

static status do_rollback(job *j) {
    char *folder = NULL;
    size_t version;
    status s = find_folder(j, &folder);
    if (!s) s = store_rollback(folder, &version, j->e);
    if (!s) s = say_version(j, folder, version);
    free(folder);
    return s;
}

static status do_prune(job *j) {
    char *folder = NULL;
    size_t removed = 0;
    buf line = {0};
    if (!j->o->keep) return err_set(j->e, ST_USAGE, "prune needs --keep N");
    status s = find_folder(j, &folder);
    if (!s) s = store_prune(folder, j->o->keep, &removed, j->e);
    buf_printf(&line, "%zu removed", removed);
    if (!s) s = output_line(j->out, &line, j->e);
    buf_free(&line);
    free(folder);
    return s;
}

static const struct {
    const char *name;
    status (*run)(job *);
} commands[] = {{"create", do_create}, {"list", do_list},       {"inspect", do_inspect}, {"verify", do_verify}, {"promote", do_promote},
                {"current", do_current}, {"rollback", do_rollback}, {"prune", do_prune},     {"import", do_import}, {"export", do_export}};

int main(int argc, char **argv) {
    settings o;
    const opt_def opts[] = {
        {.name = "home", .kind = OPT_TEXT, .arg = "DIR", .to = &o.home, .initial = "bundles", .help = "where bundles lie: DIR/MODEL/LOCK/vN.jsonl.zst"},
        {.name = "model", .letter = 'm', .kind = OPT_TEXT, .arg = "MODEL", .to = &o.model, .help = "the model whose bundles are meant: its name, or a path that ends in it"},
        {.name = "questions", .kind = OPT_TEXT, .arg = "FILE", .to = &o.questions, .help = "take the registry of FILE instead of the suite's own"},
        {.name = "results", .kind = OPT_TEXT, .arg = "FILE", .to = &o.results, .help = "create: the results (score) of the held-out decisions"},
        {.name = "fresh", .kind = OPT_FLAG, .to = &o.fresh, .help = "create: take nothing over from the version in service"},
        {.name = "number", .kind = OPT_SIZE, .arg = "N", .to = &o.version, .help = "promote: this version instead of the newest"},
        {.name = "unmeasured", .kind = OPT_FLAG, .to = &o.unmeasured, .help = "promote: without comparing held-out figures"},
        {.name = "keep", .kind = OPT_SIZE, .arg = "N", .to = &o.keep, .help = "prune: keep the N newest versions, and the one in service"},
        {.name = "like", .kind = OPT_TEXT, .arg = "FILE", .to = &o.like, .help = "import: prompts filled by the model that the artifacts were fitted on"},
        {.name = "plain", .kind = OPT_FLAG, .to = &o.plain, .help = "export: arrays as numbers instead of base64"},
        {.name = "output", .letter = 'o', .kind = OPT_TEXT, .arg = "FILE", .to = &o.output, .help = "write to FILE, which appears whole or not at all, instead of standard output"},
    };
    const opt_program program = {.name = "bundle-pack", .operands = "COMMAND [FILE ...]", .summary = "what was learnt as versioned, checked files; which of them is in service",
                                 .opts = opts, .n_opts = sizeof opts / sizeof *opts,
                                 .notes = "commands:\n  create ARTIFACT ...   list [FOLDER]      inspect BUNDLE       verify BUNDLE ...\n"
                                          "  promote [FOLDER]      current [FOLDER]   rollback [FOLDER]    prune --keep N [FOLDER]\n"
                                          "  import --like FILLED ANYJEV.json         export BUNDLE\n\n"
                                          "example:\n  bundle-pack create --results results.json head.jsonl && bundle-pack promote --model models/x.gguf\n"};
    opt_rest rest;
    bool go;
    int code;
    opt_begin(&program, argc, argv, &rest, &go, &code);
    if (!go) return code;
    err e = {0};
    job j = {.o = &o, .e = &e};
    size_t c = 0;
    while (rest.n && c < sizeof commands / sizeof *commands && strcmp(commands[c].name, rest.files[0]) != 0) c++;
    status s = rest.n && c < sizeof commands / sizeof *commands ? ST_OK : err_set(&e, ST_USAGE, "expected a command: create, list, inspect, verify, promote, current, rollback, prune, import or export");
    if (!s) {
        j.files = rest.files + 1;
        j.n = rest.n - 1;
        s = output_open(&j.out, o.output, false, &e);
    }
    if (!s) s = commands[c].run(&j);
    if (j.out) s = output_end(j.out, s, &e);
    free(j.lock_sha);
    return opt_finish(&program, s, &e);
}
