/* Sparse MLA prefill for sm_90, one bf16 cache, few query tokens: narrow tiles of heads, the keys of each shared by a
 * cluster of blocks.
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]        over the valid entries j of the list
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (sum_j exp(logit[h, j]) + exp(attn_sink[h]))
 *
 * in base 2, as sm90_prefill.cu. Compiled beside a kernel for many tokens, whose variant it is; the launch says how
 * many blocks a cluster has: 2, 4 or 8. A cluster computes a query token and HEADS of its heads:
 *
 *   share    each rank takes a contiguous share of the list, in groups of 16 entries; a rank may have none
 *   part     [HEADS, d_v] fp32, what a rank makes of its keys, relative to its own reference, in registers
 *   combine  each rank finishes some columns: the others push theirs of the part into its shared memory, it sums them
 *            relative to the common reference, divides, rounds to bf16 and stores them
 *
 * A call of few tokens is latency, so what is one after the other is short. Matrix products are mma of single warps.
 * The share goes through two slots of keys in passes. Each slot has as many warps as groups of keys: a warp gathers its
 * group and multiplies it by the query, tile by tile as the copies come in, with nobody else to wait for; then the
 * slot's warps agree on a maximum and make P. Eight other warps multiply P by V, each for its own 64 columns, while the
 * other slot's warps are at theirs. */
#include "cluster_parts.cuh"
#include "grid_dependency.cuh"
#include "math.cuh"
#include "prefill_params.h"
#include "prefill_place.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_tile.cuh"
#include "smla_config.cuh"
#include "types.cuh"

