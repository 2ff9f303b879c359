/* Sparse MLA for sm_90, few heads: the roles of the kernels whose matrix tile is turned round, so that heads are its N
 * (sm90_prefill_turned.cu, sm90_decode_turned.cu). bf16 query, keys of one cache or two in any format.
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]        over the valid entries j of the list
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (sum_j exp(logit[h, j]) + exp(attn_sink[h]))
 *
 * in base 2, one pass over the list in blocks of 64 keys, with the largest logit so far as reference (online softmax):
 * what sm90_attention.cuh computes, but transposed. There heads are rows of wgmma's tile, of which there are always 64;
 * here they are columns, which come in eights. A block of threads computes one query token, all its heads (the
 * columns of heads that there are not are zeros, which nobody reads from or writes to memory), or several of them one
 * after the other (next_work):
 *
 *   query   [HEADS, d_qk]         read once into shared memory
 *   key     [64 keys, d_qk]       gathered by index into one of the slots, zeros where the entry is invalid; the same
 *                                 bytes are K (along d) and V^T (along keys)
 *   logit^T [64 keys, HEADS]      fp32 accumulators of the softmax warpgroup: key . query^T
 *   P       [HEADS, 64 keys]      bf16, through shared memory from the softmax warpgroup to the output warpgroups
 *   out^T   [d_v, HEADS]          fp32 accumulators, half of the rows in each output warpgroup: += V^T . P^T
 */
#ifndef SMLA_SM90_ATTENTION_TURNED_CUH
#define SMLA_SM90_ATTENTION_TURNED_CUH

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
static constexpr int WARPS = WARPGROUP / 32;

/* A tile of 64 columns with a row a head. */
static constexpr int HEAD_TILE_BYTES = HEADS * ROW_BYTES;

/* An accumulator is 64 rows by HEADS; a lane holds, of two rows, columns 2 (lane % 4) + {0, 1} of each group of 8
 * heads: element 4 group + 2 high + odd. PTX ISA 9.7.15.5.1.1.1, matrix D. Its heads are numbered 2 group + odd. */
static constexpr int GROUPS = HEADS / 8;
static constexpr int ACCUMULATORS = HEADS / 2;
static constexpr int LANE_HEADS = HEADS / 4;

static_assert(HEADS % 8 == 0 && SMLA_H_Q <= HEADS * SMLA_HEAD_BLOCKS, "blocks cover every head");
static_assert(HEADS <= WARPGROUP, "a thread finishes a head");
static_assert(SMLA_OUTPUT_WARPGROUPS == OUTPUT_WARPGROUPS && SMLA_OUTPUT_COLUMNS == OUTPUT_COLUMNS, "as planned");
static_assert(SMLA_THREADS == WARPGROUP * (1 + OUTPUT_WARPGROUPS + SMLA_GATHER_WARPGROUPS),
              "softmax, output and gather warpgroups");

/* Who writes a key: a warpgroup that does nothing else, or each output warpgroup its half. */
static constexpr int KEY_WRITERS = SMLA_GATHER_WARPGROUPS > 0 ? SMLA_GATHER_WARPGROUPS : OUTPUT_WARPGROUPS;

/* ---- Memory ------------------------------------------------------------------------------------------------- */

