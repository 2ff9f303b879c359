/* A thread's part of the keys to come, in two steps: fetch may run ahead of the key slot, write may not. */
#ifndef SMLA_SM90_KEYS_CUH
#define SMLA_SM90_KEYS_CUH

#include "key_format.cuh"
#include "prefill_work.cuh"
#include "sm90_dequantise.cuh"
#include "sm90_gather.cuh"

/* Every cache is bf16. */
template <bool PAGED> struct copied_half {
    const u16 *rows[COPY_TURNS];
    __device__ __forceinline__ void start(const work &)
    {
    }
    __device__ __forceinline__ void fetch(const work &w, int block, int)
    {
        find_rows<PAGED>(w, block, rows);
    }
    __device__ __forceinline__ void write(const work &w, int, int half, u8 (&key)[KEY_TILES][TILE_BYTES], u64 *key_full)
    {
        gather_half(w, half, key, key_full, rows);
    }
};

/* Some cache is not. */
template <bool PAGED> struct dequantised_half {
    raw_keys raw;
    __device__ __forceinline__ void start(const work &w)
    {
        fetch_entries(w, 0, raw);
    }
    __device__ __forceinline__ void fetch(const work &w, int block, int half)
    {
        if (cache_of(w, block) == 0)
            fetch_half<first_format, PAGED>(w, block, half, raw);
        else
            fetch_half<second_format, PAGED>(w, block, half, raw);
        fetch_entries(w, block + 1, raw);
    }
    __device__ __forceinline__ void write(const work &w, int block, int half, u8 (&key)[KEY_TILES][TILE_BYTES],
                                          u64 *key_full)
    {
        if (cache_of(w, block) == 0)
            write_half<first_format>(w, half, key, key_full, raw);
        else
            write_half<second_format>(w, half, key, key_full, raw);
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