/* The kernel beside this one has the same words for its own. */
namespace narrow
{
using namespace cluster_parts;

static constexpr int HEADS = SMLA_NARROW_HEADS;
static constexpr int THREADS = SMLA_NARROW_THREADS;
static constexpr int SLOTS = SMLA_NARROW_KEY_SLOTS;
static constexpr int SLOT_GROUPS = SMLA_NARROW_SLOT_GROUPS;
static constexpr int GROUP_KEYS = STEP_KEYS;
static constexpr int TILES = SMLA_D_QK / TILE_COLUMNS;
static constexpr int GROUP_TILE_BYTES = GROUP_KEYS * ROW_BYTES;
static constexpr int LOGIT_WARPS = SLOTS * SLOT_GROUPS;
static constexpr int VALUE_WARPS = SMLA_D_V / TILE_COLUMNS;
static constexpr int VALUE_WARPS_LOG2 = 3;
static constexpr int SLOT_THREADS = SLOT_GROUPS * 32;
static constexpr int LOGIT_THREADS = LOGIT_WARPS * 32;
static constexpr int VALUE_THREADS = VALUE_WARPS * 32;

/* Copies are waited for in so many steps, of so many tiles. */
static constexpr int COPY_TILES = 2;
static constexpr int COPIES = (TILES + COPY_TILES - 1) / COPY_TILES;

/* An accumulator is 16 heads by 8; a lane holds, of the heads lane / 4 and 8 further, columns 2 (lane % 4) + {0, 1}.
 * PTX ISA 9.7.14.5.8, matrix C. Of 8 heads the other half of the rows is the same again. */
static constexpr int LANE_HEADS = HEADS / 8;
static constexpr int ROW_TILES = (LANE_HEADS + 1) / 2;
static constexpr int COLUMN_TILES = TILE_COLUMNS / 8; /* of a warp's columns of V */

static_assert(HEADS == 8 || HEADS % 16 == 0, "");
static_assert(CACHES == 1 && SMLA_KV_VALUE_BITS == 16, "one bf16 cache");
static_assert(THREADS == LOGIT_THREADS + VALUE_THREADS, "a warp a group of a slot, a warp a tile of V");
static_assert(VALUE_WARPS == 1 << VALUE_WARPS_LOG2 && MOST_RANKS <= VALUE_WARPS, "each rank finishes whole tiles");
static_assert(MOST_RANKS * HEADS <= LOGIT_THREADS, "a thread pushes a state");
static_assert(SLOTS == 2, "");

/* ---- Memory ------------------------------------------------------------------------------------------------- */

static constexpr int P_ROW = SLOT_GROUPS * GROUP_KEYS + CHUNK_ELEMS; /* an odd number of chunks: without conflicts */
static constexpr int PIECES = COLUMN_TILES * LANE_HEADS / 2;         /* 16 bytes a lane of a warp's part */
static constexpr int PIECE_BYTES = 32 * 16;

struct block_memory {
    u8 query[TILES][HEADS * ROW_BYTES];
    u8 key[SLOTS][SLOT_GROUPS][TILES][GROUP_TILE_BYTES];
    u8 parts[VALUE_WARPS * PIECES][PIECE_BYTES]; /* of all ranks, this rank's columns: rank by rank, piece by piece */
    u16 probability[SLOTS][HEADS][P_ROW];
    uint4 states[MOST_RANKS][HEADS]; /* of all ranks: bits of largest logit, reference, sum */
    float group_max[SLOTS][SLOT_GROUPS][HEADS];
    float row_scale[SLOTS][HEADS];      /* out is multiplied by it before the pass's P . V */
    float warp_sum[LOGIT_WARPS][HEADS]; /* at the end */
    float2 row[HEADS];                  /* largest logit and reference, at the end */
    float weight[MOST_RANKS][HEADS];
    float out_scale[HEADS];
    u64 max_ready[SLOTS];
    u64 p_ready[SLOTS];
    u64 key_free[SLOTS];
    u64 states_full;
    u64 parts_full;
};

/* As planned: each region begins where the one before ends. (NVRTC has no offsetof.) */
static_assert(SMLA_NARROW_QUERY_OFFSET == 0, "");
static_assert(SMLA_NARROW_KEY_OFFSET == SMLA_NARROW_QUERY_OFFSET + sizeof(block_memory::query), "");
static_assert(SMLA_NARROW_PARTS_OFFSET == SMLA_NARROW_KEY_OFFSET + sizeof(block_memory::key), "");
static_assert(SMLA_NARROW_PROBABILITY_OFFSET == SMLA_NARROW_PARTS_OFFSET + sizeof(block_memory::parts), "");
static_assert(SMLA_NARROW_STATES_OFFSET == SMLA_NARROW_PROBABILITY_OFFSET + sizeof(block_memory::probability), "");
static_assert(SMLA_NARROW_ROWS_OFFSET == SMLA_NARROW_STATES_OFFSET + sizeof(block_memory::states), "");
static_assert(SMLA_NARROW_BARRIERS_OFFSET == SMLA_NARROW_ROWS_OFFSET + sizeof(block_memory::group_max) +
                                                 sizeof(block_memory::row_scale) + sizeof(block_memory::warp_sum) +
                                                 sizeof(block_memory::row) + sizeof(block_memory::weight) +
                                                 sizeof(block_memory::out_scale),
              "");
static_assert(SMLA_NARROW_SHARED_BYTES == sizeof(block_memory), "");

/* ---- Barriers ----------------------------------------------------------------------------------------------- */

/* mbarriers, of each slot, with a phase a pass that goes through it:
 *
 *   slot's warps  --max_ready-->  logit warps    the maxima of the groups are there
 *   slot's warps  --p_ready---->  value warps    P and row_scale are there, and every key
 *   value warps   --key_free--->  slot's warps   P . V is done
 *
 * and of one phase each, completed by the bytes that ranks push:
 *
 *   all ranks     --states_full-->  warp 0      largest logits, references and sums
 *   used ranks    --parts_full--->  all warps   this rank's columns of their parts
 *
 * The maxima of a slot are written again when its warps have waited for those of the pass between, before which the
 * other slot's warps had read them.
 *
 * barrier.cluster, once: every rank's mbarriers are there. A rank ends when all that is pushed to it has come, so there
 * is always somebody to push to. */
enum named_barrier {
    BLOCK = 0,  /* all threads: mbarriers and query are there; at the end the weights */
    LOGITS = 1, /* logit warps: the sums are there */
};

__device__ __forceinline__ void block_sync()
{
    named_barrier_sync(BLOCK, THREADS);
}

__device__ __forceinline__ void wait_pass(u64 (&mbarriers)[SLOTS], int pass)
{
    mbarrier_wait(shared_window_address(&mbarriers[pass % SLOTS]), pass / SLOTS % 2);
}

/* ---- Fragments ---------------------------------------------------------------------------------------------- */

/* The addresses that a lane gives ldmatrix for two chunks of rows in a tile: pair 0 to 3 of the row's eight. */
struct chunk_pairs {
    u32 at[4];
};

__device__ __forceinline__ chunk_pairs pairs_of(u32 tile, int row, int chunk)
{
    chunk_pairs pairs;
#pragma unroll
    for (int i = 0; i < 4; i++)
        pairs.at[i] = tile + swizzled(row, 2 * i + chunk);
    return pairs;
}

/* ---- Loading ------------------------------------------------------------------------------------------------ */

/* A logit warp's group: of each pass that goes through its slot the one with this number. */
struct place {
    int slot;
    int group;
};

/* A lane's entry of its warp's group in a pass: key lane % 16. */
__device__ __forceinline__ i32 load_group_entry(const share &s, const place &at, int pass)
{
    return load_entry(s, (pass * SLOT_GROUPS + at.group) * GROUP_KEYS + threadIdx.x % GROUP_KEYS);
}

__device__ __forceinline__ bool has_group(const share &s, int pass, int group)
{
    return (pass * SLOT_GROUPS + group) * GROUP_KEYS < s.entries;
}

/* Starts to copy a group of keys into its place, zeros for invalid entries, which are not read; in COPIES groups of
 * copies. Returns the valid keys, a bit each. */
__device__ __forceinline__ u32 gather(const work &w, u8 (&key)[TILES][GROUP_TILE_BYTES], i32 entry)
{
    const smla_key_cache &cache = w.params.cache[0];
    const int lane = threadIdx.x % 32, row = lane / 8, chunk = lane % 8;
    const u32 valid = __ballot_sync(0xffffffff, (u32)entry < cache.s_kv);
    u64 source[4];
#pragma unroll
    for (int turn = 0; turn < 4; turn++) {
        /* Of an entry that is not valid the address means nothing; no byte of it is read. */
        const i32 of_row = __shfl_sync(0xffffffff, entry, 4 * turn + row);
        source[turn] = (u64)cache.kv + (row_offset<true>(cache, of_row) + chunk * CHUNK_ELEMS) * sizeof(u16);
    }
    /* rows 4 further: the other half of the swizzle */
    const u32 to[2] = {shared_window_address(key) + swizzled(row, chunk),
                       shared_window_address(key) + swizzled(row + 4, chunk)};
#pragma unroll
    for (int copy = 0; copy < COPIES; copy++) {
#pragma unroll
        for (int tile = copy * COPY_TILES; tile < (copy + 1) * COPY_TILES && tile < TILES; tile++)
#pragma unroll
            for (int turn = 0; turn < 4; turn++)
                cp_async_16(to[turn % 2] + turn / 2 * SWIZZLE_BYTES + tile * GROUP_TILE_BYTES,
                            (const void *)(source[turn] + tile * TILE_COLUMNS * sizeof(u16)),
                            valid >> (4 * turn + row) & 1 ? 16 : 0);
        cp_async_commit_group();
    }
    return valid;
}

/* The query into shared memory, zeros for heads that there are not, by the value warps. */
__device__ __forceinline__ void load_query(const work &w, block_memory &memory)
{
    const u16 *query =
        (const u16 *)w.params.query + w.token * w.params.query_stride_token + w.first_head * w.params.query_stride_head;
    constexpr int CHUNKS = TILES * 8;
#pragma unroll
    for (int i = 0; i < (HEADS * CHUNKS + VALUE_THREADS - 1) / VALUE_THREADS; i++) {
        const int at = i * VALUE_THREADS + threadIdx.x - LOGIT_THREADS, head = at / CHUNKS, chunk = at % CHUNKS;
        const bool there = head < w.heads;
        if (at < HEADS * CHUNKS)
            cp_async_16(shared_window_address(memory.query[chunk / 8]) + swizzled(head, chunk % 8),
                        there ? query + head * w.params.query_stride_head + chunk * CHUNK_ELEMS : query,
                        there ? 16 : 0);
    }
    cp_async_wait_all();
}

/* ---- Logits and softmax -------------------------------------------------------------------------------------- */

/* What a lane has of a group's logits: of each of its heads, four keys. */
typedef float group_logits[ROW_TILES][2][4];

/* The number of the element of an accumulator of 8 columns: one of a lane's heads, one of two columns. */
__device__ __forceinline__ constexpr int element(int lane_head, int odd)
{
    return lane_head % 2 * 2 + odd;
}

/* logit += query . key^T as the copies come in, from one copy on. Even and odd steps have accumulators of their own,
 * which makes the row of dependent mma half as long. */
template <int COPY>
__device__ __forceinline__ void multiply_copies(const chunk_pairs &q, const chunk_pairs &k, group_logits (&logit)[2])
{
    if constexpr (COPY < COPIES) {
        cp_async_wait_group<COPIES - 1 - COPY>();
        __syncwarp();
#pragma unroll
        for (int tile = COPY * COPY_TILES; tile < (COPY + 1) * COPY_TILES && tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                u32 b[4];
                ldmatrix_x4(b, k.at[i] + tile * GROUP_TILE_BYTES);
#pragma unroll
                for (int rows = 0; rows < ROW_TILES; rows++) {
                    u32 a[4];
                    ldmatrix_x4(a, q.at[i] + tile * HEADS * ROW_BYTES + rows * 16 * ROW_BYTES);
                    mma_m16n8k16(logit[i % 2][rows][0], a, b[0], b[1]);
                    mma_m16n8k16(logit[i % 2][rows][1], a, b[2], b[3]);
                }
            }
        multiply_copies<COPY + 1>(q, k, logit);
    }
}

/* The logits of a warp's group, scaled where the scale is not left to the softmax, and -inf where a key is not valid.
 */
__device__ __forceinline__ void compute_logits(const work &w, block_memory &memory, const place &at, u32 valid,
                                               bool scale_first, group_logits &logit)
{
    const int lane = threadIdx.x % 32;
    const chunk_pairs q = pairs_of(shared_window_address(memory.query), lane % (HEADS < 16 ? HEADS : 16), lane / 16);
    const chunk_pairs k =
        pairs_of(shared_window_address(memory.key[at.slot][at.group]), lane / 16 * 8 + lane % 8, lane / 8 % 2);
    group_logits sums[2] = {};
    multiply_copies<0>(q, k, sums);
    const u32 mine = valid >> (lane % 4 * 2);
#pragma unroll
    for (int rows = 0; rows < ROW_TILES; rows++)
#pragma unroll
        for (int keys = 0; keys < 2; keys++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float sum = sums[0][rows][keys][i] + sums[1][rows][keys][i];
                logit[rows][keys][i] = !(mine >> (keys * 8 + i % 2) & 1) ? -infinity()
                                       : scale_first                     ? sum * (w.params.sm_scale * LOG2_E)
                                                                         : sum;
            }
}

/* Over the four lanes that share a head. */
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

/* A lane's heads: lane / 4, and 8 further each. */
__device__ __forceinline__ int lane_head(int i)
{
    return threadIdx.x % 32 / 4 + 8 * i;
}

__device__ __forceinline__ void store_group_max(block_memory &memory, const place &at, const group_logits &logit)
{
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        const float(&keys)[2][4] = logit[i / 2];
        float max = max_nan(keys[0][element(i, 0)], keys[0][element(i, 1)]);
        max = quad_max(max_nan(max, max_nan(keys[1][element(i, 0)], keys[1][element(i, 1)])));
        if (threadIdx.x % 4 == 0)
            memory.group_max[at.slot][at.group][lane_head(i)] = max;
    }
}