struct block_memory {
    u8 query[KEY_TILES][HEAD_TILE_BYTES]; /* when the last logits are done: out, bf16 */
    u8 key[KEY_SLOTS][KEY_TILES][TILE_BYTES];
    u8 probability[P_SLOTS][HEAD_TILE_BYTES];
    float row_scale[P_SLOTS][HEADS]; /* out is multiplied by it before the block's P . V, if `rescales` */
    float out_scale[HEADS];          /* and by it at the end */
    float reference[HEADS];          /* what exponents are relative to, in units of base-2 logits */
    float warp_max[WARPS][HEADS];    /* the largest logit of each softmax warp's keys so far */
    float warp_sum[WARPS][HEADS];    /* at the end */
    u64 rescales[P_SLOTS];
#if SMLA_STAGED_TURNS
    u8 staged[OUTPUT_WARPGROUPS][STAGED_BYTES]; /* quantised keys on their way */
#endif
    u64 key_full[KEY_SLOTS][KEY_WRITERS];
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
static_assert(SMLA_REFERENCE_OFFSET == SMLA_OUT_SCALE_OFFSET + sizeof(block_memory::out_scale), "");
static_assert(SMLA_WARP_MAX_OFFSET == SMLA_REFERENCE_OFFSET + sizeof(block_memory::reference), "");
static_assert(SMLA_WARP_SUM_OFFSET == SMLA_WARP_MAX_OFFSET + sizeof(block_memory::warp_max), "");
static_assert(SMLA_RESCALES_OFFSET == SMLA_WARP_SUM_OFFSET + sizeof(block_memory::warp_sum), "");
static_assert(SMLA_BARRIERS_OFFSET ==
                  SMLA_RESCALES_OFFSET + sizeof(block_memory::rescales) + OUTPUT_WARPGROUPS * STAGED_BYTES,
              "");

/* ---- Barriers ----------------------------------------------------------------------------------------------- */

/* For each block i of keys; mbarriers, each with one phase a use of its slot:
 *
 *   output   --key_full[i % KEY_SLOTS][half]-->  softmax   the half's 128 threads arrive when their part is written
 *                                                          (twice each where keys are dequantised)
 *   softmax  --p_ready[i % P_SLOTS]----------->  output    its 128 threads arrive when P and the scales are stored; the
 *                                                          logits of block i have then read the key
 *   output   --p_free[i % P_SLOTS]------------>  softmax   all 256 threads arrive when P . V of block i is done
 *   softmax  --out_scale_ready---------------->  output    after a work's last block
 *
 * With as many slots of P as of the key nothing waits for p_free: an output warpgroup gathers block i + KEY_SLOTS after
 * its P . V of block i, so key_full of block i + KEY_SLOTS, for which the softmax waits before it stores anything of
 * that block, says the same.
 *
 * Keys are written by the generic proxy, by stores and copies, and read by wgmma, of the async proxy. Who waits for
 * key_full fences them, and nobody else: what the output warpgroups read comes after that by way of p_ready.
 *
 * Named barriers join the threads of one warpgroup. */
static constexpr bool KEY_FULL_FREES_P = P_SLOTS == KEY_SLOTS;

enum named_barrier {
    SETUP = 0,       /* all threads */
    QUERY_READY = 1, /* softmax warpgroup: every thread's part of the query is written */
    HALF_READ = 2,   /* + half, output warpgroup: all warps have read their key half; at the end: out is staged */
    MAX_PASSED = 4,  /* softmax warpgroup: whether any head's reference moves; all have read the references */
    WARPS_READY = 5, /* softmax warpgroup: warp_max, and at the end warp_sum, are written */
    MOVED = 6,       /* softmax warpgroup: the references have moved; warp_max is read */
};

/* ---- Accumulators -------------------------------------------------------------------------------------------- */

/* The first of a lane's two heads in a group of 8. */
__device__ __forceinline__ int group_head(int group)
{
    return 8 * group + threadIdx.x % 4 * 2;
}

/* A lane's head of that number. */
__device__ __forceinline__ int lane_head(int i)
{
    return group_head(i / 2) + i % 2;
}

/* Stores a warpgroup's accumulator transposed, as bf16: a row of the tile a head, a column a row of the accumulator.
 * tile: HEADS rows of 128 bytes, swizzled. */
__device__ __forceinline__ void store_transposed(u32 tile, const float (&d)[ACCUMULATORS])
{
    /* Matrix m of a store is group m / 2, rows 8 (m % 2) of the warp's 16; this lane gives the address of its row. */
    lane_rows rows = my_rows();
    int matrix = rows.lane / 8, row = rows.lane % 8;
    u32 address = tile + matrix / 2 * SWIZZLE_BYTES + swizzled(row, 2 * rows.warp + matrix % 2);
#pragma unroll
    for (int group = 0; group + 1 < GROUPS; group += 2) {
        const float *e = d + 4 * group;
        stmatrix_x4_trans(address + group * SWIZZLE_BYTES, pack_bf16(e[0], e[1]), pack_bf16(e[2], e[3]),
                          pack_bf16(e[4], e[5]), pack_bf16(e[6], e[7]));
    }
    if (GROUPS % 2) {
        const float *e = d + 4 * (GROUPS - 1);
        stmatrix_x2_trans(address + (GROUPS - 1) * SWIZZLE_BYTES, pack_bf16(e[0], e[1]), pack_bf16(e[2], e[3]));
    }
}

/* ---- Role: output ------------------------------------------------------------------------------------------- */

/* out[tile] is out^T of columns 64 tile to 64 tile + 63 of this half. */
typedef float half_out[HALF_TILES][ACCUMULATORS];

/* out *= scale, a factor a head. */
__device__ __forceinline__ void scale_heads(const float (&scale)[HEADS], half_out &out)
{
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        float2 factor = *(const float2 *)&scale[group_head(group)];
#pragma unroll
        for (int tile = 0; tile < HALF_TILES; tile++) {
            out[tile][4 * group] *= factor.x;
            out[tile][4 * group + 1] *= factor.y;
            out[tile][4 * group + 2] *= factor.x;
            out[tile][4 * group + 3] *= factor.y;
        }
    }
}

