#include "base/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_start(progress *p, const char *program, const char *unit, size_t total, bool forced) {
    p->program = program;
    p->unit = unit;
    p->total = total;
    p->done = 0;
    p->tty = isatty(STDERR_FILENO);
    p->on = forced || p->tty;
    p->start = p->shown = now();
}

static void draw(progress *p, double t, bool last) {
    double spent = t - p->start, rate = spent > 0 ? (double)p->done / spent : 0;
    fprintf(stderr, "%s%s: ", p->tty ? "\r" : "", p->program);
    if (p->total) {
        double part = (double)p->done / (double)p->total;
        char bar[25];
        for (int i = 0; i < 24; i++) bar[i] = i < (int)(part * 24) ? '#' : '.';
        bar[24] = '\0';
        fprintf(stderr, "[%s] %zu/%zu %s", bar, p->done, p->total, p->unit);
    } else {
        fprintf(stderr, "%zu %s", p->done, p->unit);
    }
    fprintf(stderr, ", %.1f/s", rate);
    if (last) fprintf(stderr, ", %.1f s", spent);
    else if (p->total && rate > 0) fprintf(stderr, ", %.0f s left", (double)(p->total - p->done) / rate);
    fputs(p->tty && !last ? "\033[K" : p->tty ? "\033[K\n" : "\n", stderr);
    fflush(stderr);
    p->shown = t;
}

void progress_step(progress *p, size_t more) {
    p->done += more;
    if (!p->on) return;
    double t = now();
    if (t - p->shown >= (p->tty ? 0.2 : 10.0)) draw(p, t, false);
}

void progress_end(progress *p) {
    if (p->on) draw(p, now(), true);
    p->on = false;
}