/* The online softmax over the passes so far, in base 2: the same in all lanes that share heads, but for the sum. */
struct lane_state {
    float max[LANE_HEADS];       /* the largest logit; -inf before the first key, NaN after a NaN */
    float reference[LANE_HEADS]; /* what exponents are relative to: lags behind max; never NaN */
    float sum[LANE_HEADS];       /* of 2^(logit - reference), of this lane's keys */
};

/* Waits for a pass's maxima and takes them; factor: what was summed so far is multiplied by it. */
__device__ __forceinline__ void advance(const share &s, block_memory &memory, int pass, float scale_log2,
                                        lane_state &state, float (&factor)[LANE_HEADS])
{
    wait_pass(memory.max_ready, pass);
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        float max = -infinity();
#pragma unroll
        for (int group = 0; group < SLOT_GROUPS; group++)
            if (has_group(s, pass, group))
                max = max_nan(max, memory.group_max[pass % SLOTS][group][lane_head(i)]);
        factor[i] = advance_reference(state.max[i], state.reference[i], max == -infinity() ? max : max * scale_log2);
        state.sum[i] *= factor[i];
    }
}

/* A group's logits -> P, as bf16 into shared memory, and summed. */
__device__ __forceinline__ void store_probability(block_memory &memory, const place &at, float scale_log2,
                                                  const group_logits &logit, lane_state &state)
{
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        const exponent e = exponent_of(state.reference[i], scale_log2);
        u32 *to = (u32 *)&memory.probability[at.slot][lane_head(i)][at.group * GROUP_KEYS + threadIdx.x % 4 * 2];
#pragma unroll
        for (int keys = 0; keys < 2; keys++) {
            const float even = exponentiate(e, logit[i / 2][keys][element(i, 0)]);
            const float odd = exponentiate(e, logit[i / 2][keys][element(i, 1)]);
            state.sum[i] += even + odd;
            to[4 * keys] = pack_bf16(even, odd);
        }
    }
}

