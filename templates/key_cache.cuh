/* A cache as a call describes it: how much of a query's list counts, where a row lies. */
#ifndef SMLA_KEY_CACHE_CUH
#define SMLA_KEY_CACHE_CUH

#include "prefill_params.h"
#include "types.cuh"

/* Entries of a query's list that count. */
__device__ __forceinline__ i32 list_length(const smla_key_cache &cache, i64 token)
{
    if (!cache.topk_length)
        return cache.topk;
    return max(0, min(cache.topk, cache.topk_length[token * cache.topk_length_stride]));
}

/* The page of a row: a division by multiplication (Granlund, Montgomery 1994, "Division by invariant integers"). */
__device__ __forceinline__ u32 page_of(const smla_key_cache &cache, i32 index)
{
    return (u32)((u64)(u32)index * cache.page_multiplier >> cache.page_shift);
}

/* PAGED: some cache has pages; without, the division by their size is left out. Where a row of a cache begins, in
 * elements (bytes of a quantised one). */
template <bool PAGED> __device__ __forceinline__ i64 row_offset(const smla_key_cache &cache, i32 index)
{
    if (!PAGED)
        return index * cache.kv_stride_token;
    u32 page = page_of(cache, index);
    return page * cache.kv_stride_page + (u32)(index - page * cache.page_tokens) * cache.kv_stride_token;
}

#endif
