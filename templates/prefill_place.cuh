/* Where a query token's rows lie in the tensors of a prefill call: a row a token, each by itself. Stands before
 * prefill_work.cuh; a decode kernel has decode_place.cuh there. */
#ifndef SMLA_PREFILL_PLACE_CUH
#define SMLA_PREFILL_PLACE_CUH

#include "key_cache.cuh"
#include "prefill_params.h"
#include "types.cuh"

typedef smla_prefill_params call_params;

struct token_place {
    i64 token;
};

__device__ __forceinline__ const smla_prefill_params &prefill_of(const call_params &params)
{
    return params;
}

__device__ __forceinline__ i64 query_offset(const call_params &params, const token_place &at)
{
    return at.token * params.query_stride_token;
}

__device__ __forceinline__ i64 out_offset(const call_params &params, const token_place &at)
{
    return at.token * params.out_stride_token;
}

__device__ __forceinline__ i64 lse_offset(const call_params &params, const token_place &at, int head)
{
    return at.token * params.lse_stride_token + head;
}

__device__ __forceinline__ i64 max_logits_offset(const call_params &params, const token_place &at, int head)
{
    return at.token * params.max_logits_stride_token + head;
}

__device__ __forceinline__ i64 list_offset(const call_params &params, const token_place &at, int c)
{
    return at.token * params.cache[c].indices_stride_token;
}

__device__ __forceinline__ i32 length_of(const call_params &params, const token_place &at, int c)
{
    return list_length(params.cache[c], at.token);
}

/* All of a token's keys are one block of threads' work, and its only one: what a decode kernel asks has one answer. */

__device__ __forceinline__ i32 skipped_blocks(const token_place &) /* of the token's keys, in front of the work's */
{
    return 0;
}

__device__ __forceinline__ u32 blocks_before(const token_place &) /* of keys, in earlier works */
{
    return 0;
}

__device__ __forceinline__ u32 works_before(const token_place &)
{
    return 0;
}

__device__ __forceinline__ bool is_part(const token_place &)
{
    return false;
}

__device__ __forceinline__ float *part_out(const call_params &, const token_place &)
{
    return nullptr;
}

__device__ __forceinline__ float *part_lse(const call_params &, const token_place &)
{
    return nullptr;
}

template <class work> __device__ __forceinline__ bool is_last(const work &)
{
    return true;
}

template <class work> __device__ __forceinline__ bool next_work(work &)
{
    return false;
}

/* The query's shared memory, between one work's out and the next one's query. */
template <class work> __device__ __forceinline__ void wait_for_query_space(const work &)
{
}

template <class work> __device__ __forceinline__ void free_query_space(const work &)
{
}

#endif
