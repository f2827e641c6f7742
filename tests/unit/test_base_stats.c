/* base: quantiles and the rank test against numpy 2 and scipy 1 (numpy.quantile; scipy.stats.mannwhitneyu, two-sided, method
 * "exact" where no two values are equal and there are at most 40, else "asymptotic"). */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want)))) fail_msg("%.17g is not %.17g", got, want);
}

static void test_quantiles(void **state)
{
    static const double q[] = { 0, 0.25, 0.5, 0.75, 0.9, 1 }, want[] = { 1, 1.75, 3.5, 5.25, 6.9, 9 };
    for (size_t i = 0; i < HY_COUNT(q); i++) {
        double v[] = { 3, 1, 4, 1, 5, 9, 2, 6 };
        near(hy_quantile(v, 8, q[i]), want[i]);
    }
    double one[] = { 7 }, even[] = { 4, 1 };
    near(hy_median(one, 1), 7);
    near(hy_median(even, 2), 2.5);
}

static void test_ranks(void **state)
{
    static const struct {
        uint32_t n, m;
        double a[9], b[9], p;
    } rows[] = {
        { 5, 5, { 1, 2, 3, 4, 5 }, { 6, 7, 8, 9, 10 }, 0.007936507936507936 },
        { 5, 5, { 6, 7, 8, 9, 10 }, { 1, 2, 3, 4, 5 }, 0.007936507936507936 },
        { 5, 5, { 1.5, 3.2, 2.7, 9.1, 4.4 }, { 2.2, 5.1, 3.9, 8.0, 7.7 }, 0.5476190476190477 },
        { 4, 4, { 10.1, 9.8, 10.4, 10.0 }, { 9.1, 9.3, 9.9, 8.8 }, 0.05714285714285714 },
        { 7, 9, { 5, 1, 9, 12, 3, 7, 8 }, { 2, 4, 6, 10, 11, 13, 14, 15, 16 }, 0.14160839160839161 },
        { 3, 3, { 1, 2, 3 }, { 4, 5, 6 }, 0.1 },
        { 6, 5, { 1, 2, 2, 3, 4, 4 }, { 2, 3, 5, 5, 6 }, 0.13770287768403508 },
        { 4, 4, { 1, 1, 1, 1 }, { 1, 1, 1, 2 }, 0.4532547047537364 },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) near(hy_rank_test(rows[i].a, rows[i].n, rows[i].b, rows[i].m), rows[i].p);
    double a[30], b[30], same[] = { 2, 2, 2 };
    for (int i = 0; i < 30; i++) {
        a[i] = i;
        b[i] = i + 3.5;
    }
    near(hy_rank_test(a, 30, b, 30), 0.14531912724086543);
    near(hy_rank_test(same, 3, same, 3), 1);
    near(hy_rank_test(a, 0, b, 3), 1);
}

static void test_change(void **state)
{
    double ratio, p;
    double old[] = { 100, 101, 99, 100.5, 99.5 }, less[] = { 90, 91, 89, 90.5, 89.5 }, little[] = { 98, 98.5, 97.9, 98.1, 98.4 };
    double wild[] = { 60, 140, 95, 88, 101 }, more[] = { 110, 111, 109, 110.5, 109.5 };
    assert_int_equal(hy_speed_change(old, 5, less, 5, 0.03, &ratio, &p), HY_CHANGE_SLOWER);
    near(ratio, 0.9);
    near(p, 0.007936507936507936);
    assert_int_equal(hy_speed_change(old, 5, more, 5, 0.03, &ratio, &p), HY_CHANGE_FASTER);
    assert_int_equal(hy_speed_change(old, 5, little, 5, 0.03, &ratio, &p), HY_CHANGE_NONE); /* certain, and too little */
    assert_true(p < 0.05 && ratio < 1);
    assert_int_equal(hy_speed_change(old, 5, little, 5, 0.01, &ratio, &p), HY_CHANGE_SLOWER);
    assert_int_equal(hy_speed_change(old, 5, wild, 5, 0.03, &ratio, &p), HY_CHANGE_NONE); /* much, and by chance */
    assert_true(ratio < 0.97 && p > 0.05);
    double far[] = { 9000, 9100, 8900, 9050, 8950 }, thrice[] = { 300, 301, 299, 300.5, 299.5 }; /* 90 and 3 times */
    assert_int_equal(hy_speed_change(old, 5, far, 5, 0.99, &ratio, &p), HY_CHANGE_NONE); /* below a hundred times: */
    assert_int_equal(hy_speed_change(far, 5, old, 5, 0.99, &ratio, &p), HY_CHANGE_NONE); /* either way */
    assert_int_equal(hy_speed_change(old, 5, thrice, 5, 0.5, &ratio, &p), HY_CHANGE_FASTER);
    assert_int_equal(hy_speed_change(thrice, 5, old, 5, 0.5, &ratio, &p), HY_CHANGE_SLOWER);
    assert_int_equal(hy_speed_change(old, 3, less, 3, 0.03, &ratio, &p), HY_CHANGE_NONE); /* three can tell nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_quantiles), cmocka_unit_test(test_ranks), cmocka_unit_test(test_change) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
