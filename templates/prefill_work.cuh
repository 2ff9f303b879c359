/* One block of threads' work: a query token, some of its heads, the keys of its list in blocks; and what becomes of a
 * row once its keys are through. No architecture changes it. Where the token's rows lie says the header that stands
 * before this one: prefill_place.cuh or decode_place.cuh. */
#ifndef SMLA_PREFILL_WORK_CUH
#define SMLA_PREFILL_WORK_CUH

#include "key_cache.cuh"
#include "math.cuh"
#include "prefill_params.h"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int KEYS = SMLA_BLOCK_KEYS;
static_assert(KEYS == 64, "a bit of a 64-bit mask a key");

static constexpr int CACHES = SMLA_CACHES;
static_assert(CACHES <= 2, "one list, or two under one softmax");

struct work : token_place {
    const call_params &call;
    const smla_prefill_params &params; /* the part of them that every kernel has */
    int first_head;                    /* of h_q */
    int heads;                         /* of the block */
    i32 length[CACHES];                /* entries of each list that count */
    i32 first_blocks;                  /* blocks of keys of the first list; those of the second follow */
    i32 block_count;                   /* of both */
};

__device__ __forceinline__ i32 blocks_of(i32 entries)
{
    return entries / KEYS + (entries % KEYS != 0);
}

/* All keys of the lists. */
__device__ __forceinline__ void set_lists(work &w)
{
    w.block_count = 0;
#pragma unroll
    for (int c = 0; c < CACHES; c++) {
        w.length[c] = length_of(w.call, w, c);
        w.block_count += blocks_of(w.length[c]);
        if (c == 0)
            w.first_blocks = w.block_count;
    }
}

__device__ __forceinline__ work make_work(const call_params &call, const token_place &at, int first_head, int heads)
{
    work w = {at, call, prefill_of(call), first_head, heads, {}, 0, 0};
    set_lists(w);
    return w;
}

/* A number that is the same in all lanes, told to the compiler: what follows from it is computed once a warp, in
 * registers of the warp's. */
__device__ __forceinline__ i32 warp_uniform(i32 same)
{
    return __shfl_sync(0xffffffff, same, 0);
}

/* Of all lanes' values up to this lane's. */
__device__ __forceinline__ i32 sum_up_to(i32 value)
{
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const i32 other = __shfl_up_sync(0xffffffff, value, step);
        value += threadIdx.x % 32 >= step ? other : 0;
    }
    return value;
}

/* Tells it of what a work has from memory; the rest follows. (The persistent kernel does not, and loses nothing.) */
__device__ __forceinline__ void make_uniform(work &w)
{
    w.block_count = 0;
#pragma unroll
    for (int c = 0; c < CACHES; c++) {
        w.length[c] = warp_uniform(w.length[c]);
        w.block_count += blocks_of(w.length[c]);
        if (c == 0)
            w.first_blocks = w.block_count;
    }
}

/* The cache that a block's keys lie in. */
__device__ __forceinline__ int cache_of(const work &w, int block)
{
    return CACHES > 1 && block >= w.first_blocks;
}

/* The entry of the list for a key of a block, which need not be valid: -1 past the list's length. */
__device__ __forceinline__ i32 load_entry(const work &w, int block, int key)
{
    int c = cache_of(w, block);
    const i32 *list = w.params.cache[c].indices + list_offset(w.call, w, c);
    i32 length = c == 0 ? w.length[0] : w.length[CACHES - 1];
    i32 of_list = c == 0 ? block + skipped_blocks(w) : block - w.first_blocks;
    u32 position = (u32)of_list * KEYS + key; /* 2^31 behind the longest list */
    return position < (u32)length ? list[position] : -1;
}

/* -1 where an entry of a block is not valid. */
__device__ __forceinline__ i32 valid_index(const work &w, int block, i32 entry)
{
    return (u32)entry < w.params.cache[cache_of(w, block)].s_kv ? entry : -1;
}

/* A lane's entries of a block: keys `lane` and `lane` + 32. */
struct lane_entries {
    i32 low, high;
};

