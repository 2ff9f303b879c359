/* Which keys of which tokens a block of threads of a decode kernel has. Every block works it out by itself, from the
 * real lengths, before it begins: nothing is launched for it, and nothing read back. No architecture changes it.
 *
 *   unit    a token and up to BLOCK_HEADS of its heads
 *   item    a unit's keys; batch invariant: at most piece_blocks blocks of them, so that a unit has `pieces` items, of
 *           which those behind its length are nothing. Numbered by token, block of heads, piece
 *   cost    of an item: its blocks of keys, and ITEM_COST for its beginning and end
 *   range   what a block of threads has: as much of the row of items, by cost, as any other. Unless kernels are batch
 *           invariant, an item may be cut, at a block of keys, where that takes less time than whole items do; a cut
 *           item's parts are combined (decode_combine.cu) */
#ifndef SMLA_DECODE_SCHEDULE_CUH
#define SMLA_DECODE_SCHEDULE_CUH

#include "decode_params.h"
#include "decode_place.cuh"
#include "prefill_work.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int ITEM_COST = SMLA_ITEM_COST_BLOCKS; /* the query, the first keys, out: in blocks of keys */
static constexpr int CUT_COST = SMLA_CUT_COST_BLOCKS;   /* a part's way through memory, and combining */
static constexpr bool MAY_CUT = !SMLA_BATCH_INVARIANT;
static constexpr int SCHEDULE_WARPS = SMLA_THREADS / 32;

/* A place in the row of items, before one of an item's blocks of keys. */
struct item_place {
    i32 item;
    i32 block;
};

struct schedule_memory {
    i64 warp_cost[SCHEDULE_WARPS];
    i64 warp_largest[SCHEDULE_WARPS];
    item_place begin, end; /* of this block's range */
    i32 last_block;        /* where `end` is within an item: the block of threads that has the item's last keys */
    i32 reserved;
};

/* What a token's items cost: the same for each of its blocks of heads. */
struct token_cost {
    i32 blocks; /* of keys */
    i32 pieces; /* that are not nothing */
    i64 unit;
};

__device__ __forceinline__ token_place place_of_token(const smla_decode_params &params, i32 token)
{
    const i32 request = token / params.s_q;
    return {request, token - request * params.s_q, 0, 0, -1, 0, 0};
}

__device__ __forceinline__ token_cost cost_of_token(const smla_decode_params &params, i32 token)
{
    const token_place at = place_of_token(params, token);
    token_cost cost = {0, 1, 0};
#pragma unroll
    for (int c = 0; c < CACHES; c++)
        cost.blocks += blocks_of(length_of(params, at, c));
    if (!MAY_CUT)
        cost.pieces = max(1, (cost.blocks + params.piece_blocks - 1) / params.piece_blocks);
    cost.unit = (i64)cost.pieces * ITEM_COST + cost.blocks;
    return cost;
}

/* Blocks of keys of one of a unit's pieces. */
__device__ __forceinline__ i32 blocks_of_piece(const smla_decode_params &params, i32 unit_blocks, i32 piece)
{
    return MAY_CUT ? unit_blocks : max(0, min(params.piece_blocks, unit_blocks - piece * params.piece_blocks));
}

/* ---- Sums over all tokens ---- */

struct cost_sums {
    i64 before; /* cost of the tokens of earlier threads */
    i64 mine;   /* of this thread's */
    i64 all;
    i64 largest; /* of an item */
};

/* A thread has a run of tokens. */
__device__ __forceinline__ i32 tokens_of_thread(const smla_decode_params &params)
{
    return (params.tokens + SMLA_THREADS - 1) / SMLA_THREADS;
}

__device__ __forceinline__ cost_sums sum_costs(const smla_decode_params &params, schedule_memory &memory)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i32 run = tokens_of_thread(params);
    cost_sums sums = {};
    for (i32 token = threadIdx.x * run; token < min(params.tokens, (i32)(threadIdx.x + 1) * run); token++) {
        const token_cost cost = cost_of_token(params, token);
        sums.mine += cost.unit * SMLA_HEAD_BLOCKS;
        sums.largest = max(sums.largest, (i64)ITEM_COST + blocks_of_piece(params, cost.blocks, 0));
    }
    i64 up_to = sums.mine;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const i64 other = __shfl_up_sync(0xffffffff, up_to, step);
        up_to += lane >= step ? other : 0;
        sums.largest = max(sums.largest, __shfl_xor_sync(0xffffffff, sums.largest, step));
    }
    if (lane == 31) {
        memory.warp_cost[warp] = up_to;
        memory.warp_largest[warp] = sums.largest;
    }
    __syncthreads();
    sums.before = up_to - sums.mine;
