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
static constexpr int SMALL_ITEM_COST = SMLA_SMALL_ITEM_COST_BLOCKS; /* where a share is small */
static constexpr int SMALL_SHARE = SMLA_SMALL_SHARE_BLOCKS;         /* at most */
static constexpr bool MAY_CUT = !SMLA_BATCH_INVARIANT;
static constexpr int SCHEDULE_WARPS = SMLA_THREADS / 32;

/* A place in the row of items, before one of an item's blocks of keys. */
struct item_place {
    i32 item;
    i32 block;
};

struct warp_sums {
    i32 blocks, pieces, largest;
};

struct schedule_memory {
    warp_sums warp[SCHEDULE_WARPS];
    item_place place[2]; /* begin and end of this block's range */
    i32 cut_item_end[2]; /* where, by cost, an item ends that is cut there; 0: none is */
};

/* What a token's items cost: the same for each of its blocks of heads. */
struct token_cost {
    i32 blocks; /* of keys */
    i32 pieces; /* that are not nothing */

    __device__ __forceinline__ i32 unit(i32 item_cost) const
    {
        return pieces * item_cost + blocks;
    }
};

__device__ __forceinline__ token_place place_of_token(const smla_decode_params &params, i32 token)
{
    const i32 request = token / params.s_q;
    return {request, token - request * params.s_q, 0, 0, 0, 0};
}

__device__ __forceinline__ token_cost cost_of_token(const smla_decode_params &params, i32 token)
{
    const token_place at = place_of_token(params, token);
    token_cost cost = {0, 1};
#pragma unroll
    for (int c = 0; c < CACHES; c++)
        cost.blocks += blocks_of(length_of(params, at, c));
    if (!MAY_CUT)
        cost.pieces = max(1, (cost.blocks + params.piece_blocks - 1) / params.piece_blocks);
    return cost;
}

/* Blocks of keys of one of a unit's pieces. */
__device__ __forceinline__ i32 blocks_of_piece(const smla_decode_params &params, i32 unit_blocks, i32 piece)
{
    return MAY_CUT ? unit_blocks : max(0, min(params.piece_blocks, unit_blocks - piece * params.piece_blocks));
}

/* ---- Sums over all tokens ---- */

/* Of a thread's run of tokens, of one block of heads. */
struct cost_sums {
    token_cost before; /* of earlier threads' tokens, together */
    token_cost mine;
    token_cost all; /* what it costs is 2^30 at most: gen/plan_decode.c */
    i32 largest;    /* blocks of an item */
};

/* A thread has a run of tokens. */
__device__ __forceinline__ i32 tokens_of_thread(const smla_decode_params &params)
{
    return (params.tokens + SMLA_THREADS - 1) / SMLA_THREADS;
}

__device__ __forceinline__ cost_sums sum_costs(const smla_decode_params &params, schedule_memory &memory)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i32 run = tokens_of_thread(params), first = threadIdx.x * run;
    cost_sums sums = {};
#pragma unroll 1
    for (i32 token = first; token < min(params.tokens, first + run); token++) {
        const token_cost cost = cost_of_token(params, token);
        sums.mine.blocks += cost.blocks;
        sums.mine.pieces += cost.pieces;
        sums.largest = max(sums.largest, blocks_of_piece(params, cost.blocks, 0));
    }
    const i32 blocks = sum_up_to(sums.mine.blocks);
    const i32 pieces = MAY_CUT ? 0 : sum_up_to(sums.mine.pieces);
    sums.largest = __reduce_max_sync(0xffffffff, sums.largest);
    if (lane == 31)
        memory.warp[warp] = {blocks, pieces, sums.largest};
    __syncthreads();
    sums.before = {blocks - sums.mine.blocks, pieces - sums.mine.pieces};
#pragma unroll
    for (int other = 0; other < SCHEDULE_WARPS; other++) {
        const warp_sums of = memory.warp[other];
        sums.before.blocks += other < warp ? of.blocks : 0;
        sums.before.pieces += other < warp ? of.pieces : 0;
        sums.all.blocks += of.blocks;
        sums.all.pieces += of.pieces;
        sums.largest = max(sums.largest, of.largest);
    }
    if (MAY_CUT) {
        sums.before.pieces = min(first, params.tokens);
        sums.all.pieces = params.tokens;
    }
    return sums;
}

