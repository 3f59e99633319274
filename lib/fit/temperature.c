#include <math.h>

#include "fit/fit.h"
#include "kernel/kernel.h"

static const double clip = 1e-12;

double fit_nll(const double *probs, const size_t *labels, size_t n, size_t k, double temperature) {
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        const double *p = probs + i * k;
        double z[DECIDE_MAX], top = -INFINITY, sum = 0;
        for (size_t c = 0; c < k; c++) {
            z[c] = kernel_log(p[c] > clip ? p[c] : clip) / temperature;
            if (z[c] > top) top = z[c];
        }
        for (size_t c = 0; c < k; c++) sum += kernel_exp(z[c] - top);
        total += top + kernel_log(sum) - z[labels[i]];
    }
    return total / (double)n;
}

double fit_temperature(const double *probs, const size_t *labels, size_t n, size_t k) {
    const double phi = (sqrt(5) - 1) / 2;
    double a = -3, b = 3, c = b - phi * (b - a), d = a + phi * (b - a);
    double fc = fit_nll(probs, labels, n, k, kernel_exp(c)), fd = fit_nll(probs, labels, n, k, kernel_exp(d));
    for (int i = 0; i < 60; i++) {
        if (fc < fd) {
            b = d;
            d = c;
            fd = fc;
            c = b - phi * (b - a);
            fc = fit_nll(probs, labels, n, k, kernel_exp(c));
        } else {
            a = c;
            c = d;
            fc = fd;
            d = a + phi * (b - a);
            fd = fit_nll(probs, labels, n, k, kernel_exp(d));
        }
    }
    return kernel_exp((a + b) / 2);
}
