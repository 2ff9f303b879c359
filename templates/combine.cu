/* Merges partial results of sparse attention over disjoint shards of the keys. For any architecture.
 *
 *   w[i]    = exp(partial_lse[i] - max_j partial_lse[j])       0 for an empty part, whose lse is an infinity
 *   out[:]  = sum_i w[i] * partial_out[i, :] / (sum_i w[i] + exp(attn_sink - max_j partial_lse[j]))
 *   lse     = max_j partial_lse[j] + log sum_i w[i]
 *
 * of each row (a query token and head), in float32. One warp computes one row, in three passes over the parts: the
 * largest lse, the sum of weights, the sum of rows. A lane has one part of 32 where weights are made, and RUNS runs of
 * RUN columns where rows are added. The shares w / sum are made before rows are read: they add up to at most 1, so no
 * sum overflows whose terms do not; and an empty part's row is never read, whatever stands there.
 *
 * A NaN lse makes its row NaN; a NaN in a part that is not empty, its column. */
#include "combine_params.h"
#include "grid_dependency.cuh"
#include "math.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int LANES = 32;
static constexpr u32 ALL_LANES = 0xffffffff;
static constexpr int RUN = SMLA_RUN_ELEMS;            /* consecutive columns of a lane */
static constexpr int RUNS = SMLA_D_V / (LANES * RUN); /* LANES * RUN columns apart */
static_assert(RUNS * LANES * RUN == SMLA_D_V && RUN == 8, "16 bytes of bf16, d_v in whole");

struct row {
    const smla_combine_params &params;
    i64 token;
    int head;
    int lane;
    float to_log2; /* from the partials' logarithms */
};

/* ---- Runs of columns ---- */

__device__ __forceinline__ void load_run(const u16 *from, float (&x)[RUN])
{
    uint4 bytes = *(const uint4 *)from;
    u32 pairs[RUN / 2] = {bytes.x, bytes.y, bytes.z, bytes.w};
    for (int i = 0; i < RUN / 2; i++) {
        x[2 * i] = __uint_as_float(pairs[i] << 16);
        x[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000);
    }
}

__device__ __forceinline__ void load_run(const float *from, float (&x)[RUN])
{
    for (int i = 0; i < RUN; i += 4) {
        float4 four = *(const float4 *)(from + i);
        x[i] = four.x;
        x[i + 1] = four.y;
        x[i + 2] = four.z;
        x[i + 3] = four.w;
    }
}

__device__ __forceinline__ void store_run(u16 *to, const float (&x)[RUN])
{
    *(uint4 *)to =
        make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
}