/* out^T += V^T . P^T of one block, this half's columns of V. */
__device__ __forceinline__ void multiply_values(block_memory &memory, int half, int slot, int p_slot, half_out &out)
{
    u64 v = wgmma_descriptor(shared_address(memory.key[slot][half * HALF_TILES]), TILE_BYTES, SWIZZLE_BYTES);
    u64 p = wgmma_descriptor(shared_address(memory.probability[p_slot]), 0, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < KEYS; k += WGMMA_K)
#pragma unroll
        for (int tile = 0; tile < HALF_TILES; tile++)
            wgmma_m64nNk16_a_mn_b_k(out[tile], wgmma_descriptor_plus_low(v, tile * TILE_BYTES + k * ROW_BYTES),
                                    wgmma_descriptor_plus_low(p, k * 2), 1);
    wgmma_commit_group();
    wgmma_wait_group<0>();
}

/* Multiplies by out_scale, rounds to bf16 and stores this half of out by way of the query's shared memory. */
__device__ __forceinline__ void store_out(const work &w, block_memory &memory, int half, half_out &out)
{
    scale_heads(memory.out_scale, out);
#pragma unroll
    for (int tile = 0; tile < HALF_TILES; tile++)
        store_transposed(shared_address(memory.query[half * HALF_TILES + tile]), out[tile]);
    named_barrier_sync(HALF_READ + half, WARPGROUP);

    /* Store: a warp writes a head's half, 16 bytes a lane. */
    lane_rows rows = my_rows();
    u16 *destination =
        (u16 *)w.params.out + out_offset(w.call, w) + w.first_head * w.params.out_stride_head + half * OUTPUT_COLUMNS;
    for (int head = rows.warp; head < w.heads; head += WARPS) {
        int chunk = rows.lane;
        const u8 *source = memory.query[half * HALF_TILES + chunk / 8] + swizzled(head, chunk % 8);
        *(uint4 *)(destination + head * w.params.out_stride_head + chunk * CHUNK_ELEMS) = *(const uint4 *)source;
    }
}

