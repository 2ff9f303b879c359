/* The one parameter of the prefill kernels: the C side fills it, the kernel reads it from constant memory.
 * Included by the runtime (C11) and by the templates (CUDA), so it uses nothing but built-in types whose size both
 * sides agree on. Strides are in elements (bytes of a quantised cache); the call has put in the contiguous ones
 * where 0 stood. */
#ifndef SMLA_PREFILL_PARAMS_H
#define SMLA_PREFILL_PARAMS_H

/* A cache and the lists that select from it. */
struct smla_key_cache {
    const void *kv;         /* bf16 [s_kv, d_qk], or bytes of a quantised format */
    const int *indices;     /* [s_q, topk] */
    const int *topk_length; /* [s_q] or NULL */
    long long kv_stride_token;
    long long kv_stride_page;
    long long indices_stride_token;
    long long topk_length_stride;
    unsigned int s_kv;            /* clamped to 2^31: no int index reaches further */
    unsigned int page_tokens;     /* 2^31 when there are no pages: all is page 0 */
    unsigned int page_multiplier; /* index / page_tokens is index * page_multiplier >> page_shift */
    int page_shift;
    int topk;
    int reserved;
};

struct smla_prefill_params {
    struct smla_key_cache cache[2]; /* the second of a kernel with an extra format only */
    const void *query;              /* [s_q, h_q, d_qk] bf16 */
    const float *attn_sink;         /* [h_q] or NULL */
    void *out;                      /* [s_q, h_q, d_v] bf16; float32 for the reference kernel */
    float *lse;                     /* [s_q, h_q] or NULL */
    float *max_logits;              /* [s_q, h_q] or NULL */
    float *ref_out_abs;             /* reference kernel only, or NULL */
    float *ref_logit_abs;           /* reference kernel only, or NULL */
    long long query_stride_token;
    long long query_stride_head;
    long long out_stride_token;
    long long out_stride_head;
    long long lse_stride_token;
    long long max_logits_stride_token;
    long long s_q;
    float sm_scale;
    unsigned int lse_flags; /* SMLA_LSE_* of smla.h */
};

/* smla.h's values again, because a template includes no public header; the runtime checks that they agree. */
#define SMLA_PARAM_LSE_BASE_2 1u
#define SMLA_PARAM_LSE_WITH_SINK 2u
#define SMLA_PARAM_LSE_EMPTY_NEGATIVE 4u

#endif
