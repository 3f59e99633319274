#include "fit/gram.h"

#include <math.h>
#include <string.h>

void gram_standardise(const float *x, size_t n, size_t d, const unsigned char *in, double *mean, double *scale) {
    double count = 0;
    memset(mean, 0, d * sizeof *mean);
    memset(scale, 0, d * sizeof *scale);
    for (size_t i = 0; i < n; i++) {
        if (in && !in[i]) continue;
        count++;
        for (size_t j = 0; j < d; j++) mean[j] += (double)x[i * d + j];
    }
    for (size_t j = 0; j < d; j++) mean[j] /= count;
    for (size_t i = 0; i < n; i++) {
        if (in && !in[i]) continue;
        for (size_t j = 0; j < d; j++) {
            double v = (double)x[i * d + j] - mean[j];
            scale[j] += v * v;
        }
    }
    for (size_t j = 0; j < d; j++) scale[j] = sqrt(scale[j] / count) + 1e-6;
}

/* Features are taken DEEP at a time, transposed, so that a tile of ROWS by COLS sums runs over rows of it: lanes are columns,
 * and a sum's order is that of the features. */
enum { DEEP = 128, ROWS = 4, COLS = 8 };

static size_t padded(size_t n) {
    return (n + COLS - 1) / COLS * COLS;
}

size_t gram_scratch(size_t n) {
    return padded(n) * DEEP;
}

static void tile(const double *zt, size_t width, size_t deep, size_t i0, size_t j0, double acc[ROWS][COLS]) {
    for (size_t k = 0; k < deep; k++) {
        const double *row = zt + k * width;
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < COLS; j++) acc[i][j] += row[i0 + i] * row[j0 + j];
    }
}

static void add_slice(const double *zt, size_t n, size_t deep, double *g) {
    size_t width = padded(n);
    for (size_t i0 = 0; i0 < n; i0 += ROWS)
        for (size_t j0 = 0; j0 <= i0 + ROWS - 1 && j0 < n; j0 += COLS) {
            double acc[ROWS][COLS] = {{0}};
            for (size_t i = i0; i < i0 + ROWS && i < n; i++)
                for (size_t j = j0; j < j0 + COLS && j < n; j++) acc[i - i0][j - j0] = g[i * n + j];
            tile(zt, width, deep, i0, j0, acc);
            for (size_t i = i0; i < i0 + ROWS && i < n; i++)
                for (size_t j = j0; j < j0 + COLS && j < n; j++) g[i * n + j] = acc[i - i0][j - j0];
        }
}

void gram_make(const float *x, size_t n, size_t d, const double *mean, const double *scale, double *scratch, double *g) {
    size_t width = padded(n);
    memset(g, 0, n * n * sizeof *g);
    for (size_t k0 = 0; k0 < d; k0 += DEEP) {
        size_t deep = d - k0 < DEEP ? d - k0 : DEEP;
        for (size_t i = 0; i < width; i++)
            for (size_t k = 0; k < deep; k++)
                scratch[k * width + i] = i < n ? ((double)x[i * d + k0 + k] - mean[k0 + k]) / scale[k0 + k] : 0;
        add_slice(scratch, n, deep, g);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) g[i * n + j] = g[j * n + i];
}
