/* Combines the parts of decode's cut items into their rows of out and lse; nothing where an item is whole, whose rows
 * the main kernel has written. Started beside that, it waits for its end. For any architecture.
 *
 *   w[i]    = 2^(part_lse[i] - max_j part_lse[j])          0 for an empty part, whose lse is -inf
 *   out[:]  = sum_i w[i] * part_out[i, :] / (sum_i w[i] + 2^(attn_sink - max_j part_lse[j]))
 *   lse     = max_j part_lse[j] + log2 sum_i w[i]
 *
 * A thread has some runs of a part's elements (decode_part.cuh), which are of two heads, and works out both heads'
 * weights together with those of its warp that have the same heads. The first parts' runs are on their way before it is
 * known what they count. The shares w / sum are made before runs are added: they add up to at most 1, so no sum
 * overflows whose terms do not. The row of an empty part is there, zeros, or NaN where a key of it whose logit is -inf
 * has an infinite element. */
#include "combine_weights.cuh"
#include "decode_params.h"
#include "decode_part.cuh"
#include "decode_place.cuh"
#include "decode_schedule.cuh"
#include "grid_dependency.cuh"
#include "prefill_work.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int COMBINE_WARPGROUPS = SMLA_COMBINE_THREADS / PART_THREADS;

/* A unit whose parts are to be combined, and where they are. */
struct shared_unit {
    i32 unit;
    u32 parts;       /* 0: nothing to do */
    i32 first_block; /* of threads: the one that has the unit's first keys */
};

/* source: the unit, or the block of threads that has the unit's first keys (is_shared_by_unit). */
__device__ __forceinline__ shared_unit find_unit(const smla_decode_params &params, i32 source)
{
    if (MAY_CUT && params.even_parts > 0)
        return {source, (u32)params.even_parts, source * params.even_parts};
    if (MAY_CUT) {
        const i32 other = params.shared[2 * source];
        const u32 parts = params.shared[2 * source + 1];
        if (is_shared_by_unit(params))
            return {source, parts, other};
        return {other, parts, source};
    }
    const token_cost cost = cost_of_token(params, source / SMLA_HEAD_BLOCKS);
    return {source, cost.blocks > params.piece_blocks ? (u32)cost.pieces : 0, source};
}

/* As part_of (decode_place.cuh) gives them. */
__device__ __forceinline__ i32 number_of_part(const smla_decode_params &params, const shared_unit &of, u32 part)
{
    if (!MAY_CUT)
        return of.unit * params.pieces + part;
    return part == 0 ? of.first_block : params.main_blocks + of.first_block + part;
}

/* ---- Weights ---- */

/* A thread's two heads, of the unit's; and which of the threads that have the same ones it is. One that there is not
 * reads as the last does, and stores nothing. */
struct two_heads {
    int row[2];
    bool is_there[2];
    int sharer;
};

__device__ __forceinline__ two_heads heads_of(const run_place &at, int heads)
{
    two_heads of = {{}, {}, sharer_of_heads()};
    for (int h = 0; h < 2; h++) {
        of.row[h] = min(at.head[h], heads - 1);
        of.is_there[h] = at.head[h] < heads;
    }
    return of;
}

/* Of a part, for both heads; -inf past the last part. */
struct two_lse {
    float head[2];
};

__device__ __forceinline__ two_lse load_lse(const smla_decode_params &params, const shared_unit &of,
                                            const two_heads &heads, u32 part)
{
    if (part >= of.parts)
        return {{-infinity(), -infinity()}};
    const float *lse = params.part_lse + (i64)number_of_part(params, of, part) * SMLA_BLOCK_HEADS;
    return {{lse[heads.row[0]], lse[heads.row[1]]}};
}

/* What both heads' parts come to, in every thread; max: NaN when any lse is. */
struct head_sums {
    float max[2];
    float sum[2];
};

