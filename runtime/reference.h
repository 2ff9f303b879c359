/* The operators in float64 on the CPU, written to be read: what smla_prefill, smla_decode and smla_combine
 * must compute. The self-test's, and the tools' and tests'. */
#ifndef SMLA_RUNTIME_REFERENCE_H
#define SMLA_RUNTIME_REFERENCE_H

#include <stdbool.h>

#include "smla/smla.h"

/* Contiguous arrays. The last two are what the bounds in compare.h need. */
struct reference_result {
    double *out;        /* [s_q, h_q, d_v] */
    double *lse;        /* [s_q, h_q] */
    double *max_logits; /* [s_q, h_q] */
    double *out_abs;    /* [s_q, h_q, d_v] sum of p |v| */
    double *logit_abs;  /* [s_q, h_q] |sm_scale| sum |q k| of the row's largest key */
};

/* Computes what a call would. args hold host pointers; its outputs and workspace are ignored.
 * shape: h_q, d_qk, d_v (0 means 512), the formats or layouts are read. False when memory runs out or a format is
 * unknown; on true the caller frees *result. */
bool reference_prefill(const smla_kernel_desc *shape, const smla_prefill_args *args, struct reference_result *result);

/* The same for smla_combine; out_abs is the sum of share |partial|, max_logits and logit_abs are 0. h_q and d_v of
 * shape are read. */
bool reference_combine(const smla_kernel_desc *shape, const smla_combine_args *args, struct reference_result *result);

/* Zeros for so many rows. False when memory runs out; on true the caller frees. */
bool reference_allocate(int64_t row_count, int64_t d_v, struct reference_result *result);
void reference_free(struct reference_result *result);

#endif
