/* Which units of work a block of threads of a persistent prefill kernel has. Every block works it out by itself, and a
 * unit's bits do not depend on it. No architecture changes it.
 *
 *   lists of one length   block b has units b, b + gridDim.x, …
 *   lists with lengths    a range of units in a row, which costs as much as any other block's within one unit. A unit
 *                         costs its blocks of keys, and UNIT_COST for its beginning and end. A token's blocks of heads
 *                         go to as many neighbours, which find each other's keys in L2 */
#ifndef SMLA_UNIT_RANGE_CUH
#define SMLA_UNIT_RANGE_CUH

#include "prefill_params.h"
#include "prefill_place.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr u32 KEY_BLOCK_COST = 4;
static constexpr u32 UNIT_COST = SMLA_UNIT_COST_QUARTERS; /* in quarters of a block of keys */
static constexpr u32 EMPTY_UNIT_COST = 1;
static constexpr int RANGE_WARPS = SMLA_THREADS / 32;

struct range_memory {
    u32 warp_cost[RANGE_WARPS];
    u32 first, end; /* the block's tokens */
};

__device__ __forceinline__ u32 unit_count(const smla_prefill_params &params)
{
    return (u32)params.s_q * SMLA_HEAD_BLOCKS;
}

/* Whether blocks have ranges. What all tokens cost is added up in 32 bits. */
__device__ __forceinline__ bool has_ranges(const smla_prefill_params &params)
{
    const u64 most = blocks_of(params.cache[0].topk) * KEY_BLOCK_COST + UNIT_COST;
    return params.cache[0].topk_length && unit_count(params) > gridDim.x && gridDim.x % SMLA_HEAD_BLOCKS == 0 &&
           params.s_q * most < (u64)1 << 32;
}

__device__ __forceinline__ u32 cost_of_token(const smla_prefill_params &params, u32 token)
{
    const i32 blocks = blocks_of(list_length(params.cache[0], token));
    return blocks > 0 ? blocks * KEY_BLOCK_COST + UNIT_COST : EMPTY_UNIT_COST;
}

/* The tokens whose costs a thread adds up. */
struct token_run {
    u32 first, end;
    u32 before, cost; /* of all tokens before, of these */
};

/* run.before is of the warp's tokens alone; what they all cost is left for other warps. */
__device__ __forceinline__ token_run run_of_thread(const smla_prefill_params &params, range_memory &memory)
{
    const u32 s_q = (u32)params.s_q, tokens = (s_q + SMLA_THREADS - 1) / SMLA_THREADS;
    token_run run = {min(s_q, threadIdx.x * tokens), min(s_q, (threadIdx.x + 1) * tokens), 0, 0};
#pragma unroll 4
    for (u32 token = run.first; token < run.end; token++)
        run.cost += cost_of_token(params, token);
    const u32 up_to = (u32)sum_up_to((i32)run.cost);
    run.before = up_to - run.cost;
    if (threadIdx.x % 32 == 31)
        memory.warp_cost[threadIdx.x / 32] = up_to;
    if (threadIdx.x == 0)
        memory.first = memory.end = 0;
    return run;
}

/* Adds earlier warps' costs to run.before; returns what all tokens cost. */
__device__ __forceinline__ u32 add_up_costs(const range_memory &memory, token_run &run)
{
    u32 all = 0;
#pragma unroll
    for (int warp = 0; warp < RANGE_WARPS; warp++) {
        const u32 cost = memory.warp_cost[warp];
        run.before += warp < threadIdx.x / 32 ? cost : 0;
        all += cost;
    }
    return all;
}

/* Tokens of a run with less than limit / ranges before them. */
__device__ __forceinline__ u32 tokens_below(const smla_prefill_params &params, const token_run &run, u64 limit,
                                            u32 ranges)
{
    if ((u64)(run.before + run.cost) * ranges <= limit)
        return run.end - run.first;
    u64 before = run.before;
    u32 token = run.first;
#pragma unroll 1
    for (; token < run.end && before * ranges < limit; token++)
        before += cost_of_token(params, token);
    return token - run.first;
}

/* All threads: finds the block's range, if it has one. Returns behind a barrier that all threads wait at. */
__device__ __forceinline__ void find_range(const smla_prefill_params &params, range_memory &memory, int barrier)
{
    const bool ranges = has_ranges(params);
    token_run run = {};
    if (ranges)
        run = run_of_thread(params, memory);
    named_barrier_sync(barrier, SMLA_THREADS);
    if (!ranges)
        return;
    const u32 all = add_up_costs(memory, run);
    const u32 count = gridDim.x / SMLA_HEAD_BLOCKS, range = blockIdx.x / SMLA_HEAD_BLOCKS;
    const u32 before_first = tokens_below(params, run, (u64)all * range, count);
    const u32 before_end = tokens_below(params, run, (u64)all * (range + 1), count);
    if (before_first > 0)
        atomicAdd(&memory.first, before_first);
    if (before_end > 0)
        atomicAdd(&memory.end, before_end);
    named_barrier_sync(barrier, SMLA_THREADS);
}

/* A block's units: first(), then step() further, below end(). RANGED: it may have a range. Without, all three are
 * constants, and no register is held for them. */
template <bool RANGED> struct unit_walk;

template <> struct unit_walk<false> {
    const smla_prefill_params &params;

    __device__ __forceinline__ unit_walk(const smla_prefill_params &of, const range_memory &) : params(of)
    {
    }
    __device__ __forceinline__ u32 first() const
    {
        return blockIdx.x;
    }
    __device__ __forceinline__ u32 step() const
    {
        return gridDim.x;
    }
    __device__ __forceinline__ u32 end() const
    {
        return unit_count(params);
    }
};

template <> struct unit_walk<true> {
    u32 first_unit, unit_step, units_end;

    __device__ __forceinline__ unit_walk(const smla_prefill_params &params, const range_memory &memory)
    {
        const bool ranges = has_ranges(params);
        const u32 head_block = blockIdx.x % SMLA_HEAD_BLOCKS;
        first_unit = warp_uniform(ranges ? memory.first * SMLA_HEAD_BLOCKS + head_block : blockIdx.x);
        unit_step = warp_uniform(ranges ? SMLA_HEAD_BLOCKS : gridDim.x);
        units_end = warp_uniform(ranges ? memory.end * SMLA_HEAD_BLOCKS : unit_count(params));
    }
    __device__ __forceinline__ u32 first() const
    {
        return first_unit;
    }
    __device__ __forceinline__ u32 step() const
    {
        return unit_step;
    }
    __device__ __forceinline__ u32 end() const
    {
        return units_end;
    }
};

#endif
