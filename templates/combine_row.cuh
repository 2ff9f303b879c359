/* What combining the parts of a row takes, wherever they lie. One warp computes one row, or some of its columns, in
 * three passes over the parts: the largest lse, the sum of weights, the sum of rows. A lane has one part of 32 where
 * weights are made, and some runs of RUN columns where rows are added. The shares w / sum are made before rows are
 * added: they add up to at most 1, so no sum overflows whose terms do not; and an empty part's row, whatever stands
 * there, is read only where the parts say so.
 *
 * A NaN lse makes its row NaN; a NaN in a part that is not empty, its column. For any architecture. */
#ifndef SMLA_COMBINE_ROW_CUH
#define SMLA_COMBINE_ROW_CUH

#include "lse_flags.h"
#include "math.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int LANES = 32;
static constexpr u32 ALL_LANES = 0xffffffff;
static constexpr int RUN = SMLA_RUN_ELEMS;                /* consecutive columns of a lane */
static constexpr int ROW_RUNS = SMLA_D_V / (LANES * RUN); /* of a row, LANES * RUN columns apart */
static_assert(ROW_RUNS * LANES * RUN == SMLA_D_V && RUN == 8, "16 bytes of bf16, d_v in whole");

/* The functions below are templates over a row's parts:
 *
 *   u32 count() const
 *   float lse(u32 part) const         of part < count(); an infinity of either sign: an empty part
 *   const ELEM *rows() const          where row_offset(part) elements further a part's d_v columns stand
 *   i64 row_offset(u32 part) const
 *   bool has_empty_rows() const       whether an empty part's row is there: of zeros, or of NaN where a key of it whose
 *                                     logit is -inf has an infinite element, and then that is read too
 *   bool is_base_2() const            of lse
 *   float to_log2                     from its logarithms
 *   int lane
 *   ROW_WARPS                         warps that share a row's columns
 *   int row_warp                      which of them this is */

/* Runs of columns that a lane has. */
template <class parts> __device__ __forceinline__ constexpr int runs_of()
{
    static_assert(ROW_RUNS % parts::ROW_WARPS == 0, "");
    return ROW_RUNS / parts::ROW_WARPS;
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
template <class parts> __device__ __forceinline__ int column_of(const parts &of, int run)
{
    return ((of.row_warp * runs_of<parts>() + run) * LANES + of.lane) * RUN;
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

/* exp(lse - max). The difference is taken before it is scaled: scaled first, an lse of 1e4 would be off by 1e-3. */
template <class parts> __device__ __forceinline__ float weight_of(const parts &of, float lse, float max)
{
    return lse == -infinity() ? 0.0f : exp2_approx((lse - max) * of.to_log2);
}

/* NaN when any is; -inf when all are empty. Every lane gets it. */
template <class parts> __device__ __forceinline__ float find_max(const parts &of)
{
    float max = -infinity();
    for (u32 first = 0; first < of.count(); first += LANES)
        max = max_nan(max, load_lse(of, first + of.lane));
    for (int step = LANES / 2; step > 0; step /= 2)
        max = max_nan(max, __shfl_xor_sync(ALL_LANES, max, step));
    return max;
}

/* At least 1, 0 when all are empty. Every lane gets the same bits: addition commutes. */
template <class parts> __device__ __forceinline__ float sum_weights(const parts &of, float max)
{
    float sum = 0.0f;
    for (u32 first = 0; first < of.count(); first += LANES)
        sum += weight_of(of, load_lse(of, first + of.lane), max);
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, step);
    return sum;
}

/* ---- Row ---- */

__device__ __forceinline__ float change_base(float log, bool from_base_2, bool to_base_2)
{
    return from_base_2 == to_base_2 ? log : log * (to_base_2 ? LOG2_E : LN_2);
}

/* The row's lse as the flags (SMLA_PARAM_LSE_*) want it. */
template <class parts>
__device__ __forceinline__ float final_lse(const parts &of, u32 flags, bool has_sink, float max, float sum, float sink)
{
    bool from_base_2 = of.is_base_2(), to_base_2 = flags & SMLA_PARAM_LSE_BASE_2;
    bool with_sink = (flags & SMLA_PARAM_LSE_WITH_SINK) && has_sink;
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
template <class parts>
__device__ __forceinline__ float share_of_weight(const parts &of, float max, float sum, float sink)
{
    if (sink != sink)
        return sink;
    if (sum == 0)
        return 0.0f;
    float sink_log = change_base(sink, false, of.is_base_2());
    return share_beside_sink(sum, (sink_log - max) * of.to_log2);
}

/* Takes the lowest bit out of the mask; returns its number, -1 when there is none. */
__device__ __forceinline__ int take_lowest(u32 &mask)
{
    int lowest = __ffs(mask) - 1;
    mask &= mask - 1;
    return lowest;
}

/* Some parts' rows on their way: the fewer columns, the more rows. */
template <class parts> struct rows_in_flight {
    static constexpr int RUNS = runs_of<parts>();
    static constexpr int ROWS = SMLA_PARTS_IN_FLIGHT * parts::ROW_WARPS;
    int from[ROWS]; /* of 32 parts; -1: no more. The same in every lane */
    float x[ROWS][RUNS][RUN];

    /* Begins to read the first rows that wait, of the parts from `first` on. rows: what of.rows() gives. */
    template <typename ELEM>
    __device__ __forceinline__ void load(const parts &of, const ELEM *rows, u32 first, u32 &waiting)
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            from[i] = take_lowest(waiting);
            if (from[i] < 0)
                break;
            const ELEM *part = rows + of.row_offset(first + from[i]);
            for (int run = 0; run < RUNS; run++)
                load_run(part + column_of(of, run), x[i][run]);
        }
    }
    /* share: of the lane's part. */
    __device__ __forceinline__ void add(float share, float (&out)[RUNS][RUN]) const
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (from[i] < 0)
                break;
            float p = __shfl_sync(ALL_LANES, share, from[i]);
            for (int run = 0; run < RUNS; run++)
                for (int j = 0; j < RUN; j++)
                    out[run][j] = fmaf(p, x[i][run][j], out[run][j]);
        }
    }
};

