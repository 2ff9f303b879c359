/* Sparse MLA prefill for sm_90, one bf16 cache: blocks that live as long as the launch, the query in registers.
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]        over the valid entries j of the list
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (sum_j exp(logit[h, j]) + exp(attn_sink[h]))
 *
 * in base 2, one pass over the list in blocks of 64 keys, with the largest logit so far as reference (online softmax):
 * what sm90_prefill.cu computes, and to the same tiles. A block of threads computes many units of work one after the
 * other, each a query token and up to 64 of its heads, and what one unit leaves idle the next one uses:
 *
 *   item    the query of a unit, then its blocks of 64 keys, gathered in that order, unit after unit, into a ring of
 *           slots (of zeros, where an entry is invalid or there is no head)
 *   query   [64 heads, d_qk]      from its slot into registers of the softmax warpgroup, whose slot is free again
 *   P       [64 heads, 64 keys]   bf16, through shared memory from the softmax warpgroup to the output warpgroups
 *   out     [64 heads, d_v]       fp32 accumulators, half of the columns in each output warpgroup
 *
 * The softmax warpgroup multiplies query by key and does the softmax. Each output warpgroup multiplies P by its half of
 * V's columns, and gathers that half of every item: what it alone reads last it may overwrite without asking. The
 * matrix unit works for one side while the other computes: P . V of a block runs beside the softmax of the next. */
#include "grid_dependency.cuh"
#include "math.cuh"
#include "prefill_params.h"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_tile.cuh"
#include "smla_config.cuh"
#include "smla_wgmma.cuh"
#include "types.cuh"

static constexpr int HEADS = SMLA_BLOCK_HEADS;
static constexpr int SLOTS = SMLA_ITEM_SLOTS;
static constexpr int P_SLOTS = SMLA_PROBABILITY_SLOTS;
static constexpr int OUTPUT_WARPGROUPS = 2;
static constexpr int OUTPUT_COLUMNS = SMLA_D_V / OUTPUT_WARPGROUPS;
static constexpr int TILES = SMLA_D_QK / TILE_COLUMNS;
static constexpr int HALF_TILES = TILES / OUTPUT_WARPGROUPS;
static constexpr int REGISTER_TILES = SMLA_QUERY_REGISTER_TILES; /* of the query; the rest is in shared memory */
static constexpr int REST_TILES = TILES - REGISTER_TILES;
static constexpr int TILE_STEPS = TILE_COLUMNS / WGMMA_K;
static constexpr int REGISTER_STEPS = REGISTER_TILES * TILE_STEPS;
static constexpr int REST_STEPS = REST_TILES * TILE_STEPS;

static_assert(HEADS == 64 && KEYS == 64, "tiles have 64 rows");
static_assert(SMLA_D_QK == SMLA_D_V, "an item is its values");
static_assert(CACHES == 1, "a second list would not fit the output warpgroups' registers");
static_assert(SMLA_H_Q <= HEADS * SMLA_HEAD_BLOCKS, "units cover every head");
static_assert(SMLA_OUTPUT_WARPGROUPS == OUTPUT_WARPGROUPS && SMLA_OUTPUT_COLUMNS == OUTPUT_COLUMNS, "as planned");
static_assert(SMLA_THREADS == WARPGROUP * (1 + OUTPUT_WARPGROUPS), "softmax and output warpgroups");
static_assert(SLOTS > 2 && P_SLOTS == 2, "a query and two blocks of keys; P of a block beside that of the next");

/* ---- Memory ------------------------------------------------------------------------------------------------- */

/* What becomes of a unit's rows, by the four lanes that share one. */
struct row_statistics {
    float4 sum[HEADS]; /* of 2^(logit - reference) */
    float4 max[HEADS]; /* base-2 logits */
    float reference[HEADS];
};

struct block_memory {
    u8 item[SLOTS][TILES][TILE_BYTES]; /* at the end of a unit one slot stages out, bf16 */
    u8 probability[P_SLOTS][TILE_BYTES];
    u8 query_rest[REST_TILES][TILE_BYTES];
    float row_scale[P_SLOTS][HEADS]; /* out is multiplied by it before the block's P . V */
    row_statistics rows[2];          /* of a unit, once its last P is there: of every other unit */
    u64 item_full[SLOTS];
    u64 p_ready[P_SLOTS];
    u64 p_free[P_SLOTS];
    u64 query_taken[2];
};