/* Stores this half of a part as it lies in the accumulators (decode_part.cuh). */
__device__ __forceinline__ void store_part(const work &w, const block_memory &memory, int half, half_out &out)
{
    scale_heads(memory.out_scale, out);
    float *part = part_out(w.call, w) + run_offset(half * RUNS, threadIdx.x % WARPGROUP);
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int tile = 0; tile < HALF_TILES; tile++) {
            const float *d = out[tile] + RUN_ELEMS * group;
            store_global_f32x4(part + run_offset(group * HALF_TILES + tile, 0), d[0], d[1], d[2], d[3]);
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
        half_out out = {};
        for (int block = key.FIRST_BLOCK; block < w.block_count; block++) {
            const u32 turn = blocks_before(w) + block;
            const int slot = turn % KEY_SLOTS, p_slot = turn % P_SLOTS;
            const bool more = block + KEY_SLOTS < w.block_count;
            if (more)
                key.fetch(w, block + KEY_SLOTS, half);

            /* Wait for P; the softmax warpgroup has also waited for the key and fenced it for wgmma. */
            if (block >= 0) {
                mbarrier_wait(shared_address(&memory.p_ready[p_slot]), turn / P_SLOTS % 2);
                if (memory.rescales[p_slot])
                    scale_heads(memory.row_scale[p_slot], out);
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

/* Whether the lanes have their heads' references in registers too: where there are enough. */
static constexpr bool KEEPS_REFERENCES = HEADS <= 24;

/* The running state of a lane's heads, over the keys that this lane had, in units of base-2 logits. */
struct softmax_state {
    float max[LANE_HEADS]; /* the largest logit; -inf before the first key, NaN after a NaN */
    float sum[LANE_HEADS]; /* of 2^(logit - reference) */
    float reference[KEEPS_REFERENCES ? LANE_HEADS : 1];
    bool coarse; /* some reference is past COARSE_LOG2; always, where they are not kept */
};

/* Of a lane's head of that number. */
__device__ __forceinline__ float reference_of(const block_memory &memory, const softmax_state &state, int i)
{
    return KEEPS_REFERENCES ? state.reference[i] : memory.reference[lane_head(i)];
}

/* Starts to copy the query into shared memory, zeros for heads that there are not. */
__device__ __forceinline__ void start_query(const work &w, block_memory &memory)
{
    const u16 *query =
        (const u16 *)w.params.query + query_offset(w.call, w) + w.first_head * w.params.query_stride_head;
    int row = threadIdx.x % WARPGROUP / 8, chunk = threadIdx.x % 8;
    for (int head = row; head < HEADS; head += COPY_ROWS) {
        bool there = head < w.heads;
        const u16 *source = there ? query + head * w.params.query_stride_head + chunk * CHUNK_ELEMS : query;
#pragma unroll
        for (int tile = 0; tile < KEY_TILES; tile++)
            cp_async_16(shared_address(memory.query[tile]) + swizzled(head, chunk),
                        there ? source + tile * TILE_COLUMNS : source, there ? 16 : 0);
    }
}

/* Each block's fence_proxy_async before its wgmma serves these copies too. */
__device__ __forceinline__ void await_query()
{
    cp_async_wait_all();
    named_barrier_sync(QUERY_READY, WARPGROUP);
}

/* Starts logit^T = key . query^T of one block, unscaled. The key is there; it was written by the generic proxy, wgmma
 * reads by the async proxy. */
__device__ __forceinline__ void start_logits(block_memory &memory, int slot, float (&logit)[ACCUMULATORS])
{
    fence_proxy_async();
    u64 k = wgmma_descriptor(shared_address(memory.key[slot]), 0, SWIZZLE_BYTES);
    u64 q = wgmma_descriptor(shared_address(memory.query), 0, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < SMLA_D_QK; d += WGMMA_K) {
        int tile = d / TILE_COLUMNS, column = d % TILE_COLUMNS;
        wgmma_m64nNk16_b_k(logit, wgmma_descriptor_plus_low(k, tile * TILE_BYTES + column * 2),
                           wgmma_descriptor_plus_low(q, tile * HEAD_TILE_BYTES + column * 2), d > 0);
    }
    wgmma_commit_group();
}

/* Sets the logits of invalid keys to -inf. A lane's keys are its rows of the accumulator. */
__device__ __forceinline__ void mask_logits(u64 valid, float (&logit)[ACCUMULATORS])
{
    u64 mine = valid >> my_rows().low;
#pragma unroll
    for (int high = 0; high < 2; high++)
        if (!(mine >> (8 * high) & 1))
#pragma unroll
            for (int i = 2 * high; i < ACCUMULATORS; i += 4)
                logit[i] = logit[i + 1] = -infinity();
}

/* Takes a block's logits into the lane's maxima. Whether one of them moves its head's reference. */
__device__ __forceinline__ bool take_max(const block_memory &memory, softmax_state &state, float scale_log2,
                                         const float (&logit)[ACCUMULATORS])
{
    bool moves = false;
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        int low = i / 2 * 4 + i % 2;
        state.max[i] = max_nan(state.max[i], max_nan(logit[low], logit[low + 2]) * scale_log2);
        moves |= state.max[i] > reference_of(memory, state, i) + SMLA_RESCALE_THRESHOLD_LOG2;
    }
    return moves;
}

/* Over the 8 lanes of a warp that share a head: the lanes that are the same modulo 4. */
__device__ __forceinline__ float warp_max(float max)
{
#pragma unroll
    for (int other = 16; other >= 4; other /= 2)
        max = max_nan(max, __shfl_xor_sync(0xffffffff, max, other));
    return max;
}

__device__ __forceinline__ float warp_sum(float sum)
{
#pragma unroll
    for (int other = 16; other >= 4; other /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, other);
    return sum;
}

/* The largest logit of a head, over the warps. */
__device__ __forceinline__ float shared_max(const block_memory &memory, int head)
{
    float max = memory.warp_max[0][head];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        max = max_nan(max, memory.warp_max[warp][head]);
    return max;
}

/* Moves the references of the heads that ask for it, a head a thread; all sums so far follow. */
__device__ __forceinline__ void move_references(block_memory &memory, int p_slot, softmax_state &state)
{
    lane_rows rows = my_rows();
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        float max = warp_max(state.max[i]);
        if (rows.lane < 4)
            memory.warp_max[rows.warp][lane_head(i)] = max;
    }
    named_barrier_sync(WARPS_READY, WARPGROUP);
    int head = threadIdx.x % WARPGROUP;
    if (head < HEADS) {
        float max = shared_max(memory, head);
        memory.row_scale[p_slot][head] = advance_reference(max, memory.reference[head], max);
    }
    named_barrier_sync(MOVED, WARPGROUP);
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        state.sum[i] *= memory.row_scale[p_slot][lane_head(i)];
        if (KEEPS_REFERENCES) {
            state.reference[i] = memory.reference[lane_head(i)];
            state.coarse |= fabsf(state.reference[i]) >= COARSE_LOG2 && state.reference[i] != -infinity();
        }
    }
}

