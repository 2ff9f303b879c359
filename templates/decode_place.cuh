/* Where a query token's rows lie in the tensors of a decode call: [requests, s_q, ...]. Stands before
 * prefill_work.cuh, as prefill_place.cuh does in a prefill kernel. */
#ifndef SMLA_DECODE_PLACE_CUH
#define SMLA_DECODE_PLACE_CUH

#include "decode_params.h"
#include "key_cache.cuh"
#include "smla_config.cuh"
#include "types.cuh"

typedef smla_decode_params call_params;

struct token_place {
    i32 request;
    i32 position; /* in the request */
    i32 item;     /* what is worked on, of all items; see decode_schedule.cuh */
    i32 skipped;  /* blocks of the token's keys in front of the work's */
    u32 works;    /* that this block of threads has done before */
    u32 blocks;   /* of keys, in those */
};

__device__ __forceinline__ const smla_prefill_params &prefill_of(const call_params &params)
{
    return params.prefill;
}

__device__ __forceinline__ i64 query_offset(const call_params &params, const token_place &at)
{
    return at.request * params.query_stride_request + at.position * params.prefill.query_stride_token;
}

__device__ __forceinline__ i64 out_offset(const call_params &params, const token_place &at)
{
    return at.request * params.out_stride_request + at.position * params.prefill.out_stride_token;
}

__device__ __forceinline__ i64 lse_offset(const call_params &params, const token_place &at, int head)
{
    return at.request * params.lse_stride_request + at.position * params.prefill.lse_stride_token +
           head * params.lse_stride_head;
}

__device__ __forceinline__ i64 max_logits_offset(const call_params &, const token_place &, int)
{
    return 0; /* decode has none */
}

__device__ __forceinline__ i64 list_offset(const call_params &params, const token_place &at, int c)
{
    return at.request * params.indices_stride_request[c] + at.position * params.prefill.cache[c].indices_stride_token;
}

__device__ __forceinline__ i32 length_of(const call_params &params, const token_place &at, int c)
{
    const smla_key_cache &cache = params.prefill.cache[c];
    if (!cache.topk_length)
        return cache.topk;
    const i32 *length =
        cache.topk_length + at.request * params.topk_length_stride_request[c] + at.position * cache.topk_length_stride;
    return max(0, min(cache.topk, *length));
}

__device__ __forceinline__ i32 skipped_blocks(const token_place &at)
{
    return at.skipped;
}

__device__ __forceinline__ u32 blocks_before(const token_place &at)
{
    return at.blocks;
}

__device__ __forceinline__ u32 works_before(const token_place &at)
{
    return at.works;
}

/* Where the result of a work goes; -1: it has all keys of its unit, and goes to out. Worked out where it is asked for:
 * it would be a register through all of a work's keys. */
template <class work> __device__ __forceinline__ i32 part_of(const work &w)
{
    i32 unit_blocks = 0;
#pragma unroll
    for (int c = 0; c < SMLA_CACHES; c++)
        unit_blocks += w.length[c] / SMLA_BLOCK_KEYS + (w.length[c] % SMLA_BLOCK_KEYS != 0);
    if (SMLA_BATCH_INVARIANT)
        return unit_blocks > w.call.piece_blocks ? w.item : -1;
    if (w.skipped == 0)
        return w.block_count == unit_blocks ? -1 : blockIdx.x;
    return w.call.main_blocks + blockIdx.x;
}

template <class work> __device__ __forceinline__ bool is_part(const work &w)
{
    return part_of(w) >= 0;
}

/* Of a part, a row for each of the block's heads. */
template <class work> __device__ __forceinline__ float *part_out(const call_params &params, const work &w)
{
    return params.part_out + (i64)part_of(w) * SMLA_BLOCK_HEADS * SMLA_D_V;
}

template <class work> __device__ __forceinline__ float *part_lse(const call_params &params, const work &w)
{
    return params.part_lse + (i64)part_of(w) * SMLA_BLOCK_HEADS;
}

#endif
