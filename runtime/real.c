#include "real.h"

#include <math.h>

/* ln 2 in two parts: the first has few enough bits that its products with exponents are exact. */
static const double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;

/* exp(x) = 2^n exp(r) with |r| <= ln 2 / 2, where the 14th term of the series is below 2^-55. */
double rt_exp(double x)
{
    enum { TERMS = 14 };

    if (isnan(x))
        return x;
    if (x > 710)
        return INFINITY;
    if (x < -746)
        return 0;
    const double scaled = x * 1.4426950408889634;
    const int n = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    const double r = (x - n * ln2_high) - n * ln2_low;
    double sum = 1;
    for (int k = TERMS; k > 0; k--)
        sum = 1 + r * sum / k;
    return ldexp(sum, n);
}

/* log(2^n m) with m in [sqrt 1/2, sqrt 2): 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.172. */
double rt_log(double x)
{
    enum { TERMS = 12 };
    int n;

    if (isnan(x) || x == INFINITY)
        return x;
    if (x <= 0)
        return x == 0 ? -INFINITY : NAN;
    double m = frexp(x, &n);
    if (m < 0.70710678118654752) {
        m *= 2;
        n--;
    }
    const double s = (m - 1) / (m + 1);
    double sum = 0;
    for (int k = TERMS; k > 0; k--)
        sum = s * s * (sum + 1.0 / (2 * k + 1));
    return n * ln2_high + (n * ln2_low + 2 * (s + s * sum));
}

/* By Newton's steps, which square the relative error: from within a factor of 2, six come to rounding. */
double rt_sqrt(double x)
{
    int n;

    if (isnan(x) || x == 0 || x == INFINITY)
        return x;
    if (x < 0)
        return NAN;
    frexp(x, &n);
    double root = ldexp(1, n / 2);
    for (int step = 0; step < 7; step++)
        root = 0.5 * (root + x / root);
    return root;
}

double rt_larger(double a, double b)
{
    return isnan(a) || b > a ? b : a;
}