/* ---- Ranges ---- */

__device__ __forceinline__ i32 divide_up(i32 a, i32 b)
{
    return (i32)((u32)(a + b - 1) / (u32)b);
}

/* How the row of items is divided. */
struct division {
    i32 item_cost;
    i32 share; /* by cost, of a block of threads */
    bool cuts;
};

/* Whether items are to be cut: whole ones take the time of the largest, or of as many average ones as a block of
 * threads gets; cut ones an equal share, and what cutting costs. Where a share is a block or two of keys, what an item
 * costs beside them is the same for every part: then it counts little, but so that an item of nothing is in some share.
 * gen/plan_decode.c has the same for calls without lengths. */
__device__ __forceinline__ division divide(const smla_decode_params &params, const cost_sums &sums)
{
    const i32 all = sums.all.unit(ITEM_COST) * SMLA_HEAD_BLOCKS, items = params.tokens * SMLA_HEAD_BLOCKS;
    const i32 share = divide_up(all, params.main_blocks), cut = share + ITEM_COST + CUT_COST;
    const bool cuts = MAY_CUT && (ITEM_COST + sums.largest > cut || (i64)params.whole_items * all > (i64)cut * items);
    if (!cuts)
        return {ITEM_COST, share, false};
    const i32 least = divide_up(sums.all.unit(SMALL_ITEM_COST) * SMLA_HEAD_BLOCKS, params.main_blocks);
    if (least <= SMALL_SHARE)
        return {SMALL_ITEM_COST, least, true};
    return {ITEM_COST, share, true};
}

/* The place so far into a token's items. */
__device__ __forceinline__ item_place place_in_token(const smla_decode_params &params, const division &by, i32 token,
                                                     const token_cost &cost, i32 offset)
{
    const i32 head_block =
        SMLA_HEAD_BLOCKS <= 2 ? offset >= cost.unit(by.item_cost) : (u32)offset / (u32)cost.unit(by.item_cost);
    const i32 into_unit = offset - head_block * cost.unit(by.item_cost);
    const i32 piece = MAY_CUT ? 0 : min(into_unit / (ITEM_COST + params.piece_blocks), cost.pieces - 1);
    const i32 into_item = into_unit - (MAY_CUT ? 0 : piece * (ITEM_COST + params.piece_blocks));
    const i32 item = (token * SMLA_HEAD_BLOCKS + head_block) * params.pieces + piece;
    if (by.cuts)
        return {item, max(0, into_item - by.item_cost)};
    const i32 item_cost = ITEM_COST + blocks_of_piece(params, cost.blocks, piece);
    return {2 * into_item > item_cost ? item + 1 : item, 0}; /* the nearer end */
}

/* item_end: where the item that is cut there ends, or 0. */
__device__ __forceinline__ void set_place(const smla_decode_params &params, const division &by, i32 token,
                                          const token_cost &cost, i32 target, i32 offset, item_place &place,
                                          i32 &item_end)
{
    const i32 unit = cost.unit(by.item_cost);
    place = place_in_token(params, by, token, cost, offset);
    const i32 head_block = SMLA_HEAD_BLOCKS <= 2 ? offset >= unit : (u32)offset / (u32)unit;
    item_end = place.block > 0 ? target - offset + (head_block + 1) * unit : 0;
}

