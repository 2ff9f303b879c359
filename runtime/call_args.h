/* What calls of prefill and decode have in common: arguments of the softmax, caches and how the kernel gets them. */
#ifndef SMLA_RUNTIME_CALL_ARGS_H
#define SMLA_RUNTIME_CALL_ARGS_H

#include "kernel.h"
#include "prefill_params.h"
#include "tensor_check.h"

/* Refuses unknown flags, and an sm_scale that is not finite in either base. Returns SMLA_OK; INVALID_ARGUMENT. */
smla_status rt_check_softmax(uint32_t lse_flags, float sm_scale);

/* Refuses a negative number of multiprocessors. */
smla_status rt_check_sm_limit(int32_t sm_limit);

/* The names of the fields that describe a cache. */
struct cache_names {
    const char *s_kv, *topk, *kv, *stride_token, *page_tokens, *stride_page, *indices, *indices_stride_request,
        *indices_stride, *length, *length_stride_request, *length_stride;
};

/* Of the first and of the second. */
extern const struct cache_names rt_cache_names[2];

/* And what a call has in them. */
struct cache_args {
    int64_t s_kv, topk;
    const void *kv;
    int64_t stride_token, page_tokens, stride_page;
    const int32_t *indices;
    int64_t indices_stride_request; /* decode's */
    int64_t indices_stride;
    const int32_t *length;
    int64_t length_stride_request; /* decode's */
    int64_t length_stride;
};

/* Checks sizes and strides against the kernel's formats; a second cache where the kernel reads none is refused.
 * Returns SMLA_OK; INVALID_ARGUMENT. */
smla_status rt_check_caches(const smla_kernel *kernel, const struct cache_args caches[2]);

/* Describes kv of cache c as a tensor to check. */
void rt_list_kv(const smla_kernel *kernel, const struct cache_args *cache, int c, struct tensor *tensor);

/* No int index reaches past 2^31 rows, so that kernels need not know of more. */
unsigned int rt_clamp_rows(int64_t s_kv);

/* Fills in what the kernel reads of a cache; tensors: kv, indices and lengths, their strides resolved. */
void rt_fill_cache(const struct tensor *tensors, const struct cache_args *args, bool by_page,
                   struct smla_key_cache *cache);

#endif