/* logit -> 2^(scale * logit - reference), summed. MAY_BE_COARSE: references past COARSE_LOG2 are looked for. */
template <bool MAY_BE_COARSE>
__device__ __forceinline__ void exponentiate(const block_memory &memory, softmax_state &state, float scale_log2,
                                             float (&logit)[ACCUMULATORS])
{
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        /* Before the first key every logit is -inf: any finite reference gives 0. */
        float reference = reference_of(memory, state, i);
        reference = reference == -infinity() ? 0.0f : reference;
        int low = i / 2 * 4 + i % 2;
        float scale = scale_log2;
        if (MAY_BE_COARSE && fabsf(reference) >= COARSE_LOG2) {
            logit[low] *= scale_log2;
            logit[low + 2] *= scale_log2;
            scale = 1;
        }
        logit[low] = exp2_approx(fmaf(logit[low], scale, -reference));
        logit[low + 2] = exp2_approx(fmaf(logit[low + 2], scale, -reference));
        state.sum[i] += logit[low] + logit[low + 2];
    }
}

/* One block's logits -> P; row_scale where a reference moved. Lazy like advance_reference: that no lane's own maximum
 * passes the threshold is enough to know that no head's does, so most blocks bring no maxima together. */
__device__ __forceinline__ void softmax_block(block_memory &memory, int p_slot, softmax_state &state, float scale_log2,
                                              float (&logit)[ACCUMULATORS])
{
    bool moves = named_barrier_any(MAX_PASSED, WARPGROUP, take_max(memory, state, scale_log2, logit));
    if (moves)
        move_references(memory, p_slot, state);
    if (threadIdx.x % WARPGROUP == 0)
        memory.rescales[p_slot] = moves;
    if (!KEEPS_REFERENCES || state.coarse)
        exponentiate<true>(memory, state, scale_log2, logit);
    else
        exponentiate<false>(memory, state, scale_log2, logit);
}

/* Every head's lse, max_logits and out_scale, a head a thread. sink: of this thread's head. */
__device__ __forceinline__ void finish_heads(const work &w, block_memory &memory, softmax_state &state, float sink)
{
    lane_rows rows = my_rows();
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        float max = warp_max(state.max[i]), sum = warp_sum(state.sum[i]);
        if (rows.lane < 4) {
            memory.warp_max[rows.warp][lane_head(i)] = max;
            memory.warp_sum[rows.warp][lane_head(i)] = sum;
        }
    }
    named_barrier_sync(WARPS_READY, WARPGROUP);
    int head = threadIdx.x % WARPGROUP;
    if (head < HEADS) {
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++)
            sum += memory.warp_sum[warp][head];
        memory.out_scale[head] =
            finish_row_with(w, head, sink, shared_max(memory, head), memory.reference[head], sum, true);
    }
}