__device__ __forceinline__ void store_run(float *to, const float (&x)[RUN])
{
    for (int i = 0; i < RUN; i += 4)
        *(float4 *)(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
}

/* The first column of a lane's run. */
__device__ __forceinline__ int column_of(const row &r, int run)
{
    return (run * LANES + r.lane) * RUN;
}

/* ---- Weights ---- */

/* -inf for an empty part, whichever infinity stands there, and past the last. */
__device__ __forceinline__ float load_lse(const row &r, u32 part)
{
    const smla_combine_params &params = r.params;
    if (part >= params.parts)
        return -infinity();
    float lse = params.partial_lse[part * params.partial_lse_stride_part + r.token * params.partial_lse_stride_token +
                                   r.head * params.partial_lse_stride_head];
    return lse == infinity() ? -infinity() : lse;
}

/* exp(lse - max). The difference is taken before it is scaled: scaled first, an lse of 1e4 would be off by 1e-3. */
__device__ __forceinline__ float weight_of(const row &r, float lse, float max)
{
    return lse == -infinity() ? 0.0f : exp2_approx((lse - max) * r.to_log2);
}

/* NaN when any is; -inf when all are empty. Every lane gets it. */
__device__ __forceinline__ float find_max(const row &r)
{
    float max = -infinity();
    for (u32 first = 0; first < r.params.parts; first += LANES)
        max = max_nan(max, load_lse(r, first + r.lane));
    for (int step = LANES / 2; step > 0; step /= 2)
        max = max_nan(max, __shfl_xor_sync(ALL_LANES, max, step));
    return max;
}

/* At least 1, 0 when all are empty. Every lane gets the same bits: addition commutes. */
__device__ __forceinline__ float sum_weights(const row &r, float max)
{
    float sum = 0.0f;
    for (u32 first = 0; first < r.params.parts; first += LANES)
        sum += weight_of(r, load_lse(r, first + r.lane), max);
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    return sum;
}

/* ---- Row ---- */

__device__ __forceinline__ float change_base(float log, bool from_base_2, bool to_base_2)
{
    return from_base_2 == to_base_2 ? log : log * (to_base_2 ? LOG2_E : LN_2);
}

/* The row's lse as the flags want it. */
__device__ __forceinline__ float final_lse(const row &r, float max, float sum, float sink)
{
    u32 flags = r.params.lse_flags;
    bool from_base_2 = r.params.partial_is_base_2, to_base_2 = flags & SMLA_PARAM_LSE_BASE_2;
    bool with_sink = (flags & SMLA_PARAM_LSE_WITH_SINK) && r.params.attn_sink;
    if (sink != sink)
        return sink;
    if (sum == 0 && with_sink)
        return change_base(sink, false, to_base_2);
    if (sum == 0)
        return flags & SMLA_PARAM_LSE_EMPTY_NEGATIVE ? -infinity() : infinity();
    float lse = max + change_base(log2_approx(sum), true, from_base_2);
    if (!with_sink)
        return change_base(lse, from_base_2, to_base_2);
    return change_base(add_sink(change_base(lse, from_base_2, false), sink), false, to_base_2);
}

/* 1 / (sum of weights and sink): 0 for an empty row and under an infinite sink; a NaN sink is a NaN in its head. */
__device__ __forceinline__ float share_of_weight(const row &r, float max, float sum, float sink)
{
    if (sink != sink)
        return sink;
    if (sum == 0)
        return 0.0f;
    float sink_log = change_base(sink, false, r.params.partial_is_base_2);
    return reciprocal(sum + exp2_approx((sink_log - max) * r.to_log2));
}

/* Takes the lowest bit out of the mask; returns its number, -1 when there is none. */
__device__ __forceinline__ int take_lowest(u32 &mask)
{
    int lowest = __ffs(mask) - 1;
    mask &= mask - 1;
    return lowest;
}

/* Adds the rows of the parts that are not empty, in order of parts. */
template <typename PARTIAL>
__device__ __forceinline__ void add_rows(const row &r, float max, float share_of_one, float (&out)[RUNS][RUN])
{
    const smla_combine_params &params = r.params;
    const PARTIAL *rows = (const PARTIAL *)params.partial_out + r.token * params.partial_out_stride_token +
                          r.head * params.partial_out_stride_head;
    for (u32 first = 0; first < params.parts; first += LANES) {
        float lse = load_lse(r, first + r.lane);
        float share = weight_of(r, lse, max) * share_of_one;
        u32 waiting = __ballot_sync(ALL_LANES, lse != -infinity());
        while (waiting) {
            int from[SMLA_PARTS_IN_FLIGHT]; /* the same in every lane */
            float x[SMLA_PARTS_IN_FLIGHT][RUNS][RUN];
#pragma unroll
            for (int i = 0; i < SMLA_PARTS_IN_FLIGHT; i++) {
                from[i] = take_lowest(waiting);
                if (from[i] < 0)
                    break;
                const PARTIAL *part = rows + (first + from[i]) * params.partial_out_stride_part;
                for (int run = 0; run < RUNS; run++)
                    load_run(part + column_of(r, run), x[i][run]);
            }
#pragma unroll
            for (int i = 0; i < SMLA_PARTS_IN_FLIGHT; i++) {
                if (from[i] < 0)
                    break;
                float p = __shfl_sync(ALL_LANES, share, from[i]);
                for (int run = 0; run < RUNS; run++)
                    for (int j = 0; j < RUN; j++)
                        out[run][j] = fmaf(p, x[i][run][j], out[run][j]);
            }
        }
    }
}

template <typename PARTIAL, typename OUT> __device__ __forceinline__ void combine(const smla_combine_params &params)
{
    int head = blockIdx.x % SMLA_HEAD_BLOCKS * SMLA_BLOCK_HEADS + threadIdx.x / LANES;
    row r = {params, blockIdx.x / SMLA_HEAD_BLOCKS, head, (int)threadIdx.x % LANES,
             params.partial_is_base_2 ? 1.0f : LOG2_E};
    if (head >= SMLA_H_Q)
        return; /* a whole warp: nobody waits for it */
    griddepcontrol_wait();
    float sink = params.attn_sink ? params.attn_sink[head] : -infinity();
    float max = find_max(r);
    float sum = sum_weights(r, max);
    if (params.lse && r.lane == 0)
        params.lse[r.token * params.lse_stride_token + head * params.lse_stride_head] = final_lse(r, max, sum, sink);

    float share_of_one = share_of_weight(r, max, sum, sink);
    float out[RUNS][RUN];
    for (int run = 0; run < RUNS; run++)
        for (int j = 0; j < RUN; j++)
            out[run][j] = 0.0f * share_of_one; /* NaN by a NaN sink */
    add_rows<PARTIAL>(r, max, share_of_one, out);
    griddepcontrol_launch_dependents();
    OUT *to = (OUT *)params.out + r.token * params.out_stride_token + head * params.out_stride_head;
    for (int run = 0; run < RUNS; run++)
        store_run(to + column_of(r, run), out[run]);
}

/* ---- The variants ---- */

#define COMBINE_KERNEL(name, PARTIAL, OUT)                                                                             \
    extern "C" __global__ void __launch_bounds__(SMLA_THREADS)                                                         \
        name(const __grid_constant__ smla_combine_params params)                                                       \
    {                                                                                                                  \
        combine<PARTIAL, OUT>(params);                                                                                 \
    }

COMBINE_KERNEL(smla_combine_bf16_to_bf16, u16, u16)
COMBINE_KERNEL(smla_combine_bf16_to_float32, u16, float)
COMBINE_KERNEL(smla_combine_float32_to_bf16, float, u16)
COMBINE_KERNEL(smla_combine_float32_to_float32, float, float)