/* As planned: each region begins where the one before ends. (NVRTC has no offsetof.) */
static_assert(SMLA_ITEM_OFFSET == 0, "");
static_assert(SMLA_PROBABILITY_OFFSET == SMLA_ITEM_OFFSET + sizeof(block_memory::item), "");
static_assert(SMLA_QUERY_REST_OFFSET == SMLA_PROBABILITY_OFFSET + sizeof(block_memory::probability), "");
static_assert(SMLA_ROW_SCALE_OFFSET == SMLA_QUERY_REST_OFFSET + sizeof(block_memory::query_rest), "");
static_assert(SMLA_ROWS_OFFSET == SMLA_ROW_SCALE_OFFSET + sizeof(block_memory::row_scale), "");
static_assert(SMLA_BARRIERS_OFFSET == SMLA_ROWS_OFFSET + sizeof(block_memory::rows), "");
static_assert(SMLA_SHARED_BYTES == sizeof(block_memory), "");

/* ---- Barriers ----------------------------------------------------------------------------------------------- */

/* mbarriers, each with one phase a use of its slot:
 *
 *   output   --item_full[slot]-------->  softmax   all 256 threads arrive when their part of the item is written
 *   softmax  --query_taken[u % 2]----->  output    for unit u: its query has left its slot, or there is no such unit.
 *                                                  (Two: with one or two blocks of keys the softmax warpgroup can be
 *                                                  done with a unit before anybody has waited for the one before.)
 *   softmax  --p_ready[i % 2]--------->  output    P and row_scale of block i are stored, its logits have read the key;
 *                                                  but for a unit's last blocks, the logits of block i + 1 are done
 *                                                  too: P . V is held back until the matrix unit has nothing else
 *                                                  to do. At a unit's last block its row_statistics are there
 *   output   --p_free[i % 2]---------->  softmax   all 256 threads arrive when P . V of block i is done, and, at a
 *                                                  unit's last block, row_statistics are read
 *
 * A slot is written again by the warpgroup that has read it last: its half of a block of keys after its own P . V (the
 * logits came before P), its half of a query after query_taken. Generic writes are ordered for wgmma by who waits for
 * them (P, and items that arrive by themselves) or by who wrote them (other items).
 *
 * Named barriers join the threads of one warpgroup. */
enum named_barrier {
    SETUP = 0,      /* all threads */
    REST_FREE = 1,  /* softmax warpgroup: all warps' last logits of a unit are done, which read the rest of the query */
    REST_READY = 2, /* softmax warpgroup: the rest of the query is written */
    HALF_READ = 3,  /* + half, output warpgroup: all warps have read their half of the slot */
};

/* Where a ring of slots stands: the slot, and the parity of its phase. */
struct ring_position {
    int slot;
    u32 phase;
    __device__ __forceinline__ void advance()
    {
        bool wraps = slot == SLOTS - 1;
        slot = wraps ? 0 : slot + 1;
        phase ^= wraps;
    }
};

/* P of block `index`, counted through all units. */
__device__ __forceinline__ int p_slot_of(u32 index)
{
    return index % P_SLOTS;
}
__device__ __forceinline__ u32 p_phase_of(u32 index)
{
    return index / P_SLOTS % 2;
}

/* ---- Units of work ------------------------------------------------------------------------------------------- */

/* Unit u is heads 64 (u % HEAD_BLOCKS) and on of token u / HEAD_BLOCKS: neighbours find each other's keys in L2. Block
 * b of threads does units b, b + gridDim.x, … */
__device__ __forceinline__ u32 unit_count(const smla_prefill_params &params)
{
    return (u32)params.s_q * SMLA_HEAD_BLOCKS;
}

__device__ __forceinline__ work unit_work(const smla_prefill_params &params, u32 unit)
{
    int first_head = unit % SMLA_HEAD_BLOCKS * HEADS;
    return make_work(params, unit / SMLA_HEAD_BLOCKS, first_head, min(HEADS, SMLA_H_Q - first_head));
}

/* ---- Role: output ------------------------------------------------------------------------------------------- */

/* The rows of an item that a thread copies: eight threads a row, 16 rows at once, four turns. */
static constexpr int COPY_ROWS = WARPGROUP / 8;
static constexpr int COPY_TURNS = KEYS / COPY_ROWS;

/* Whether the copies of a block of keys, or of a query (-1), tell of themselves when they have come; who waits for keys
 * then orders them for wgmma. The others have time until the thread that copied comes by. */
__device__ __forceinline__ bool arrives_by_itself(i32 block)
{
    return block <= 1;
}

