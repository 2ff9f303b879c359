/* Sparse MLA prefill for sm_90, one bf16 cache, few query tokens: the keys of a token shared by a cluster of blocks.
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]        over the valid entries j of the list
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (sum_j exp(logit[h, j]) + exp(attn_sink[h]))
 *
 * in base 2, as sm90_prefill.cu. Compiled beside a kernel for many tokens, whose variant it is; the launch says how
 * many blocks a cluster has: 2, 4 or 8. A cluster computes a unit, a query token and up to 64 of its heads:
 *
 *   share    each rank takes a contiguous share of the list, in steps of 16 entries; a rank may have none
 *   part     [64 heads, d_v] fp32, what a rank makes of its keys, relative to its own reference, in its shared memory
 *   combine  each rank reads its columns of every rank's part by way of distributed shared memory, sums them relative
 *            to the unit's reference, divides, rounds to bf16 and stores them
 *
 * All that a rank needs for its first two blocks of keys is on its way before anything is waited for. Two warpgroups
 * take turns: each multiplies query by key and does the softmax of every other block, the softmax of a block runs
 * beside P . V of the one before; both multiply P by V, each for half of the columns, and gather the same half of every
 * key. */
#include "cluster_parts.cuh"
#include "grid_dependency.cuh"
#include "math.cuh"
#include "prefill_params.h"
#include "prefill_place.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_tile.cuh"
#include "smla_config.cuh"
#include "smla_wgmma.cuh"
#include "types.cuh"

