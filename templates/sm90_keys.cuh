/* A thread's part of the keys to come. fill: all slots, at the start. Then fetch may run ahead of the slot that write
 * fills. Entries of the list are read a block ahead of what they select. */
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
    i32 next[COPY_TURNS];
    const u16 *rows[COPY_TURNS];

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

/* Some cache is not. */
template <bool PAGED> struct dequantised_half {
    raw_keys raw;

    __device__ __forceinline__ void fill(const work &w, int half, key_tiles *slots, u64 (*key_full)[OUTPUT_WARPGROUPS])
    {
        fetch_entries(w, 0, raw);
        for (int block = 0; block < KEY_SLOTS && block < w.block_count; block++) {
            const int slot = key_slot(w, block);
            fetch(w, block, half);
            write(w, block, half, slots[slot], &key_full[slot][half]);
        }
    }
    __device__ __forceinline__ void fetch(const work &w, int block, int half)
    {
        if (cache_of(w, block) == 0)
            fetch_half<first_format, PAGED>(w, block, half, raw);
        else
            fetch_half<second_format, PAGED>(w, block, half, raw);
        fetch_entries(w, block + 1, raw);
    }
    __device__ __forceinline__ void write(const work &w, int block, int half, key_tiles &slot, u64 *key_full)
    {
        if (cache_of(w, block) == 0)
            write_half<first_format>(w, half, slot, key_full, raw);
        else
            write_half<second_format>(w, half, slot, key_full, raw);
    }
};

template <bool DEQUANTISES, bool PAGED> struct either_half {
    using type = copied_half<PAGED>;
};
template <bool PAGED> struct either_half<true, PAGED> {
    using type = dequantised_half<PAGED>;
};
template <bool PAGED> using key_half = typename either_half<DEQUANTISES, PAGED>::type;

/* Arrivals at key_full of each half. */
static constexpr int KEY_ARRIVALS = DEQUANTISES ? 2 * WARPGROUP : WARPGROUP;

#endif
