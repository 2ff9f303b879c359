/* Sparse MLA for sm_90: the roles of the kernels whose matrix tile has heads as its rows (sm90_prefill.cu,
 * sm90_decode.cu). bf16 query, keys of one cache or two in any format, bf16 arithmetic.
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]        over the valid entries j of the list
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (sum_j exp(logit[h, j]) + exp(attn_sink[h]))
 *
 * in base 2, one pass over the list in blocks of 64 keys, with the largest logit so far as reference (online softmax).
 * A block of threads computes one query token, up to 64 heads (the rows of heads that there are not are zeros, which
 * nobody reads from or writes to memory), or several of them one after the other (next_work):
 *
 *   query   [64 heads, d_qk]      read once into shared memory; where keys are not bf16, its first tiles go on into
 *                                 the softmax warpgroup's registers: their room is wanted for keys on their way
 *   key     [64 keys, d_qk]       gathered by index into one of two slots, zeros where the entry is invalid; the same
 *                                 bytes are K (along d) and V (along keys). What is not bf16 is dequantised
 *   P       [64 heads, 64 keys]   bf16, through shared memory from the softmax to the output warpgroups
 *   out     [64 heads, d_v]       fp32 accumulators, half of the columns in each output warpgroup
 *
 * What is the same in all lanes of a warp is said to be (warp_uniform, make_uniform): then it lies in registers of the
 * warp's, and threads have none to spare beside the accumulators. */
#ifndef SMLA_SM90_ATTENTION_CUH
#define SMLA_SM90_ATTENTION_CUH

#include "decode_part.cuh"
#include "grid_dependency.cuh"
#include "math.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_gather.cuh"
#include "sm90_keys.cuh"
#include "sm90_tile.cuh"
#include "smla_config.cuh"
#include "smla_wgmma.cuh"
#include "types.cuh"

static constexpr int HEADS = SMLA_BLOCK_HEADS;
static constexpr int P_SLOTS = SMLA_PROBABILITY_SLOTS;
static constexpr int REGISTER_TILES = SMLA_QUERY_REGISTER_TILES; /* of the query, its first; the rest is in memory */
static constexpr int REST_QUERY_TILES = KEY_TILES - REGISTER_TILES;
static constexpr int TILE_STEPS = TILE_COLUMNS / WGMMA_K;
static constexpr int REGISTER_STEPS = REGISTER_TILES * TILE_STEPS;

static_assert(HEADS == 64, "tiles have 64 rows");
static_assert(SMLA_H_Q <= HEADS * SMLA_HEAD_BLOCKS, "blocks cover every head");
static_assert(SMLA_OUTPUT_WARPGROUPS == OUTPUT_WARPGROUPS && SMLA_OUTPUT_COLUMNS == OUTPUT_COLUMNS, "as planned");
static_assert(SMLA_THREADS == WARPGROUP * (1 + OUTPUT_WARPGROUPS), "softmax and output warpgroups");

/* ---- Memory ------------------------------------------------------------------------------------------------- */

struct block_memory {
    u8 query[REST_QUERY_TILES][TILE_BYTES]; /* when the last logits are done: out, bf16 */
    u8 key[KEY_SLOTS][KEY_TILES][TILE_BYTES];
    u8 probability[P_SLOTS][TILE_BYTES];
    float row_scale[P_SLOTS][HEADS]; /* out is multiplied by it before the block's P . V */
    float out_scale[HEADS];          /* and by it at the end */
#if SMLA_STAGED_TURNS
    u8 staged[OUTPUT_WARPGROUPS][STAGED_BYTES]; /* quantised keys on their way */
#endif
    u64 key_full[KEY_SLOTS][OUTPUT_WARPGROUPS];
    u64 p_ready[P_SLOTS];
    u64 p_free[P_SLOTS]; /* not used when P has as many slots as the key */
    u64 out_scale_ready;
};

