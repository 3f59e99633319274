/* Diagrams as SVG: one panel per level, fixed sizes, no scripts, fonts by family name. */
#include <math.h>
#include <string.h>

#include "metrics/results.h"

enum { SIDE = 240, LEFT = 56, TOP = 40, GAP = 48, STRIP = 44, BOTTOM = 46, PANELS_MAX = 8 };
static const char ink[] = "#222222", faint[] = "#d9d9d9", blue[] = "#1f5fa8", orange[] = "#c8641e", grey[] = "#777777";

typedef struct panels {
    const report *p[PANELS_MAX];
    size_t n;
} panels;

static panels panels_of(const results *r, const char *asked) {
    panels all = {.n = 0};
    for (size_t i = 0; i < r->n && all.n < PANELS_MAX; i++)
        if (strcmp(r->reports[i].cell->question, asked) == 0) all.p[all.n++] = &r->reports[i];
    return all;
}

static void put_escaped(buf *b, const char *s) {
    for (; *s; s++) {
        if (*s == '<') buf_text(b, "&lt;");
        else if (*s == '&') buf_text(b, "&amp;");
        else buf_byte(b, *s);
    }
}

static void line(buf *b, double x1, double y1, double x2, double y2, const char *colour, double width, const char *more) {
    buf_printf(b, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"%s\" stroke-width=\"%.2f\"%s/>\n", x1, y1, x2, y2, colour, width, more);
}

static void text(buf *b, double x, double y, const char *anchor, int size, const char *s) {
    buf_printf(b, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" font-size=\"%d\" fill=\"%s\">", x, y, anchor, size, ink);
    put_escaped(b, s);
    buf_text(b, "</text>\n");
}

static void begin(buf *b, size_t n, double height, const char *title) {
    double width = LEFT + (double)n * SIDE + (double)(n - 1) * GAP + 24;
    buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\">\n", width, height, width, height);
    buf_text(b, "<title>");
    put_escaped(b, title);
    buf_text(b, "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
}

/* Frame, ticks and grid of a panel; the y axis runs from 0 to top. */
static void axes(buf *b, double x0, double y0, double top, double step, const char *xlabel, const char *ylabel, bool first) {
    for (int i = 0; i <= 5; i++) {
        double x = x0 + SIDE * i / 5.0;
        char t[16];
        line(b, x, y0, x, y0 + SIDE, faint, 0.5, "");
        line(b, x, y0 + SIDE, x, y0 + SIDE + 4, ink, 0.8, "");
        snprintf(t, sizeof t, "%.1f", i / 5.0);
        text(b, x, y0 + SIDE + 16, "middle", 10, t);
    }
    for (double v = 0; v <= top + 1e-9; v += step) {
        double y = y0 + SIDE - SIDE * v / top;
        char t[16];
        line(b, x0, y, x0 + SIDE, y, faint, 0.5, "");
        line(b, x0 - 4, y, x0, y, ink, 0.8, "");
        snprintf(t, sizeof t, step < 0.1 ? "%.2f" : "%.1f", v);
        text(b, x0 - 7, y + 3.5, "end", 10, t);
    }
    buf_printf(b, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"%s\" stroke-width=\"1\"/>\n", x0, y0, SIDE, SIDE, ink);
    text(b, x0 + SIDE / 2.0, y0 + SIDE + 34, "middle", 11, xlabel);
    if (first) {
        buf_printf(b, "<text transform=\"translate(%.2f %.2f) rotate(-90)\" text-anchor=\"middle\" font-size=\"11\" fill=\"%s\">%s</text>\n", x0 - 38, y0 + SIDE / 2.0, ink, ylabel);
    }
}

static void heading(buf *b, double x0, const report *p, const char *figure) {
    char t[160];
    snprintf(t, sizeof t, "%.40s  (n = %zu, %s)", p->cell->level, p->model.n, figure);
    text(b, x0 + SIDE / 2.0, TOP - 10, "middle", 11, t);
}