/* Tells of a pass's P and factors. */
__device__ __forceinline__ void hand_over(block_memory &memory, const place &at, const float (&factor)[LANE_HEADS])
{
    if (at.group == 0 && threadIdx.x % 4 == 0)
#pragma unroll
        for (int i = 0; i < LANE_HEADS; i++)
            memory.row_scale[at.slot][lane_head(i)] = factor[i];
    mbarrier_arrive(shared_window_address(&memory.p_ready[at.slot]));
}

/* ---- P . V ---------------------------------------------------------------------------------------------------- */

/* A warp's 64 columns of the part. */
typedef float accumulators[ROW_TILES][COLUMN_TILES][4];

/* out *= row_scale, where any of the heads asks for it. */
__device__ __forceinline__ void rescale(const float (&row_scale)[HEADS], accumulators &out)
{
    float factor[LANE_HEADS];
    bool any = false;
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        factor[i] = row_scale[lane_head(i)];
        any |= factor[i] != 1.0f;
    }
    if (!__any_sync(0xffffffff, any))
        return;
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++)
#pragma unroll
        for (int column = 0; column < COLUMN_TILES; column++) {
            out[i / 2][column][element(i, 0)] *= factor[i];
            out[i / 2][column][element(i, 1)] *= factor[i];
        }
}