/* The kernel beside this one has the same words for its own. */
namespace split
{
using namespace cluster_parts;

static constexpr int HEADS = SMLA_BLOCK_HEADS;
static constexpr int KEY_SLOTS = SMLA_SPLIT_KEY_SLOTS;
static constexpr int P_SLOTS = SMLA_SPLIT_PROBABILITY_SLOTS;
static constexpr int THREADS = SMLA_SPLIT_THREADS;
static constexpr int HALVES = 2;   /* of V's columns: a warpgroup each */
static constexpr int QUARTERS = 2; /* of V's columns, in each half */
static constexpr int TILES = SMLA_D_QK / TILE_COLUMNS;
static constexpr int V_TILES = SMLA_D_V / TILE_COLUMNS;
static constexpr int HALF_TILES = V_TILES / HALVES;
static constexpr int QUARTER_TILES = HALF_TILES / QUARTERS;
static constexpr int REST_TILES = TILES - V_TILES; /* of K alone */
static constexpr int HALF_COLUMNS = HALF_TILES * TILE_COLUMNS;
static constexpr int QUARTER_COLUMNS = QUARTER_TILES * TILE_COLUMNS;

static_assert(HEADS == 64 && KEYS == 64, "tiles have 64 rows");
static_assert(CACHES == 1 && SMLA_KV_VALUE_BITS == 16, "one bf16 cache");
static_assert(SMLA_H_Q <= HEADS * SMLA_HEAD_BLOCKS, "units cover every head");
static_assert(THREADS == HALVES * WARPGROUP, "a warpgroup a half");
static_assert(KEY_SLOTS == 2, "a slot for each warpgroup's blocks");
static_assert(QUARTER_COLUMNS == 128 && REST_TILES >= 0 && REST_TILES <= 1, "");

/* ---- Memory ------------------------------------------------------------------------------------------------- */

/* A row's online softmax over the rank's blocks so far, in base 2. */
struct alignas(16) row_state {
    float max;       /* the largest logit; -inf before the first key, NaN after a NaN */
    float reference; /* what exponents are relative to: lags behind max by at most the threshold; never NaN */
    float sum;       /* of 2^(logit - reference) */
    float none;
};

/* At the end the first quarter of each half of the part takes the place of that half of the query, the second that of
 * the half of the first key slot. */
struct block_memory {
    u8 query[TILES][TILE_BYTES];
    u8 key[KEY_SLOTS][TILES][TILE_BYTES];
    u8 probability[P_SLOTS][TILE_BYTES];
    row_state rows[HEADS];
    float row_scale[P_SLOTS][HEADS]; /* out is multiplied by it before the block's P . V */
    u64 key_full[KEY_SLOTS];
    u64 p_ready[P_SLOTS];
    u64 p_free[P_SLOTS]; /* not used when P has as many slots as the key */
    u64 logits_done;
};

/* As planned: each region begins where the one before ends. (NVRTC has no offsetof.) */
static_assert(SMLA_SPLIT_QUERY_OFFSET == 0, "");
static_assert(SMLA_SPLIT_KEY_OFFSET == SMLA_SPLIT_QUERY_OFFSET + sizeof(block_memory::query), "");
static_assert(SMLA_SPLIT_PROBABILITY_OFFSET == SMLA_SPLIT_KEY_OFFSET + sizeof(block_memory::key), "");
static_assert(SMLA_SPLIT_ROWS_OFFSET == SMLA_SPLIT_PROBABILITY_OFFSET + sizeof(block_memory::probability), "");
static_assert(SMLA_SPLIT_ROW_SCALE_OFFSET == SMLA_SPLIT_ROWS_OFFSET + sizeof(block_memory::rows), "");
static_assert(SMLA_SPLIT_BARRIERS_OFFSET == SMLA_SPLIT_ROW_SCALE_OFFSET + sizeof(block_memory::row_scale), "");
static_assert(SMLA_SPLIT_SHARED_BYTES == sizeof(block_memory), "");

/* ---- Barriers ----------------------------------------------------------------------------------------------- */

/* For each block i of the share, whose logits warpgroup i % 2 computes; mbarriers, each with one phase a use of its
 * slot:
 *
 *   both     --key_full[i % 2]-------->  owner     256 threads arrive when their part of the key is written; of the
 *                                                  first two blocks, the query too
 *   owner    --p_ready[i % P_SLOTS]--->  both      its 128 threads arrive when P, row_scale and rows are stored; the
 *                                                  logits of block i have then read query and key
 *   both     --p_free[i % P_SLOTS]---->  owner     256 threads arrive when P . V of block i is done
 *   half 0   --logits_done------------>  half 1    128 threads arrive when the logits of an even block are: those of
 * the odd one, which is handed over later, do not slow them down
 *
 * With as many slots of P as of the key nothing waits for p_free, as in sm90_prefill.cu: key_full of block i + 2 says
 * the same. A row's state goes from owner to owner with p_ready.
 *
 * barrier.cluster, twice: each rank's part and rows are there; what was to be read of others has been. */
static constexpr bool KEY_FULL_FREES_P = P_SLOTS == KEY_SLOTS;

enum named_barrier {
    SETUP = 0,     /* all threads */
    HALF_READ = 1, /* + half, one warpgroup: all warps have read their half of the slot */
};

/* ---- Loading ------------------------------------------------------------------------------------------------ */

/* The rows of a block that a thread copies: eight threads a row, 16 rows at once, four turns. */
static constexpr int COPY_ROWS = WARPGROUP / 8;
static constexpr int COPY_TURNS = KEYS / COPY_ROWS;

/* Reads the entries for this thread's rows of a block. */
__device__ __forceinline__ void load_entries(const share &s, int block, i32 (&entry)[COPY_TURNS])
{
#pragma unroll
    for (int turn = 0; turn < COPY_TURNS; turn++)
        entry[turn] = load_entry(s, block * KEYS + turn * COPY_ROWS + threadIdx.x % WARPGROUP / 8);
}

/* Bit j tells whether key j of a block is valid. Every lane gets the same. */
__device__ __forceinline__ u64 valid_keys(const smla_key_cache &cache, const share &s, int block)
{
    const int lane = threadIdx.x % 32;
    const i32 low = load_entry(s, block * KEYS + lane), high = load_entry(s, block * KEYS + lane + 32);
    return (u64)__ballot_sync(0xffffffff, (u32)high < cache.s_kv) << 32 |
           __ballot_sync(0xffffffff, (u32)low < cache.s_kv);
}

/* Gathers this warpgroup's half of the columns of a block's keys; zeros for invalid entries, which are not read. */
__device__ __forceinline__ void gather(const work &w, int half, block_memory &memory, int slot,
                                       const i32 (&entry)[COPY_TURNS])
{
    const smla_key_cache &cache = w.params.cache[0];
    int row = threadIdx.x % WARPGROUP / 8, chunk = threadIdx.x % 8;
    u32 tile = shared_window_address(memory.key[slot][half * HALF_TILES]) + swizzled(row, chunk);
    u32 rest = shared_window_address(memory.key[slot][TILES - 1]) + swizzled(row, chunk);
#pragma unroll
    for (int turn = 0; turn < COPY_TURNS; turn++) {
        bool valid = (u32)entry[turn] < cache.s_kv;
        /* Of an entry that is not valid the address means nothing; no byte of it is read. */
        u64 source = (u64)cache.kv + (row_offset<true>(cache, entry[turn]) + chunk * CHUNK_ELEMS) * sizeof(u16);
        u32 at = turn * COPY_ROWS * ROW_BYTES;
#pragma unroll
        for (int i = 0; i < HALF_TILES; i++)
            cp_async_16(tile + i * TILE_BYTES + at,
                        (const void *)(source + (half * HALF_TILES + i) * TILE_COLUMNS * sizeof(u16)), valid ? 16 : 0);
        /* The columns that are not of V: rows 0 to 31 by half 0, the others by half 1. */
        if (REST_TILES > 0 && turn / (COPY_TURNS / HALVES) == half)
            cp_async_16(rest + at, (const void *)(source + SMLA_D_V * sizeof(u16)), valid ? 16 : 0);
    }
    cp_async_mbarrier_arrive(shared_window_address(&memory.key_full[slot]));
}

/* Starts the query on its way into shared memory, zeros for heads that there are not. */
__device__ __forceinline__ void load_query(const work &w, block_memory &memory)
{
    const u16 *query =
        (const u16 *)w.params.query + w.token * w.params.query_stride_token + w.first_head * w.params.query_stride_head;
    int row = threadIdx.x / 8, chunk = threadIdx.x % 8;
#pragma unroll
    for (int head = row; head < HEADS; head += THREADS / 8) {
        bool there = head < w.heads;
        const u16 *source = there ? query + head * w.params.query_stride_head + chunk * CHUNK_ELEMS : query;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            cp_async_16(shared_window_address(memory.query[tile]) + swizzled(head, chunk),
                        there ? source + tile * TILE_COLUMNS : source, there ? 16 : 0);
    }
}

/* ---- Logits and softmax -------------------------------------------------------------------------------------- */

/* logit = query . key^T of one block, unscaled. */
__device__ __forceinline__ void multiply_keys(block_memory &memory, int slot, float (&logit)[KEYS / 2])
{
    u64 q = wgmma_descriptor(shared_window_address(memory.query), 0, SWIZZLE_BYTES);
    u64 k = wgmma_descriptor(shared_window_address(memory.key[slot]), 0, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < SMLA_D_QK; d += WGMMA_K) {
        int offset = d / TILE_COLUMNS * TILE_BYTES + d % TILE_COLUMNS * 2;
        wgmma_m64n64k16_b_k(logit, wgmma_descriptor_plus(q, offset), wgmma_descriptor_plus(k, offset), d > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
}

/* Sets the logits of invalid keys to -inf. A lane's columns are 2 (lane % 4) + {0, 1} in each group of 8. */
__device__ __forceinline__ void mask_logits(u64 valid, float (&logit)[KEYS / 2])
{
    u64 mine = valid >> (2 * (threadIdx.x % 4));
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        logit[i] = mine >> (i / 4 * 8 + i % 2) & 1 ? logit[i] : -infinity();
}

/* Over the four lanes that share a row. */
__device__ __forceinline__ float quad_max(float value)
{
    value = max_nan(value, __shfl_xor_sync(0xffffffff, value, 1));
    return max_nan(value, __shfl_xor_sync(0xffffffff, value, 2));
}

__device__ __forceinline__ float quad_sum(float value)
{
    value += __shfl_xor_sync(0xffffffff, value, 1);
    return value + __shfl_xor_sync(0xffffffff, value, 2);
}

/* logit -> 2^(scale * logit - reference) of a lane's rows; takes them into the rows' states. factor: what
 * advance_reference gave each row. */
__device__ __forceinline__ void softmax_block(block_memory &memory, float scale_log2, float (&logit)[KEYS / 2],
                                              float (&factor)[2])
{
    const lane_rows rows = my_rows();
#pragma unroll
    for (int high = 0; high < 2; high++) {
        row_state state = memory.rows[rows.low + 8 * high];
        float max = -infinity(), sum = 0;
#pragma unroll
        for (int i = 2 * high; i < KEYS / 2; i += 4)
            max = max_nan(max, max_nan(logit[i], logit[i + 1]));
        max = quad_max(max);
        factor[high] = advance_reference(state.max, state.reference, max == -infinity() ? max : max * scale_log2);
        const exponent e = exponent_of(state.reference, scale_log2);
#pragma unroll
        for (int i = 2 * high; i < KEYS / 2; i += 4)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                logit[i + j] = exponentiate(e, logit[i + j]);
                sum += logit[i + j];
            }
        state.sum = state.sum * factor[high] + quad_sum(sum);
        __syncwarp(); /* all four have read the state */
        if (rows.lane % 4 == 0)
            memory.rows[rows.low + 8 * high] = state;
    }
}

/* Stores P as bf16 and the rows' factors, and orders them for wgmma of both warpgroups. */
__device__ __forceinline__ void store_probability(block_memory &memory, int p_slot, const float (&p)[KEYS / 2],
                                                  const float (&factor)[2])
{
    const lane_rows rows = my_rows();
    int row = 16 * rows.warp + rows.lane % 16;
    u32 tile = shared_window_address(memory.probability[p_slot]);
#pragma unroll
    for (int column = 0; column < KEYS; column += 16) {
        const float *d = p + column / 2;
        stmatrix_x4(tile + swizzled(row, column / CHUNK_ELEMS + rows.lane / 16), pack_bf16(d[0], d[1]),
                    pack_bf16(d[2], d[3]), pack_bf16(d[4], d[5]), pack_bf16(d[6], d[7]));
    }
    if (rows.lane % 4 == 0) {
        memory.row_scale[p_slot][rows.low] = factor[0];
        memory.row_scale[p_slot][rows.low + 8] = factor[1];
    }
    fence_proxy_async();
}

/* ---- P . V and the part ------------------------------------------------------------------------------------- */

typedef float accumulators[QUARTERS][QUARTER_COLUMNS / 2];

/* out *= row_scale, where any row of the warp asks for it. */
__device__ __forceinline__ void rescale_out(block_memory &memory, int p_slot, accumulators &out)
{
    const lane_rows rows = my_rows();
    float low = memory.row_scale[p_slot][rows.low], high = memory.row_scale[p_slot][rows.low + 8];
    if (!__any_sync(0xffffffff, low != 1.0f || high != 1.0f))
        return;
#pragma unroll
    for (int quarter = 0; quarter < QUARTERS; quarter++)
#pragma unroll
        for (int i = 0; i < QUARTER_COLUMNS / 2; i += 4) {
            out[quarter][i] *= low;
            out[quarter][i + 1] *= low;
            out[quarter][i + 2] *= high;
            out[quarter][i + 3] *= high;
        }
}

/* Waits for a block's P. Who wrote it has also waited for the key and fenced it for wgmma. */
__device__ __forceinline__ void take_probability(block_memory &memory, int block, accumulators &out)
{
    const int p_slot = block % P_SLOTS;
    mbarrier_wait(shared_window_address(&memory.p_ready[p_slot]), block / P_SLOTS % 2);
    if (block > 0)
        rescale_out(memory, p_slot, out);
}

/* Starts out += P . V of a block's first 16 * STEPS keys, this half's columns, a group a quarter. */
template <int STEPS>
__device__ __forceinline__ void start_values(block_memory &memory, int half, int block, accumulators &out)
{
    u64 p = wgmma_descriptor(shared_window_address(memory.probability[block % P_SLOTS]), 0, SWIZZLE_BYTES);
    u64 v = wgmma_descriptor(shared_window_address(memory.key[block % KEY_SLOTS][half * HALF_TILES]), TILE_BYTES,
                             SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int quarter = 0; quarter < QUARTERS; quarter++) {
#pragma unroll
        for (int k = 0; k < STEPS * WGMMA_K; k += WGMMA_K)
            wgmma_m64n128k16_b_mn(out[quarter], wgmma_descriptor_plus(p, k * 2),
                                  wgmma_descriptor_plus(v, quarter * QUARTER_TILES * TILE_BYTES + k * ROW_BYTES), 1);
        wgmma_commit_group();
    }
}

/* Eight columns of the part: a quad of lanes has them of two rows, four accumulators a lane, which stay together, so
 * that reading and writing are without conflicts and what is read has the accumulators' lanes again. */
static constexpr int QUARTER_GROUPS = QUARTER_COLUMNS / 8;
static constexpr int GROUP_BYTES = WARPGROUP * 16;
static_assert(QUARTER_GROUPS * GROUP_BYTES == HALF_TILES * TILE_BYTES, "a quarter of the part takes half of the query");

/* Where this thread's accumulators of a quarter lie, group by group. */
__device__ __forceinline__ u32 part_address(block_memory &memory, int half, int quarter)
{
    const u8 *begin = quarter == 0 ? memory.query[half * HALF_TILES] : memory.key[0][half * HALF_TILES];
    return shared_window_address(begin) + threadIdx.x % WARPGROUP * 16;
}

__device__ __forceinline__ void store_part(block_memory &memory, int half, int quarter, const accumulators &out)
{
    const u32 to = part_address(memory, half, quarter);
#pragma unroll
    for (int group = 0; group < QUARTER_GROUPS; group++) {
        const float *d = out[quarter] + 4 * group;
        store_shared_f32x4(to + group * GROUP_BYTES, d[0], d[1], d[2], d[3]);
    }
}

__device__ __forceinline__ void free_probability(block_memory &memory)
{
    if (!KEY_FULL_FREES_P)
        mbarrier_arrive(shared_window_address(&memory.p_free[0]));
}

/* A block's P . V is done; fills its slot again. */
__device__ __forceinline__ void finish_values(const work &w, const share &s, block_memory &memory, int half, int block,
                                              const i32 (&next)[COPY_TURNS])
{
    wgmma_wait_group<0>();
    free_probability(memory);
    if (block + KEY_SLOTS < s.count) {
        named_barrier_sync(HALF_READ + half, WARPGROUP);
        gather(w, half, memory, block % KEY_SLOTS, next);
    }
}

/* The logits of a block, scaled where the scale is not left to the softmax, and -inf where a key is not valid. */
__device__ __forceinline__ void compute_logits(const work &w, const share &s, block_memory &memory, int block,
                                               bool scale_first, float (&logit)[KEYS / 2])
{
    const int slot = block % KEY_SLOTS;
    u64 valid = valid_keys(w.params.cache[0], s, block);
    mbarrier_wait(shared_window_address(&memory.key_full[slot]), block / KEY_SLOTS % 2);
    fence_proxy_async(); /* query and key were written by the generic proxy, wgmma reads by the async proxy */
    if (block % 2 == 1)
        mbarrier_wait_relaxed(shared_window_address(&memory.logits_done), block / 2 % 2);
    multiply_keys(memory, slot, logit);
    if (block % 2 == 0)
        mbarrier_arrive(shared_window_address(&memory.logits_done));
    if (scale_first)
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            logit[i] *= w.params.sm_scale * LOG2_E;
    mask_logits(valid, logit);
}

__device__ __forceinline__ void hand_over(block_memory &memory, int block, const float (&p)[KEYS / 2],
                                          const float (&factor)[2])
{
    if (!KEY_FULL_FREES_P && block > 0)
        mbarrier_wait(shared_window_address(&memory.p_free[0]), (block - 1) % 2);
    store_probability(memory, block % P_SLOTS, p, factor);
    mbarrier_arrive(shared_window_address(&memory.p_ready[block % P_SLOTS]));
}

/* P . V of the last block's 16 * STEPS keys, and the part, its first quarter while the second is multiplied: the query,
 * whose place it takes, has been read. (Nothing is in flight where the numbers of steps meet: ptxas may have to move
 * accumulators, and serialises every wgmma instead.) */
template <int STEPS>
__device__ __forceinline__ void multiply_last(block_memory &memory, int half, int last, accumulators &out)
{
    start_values<STEPS>(memory, half, last, out);
    wgmma_wait_group<1>();
    store_part(memory, half, 0, out);
    wgmma_wait_group<0>();
}

__device__ __forceinline__ void finish_part(const share &s, block_memory &memory, int half, int last, accumulators &out)
{
    const int entries = s.entries - last * KEYS;
    take_probability(memory, last, out);
    if (entries > 48)
        multiply_last<4>(memory, half, last, out);
    else if (entries > 32)
        multiply_last<3>(memory, half, last, out);
    else if (entries > 16)
        multiply_last<2>(memory, half, last, out);
    else
        multiply_last<1>(memory, half, last, out);
    named_barrier_sync(HALF_READ + half, WARPGROUP); /* this warpgroup alone reads its half of the key */
    store_part(memory, half, 1, out);
}

/* A rank's share of the keys, into its part. Half 0 hands over the even blocks before it multiplies them by V; half 1
 * the odd ones, whose softmax runs beside the multiplication of the block before. */
__device__ __forceinline__ void compute_part(const work &w, const share &s, block_memory &memory, int half)
{
    /* The largest unscaled logit is the largest scaled one only if the scale is positive; otherwise scale first. */
    const bool scale_first = !(w.params.sm_scale > 0);
    const float scale_log2 = scale_first ? 1.0f : w.params.sm_scale * LOG2_E;
    const int last = s.count - 1;

    accumulators out = {};
    float logit[KEYS / 2], factor[2];
#pragma unroll 1
    for (int block = 0;; block++) {
        const bool even = block % 2 == 0;
        const int mine = block + half;
        i32 next[COPY_TURNS];
        load_entries(s, block + KEY_SLOTS, next);
        if (even && mine <= last)
            compute_logits(w, s, memory, mine, scale_first, logit);
        if (even && half == 0) {
            softmax_block(memory, scale_log2, logit, factor);
            hand_over(memory, block, logit, factor);
        }
        if (block == last)
            break;
        take_probability(memory, block, out);
        start_values<KEYS / WGMMA_K>(memory, half, block, out);
        if (even && half == 1)
            softmax_block(memory, scale_log2, logit, factor);
        finish_values(w, s, memory, half, block, next);
        if (even && half == 1)
            hand_over(memory, mine, logit, factor);
    }
    finish_part(s, memory, half, last, out);
}

/* ---- Combine ------------------------------------------------------------------------------------------------ */

static constexpr int QUARTER_CHUNKS_LOG2 = 4;
static_assert(QUARTER_COLUMNS == CHUNK_ELEMS << QUARTER_CHUNKS_LOG2, "");

/* What a warpgroup combines with, in its half of the second key slot, which nobody reads any more. */
struct combine_memory {
    float weight[MOST_RANKS][HEADS];        /* of the ranks' parts */
    float out_scale[HEADS];                 /* of their sum */
    u16 staged[HEADS][QUARTER_COLUMNS + 8]; /* of out, this rank's columns; rows apart, to be without conflicts */
};
static_assert(sizeof(combine_memory) <= HALF_TILES * TILE_BYTES, "");

/* Ranks are counted from one's own, so that not all read the same block's memory at once. */
__device__ __forceinline__ int rank_after(const share &s, int i)
{
    return (s.rank + i) & ((1 << s.ranks_log2) - 1);
}

/* A thread a row: what each rank's part is multiplied by, and their sum. Rank 0 writes lse and max_logits, once. */
__device__ __forceinline__ void weigh_row(const work &w, const share &s, block_memory &memory, combine_memory &own,
                                          int row, bool writes)
{
    const int ranks = 1 << s.ranks_log2;
    const u32 here = shared_window_address(&memory.rows[row]);
    uint4 state[MOST_RANKS]; /* bits of a row_state */
#pragma unroll
    for (int i = 0; i < MOST_RANKS; i++)
        state[i] = load_shared_cluster_16_if(i < ranks, mapa_shared_cluster(here, rank_after(s, i)));
    own.out_scale[row] = weigh_parts<HEADS>(w, row, load_sink(w, row), state, ranks, &own.weight[0][row], writes);
}

/* What a thread reads of a quarter's parts, as much whatever the cluster: many groups of few ranks. Rank by rank within
 * a group. */
struct quarter_parts {
    uint4 part[QUARTER_GROUPS];
};

__device__ __forceinline__ void load_parts(const share &s, block_memory &memory, int half, int quarter,
                                           quarter_parts &parts)
{
    const u32 here = part_address(memory, half, quarter) + (s.rank * QUARTER_GROUPS >> s.ranks_log2) * GROUP_BYTES;
#pragma unroll
    for (int i = 0; i < QUARTER_GROUPS; i++) {
        const int rank = rank_after(s, i), group = i >> s.ranks_log2;
        parts.part[i] =
            load_shared_cluster_16_if(rank < s.used_ranks, mapa_shared_cluster(here + group * GROUP_BYTES, rank));
    }
}

/* Sums the parts and stages this rank's columns of a quarter; a warp has its own 16 rows. */
__device__ __forceinline__ void sum_parts(const share &s, combine_memory &own, const quarter_parts &parts)
{
    const int ranks = 1 << s.ranks_log2;
    const lane_rows rows = my_rows();
    float low[2] = {}, high[2] = {};
    u32 *staged = (u32 *)&own.staged[rows.low][2 * (rows.lane % 4)];
    constexpr int STAGED_ROW = sizeof(own.staged[0]) / sizeof(u32);
#pragma unroll
    for (int i = 0; i < QUARTER_GROUPS; i++) {
        const float *weight = own.weight[i & (ranks - 1)];
        const float weight_low = weight[rows.low], weight_high = weight[rows.low + 8];
        low[0] = fmaf(__uint_as_float(parts.part[i].x), weight_low, low[0]);
        low[1] = fmaf(__uint_as_float(parts.part[i].y), weight_low, low[1]);
        high[0] = fmaf(__uint_as_float(parts.part[i].z), weight_high, high[0]);
        high[1] = fmaf(__uint_as_float(parts.part[i].w), weight_high, high[1]);
        if ((i & (ranks - 1)) == ranks - 1) {
            const float scale_low = own.out_scale[rows.low], scale_high = own.out_scale[rows.low + 8];
            staged[0] = pack_bf16(low[0] * scale_low, low[1] * scale_low);
            staged[8 * STAGED_ROW] = pack_bf16(high[0] * scale_high, high[1] * scale_high);
            staged += 4;
            low[0] = low[1] = high[0] = high[1] = 0;
        }
    }
    __syncwarp();
}

/* Stores what this warp has staged, 16 bytes a lane. */
__device__ __forceinline__ void store_quarter(const work &w, const share &s, const combine_memory &own, int half,
                                              int quarter)
{
    const lane_rows rows = my_rows();
    const int columns = QUARTER_COLUMNS >> s.ranks_log2, chunks_log2 = QUARTER_CHUNKS_LOG2 - s.ranks_log2;
    u16 *out = (u16 *)w.params.out + w.token * w.params.out_stride_token + w.first_head * w.params.out_stride_head +
               half * HALF_COLUMNS + quarter * QUARTER_COLUMNS + s.rank * columns;
    for (int i = rows.lane; i < 16 << chunks_log2; i += 32) {
        const int row = 16 * rows.warp + (i >> chunks_log2), column = (i & ((1 << chunks_log2) - 1)) * CHUNK_ELEMS;
        if (row < w.heads)
            *(uint4 *)(out + row * w.params.out_stride_head + column) = *(const uint4 *)&own.staged[row][column];
    }
}

__device__ __forceinline__ void combine(const work &w, const share &s, block_memory &memory, int half)
{
    combine_memory &own = *(combine_memory *)memory.key[1][half * HALF_TILES];
    const int row = threadIdx.x % WARPGROUP;

#pragma unroll 1
    for (int quarter = 0; quarter < QUARTERS; quarter++) {
        quarter_parts parts;
        load_parts(s, memory, half, quarter, parts);
        if (quarter == 0 && row < HEADS)
            weigh_row(w, s, memory, own, row, s.rank == 0 && half == 0);
        named_barrier_sync(HALF_READ + half, WARPGROUP); /* rows are weighed; what was staged is stored */
        sum_parts(s, own, parts);
        if (quarter == QUARTERS - 1) /* with release: ahead of the stores, or it would wait for them */
            barrier_cluster_arrive();
        store_quarter(w, s, own, half, quarter);
    }
    barrier_cluster_wait();
}

/* ---- The kernel --------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void set_up(block_memory &memory)
{
    if (threadIdx.x < HEADS)
        memory.rows[threadIdx.x] = {-infinity(), -infinity(), 0, 0};
    if (threadIdx.x == 0) {
        mbarrier_init(shared_window_address(&memory.logits_done), WARPGROUP);
        for (int slot = 0; slot < KEY_SLOTS; slot++)
            mbarrier_init(shared_window_address(&memory.key_full[slot]), THREADS);
        for (int slot = 0; slot < P_SLOTS; slot++) {
            mbarrier_init(shared_window_address(&memory.p_ready[slot]), WARPGROUP);
            if (!KEY_FULL_FREES_P)
                mbarrier_init(shared_window_address(&memory.p_free[slot]), THREADS);
        }
    }
    named_barrier_sync(SETUP, THREADS);
}

/* HEAD_BLOCKS units a query token; a cluster is a unit. */
__device__ __forceinline__ void prefill(const smla_prefill_params &params)
{
    extern __shared__ __align__(1024) u8 shared[];
    block_memory &memory = *(block_memory *)shared;
    griddepcontrol_wait();
    const int half = warp_uniform(threadIdx.x / WARPGROUP);
    const int unit = clusterid_x(), first_head = unit % SMLA_HEAD_BLOCKS * HEADS;
    const work w = make_work(params, {unit / SMLA_HEAD_BLOCKS}, first_head, min(HEADS, SMLA_H_Q - first_head));
    const share s = my_share(w);

    /* Everything is on its way before anything is waited for. */
    i32 entries[COPY_TURNS], next[COPY_TURNS];
    load_entries(s, 0, entries);
    load_entries(s, 1, next);
    if (s.count > 0)
        load_query(w, memory);
    set_up(memory);
#pragma unroll 1
    for (int slot = 0; slot < min(s.count, KEY_SLOTS); slot++) {
        gather(w, half, memory, slot, entries);
#pragma unroll
        for (int turn = 0; turn < COPY_TURNS; turn++)
            entries[turn] = next[turn];
    }

    if (s.count > 0)
        compute_part(w, s, memory, half);
    griddepcontrol_launch_dependents();
    barrier_cluster_arrive();
    barrier_cluster_wait();
    combine(w, s, memory, half);
}

} // namespace split

/* Clusters of 2, 4 or 8 blocks along x, s_q * HEAD_BLOCKS of them. */
extern "C" __global__ void __launch_bounds__(SMLA_SPLIT_THREADS, 1)
    smla_sm90_prefill_split(const __grid_constant__ smla_prefill_params params)
{
    split::prefill(params);
}
