/* Gathers bf16 keys by index into a key slot of shared memory: tiles of 64 keys by 64 columns (sm90_tile.cuh), zeros
 * where the entry is invalid. A warpgroup gathers the half of the columns that it multiplies by itself. */
#ifndef SMLA_SM90_GATHER_CUH
#define SMLA_SM90_GATHER_CUH

#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_tile.cuh"

static constexpr int KEY_TILES = SMLA_D_QK / TILE_COLUMNS;
static constexpr int V_TILES = SMLA_D_V / TILE_COLUMNS;
static constexpr int REST_TILES = KEY_TILES - V_TILES; /* of K alone */
static constexpr int OUTPUT_WARPGROUPS = 2;            /* gather, and hold half of out each */
static constexpr int OUTPUT_COLUMNS = SMLA_D_V / OUTPUT_WARPGROUPS;
static constexpr int HALF_TILES = V_TILES / OUTPUT_WARPGROUPS;

static_assert(REST_TILES >= 0 && REST_TILES <= 1,
              "columns of K that are not of V: each warpgroup copies half of their rows");

/* The rows of a block that a thread copies: eight threads a row, 16 rows at once, four turns. */
static constexpr int COPY_ROWS = WARPGROUP / 8;
static constexpr int COPY_TURNS = KEYS / COPY_ROWS;

/* Reads the entries for this thread's rows of a block. */
__device__ __forceinline__ void load_entries(const work &w, int block, i32 (&entry)[COPY_TURNS])
{
#pragma unroll
    for (int turn = 0; turn < COPY_TURNS; turn++)
        entry[turn] = load_entry(w, block, turn * COPY_ROWS + threadIdx.x % WARPGROUP / 8);
}

/* Where this thread's rows of a block begin; nullptr where the entry is invalid. */
template <bool PAGED>
__device__ __forceinline__ void find_rows(const work &w, int block, const i32 (&entry)[COPY_TURNS],
                                          const u16 *(&row)[COPY_TURNS])
{
    const smla_key_cache &cache = w.params.cache[cache_of(w, block)];
#pragma unroll
    for (int turn = 0; turn < COPY_TURNS; turn++) {
        i32 index = valid_index(w, block, entry[turn]);
        row[turn] = index >= 0 ? (const u16 *)cache.kv + row_offset<PAGED>(cache, index) : nullptr;
    }
}

/* Gathers this warpgroup's half of the columns of a block's keys; zeros for invalid entries, which are not read.
 * key_full: mbarrier at which each thread arrives when its copies are written. */
__device__ __forceinline__ void gather_half(const work &w, int half, u8 (&key)[KEY_TILES][TILE_BYTES], u64 *key_full,
                                            const u16 *const (&rows)[COPY_TURNS])
{
    int row = threadIdx.x % WARPGROUP / 8, chunk = threadIdx.x % 8;
    u32 tile = shared_address(key[half * HALF_TILES]) + swizzled(row, chunk);
#pragma unroll
    for (int turn = 0; turn < COPY_TURNS; turn++) {
        bool valid = rows[turn] != nullptr;
        /* an address that may be formed, whatever kv is, when nothing is read */
        const u16 *source =
            valid ? rows[turn] + half * OUTPUT_COLUMNS + chunk * CHUNK_ELEMS : (const u16 *)w.params.query;
#pragma unroll
        for (int i = 0; i < HALF_TILES; i++)
            cp_async_16(tile + i * TILE_BYTES + turn * COPY_ROWS * ROW_BYTES,
                        valid ? source + i * TILE_COLUMNS : source, valid ? 16 : 0);
        /* The columns that are not of V: rows 0 to 31 by half 0, the others by half 1. */
        if (REST_TILES > 0 && turn / (COPY_TURNS / OUTPUT_WARPGROUPS) == half) {
            u32 to = shared_address(key[V_TILES]) + swizzled(row, chunk);
            cp_async_16(to + turn * COPY_ROWS * ROW_BYTES, valid ? source + SMLA_D_V - half * OUTPUT_COLUMNS : source,
                        valid ? 16 : 0);
        }
    }
    cp_async_mbarrier_arrive(shared_address(key_full));
}

#endif
