/* Functions of real numbers in float64, for the reference: the library links no libm. Relative errors of some 2^-51. */
#ifndef SMLA_RUNTIME_REAL_H
#define SMLA_RUNTIME_REAL_H

double rt_exp(double x);
double rt_log(double x); /* NaN below 0, -inf of 0 */
double rt_sqrt(double x);
double rt_larger(double a, double b); /* of a NaN and a number: the number */

#endif
