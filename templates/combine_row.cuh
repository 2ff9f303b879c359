/* What combining the parts of a row takes, wherever they lie. One warp computes one row, in three passes over the
 * parts: the largest lse, the sum of weights, the sum of rows. A lane has one part of 32 where weights are made, and
 * RUNS runs of RUN columns where rows are added. The shares w / sum are made before rows are read: they add up to at
 * most 1, so no sum overflows whose terms do not; and an empty part's row is never read, whatever stands there.
 *
 * A NaN lse makes its row NaN; a NaN in a part that is not empty, its column. For any architecture. */
#ifndef SMLA_COMBINE_ROW_CUH
#define SMLA_COMBINE_ROW_CUH

#include "combine_weights.cuh"
#include "math.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int LANES = 32;
static constexpr u32 ALL_LANES = 0xffffffff;
static constexpr int RUN = SMLA_RUN_ELEMS;            /* consecutive columns of a lane */
static constexpr int RUNS = SMLA_D_V / (LANES * RUN); /* LANES * RUN columns apart */
static_assert(RUNS * LANES * RUN == SMLA_D_V && RUN == 8, "16 bytes of bf16, d_v in whole");

/* The functions below are templates over a row's parts:
 *
 *   u32 count() const
 *   float lse(u32 part) const         of part < count(); an infinity of either sign: an empty part
 *   const ELEM *rows() const          where row_offset(part) elements further its d_v columns stand
 *   i64 row_offset(u32 part) const
 *   bool is_base_2() const            of lse
 *   float to_log2                     from its logarithms, worked out once */

__device__ __forceinline__ int lane_of_warp()
{
    return threadIdx.x % LANES;
}

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
__device__ __forceinline__ int column_of(int run)
{
    return (run * LANES + lane_of_warp()) * RUN;
}

/* ---- Weights ---- */

/* -inf for an empty part, whichever infinity stands there, and past the last. */
template <class parts> __device__ __forceinline__ float load_lse(const parts &of, u32 part)
{
    if (part >= of.count())
        return -infinity();
    float lse = of.lse(part);
    return lse == infinity() ? -infinity() : lse;
}

/* NaN when any is; -inf when all are empty. Every lane gets it. */
template <class parts> __device__ __forceinline__ float find_max(const parts &of)
{
    float max = -infinity();
    for (u32 first = 0; first < of.count(); first += LANES)
        max = max_nan(max, load_lse(of, first + lane_of_warp()));
    for (int step = LANES / 2; step > 0; step /= 2)
        max = max_nan(max, __shfl_xor_sync(ALL_LANES, max, step));
    return max;
}

/* At least 1, 0 when all are empty. Every lane gets the same bits: addition commutes. */
template <class parts> __device__ __forceinline__ float sum_weights(const parts &of, float max)
{
    float sum = 0.0f;
    for (u32 first = 0; first < of.count(); first += LANES)
        sum += weight_of(of.to_log2, load_lse(of, first + lane_of_warp()), max);
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    return sum;
}

/* ---- Row ---- */

/* Takes the lowest bit out of the mask; returns its number, -1 when there is none. */
__device__ __forceinline__ int take_lowest(u32 &mask)
{
    int lowest = __ffs(mask) - 1;
    mask &= mask - 1;
    return lowest;
}

/* Adds the rows of the parts that are not empty, in order of parts. */
template <class parts>
__device__ __forceinline__ void add_rows(const parts &of, float max, float share_of_one, float (&out)[RUNS][RUN])
{
    const auto *rows = of.rows();
    for (u32 first = 0; first < of.count(); first += LANES) {
        float lse = load_lse(of, first + lane_of_warp());
        float share = weight_of(of.to_log2, lse, max) * share_of_one;
        u32 waiting = __ballot_sync(ALL_LANES, lse != -infinity());
        while (waiting) {
            int from[SMLA_PARTS_IN_FLIGHT]; /* the same in every lane */
            float x[SMLA_PARTS_IN_FLIGHT][RUNS][RUN];
#pragma unroll
            for (int i = 0; i < SMLA_PARTS_IN_FLIGHT; i++) {
                from[i] = take_lowest(waiting);
                if (from[i] < 0)
                    break;
                const auto *part = rows + of.row_offset(first + from[i]);
                for (int run = 0; run < RUNS; run++)
                    load_run(part + column_of(run), x[i][run]);
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

/* The row, all of it; sink: -inf for none. Its lse goes to `lse` where that is not NULL. */
template <class parts>
__device__ __forceinline__ void combine_row(const parts &of, u32 flags, bool has_sink, float sink, float *lse,
                                            float (&out)[RUNS][RUN])
{
    float max = find_max(of);
    float sum = sum_weights(of, max);
    if (lse && lane_of_warp() == 0)
        *lse = final_lse(of.is_base_2(), flags, has_sink, max, sum, sink);

    float share_of_one = share_of_weight(of.is_base_2(), max, sum, sink);
    for (int run = 0; run < RUNS; run++)
        for (int j = 0; j < RUN; j++)
            out[run][j] = 0.0f * share_of_one; /* NaN by a NaN sink */
    add_rows(of, max, share_of_one, out);
}

#endif