/* The items to come, in order: which is next, and this thread's rows of it. */
template <bool PAGED> struct item_stream {
    u32 unit;
    i32 block; /* -1: the query */
    i32 block_count;
    i32 length;            /* entries of the list that count */
    const i32 *list;       /* from this thread's first row of the block on */
    i32 left;              /* entries from there that count */
    i32 entry[COPY_TURNS]; /* of the block's rows; of a query's: heads */

    __device__ __forceinline__ bool there(const smla_prefill_params &params) const
    {
        return unit < unit_count(params);
    }

    __device__ __forceinline__ static int first_row()
    {
        return threadIdx.x % WARPGROUP / 8;
    }

    /* From `unit` on, the first with keys: its query. */
    __device__ __forceinline__ void find(const smla_prefill_params &params)
    {
        block = -1;
#pragma unroll
        for (int turn = 0; turn < COPY_TURNS; turn++)
            entry[turn] = turn * COPY_ROWS + first_row();
        for (; unit < unit_count(params); unit += gridDim.x) {
            const work w = unit_work(params, unit);
            length = w.length[0];
            block_count = w.block_count;
            if (block_count > 0)
                return;
        }
    }

    __device__ __forceinline__ void advance(const smla_prefill_params &params)
    {
        if (++block == block_count) {
            unit += gridDim.x;
            find(params);
            return;
        }
        if (block == 0) {
            const smla_key_cache &cache = params.cache[0];
            list = cache.indices + unit / SMLA_HEAD_BLOCKS * cache.indices_stride_token + first_row();
            left = length - first_row();
        } else {
            list += KEYS;
            left -= KEYS;
        }
#pragma unroll
        for (int turn = 0; turn < COPY_TURNS; turn++)
            entry[turn] = load_global_i32_if(turn * COPY_ROWS < left, list + turn * COPY_ROWS, -1);
    }

    /* Gathers this warpgroup's half of the item's columns, some of its rows; zeros for invalid entries and for heads
     * that there are not, which are not read. */
    template <int FIRST_TURN, int TURNS>
    __device__ __forceinline__ void gather(const smla_prefill_params &params, int half,
                                           u8 (&slot)[TILES][TILE_BYTES]) const
    {
        const bool is_query = block < 0;
        const smla_key_cache &cache = params.cache[0];
        const int chunk = threadIdx.x % 8, first_head = unit % SMLA_HEAD_BLOCKS * HEADS;
        const u16 *base = is_query ? (const u16 *)params.query + unit / SMLA_HEAD_BLOCKS * params.query_stride_token +
                                         first_head * params.query_stride_head
                                   : (const u16 *)cache.kv;
        base += half * OUTPUT_COLUMNS + chunk * CHUNK_ELEMS;
        const u64 stride = is_query ? params.query_stride_head : cache.kv_stride_token;
        const u32 rows = is_query ? min(HEADS, SMLA_H_Q - first_head) : cache.s_kv;
        const u32 tile = shared_window_address(slot[half * HALF_TILES]) + swizzled(first_row(), chunk);
#pragma unroll
        for (int turn = FIRST_TURN; turn < FIRST_TURN + TURNS; turn++) {
            const bool valid = (u32)entry[turn] < rows;
            /* Of an entry that is not valid the address means nothing; no byte of it is read. */
            u64 offset = (u32)entry[turn] * stride;
            if (PAGED && !is_query)
                offset = row_offset<PAGED>(cache, entry[turn]);
            const u64 source = (u64)base + offset * sizeof(u16);
#pragma unroll
            for (int i = 0; i < HALF_TILES; i++)
                cp_async_16(tile + i * TILE_BYTES + turn * COPY_ROWS * ROW_BYTES,
                            (const void *)(source + i * TILE_COLUMNS * sizeof(u16)), valid ? 16 : 0);
        }
    }

    /* The part of an item's copying that begins with row 16 FIRST_TURN; the part with the last rows also sees to it
     * that all is told of when it has come: at once, or later by arrive_item, which returning true asks for. */
    template <int FIRST_TURN, int TURNS>
    __device__ __forceinline__ bool refill(const smla_prefill_params &params, int half, block_memory &memory, int slot)
    {
        gather<FIRST_TURN, TURNS>(params, half, memory.item[slot]);
        if (FIRST_TURN + TURNS < COPY_TURNS)
            return false;
        const bool later = !arrives_by_itself(block);
        if (!later)
            cp_async_mbarrier_arrive(shared_window_address(&memory.item_full[slot]));
        advance(params);
        return later;
    }
};

