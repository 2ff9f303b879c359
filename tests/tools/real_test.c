/* The reference's own functions of real numbers against libm's. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "real.h"

static void near(double got, double wanted, double argument)
{
    if (!(fabs(got - wanted) <= 4 * DBL_EPSILON * fabs(wanted) + 0x1p-1070))
        fail_msg("of %a: %a instead of %a", argument, got, wanted);
}

static void exponentials(void **state)
{
    (void)state;
    for (double x = -745; x < 709.7; x += 0.0173)
        near(rt_exp(x), exp(x), x);
    for (double x = 0x1p-60; x < 1; x *= 1.7)
        near(rt_exp(-x), exp(-x), -x);
    assert_true(rt_exp(0) == 1);
    assert_true(rt_exp(-INFINITY) == 0 && rt_exp(-800) == 0);
    assert_true(rt_exp(INFINITY) == INFINITY && rt_exp(720) == INFINITY);
    assert_true(isnan(rt_exp(NAN)));
}

static void logarithms(void **state)
{
    (void)state;
    for (double x = 0x1p-1060; x < 0x1p1020; x *= 1.37)
        near(rt_log(x), log(x), x);
    for (double x = 0.5; x < 2; x += 0.00037)
        near(rt_log(x), log(x), x);
    assert_true(rt_log(1) == 0);
    assert_true(rt_log(0) == -INFINITY && rt_log(INFINITY) == INFINITY);
    assert_true(isnan(rt_log(-1)) && isnan(rt_log(NAN)));
}

static void roots(void **state)
{
    (void)state;
    for (double x = 0x1p-1022; x < 0x1p1020; x *= 1.37)
        near(rt_sqrt(x), sqrt(x), x);
    assert_true(rt_sqrt(0) == 0 && rt_sqrt(1) == 1 && rt_sqrt(INFINITY) == INFINITY);
    assert_true(isnan(rt_sqrt(-1)) && isnan(rt_sqrt(NAN)));
}

static void the_larger(void **state)
{
    (void)state;
    assert_true(rt_larger(1, 2) == 2 && rt_larger(2, 1) == 2 && rt_larger(-INFINITY, -1) == -1);
    assert_true(rt_larger(NAN, 1) == 1 && rt_larger(1, NAN) == 1);
    assert_true(isnan(rt_larger(NAN, NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exponentials), cmocka_unit_test(logarithms),
                                       cmocka_unit_test(roots), cmocka_unit_test(the_larger)};
    return cmocka_run_group_tests_name("tools.real", tests, NULL, NULL);
}