/* Finds where in the row of items a cost is reached, in the thread that has the token; past the last it is the end. */
__device__ __forceinline__ void find_place(const smla_decode_params &params, const cost_sums &sums, const division &by,
                                           i32 first_token, i32 target, item_place &place, i32 &item_end)
{
    if (target >= sums.all.unit(by.item_cost) * SMLA_HEAD_BLOCKS) {
        if (threadIdx.x == 0) {
            place = {params.tokens * SMLA_HEAD_BLOCKS * params.pieces, 0};
            item_end = 0;
        }
        return;
    }
    i32 offset = target - sums.before.unit(by.item_cost) * SMLA_HEAD_BLOCKS;
    if (offset < 0 || offset >= sums.mine.unit(by.item_cost) * SMLA_HEAD_BLOCKS)
        return;
    i32 token = first_token;
    token_cost cost = cost_of_token(params, token);
#pragma unroll 1
    while (offset >= cost.unit(by.item_cost) * SMLA_HEAD_BLOCKS) {
        offset -= cost.unit(by.item_cost) * SMLA_HEAD_BLOCKS;
        cost = cost_of_token(params, ++token);
    }
    set_place(params, by, token, cost, target, offset, place, item_end);
}

/* The same without lengths: every token costs what the first does, and the division is known (gen/plan_decode.c). */
__device__ __forceinline__ void find_even_place(const smla_decode_params &params, i32 target, item_place &place,
                                                i32 &item_end)
{
    const u32 token = (u32)target / (u32)params.even_token_cost;
    if (token >= (u32)params.tokens) {
        place = {params.tokens * SMLA_HEAD_BLOCKS * params.pieces, 0};
        item_end = 0;
        return;
    }
    const division by = {params.even_item_cost, params.even_share, params.even_cuts != 0};
    set_place(params, by, token, cost_of_token(params, 0), target, target - token * params.even_token_cost, place,
              item_end);
}

/* The same of few items: each is cut alike, and a block of threads has one part. */
__device__ __forceinline__ item_place place_of_part(const smla_decode_params &params, u32 part)
{
    const u32 item = __umulhi(part, params.even_parts_multiplier);
    return {(i32)item, (i32)((part - item * params.even_parts) * params.even_part_blocks)};
}

/* What combines is told by unit where there are fewer units than blocks of threads, else by block: there are no more
 * entries than either. */
__device__ __forceinline__ bool is_shared_by_unit(const smla_decode_params &params)
{
    return params.tokens * SMLA_HEAD_BLOCKS < params.main_blocks;
}

/* Tells it of the items whose first keys this block's range has, of which only the last can be shared. */
__device__ __forceinline__ void tell_shared(const smla_decode_params &params, const schedule_memory &memory, i32 share)
{
    const i32 block = blockIdx.x;
    const item_place begin = memory.place[0], end = memory.place[1];
    const i32 first = begin.item + (begin.block > 0), last = end.item - (end.block == 0);
    const i32 parts = first <= last && end.block > 0 ? divide_up(memory.cut_item_end[1], share) - block : 0;
    if (is_shared_by_unit(params)) {
        for (i32 item = first + (i32)threadIdx.x; item <= last; item += SMLA_THREADS) {
            params.shared[2 * item] = block;
            params.shared[2 * item + 1] = item == last ? parts : 0;
        }
    } else if (threadIdx.x == 0) {
        params.shared[2 * block] = last;
        params.shared[2 * block + 1] = parts;
    }
}

/* Every thread of the block. The range is in memory afterwards. */
__device__ __forceinline__ void make_schedule(const smla_decode_params &params, schedule_memory &memory)
{
    const i32 block = blockIdx.x;
    i32 share = params.even_share;
    if (params.even_parts > 0) {
        if (threadIdx.x < 2)
            memory.place[threadIdx.x] = place_of_part(params, block + threadIdx.x);
    } else if (share > 0) {
        const int end = threadIdx.x;
        if (end < 2)
            find_even_place(params, (block + end) * share, memory.place[end], memory.cut_item_end[end]);
    } else {
        const cost_sums sums = sum_costs(params, memory);
        const division by = divide(params, sums);
        share = by.share;
#pragma unroll 1
        for (int end = 0; end < 2; end++)
            find_place(params, sums, by, threadIdx.x * tokens_of_thread(params), (block + end) * share,
                       memory.place[end], memory.cut_item_end[end]);
    }
    __syncthreads();
    if (MAY_CUT && params.shared && params.even_parts == 0)
        tell_shared(params, memory, share);
}

#endif