/* As planned: each region begins where the one before ends. (NVRTC has no offsetof.) */
static_assert(SMLA_QUERY_OFFSET == 0, "");
static_assert(SMLA_KEY_OFFSET == SMLA_QUERY_OFFSET + sizeof(block_memory::query), "");
static_assert(SMLA_PROBABILITY_OFFSET == SMLA_KEY_OFFSET + sizeof(block_memory::key), "");
static_assert(SMLA_ROW_SCALE_OFFSET == SMLA_PROBABILITY_OFFSET + sizeof(block_memory::probability), "");
static_assert(SMLA_OUT_SCALE_OFFSET == SMLA_ROW_SCALE_OFFSET + sizeof(block_memory::row_scale), "");
static_assert(SMLA_BARRIERS_OFFSET ==
                  SMLA_OUT_SCALE_OFFSET + sizeof(block_memory::out_scale) + OUTPUT_WARPGROUPS * STAGED_BYTES,
              "");

/* ---- Barriers ----------------------------------------------------------------------------------------------- */

/* For each block i of keys; mbarriers, each with one phase a use of its slot:
 *
 *   output   --key_full[i % 2][half]-->  softmax   the half's 128 threads arrive when their part of the key is written;
 *                                                  twice each where keys are dequantised, for stores and copies
 *   softmax  --p_ready[i % P_SLOTS]--->  output    its 128 threads arrive when P and row_scale are stored; the logits
 *                                                  of block i have then read the key
 *   output   --p_free[i % P_SLOTS]---->  softmax   all 256 threads arrive when P . V of block i is done
 *   softmax  --out_scale_ready-------->  output    after a work's last block
 *
 * With as many slots of P as of the key nothing waits for p_free: block i + 2 is gathered after P . V of block i, so
 * key_full of block i + 2, for which the softmax waits before it stores P of that block, says the same. (Of copies the
 * ISA promises no release of earlier reads; what was read from row_scale has been used before.)
 *
 * Keys are written by the generic proxy, by stores and copies, and read by wgmma, of the async proxy. Who waits for
 * key_full fences them, and nobody else: what the output warpgroups read comes after that by way of p_ready.
 *
 * Named barriers join the threads of one warpgroup. (racecheck follows mbarriers, but not a named barrier at which some
 * threads arrive and others wait, so none is used that way.) */
static constexpr bool KEY_FULL_FREES_P = P_SLOTS == KEY_SLOTS;

enum named_barrier {
    SETUP = 0,       /* all threads */
    QUERY_READY = 1, /* softmax warpgroup: the tiles that go into registers are read; the others are written */
    HALF_READ = 2,   /* + half, output warpgroup: all warps have read their key half; at the end: out is staged */
};

/* ---- Role: output ------------------------------------------------------------------------------------------- */

/* out *= row_scale, where any row of the warp asks for it. */
__device__ __forceinline__ void rescale_out(block_memory &memory, int p_slot, float (&out)[OUTPUT_COLUMNS / 2])
{
    lane_rows rows = my_rows();
    float low = memory.row_scale[p_slot][rows.low], high = memory.row_scale[p_slot][rows.low + 8];
    if (!__any_sync(0xffffffff, low != 1.0f || high != 1.0f))
        return;
#pragma unroll
    for (int i = 0; i < OUTPUT_COLUMNS / 2; i += 4) {
        out[i] *= low;
        out[i + 1] *= low;
        out[i + 2] *= high;
        out[i + 3] *= high;
    }
}