__device__ __forceinline__ lane_entries load_lane_entries(const work &w, int block)
{
    int lane = threadIdx.x % 32;
    return {load_entry(w, block, lane), load_entry(w, block, lane + 32)};
}

/* Bit j tells whether key j of the block is valid. Every lane gets the same. */
__device__ __forceinline__ u64 valid_keys(const work &w, int block, const lane_entries &entries)
{
    i32 low = valid_index(w, block, entries.low), high = valid_index(w, block, entries.high);
    return (u64)__ballot_sync(0xffffffff, high >= 0) << 32 | __ballot_sync(0xffffffff, low >= 0);
}

__device__ __forceinline__ u64 valid_keys(const work &w, int block)
{
    return valid_keys(w, block, load_lane_entries(w, block));
}

/* From here on float32 has no fractions, and the exact product of a fused multiply-add is far from a rounded reference:
 * logits must be rounded like it, or the largest is not 0 below it. */
static constexpr float COARSE_LOG2 = 16777216;

/* Takes the largest logit of a block into a row's online softmax, in base 2; returns the factor that what was summed so
 * far must be multiplied by. Lazy: the reference moves only when the maximum passes it by the threshold (or is the
 * first), so that 2^(logit - reference) stays below 2^threshold and most blocks rescale nothing. */
__device__ __forceinline__ float advance_reference(float &max, float &reference, float block_max)
{
    max = max_nan(max, block_max);
    if (!(max > reference + SMLA_RESCALE_THRESHOLD_LOG2))
        return 1.0f;
    float factor = exp2_approx(reference - max); /* 0 for the first key */
    reference = max;
    return factor;
}

/* The sink of one of the block's heads; -inf is none. */
__device__ __forceinline__ float load_sink(const work &w, int row)
{
    return w.params.attn_sink && row < w.heads ? w.params.attn_sink[w.first_head + row] : -infinity();
}

/* What finish_row_with is of a part: divided by the part's own sum, without the sink; its lse in base 2, -inf where it
 * has no valid key. */
__device__ __forceinline__ float finish_part(const work &w, int row, float reference, float sum, bool writes)
{
    if (writes)
        part_lse(w.call, w)[row] = sum == 0 ? -infinity() : reference + log2_approx(sum);
    return sum == 0 ? 0.0f : reciprocal(sum);
}

/* Writes one head's lse and max_logits where `writes`; returns the factor that turns its accumulators into out.
 * row: of the block's heads; max_log2, reference: base-2 logits; sum: of 2^(logit - reference). */
__device__ __forceinline__ float finish_row_with(const work &w, int row, float sink, float max_log2, float reference,
                                                 float sum, bool writes)
{
    const smla_prefill_params &params = w.params;
    if (row >= w.heads)
        return 0.0f;
    if (is_part(w))
        return finish_part(w, row, reference, sum, writes);
    int head = w.first_head + row;
    bool empty = sum == 0;
    float max = max_log2 * LN_2;
    float lse = empty ? infinity() : (reference + log2_approx(sum)) * LN_2;
    if ((params.lse_flags & SMLA_PARAM_LSE_WITH_SINK) && params.attn_sink)
        lse = empty ? sink : add_sink(lse, sink);
    else if (empty && (params.lse_flags & SMLA_PARAM_LSE_EMPTY_NEGATIVE))
        lse = -infinity();
    if (params.lse_flags & SMLA_PARAM_LSE_BASE_2)
        lse *= LOG2_E;
    float scale = empty ? 0.0f : share_beside_sink(sum, sink * LOG2_E - reference);
    if (sink != sink) /* a NaN sink is a NaN in its head, empty row or not */
        scale = lse = max = sink;
    if (writes) {
        if (params.lse)
            params.lse[lse_offset(w.call, w, head)] = lse;
        if (params.max_logits)
            params.max_logits[max_logits_offset(w.call, w, head)] = max;
    }
    return scale;
}

__device__ __forceinline__ float finish_row(const work &w, int row, float max_log2, float reference, float sum,
                                            bool writes)
{
    return finish_row_with(w, row, load_sink(w, row), max_log2, reference, sum, writes);
}

#endif
