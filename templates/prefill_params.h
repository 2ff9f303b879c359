/* The one parameter of the prefill kernels: the C side fills it, the kernel reads it from constant memory.
 * Included by the runtime (C11) and by the templates (CUDA), so it uses nothing but built-in types whose size both
 * sides agree on. Strides are in elements and never 0: the call has put in the contiguous ones. */
#ifndef SMLA_PREFILL_PARAMS_H
#define SMLA_PREFILL_PARAMS_H

#include "lse_flags.h"

struct smla_prefill_params {
    const void *query;      /* [s_q, h_q, d_qk] bf16 */
    const void *kv;         /* [s_kv, d_qk] bf16 */
    const int *indices;     /* [s_q, topk] */
    const int *topk_length; /* [s_q] or NULL */
    const float *attn_sink; /* [h_q] or NULL */
    void *out;              /* [s_q, h_q, d_v] bf16; float32 for the reference kernel */
    float *lse;             /* [s_q, h_q] or NULL */
    float *max_logits;      /* [s_q, h_q] or NULL */
    float *ref_out_abs;     /* reference kernel only, or NULL */
    float *ref_logit_abs;   /* reference kernel only, or NULL */
    long long query_stride_token;
    long long query_stride_head;
    long long kv_stride_token;
    long long indices_stride_token;
    long long topk_length_stride;
    long long out_stride_token;
    long long out_stride_head;
    long long lse_stride_token;
    long long max_logits_stride_token;
    long long s_q;
    unsigned int s_kv; /* clamped to 2^31: no int index reaches further */
    int topk;
    float sm_scale;
    unsigned int lse_flags; /* SMLA_LSE_* of smla.h */
};

#endif
