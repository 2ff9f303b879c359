/* Sparse MLA prefill for sm_90, few heads and bf16 keys, persistent: what sm90_attention_turned.cuh computes, by blocks
 * of threads that each take every gridDim.x-th query, with a warpgroup that does nothing but gather.
 *
 * Gathering is what bounds few heads: a block of 64 keys and 512 columns arrives in some 1700 cycles, and takes as long
 * to ask for, since copies are taken in no faster than they are answered. So whoever multiplies does not ask, and the
 * next query's keys are on their way while this one's are worked on. */
#include "grid_dependency.cuh"
#include "prefill_params.h"
#include "prefill_place.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_attention_turned.cuh"
#include "sm90_gather.cuh"
#include "smla_config.cuh"
#include "types.cuh"

/* ---- Memory ------------------------------------------------------------------------------------------------- */

struct persistent_memory {
    block_memory of_block; /* key_full once a slot; out_scale_ready: the rows are left */
    u64 key_free[KEY_SLOTS];
    u64 rows_free;
    /* What the softmax warpgroup leaves of a query, beside warp_sum, for the output warpgroups to finish. */
    float row_max[WARPS][HEADS];
    float row_reference[HEADS];
};

static_assert(SMLA_ROWS_OFFSET == sizeof(block_memory) + sizeof(persistent_memory::key_free) + sizeof(u64), "");
static_assert(SMLA_SHARED_BYTES == sizeof(persistent_memory), "");

/* Barriers beside those of sm90_attention_turned.cuh, of which out_scale_ready says that a query's rows are left, and
 * output finishes them:
 *
 *   gather   --key_full[i % KEY_SLOTS][0]----->  softmax   its 128 threads arrive when their copies are written
 *   output   --key_free[i % KEY_SLOTS]-------->  gather    a lane of each warp arrives when P . V of block i is done
 *   output   --rows_free---------------------->  softmax   all 256 threads arrive when they have read a query's rows
 *                                                          and out_scale
 */
enum more_named_barriers {
    ROWS_FINISHED = 7, /* output warpgroups: out_scale is written */
    KEY_LATE = 8,      /* softmax warpgroup: whether the next key is there for all */
};

/* ---- Queries ------------------------------------------------------------------------------------------------- */

/* Where a role stands in its block's queries. */
struct walk {
    work w;
    u32 queries; /* before this one */
    u32 blocks;  /* of keys, of those */
};

/* Each role makes its own, so that no register is held for another's. */
__device__ __forceinline__ walk first_query(const smla_prefill_params &params)
{
    walk at = {make_work(params, {blockIdx.x}, 0, SMLA_H_Q), 0, 0};
    make_uniform(at.w);
    return at;
}

__device__ __forceinline__ bool is_last_query(const walk &at)
{
    return at.w.token + gridDim.x >= at.w.params.s_q;
}

/* The block's next query, if this one is not its last. */
__device__ __forceinline__ walk query_after(const walk &at)
{
    walk after = {make_work(at.w.call, {at.w.token + (is_last_query(at) ? 0 : gridDim.x)}, 0, SMLA_H_Q), at.queries + 1,
                  at.blocks + at.w.block_count};
    make_uniform(after.w);
    return after;
}

__device__ __forceinline__ void go_to(walk &at, const walk &after)
{
    at.w.token = after.w.token;
#pragma unroll
    for (int c = 0; c < CACHES; c++)
        at.w.length[c] = after.w.length[c];
    at.w.first_blocks = after.w.first_blocks;
    at.w.block_count = after.w.block_count;
    at.queries = after.queries;
    at.blocks = after.blocks;
}

/* ---- Role: gather -------------------------------------------------------------------------------------------- */

/* Gathers a block's keys; zeros for invalid entries, which are not read. */
__device__ __forceinline__ void gather_key(const work &w, key_tiles &key, const u16 *const (&rows)[COPY_TURNS])
{
    int row = threadIdx.x % WARPGROUP / 8, chunk = threadIdx.x % 8;
    u32 tile = shared_address(key) + swizzled(row, chunk);
#pragma unroll
    for (int turn = 0; turn < COPY_TURNS; turn++) {
        bool valid = rows[turn] != nullptr;
        /* an address that may be formed, whatever kv is, when nothing is read */
        const u16 *source = valid ? rows[turn] + chunk * CHUNK_ELEMS : (const u16 *)w.params.query;
#pragma unroll
        for (int i = 0; i < KEY_TILES; i++)
            cp_async_16(tile + i * TILE_BYTES + turn * COPY_ROWS * ROW_BYTES,
                        valid ? source + i * TILE_COLUMNS : source, valid ? 16 : 0);
    }
}

