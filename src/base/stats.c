/* Numbers about measurements: quantiles, and whether two sets of them differ. */
#include "base.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX 40

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hy_quantile(double *v, uint32_t n, double q)
{
    qsort(v, n, sizeof *v, by_value);
    double at = q * (n - 1);
    uint32_t low = (uint32_t)at, high = HY_MIN(low + 1, n - 1);
    return v[low] + (v[high] - v[low]) * (at - low);
}

double hy_median(double *v, uint32_t n)
{
    return hy_quantile(v, n, 0.5);
}

/* How many of the pairs (a, b) have a > b; equal ones count half. */
static double wins(const double *a, uint32_t n_a, const double *b, uint32_t n_b)
{
    double u = 0;
    for (uint32_t i = 0; i < n_a; i++)
        for (uint32_t k = 0; k < n_b; k++) u += a[i] > b[k] ? 1 : a[i] == b[k] ? 0.5 : 0;
    return u;
}

/* The share of all orders of n_a and n_b values with at most u wins (Mann and Whitney 1947: the number of orders
 * f(u, n, m) = f(u - m, n - 1, m) + f(u, n, m - 1), the last value being an a or a b). */
static double share_up_to(uint32_t u, uint32_t n_a, uint32_t n_b)
{
    static const uint32_t side = EXACT_MAX + 1;
    uint32_t all = n_a * n_b + 1;
    double *f = hy_calloc((size_t)side * all, sizeof *f); /* [n_b + 1][all], one n_a after the other */
    if (!f) return NAN;
    for (uint32_t m = 0; m <= n_b; m++) f[(size_t)m * all] = 1;
    for (uint32_t n = 1; n <= n_a; n++)
        for (uint32_t m = 1; m <= n_b; m++) {
            double *now = f + (size_t)m * all; /* holds f(., n - 1, m) */
            const double *less = f + (size_t)(m - 1) * all; /* holds f(., n, m - 1) */
            for (uint32_t k = all; k-- > 0;) now[k] = (k >= m ? now[k - m] : 0) + less[k];
        }
    double sum = 0, total = 0;
    for (uint32_t k = 0; k < all; k++) {
        total += f[(size_t)n_b * all + k];
        if (k <= u) sum += f[(size_t)n_b * all + k];
    }
    hy_free(f);
    return sum / total;
}

static double exact(double u, uint32_t n_a, uint32_t n_b)
{
    double low = HY_MIN(u, (double)n_a * n_b - u);
    return HY_MIN(1.0, 2 * share_up_to((uint32_t)low, n_a, n_b));
}

/* Sum of t^3 - t over the groups of equal values; 0: all differ. NAN when out of memory. */
static double ties(const double *a, uint32_t n_a, const double *b, uint32_t n_b)
{
    uint32_t n = n_a + n_b;
    double *all = hy_alloc_array(n, sizeof *all), sum = 0;
    if (!all) return NAN;
    memcpy(all, a, n_a * sizeof *all);
    memcpy(all + n_a, b, n_b * sizeof *all);
    qsort(all, n, sizeof *all, by_value);
    for (uint32_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && all[k] == all[i]; k++) {}
        double t = k - i;
        sum += t * t * t - t;
    }
    hy_free(all);
    return sum;
}

double hy_rank_test(const double *a, uint32_t n_a, const double *b, uint32_t n_b)
{
    if (n_a == 0 || n_b == 0) return 1;
    double u = wins(a, n_a, b, n_b), equal = ties(a, n_a, b, n_b), n = (double)n_a + n_b, product = (double)n_a * n_b;
    if (equal == 0 && n_a + n_b <= EXACT_MAX) return exact(u, n_a, n_b);
    double variance = product / 12 * (n + 1 - equal / (n * (n - 1)));
    if (!(variance > 0)) return 1; /* all are equal */
    double z = (fabs(u - product / 2) - 0.5) / sqrt(variance); /* a half: u moves in steps */
    return HY_MIN(1.0, erfc(z / sqrt(2)));
}

hy_change hy_speed_change(double *before, uint32_t n_before, double *now, uint32_t n_now, double floor, double *ratio,
                          double *p)
{
    double old = hy_median(before, n_before);
    *ratio = old > 0 ? hy_median(now, n_now) / old : 1;
    *p = hy_rank_test(before, n_before, now, n_now);
    if (!(*p < 0.05)) return HY_CHANGE_NONE;
    return *ratio < 1 - floor ? HY_CHANGE_SLOWER : *ratio * (1 - floor) > 1 ? HY_CHANGE_FASTER : HY_CHANGE_NONE;
}