/* The threads that share the heads share the parts, and get the same bits: addition commutes. */
__device__ __forceinline__ head_sums sum_weights(const smla_decode_params &params, const shared_unit &of,
                                                 const two_heads &heads)
{
    head_sums sums = {{-infinity(), -infinity()}, {0, 0}};
#pragma unroll 4
    for (u32 part = heads.sharer; part < of.parts; part += HEAD_SHARERS) {
        const two_lse lse = load_lse(params, of, heads, part);
        for (int h = 0; h < 2; h++)
            sums.max[h] = max_nan(sums.max[h], lse.head[h]);
    }
    for (int h = 0; h < 2; h++)
        for (int step = FIRST_SHARER_STEP; step < FIRST_SHARER_STEP * HEAD_SHARERS; step *= 2)
            sums.max[h] = max_nan(sums.max[h], __shfl_xor_sync(0xffffffff, sums.max[h], step));
#pragma unroll 4
    for (u32 part = heads.sharer; part < of.parts; part += HEAD_SHARERS) {
        const two_lse lse = load_lse(params, of, heads, part);
        for (int h = 0; h < 2; h++)
            sums.sum[h] += weight_of(1.0f, lse.head[h], sums.max[h]);
    }
    for (int h = 0; h < 2; h++)
        for (int step = FIRST_SHARER_STEP; step < FIRST_SHARER_STEP * HEAD_SHARERS; step *= 2)
            sums.sum[h] += __shfl_xor_sync(0xffffffff, sums.sum[h], step);
    return sums;
}

/* ---- Runs ---- */

/* A thread's runs of some parts, on their way. */
template <int THREAD_RUNS> struct runs_in_flight {
    static constexpr int PARTS = SMLA_ELEMS_IN_FLIGHT / (THREAD_RUNS * RUN_ELEMS);
    static constexpr int TURNS = (PARTS + HEAD_SHARERS - 1) / HEAD_SHARERS;
    float4 run[PARTS][THREAD_RUNS];

    __device__ __forceinline__ void load(const smla_decode_params &params, const shared_unit &of, u32 first, u32 offset)
    {
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            if (first + i >= of.parts)
                break;
            const i64 part = (i64)number_of_part(params, of, first + i) * (PART_RUNS * PART_THREADS * RUN_ELEMS);
#pragma unroll
            for (int r = 0; r < THREAD_RUNS; r++)
                run[i][r] = *(const float4 *)(params.part_out + part + offset + run_offset(r, 0));
        }
    }
    /* share_of_one: of each head, what a weight of 1 counts. */
    __device__ __forceinline__ void add(const smla_decode_params &params, const shared_unit &of, u32 first,
                                        const two_heads &heads, const head_sums &sums, const float (&share_of_one)[2],
                                        float (&out)[THREAD_RUNS][RUN_ELEMS]) const
    {
        float mine[TURNS][2]; /* shares of the parts that this thread works out */
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            const two_lse lse = load_lse(params, of, heads, first + turn * HEAD_SHARERS + heads.sharer);
            for (int h = 0; h < 2; h++)
                mine[turn][h] = weight_of(1.0f, lse.head[h], sums.max[h]) * share_of_one[h];
        }
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            if (first + i >= of.parts)
                break;
            float share[2];
            for (int h = 0; h < 2; h++)
                share[h] = __shfl_sync(0xffffffff, mine[i / HEAD_SHARERS][h], lane_of_sharer(i % HEAD_SHARERS));
#pragma unroll
            for (int r = 0; r < THREAD_RUNS; r++) {
                const float x[RUN_ELEMS] = {run[i][r].x, run[i][r].y, run[i][r].z, run[i][r].w};
#pragma unroll
                for (int e = 0; e < RUN_ELEMS; e++)
                    out[r][e] = fmaf(share[head_of_element(e)], x[e], out[r][e]);
            }
        }
    }
};

/* Stores one head's elements of a run as bf16. */
__device__ __forceinline__ void store_elements(u16 *row, int column, const float (&out)[RUN_ELEMS], int h)
{
    if (!SMLA_HEADS_ARE_COLUMNS) {
        *(u32 *)(row + column) = pack_bf16(out[2 * h], out[2 * h + 1]);
        return;
    }
    const u32 pair = pack_bf16(out[h], out[2 + h]);
    row[column] = (u16)pair;
    row[column + 8] = (u16)(pair >> 16);
}

