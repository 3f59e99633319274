#include "json/run.h"

#include "base/version.h"

void run_put(jw *w) {
    jw_key(w, "run");
    jw_open(w, '{');
    jw_key(w, "version");
    jw_text(w, version_number());
    jw_key(w, "commit");
    jw_text(w, version_commit());
    jw_key(w, "dirty");
    jw_bool(w, version_dirty());
    jw_close(w, '}');
}
