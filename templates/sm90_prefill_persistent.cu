/* Sparse MLA prefill for sm_90, one bf16 cache: blocks that live as long as the launch, the query in registers.
 *
 *   logit[h, j] = sm_scale * sum_d query[h, d] * kv[indices[j], d]        over the valid entries j of the list
 *   out[h, :]   = sum_j exp(logit[h, j]) * kv[indices[j], :d_v] / (sum_j exp(logit[h, j]) + exp(attn_sink[h]))
 *
 * in base 2, one pass over the list in blocks of 64 keys, with the largest logit so far as reference (online softmax):
 * what sm90_prefill.cu computes, and to the same tiles. A block of threads computes many units of work one after the
 * other, each a query token and up to 64 of its heads, and what one unit leaves idle the next one uses:
 *
 *   query   [64 heads, d_qk]      by tensor copies into a slot (rows of heads that there are not are zeros), from there
 *                                 into registers of the softmax warpgroup, but for its last columns
 *   key     [64 keys, d_qk]       gathered by index into one of three slots, zeros where the entry is invalid; the same
 *                                 bytes are K (along d) and V (along keys). What is K alone, its tail (d_qk 576: one
 *                                 tile), has a place of its own, and comes when the tail before it has been read
 *   P       [64 heads, 64 keys]   bf16, through shared memory from the softmax warpgroup to the output warpgroups. Two
 *                                 slots; beside a tail one, which is written as P . V of the block before reads it
 *   out     [64 heads, d_v]       fp32 accumulators, half of the columns in each output warpgroup; as bf16 through the
 *                                 slot of the last block of keys, by tensor copies
 *
 * The softmax warpgroup multiplies query by key and does the softmax. Each output warpgroup multiplies P by its half of
 * V's columns, and gathers that half of every key: what it alone reads last it may overwrite without asking. The matrix
 * unit works for one side while the other computes: P . V of a block runs beside the softmax of the next.
 *
 * What follows from it and is easily lost (docs/performance.md has the measurements): the output warpgroups' loop has
 * no register to spare and, but for row_scale, no load of its own between a gather and P . V, for it would queue behind
 * the gather; the softmax warpgroup fences with no load or store in flight but P's; tensor copies are spread over
 * warps. */
#include "grid_dependency.cuh"
#include "math.cuh"
#include "prefill_params.h"
#include "prefill_place.cuh"
#include "prefill_tensor_params.h"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_tile.cuh"
#include "smla_config.cuh"
#include "smla_wgmma.cuh"
#include "types.cuh"
#include "unit_range.cuh"

static constexpr int HEADS = SMLA_BLOCK_HEADS;
static constexpr int SLOTS = SMLA_ITEM_SLOTS;
static constexpr int P_SLOTS = SMLA_PROBABILITY_SLOTS;
static constexpr int OUTPUT_WARPGROUPS = 2;
static constexpr int OUTPUT_COLUMNS = SMLA_D_V / OUTPUT_WARPGROUPS;
static constexpr int TILES = SMLA_D_QK / TILE_COLUMNS;
static constexpr int VALUE_TILES = SMLA_D_V / TILE_COLUMNS; /* the first of a key */
static constexpr bool HAS_TAIL = TILES > VALUE_TILES;       /* a key's last tile, which is no value */
static constexpr int HALF_TILES = VALUE_TILES / OUTPUT_WARPGROUPS;
static constexpr int REGISTER_TILES = SMLA_QUERY_REGISTER_TILES; /* of the query; the rest is in shared memory */
static constexpr int REST_TILES = TILES - REGISTER_TILES;
static constexpr int TILE_STEPS = TILE_COLUMNS / WGMMA_K;
static constexpr int P_PARTS = HAS_TAIL ? KEYS / WGMMA_K : P_SLOTS; /* of what P is in, free one after the other */
static constexpr int REGISTER_STEPS = REGISTER_TILES * TILE_STEPS;
static constexpr int REST_STEPS = REST_TILES * TILE_STEPS;

static_assert(HEADS == 64 && KEYS == 64, "tiles have 64 rows");
static_assert(TILES == VALUE_TILES + HAS_TAIL, "an item is its values; a tail is one tile");
static_assert(REGISTER_TILES <= VALUE_TILES, "a query's tail does not go through a slot");
static_assert(TILE_COLUMNS == SMLA_MAP_COLUMNS && SMLA_OUT_MAP_HEADS == 64, "a box is rows of a tile");
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
    u8 item[SLOTS][VALUE_TILES][TILE_BYTES]; /* of a unit's last block of keys: at the end out, bf16 */
    u8 probability[P_SLOTS][TILE_BYTES];     /* where keys have tails: P of one block, the tail of another */
    u8 query_rest[REST_TILES][TILE_BYTES];
    float row_scale[P_SLOTS][HEADS]; /* out is multiplied by it before the block's P . V */
    row_statistics rows;             /* of a unit, once its last P is there */
    u64 key_full[SLOTS];
    u64 p_ready[P_SLOTS];
    u64 p_free[P_PARTS + HAS_TAIL]; /* the last of a tail: tail_full */
    u64 query_full;
    u64 query_rest_full;
    range_memory range;
};

