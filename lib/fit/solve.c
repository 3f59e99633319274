#include "fit/solve.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* LAPACK: Cholesky of a symmetric positive definite system, solved for nrhs right-hand sides (column-major). */
extern void dposv_(const char *uplo, const int *n, const int *nrhs, double *a, const int *lda, double *b, const int *ldb, int *info);

const char *solver_name(solver s) {
    return s == SOLVER_LDA ? "lda" : "ridge";
}

size_t dual_work(size_t n, size_t k) {
    return n * n      /* the system */
           + n * k    /* right-hand sides */
           + 2 * n * k /* gm, rm */
           + k * k + 2 * n + 2 * k;
}

static bool trains(const dual *x, size_t i) {
    return !x->in || x->in[i];
}

static bool solve(double *a, double *b, size_t n, size_t k) {
    if (n > INT_MAX || k > INT_MAX) return false;
    int order = (int)n, sides = (int)k, info = 0;
    dposv_("L", &order, &sides, a, &order, b, &order, &info);
    return info == 0;
}

static bool finite_all(const double *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i])) return false;
    return true;
}

/* Numbers of training rows by class, and of all. */
static size_t class_counts(const dual *x, double *count) {
    size_t m = 0;
    for (size_t c = 0; c < x->k; c++) count[c] = 0;
    for (size_t i = 0; i < x->n; i++)
        if (trains(x, i)) count[x->labels[i]]++, m++;
    return m;
}

/* Within-class covariance S = (1 - a) R'R / (m - 1) + a tau I, R the rows less their class's mean, tau = tr(S_w) / d; W = inverse of
 * S times the class means, by Woodbury's identity in an m-by-m system. A class without rows has the mean of all. */
static bool lda(const dual *x, double shrinkage, double *scores, double *coef, double *bias) {
    size_t n = x->n, k = x->k;
    double *a = x->work, *rhs = a + n * n, *gm = rhs + n * k, *rm = gm + n * k, *mm = rm + n * k, *count = mm + k * k, *row = count + k;
    size_t m = class_counts(x, count);
    if (m < 2) return false;
    /* gm[i][c] = z_i . mean_c */
    for (size_t i = 0; i < n; i++) {
        double all = 0;
        for (size_t c = 0; c < k; c++) gm[i * k + c] = 0;
        for (size_t t = 0; t < n; t++) {
            if (!trains(x, t)) continue;
            gm[i * k + x->labels[t]] += x->g[i * n + t];
            all += x->g[i * n + t];
        }
        for (size_t c = 0; c < k; c++) gm[i * k + c] = count[c] > 0 ? gm[i * k + c] / count[c] : all / (double)m;
    }
    /* mm[b][c] = mean_b . mean_c */
    for (size_t b = 0; b < k; b++)
        for (size_t c = 0; c < k; c++) {
            double sum = 0;
            for (size_t t = 0; t < n; t++)
                if (trains(x, t) && (count[b] == 0 || x->labels[t] == b)) sum += gm[t * k + c];
            mm[b * k + c] = sum / (count[b] > 0 ? count[b] : (double)m);
        }
    size_t p = 0;
    double tau = 0;
    for (size_t t = 0; t < n; t++) {
        if (!trains(x, t)) continue;
        size_t b = x->labels[t];
        for (size_t c = 0; c < k; c++) rm[p * k + c] = gm[t * k + c] - mm[b * k + c];
        tau += x->g[t * n + t] - 2 * gm[t * k + b] + mm[b * k + b];
        p++;
    }
    tau = tau / (double)(m - 1) / (double)x->d;
    double scaled = (1 - shrinkage) / (double)(m - 1), ridge = shrinkage * tau;
    if (!(ridge > 0)) return false; /* no spread within the classes */
    p = 0;
    for (size_t t = 0; t < n; t++) {
        if (!trains(x, t)) continue;
        size_t q = 0;
        for (size_t u = 0; u < n; u++) {
            if (!trains(x, u)) continue;
            size_t b = x->labels[t], c = x->labels[u];
            a[p * m + q] = scaled * (x->g[t * n + u] - gm[t * k + c] - gm[u * k + b] + mm[b * k + c]) + (t == u ? ridge : 0);
            q++;
        }
        for (size_t c = 0; c < k; c++) rhs[c * m + p] = rm[p * k + c];
        p++;
    }
    if (!solve(a, rhs, m, k)) return false;
    for (size_t c = 0; c < k; c++) {
        double dot = 0, prior = 0;
        for (p = 0; p < m; p++) dot += rm[p * k + c] * rhs[c * m + p];
        for (size_t b = 0; b < k; b++) prior += count[b] > 0 ? count[b] : 1;
        bias[c] = -0.5 * (mm[c * k + c] - scaled * dot) / ridge + log((count[c] > 0 ? count[c] : 1) / prior);
    }
    for (size_t i = 0; i < n; i++) {
        p = 0;
        for (size_t t = 0; t < n; t++)
            if (trains(x, t)) row[p++] = x->g[i * n + t] - gm[i * k + x->labels[t]];
        for (size_t c = 0; c < k; c++) {
            double dot = 0;
            for (p = 0; p < m; p++) dot += row[p] * rhs[c * m + p];
            scores[i * k + c] = (gm[i * k + c] - scaled * dot) / ridge + bias[c];
        }
    }
    if (!coef) return true;
    /* W_c = (mean_c - scaled sum_p alpha_p (z_p - mean of its class)) / ridge, as a sum over rows */
    for (size_t c = 0; c < k; c++) {
        for (size_t b = 0; b < k; b++) row[b] = 0; /* sums of alpha by class */
        p = 0;
        for (size_t t = 0; t < n; t++)
            if (trains(x, t)) row[x->labels[t]] += rhs[c * m + p++];
        p = 0;
        for (size_t t = 0; t < n; t++) {
            coef[t * k + c] = 0;
            if (!trains(x, t)) continue;
            size_t b = x->labels[t];
            double mean = count[c] > 0 ? (b == c ? 1 / count[c] : 0) : 1 / (double)m;
            coef[t * k + c] = (mean - scaled * (rhs[c * m + p] - row[b] / count[b])) / ridge;
            p++;
        }
    }
    return true;
}