template <bool PAGED> __device__ __forceinline__ void gather_role(walk at, persistent_memory &memory)
{
    i32 entries[COPY_TURNS]; /* read a block ahead of what they select */
    const u16 *rows[COPY_TURNS];

    load_entries(at.w, 0, entries);
    for (bool last = false; !last;) {
        last = is_last_query(at);
        const walk after = query_after(at);
        for (int block = 0; block < at.w.block_count; block++) {
            const u32 turn = at.blocks + block;
            const int slot = turn % KEY_SLOTS;
            find_rows<PAGED>(at.w, block, entries, rows);
            if (block + 1 < at.w.block_count)
                load_entries(at.w, block + 1, entries);
            else
                load_entries(after.w, 0, entries);
            if (turn >= KEY_SLOTS)
                mbarrier_wait(shared_address(&memory.key_free[slot]), (turn / KEY_SLOTS - 1) % 2);
            gather_key(at.w, memory.of_block.key[slot], rows);
            cp_async_mbarrier_arrive(shared_address(&memory.of_block.key_full[slot][0]));
        }
        if (at.w.block_count == 0)
            load_entries(after.w, 0, entries);
        go_to(at, after);
    }
}

/* ---- Role: output -------------------------------------------------------------------------------------------- */

/* Multiplies by out_scale, rounds to bf16 and stores this half of out from registers, so that the query's shared memory
 * is the softmax warpgroup's alone. */
__device__ __forceinline__ void store_out_directly(const work &w, int half, const half_out &out)
{
    lane_rows rows = my_rows();
    u16 *destination =
        (u16 *)w.params.out + out_offset(w.call, w) + half * OUTPUT_COLUMNS + 16 * rows.warp + rows.lane % 4 * 2;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        const int head = 8 * group + rows.lane / 4; /* once transposed */
        u16 *to = destination + head * w.params.out_stride_head;
#pragma unroll
        for (int tile = 0; tile < HALF_TILES; tile++) {
            const float *d = out[tile] + 4 * group;
            const u32 low = movmatrix_trans(pack_bf16(d[0], d[1])), high = movmatrix_trans(pack_bf16(d[2], d[3]));
            if (head < w.heads) {
                *(u32 *)(to + tile * TILE_COLUMNS) = low;
                *(u32 *)(to + tile * TILE_COLUMNS + 8) = high;
            }
        }
    }
}

/* Every head's lse, max_logits and out_scale, a head a thread. */
__device__ __forceinline__ void finish_rows(const work &w, persistent_memory &memory, float sink)
{
    const int head = threadIdx.x % WARPGROUP;
    if (head >= HEADS)
        return;
    float max = memory.row_max[0][head], sum = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        max = max_nan(max, memory.row_max[warp][head]);
        sum += memory.of_block.warp_sum[warp][head];
    }
    memory.of_block.out_scale[head] = finish_row_with(w, head, sink, max, memory.row_reference[head], sum, true);
}

__device__ __forceinline__ void multiply_query(const walk &at, persistent_memory &memory, int half, half_out &out)
{
    block_memory &block_part = memory.of_block;
    for (int block = 0; block < at.w.block_count; block++) {
        const u32 turn = at.blocks + block;
        const int slot = turn % KEY_SLOTS, p_slot = turn % P_SLOTS;

        /* Wait for P; the softmax warpgroup has also waited for the key and fenced it for wgmma. */
        mbarrier_wait(shared_address(&block_part.p_ready[p_slot]), turn / P_SLOTS % 2);
        if (block_part.rescales[p_slot])
            scale_heads(block_part.row_scale[p_slot], out);
        multiply_values(block_part, half, slot, p_slot, out);
        if (!KEY_FULL_FREES_P)
            mbarrier_arrive(shared_address(&block_part.p_free[p_slot]));
        if (threadIdx.x % 32 == 0)
            mbarrier_arrive(shared_address(&memory.key_free[slot]));
    }
}

__device__ __forceinline__ void persistent_output_role(walk at, persistent_memory &memory, int half)
{
    const float sink = load_sink(at.w, threadIdx.x % WARPGROUP);

    for (bool last = false; !last; go_to(at, query_after(at))) {
        half_out out = {};
        multiply_query(at, memory, half, out);
        last = is_last_query(at);
        if (last)
            griddepcontrol_launch_dependents();
        mbarrier_wait(shared_address(&memory.of_block.out_scale_ready), at.queries % 2);
        if (half == 0)
            finish_rows(at.w, memory, sink);
        named_barrier_sync(ROWS_FINISHED, OUTPUT_WARPGROUPS * WARPGROUP);
        scale_heads(memory.of_block.out_scale, out);
        mbarrier_arrive(shared_address(&memory.rows_free));
        store_out_directly(at.w, half, out);
    }
}

/* ---- Role: softmax ------------------------------------------------------------------------------------------- */

__device__ __forceinline__ bool key_is_there(const block_memory &memory, u32 turn)
{
    return mbarrier_test(shared_address(&memory.key_full[turn % KEY_SLOTS][0]), turn / KEY_SLOTS % 2);
}

/* A query's blocks of keys, into P. Where the next block's key is there its logits are made beside a block's softmax:
 * none of their operands is in registers. Where it is not yet, waiting for it first would hold this block's slot. */
