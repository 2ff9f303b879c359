#include "call_args.h"

#include <math.h>

static const float LOG2_E = 1.4426950f; /* what the kernels multiply sm_scale by */

enum { ALL_LSE_FLAGS = SMLA_LSE_BASE_2 | SMLA_LSE_WITH_SINK | SMLA_LSE_EMPTY_NEGATIVE };

const struct cache_names rt_cache_names[2] = {
    {.s_kv = "s_kv",
     .topk = "topk",
     .kv = "kv",
     .stride_token = "kv_stride_token",
     .page_tokens = "kv_page_tokens",
     .stride_page = "kv_stride_page",
     .indices = "indices",
     .indices_stride_request = "indices_stride_request",
     .indices_stride = "indices_stride_token",
     .length = "topk_length",
     .length_stride_request = "topk_length_stride_request",
     .length_stride = "topk_length_stride"},
    {.s_kv = "extra_s_kv",
     .topk = "extra_topk",
     .kv = "extra_kv",
     .stride_token = "extra_kv_stride_token",
     .page_tokens = "extra_kv_page_tokens",
     .stride_page = "extra_kv_stride_page",
     .indices = "extra_indices",
     .indices_stride_request = "extra_indices_stride_request",
     .indices_stride = "extra_indices_stride_token",
     .length = "extra_topk_length",
     .length_stride_request = "extra_topk_length_stride_request",
     .length_stride = "extra_topk_length_stride"},
};

smla_status rt_check_softmax(uint32_t lse_flags, float sm_scale)
{
    if (lse_flags & ~(uint32_t)ALL_LSE_FLAGS)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "lse_flags 0x%x: SMLA_LSE_* are 0x1, 0x2 and 0x4",
                       (unsigned)lse_flags);
    if (isfinite(sm_scale) && !isfinite(sm_scale * LOG2_E))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "sm_scale is %g: with log2(e) it must be finite too, below 2.35e38",
                       (double)sm_scale);
    if (!isfinite(sm_scale))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "sm_scale is %s: it must be finite, 1/sqrt(d_qk) for instance",
                       isnan(sm_scale) ? "NaN" : "infinite");
    return SMLA_OK;
}

smla_status rt_check_sm_limit(int32_t sm_limit)
{
    if (sm_limit < 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "sm_limit %d: the multiprocessors that a persistent kernel may take, at least 1, or 0 for all",
                       sm_limit);
    return SMLA_OK;
}

/* Rows of bf16 may overlap; bytes of two quantised tokens are never the same ones, so a stride that is too small is a
 * cache of another format. */
static smla_status check_token_bytes(const struct rt_kv *kv, const struct cache_args *cache,
                                     const struct cache_names *names)
{
    const int64_t page_bytes = kv->by_page ? cache->page_tokens * kv->token_elems : kv->token_elems;

    if (kv->elem_bytes != 1 || cache->s_kv == 0)
        return SMLA_OK;
    if (cache->stride_token > 0 && cache->stride_token < kv->token_elems)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld: a token of this kernel's format has %lld bytes",
                       names->stride_token, (long long)cache->stride_token, (long long)kv->token_elems);
    if (cache->stride_page > 0 && cache->stride_page < page_bytes)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s %lld: a token of this kernel's format has %lld bytes, so a page's stride is at least %lld",
                       names->stride_page, (long long)cache->stride_page, (long long)kv->token_elems,
                       (long long)page_bytes);
    return SMLA_OK;
}

static smla_status check_cache(const struct rt_kv *kv, const struct cache_args *cache, const struct cache_names *names)
{
    smla_status status = check_size(names->s_kv, cache->s_kv, INT64_MAX);

    if (status == SMLA_OK)
        status = check_size(names->topk, cache->topk, INT32_MAX);
    if (status == SMLA_OK)
        status = check_size(names->page_tokens, cache->page_tokens, INT32_MAX);
    if (status != SMLA_OK)
        return status;
    if (kv->by_page && cache->page_tokens == 0 && cache->s_kv > 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s is 0: in this format a page's scales stand behind its values, so the tokens of a page are "
                       "needed (%lld when all of %s is one page)",
                       names->page_tokens, (long long)cache->s_kv, names->kv);
    if (kv->by_page && cache->stride_token != 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s %lld: tokens have no stride in a format placed by page, leave 0", names->stride_token,
                       (long long)cache->stride_token);
    if (cache->page_tokens == 0 && cache->stride_page != 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld without pages: %s is 0", names->stride_page,
                       (long long)cache->stride_page, names->page_tokens);
    return check_token_bytes(kv, cache, names);
}

