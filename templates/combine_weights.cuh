/* What the parts of a row of attention count, by their lse, and the row's lse. For any architecture. */
#ifndef SMLA_COMBINE_WEIGHTS_CUH
#define SMLA_COMBINE_WEIGHTS_CUH

#include "lse_flags.h"
#include "math.cuh"
#include "types.cuh"

/* From a part's logarithms to base 2. */
__device__ __forceinline__ float to_log2(bool is_base_2)
{
    return is_base_2 ? 1.0f : LOG2_E;
}

/* exp(lse - max), 0 for an empty part, whose lse is -inf. The difference is taken before it is scaled: scaled first, an
 * lse of 1e4 would be off by 1e-3. */
__device__ __forceinline__ float weight_of(float to_log2, float lse, float max)
{
    return lse == -infinity() ? 0.0f : exp2_approx((lse - max) * to_log2);
}

__device__ __forceinline__ float change_base(float log, bool from_base_2, bool to_base_2)
{
    return from_base_2 == to_base_2 ? log : log * (to_base_2 ? LOG2_E : LN_2);
}

/* The row's lse as the flags (SMLA_PARAM_LSE_*) want it. max: the largest of the parts' lse, -inf when all are empty;
 * sum: of their weights. */
__device__ __forceinline__ float final_lse(bool from_base_2, u32 flags, bool has_sink, float max, float sum, float sink)
{
    bool to_base_2 = flags & SMLA_PARAM_LSE_BASE_2;
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
__device__ __forceinline__ float share_of_weight(bool is_base_2, float max, float sum, float sink)
{
    if (sink != sink)
        return sink;
    if (sum == 0)
        return 0.0f;
    float sink_log = change_base(sink, false, is_base_2);
    return share_beside_sink(sum, (sink_log - max) * to_log2(is_base_2));
}

#endif
