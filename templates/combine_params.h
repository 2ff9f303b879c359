/* The one parameter of the combine kernels: the C side fills it, the kernel reads it from constant memory. Rules as in
 * prefill_params.h. */
#ifndef SMLA_COMBINE_PARAMS_H
#define SMLA_COMBINE_PARAMS_H

#include "lse_flags.h"

struct smla_combine_params {
    const void *partial_out;  /* [parts, s_q, h_q, d_v] bf16 or float32, by the variant */
    const float *partial_lse; /* [parts, s_q, h_q] */
    const float *attn_sink;   /* [h_q] or NULL */
    void *out;                /* [s_q, h_q, d_v] bf16 or float32, by the variant */
    float *lse;               /* [s_q, h_q] or NULL */
    long long partial_out_stride_part;
    long long partial_out_stride_token;
    long long partial_out_stride_head;
    long long partial_lse_stride_part;
    long long partial_lse_stride_token;
    long long partial_lse_stride_head;
    long long out_stride_token;
    long long out_stride_head;
    long long lse_stride_token;
    long long lse_stride_head;
    unsigned int parts; /* below 2^31 */
    unsigned int partial_is_base_2;
    unsigned int lse_flags; /* SMLA_LSE_* of smla.h */
};

/* The plan's variant for the types of a call: each 0 for bf16, 1 for float32. */
#define SMLA_COMBINE_VARIANT(partial_is_float32, out_is_float32) (2 * (partial_is_float32) + (out_is_float32))

#endif
