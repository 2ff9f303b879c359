/* Turns every token of a quantised cache into a row of bf16, as sm90_dequantise.cuh does with the keys that a list
 * selects, and to the same bits:
 *
 *   row[d] = bf16(float32(value[d] * scale[d / group]))      d < VALUE_ELEMS; the tail behind them is bf16 already
 *
 * `out` of the parameter leads to the rows, [s_kv, d_qk] without gaps, of cache 0. Nothing else of it counts. A thread
 * writes one chunk of each row that it has: what the blocks of threads read and write is all that costs time, so that
 * the loads of several rows are under way at once. What a cache holds where no list selects is read all the same, and
 * may be anything. */
#include "grid_dependency.cuh"
#include "key_format.cuh"
#include "prefill_params.h"
#include "prefill_place.cuh"
#include "sm90_dequantise.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static constexpr int ROW_CHUNKS = SMLA_D_QK / CHUNK_ELEMS;
static constexpr int ROWS_AT_ONCE = SMLA_UNPACK_THREADS / ROW_CHUNKS; /* of a block of threads */
static constexpr int ROWS_UNDER_WAY = 4;                              /* of a thread */

/* A chunk as the cache has it: two words of e4m3, one of e2m1, four of the tail. */
struct packed_chunk {
    uint4 words;
    u32 scale; /* its bits */
};

template <class format> __device__ __forceinline__ packed_chunk load_chunk(const key_source &from, int chunk)
{
    constexpr int TAIL_CHUNK = format::VALUE_ELEMS / CHUNK_ELEMS;
    packed_chunk packed = {{0, 0, 0, 0}, 0};
    if (chunk >= TAIL_CHUNK) {
        packed.words = *(const uint4 *)(from.values + format::TAIL_OFFSET + (chunk - TAIL_CHUNK) * sizeof(uint4));
        return packed;
    }
    const u64 values = from.values + chunk * (CHUNK_ELEMS * format::VALUE_BITS / 8);
    if (format::VALUE_BITS == 4) {
        packed.words.x = *(const u32 *)values;
    } else {
        const uint2 both = *(const uint2 *)values;
        packed.words.x = both.x;
        packed.words.y = both.y;
    }
    const int group = chunk * CHUNK_ELEMS / format::SCALE_GROUP;
    packed.scale =
        format::SCALE_TYPE == SCALE_FP32 ? ((const u32 *)from.scales)[group] : ((const u8 *)from.scales)[group];
    return packed;
}

template <class format> __device__ __forceinline__ uint4 unpack_chunk(const packed_chunk &packed, int chunk)
{
    if (chunk >= format::VALUE_ELEMS / CHUNK_ELEMS)
        return packed.words;
    const u32 scale = format::SCALE_TYPE == SCALE_FP32 ? packed.scale : scale_pair<format>(packed.scale);
    return format::VALUE_BITS == 4 ? scale_e2m1<format>(packed.words.x, scale)
                                   : scale_e4m3<format>(packed.words.x, packed.words.y, scale);
}

extern "C" __global__ void __launch_bounds__(SMLA_UNPACK_THREADS)
    smla_sm90_unpack(const __grid_constant__ smla_prefill_params params)
{
    const smla_key_cache &cache = params.cache[0];
    const int chunk = threadIdx.x % ROW_CHUNKS;
    const i64 step = (i64)gridDim.x * ROWS_AT_ONCE;
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    for (i64 first = (i64)blockIdx.x * ROWS_AT_ONCE + threadIdx.x / ROW_CHUNKS; first < cache.s_kv;
         first += ROWS_UNDER_WAY * step) {
        packed_chunk packed[ROWS_UNDER_WAY];
#pragma unroll
        for (int i = 0; i < ROWS_UNDER_WAY; i++)
            if (first + i * step < cache.s_kv)
                packed[i] = load_chunk<first_format>(find_key<first_format, true>(cache, first + i * step), chunk);
#pragma unroll
        for (int i = 0; i < ROWS_UNDER_WAY; i++)
            if (first + i * step < cache.s_kv)
                ((uint4 *)params.out)[(first + i * step) * ROW_CHUNKS + chunk] =
                    unpack_chunk<first_format>(packed[i], chunk);
    }
}