/* out += P . V of the groups that a pass has: all that a slot has room for, or fewer. */
template <bool ALL>
__device__ __forceinline__ void multiply_values(block_memory &memory, int warp, int slot, int groups, accumulators &out)
{
    const int lane = threadIdx.x % 32;
    const u32 p =
        shared_window_address(memory.probability[slot][lane % (HEADS < 16 ? HEADS : 16)]) + lane / 16 * CHUNK_ELEMS * 2;
    const chunk_pairs v = pairs_of(shared_window_address(memory.key[slot][0][warp]), lane % 16, lane / 16);
#pragma unroll(ALL ? SLOT_GROUPS : 1)
    for (int group = 0; group < (ALL ? SLOT_GROUPS : groups); group++) {
        u32 a[ROW_TILES][4];
#pragma unroll
        for (int rows = 0; rows < ROW_TILES; rows++)
            ldmatrix_x4(a[rows], p + (rows * 16 * P_ROW + group * GROUP_KEYS) * (int)sizeof(u16));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 b[4];
            ldmatrix_x4_trans(b, v.at[i] + group * TILES * GROUP_TILE_BYTES);
#pragma unroll
            for (int rows = 0; rows < ROW_TILES; rows++) {
                mma_m16n8k16(out[rows][2 * i], a[rows], b[0], b[1]);
                mma_m16n8k16(out[rows][2 * i + 1], a[rows], b[2], b[3]);
            }
        }
    }
}

