/* A cluster of blocks of threads that shares a unit's keys: what each rank takes of the list, and how the ranks' parts
 * come together (sm90_prefill_split.cu, sm90_prefill_split_narrow.cu). */
#ifndef SMLA_CLUSTER_PARTS_CUH
#define SMLA_CLUSTER_PARTS_CUH

#include "math.cuh"
#include "prefill_place.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "types.cuh"

/* The kernel beside these has the same words for its own. */
namespace cluster_parts
{

static constexpr int MOST_RANKS = 8;
static constexpr int STEP_KEYS = 16; /* K of the matrix instructions */

/* A rank's part of a unit's list: neighbours, and as many steps of 16 as other ranks have, or one more. */
struct share {
    int rank;
    int ranks_log2;  /* of the cluster's blocks */
    int used_ranks;  /* those with entries come first */
    const i32 *list; /* from the first entry on */
    int entries;
    int count; /* blocks of 64 of them */
};

__device__ __forceinline__ share my_share(const work &w)
{
    const smla_key_cache &cache = w.params.cache[0];
    const int rank = cluster_ctarank(), ranks = cluster_nctarank(), ranks_log2 = 31 - __clz(ranks);
    const int length = warp_uniform(w.length[0]), steps = length / STEP_KEYS + (length % STEP_KEYS != 0);
    const int each = steps >> ranks_log2, more = steps & (ranks - 1);
    const int first = (rank * each + min(rank, more)) * STEP_KEYS;
    const int entries = max(0, min((each + (rank < more)) * STEP_KEYS, length - first));
    return {rank,    ranks_log2,        min(ranks, steps), cache.indices + w.token * cache.indices_stride_token + first,
            entries, blocks_of(entries)};
}

/* An entry of the share; -1 past its end. */
__device__ __forceinline__ i32 load_entry(const share &s, int position)
{
    return load_global_i32_if(position < s.entries, s.list + position, -1);
}

/* logit -> 2^(scale * logit - reference) of a row. */
struct exponent {
    float scale_log2;
    float scale; /* what fmaf multiplies by */
    float reference;
    bool coarse; /* the product is rounded first */
};

__device__ __forceinline__ exponent exponent_of(float reference, float scale_log2)
{
    /* Before the first key every logit is -inf: any finite reference gives 0. */
    const float finite = reference == -infinity() ? 0.0f : reference;
    const bool coarse = fabsf(finite) >= COARSE_LOG2;
    return {scale_log2, coarse ? 1.0f : scale_log2, finite, coarse};
}

__device__ __forceinline__ float exponentiate(const exponent &e, float logit)
{
    const float product = logit * e.scale_log2;
    return exp2_approx(fmaf(e.coarse ? product : logit, e.scale, -e.reference));
}

/* What a row's parts are multiplied by, and their sum: state[i] holds the bits of rank i's largest logit, reference and
 * sum, weight[i * STRIDE] comes to be rank i's. Returns the factor of the sum; lse and max_logits too, where `writes`.
 */
template <int STRIDE>
__device__ __forceinline__ float weigh_parts(const work &w, int row, float sink, const uint4 (&state)[MOST_RANKS],
                                             int ranks, float *weight, bool writes)
{
    float max = -infinity(), reference = -infinity(), sum = 0;
#pragma unroll
    for (int i = 0; i < MOST_RANKS; i++)
        if (i < ranks) {
            max = max_nan(max, __uint_as_float(state[i].x));
            reference = fmaxf(reference, __uint_as_float(state[i].y));
        }
#pragma unroll
    for (int i = 0; i < MOST_RANKS; i++)
        if (i < ranks) {
            const float mine = __uint_as_float(state[i].y);
            /* infinite ones too: their difference would be NaN */
            const float factor = mine == reference ? 1.0f : exp2_approx(mine - reference);
            weight[i * STRIDE] = factor;
            sum += __uint_as_float(state[i].z) * factor;
        }
    return finish_row_with(w, row, sink, max, reference, sum, writes);
}

} // namespace cluster_parts

#endif