/* A bit for each of 32 parts from `first` on that there are. */
template <class parts> __device__ __forceinline__ u32 parts_from(const parts &of, u32 first)
{
    const u32 left = of.count() - first;
    return left < LANES ? (1u << left) - 1 : ALL_LANES;
}

/* The row, all of it; sink: -inf for none. Its lse goes to `lse` where that is not NULL. Rows are added in order of
 * parts. Where every row is there, the first are on their way before it is known what they count. */
template <class parts>
__device__ __forceinline__ void combine_row(const parts &of, u32 flags, bool has_sink, float sink, float *lse,
                                            float (&out)[runs_of<parts>()][RUN])
{
    rows_in_flight<parts> in_flight;
    const auto *rows = of.rows();
    u32 waiting = 0;
    if (of.has_empty_rows()) {
        waiting = parts_from(of, 0);
        in_flight.load(of, rows, 0, waiting);
    }
    float max = find_max(of);
    float sum = sum_weights(of, max);
    if (lse && of.row_warp == 0 && of.lane == 0)
        *lse = final_lse(of, flags, has_sink, max, sum, sink);

    float share_of_one = share_of_weight(of, max, sum, sink);
    for (int run = 0; run < runs_of<parts>(); run++)
        for (int j = 0; j < RUN; j++)
            out[run][j] = 0.0f * share_of_one; /* NaN by a NaN sink */
    for (u32 first = 0; first < of.count(); first += LANES) {
        float part_lse = load_lse(of, first + of.lane);
        float share = weight_of(of, part_lse, max) * share_of_one;
        if (of.has_empty_rows() && first == 0)
            in_flight.add(share, out);
        else
            waiting = of.has_empty_rows() ? parts_from(of, first) : __ballot_sync(ALL_LANES, part_lse != -infinity());
        while (waiting) {
            in_flight.load(of, rows, first, waiting);
            in_flight.add(share, out);
        }
    }
}

#endif
