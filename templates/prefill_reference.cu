/* The plain float64 reference of prefill, for checking results on the card.
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]       over the valid entries j of the list
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (sum_j exp(logit[h, j]) + exp(attn_sink[h]))
 *
 * One block computes one query token (blockIdx.x) and head (blockIdx.y), in two passes over the list: the largest
 * logit, then the sums. Nothing is clever here; tools/common/reference.c is the same in C. */
#include "grid_dependency.cuh"
#include "key_cache.cuh"
#include "math.cuh"
#include "prefill_params.h"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int THREADS = SMLA_THREADS;
static constexpr int COLUMNS = SMLA_D_V / THREADS; /* output columns of a thread */

/* What a pass over a row needs. */
struct row {
    const smla_key_cache &cache;
    const u16 *query;
    const i32 *indices;
    i32 length;
    double scale;
};

/* Sums `value` over the block; every thread gets the result. */
__device__ double block_sum(double value, double *partial)
{
    __syncthreads();
    partial[threadIdx.x] = value;
    for (int width = THREADS / 2; width > 0; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            partial[threadIdx.x] += partial[threadIdx.x + width];
    }
    __syncthreads();
    return partial[0];
}

/* sum_d query[d] key[d], or of the absolute values. */
__device__ double dot(const row &r, const u16 *key, bool absolute, double *partial)
{
    double sum = 0;
    for (int d = threadIdx.x; d < SMLA_D_QK; d += THREADS) {
        double product = (double)bf16_to_float(r.query[d]) * bf16_to_float(key[d]);
        sum += absolute ? fabs(product) : product;
    }
    return block_sum(sum, partial);
}

__device__ const u16 *key_of(const row &r, i32 position)
{
    i32 index = r.indices[position];
    return (u32)index < r.cache.s_kv ? (const u16 *)r.cache.kv + row_offset<true>(r.cache, index) : nullptr;
}

/* The largest logit, NaN if any is; -inf without a key. largest: the key that has it. */
__device__ double find_max(const row &r, const u16 **largest, double *partial)
{
    double max = -(double)infinity();
    *largest = nullptr;
    for (i32 position = 0; position < r.length; position++) {
        const u16 *key = key_of(r, position);
        if (!key)
            continue;
        double logit = r.scale * dot(r, key, false, partial);
        if (logit > max || logit != logit) {
            max = logit;
            *largest = key;
        }
        if (logit != logit)
            break;
    }
    return max;
}

/* log(exp(lse) + exp(sink)); an empty row's is the sink. */
__device__ double add_sink(double lse, bool empty, double sink)
{
    if (empty)
        return sink;
    if (isinf(sink))
        return sink > 0 ? lse + sink : lse;
    return fmax(lse, sink) + log1p(exp(-fabs(lse - sink)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    smla_prefill_reference(const __grid_constant__ smla_prefill_params params)
{
    __shared__ double partial[THREADS];
    i64 token = blockIdx.x;
    int head = blockIdx.y;
    griddepcontrol_wait();
    const smla_key_cache &cache = params.cache[0];
    row r = {cache, (const u16 *)params.query + token * params.query_stride_token + head * params.query_stride_head,
             cache.indices + token * cache.indices_stride_token, list_length(cache, token), (double)params.sm_scale};

    const u16 *largest;
    double max_logit = find_max(r, &largest, partial);
    double sum = 0, out[COLUMNS] = {}, out_abs[COLUMNS] = {};
    for (i32 position = 0; position < r.length; position++) {
        const u16 *key = key_of(r, position);
        if (!key)
            continue;
        double logit = r.scale * dot(r, key, false, partial);
        double p = max_logit == -(double)infinity() ? 0 : exp(logit - max_logit);
        sum += p;
        for (int i = 0; i < COLUMNS; i++) {
            double value = bf16_to_float(key[threadIdx.x + i * THREADS]);
            out[i] += p * value;
            out_abs[i] += p * fabs(value);
        }
    }

    griddepcontrol_launch_dependents();
    double sink = params.attn_sink ? (double)params.attn_sink[head] : -(double)infinity();
    bool empty = sum == 0;
    double lse = empty ? (double)infinity() : max_logit + log(sum);
    if ((params.lse_flags & SMLA_PARAM_LSE_WITH_SINK) && params.attn_sink)
        lse = add_sink(lse, empty, sink);
    else if (empty && (params.lse_flags & SMLA_PARAM_LSE_EMPTY_NEGATIVE))
        lse = -(double)infinity();
    if (params.lse_flags & SMLA_PARAM_LSE_BASE_2)
        lse *= 1.4426950408889634074;
    /* 0 for an infinite sink; a NaN sink is a NaN in its head, empty row or not */
    double factor = empty ? 0 : 1 / (sum + exp(sink - max_logit));
    if (sink != sink)
        factor = lse = max_logit = sink;

    float *out_row = (float *)params.out + token * params.out_stride_token + head * params.out_stride_head;
    i64 flat_row = token * SMLA_H_Q + head;
    for (int i = 0; i < COLUMNS; i++) {
        int column = threadIdx.x + i * THREADS;
        out_row[column] = (float)(out[i] * factor);
        if (params.ref_out_abs)
            params.ref_out_abs[flat_row * SMLA_D_V + column] = (float)(out_abs[i] * factor);
    }
    double logit_abs = largest ? fabs(r.scale) * dot(r, largest, true, partial) : 0;
    if (threadIdx.x != 0)
        return;
    if (params.lse)
        params.lse[token * params.lse_stride_token + head] = (float)lse;
    if (params.max_logits)
        params.max_logits[token * params.max_logits_stride_token + head] = (float)max_logit;
    if (params.ref_logit_abs)
        params.ref_logit_abs[flat_row] = (float)logit_abs;
}
