/* Combines the parts of decode's cut items into their rows of out and lse. For any architecture. One warp a row
 * (combine_row.cuh); nothing where an item is whole, whose row the main kernel has written. Launched while that ends.
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
static constexpr int ROW_GROUPS = (SMLA_BLOCK_HEADS + COMBINE_WARPS - 1) / COMBINE_WARPS;

/* The parts of a row of a unit. */
struct row_parts {
    const smla_decode_params &params;
    i32 unit;
    i32 row; /* of the unit's heads */
    u32 parts;
    i32 first_block; /* of threads: the one that has the unit's first keys */
    int lane;
    float to_log2;

    __device__ __forceinline__ u32 count() const
    {
        return parts;
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
        const i32 number = !MAY_CUT    ? unit * params.pieces + part
                           : part == 0 ? first_block
                                       : params.main_blocks + first_block + part;
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

/* Finds the unit that this block of threads has rows of; parts 0: nothing to do. */
__device__ __forceinline__ row_parts find_parts(const smla_decode_params &params, i32 source)
{
    row_parts of = {params, source, 0, 0, source, (int)threadIdx.x % LANES, 1.0f};
    if (MAY_CUT) {
        of.unit = params.shared[2 * source];
        of.parts = params.shared[2 * source + 1];
        return of;
    }
    const token_cost cost = cost_of_token(params, source / SMLA_HEAD_BLOCKS);
    of.parts = cost.blocks > params.piece_blocks ? cost.pieces : 0;
    return of;
}

/* ROW_GROUPS blocks for each block of threads of the main kernel; where that may not cut, for each unit. */
extern "C" __global__ void __launch_bounds__(SMLA_COMBINE_THREADS, 1)
    smla_decode_combine(const __grid_constant__ smla_decode_params params)
{
    const smla_prefill_params &prefill = params.prefill;
    griddepcontrol_wait();
    row_parts parts = find_parts(params, blockIdx.x / ROW_GROUPS);
    parts.row = blockIdx.x % ROW_GROUPS * COMBINE_WARPS + threadIdx.x / LANES;
    const int head = parts.unit % SMLA_HEAD_BLOCKS * SMLA_BLOCK_HEADS + parts.row;
    if (parts.parts == 0 || parts.row >= SMLA_BLOCK_HEADS || head >= SMLA_H_Q)
        return; /* a whole warp: nobody waits for it */

    const token_place at = place_of_token(params, parts.unit / SMLA_HEAD_BLOCKS);
    float sink = prefill.attn_sink ? prefill.attn_sink[head] : -infinity();
    float *lse = prefill.lse ? prefill.lse + lse_offset(params, at, head) : nullptr;
    float out[RUNS][RUN];
    combine_row(parts, prefill.lse_flags, prefill.attn_sink != nullptr, sink, lse, out);
    griddepcontrol_launch_dependents();
    u16 *to = (u16 *)prefill.out + out_offset(params, at) + head * prefill.out_stride_head;
    for (int run = 0; run < RUNS; run++)
        store_run(to + column_of(parts, run), out[run]);
}