static double clamp01(double v) {
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

/* Counts of the bins by confidence, below the panel: bins of equal mass are narrow where decisions are many. */
static void strip(buf *b, double x0, double y0, const measured *m) {
    enum { COLUMNS = 40 };
    double mass[COLUMNS] = {0}, most = 0;
    for (size_t i = 0; i < METRIC_BINS; i++) {
        if (!m->bins[i].n) continue;
        int c = (int)(clamp01(m->bins[i].confidence) * COLUMNS);
        if (c >= COLUMNS) c = COLUMNS - 1;
        mass[c] += (double)m->bins[i].n;
        if (mass[c] > most) most = mass[c];
    }
    for (int c = 0; c < COLUMNS; c++) {
        double h = most > 0 ? (STRIP - 14) * mass[c] / most : 0;
        if (h > 0) buf_printf(b, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" fill-opacity=\"0.55\"/>\n", x0 + SIDE * c / (double)COLUMNS + 0.5, y0 + STRIP - 14 - h, SIDE / (double)COLUMNS - 1, h, blue);
    }
    line(b, x0, y0 + STRIP - 14, x0 + SIDE, y0 + STRIP - 14, ink, 0.8, "");
    char t[48];
    snprintf(t, sizeof t, "decisions (most: %.0f)", most);
    text(b, x0, y0 + STRIP, "start", 9, t);
}

status plot_reliability(const results *r, const char *asked, buf *out, err *e) {
    panels all = panels_of(r, asked);
    begin(out, all.n, TOP + SIDE + BOTTOM + STRIP + 8, "Reliability");
    text(out, LEFT, 16, "start", 12, asked);
    for (size_t i = 0; i < all.n; i++) {
        const measured *m = &all.p[i]->model;
        double x0 = LEFT + (double)i * (SIDE + GAP);
        char t[48];
        snprintf(t, sizeof t, "ECE %.3f", m->m[METRIC_ECE].value);
        heading(out, x0, all.p[i], t);
        axes(out, x0, TOP, 1, 0.2, "confidence", "accuracy", i == 0);
        line(out, x0, TOP + SIDE, x0 + SIDE, TOP, grey, 1, " stroke-dasharray=\"4 3\"");
        for (size_t k = 0; k < METRIC_BINS; k++) {
            const bin *n = &m->bins[k];
            if (!n->n) continue;
            double low, high, x = x0 + SIDE * clamp01(n->confidence), acc = (double)n->right / (double)n->n;
            wilson(n->right, n->n, &low, &high);
            line(out, x, TOP + SIDE * (1 - low), x, TOP + SIDE * (1 - high), blue, 1, " stroke-opacity=\"0.6\"");
            buf_printf(out, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3.2\" fill=\"%s\"><title>%zu decisions, confidence %.3f, accuracy %.3f</title></circle>\n", x, TOP + SIDE * (1 - acc), blue, n->n, n->confidence, acc);
        }
        strip(out, x0, TOP + SIDE + BOTTOM - 4, m);
    }
    buf_text(out, "</svg>\n");
    return buf_ok(out, e);
}

static void curve(buf *b, double x0, double top, const measured *m, const char *colour, const char *more) {
    if (!m->n_curve) return;
    buf_text(b, "<polyline fill=\"none\" stroke=\"");
    buf_printf(b, "%s\" stroke-width=\"1.6\"%s points=\"", colour, more);
    buf_printf(b, "%.2f,%.2f", x0, TOP + SIDE * (1 - m->curve[0].risk / top));
    for (size_t i = 0; i < m->n_curve; i++) buf_printf(b, " %.2f,%.2f", x0 + SIDE * m->curve[i].coverage, TOP + SIDE * (1 - m->curve[i].risk / top));
    buf_text(b, "\"/>\n");
}

static double highest(const measured *m, double top) {
    for (size_t i = 0; i < m->n_curve; i++)
        if (m->curve[i].risk > top) top = m->curve[i].risk;
    return top;
}

static void legend(buf *b, double x, double y, const char *colour, const char *more, const char *name) {
    line(b, x, y - 3.5, x + 20, y - 3.5, colour, 1.6, more);
    text(b, x + 25, y, "start", 10, name);
}

status plot_risk_coverage(const results *r, const char *asked, buf *out, err *e) {
    panels all = panels_of(r, asked);
    static const char dash[] = " stroke-dasharray=\"5 3\"", dots[] = " stroke-dasharray=\"1.5 2.5\"";
    double top = 0.12;
    for (size_t i = 0; i < all.n; i++) top = highest(&all.p[i]->lookup, highest(&all.p[i]->majority, highest(&all.p[i]->model, top)));
    double step = top > 0.5 ? 0.2 : top > 0.25 ? 0.1 : 0.05;
    top = ceil(top / step - 1e-9) * step;
    if (top > 1) top = 1;
    begin(out, all.n, TOP + SIDE + BOTTOM + 24, "Risk over coverage");
    text(out, LEFT, 16, "start", 12, asked);
    for (size_t i = 0; i < all.n; i++) {
        const report *p = all.p[i];
        double x0 = LEFT + (double)i * (SIDE + GAP), y5 = TOP + SIDE * (1 - 0.05 / top);
        char t[48];
        snprintf(t, sizeof t, "AURC %.3f, cov@5%% %.2f", p->model.m[METRIC_AURC].value, p->model.m[METRIC_COVERAGE_5].value);
        heading(out, x0, p, t);
        axes(out, x0, TOP, top, step, "coverage", "error among those kept", i == 0);
        line(out, x0, y5, x0 + SIDE, y5, grey, 1, dots);
        text(out, x0 + SIDE - 3, y5 - 3, "end", 9, "5 % error");
        curve(out, x0, top, &p->majority, grey, dash);
        curve(out, x0, top, &p->lookup, orange, dash);
        curve(out, x0, top, &p->model, blue, "");
    }
    double y = TOP + SIDE + BOTTOM + 10;
    legend(out, LEFT, y, blue, "", "model");
    legend(out, LEFT + 80, y, orange, dash, "lookup");
    legend(out, LEFT + 160, y, grey, dash, "majority");
    buf_text(out, "</svg>\n");
    return buf_ok(out, e);
}