/* As planned: each region begins where the one before ends. (NVRTC has no offsetof.) */
static_assert(SMLA_ITEM_OFFSET == 0, "");
static_assert(SMLA_PROBABILITY_OFFSET == SMLA_ITEM_OFFSET + sizeof(block_memory::item), "");
static_assert(SMLA_QUERY_REST_OFFSET == SMLA_PROBABILITY_OFFSET + sizeof(block_memory::probability), "");
static_assert(SMLA_ROW_SCALE_OFFSET == SMLA_QUERY_REST_OFFSET + sizeof(block_memory::query_rest), "");
static_assert(SMLA_ROWS_OFFSET == SMLA_ROW_SCALE_OFFSET + sizeof(block_memory::row_scale), "");
static_assert(SMLA_BARRIERS_OFFSET == SMLA_ROWS_OFFSET + sizeof(block_memory::rows), "");
static_assert(SMLA_RANGE_OFFSET == SMLA_BARRIERS_OFFSET + (SLOTS + P_SLOTS + P_PARTS + HAS_TAIL + 2) * sizeof(u64), "");
static_assert(SMLA_SHARED_BYTES == sizeof(block_memory), "");

/* ---- Barriers ----------------------------------------------------------------------------------------------- */

/* mbarriers, each with one phase a use of what it guards; block i of keys counted through all units of the block of
 * threads:
 *
 *   output   --key_full[slot]--------->  softmax   all 256 threads' copies of the block have been written
 *   output   --query_full------------->  softmax   a unit's query has been written, by tensor copies, a tile each, but
 *                                                  for the rest of it
 *   softmax  --query_rest_full-------->  softmax   the rest has, too
 *   softmax  --p_ready[i % 2]--------->  output    P and row_scale of block i are stored, its logits have read the key.
 *                                                  But for a unit's last blocks this is told when the logits of block
 *                                                  i + 1 are under way: P . V is held back until the matrix unit has
 *                                                  little else to do. At a unit's last block its row_statistics are
 *                                                  there
 *   output   --p_free[i % 2]---------->  softmax   all 256 threads arrive when P . V of block i is done, and, at a
 *                                                  unit's last block, row_statistics are read. Where keys have tails:
 *                                                  p_free[k], when it is done with columns 16 k and on of P
 *   output   --tail_full-------------->  softmax   all 256 threads' copies of the tail of block i have been written
 *
 * A slot is written again by the warpgroup that multiplies by it last: its half of a block of keys after its own P . V
 * (the logits came before P) or when its half of out has been read, its half of a query once that has been taken. The
 * softmax warpgroup orders for wgmma what it has waited for (keys) and written (P).
 *
 * Named barriers join the threads of one warpgroup, but for QUERY_TAKEN: the softmax warpgroup arrives when it has
 * taken a query out of its slot, and the output warpgroups wait. They copy no query before they have waited for the one
 * before it, so that the softmax warpgroup cannot arrive twice while one of their warps is late. (Where nothing is to
 * follow a query into its slot nobody waits. An mbarrier would do, but ptxas then serialises wgmma: C7515.) */
enum named_barrier {
    SETUP = 0,     /* all threads */
    REST_FREE = 1, /* softmax warpgroup: all warps' last logits of a unit are done, which read the rest of the query */
    HALF_READ = 2, /* + half, output warpgroup: all warps have read their half of the slot; when out is staged: have
                      written it */
    QUERY_TAKEN = 4, /* all threads: the softmax warpgroup does not wait */
    TAIL_READ = 5,   /* the same: its logits have read the tail of block i, and that of i + 1 may take its place */
};

/* Where a unit's blocks of keys lie: the slots go round one way, and the other way for the next unit. So each item goes
 * to the slot that is free first. The last slots of a unit of n blocks, what is in them at its end, and what comes
 * next:
 *
 *   of block n - 3   free first: the next unit's query, and when that has been taken its block 1
 *   of block n - 2   its block 0
 *   of block n - 1   when P . V is done: out; when out has been read: its block 2 */
struct slot_sequence {
    int slot; /* of the block */
    int step; /* to the next block's: 1 or SLOTS - 1 */

