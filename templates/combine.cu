/* Merges partial results of sparse attention over disjoint shards of the keys. For any architecture.
 *
 *   w[i]    = exp(partial_lse[i] - max_j partial_lse[j])       0 for an empty part, whose lse is an infinity
 *   out[:]  = sum_i w[i] * partial_out[i, :] / (sum_i w[i] + exp(attn_sink - max_j partial_lse[j]))
 *   lse     = max_j partial_lse[j] + log sum_i w[i]
 *
 * of each row (a query token and head), in float32. One warp computes one row (combine_row.cuh). */
#include "combine_params.h"
#include "combine_row.cuh"
#include "grid_dependency.cuh"
#include "smla_config.cuh"
#include "types.cuh"

template <typename PARTIAL> struct row_parts {
    const smla_combine_params &params;
    i64 token;
    int head;
    float to_log2;

    __device__ __forceinline__ u32 count() const
    {
        return params.parts;
    }
    __device__ __forceinline__ bool is_base_2() const
    {
        return params.partial_is_base_2;
    }
    __device__ __forceinline__ float lse(u32 part) const
    {
        return params.partial_lse[part * params.partial_lse_stride_part + token * params.partial_lse_stride_token +
                                  head * params.partial_lse_stride_head];
    }
    __device__ __forceinline__ const PARTIAL *rows() const
    {
        return (const PARTIAL *)params.partial_out + token * params.partial_out_stride_token +
               head * params.partial_out_stride_head;
    }
    __device__ __forceinline__ i64 row_offset(u32 part) const
    {
        return part * params.partial_out_stride_part;
    }
};

template <typename PARTIAL, typename OUT> __device__ __forceinline__ void combine(const smla_combine_params &params)
{
    int head = blockIdx.x % SMLA_HEAD_BLOCKS * SMLA_BLOCK_HEADS + threadIdx.x / LANES;
    const row_parts<PARTIAL> parts = {params, blockIdx.x / SMLA_HEAD_BLOCKS, head, to_log2(params.partial_is_base_2)};
    if (head >= SMLA_H_Q)
        return; /* a whole warp: nobody waits for it */
    griddepcontrol_wait();
    float sink = params.attn_sink ? params.attn_sink[head] : -infinity();
    float *lse =
        params.lse ? params.lse + parts.token * params.lse_stride_token + head * params.lse_stride_head : nullptr;
    float out[RUNS][RUN];
    combine_row(parts, params.lse_flags, params.attn_sink != nullptr, sink, lse, out);
    griddepcontrol_launch_dependents();
    OUT *to = (OUT *)params.out + parts.token * params.out_stride_token + head * params.out_stride_head;
    for (int run = 0; run < RUNS; run++)
        store_run(to + column_of(run), out[run]);
}

/* ---- The variants ---- */

#define COMBINE_KERNEL(name, PARTIAL, OUT)                                                                             \
    extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)                                                      \
        name(const __grid_constant__ smla_combine_params params)                                                       \
    {                                                                                                                  \
        combine<PARTIAL, OUT>(params);                                                                                 \
    }

COMBINE_KERNEL(smla_combine_bf16_to_bf16, u16, u16)
COMBINE_KERNEL(smla_combine_bf16_to_float32, u16, float)
COMBINE_KERNEL(smla_combine_float32_to_bf16, float, u16)
COMBINE_KERNEL(smla_combine_float32_to_float32, float, float)