/* Least squares onto one-hot labels with an L2 penalty: (Xc Xc' + lambda I) gamma = Yc, W = Xc' gamma. */
static bool ridge(const dual *x, double lambda, double *scores, double *coef, double *bias) {
    size_t n = x->n, k = x->k;
    double *a = x->work, *rhs = a + n * n, *gx = rhs + n * k, *count = gx + n, xx = 0;
    size_t m = class_counts(x, count), p = 0;
    if (m < 2) return false;
    for (size_t i = 0; i < n; i++) {
        gx[i] = 0; /* z_i . mean */
        for (size_t t = 0; t < n; t++)
            if (trains(x, t)) gx[i] += x->g[i * n + t];
        gx[i] /= (double)m;
    }
    for (size_t t = 0; t < n; t++)
        if (trains(x, t)) xx += gx[t];
    xx /= (double)m;
    for (size_t t = 0; t < n; t++) {
        if (!trains(x, t)) continue;
        size_t q = 0;
        for (size_t u = 0; u < n; u++)
            if (trains(x, u)) a[p * m + q] = x->g[t * n + u] - gx[t] - gx[u] + xx + (t == u ? lambda : 0), q++;
        for (size_t c = 0; c < k; c++) rhs[c * m + p] = (x->labels[t] == c ? 1 : 0) - count[c] / (double)m;
        p++;
    }
    if (!solve(a, rhs, m, k)) return false;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < k; c++) {
            double dot = 0;
            p = 0;
            for (size_t t = 0; t < n; t++)
                if (trains(x, t)) dot += (x->g[i * n + t] - gx[i] - gx[t] + xx) * rhs[c * m + p++];
            scores[i * k + c] = dot + count[c] / (double)m;
        }
    for (size_t c = 0; c < k; c++) {
        double sum = 0, dot = 0;
        p = 0;
        for (size_t t = 0; t < n; t++)
            if (trains(x, t)) sum += rhs[c * m + p++];
        p = 0;
        for (size_t t = 0; t < n; t++) {
            double w = 0;
            if (trains(x, t)) {
                w = rhs[c * m + p++] - sum / (double)m; /* the centring of the rows */
                dot += w * gx[t];
            }
            if (coef) coef[t * k + c] = w;
        }
        bias[c] = count[c] / (double)m - dot;
    }
    return true;
}

bool dual_solve(const dual *x, solver s, double param, double *scores, double *coef, double *bias) {
    bool ok = s == SOLVER_LDA ? lda(x, param, scores, coef, bias) : ridge(x, param, scores, coef, bias);
    return ok && finite_all(scores, x->n * x->k) && finite_all(bias, x->k);
}
