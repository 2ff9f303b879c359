/* How a block of threads of a decode kernel goes through its range of items: the works that the roles of
 * sm90_attention.cuh or sm90_attention_turned.cuh ask for, one after the other. */
#ifndef SMLA_DECODE_WALK_CUH
#define SMLA_DECODE_WALK_CUH

#include "decode_place.cuh"
#include "decode_schedule.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_tile.cuh"
#include "smla_config.cuh"
#include "types.cuh"

struct walk_memory {
    schedule_memory schedule;
    u64 query_free; /* output -> softmax: all their threads arrive when a work's out has left the query's memory */
};

static constexpr int OUTPUT_THREADS = SMLA_OUTPUT_WARPGROUPS * WARPGROUP;

static_assert(SMLA_SHARED_BYTES == SMLA_WALK_OFFSET + sizeof(walk_memory), "");

/* Behind what the roles have. */
__device__ __forceinline__ walk_memory &walk()
{
    extern __shared__ __align__(1024) u8 shared[];
    return *(walk_memory *)(shared + SMLA_WALK_OFFSET);
}

__device__ __forceinline__ void init_walk()
{
    mbarrier_init(shared_address(&walk().query_free), OUTPUT_THREADS);
}

/* Where this block's range begins (0) and ends (1). */
__device__ __forceinline__ item_place place_of_range(int end)
{
    const item_place place = walk().schedule.place[end];
    return {warp_uniform(place.item), warp_uniform(place.block)};
}

__device__ __forceinline__ bool is_in_range(i32 item)
{
    const item_place end = place_of_range(1);
    return item < end.item || (item == end.item && end.block > 0);
}

/* Makes the work that of an item's keys from a block on, or of the next item that is not nothing. False: there is none
 * in the range. */
__device__ __forceinline__ bool set_work(work &w, i32 item, i32 from)
{
    for (; is_in_range(item); item++, from = 0) {
        const i32 unit = MAY_CUT ? item : item / w.call.pieces, piece = item - unit * (MAY_CUT ? 1 : w.call.pieces);
        const i32 token = unit / SMLA_HEAD_BLOCKS, request = (i32)((u32)token / (u32)w.call.s_q);
        w.request = request;
        w.position = token - request * w.call.s_q;
        set_lists(w);
        make_uniform(w);
        const i32 unit_blocks = w.block_count, blocks = blocks_of_piece(w.call, unit_blocks, piece);
        if (blocks == 0 && piece > 0)
            continue;
        const item_place end = place_of_range(1);
        const i32 to = item == end.item ? end.block : blocks;
        if (SMLA_HEAD_BLOCKS > 1) {
            w.first_head = unit % SMLA_HEAD_BLOCKS * SMLA_BLOCK_HEADS;
            w.heads = min(SMLA_BLOCK_HEADS, SMLA_H_Q - w.first_head);
        }
        w.item = item;
        w.skipped = (MAY_CUT ? 0 : piece * w.call.piece_blocks) + from;
        w.block_count = to - from;
        w.first_blocks -= w.skipped;
        return true;
    }
    return false;
}

/* A work of nothing, to set. */
__device__ __forceinline__ work no_work(const smla_decode_params &params)
{
    return {{0, 0, 0, 0, 0, 0}, params, params.prefill, 0, min(SMLA_BLOCK_HEADS, SMLA_H_Q), {}, 0, 0};
}

/* ---- What the roles ask for ---- */

__device__ __forceinline__ bool first_work(work &w)
{
    const item_place begin = place_of_range(0);
    return set_work(w, begin.item, begin.block);
}

__device__ __forceinline__ bool next_work(work &w)
{
    w.works++;
    w.blocks += w.block_count;
    return set_work(w, w.item + 1, 0);
}

__device__ __forceinline__ bool is_last(const work &w)
{
    return !is_in_range(w.item + 1);
}

__device__ __forceinline__ void wait_for_query_space(const work &w)
{
    if (w.works > 0)
        mbarrier_wait(shared_address(&walk().query_free), (w.works - 1) % 2);
}

__device__ __forceinline__ void free_query_space(const work &)
{
    mbarrier_arrive(shared_address(&walk().query_free));
}

#endif