/* This thread's copies so far are written: orders them for wgmma, and says so. */
__device__ __forceinline__ void arrive_item(block_memory &memory, int slot)
{
    cp_async_wait_all();
    fence_proxy_async();
    mbarrier_arrive(shared_window_address(&memory.item_full[slot]));
}

/* out *= row_scale, where any row of the warp asks for it. */
__device__ __forceinline__ void rescale_out(block_memory &memory, int p_slot, float (&out)[OUTPUT_COLUMNS / 2])
{
    lane_rows rows = my_rows();
    float low = memory.row_scale[p_slot][rows.low], high = memory.row_scale[p_slot][rows.low + 8];
    if (__builtin_expect(!__any_sync(0xffffffff, low != 1.0f || high != 1.0f), 1))
        return;
#pragma unroll
    for (int i = 0; i < OUTPUT_COLUMNS / 2; i += 4) {
        out[i] *= low;
        out[i + 1] *= low;
        out[i + 2] *= high;
        out[i + 3] *= high;
    }
}

/* Starts out += P . V of one block, this half's columns, in two groups: of the first and of the last 32 keys. */
__device__ __forceinline__ void start_values(block_memory &memory, int half, int slot, int p_slot,
                                             float (&out)[OUTPUT_COLUMNS / 2])
{
    u64 p = wgmma_descriptor(shared_window_address(memory.probability[p_slot]), 0, SWIZZLE_BYTES);
    u64 v = wgmma_descriptor(shared_window_address(memory.item[slot][half * HALF_TILES]), TILE_BYTES, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < KEYS; k += WGMMA_K) {
        wgmma_m64n256k16_b_mn(out, wgmma_descriptor_plus(p, k * 2), wgmma_descriptor_plus(v, k * ROW_BYTES), 1);
        if (k % (KEYS / 2) == KEYS / 2 - WGMMA_K)
            wgmma_commit_group();
    }
}

/* Writes lse and max_logits of a row of the unit (once: `writes`); returns the factor that turns its accumulators into
 * out. */
__device__ __forceinline__ float finish_unit_row(const work &w, const row_statistics &rows, int row, bool writes)
{
    const float4 sum = rows.sum[row], max = rows.max[row];
    return finish_row(w, row, max_nan(max_nan(max.x, max.y), max_nan(max.z, max.w)), rows.reference[row],
                      (sum.x + sum.y) + (sum.z + sum.w), writes);
}

/* Multiplies by out_scale (low, high: of this lane's rows), rounds to bf16 and stores this half of out by way of a
 * slot. A warp stages and stores its own 16 rows. */
__device__ __forceinline__ void store_out(const work &w, int half, u8 (&slot)[TILES][TILE_BYTES], float low, float high,
                                          const float (&out)[OUTPUT_COLUMNS / 2])
{
    lane_rows rows = my_rows();
    u8 *staged = slot[half * HALF_TILES];

    /* Stage: matrix m of a store is rows 8 (m % 2), chunk m / 2 of 16 columns. */
    int row = 16 * rows.warp + rows.lane % 16;
#pragma unroll
    for (int column = 0; column < OUTPUT_COLUMNS; column += 16) {
        const float *d = out + column / 2;
        int chunk = column % TILE_COLUMNS / CHUNK_ELEMS + rows.lane / 16;
        stmatrix_x4(shared_window_address(staged) + column / TILE_COLUMNS * TILE_BYTES + swizzled(row, chunk),
                    pack_bf16(d[0] * low, d[1] * low), pack_bf16(d[2] * high, d[3] * high),
                    pack_bf16(d[4] * low, d[5] * low), pack_bf16(d[6] * high, d[7] * high));
    }
    __syncwarp();

    /* Store: the warp writes a row's half at a time, 16 bytes a lane. */
    int chunk = rows.lane, first = 16 * rows.warp;
    u16 *destination = (u16 *)w.params.out + w.token * w.params.out_stride_token +
                       w.first_head * w.params.out_stride_head + half * OUTPUT_COLUMNS + chunk * CHUNK_ELEMS;
    const u32 source = shared_window_address(staged) + chunk / 8 * TILE_BYTES;
    constexpr int AT_ONCE = 8; /* rows read before any is written */
#pragma unroll
    for (int begin = 0; begin < 16; begin += AT_ONCE) {
        uint4 bytes[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            bytes[i] = load_shared_16(source + swizzled(first + begin + i, chunk % 8));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + begin + i < w.heads)
                *(uint4 *)(destination + (first + begin + i) * w.params.out_stride_head) = bytes[i];
    }
}