/* ---- Push ----------------------------------------------------------------------------------------------------- */

/* Into a rank's shared memory; full: the mbarrier there that is told. */
__device__ __forceinline__ void push(int rank, u32 address, float a, float b, float c, float d, u64 *full)
{
    store_async_f32x4(mapa_shared_cluster(address, rank), a, b, c, d,
                      mapa_shared_cluster(shared_window_address(full), rank));
}

/* A logit warp's sums, and of the first what all know of the rows. */
__device__ __forceinline__ void store_sums(block_memory &memory, int warp, const lane_state &state)
{
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        const float sum = quad_sum(state.sum[i]);
        if (threadIdx.x % 4 == 0) {
            memory.warp_sum[warp][lane_head(i)] = sum;
            if (warp == 0)
                memory.row[lane_head(i)] = {state.max[i], state.reference[i]};
        }
    }
}

/* This rank's largest logits, references and sums to every rank: a thread a rank and head. */
__device__ __forceinline__ void push_states(const share &s, block_memory &memory)
{
    const int rank = threadIdx.x / HEADS, head = threadIdx.x % HEADS;
    if (rank >> s.ranks_log2)
        return;
    const float2 row = memory.row[head];
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < LOGIT_WARPS; warp++)
        sum += memory.warp_sum[warp][head];
    push(rank, shared_window_address(&memory.states[s.rank][head]), row.x, row.y, sum, 0, &memory.states_full);
}

/* Value warps, and so tiles of V, that a rank finishes. */
__device__ __forceinline__ int tiles_log2(const share &s)
{
    return VALUE_WARPS_LOG2 - s.ranks_log2;
}

/* A value warp's columns of the part, all to the rank that finishes them. */
__device__ __forceinline__ void push_part(const share &s, block_memory &memory, int warp, const accumulators &out)
{
    const int rank = warp >> tiles_log2(s), tile = warp & ((1 << tiles_log2(s)) - 1);
    const u32 to =
        shared_window_address(memory.parts[(s.rank << tiles_log2(s) | tile) * PIECES]) + threadIdx.x % 32 * 16;
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        const float *low = HEADS == 8 ? out[0][2 * piece] : out[piece % ROW_TILES][piece / ROW_TILES];
        const float *high = HEADS == 8 ? out[0][2 * piece + 1] : low + 2;
        push(rank, to + piece * PIECE_BYTES, low[0], low[1], high[0], high[1], &memory.parts_full);
    }
}

/* ---- Roles ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ int passes_of(const share &s)
{
    return (s.entries + SLOT_GROUPS * GROUP_KEYS - 1) / (SLOT_GROUPS * GROUP_KEYS);
}

/* valid: keys of the warp's first group, whose copies are on their way. */
__device__ __forceinline__ void logit_role(const work &w, const share &s, block_memory &memory, int warp,
                                           const place &at, u32 valid)
{
    /* The largest unscaled logit is the largest scaled one only if the scale is positive; otherwise scale first. */
    const bool scale_first = !(w.params.sm_scale > 0);
    const float scale_log2 = scale_first ? 1.0f : w.params.sm_scale * LOG2_E;
    const int passes = passes_of(s);
    float factor[LANE_HEADS];
    lane_state state;
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        state.max[i] = state.reference[i] = -infinity();
        state.sum[i] = 0;
    }

