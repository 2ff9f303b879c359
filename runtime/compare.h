/* When is a result right: the bounds of ../shared/interface.md, tensor by tensor. */
#ifndef SMLA_RUNTIME_COMPARE_H
#define SMLA_RUNTIME_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

/* How far a tensor is off. Infinities and NaN must be equal; a pair that is not makes max_abs and bound_used +inf.
 * The other figures are over the finite pairs. */
struct compare_result {
    double max_abs;    /* largest |error| */
    double bound_used; /* largest |error| / bound; at most 1 is right */
    double cos;        /* cosine difference: 1 - <got, ref> / (|got| |ref|) */
    double max_ulp;    /* largest |error| in units of the last place: for out, bf16, of the row's largest |ref|;
                          for lse and max_logits, float32, of the reference (told, not judged) */
    int64_t failed;    /* elements past a bound */
    int64_t worst;     /* element of bound_used */
    double worst_got;
    double worst_ref;
    bool pass;
};

extern const double compare_cos_limit; /* 7e-6 */
extern const double compare_ulp_limit; /* 2 */

/* out: |error| <= 2^-8 (out_abs + |ref|) + 1e-6, and at most 2 bf16 ULP of the row's largest |ref|, element by
 * element; cos <= 7e-6 for the tensor. rows of d_v elements; out_abs is sum of p |v|. */
struct compare_result compare_out(const double *got, const double *ref, const double *out_abs, int64_t rows,
                                  int64_t d_v);

enum compare_op { COMPARE_PREFILL, COMPARE_DECODE };

/* lse, max_logits: |error| <= 1e-6 + 2.01/65536 |ref| + 2^-22 logit_abs (8.01 in decode). */
struct compare_result compare_log(const double *got, const double *ref, const double *logit_abs, int64_t rows,
                                  enum compare_op op);

#endif
