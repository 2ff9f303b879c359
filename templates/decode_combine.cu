/* Combines the parts of decode's cut items into their rows of out and lse. For any architecture. One warp a row, or
 * two (combine_row.cuh); nothing where an item is whole, whose row the main kernel has written. Started beside that,
 * it waits for its end.
 */
#include "combine_row.cuh"
#include "decode_params.h"
#include "decode_place.cuh"
#include "decode_schedule.cuh"
#include "grid_dependency.cuh"
#include "prefill_work.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int COMBINE_WARPS = SMLA_COMBINE_THREADS / LANES;

/* A unit whose parts are to be combined, and where they are. */
struct shared_unit {
    i32 unit;
    u32 parts;       /* 0: nothing to do */
    i32 first_block; /* of threads: the one that has the unit's first keys */
};

/* The parts of a row of a unit, for one of `warps` that share its columns. */
template <int WARPS> struct row_parts {
    static constexpr int ROW_WARPS = WARPS;
    const smla_decode_params &params;
    shared_unit of;
    i32 row; /* of the unit's heads */
    int lane;
    int row_warp;
    float to_log2;

    __device__ __forceinline__ u32 count() const
    {
        return of.parts;
    }
    __device__ __forceinline__ bool is_base_2() const
    {
        return true;
    }
    __device__ __forceinline__ bool has_empty_rows() const
    {
        return true;
    }
    /* As part_of (decode_place.cuh) gives them. */
    __device__ __forceinline__ i64 row_of(u32 part) const
    {
        const i32 number = !MAY_CUT    ? of.unit * params.pieces + part
                           : part == 0 ? of.first_block
                                       : params.main_blocks + of.first_block + part;
        return (i64)number * SMLA_BLOCK_HEADS + row;
    }
    __device__ __forceinline__ float lse(u32 part) const
    {
        return params.part_lse[row_of(part)];
    }
    __device__ __forceinline__ const float *rows() const
    {
        return params.part_out;
    }
    __device__ __forceinline__ i64 row_offset(u32 part) const
    {
        return row_of(part) * SMLA_D_V;
    }
};

/* source: the block of threads that has the unit's first keys; where kernels may not cut, the unit. */
__device__ __forceinline__ shared_unit find_unit(const smla_decode_params &params, i32 source)
{
    if (MAY_CUT)
        return {params.shared[2 * source], (u32)params.shared[2 * source + 1], source};
    const token_cost cost = cost_of_token(params, source / SMLA_HEAD_BLOCKS);
    return {source, cost.blocks > params.piece_blocks ? (u32)cost.pieces : 0, source};
}

template <int WARPS> __device__ __forceinline__ void combine(const smla_decode_params &params)
{
    static_assert(COMBINE_WARPS % WARPS == 0, "");
    constexpr int ROWS = COMBINE_WARPS / WARPS, GROUPS = (SMLA_BLOCK_HEADS + ROWS - 1) / ROWS;
    const int warp = threadIdx.x / LANES;
    const shared_unit unit = find_unit(params, blockIdx.x / GROUPS);
    const row_parts<WARPS> parts = {
        params, unit, (i32)(blockIdx.x % GROUPS * ROWS + warp / WARPS), (int)threadIdx.x % LANES, warp % WARPS, 1.0f};
    const smla_prefill_params &prefill = params.prefill;
    const int head = unit.unit % SMLA_HEAD_BLOCKS * SMLA_BLOCK_HEADS + parts.row;
    if (unit.parts == 0 || parts.row >= SMLA_BLOCK_HEADS || head >= SMLA_H_Q)
        return; /* a whole warp: nobody waits for it */

    const token_place at = place_of_token(params, unit.unit / SMLA_HEAD_BLOCKS);
    float sink = prefill.attn_sink ? prefill.attn_sink[head] : -infinity();
    float *lse = prefill.lse ? prefill.lse + lse_offset(params, at, head) : nullptr;
    float out[ROW_RUNS / WARPS][RUN];
    combine_row(parts, prefill.lse_flags, prefill.attn_sink != nullptr, sink, lse, out);
    griddepcontrol_launch_dependents();
    u16 *to = (u16 *)prefill.out + out_offset(params, at) + head * prefill.out_stride_head;
    for (int run = 0; run < ROW_RUNS / WARPS; run++)
        store_run(to + column_of(parts, run), out[run]);
}

/* Blocks for all rows of each block of threads of the main kernel; where that may not cut, of each unit. */
extern "C" __global__ void __launch_bounds__(SMLA_COMBINE_THREADS, 1)
    smla_decode_combine(const __grid_constant__ smla_decode_params params)
{
    griddepcontrol_wait();
    if (params.row_warps == SMLA_MOST_ROW_WARPS)
        combine<SMLA_MOST_ROW_WARPS>(params);
    else
        combine<1>(params);
}