#pragma unroll
    for (int other = 0; other < SCHEDULE_WARPS; other++) {
        sums.before += other < warp ? memory.warp_cost[other] : 0;
        sums.all += memory.warp_cost[other];
        sums.largest = max(sums.largest, memory.warp_largest[other]);
    }
    return sums;
}

/* ---- Ranges ---- */

__device__ __forceinline__ i64 divide_up(i64 a, i64 b)
{
    return (a + b - 1) / b;
}

/* Whether items are to be cut: whole ones take the time of the largest, or of as many average ones as a block of
 * threads gets; cut ones an equal share, and what cutting costs. */
__device__ __forceinline__ bool should_cut(const smla_decode_params &params, const cost_sums &sums)
{
    const i64 items = (i64)params.tokens * SMLA_HEAD_BLOCKS;
    const i64 whole = max(sums.largest, divide_up(items, params.main_blocks) * divide_up(sums.all, items));
    return MAY_CUT && whole > divide_up(sums.all, params.main_blocks) + ITEM_COST + CUT_COST;
}

/* The place so far into a token's items. */
__device__ __forceinline__ item_place place_in_token(const smla_decode_params &params, i32 token,
                                                     const token_cost &cost, i64 offset, bool cuts)
{
    const i32 head_block = (i32)(offset / cost.unit);
    const i32 into_unit = (i32)(offset - head_block * cost.unit);
    const i32 piece = MAY_CUT ? 0 : min(into_unit / (ITEM_COST + params.piece_blocks), cost.pieces - 1);
    const i32 into_item = into_unit - (MAY_CUT ? 0 : piece * (ITEM_COST + params.piece_blocks));
    const i32 item = (token * SMLA_HEAD_BLOCKS + head_block) * params.pieces + piece;
    if (cuts)
        return {item, max(0, into_item - ITEM_COST)};
    const i32 item_cost = ITEM_COST + blocks_of_piece(params, cost.blocks, piece);
    return {2 * into_item > item_cost ? item + 1 : item, 0}; /* the nearer end */
}

/* Finds where in the row of items a cost is reached, in the thread that has the token; past the last it is the end. */
__device__ __forceinline__ void find_place(const smla_decode_params &params, schedule_memory &memory,
                                           const cost_sums &sums, i64 target, i64 share, bool cuts, item_place &place)
{
    if (target >= sums.all) {
        if (threadIdx.x == 0)
            place = {params.tokens * SMLA_HEAD_BLOCKS * params.pieces, 0};
        return;
    }
    if (target < sums.before || target >= sums.before + sums.mine)
        return;
    i64 offset = target - sums.before;
    for (i32 token = threadIdx.x * tokens_of_thread(params);; token++) {
        const token_cost cost = cost_of_token(params, token);
        if (offset < cost.unit * SMLA_HEAD_BLOCKS) {
            const item_place found = place_in_token(params, token, cost, offset, cuts);
            const i64 item_end = target - offset % cost.unit + cost.unit;
            if (found.block > 0)
                memory.last_block = (i32)(divide_up(item_end, share) - 1);
            place = found;
            return;
        }
        offset -= cost.unit * SMLA_HEAD_BLOCKS;
    }
}

/* Every thread of the block. The range is in memory afterwards. */
__device__ __forceinline__ void make_schedule(const smla_decode_params &params, schedule_memory &memory)
{
    const cost_sums sums = sum_costs(params, memory);
    const bool cuts = should_cut(params, sums);
    const i64 share = divide_up(sums.all, params.main_blocks), block = blockIdx.x;

    find_place(params, memory, sums, block * share, share, cuts, memory.begin);
    __syncthreads(); /* last_block is the end's */
    find_place(params, memory, sums, (block + 1) * share, share, cuts, memory.end);
    __syncthreads();
    if (threadIdx.x == 0 && MAY_CUT) {
        const bool has_first_keys = memory.begin.item < memory.end.item || memory.begin.block == 0;
        params.shared[2 * block] = memory.end.item;
        params.shared[2 * block + 1] = memory.end.block > 0 && has_first_keys ? memory.last_block - (i32)block + 1 : 0;
    }
}

#endif
