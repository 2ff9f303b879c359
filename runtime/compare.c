#include "compare.h"

#include <math.h>

#include "real.h"

const double compare_cos_limit = 7e-6;
const double compare_ulp_limit = 2;

/* Sums over the finite pairs. */
struct sums {
    double dot;
    double got;
    double ref;
};

static bool both_finite(double got, double ref)
{
    return isfinite(got) && isfinite(ref);
}

static bool same_special(double got, double ref)
{
    return (isnan(got) && isnan(ref)) || got == ref;
}

/* Unit in the last place at |value| for a type with `digits` mantissa bits and float32's exponents. */
static double ulp_at(double value, int digits)
{
    int exponent = -125;
    if (value != 0)
        frexp(value, &exponent);
    return ldexp(1.0, (exponent < -125 ? -125 : exponent) - digits);
}

static void note_worst(struct compare_result *result, double used, int64_t index, double got, double ref)
{
    if (used <= result->bound_used && result->worst >= 0)
        return;
    result->bound_used = used;
    result->worst = index;
    result->worst_got = got;
    result->worst_ref = ref;
}

/* Judges one pair against its bound, and against a limit in ULP unless that is 0. */
static void judge(struct compare_result *result, struct sums *sums, int64_t index, double got, double ref, double bound,
                  double ulp, double ulp_limit)
{
    if (!both_finite(got, ref)) {
        if (same_special(got, ref))
            return;
        result->failed++;
        result->max_abs = INFINITY;
        note_worst(result, INFINITY, index, got, ref);
        return;
    }
    const double error = fabs(got - ref);
    result->max_abs = rt_larger(result->max_abs, error);
    result->max_ulp = rt_larger(result->max_ulp, error / ulp);
    const double used = error / bound;
    note_worst(result, isnan(used) ? INFINITY : used, index, got, ref);
    if (!(error <= bound) || (ulp_limit > 0 && !(error / ulp <= ulp_limit)))
        result->failed++;
    sums->dot += got * ref;
    sums->got += got * got;
    sums->ref += ref * ref;
}

static double cosine_difference(const struct sums *sums)
{
    if (sums->got == 0 || sums->ref == 0)
        return sums->got == sums->ref ? 0 : 1;
    return rt_larger(0, 1 - sums->dot / rt_sqrt(sums->got * sums->ref));
}

static double largest_finite(const double *row, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(row[i]))
            largest = rt_larger(largest, fabs(row[i]));
    return largest;
}

struct compare_result compare_out(const double *got, const double *ref, const double *out_abs, int64_t rows,
                                  int64_t d_v)
{
    struct compare_result result = {.worst = -1};
    struct sums sums = {0};
    for (int64_t row = 0; row < rows; row++) {
        const double ulp = ulp_at(largest_finite(ref + row * d_v, d_v), 8);
        for (int64_t i = row * d_v; i < (row + 1) * d_v; i++) {
            const double bound = ldexp(out_abs[i] + fabs(ref[i]), -8) + 1e-6;
            judge(&result, &sums, i, got[i], ref[i], bound, ulp, compare_ulp_limit);
        }
    }
    result.cos = cosine_difference(&sums);
    result.pass = result.failed == 0 && result.cos <= compare_cos_limit;
    return result;
}

struct compare_result compare_log(const double *got, const double *ref, const double *logit_abs, int64_t rows,
                                  enum compare_op op)
{
    const double relative = (op == COMPARE_DECODE ? 8.01 : 2.01) / 65536;
    struct compare_result result = {.worst = -1};
    struct sums sums = {0};
    for (int64_t i = 0; i < rows; i++) {
        const double bound = 1e-6 + relative * fabs(ref[i]) + ldexp(logit_abs[i], -22);
        judge(&result, &sums, i, got[i], ref[i], bound, ulp_at(ref[i], 24), 0);
    }
    result.cos = cosine_difference(&sums);
    result.pass = result.failed == 0;
    return result;
}