/* The rows of a unit without keys: zeros, or NaN where the sink is NaN. */
__device__ __forceinline__ void store_empty(const work &w, int half)
{
    lane_rows rows = my_rows();
    for (int head = rows.warp; head < w.heads; head += WARPGROUP / 32) {
        float sink = w.params.attn_sink ? w.params.attn_sink[w.first_head + head] : 0;
        u32 bits = sink != sink ? 0x7fff7fff : 0;
        u16 *destination = (u16 *)w.params.out + w.token * w.params.out_stride_token +
                           (w.first_head + head) * w.params.out_stride_head + half * OUTPUT_COLUMNS;
        *(uint4 *)(destination + rows.lane * CHUNK_ELEMS) = {bits, bits, bits, bits};
    }
}

template <bool PAGED>
__device__ __forceinline__ void output_role(const smla_prefill_params &params, block_memory &memory, int half)
{
    item_stream<PAGED> next;
    next.unit = blockIdx.x;
    next.find(params);
#pragma unroll 1
    for (int slot = 0; slot < SLOTS && next.there(params); slot++)
        next.template refill<0, COPY_TURNS>(params, half, memory, slot); /* all of them arrive by themselves */

    ring_position item = {0, 0};
    int arriving = -1; /* a slot that this thread has copied to and not told of */
    u32 p_index = 0, units_done = 0;
    for (u32 unit = blockIdx.x; unit < unit_count(params); unit += gridDim.x) {
        const work w = unit_work(params, unit);
        if (unit + gridDim.x >= unit_count(params)) /* the block's last */
            griddepcontrol_launch_dependents();
        if (w.block_count == 0) {
            store_empty(w, half);
            continue;
        }
        if (units_done == 0) {
            mbarrier_wait(shared_window_address(&memory.query_taken[0]), 0);
            if (next.there(params) && next.template refill<0, COPY_TURNS>(params, half, memory, 0))
                arriving = 0;
        }
        item.advance();
        float out[OUTPUT_COLUMNS / 2] = {}, low = 0, high = 0;
        for (int block = 0; block < w.block_count; block++, p_index++) {
            const int p_slot = p_slot_of(p_index);
            const bool more = next.there(params);
            mbarrier_wait(shared_window_address(&memory.p_ready[p_slot]), p_phase_of(p_index));
            fence_proxy_async(); /* P was written by the generic proxy, wgmma reads by the async proxy */
            if (block > 0)
                rescale_out(memory, p_slot, out);
            start_values(memory, half, item.slot, p_slot, out);
            /* While the matrix unit works: the copies of the turn before have come. */
            if (arriving >= 0)
                arrive_item(memory, arriving);
            arriving = -1;
            if (block == w.block_count - 1) {
                lane_rows rows = my_rows();
                const bool writes = half == 0 && rows.lane % 4 == 0;
                low = finish_unit_row(w, memory.rows[units_done % 2], rows.low, writes);
                high = finish_unit_row(w, memory.rows[units_done % 2], rows.low + 8, writes);
                break;
            }

            /* Refill the slot, its first 32 rows while the others are still read. */
            wgmma_wait_group<1>();
            named_barrier_sync(HALF_READ + half, WARPGROUP);
            if (more)
                next.template refill<0, COPY_TURNS / 2>(params, half, memory, item.slot);
            wgmma_wait_group<0>();
            mbarrier_arrive(shared_window_address(&memory.p_free[p_slot]));
            named_barrier_sync(HALF_READ + half, WARPGROUP);
            if (more && next.template refill<COPY_TURNS / 2, COPY_TURNS / 2>(params, half, memory, item.slot))
                arriving = item.slot;
            item.advance();
        }
        /* Out is staged in the slot that follows: the next unit's query has left it, or there is none. */
        const int key_slot = item.slot;
        item.advance();
        wgmma_wait_group<0>();
        mbarrier_arrive(shared_window_address(&memory.p_free[p_slot_of(p_index++)]));
        units_done++;
        mbarrier_wait(shared_window_address(&memory.query_taken[units_done % 2]), units_done / 2 % 2);
        named_barrier_sync(HALF_READ + half, WARPGROUP);
        if (next.there(params))
            next.template refill<0, COPY_TURNS>(params, half, memory, key_slot); /* its item arrives by itself */
        store_out(w, half, memory.item[item.slot], low, high, out);
        named_barrier_sync(HALF_READ + half, WARPGROUP);
        if (next.there(params) && next.template refill<0, COPY_TURNS>(params, half, memory, item.slot))
            arriving = item.slot;
    }
}

/* ---- Role: softmax ------------------------------------------------------------------------------------------ */