    __device__ __forceinline__ static int wrap(int slot)
    {
        return slot < SLOTS ? slot : slot - SLOTS;
    }
    __device__ __forceinline__ int next() const
    {
        return wrap(slot + step);
    }
    __device__ __forceinline__ int previous() const
    {
        return wrap(slot + SLOTS - step);
    }
    /* From a unit's last block to the next unit's first. */
    __device__ __forceinline__ void turn()
    {
        slot = previous();
        step = SLOTS - step;
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

/* Where P of a block is. Where keys have tails it has one place, and the tail the other. */
__device__ __forceinline__ u32 p_tile(block_memory &memory, int p_slot)
{
    return shared_window_address(memory.probability[HAS_TAIL ? 0 : p_slot]);
}
__device__ __forceinline__ u32 tail_tile(block_memory &memory)
{
    return shared_window_address(memory.probability[1]);
}
__device__ __forceinline__ u32 tail_full(block_memory &memory)
{
    return shared_window_address(&memory.p_free[P_PARTS + HAS_TAIL - 1]);
}

/* ---- Units of work ------------------------------------------------------------------------------------------- */

/* Unit u is heads 64 (u % HEAD_BLOCKS) and on of token u / HEAD_BLOCKS. Which of them a block has: unit_range.cuh. */
__device__ __forceinline__ work unit_work(const smla_prefill_params &params, u32 unit)
{
    int first_head = unit % SMLA_HEAD_BLOCKS * HEADS;
    return make_work(params, {unit / SMLA_HEAD_BLOCKS}, first_head, min(HEADS, SMLA_H_Q - first_head));
}

/* ---- Role: output ------------------------------------------------------------------------------------------- */

/* The rows of a block of keys that a thread copies: eight threads a row, 16 rows at once, four turns. */
static constexpr int COPY_ROWS = WARPGROUP / 8;
static constexpr int COPY_TURNS = KEYS / COPY_ROWS;
static_assert(SMLA_QUERY_MAP_HEADS == HEADS && HALF_TILES == WARPGROUP / 32, "a warp copies a tile of the query");

/* One thread: copies a tile of unit `of`'s query; heads that there are not are zeros. */
__device__ __forceinline__ void copy_query_tile(const smla_prefill_tensor_params &params, u32 of, int tile,
                                                u64 &barrier, u8 (&to)[TILE_BYTES])
{
    const u32 full = shared_window_address(&barrier);
    mbarrier_arrive_expect_tx(full, TILE_BYTES);
    copy_tensor_3d(shared_window_address(to), &params.query_map, tile * TILE_COLUMNS, of % SMLA_HEAD_BLOCKS * HEADS,
                   of / SMLA_HEAD_BLOCKS, full);
}

/* The items to come, in order: each unit's query, its blocks of keys. */
template <bool PAGED, bool RANGED> struct item_stream {
    static constexpr i32 QUERY = -1;
    u32 unit;
    i32 block;             /* of keys; QUERY: the unit's query, before block 0 */
    i32 left;              /* entries from the block on that count */
    i32 entry[COPY_TURNS]; /* of this thread's rows of the block: `row` and each COPY_ROWS further */
    i32 row;
    u64 first_chunk; /* address of this thread's in row 0 of the cache */
    u32 chunk_bytes; /* of row `row` of this chunk, in a slot */
    int thread;
    bool owes_tail;                 /* that of the block of keys gathered last is still to be gathered */
    i32 tail_entry[COPY_TURNS / 2]; /* the entries of that block of which this thread copies the tail */

    __device__ __forceinline__ item_stream(const smla_prefill_params &params, const unit_walk<RANGED> &walk, int half)
        : unit(walk.first())
    {
        /* Through a shuffle: the compiler, which would read the thread's number again for each use, keeps the values.
         */
        thread = __shfl_sync(0xffffffff, threadIdx.x % WARPGROUP, threadIdx.x % 32);
        owes_tail = false;
        set_place(params, half, thread);
        find(params, walk);
    }

    /* What of a row thread `of` copies. */
    __device__ __forceinline__ void set_place(const smla_prefill_params &params, int half, int of)
    {
        const int chunk = of % 8;
        row = of / 8;
        first_chunk = (u64)params.cache[0].kv + (half * OUTPUT_COLUMNS + chunk * CHUNK_ELEMS) * sizeof(u16);
        chunk_bytes = half * HALF_TILES * TILE_BYTES + swizzled(row, chunk);
    }

    /* Works that out anew, so that it takes no registers from one gather to the next: with tails there are none. */
    __device__ __forceinline__ void find_place(const smla_prefill_params &params, int half)
    {
        if (!HAS_TAIL)
            return;
        u32 again;
        asm volatile("mov.u32 %0, %1;" : "=r"(again) : "r"(thread));
        set_place(params, half, again);
    }

    __device__ __forceinline__ bool there(const unit_walk<RANGED> &walk) const
    {
        return unit < walk.end();
    }

    __device__ __forceinline__ void load_entries(const smla_prefill_params &params)
    {
        const smla_key_cache &cache = params.cache[0];
        const i32 *list =
            cache.indices + unit / SMLA_HEAD_BLOCKS * cache.indices_stride_token + (max(block, 0) * KEYS + row);
#pragma unroll
        for (int turn = 0; turn < COPY_TURNS; turn++)
            entry[turn] = load_global_i32_if(turn * COPY_ROWS + row < left, list + turn * COPY_ROWS, -1);
    }

    /* From `unit` on, the first with keys: its query, and the entries of its first block. */
    __device__ __forceinline__ void find(const smla_prefill_params &params, const unit_walk<RANGED> &walk)
    {
        block = QUERY;
        for (; unit < walk.end(); unit += walk.step()) {
            const work w = unit_work(params, unit);
            if (w.block_count == 0)
                continue;
            left = w.length[0];
            load_entries(params);
            return;
        }
    }

    __device__ __forceinline__ void advance(const smla_prefill_params &params, const unit_walk<RANGED> &walk)
    {
        block++;
        if (left <= KEYS) {
            unit += walk.step();
            find(params, walk);
            return;
        }
        left -= KEYS;
        load_entries(params);
    }

    /* Where this thread's part of an entry's row begins. Of one that is not valid the address means nothing; no byte of
     * it is read. */
    __device__ __forceinline__ u64 source(const smla_prefill_params &params, i32 of) const
    {
        const smla_key_cache &cache = params.cache[0];
        if (PAGED)
            return first_chunk + row_offset<PAGED>(cache, of) * sizeof(u16);
        return first_chunk + (u32)of * (cache.kv_stride_token * sizeof(u16));
    }

    /* Copies what of this half's columns of the unit's query goes to registers, into a slot: a tile a warp. */
    __device__ __forceinline__ void copy_query(const smla_prefill_tensor_params &params, int half, block_memory &memory,
                                               int slot)
    {
        const lane_rows rows = my_rows();
        const int tile = half * HALF_TILES + rows.warp;
        if (rows.lane == 0 && tile < REGISTER_TILES)
            copy_query_tile(params, unit, tile, memory.query_full, memory.item[slot][tile]);
        block = 0;
    }

    /* Gathers this warpgroup's half of the columns of a block of keys; zeros for an invalid entry, which is not read.
     */
    __device__ __forceinline__ void gather(const smla_prefill_params &params, const unit_walk<RANGED> &walk, int half,
                                           block_memory &memory, int slot)
    {
        find_place(params, half);
        const u32 to = shared_window_address(memory.item[slot]) + chunk_bytes;
#pragma unroll
        for (int turn = 0; turn < COPY_TURNS; turn++) {
            const bool valid = (u32)entry[turn] < params.cache[0].s_kv;
            const u64 from = source(params, entry[turn]);
#pragma unroll
            for (int i = 0; i < HALF_TILES; i++)
                cp_async_16(to + turn * COPY_ROWS * ROW_BYTES + i * TILE_BYTES,
                            (const void *)(from + i * TILE_COLUMNS * sizeof(u16)), valid ? 16 : 0);
        }
        cp_async_mbarrier_arrive(shared_window_address(&memory.key_full[slot]));
#pragma unroll
        for (int turn = 0; turn < COPY_TURNS / 2; turn++)
            tail_entry[turn] = half == 0 ? entry[turn] : entry[COPY_TURNS / 2 + turn];
        owes_tail = true;
        advance(params, walk);
    }

    /* Gathers this warpgroup's half of the rows of the tail that is owed, when the one before it has been read
     * (`first`: there is none). */
    __device__ __forceinline__ void gather_tail(const smla_prefill_params &params, int half, block_memory &memory,
                                                bool first = false)
    {
        if (!HAS_TAIL || !owes_tail)
            return;
        if (!first)
            named_barrier_sync(TAIL_READ, SMLA_THREADS);
        owes_tail = false;
        find_place(params, half);
        const u32 to =
            tail_tile(memory) + chunk_bytes - half * (HALF_TILES * TILE_BYTES - TILE_BYTES / OUTPUT_WARPGROUPS);
#pragma unroll
        for (int turn = 0; turn < COPY_TURNS / 2; turn++)
            cp_async_16(
                to + turn * COPY_ROWS * ROW_BYTES,
                (const void *)(source(params, tail_entry[turn]) + (SMLA_D_V - half * OUTPUT_COLUMNS) * sizeof(u16)),
                (u32)tail_entry[turn] < params.cache[0].s_kv ? 16 : 0);
        cp_async_mbarrier_arrive(tail_full(memory));
    }

    /* Starts copying the next item. All threads of the warpgroup have read what the slot held. */
    __device__ __forceinline__ void refill(const smla_prefill_tensor_params &params, const unit_walk<RANGED> &walk,
                                           int half, block_memory &memory, int slot)
    {
        if (block == QUERY)
            copy_query(params, half, memory, slot);
        else
            gather(params.prefill, walk, half, memory, slot);
    }

    /* Until a query has left its slot. It is read by the generic proxy, which the copy of another must be ordered
     * behind. */
    __device__ __forceinline__ void wait_for_query(bool orders) const
    {
        named_barrier_sync(QUERY_TAKEN, SMLA_THREADS);
        if (orders && block == QUERY)
            fence_proxy_async();
    }
};

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

/* Starts out += P . V of one block, this half's columns. */
__device__ __forceinline__ void start_values(block_memory &memory, int half, int slot, int p_slot,
                                             float (&out)[OUTPUT_COLUMNS / 2])
{
    u64 p = wgmma_descriptor(p_tile(memory, p_slot), 0, SWIZZLE_BYTES);
    u64 v = wgmma_descriptor(shared_window_address(memory.item[slot][half * HALF_TILES]), TILE_BYTES, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < KEYS; k += WGMMA_K) {
        wgmma_m64n256k16_b_mn(out, wgmma_descriptor_plus(p, k * 2), wgmma_descriptor_plus(v, k * ROW_BYTES), 1);
        if (HAS_TAIL || k + WGMMA_K == KEYS)
            wgmma_commit_group();
    }
}

/* Waits for P . V, and says of P what may be written again. */
__device__ __forceinline__ void finish_values(block_memory &memory, int p_slot)
{
    if (!HAS_TAIL) {
        wgmma_wait_group<0>();
        mbarrier_arrive(shared_window_address(&memory.p_free[p_slot]));
        return;
    }
    static_assert(!HAS_TAIL || P_PARTS == 4, "a group of wgmma each");
    wgmma_wait_group<3>();
    mbarrier_arrive(shared_window_address(&memory.p_free[0]));
    wgmma_wait_group<2>();
    mbarrier_arrive(shared_window_address(&memory.p_free[1]));
    wgmma_wait_group<1>();
    mbarrier_arrive(shared_window_address(&memory.p_free[P_PARTS - 2]));
    wgmma_wait_group<0>();
    mbarrier_arrive(shared_window_address(&memory.p_free[P_PARTS - 1]));
}

/* The row that a lane finishes: of the four lanes that share two rows the first and third the lower. */
__device__ __forceinline__ int finish_row_of_lane()
{
    const lane_rows rows = my_rows();
    return rows.low + 8 * (rows.lane % 2);
}

/* Writes lse and max_logits of the unit's rows (once: `writes`); the factors that turn accumulators into out, of this
 * lane's rows. */
__device__ __forceinline__ void finish_rows(const work &w, const row_statistics &of, float sink, bool writes,
                                            float &low, float &high)
{
    const lane_rows rows = my_rows();
    const int row = finish_row_of_lane();
    const float4 sum = of.sum[row], max = of.max[row];
    const float scale =
        finish_row_with(w, row, sink, max_nan(max_nan(max.x, max.y), max_nan(max.z, max.w)), of.reference[row],
                        (sum.x + sum.y) + (sum.z + sum.w), writes && rows.lane % 4 < 2);
    low = __shfl_sync(0xffffffff, scale, rows.lane / 2 * 2);
    high = __shfl_sync(0xffffffff, scale, rows.lane / 2 * 2 + 1);
}

/* Multiplies by low and high (of this lane's rows), rounds to bf16, and starts storing this half of out by way of a
 * slot: each warp stages its 16 rows and stores a tile. */
__device__ __forceinline__ void store_out(const smla_prefill_tensor_params &params, const work &w, int half,
                                          u8 (&slot)[VALUE_TILES][TILE_BYTES], float low, float high,
                                          const float (&out)[OUTPUT_COLUMNS / 2])
{
    lane_rows rows = my_rows();
    const u32 staged = shared_window_address(slot[half * HALF_TILES]);

    /* Stage: matrix m of a store is rows 8 (m % 2), chunk m / 2 of 16 columns. */
    int row = 16 * rows.warp + rows.lane % 16;
#pragma unroll
    for (int column = 0; column < OUTPUT_COLUMNS; column += 16) {
        const float *d = out + column / 2;
        int chunk = column % TILE_COLUMNS / CHUNK_ELEMS + rows.lane / 16;
        stmatrix_x4(staged + column / TILE_COLUMNS * TILE_BYTES + swizzled(row, chunk),
                    pack_bf16(d[0] * low, d[1] * low), pack_bf16(d[2] * high, d[3] * high),
                    pack_bf16(d[4] * low, d[5] * low), pack_bf16(d[6] * high, d[7] * high));
    }
    fence_proxy_async();
    named_barrier_sync(HALF_READ + half, WARPGROUP);
    if (rows.lane == 0) {
        store_tensor_3d(&params.out_map, half * OUTPUT_COLUMNS + rows.warp * TILE_COLUMNS, w.first_head, (i32)w.token,
                        staged + rows.warp * TILE_BYTES);
        bulk_commit_group();
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

template <bool PAGED, bool RANGED>
__device__ __forceinline__ void output_role(const smla_prefill_tensor_params &tensor_params, block_memory &memory,
                                            int half)
{
    const smla_prefill_params &params = tensor_params.prefill;
    const unit_walk<RANGED> walk(params, memory.range);
    item_stream<PAGED, RANGED> next(params, walk, half);
    if (next.there(walk)) {
        /* The first query goes into the last slot, and what follows into the others and behind it. Nothing is to wait
         * for before that, or before another query. */
        next.copy_query(tensor_params, half, memory, SLOTS - 1);
        bool waited = false;
#pragma unroll 1
        for (int slot = 0; slot < SLOTS && next.there(walk); slot++) {
            if (!waited && (slot == SLOTS - 1 || next.block == next.QUERY)) {
                next.wait_for_query(!HAS_TAIL); /* a tail that has been read tells of it, and of the fence behind it */
                waited = true;
            }
            const bool starts = next.block == 0;
            next.refill(tensor_params, walk, half, memory, slot);
            if (slot < 2 || starts) /* the first two blocks */
                next.gather_tail(params, half, memory, slot == 0);
        }
    }

    slot_sequence key = {0, 1};
    u32 p_index = 0;
    bool staged = false; /* out of the unit before is on its way out of its slot, which is to be refilled */
    for (u32 unit = walk.first(); unit < walk.end(); unit += walk.step()) {
        const work w = unit_work(params, unit);
        if (unit + walk.step() >= walk.end()) /* the block's last */
            griddepcontrol_launch_dependents();
        if (w.block_count == 0) {
            store_empty(w, half);
            continue;
        }
        float out[OUTPUT_COLUMNS / 2] = {};
        for (int block = 0;; block++, p_index++) {
            const int p_slot = p_slot_of(p_index);
            const bool last = block == w.block_count - 1;
            if (staged) {
                if (threadIdx.x % 32 == 0)
                    bulk_wait_group_read<0>();
                named_barrier_sync(HALF_READ + half, WARPGROUP);
                const bool starts = next.block == 0;
                next.refill(tensor_params, walk, half, memory, key.previous());
                if (starts)
                    next.gather_tail(params, half, memory);
                staged = false;
            }
            /* The next unit's query leaves its slot before this unit's last softmax. */
            if (last && next.there(walk)) {
                next.wait_for_query(true);
                next.refill(tensor_params, walk, half, memory, key.next());
            }
            mbarrier_wait(shared_window_address(&memory.p_ready[p_slot]), p_phase_of(p_index));
            rescale_out(memory, p_slot, out);
            start_values(memory, half, key.slot, p_slot, out);
            if (last)
                break;
            finish_values(memory, p_slot);
            const bool starts = next.block == 0; /* then the tail to come is that of the block to be gathered here */
            if (!starts)
                next.gather_tail(params, half, memory);
            named_barrier_sync(HALF_READ + half, WARPGROUP);
            if (next.there(walk))
                next.refill(tensor_params, walk, half, memory, key.slot);
            if (starts)
                next.gather_tail(params, half, memory);
            key.slot = key.next();
        }
        /* While the matrix unit works on the last block. */
        float low, high;
        finish_rows(w, memory.rows, load_sink(w, finish_row_of_lane()), half == 0, low, high);
        finish_values(memory, p_slot_of(p_index));
        p_index++;
        named_barrier_sync(HALF_READ + half, WARPGROUP);
        next.gather_tail(params, half, memory);
        store_out(tensor_params, w, half, memory.item[key.slot], low, high, out);
        staged = next.there(walk);
        key.turn();
    }
    if (threadIdx.x % 32 == 0)
        bulk_wait_group_read<0>();
}

/* ---- Role: softmax ------------------------------------------------------------------------------------------ */

/* The running state of a lane's two rows, in units of base-2 logits. */
struct softmax_state {
    float max[2]; /* the largest logit so far of this lane's columns; -inf before the first key, NaN after a NaN */
    float reference[2]; /* what exponents are relative to: lags behind the row's max by at most the threshold */
    float sum[2];       /* of 2^(logit - reference), this lane's columns */
};

/* Takes a query out of its slot into registers, as fragments of wgmma's A (PTX ISA 9.7.15.5.1.1.1). `number`: how many
 * of this block of threads went before. */
__device__ __forceinline__ void take_query(block_memory &memory, u32 number, int slot, u32 (&query)[REGISTER_STEPS][4])
{
    mbarrier_wait(shared_window_address(&memory.query_full), number % 2);
    lane_rows rows = my_rows();
    int row = 16 * rows.warp + rows.lane % 16;
    u32 item = shared_window_address(memory.item[slot]);
#pragma unroll
    for (int step = 0; step < REGISTER_STEPS; step++)
        ldmatrix_x4(query[step],
                    item + step / TILE_STEPS * TILE_BYTES + swizzled(row, step % TILE_STEPS * 2 + rows.lane / 16));
    named_barrier_arrive(QUERY_TAKEN, SMLA_THREADS);
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
    const bool first = state.reference[high] == -infinity();
    factor = advance_reference(state.max[high], state.reference[high], max);
    state.sum[high] *= factor;
    if (first) /* out is 0 still */
        factor = 1;
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
                                              block_memory &memory, int p_slot, u32 p_index)
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
    const u32 tile = p_tile(memory, p_slot);
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
        if (HAS_TAIL) /* P of the block before is still in use */
            mbarrier_wait(shared_window_address(&memory.p_free[column / WGMMA_K]), p_index % 2 ^ 1);
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

__device__ __forceinline__ void next_entries(entry_pair &entries)
{
    entries.list += KEYS;
    entries.left -= KEYS;
    load_entries(entries);
}

/* From `unit` on, the first unit with keys, and its first entries; what has none is finished on the way. */
template <bool RANGED>
__device__ __forceinline__ u32 next_unit(const smla_prefill_params &params, const unit_walk<RANGED> &walk, u32 unit,
                                         entry_pair &entries)
{
    for (; unit < walk.end(); unit += walk.step()) {
        const work w = unit_work(params, unit);
        if (w.block_count > 0) {
            const smla_key_cache &cache = params.cache[0];
            const int lane = threadIdx.x % 32;
            entries.list = cache.indices + w.token * cache.indices_stride_token + lane;
            entries.left = w.length[0] - lane;
            load_entries(entries);
            break;
        }
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

/* Starts logit = query . key^T of one block, unscaled. */
__device__ __forceinline__ void start_logits(block_memory &memory, int slot, u32 p_index, bool tells, int told_p_slot,
                                             const u32 (&query)[REGISTER_STEPS][4], float (&logit)[KEYS / 2])
{
    u64 k = wgmma_descriptor(shared_window_address(memory.item[slot]), 0, SWIZZLE_BYTES);
    u64 rest = wgmma_descriptor(shared_window_address(memory.query_rest), 0, SWIZZLE_BYTES);
    u64 tail = wgmma_descriptor(tail_tile(memory), 0, SWIZZLE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < REGISTER_STEPS + REST_STEPS; step++) {
        u32 in_tile = step % TILE_STEPS * WGMMA_K * 2;
        u64 key = step / TILE_STEPS < VALUE_TILES ? wgmma_descriptor_plus(k, step / TILE_STEPS * TILE_BYTES + in_tile)
                                                  : wgmma_descriptor_plus(tail, in_tile);
        if (HAS_TAIL && step == VALUE_TILES * TILE_STEPS) { /* a tail comes later than the rest of the key */
            mbarrier_wait(tail_full(memory), p_index % 2);
            fence_proxy_async();
        }
        if (step < REGISTER_STEPS)
            wgmma_m64n64k16_a_registers_b_k(logit, query[step], key, step > 0);
        else
            wgmma_m64n64k16_b_k(
                logit, wgmma_descriptor_plus(rest, (step / TILE_STEPS - REGISTER_TILES) * TILE_BYTES + in_tile), key,
                step > 0);
        if (step + 1 == SMLA_TOLD_STEPS && tells)
            mbarrier_arrive(shared_window_address(&memory.p_ready[told_p_slot]));
    }
    wgmma_commit_group();
}

/* Copies the rest of unit `of`'s query; no logits that read the one before are under way. */
__device__ __forceinline__ void copy_query_rest(const smla_prefill_tensor_params &params, u32 of, block_memory &memory)
{
    if (threadIdx.x % WARPGROUP == 0)
#pragma unroll
        for (int i = 0; i < REST_TILES; i++)
            copy_query_tile(params, of, REGISTER_TILES + i, memory.query_rest_full, memory.query_rest[i]);
}

template <bool RANGED>
__device__ __forceinline__ void softmax_role(const smla_prefill_tensor_params &tensor_params, block_memory &memory)
{
    const smla_prefill_params &params = tensor_params.prefill;
    /* The largest unscaled logit is the largest scaled one only if the scale is positive; otherwise scale first. */
    const bool scale_first = !(params.sm_scale > 0);
    const float scale_log2 = scale_first ? 1.0f : params.sm_scale * LOG2_E;

    slot_sequence key = {0, 1};
    u32 phases = (u32)scale_first << 31; /* bit s: parity of key_full[s]'s next phase */
    u32 p_index = 0, units_done = 0;
    u32 query[REGISTER_STEPS][4];
    entry_pair entries;
    const unit_walk<RANGED> walk(params, memory.range);
    u32 unit = next_unit(params, walk, walk.first(), entries);
    if (unit < walk.end()) {
        copy_query_rest(tensor_params, unit, memory);
        take_query(memory, 0, SLOTS - 1, query);
    }
    while (unit < walk.end()) {
        const work w = unit_work(params, unit);
        softmax_state state = {{-infinity(), -infinity()}, {-infinity(), -infinity()}, {0, 0}};
        bool key_there = false;
        for (int block = 0; block < w.block_count; block++, p_index++) {
            const bool last = block == w.block_count - 1;
            const bool tells = block > 0 && is_held(w, block - 1);
            const int p_slot = p_slot_of(p_index);
            if (!key_there)
                mbarrier_wait(shared_window_address(&memory.key_full[key.slot]), phases >> key.slot & 1);
            phases ^= 1u << key.slot;
            if (block == 0)
                mbarrier_wait(shared_window_address(&memory.query_rest_full), units_done % 2);
            fence_proxy_async(); /* the keys, which others copied, and P of the block before */
            float logit[KEYS / 2];
            start_logits(memory, key.slot, p_index, tells, p_slot_of(p_index - 1), query, logit);

            /* While the matrix unit works. */
            const i32 low_index = valid_index(w, block, entries.low), high_index = valid_index(w, block, entries.high);
            const u64 valid =
                (u64)__ballot_sync(0xffffffff, high_index >= 0) << 32 | __ballot_sync(0xffffffff, low_index >= 0);
            if (!HAS_TAIL) /* else it is waited for part by part */
                mbarrier_wait(shared_window_address(&memory.p_free[p_slot]), p_phase_of(p_index) ^ 1);
            if (!last)
                next_entries(entries);
            else
                unit = next_unit(params, walk, unit + walk.step(), entries);

            wgmma_wait_group<0>();
            if (HAS_TAIL)
                named_barrier_arrive(TAIL_READ, SMLA_THREADS);
            if (last) {
                key.turn();
                if (unit < walk.end()) {
                    named_barrier_sync(REST_FREE, WARPGROUP);
                    copy_query_rest(tensor_params, unit, memory);
                    take_query(memory, units_done + 1, key.next(), query);
                }
            } else
                key.slot = key.next();
            key_there =
                !last && mbarrier_test(shared_window_address(&memory.key_full[key.slot]), phases >> key.slot & 1);
            if (__builtin_expect((i32)phases < 0, 0))
#pragma unroll
                for (int i = 0; i < KEYS / 2; i++)
                    logit[i] *= params.sm_scale * LOG2_E;
            mask_logits(valid, logit);
            softmax_block(state, scale_log2, logit, memory, p_slot, p_index);
            if (last) {
                /* The statistics of the unit before have been read. */
                if (!HAS_TAIL && w.block_count == 1 && p_index > 0)
                    mbarrier_wait(shared_window_address(&memory.p_free[p_slot_of(p_index - 1)]),
                                  p_phase_of(p_index - 1));
                store_statistics(state, memory.rows);
            }
            if (!is_held(w, block)) {
                fence_proxy_async();
                mbarrier_arrive(shared_window_address(&memory.p_ready[p_slot]));
            }
        }
        units_done++;
    }
}

/* ---- The kernel --------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void init_barriers(block_memory &memory)
{
    for (int slot = 0; slot < SLOTS; slot++)
        mbarrier_init(shared_window_address(&memory.key_full[slot]), OUTPUT_WARPGROUPS * WARPGROUP);
    for (int slot = 0; slot < P_SLOTS; slot++) {
        mbarrier_init(shared_window_address(&memory.p_ready[slot]), WARPGROUP);
        mbarrier_init(shared_window_address(&memory.p_free[slot]), OUTPUT_WARPGROUPS * WARPGROUP);
    }
    for (int i = P_SLOTS; i < P_PARTS + HAS_TAIL; i++)
        mbarrier_init(shared_window_address(&memory.p_free[i]), OUTPUT_WARPGROUPS * WARPGROUP);
    mbarrier_init(shared_window_address(&memory.query_full), REGISTER_TILES);
    mbarrier_init(shared_window_address(&memory.query_rest_full), REST_TILES);
    fence_proxy_async(); /* tensor copies complete on two of them (CUDA programming guide, "Asynchronous data copies")
                          */
}

template <bool PAGED, bool RANGED> __device__ __forceinline__ void prefill(const smla_prefill_tensor_params &params)
{
    extern __shared__ __align__(1024) u8 shared[];
    block_memory &memory = *(block_memory *)shared;
    if (threadIdx.x == 0)
        init_barriers(memory);
    if (!RANGED)
        named_barrier_sync(SETUP, SMLA_THREADS);
    griddepcontrol_wait();
    if (RANGED)
        find_range(params.prefill, memory.range, SETUP);

    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0); /* told to be the same in a warp */
    if (warpgroup == 0) {
        if (HAS_TAIL)
            setmaxnreg_inc<SMLA_SOFTMAX_REGISTERS>();
        softmax_role<RANGED>(params, memory);
    } else {
        if (HAS_TAIL)
            setmaxnreg_dec<SMLA_OUTPUT_REGISTERS>();
        output_role<PAGED, RANGED>(params, memory, warpgroup - 1);
    }
}

#if SMLA_FLAT
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_persistent(const __grid_constant__ smla_prefill_tensor_params params)
{
    prefill<false, false>(params);
}

/* The same where lists have lengths. */
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_persistent_lengths(const __grid_constant__ smla_prefill_tensor_params params)
{
    prefill<false, true>(params);
}
#endif

/* The same where a cache has pages, with lengths or without. */
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_persistent_paged(const __grid_constant__ smla_prefill_tensor_params params)
{
    prefill<true, true>(params);
}
