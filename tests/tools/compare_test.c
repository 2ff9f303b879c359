/* The comparer: each bound of interface.md held by a little, and broken by a little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "compare.h"

enum { ROWS = 2, D_V = 512, ELEMS = ROWS * D_V };

static double got[ELEMS];
static double ref[ELEMS];
static double out_abs[ELEMS];

/* Two rows of ones, without cancellation: the bound is 2/256 + 1e-6 everywhere, 2 ULP are 2/128. */
static int ones(void **state)
{
    (void)state;
    for (int i = 0; i < ELEMS; i++)
        got[i] = ref[i] = out_abs[i] = 1;
    return 0;
}

static struct compare_result compare(void)
{
    return compare_out(got, ref, out_abs, ROWS, D_V);
}

static void equal_is_right(void **state)
{
    (void)state;
    const struct compare_result result = compare();
    assert_true(result.pass && result.failed == 0 && result.max_abs == 0 && result.bound_used == 0);
    assert_true(result.cos == 0 && result.max_ulp == 0);
}

static void element_bound(void **state)
{
    (void)state;
    got[700] = 1 + 0.0078;
    struct compare_result result = compare();
    assert_true(result.pass && result.bound_used > 0.99 && result.bound_used <= 1);
    got[700] = 1 - 0.0079;
    result = compare();
    assert_true(!result.pass && result.failed == 1 && result.bound_used > 1 && result.worst == 700);
    assert_true(result.worst_got == got[700] && result.worst_ref == 1);
}

static void ulp_of_the_rows_largest(void **state)
{
    (void)state;
    for (int i = 0; i < ELEMS; i++)
        out_abs[i] = 10; /* cancellation: the first bound is wide */
    got[5] = 1 + 0.0156;
    assert_true(compare().pass);
    got[5] = 1 + 0.0157;
    struct compare_result result = compare();
    assert_true(!result.pass && result.failed == 1 && result.bound_used < 1 && result.max_ulp > 2);
    ref[6] = got[6] = -2; /* the row's largest doubles the unit */
    assert_true(compare().pass);
    got[5] = 1;
    got[D_V] = 1 + 0.0157; /* the other row's does not */
    assert_false(compare().pass);
}

static void cosine(void **state)
{
    (void)state;
    for (int i = 0; i < ELEMS; i++)
        got[i] = i % 2 == 0 ? 1.0035 : 0.9965;
    struct compare_result result = compare();
    assert_true(result.pass && result.cos > 6e-6);
    for (int i = 0; i < ELEMS; i++)
        got[i] = i % 2 == 0 ? 1.004 : 0.996;
    result = compare();
    assert_true(!result.pass && result.failed == 0 && result.bound_used < 1 && result.cos > 7e-6);
}

static void a_row_of_zeros_is_zero(void **state)
{
    (void)state;
    for (int i = 0; i < D_V; i++)
        got[i] = ref[i] = out_abs[i] = 0;
    assert_true(compare().pass);
    got[3] = 5e-7;
    assert_false(compare().pass);
}

/* got, ref: whether they count as equal; tried in all three comparisons. */
static const struct {
    double got;
    double ref;
    bool equal;
} specials[] = {
    {NAN, NAN, true},
    {-NAN, NAN, true},
    {INFINITY, INFINITY, true},
    {-INFINITY, -INFINITY, true},
    {NAN, 1, false},
    {1, NAN, false},
    {INFINITY, 1, false},
    {1, INFINITY, false},
    {1, -INFINITY, false},
    {NAN, INFINITY, false},
    {INFINITY, NAN, false},
    {INFINITY, -INFINITY, false},
    {-INFINITY, INFINITY, false},
};

static void infinities_and_nan(void **state)
{
    const double zero[ROWS] = {0};
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        ones(state);
        got[9] = specials[i].got;
        ref[9] = specials[i].ref;
        const struct compare_result out = compare();
        assert_int_equal(out.pass, specials[i].equal);
        assert_int_equal(out.failed, !specials[i].equal);
        assert_int_equal(isinf(out.max_abs), !specials[i].equal);
        const double log_got[ROWS] = {1, specials[i].got};
        const double log_ref[ROWS] = {1, specials[i].ref};
        const struct compare_result log = compare_log(log_got, log_ref, zero, ROWS, COMPARE_PREFILL);
        assert_int_equal(log.pass, specials[i].equal);
        assert_int_equal(log.failed, !specials[i].equal);
    }
}

static void an_unknown_bound_is_no_bound(void **state)
{
    (void)state;
    out_abs[0] = NAN;
    const struct compare_result result = compare();
    assert_true(!result.pass && result.failed == 1 && result.bound_used == INFINITY && result.worst == 0);
}

static void log_bound(void **state)
{
    (void)state;
    const double lse[1] = {10};
    const double logit_abs[1] = {100};
    const double bound = 1e-6 + 2.01 / 65536 * 10 + 100.0 / (1 << 22);
    const double inside[1] = {10 + bound * 0.999};
    const double outside[1] = {10 - bound * 1.001};
    assert_true(compare_log(inside, lse, logit_abs, 1, COMPARE_PREFILL).pass);
    const struct compare_result result = compare_log(outside, lse, logit_abs, 1, COMPARE_PREFILL);
    assert_true(!result.pass && result.failed == 1 && fabs(result.bound_used - 1.001) < 1e-6);
    assert_true(compare_log(outside, lse, logit_abs, 1, COMPARE_DECODE).pass);
}

/* lse in base 2: off by the factor 1.4427. */
static void the_wrong_base_fails(void **state)
{
    (void)state;
    const double lse[ROWS] = {3.5, -0.25};
    const double base_2[ROWS] = {3.5 / log(2), -0.25 / log(2)};
    const double logit_abs[ROWS] = {20, 20};
    const struct compare_result result = compare_log(base_2, lse, logit_abs, ROWS, COMPARE_PREFILL);
    assert_true(!result.pass && result.failed == ROWS);
}

static void nothing_to_compare(void **state)
{
    (void)state;
    assert_true(compare_out(got, ref, out_abs, 0, D_V).pass);
    assert_true(compare_log(got, ref, out_abs, 0, COMPARE_PREFILL).pass);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(equal_is_right, ones),
        cmocka_unit_test_setup(element_bound, ones),
        cmocka_unit_test_setup(ulp_of_the_rows_largest, ones),
        cmocka_unit_test_setup(cosine, ones),
        cmocka_unit_test_setup(a_row_of_zeros_is_zero, ones),
        cmocka_unit_test_setup(infinities_and_nan, ones),
        cmocka_unit_test_setup(an_unknown_bound_is_no_bound, ones),
        cmocka_unit_test(log_bound),
        cmocka_unit_test(the_wrong_base_fails),
        cmocka_unit_test(nothing_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