#pragma unroll 1
    for (int pass = at.slot; pass < passes; pass += SLOTS) {
        const bool mine = has_group(s, pass, at.group);
        const i32 next = load_group_entry(s, at, pass + SLOTS);
        group_logits logit;
        if (mine)
            compute_logits(w, memory, at, valid, scale_first, logit);
        if (pass > 0)
            advance(s, memory, pass - 1, scale_log2, state, factor);
        if (mine)
            store_group_max(memory, at, logit);
        mbarrier_arrive(shared_window_address(&memory.max_ready[at.slot]));
        advance(s, memory, pass, scale_log2, state, factor);
        if (mine)
            store_probability(memory, at, scale_log2, logit, state);
        hand_over(memory, at, factor);
        if (pass + SLOTS < passes)
            wait_pass(memory.key_free, pass);
        if (has_group(s, pass + SLOTS, at.group))
            valid = gather(w, memory.key[at.slot][at.group], next);
    }
    if (passes > 0 && passes % SLOTS == at.slot) /* the last was the other slot's */
        advance(s, memory, passes - 1, scale_log2, state, factor);
    store_sums(memory, warp, state);
    named_barrier_sync(LOGITS, LOGIT_THREADS);
    push_states(s, memory);
}

__device__ __forceinline__ void value_role(const share &s, block_memory &memory, int warp)
{
    const int passes = passes_of(s);
    accumulators out = {};
#pragma unroll 1
    for (int pass = 0; pass < passes; pass++) {
        const int slot = pass % SLOTS;
        wait_pass(memory.p_ready, pass);
        if (pass > 0)
            rescale(memory.row_scale[slot], out);
        if (has_group(s, pass, SLOT_GROUPS - 1))
            multiply_values<true>(memory, warp, slot, SLOT_GROUPS, out);
        else
            multiply_values<false>(memory, warp, slot, (s.entries + GROUP_KEYS - 1) / GROUP_KEYS - pass * SLOT_GROUPS,
                                   out);
        mbarrier_arrive(shared_window_address(&memory.key_free[slot]));
    }
    if (passes > 0)
        push_part(s, memory, warp, out);
}

/* ---- Combine ------------------------------------------------------------------------------------------------ */

/* A thread of warp 0 a head. Rank 0 writes lse and max_logits, once. */
__device__ __forceinline__ void weigh_heads(const work &w, const share &s, block_memory &memory, float sink)
{
    const int ranks = 1 << s.ranks_log2, head = threadIdx.x;
    uint4 state[MOST_RANKS];
    mbarrier_wait_cluster(shared_window_address(&memory.states_full), 0);
    if (head >= HEADS)
        return;
#pragma unroll
    for (int i = 0; i < MOST_RANKS; i++)
        if (i < ranks)
            state[i] = memory.states[i][head];
    memory.out_scale[head] = weigh_parts<HEADS>(w, head, sink, state, ranks, &memory.weight[0][head], s.rank == 0);
}

/* Sums a piece of all ranks' parts: of two heads a lane has two columns each, or of one head twice two. */
__device__ __forceinline__ void finish_piece(const work &w, const share &s, const block_memory &memory, int piece)
{
    const int lane = threadIdx.x % 32;
    const int tile = piece / PIECES, of_tile = piece % PIECES;
    const int head = lane / 4 + (HEADS == 8 ? 0 : of_tile % ROW_TILES * 16);
    const int column = (s.rank << tiles_log2(s)) * TILE_COLUMNS + tile * TILE_COLUMNS +
                       (HEADS == 8 ? of_tile * 2 : of_tile / ROW_TILES) * 8 + lane % 4 * 2;
    constexpr int FURTHER = HEADS == 8 ? 0 : 8; /* heads */
    const u32 from = shared_window_address(memory.parts[piece]) + lane * 16;
    float low[2] = {}, high[2] = {};
    uint4 part[MOST_RANKS];
#pragma unroll
    for (int i = 0; i < MOST_RANKS; i++)
        if (i < s.used_ranks)
            part[i] = load_shared_16(from + (i << tiles_log2(s)) * PIECES * PIECE_BYTES);
#pragma unroll
    for (int i = 0; i < MOST_RANKS; i++)
        if (i < s.used_ranks) {
            const float weight_low = memory.weight[i][head], weight_high = memory.weight[i][head + FURTHER];
            low[0] = fmaf(__uint_as_float(part[i].x), weight_low, low[0]);
            low[1] = fmaf(__uint_as_float(part[i].y), weight_low, low[1]);
            high[0] = fmaf(__uint_as_float(part[i].z), weight_high, high[0]);
            high[1] = fmaf(__uint_as_float(part[i].w), weight_high, high[1]);
        }
    const float scale_low = memory.out_scale[head], scale_high = memory.out_scale[head + FURTHER];
    u16 *out = (u16 *)w.params.out + w.token * w.params.out_stride_token +
               (w.first_head + head) * w.params.out_stride_head + column;
    if (head < w.heads)
        *(u32 *)out = pack_bf16(low[0] * scale_low, low[1] * scale_low);
    if (head + FURTHER < w.heads)
        *(u32 *)(out + (HEADS == 8 ? 8 : 8 * w.params.out_stride_head)) =
            pack_bf16(high[0] * scale_high, high[1] * scale_high);
}