/* Of the scaled logits in base 2. The largest unscaled logit is the largest scaled one only if the scale is positive;
 * otherwise they are scaled first. */
struct logit_scale {
    bool first;
    float log2;
};

__device__ __forceinline__ logit_scale scale_of(const work &w)
{
    const bool first = !(w.params.sm_scale > 0);
    return {first, first ? 1.0f : w.params.sm_scale * LOG2_E};
}

/* Waits for the whole key of a block. turn: the block's number among all that this block of threads goes through. */
__device__ __forceinline__ void await_key(block_memory &memory, u32 turn)
{
    for (int writer = 0; writer < KEY_WRITERS; writer++)
        mbarrier_wait(shared_address(&memory.key_full[turn % KEY_SLOTS][writer]), turn / KEY_SLOTS % 2);
}

/* A block's logits, which are done, into P. */
__device__ __forceinline__ void finish_block(const work &w, block_memory &memory, softmax_state &state,
                                             const logit_scale &scale, u64 valid, u32 turn,
                                             float (&logit)[ACCUMULATORS])
{
    const int p_slot = turn % P_SLOTS;

    if (scale.first)
#pragma unroll
        for (int i = 0; i < ACCUMULATORS; i++)
            logit[i] *= w.params.sm_scale * LOG2_E;
    mask_logits(valid, logit);

    /* Wait until the slot's last P . V is done, then hand over. */
    if (!KEY_FULL_FREES_P && turn >= P_SLOTS)
        mbarrier_wait(shared_address(&memory.p_free[p_slot]), (turn / P_SLOTS - 1) % 2);
    softmax_block(memory, p_slot, state, scale.log2, logit);
    store_transposed(shared_address(memory.probability[p_slot]), logit);
    fence_proxy_async();
    mbarrier_arrive(shared_address(&memory.p_ready[p_slot]));
}

/* A work's blocks of keys, into P. */
__device__ __forceinline__ void make_probabilities(const work &w, block_memory &memory, softmax_state &state)
{
    const logit_scale scale = scale_of(w);

    for (int block = 0; block < w.block_count; block++) {
        const u32 turn = blocks_before(w) + block;
        float logit[ACCUMULATORS];
        await_key(memory, turn);
        start_logits(memory, turn % KEY_SLOTS, logit);
        u64 valid = valid_keys(w, block);
        wgmma_wait_group<0>();
        finish_block(w, memory, state, scale, valid, turn, logit);
    }
}

__device__ __forceinline__ softmax_state no_keys_yet()
{
    softmax_state state;
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        state.max[i] = -infinity();
        state.sum[i] = 0;
        if (KEEPS_REFERENCES)
            state.reference[i] = -infinity();
    }
    state.coarse = false;
    return state;
}

__device__ __forceinline__ void softmax_role(work w, block_memory &memory)
{
    do {
        softmax_state state = no_keys_yet();
        wait_for_query_space(w);             /* and everybody has read what finish_heads left */
        if (threadIdx.x % WARPGROUP < HEADS) /* read by others after await_query's barrier */
            memory.reference[threadIdx.x % WARPGROUP] = -infinity();
        if (w.block_count > 0) {
            start_query(w, memory);
            await_query();
        }
        make_probabilities(w, memory, state);
        finish_heads(w, memory, state, load_sink(w, threadIdx.x % WARPGROUP));
        mbarrier_arrive(shared_address(&memory.out_scale_ready));
    } while (next_work(w));
}

/* ---- The kernel --------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void init_barriers(block_memory &memory)
{
    for (int slot = 0; slot < KEY_SLOTS; slot++)
        for (int writer = 0; writer < KEY_WRITERS; writer++)
            mbarrier_init(shared_address(&memory.key_full[slot][writer]), KEY_ARRIVALS);
    for (int slot = 0; slot < P_SLOTS; slot++) {
        mbarrier_init(shared_address(&memory.p_ready[slot]), WARPGROUP);
        if (!KEY_FULL_FREES_P)
            mbarrier_init(shared_address(&memory.p_free[slot]), OUTPUT_WARPGROUPS * WARPGROUP);
    }
    mbarrier_init(shared_address(&memory.out_scale_ready), WARPGROUP);
}

#endif