/* The running state of a lane's two rows, in units of base-2 logits. */
struct softmax_state {
    float max[2]; /* the largest logit so far of this lane's columns; -inf before the first key, NaN after a NaN */
    float reference[2]; /* what exponents are relative to: lags behind the row's max by at most the threshold */
    float sum[2];       /* of 2^(logit - reference), this lane's columns */
};

/* Takes the query out of its slot: into registers as fragments of wgmma's A (PTX ISA 9.7.15.5.1.1.1), the rest into
 * shared memory of its own. Without the fence and the barrier that wgmma needs for the rest. */
__device__ __forceinline__ void take_query(block_memory &memory, int slot, u32 (&query)[REGISTER_STEPS][4])
{
    lane_rows rows = my_rows();
    int row = 16 * rows.warp + rows.lane % 16;
    u32 item = shared_window_address(memory.item[slot]);
#pragma unroll
    for (int step = 0; step < REGISTER_STEPS; step++)
        ldmatrix_x4(query[step],
                    item + step / TILE_STEPS * TILE_BYTES + swizzled(row, step % TILE_STEPS * 2 + rows.lane / 16));
    const uint4 *from = (const uint4 *)memory.item[slot][REGISTER_TILES];
    uint4 *to = (uint4 *)memory.query_rest;
    int thread = threadIdx.x % WARPGROUP;
#pragma unroll
    for (int i = 0; i < REST_TILES * TILE_BYTES / 16; i += WARPGROUP)
        to[i + thread] = from[i + thread];
}

/* Sets the logits of invalid keys to -inf. A lane's columns are 2 (lane % 4) + {0, 1} in each group of 8. */
__device__ __forceinline__ void mask_logits(u64 valid, float (&logit)[KEYS / 2])
{
    if (__builtin_expect(valid == ~(u64)0, 1))
        return;
    u64 mine = valid >> (2 * (threadIdx.x % 4));
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        if (!(mine >> (i / 4 * 8 + i % 2) & 1))
            logit[i] = -infinity();
}

/* The reference of a row moves, or its logits are too coarse for a fused multiply-add: what few blocks need. scale: of
 * the logits from here on. */
__device__ __forceinline__ void advance_row(softmax_state &state, int high, float &scale, float (&logit)[KEYS / 2],
                                            float &factor)
{
    float max = max_nan(state.max[high], __shfl_xor_sync(0xffffffff, state.max[high], 1));
    max = max_nan(max, __shfl_xor_sync(0xffffffff, max, 2));
    factor = advance_reference(state.max[high], state.reference[high], max);
    state.sum[high] *= factor;
    if (fabsf(state.reference[high]) < COARSE_LOG2 || state.reference[high] == -infinity())
        return;
#pragma unroll
    for (int i = 2 * high; i < KEYS / 2; i += 4) {
        logit[i] *= scale;
        logit[i + 1] *= scale;
    }
    scale = 1;
}

/* logit -> P = 2^(scale * logit - reference), summed and stored as bf16, with the rows' factors. */
__device__ __forceinline__ void softmax_block(softmax_state &state, float scale_log2, float (&logit)[KEYS / 2],
                                              block_memory &memory, int p_slot)
{
    bool moves = false;
#pragma unroll
    for (int high = 0; high < 2; high++) {
        float max = -infinity();
#pragma unroll
        for (int i = 2 * high; i < KEYS / 2; i += 4)
            max = max_nan(max, max_nan(logit[i], logit[i + 1]));
        state.max[high] = max_nan(state.max[high], max == -infinity() ? max : max * scale_log2);
        moves |= state.max[high] > state.reference[high] + SMLA_RESCALE_THRESHOLD_LOG2 ||
                 fabsf(state.reference[high]) >= COARSE_LOG2;
    }
    float scale[2] = {scale_log2, scale_log2}, factor[2] = {1, 1};
    if (__builtin_expect(__any_sync(0xffffffff, moves), 0))
#pragma unroll
        for (int high = 0; high < 2; high++)
            advance_row(state, high, scale[high], logit, factor[high]);

    const lane_rows rows = my_rows();
    if (rows.lane % 4 == 0) {
        memory.row_scale[p_slot][rows.low] = factor[0];
        memory.row_scale[p_slot][rows.low + 8] = factor[1];
    }
    const int row = 16 * rows.warp + rows.lane % 16;
    const u32 tile = shared_window_address(memory.probability[p_slot]);
    float reference[2];
#pragma unroll
    for (int high = 0; high < 2; high++) /* before the first key every logit is -inf: any finite reference gives 0 */
        reference[high] = state.reference[high] == -infinity() ? 0.0f : state.reference[high];
#pragma unroll
    for (int column = 0; column < KEYS; column += 16) {
        u32 pair[4]; /* of the lower row and the higher, columns 0 to 7; the same of columns 8 to 15 */
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *d = logit + column / 2 + 2 * i;
            float first = exp2_approx(fmaf(d[0], scale[i % 2], -reference[i % 2]));
            float second = exp2_approx(fmaf(d[1], scale[i % 2], -reference[i % 2]));
            state.sum[i % 2] += first + second;
            pair[i] = pack_bf16(first, second);
        }
        stmatrix_x4(tile + swizzled(row, column / CHUNK_ELEMS + rows.lane / 16), pair[0], pair[1], pair[2], pair[3]);
    }
}