/* ---- The kernel ---- */

template <int THREAD_RUNS> __device__ __forceinline__ void combine(const smla_decode_params &params)
{
    static_assert(RUNS % THREAD_RUNS == 0, "a thread's runs are of one half");
    static_assert(!SMLA_HEADS_ARE_COLUMNS || RUN_TILES % THREAD_RUNS == 0, "and of the same heads");
    constexpr int GROUPS = (PART_RUNS + COMBINE_WARPGROUPS * THREAD_RUNS - 1) / (COMBINE_WARPGROUPS * THREAD_RUNS);
    const int thread = threadIdx.x % PART_THREADS;
    const int first_run = (blockIdx.x % GROUPS * COMBINE_WARPGROUPS + threadIdx.x / PART_THREADS) * THREAD_RUNS;
    const shared_unit unit = find_unit(params, blockIdx.x / GROUPS);
    const run_place at = place_of_run(first_run, thread);
    if (unit.parts == 0 || first_run >= PART_RUNS)
        return; /* a whole warp */
    const int first_head = unit.unit % SMLA_HEAD_BLOCKS * SMLA_BLOCK_HEADS;
    const two_heads heads = heads_of(at, min(SMLA_BLOCK_HEADS, SMLA_H_Q - first_head));
    const u32 offset = run_offset(first_run, thread);
    runs_in_flight<THREAD_RUNS> in_flight;
    in_flight.load(params, unit, 0, offset);

    const smla_prefill_params &prefill = params.prefill;
    const token_place token = place_of_token(params, unit.unit / SMLA_HEAD_BLOCKS);
    float sink[2];
    for (int h = 0; h < 2; h++)
        sink[h] = prefill.attn_sink ? prefill.attn_sink[first_head + heads.row[h]] : -infinity();
    const head_sums sums = sum_weights(params, unit, heads);
    float share_of_one[2], out[THREAD_RUNS][RUN_ELEMS];
    for (int h = 0; h < 2; h++)
        share_of_one[h] = share_of_weight(true, sums.max[h], sums.sum[h], sink[h]);
    for (int r = 0; r < THREAD_RUNS; r++)
        for (int e = 0; e < RUN_ELEMS; e++)
            out[r][e] = 0.0f * share_of_one[head_of_element(e)]; /* NaN by a NaN sink */
    in_flight.add(params, unit, 0, heads, sums, share_of_one, out);
    for (u32 first = in_flight.PARTS; first < unit.parts; first += in_flight.PARTS) {
        in_flight.load(params, unit, first, offset);
        in_flight.add(params, unit, first, heads, sums, share_of_one, out);
    }
    griddepcontrol_launch_dependents();

#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (!heads.is_there[h])
            continue;
        const int head = first_head + heads.row[h];
        if (at.column == 0 && prefill.lse)
            prefill.lse[lse_offset(params, token, head)] =
                final_lse(true, prefill.lse_flags, prefill.attn_sink != nullptr, sums.max[h], sums.sum[h], sink[h]);
        u16 *row = (u16 *)prefill.out + out_offset(params, token) + head * prefill.out_stride_head;
        for (int r = 0; r < THREAD_RUNS; r++)
            store_elements(row, place_of_run(first_run + r, thread).column, out[r], h);
    }
}

/* Blocks for all runs of each unit, or of each block of threads of the main kernel where those are fewer. */
extern "C" __global__ void __launch_bounds__(SMLA_COMBINE_THREADS, 2)
    smla_decode_combine(const __grid_constant__ smla_decode_params params)
{
    griddepcontrol_wait();
    static_assert(SMLA_MOST_COMBINE_RUNS == 4, "");
    if (params.combine_runs == 1)
        combine<1>(params);
    else if (params.combine_runs == 2)
        combine<2>(params);
    else
        combine<4>(params);
}