__device__ __forceinline__ void make_probabilities_ahead(const walk &at, block_memory &memory, softmax_state &state)
{
    const logit_scale scale = scale_of(at.w);
    const int last = at.w.block_count - 1;
    float logit[ACCUMULATORS];

    await_key(memory, at.blocks);
    start_logits(memory, at.blocks % KEY_SLOTS, logit);
    lane_entries entries = load_lane_entries(at.w, 0);
    wgmma_wait_group<0>();
    for (int block = 0; block < last; block++) {
        const u32 turn = at.blocks + block;
        const u64 valid = valid_keys(at.w, block, entries);
        entries = load_lane_entries(at.w, block + 1);
        if (named_barrier_any(KEY_LATE, WARPGROUP, !key_is_there(memory, turn + 1))) {
            finish_block(at.w, memory, state, scale, valid, turn, logit);
            await_key(memory, turn + 1);
            start_logits(memory, (turn + 1) % KEY_SLOTS, logit);
            wgmma_wait_group<0>();
        } else {
            float next[ACCUMULATORS];
            start_logits(memory, (turn + 1) % KEY_SLOTS, next);
            finish_block(at.w, memory, state, scale, valid, turn, logit);
            wgmma_wait_group<0>();
#pragma unroll
            for (int i = 0; i < ACCUMULATORS; i++)
                logit[i] = next[i];
        }
    }
    finish_block(at.w, memory, state, scale, valid_keys(at.w, last, entries), at.blocks + last, logit);
}

__device__ __forceinline__ void leave_rows(persistent_memory &memory, const softmax_state &state)
{
    lane_rows rows = my_rows();
#pragma unroll
    for (int i = 0; i < LANE_HEADS; i++) {
        float max = warp_max(state.max[i]), sum = warp_sum(state.sum[i]);
        if (rows.lane < 4) {
            memory.row_max[rows.warp][lane_head(i)] = max;
            memory.of_block.warp_sum[rows.warp][lane_head(i)] = sum;
        }
    }
    const int head = threadIdx.x % WARPGROUP;
    if (head < HEADS)
        memory.row_reference[head] = memory.of_block.reference[head];
}

__device__ __forceinline__ void persistent_softmax_role(walk at, persistent_memory &memory)
{
    start_query(at.w, memory.of_block);
    for (bool last = false; !last;) {
        last = is_last_query(at);
        const walk after = query_after(at);
        softmax_state state = no_keys_yet();
        await_query();
        if (threadIdx.x % WARPGROUP < HEADS) /* behind a barrier that all who read the last query's have passed */
            memory.of_block.reference[threadIdx.x % WARPGROUP] = -infinity();
        if (at.w.block_count > 0)
            make_probabilities_ahead(at, memory.of_block, state);
        if (!last) /* softmax_block has a barrier behind the last logits: nobody reads the query any more */
            start_query(after.w, memory.of_block);
        if (at.queries > 0)
            mbarrier_wait(shared_address(&memory.rows_free), (at.queries - 1) % 2);
        leave_rows(memory, state);
        mbarrier_arrive(shared_address(&memory.of_block.out_scale_ready));
        go_to(at, after);
    }
}

/* ---- The kernel ---------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void init_persistent_barriers(persistent_memory &memory)
{
    init_barriers(memory.of_block);
    for (int slot = 0; slot < KEY_SLOTS; slot++)
        mbarrier_init(shared_address(&memory.key_free[slot]), OUTPUT_WARPGROUPS * WARPS);
    mbarrier_init(shared_address(&memory.rows_free), OUTPUT_WARPGROUPS * WARPGROUP);
}

template <bool PAGED> __device__ __forceinline__ void prefill(const smla_prefill_params &params)
{
    extern __shared__ __align__(1024) u8 shared[];
    persistent_memory &memory = *(persistent_memory *)shared;

    if (threadIdx.x == 0)
        init_persistent_barriers(memory);
    named_barrier_sync(SETUP, SMLA_THREADS);
    griddepcontrol_wait();

    const int warpgroup = warp_uniform(threadIdx.x / WARPGROUP);
    if (warpgroup == 0) {
        setmaxnreg_dec<SMLA_SOFTMAX_REGISTERS>();
        persistent_softmax_role(first_query(params), memory);
    } else if (warpgroup <= OUTPUT_WARPGROUPS) {
        setmaxnreg_inc<SMLA_OUTPUT_REGISTERS>();
        persistent_output_role(first_query(params), memory, warpgroup - 1);
    } else {
        setmaxnreg_dec<SMLA_GATHER_REGISTERS>();
        gather_role<PAGED>(first_query(params), memory);
    }
}

#if SMLA_FLAT
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_turned_persistent(const __grid_constant__ smla_prefill_params params)
{
    prefill<false>(params);
}
#endif

/* The same where a cache has pages. */
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_turned_persistent_paged(const __grid_constant__ smla_prefill_params params)
{
    prefill<true>(params);
}
