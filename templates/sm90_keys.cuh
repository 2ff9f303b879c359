/* A thread's part of the keys to come. fill: what of the slots is filled at the start; the others are as blocks are
 * gone through, from FIRST_BLOCK on. Then fetch may run ahead of the slot that write fills. Entries of the list are
 * read a block ahead of what they select. */
#ifndef SMLA_SM90_KEYS_CUH
#define SMLA_SM90_KEYS_CUH

#include "key_format.cuh"
#include "prefill_work.cuh"
#include "sm90_dequantise.cuh"
#include "sm90_gather.cuh"

static constexpr int KEY_SLOTS = SMLA_KEY_SLOTS;

typedef u8 key_tiles[KEY_TILES][TILE_BYTES];

/* Blocks go through the slots in turn, from one work to the next. */
__device__ __forceinline__ int key_slot(const work &w, int block)
{
    return (u32)(blocks_before(w) + block) % KEY_SLOTS;
}

/* Every cache is bf16. */
template <bool PAGED> struct copied_half {
    static constexpr int FIRST_BLOCK = 0;
    i32 next[COPY_TURNS];
    const u16 *rows[COPY_TURNS];

    __device__ __forceinline__ copied_half(u8 *)
    {
    }
    __device__ __forceinline__ void fill(const work &w, int half, key_tiles *slots, u64 (*key_full)[OUTPUT_WARPGROUPS])
    {
        i32 entries[KEY_SLOTS][COPY_TURNS]; /* read together: one latency */
#pragma unroll
        for (int block = 0; block < KEY_SLOTS; block++)
            load_entries(w, block, entries[block]);
        load_entries(w, KEY_SLOTS, next);
#pragma unroll
        for (int block = 0; block < KEY_SLOTS; block++) {
            if (block >= w.block_count)
                return;
            const int slot = key_slot(w, block);
            find_rows<PAGED>(w, block, entries[block], rows);
            gather_half(w, half, slots[slot], &key_full[slot][half], rows);
        }
    }
    __device__ __forceinline__ void fetch(const work &w, int block, int)
    {
        find_rows<PAGED>(w, block, next, rows);
        load_entries(w, block + 1, next);
    }
    __device__ __forceinline__ void write(const work &w, int, int half, key_tiles &slot, u64 *key_full)
    {
        gather_half(w, half, slot, key_full, rows);
    }
};

/* Some cache is not. What there is of values and tail depends on the half: code is made for HALF alone, or, where it
 * would not fit into the instruction caches, for both (BOTH_HALVES), so that what does not depend on it is there once.
 */
enum { BOTH_HALVES = 2 };

template <bool PAGED, int HALF> struct dequantised_half {
    static constexpr int FIRST_BLOCK = HALF == BOTH_HALVES ? -KEY_SLOTS : 0;
    i32 next[2];
    key_sources from;
    raw_half raw;

    __device__ __forceinline__ dequantised_half(u8 *staged)
    {
        raw.staged = STAGED_TURNS > 0 ? shared_address(staged) + threadIdx.x % WARPGROUP * (u32)sizeof(uint4) : 0;
    }
    __device__ __forceinline__ void load(const work &w, int block)
    {
#pragma unroll
        for (int k = 0; k < 2; k++)
            next[k] = load_entry(w, block, my_rows().low + 8 * k);
    }
    __device__ __forceinline__ void find(const work &w, int block)
    {
        const int cache = cache_of(w, block);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const i32 index = valid_index(w, block, next[k]);
            from.key[k] = cache == 0 ? find_key<first_format, PAGED>(w.params.cache[0], index)
                                     : find_key<second_format, PAGED>(w.params.cache[CACHES - 1], index);
        }
    }
    template <int OF> __device__ __forceinline__ void fetch_of(const work &w, int block)
    {
        if (cache_of(w, block) == 0)
            fetch_half<first_format, OF>(from, raw, w.params.query);
        else
            fetch_half<second_format, OF>(from, raw, w.params.query);
    }
    template <int OF> __device__ __forceinline__ void write_of(const work &w, int block, key_tiles &slot, u64 *key_full)
    {
        if (cache_of(w, block) == 0)
            write_half<first_format, OF>(from, slot, key_full, raw, w.params.query);
        else
            write_half<second_format, OF>(from, slot, key_full, raw, w.params.query);
    }
    __device__ __forceinline__ void fill(const work &w, int half, key_tiles *slots, u64 (*key_full)[OUTPUT_WARPGROUPS])
    {
        load(w, 0);
        for (int block = 0; block < KEY_SLOTS + FIRST_BLOCK && block < w.block_count; block++) {
            const int slot = key_slot(w, block);
            fetch(w, block, half);
            write(w, block, half, slots[slot], &key_full[slot][half]);
        }
    }
    __device__ __forceinline__ void fetch(const work &w, int block, int half)
    {
        find(w, block);
        if (HALF < BOTH_HALVES)
            fetch_of<HALF % BOTH_HALVES>(w, block);
        else if (half == 0)
            fetch_of<0>(w, block);
        else
            fetch_of<1>(w, block);
        load(w, block + 1);
    }
    __device__ __forceinline__ void write(const work &w, int block, int half, key_tiles &slot, u64 *key_full)
    {
        if (HALF < BOTH_HALVES)
            write_of<HALF % BOTH_HALVES>(w, block, slot, key_full);
        else if (half == 0)
            write_of<0>(w, block, slot, key_full);
        else
            write_of<1>(w, block, slot, key_full);
    }
};

/* Arrivals at key_full of each half. */
static constexpr int KEY_ARRIVALS = DEQUANTISES ? 2 * WARPGROUP : WARPGROUP;

#endif