__device__ __forceinline__ void combine(const work &w, const share &s, block_memory &memory, int warp)
{
    block_sync();
    mbarrier_wait_cluster(shared_window_address(&memory.parts_full), 0);
#pragma unroll 1
    for (int piece = warp; piece < PIECES << tiles_log2(s); piece += THREADS / 32)
        finish_piece(w, s, memory, piece);
}

/* ---- The kernel --------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void init_barriers(block_memory &memory)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        mbarrier_init(shared_window_address(&memory.max_ready[slot]), SLOT_THREADS);
        mbarrier_init(shared_window_address(&memory.p_ready[slot]), SLOT_THREADS);
        mbarrier_init(shared_window_address(&memory.key_free[slot]), VALUE_THREADS);
    }
    mbarrier_init(shared_window_address(&memory.states_full), 1);
    mbarrier_init(shared_window_address(&memory.parts_full), 1);
}

/* Tells this rank's mbarriers what will be pushed. */
__device__ __forceinline__ void expect_parts(const share &s, block_memory &memory)
{
    mbarrier_arrive_expect_tx(shared_window_address(&memory.states_full), (HEADS << s.ranks_log2) * (u32)sizeof(uint4));
    mbarrier_arrive_expect_tx(shared_window_address(&memory.parts_full),
                              (s.used_ranks << tiles_log2(s)) * PIECES * PIECE_BYTES);
}

__device__ __forceinline__ void prefill(const smla_prefill_params &params)
{
    extern __shared__ __align__(1024) u8 shared[];
    block_memory &memory = *(block_memory *)shared;
    if (threadIdx.x == 0)
        init_barriers(memory);
    barrier_cluster_arrive();
    griddepcontrol_wait();
    const int warp = warp_uniform(threadIdx.x / 32);
    const int unit = clusterid_x(), first_head = unit % SMLA_NARROW_HEAD_BLOCKS * HEADS;
    const work w = make_work(params, {unit / SMLA_NARROW_HEAD_BLOCKS}, first_head, min(HEADS, SMLA_H_Q - first_head));
    const share s = my_share(w);

    /* Keys and query are on their way before anybody is waited for. */
    const bool makes_logits = warp < LOGIT_WARPS;
    const place at = {warp / SLOT_GROUPS, warp % SLOT_GROUPS}; /* of a logit warp */
    const float sink = warp == 0 ? load_sink(w, threadIdx.x) : 0;
    u32 valid = 0;
    if (!makes_logits)
        load_query(w, memory);
    else if (has_group(s, at.slot, at.group))
        valid = gather(w, memory.key[at.slot][at.group], load_group_entry(s, at, at.slot));
    if (threadIdx.x == 0)
        expect_parts(s, memory);
    griddepcontrol_launch_dependents();
    barrier_cluster_wait();
    block_sync();

    if (makes_logits)
        logit_role(w, s, memory, warp, at, valid);
    else
        value_role(s, memory, warp - LOGIT_WARPS);
    if (warp == 0)
        weigh_heads(w, s, memory, sink);
    combine(w, s, memory, warp);
}

} // namespace narrow

/* Clusters of 2, 4 or 8 blocks along x, s_q * NARROW_HEAD_BLOCKS of them. */
extern "C" __global__ void __launch_bounds__(SMLA_NARROW_THREADS, 1)
    smla_sm90_prefill_split_narrow(const __grid_constant__ smla_prefill_params params)
{
    narrow::prefill(params);
}