/* A second cache is not ignored where the kernel reads one. */
static smla_status check_no_extra(const smla_kernel *kernel, const struct cache_args *extra)
{
    const int64_t any = extra->s_kv | extra->topk | extra->stride_token | extra->page_tokens | extra->stride_page |
                        extra->indices_stride | extra->indices_stride_request | extra->length_stride |
                        extra->length_stride_request;

    if (any == 0 && extra->kv == NULL && extra->indices == NULL && extra->length == NULL)
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "a second cache is given (extra_s_kv %lld, extra_topk %lld) and %s reads one: prepare a kernel with "
                   "extra_kv_format",
                   (long long)extra->s_kv, (long long)extra->topk, kernel->name);
}

smla_status rt_check_caches(const smla_kernel *kernel, const struct cache_args caches[2])
{
    const smla_status status = check_cache(&kernel->kv[0], &caches[0], &rt_cache_names[0]);

    if (status != SMLA_OK)
        return status;
    return kernel->caches == 1 ? check_no_extra(kernel, &caches[1])
                               : check_cache(&kernel->kv[1], &caches[1], &rt_cache_names[1]);
}

/* Rows, or pages of rows, or pages that are one piece. */
void rt_list_kv(const smla_kernel *kernel, const struct cache_args *cache, int c, struct tensor *tensor)
{
    const struct rt_kv *kv = &kernel->kv[c];
    const struct cache_names *names = &rt_cache_names[c];
    const int64_t pages =
        cache->page_tokens ? cache->s_kv / cache->page_tokens + (cache->s_kv % cache->page_tokens != 0) : 0;

    if (cache->page_tokens == 0) {
        set_shape(tensor, names->kv, cache->kv, cache->s_kv, 1, kv->token_elems);
        set_strides(tensor, names->stride_token, cache->stride_token, NULL, 0);
    } else if (kv->by_page) {
        set_shape(tensor, names->kv, cache->kv, pages, 1, cache->page_tokens * kv->token_elems);
        set_strides(tensor, names->stride_page, cache->stride_page, NULL, 0);
    } else {
        set_shape(tensor, names->kv, cache->kv, pages, cache->page_tokens, kv->token_elems);
        set_strides(tensor, names->stride_page, cache->stride_page, names->stride_token, cache->stride_token);
    }
    set_storage(tensor, kv->elem_bytes, kernel->pointer_alignment_bytes,
                kernel->stride_alignment_elems * 2 / kv->elem_bytes);
    tensor->needed = cache->s_kv > 0;
}

unsigned int rt_clamp_rows(int64_t s_kv)
{
    return s_kv > (int64_t)INT32_MAX + 1 ? (unsigned int)INT32_MAX + 1u : (unsigned int)s_kv;
}

/* For index < 2^31 and 2^log2 >= tokens: index / tokens = index * ceil(2^(31 + log2) / tokens) >> (31 + log2). */
static void set_pages(struct smla_key_cache *cache, unsigned int tokens)
{
    const int log2 = tokens == 1 ? 0 : 32 - __builtin_clz(tokens - 1);

    cache->page_tokens = tokens;
    cache->page_shift = 31 + log2;
    cache->page_multiplier = (unsigned int)((((uint64_t)1 << cache->page_shift) + tokens - 1) / tokens);
}

void rt_fill_cache(const struct tensor *tensors, const struct cache_args *args, bool by_page,
                   struct smla_key_cache *cache)
{
    const bool paged = args->page_tokens != 0;

    cache->kv = args->kv;
    cache->indices = args->indices;
    cache->topk_length = args->length;
    cache->kv_stride_page = paged ? tensors[0].row_stride : 0;
    cache->kv_stride_token = !paged ? tensors[0].row_stride : by_page ? 0 : tensors[0].column_stride;
    cache->indices_stride_token = tensors[1].row_stride;
    cache->topk_length_stride = tensors[2].row_stride;
    cache->s_kv = rt_clamp_rows(args->s_kv);
    set_pages(cache, paged ? (unsigned int)args->page_tokens : (unsigned int)INT32_MAX + 1u);
    cache->topk = (int)args->topk;
}