/* out += P . V of one block, this half's columns. */
__device__ __forceinline__ void multiply_values(block_memory &memory, int half, int slot, int p_slot,
                                                float (&out)[OUTPUT_COLUMNS / 2])
{
    u64 p = wgmma_descriptor(shared_address(memory.probability[p_slot]), 0, SWIZZLE_BYTES);
    u64 v = wgmma_descriptor(shared_address(memory.key[slot][half * HALF_TILES]), TILE_BYTES, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < KEYS; k += WGMMA_K)
        wgmma_m64n256k16_b_mn(out, wgmma_descriptor_plus_low(p, k * 2), wgmma_descriptor_plus_low(v, k * ROW_BYTES), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
}

/* Tiles of a half of out that there is room for at once. */
static constexpr int STAGED_OUT_TILES = REST_QUERY_TILES / OUTPUT_WARPGROUPS >= HALF_TILES ? HALF_TILES : 2;
static_assert(STAGED_OUT_TILES * OUTPUT_WARPGROUPS <= REST_QUERY_TILES && HALF_TILES % STAGED_OUT_TILES == 0, "");

/* Multiplies by out_scale, rounds to bf16 and stores this half of out by way of the query's shared memory. */
__device__ __forceinline__ void store_out(const work &w, block_memory &memory, int half,
                                          float (&out)[OUTPUT_COLUMNS / 2])
{
    constexpr int COLUMNS = STAGED_OUT_TILES * TILE_COLUMNS, ROW_LANES = COLUMNS / CHUNK_ELEMS;
    lane_rows rows = my_rows();
    float low = memory.out_scale[rows.low], high = memory.out_scale[rows.low + 8];
    u8 *staged = memory.query[half * STAGED_OUT_TILES];
    int row = 16 * rows.warp + rows.lane % 16;

#pragma unroll
    for (int first = 0; first < OUTPUT_COLUMNS; first += COLUMNS) {
        /* Stage: matrix m of a store is rows 8 (m % 2), chunk m / 2 of 16 columns. */
        if (first > 0)
            named_barrier_sync(HALF_READ + half, WARPGROUP);
#pragma unroll
        for (int column = 0; column < COLUMNS; column += 16) {
            float *d = out + (first + column) / 2;
            int chunk = column % TILE_COLUMNS / CHUNK_ELEMS + rows.lane / 16;
            stmatrix_x4(shared_address(staged) + column / TILE_COLUMNS * TILE_BYTES + swizzled(row, chunk),
                        pack_bf16(d[0] * low, d[1] * low), pack_bf16(d[2] * high, d[3] * high),
                        pack_bf16(d[4] * low, d[5] * low), pack_bf16(d[6] * high, d[7] * high));
        }
        named_barrier_sync(HALF_READ + half, WARPGROUP);

        /* Store: 16 bytes a lane. */
        u16 *destination = (u16 *)w.params.out + out_offset(w.call, w) + w.first_head * w.params.out_stride_head +
                           half * OUTPUT_COLUMNS + first;
#pragma unroll 2 /* ptxas spills to have more addresses at once */
        for (int head = rows.warp * (32 / ROW_LANES) + rows.lane / ROW_LANES; head < w.heads;
             head += WARPGROUP / ROW_LANES) {
            int chunk = rows.lane % ROW_LANES;
            const u8 *source = staged + chunk / 8 * TILE_BYTES + swizzled(head, chunk % 8);
            *(uint4 *)(destination + head * w.params.out_stride_head + chunk * CHUNK_ELEMS) = *(const uint4 *)source;
        }
    }
}

/* Stores this half of a part as it lies in the accumulators (decode_part.cuh). */
__device__ __forceinline__ void store_part(const work &w, const block_memory &memory, int half,
                                           const float (&out)[OUTPUT_COLUMNS / 2])
{
    lane_rows rows = my_rows();
    float low = memory.out_scale[rows.low], high = memory.out_scale[rows.low + 8];
    float *part = part_out(w.call, w) + run_offset(half * RUNS, threadIdx.x % WARPGROUP);
#pragma unroll
    for (int run = 0; run < RUNS; run++) {
        const float *d = out + RUN_ELEMS * run;
        store_global_f32x4(part + run_offset(run, 0), d[0] * low, d[1] * low, d[2] * high, d[3] * high);
    }
}

template <class key_half> __device__ __forceinline__ void output_role_with(work w, block_memory &memory, int half)
{
#if SMLA_STAGED_TURNS
    key_half key(memory.staged[half]);
#else
    key_half key(nullptr);
#endif

    do {
        key.fill(w, half, memory.key, memory.key_full);
        float out[OUTPUT_COLUMNS / 2] = {};
        for (int block = key.FIRST_BLOCK; block < w.block_count; block++) {
            const u32 turn = blocks_before(w) + block;
            const int slot = turn % KEY_SLOTS, p_slot = turn % P_SLOTS;
            const bool more = block + KEY_SLOTS < w.block_count;
            if (more)
                key.fetch(w, block + KEY_SLOTS, half);

            /* Wait for P; the softmax warpgroup has also waited for the key and fenced it for wgmma. */
            if (block >= 0) {
                mbarrier_wait(shared_address(&memory.p_ready[p_slot]), turn / P_SLOTS % 2);
                rescale_out(memory, p_slot, out);
                multiply_values(memory, half, slot, p_slot, out);
                if (!KEY_FULL_FREES_P)
                    mbarrier_arrive(shared_address(&memory.p_free[p_slot]));
                if (more)
                    named_barrier_sync(HALF_READ + half, WARPGROUP);
            }

            /* Fill the slot. */
            if (more)
                key.write(w, block + KEY_SLOTS, half, memory.key[slot], &memory.key_full[slot][half]);
        }
        if (is_last(w))
            griddepcontrol_launch_dependents();
        mbarrier_wait(shared_address(&memory.out_scale_ready), works_before(w) % 2);
        if (is_part(w)) {
            named_barrier_sync(HALF_READ + half, WARPGROUP); /* as store_out: the next work's keys take their place */
            store_part(w, memory, half, out);
        } else {
            store_out(w, memory, half, out);
        }
        free_query_space(w);
    } while (next_work(w));
}

template <bool PAGED> __device__ __forceinline__ void output_role(const work &w, block_memory &memory, int half)
{
    if (!DEQUANTISES)
        output_role_with<copied_half<PAGED>>(w, memory, half);
    else if (CACHES > 1)
        output_role_with<dequantised_half<PAGED, BOTH_HALVES>>(w, memory, half);
    else if (half == 0)
        output_role_with<dequantised_half<PAGED, 0>>(w, memory, 0);
    else
        output_role_with<dequantised_half<PAGED, 1>>(w, memory, 1);
}

/* ---- Role: softmax ------------------------------------------------------------------------------------------ */

/* The running state of a lane's two rows, in units of base-2 logits. */
struct softmax_state {
    float max[2];       /* the largest logit so far; -inf before the first key, NaN after a NaN */
    float reference[2]; /* what exponents are relative to: lags behind max by at most the threshold */
    float sum[2];       /* of 2^(logit - reference), this lane's columns */
};

/* Fragments of wgmma's A: of the query's first tiles. (One that nothing is in, where there are none.) */
typedef u32 query_fragments[REGISTER_STEPS > 0 ? REGISTER_STEPS : 1][4];

/* Reads tiles of the query into shared memory, zeros for heads that there are not. own: a warp reads the 16 heads that
 * are its rows of A. Each block's fence_proxy_async before its wgmma serves these copies too. */
__device__ __forceinline__ void load_query_tiles(const work &w, block_memory &memory, int first, int count, bool own)
{
    const u16 *query =
        (const u16 *)w.params.query + query_offset(w.call, w) + w.first_head * w.params.query_stride_head;
    const int row = threadIdx.x % WARPGROUP / 8, chunk = threadIdx.x % 8;
#pragma unroll
    for (int turn = 0; turn < HEADS / COPY_ROWS; turn++) {
        const int head = own ? row / 4 * 16 + row % 4 + 4 * turn : row + turn * COPY_ROWS;
        bool there = head < w.heads;
        const u16 *source =
            there ? query + head * w.params.query_stride_head + first * TILE_COLUMNS + chunk * CHUNK_ELEMS : query;
#pragma unroll
        for (int tile = 0; tile < count; tile++)
            cp_async_16(shared_address(memory.query[tile]) + swizzled(head, chunk),
                        there ? source + tile * TILE_COLUMNS : source, there ? 16 : 0);
    }
    cp_async_wait_all();
}

__device__ __forceinline__ void load_query(const work &w, block_memory &memory, query_fragments &fragments)
{
    const lane_rows rows = my_rows();
    /* Those that go into registers pass through the others' place, as many at once as it has room for. */
#pragma unroll
    for (int first = 0; first < REGISTER_TILES; first += REST_QUERY_TILES) {
        const int count = min(REST_QUERY_TILES, REGISTER_TILES - first);
        load_query_tiles(w, memory, first, count, true);
        __syncwarp();
#pragma unroll
        for (int step = 0; step < count * TILE_STEPS; step++)
            ldmatrix_x4(fragments[first * TILE_STEPS + step],
                        shared_address(memory.query[step / TILE_STEPS]) +
                            swizzled(16 * rows.warp + rows.lane % 16, step % TILE_STEPS * 2 + rows.lane / 16));
        if (first + count < REGISTER_TILES)
            __syncwarp();
    }
    if (REGISTER_TILES > 0)
        named_barrier_sync(QUERY_READY, WARPGROUP); /* all have read what the others come to lie upon */
    load_query_tiles(w, memory, REGISTER_TILES, REST_QUERY_TILES, false);
    named_barrier_sync(QUERY_READY, WARPGROUP);
}

/* logit = query . key^T of one block, unscaled. */
__device__ __forceinline__ void multiply_keys(block_memory &memory, int slot, const query_fragments &fragments,
                                              float (&logit)[KEYS / 2])
{
    u64 q = wgmma_descriptor(shared_address(memory.query), 0, SWIZZLE_BYTES);
    u64 k = wgmma_descriptor(shared_address(memory.key[slot]), 0, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < SMLA_D_QK / WGMMA_K; step++) {
        const int tile = step / TILE_STEPS, in_tile = step % TILE_STEPS * WGMMA_K * 2;
        const u64 key = wgmma_descriptor_plus_low(k, tile * TILE_BYTES + in_tile);
#if SMLA_QUERY_REGISTER_TILES
        if (step < REGISTER_STEPS) {
            wgmma_m64n64k16_a_registers_b_k(logit, fragments[step], key, step > 0);
            continue;
        }
#endif
        wgmma_m64n64k16_b_k(logit, wgmma_descriptor_plus_low(q, (tile - REGISTER_TILES) * TILE_BYTES + in_tile), key,
                            step > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
}

/* Sets the logits of invalid keys to -inf. A lane's columns are 2 (lane % 4) + {0, 1} in each group of 8. */
__device__ __forceinline__ void mask_logits(u64 valid, float (&logit)[KEYS / 2])
{
    if (valid == ~(u64)0)
        return;
    u64 mine = valid >> (2 * (threadIdx.x % 4));
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        if (!(mine >> (i / 4 * 8 + i % 2) & 1))
            logit[i] = -infinity();
}

/* The largest logit of row `high` (0 or 1) of a lane, over the four lanes that share it. */
__device__ __forceinline__ float row_max(const float (&logit)[KEYS / 2], int high)
{
    float max = -infinity();
#pragma unroll
    for (int i = 2 * high; i < KEYS / 2; i += 4)
        max = max_nan(max, max_nan(logit[i], logit[i + 1]));
    max = max_nan(max, __shfl_xor_sync(0xffffffff, max, 1));
    return max_nan(max, __shfl_xor_sync(0xffffffff, max, 2));
}

/* logit -> 2^(scale * logit - reference), summed; returns by `factor` what advance_reference gave each row. */
__device__ __forceinline__ void softmax_block(softmax_state &state, float scale_log2, float (&logit)[KEYS / 2],
                                              float (&factor)[2])
{
#pragma unroll
    for (int high = 0; high < 2; high++) {
        float max = row_max(logit, high);
        factor[high] =
            advance_reference(state.max[high], state.reference[high], max == -infinity() ? max : max * scale_log2);
        /* Before the first key every logit is -inf: any finite reference gives 0. */
        float reference = state.reference[high] == -infinity() ? 0.0f : state.reference[high];
        float scale = scale_log2, sum = 0;
        if (fabsf(reference) >= COARSE_LOG2) {
#pragma unroll
            for (int i = 2 * high; i < KEYS / 2; i += 4)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    logit[i + j] *= scale_log2;
            scale = 1;
        }
#pragma unroll
        for (int i = 2 * high; i < KEYS / 2; i += 4)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                logit[i + j] = exp2_approx(fmaf(logit[i + j], scale, -reference));
                sum += logit[i + j];
            }
        state.sum[high] = state.sum[high] * factor[high] + sum;
    }
}

/* Stores P as bf16 and the rows' factors, and orders them for the output warpgroups' wgmma. */
__device__ __forceinline__ void store_probability(block_memory &memory, int p_slot, const float (&p)[KEYS / 2],
                                                  const float (&factor)[2])
{
    lane_rows rows = my_rows();
    int row = 16 * rows.warp + rows.lane % 16;
    u32 tile = shared_address(memory.probability[p_slot]);
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

/* A work's blocks of keys, into P. */
__device__ __forceinline__ void make_probabilities(const work &w, block_memory &memory,
                                                   const query_fragments &fragments, softmax_state &state)
{
    /* The largest unscaled logit is the largest scaled one only if the scale is positive; otherwise scale first. */
    bool scale_first = !(w.params.sm_scale > 0);
    float scale_log2 = scale_first ? 1.0f : w.params.sm_scale * LOG2_E;

    for (int block = 0; block < w.block_count; block++) {
        const u32 turn = blocks_before(w) + block;
        int slot = turn % KEY_SLOTS, p_slot = turn % P_SLOTS;
        u64 valid = valid_keys(w, block);

        /* Wait for the key; it was written by the generic proxy, wgmma reads by the async proxy. */
        for (int half = 0; half < OUTPUT_WARPGROUPS; half++)
            mbarrier_wait(shared_address(&memory.key_full[slot][half]), turn / KEY_SLOTS % 2);
        fence_proxy_async();

        float logit[KEYS / 2], factor[2];
        multiply_keys(memory, slot, fragments, logit);
        if (scale_first)
#pragma unroll
            for (int i = 0; i < KEYS / 2; i++)
                logit[i] *= w.params.sm_scale * LOG2_E;
        mask_logits(valid, logit);
        softmax_block(state, scale_log2, logit, factor);

        /* Wait until the slot's last P . V is done, then hand over. */
        if (!KEY_FULL_FREES_P && turn >= P_SLOTS)
            mbarrier_wait(shared_address(&memory.p_free[p_slot]), (turn / P_SLOTS - 1) % 2);
        store_probability(memory, p_slot, logit, factor);
        mbarrier_arrive(shared_address(&memory.p_ready[p_slot]));
    }
}

__device__ __forceinline__ void finish_rows(const work &w, block_memory &memory, const softmax_state &state)
{
    lane_rows rows = my_rows();
#pragma unroll
    for (int high = 0; high < 2; high++) {
        float sum = state.sum[high];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        int row = rows.low + 8 * high;
        float scale = finish_row(w, row, state.max[high], state.reference[high], sum, rows.lane % 4 == 0);
        if (rows.lane % 4 == 0)
            memory.out_scale[row] = scale;
    }
    mbarrier_arrive(shared_address(&memory.out_scale_ready));
}

__device__ __forceinline__ void softmax_role(work w, block_memory &memory)
{
    do {
        softmax_state state = {{-infinity(), -infinity()}, {-infinity(), -infinity()}, {0, 0}};
        wait_for_query_space(w);
        query_fragments fragments;
        if (w.block_count > 0)
            load_query(w, memory, fragments);
        make_probabilities(w, memory, fragments, state);
        finish_rows(w, memory, state);
    } while (next_work(w));
}

/* ---- The kernel --------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void init_barriers(block_memory &memory)
{
    for (int slot = 0; slot < KEY_SLOTS; slot++)
        for (int half = 0; half < OUTPUT_WARPGROUPS; half++)
            mbarrier_init(shared_address(&memory.key_full[slot][half]), KEY_ARRIVALS);
    for (int slot = 0; slot < P_SLOTS; slot++) {
        mbarrier_init(shared_address(&memory.p_ready[slot]), WARPGROUP);
        if (!KEY_FULL_FREES_P)
            mbarrier_init(shared_address(&memory.p_free[slot]), OUTPUT_WARPGROUPS * WARPGROUP);
    }
    mbarrier_init(shared_address(&memory.out_scale_ready), WARPGROUP);
}

#endif