/* Stores what the output warpgroups finish a unit's rows with. */
__device__ __forceinline__ void store_statistics(const softmax_state &state, row_statistics &to)
{
    lane_rows rows = my_rows();
#pragma unroll
    for (int high = 0; high < 2; high++) {
        int row = rows.low + 8 * high;
        ((float *)&to.sum[row])[rows.lane % 4] = state.sum[high];
        ((float *)&to.max[row])[rows.lane % 4] = state.max[high];
        if (rows.lane % 4 == 0)
            to.reference[row] = state.reference[high];
    }
}

/* A lane's two entries of a block: keys `lane` and `lane` + 32. */
struct entry_pair {
    const i32 *list; /* from the first on */
    i32 left;        /* entries from there that count */
    i32 low, high;
};

__device__ __forceinline__ void load_entries(entry_pair &entries)
{
    entries.low = load_global_i32_if(0 < entries.left, entries.list, -1);
    entries.high = load_global_i32_if(32 < entries.left, entries.list + 32, -1);
}

__device__ __forceinline__ entry_pair first_entries(const work &w)
{
    const smla_key_cache &cache = w.params.cache[0];
    const int lane = threadIdx.x % 32;
    entry_pair entries = {cache.indices + w.token * cache.indices_stride_token + lane, w.length[0] - lane, 0, 0};
    load_entries(entries);
    return entries;
}

__device__ __forceinline__ void next_entries(entry_pair &entries)
{
    entries.list += KEYS;
    entries.left -= KEYS;
    load_entries(entries);
}

/* From `unit` on, the first unit with keys; what has none is finished on the way. */
__device__ __forceinline__ u32 next_unit(const smla_prefill_params &params, u32 unit)
{
    for (; unit < unit_count(params); unit += gridDim.x) {
        const work w = unit_work(params, unit);
        if (w.block_count > 0)
            break;
        int row = threadIdx.x % WARPGROUP;
        if (row < HEADS)
            finish_row(w, row, -infinity(), -infinity(), 0, true);
    }
    return unit;
}

/* Whether P of a block is handed over only when the logits of the next are done. */
__device__ __forceinline__ bool is_held(const work &w, int block)
{
    return block < w.block_count - SMLA_UNHELD_BLOCKS;
}

/* logit = query . key^T of one block, unscaled. */
__device__ __forceinline__ void multiply_keys(block_memory &memory, int slot, const u32 (&query)[REGISTER_STEPS][4],
                                              float (&logit)[KEYS / 2])
{
    u64 k = wgmma_descriptor(shared_window_address(memory.item[slot]), 0, SWIZZLE_BYTES);
    u64 rest = wgmma_descriptor(shared_window_address(memory.query_rest), 0, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < REGISTER_STEPS + REST_STEPS; step++) {
        u32 in_tile = step % TILE_STEPS * WGMMA_K * 2;
        u64 key = wgmma_descriptor_plus(k, step / TILE_STEPS * TILE_BYTES + in_tile);
        if (step < REGISTER_STEPS)
            wgmma_m64n64k16_a_registers_b_k(logit, query[step], key, step > 0);
        else
            wgmma_m64n64k16_b_k(
                logit, wgmma_descriptor_plus(rest, (step / TILE_STEPS - REGISTER_TILES) * TILE_BYTES + in_tile), key,
                step > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
}

__device__ __forceinline__ void wait_for_item(block_memory &memory, ring_position item)
{
    mbarrier_wait(shared_window_address(&memory.item_full[item.slot]), item.phase);
}

__device__ __forceinline__ void softmax_role(const smla_prefill_params &params, block_memory &memory)
{
    /* The largest unscaled logit is the largest scaled one only if the scale is positive; otherwise scale first. */
    const bool scale_first = !(params.sm_scale > 0);
    const float scale_log2 = scale_first ? 1.0f : params.sm_scale * LOG2_E;

    ring_position item = {0, 0};
    u32 p_index = 0, units_done = 0;
    u32 query[REGISTER_STEPS][4];
    u32 unit = next_unit(params, blockIdx.x);
    if (unit < unit_count(params)) {
        wait_for_item(memory, item);
        take_query(memory, item.slot, query);
        mbarrier_arrive(shared_window_address(&memory.query_taken[0]));
        item.advance();
    }
    while (unit < unit_count(params)) {
        const work w = unit_work(params, unit);
        softmax_state state = {{-infinity(), -infinity()}, {-infinity(), -infinity()}, {0, 0}};
        entry_pair entries = first_entries(w);
        for (int block = 0; block < w.block_count; block++, p_index++) {
            const bool last = block == w.block_count - 1;
            const int p_slot = p_slot_of(p_index);
            wait_for_item(memory, item);
            if (arrives_by_itself(block))
                fence_proxy_async(); /* at block 0 for the rest of the query too */
            if (block == 0)
                named_barrier_sync(REST_READY, WARPGROUP);
            float logit[KEYS / 2];
            multiply_keys(memory, item.slot, query, logit);
            item.advance();
            if (block > 0 && is_held(w, block - 1))
                mbarrier_arrive(shared_window_address(&memory.p_ready[p_slot_of(p_index - 1)]));

            const i32 low_index = valid_index(w, block, entries.low), high_index = valid_index(w, block, entries.high);
            if (!last)
                next_entries(entries);

            if (__builtin_expect(scale_first, 0))
#pragma unroll
                for (int i = 0; i < KEYS / 2; i++)
                    logit[i] *= params.sm_scale * LOG2_E;
            u64 valid =
                (u64)__ballot_sync(0xffffffff, high_index >= 0) << 32 | __ballot_sync(0xffffffff, low_index >= 0);
            mask_logits(valid, logit);
            mbarrier_wait(shared_window_address(&memory.p_free[p_slot]), p_phase_of(p_index) ^ 1);
            softmax_block(state, scale_log2, logit, memory, p_slot);
            if (last)
                store_statistics(state, memory.rows[units_done % 2]);
            if (!is_held(w, block))
                mbarrier_arrive(shared_window_address(&memory.p_ready[p_slot]));
        }
        units_done++;
        unit = next_unit(params, unit + gridDim.x);
        if (unit < unit_count(params)) {
            wait_for_item(memory, item);
            named_barrier_sync(REST_FREE, WARPGROUP);
            take_query(memory, item.slot, query);
            item.advance();
        }
        mbarrier_arrive(shared_window_address(&memory.query_taken[units_done % 2]));
    }
}

/* ---- The kernel --------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void init_barriers(block_memory &memory)
{
    for (int slot = 0; slot < SLOTS; slot++)
        mbarrier_init(shared_window_address(&memory.item_full[slot]), OUTPUT_WARPGROUPS * WARPGROUP);
    for (int slot = 0; slot < P_SLOTS; slot++) {
        mbarrier_init(shared_window_address(&memory.p_ready[slot]), WARPGROUP);
        mbarrier_init(shared_window_address(&memory.p_free[slot]), OUTPUT_WARPGROUPS * WARPGROUP);
    }
    for (int turn = 0; turn < 2; turn++)
        mbarrier_init(shared_window_address(&memory.query_taken[turn]), WARPGROUP);
}

template <bool PAGED> __device__ __forceinline__ void prefill(const smla_prefill_params &params)
{
    extern __shared__ __align__(1024) u8 shared[];
    block_memory &memory = *(block_memory *)shared;
    if (threadIdx.x == 0)
        init_barriers(memory);
    named_barrier_sync(SETUP, SMLA_THREADS);
    griddepcontrol_wait();

    int warpgroup = threadIdx.x / WARPGROUP;
    if (warpgroup == 0) {
        setmaxnreg_inc<SMLA_SOFTMAX_REGISTERS>();
        softmax_role(params, memory);
    } else {
        setmaxnreg_dec<SMLA_OUTPUT_REGISTERS>();
        output_role<PAGED>(params, memory, warpgroup - 1);
    }
}

#if SMLA_FLAT
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_persistent(const __grid_constant__ smla_prefill_params params)
{
    prefill<false>(params);
}
#endif

/* The same where a cache has pages. */
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_persistent_paged(const __grid_constant__ smla_prefill_params params)
{
    prefill<true>(params);
}
