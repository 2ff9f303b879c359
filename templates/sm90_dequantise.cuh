/* Reads a half of the columns of a block's keys from a cache of any format, turns them into bf16 and writes them into a
 * key slot of shared memory: tiles of 64 keys by 64 columns (sm90_tile.cuh), zeros where the entry is invalid.
 *
 *   key[d] = bf16(float32(value[d] * scale[d / group]))      d < VALUE_ELEMS; the tail behind them is bf16 already
 *
 * In two steps, because the slot may still be in use: fetch_half brings quantised values and scales into registers,
 * write_half converts and stores them, and copies what is bf16. A thread has two keys of the block, which it shares
 * with three neighbours: each of the four has every fourth 16 bytes ("a piece") of them. */
#ifndef SMLA_SM90_DEQUANTISE_CUH
#define SMLA_SM90_DEQUANTISE_CUH

#include "key_format.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_gather.cuh"
#include "sm90_tile.cuh"

static constexpr int MOST_PIECES = 4;      /* of a key half's 16 that a thread has */
static constexpr int MOST_SCALE_WORDS = 4; /* of a key half */

/* What follows from a format, for a half of V's columns. */
template <class format> struct half_of {
    static constexpr bool QUANTISED = format::VALUE_BITS < 16;
    static constexpr int VALUES = 128 / format::VALUE_BITS;                    /* of a piece */
    static constexpr int CHUNKS = VALUES / CHUNK_ELEMS;                        /* that a piece becomes */
    static constexpr int PIECES = QUANTISED ? OUTPUT_COLUMNS / VALUES / 4 : 0; /* that a thread has of a key */
    static constexpr int FIRST_TAIL_TILE = QUANTISED ? format::VALUE_ELEMS / TILE_COLUMNS : 0;
    static constexpr bool FULL = !QUANTISED || format::VALUE_ELEMS >= SMLA_D_V; /* no tail among V's columns */
    static constexpr int SCALES =
        QUANTISED && format::SCALE_GROUP < VALUES ? VALUES / format::SCALE_GROUP : 1; /* of a piece */
    static constexpr int SCALE_SIZE = format::SCALE_TYPE == SCALE_FP32 ? 4 : 1;
    static constexpr int GROUP = QUANTISED ? format::SCALE_GROUP : OUTPUT_COLUMNS;
    static constexpr int RUN_BYTES = (GROUP < OUTPUT_COLUMNS ? OUTPUT_COLUMNS / GROUP : 1) * SCALE_SIZE; /* scales */
    static constexpr bool RUN_IN_WORDS = RUN_BYTES % 4 == 0 && format::SCALE_BYTES % 4 == 0;
    static_assert(PIECES <= MOST_PIECES && RUN_BYTES <= 4 * MOST_SCALE_WORDS, "fits into raw_keys");
    static_assert(format::VALUE_ELEMS % TILE_COLUMNS == 0 && (!QUANTISED || format::VALUE_ELEMS <= SMLA_D_V),
                  "a tile is quantised or not; columns that are not of V are not");
};

/* A thread's two keys, as they come from memory, and the list's entries for those of the next block. Zeros where the
 * entry is invalid. */
struct raw_keys {
    i32 next[2];
    u64 values[2]; /* addresses, 0: an invalid entry */
    uint4 piece[2][MOST_PIECES];
    u32 scales[2][MOST_SCALE_WORDS];
};

/* ---- Fetch ---- */

/* Values of a half: fewer in the second where a tail begins. */
template <class format> __device__ __forceinline__ int half_values(int half)
{
    return max(0, min(OUTPUT_COLUMNS, format::VALUE_ELEMS - half * OUTPUT_COLUMNS));
}

template <class format>
__device__ __forceinline__ void fetch_scales(bool there, u64 scales, int half, u32 (&words)[MOST_SCALE_WORDS])
{
    using parts = half_of<format>;
    int first = half * OUTPUT_COLUMNS / parts::GROUP * parts::SCALE_SIZE;
    int count = (half_values<format>(half) + parts::GROUP - 1) / parts::GROUP * parts::SCALE_SIZE;
    if (parts::RUN_IN_WORDS) {
#pragma unroll
        for (int i = 0; i < parts::RUN_BYTES / 4; i++)
            words[i] = load_global_4_if(there && (parts::FULL || 4 * i < count), scales + first + 4 * i);
        return;
    }
#pragma unroll
    for (int i = 0; i < parts::RUN_BYTES; i++)
        words[i / 4] = (i % 4 ? words[i / 4] : 0) | load_global_1_if(there && i < count, scales + first + i)
                                                        << i % 4 * 8;
}

/* Reads the entries for a block: a fetch ahead, because what they select is read at once. */
__device__ __forceinline__ void fetch_entries(const work &w, int block, raw_keys &raw)
{
#pragma unroll
    for (int k = 0; k < 2; k++)
        raw.next[k] = load_entry(w, block, my_rows().low + 8 * k);
}

/* The block whose entries were read last. */
template <class format, bool PAGED>
__device__ __forceinline__ void fetch_half(const work &w, int block, int half, raw_keys &raw)
{
    using parts = half_of<format>;
    const smla_key_cache &cache = w.params.cache[cache_of(w, block)];
    int pieces = half_values<format>(half) / parts::VALUES, mine = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        key_source from = find_key<format, PAGED>(cache, valid_index(w, block, raw.next[k]));
        raw.values[k] = from.values;
#pragma unroll
        for (int i = 0; i < parts::PIECES; i++) {
            raw.piece[k][i] =
                load_global_16_if(from.values && (parts::FULL || 4 * i + mine < pieces),
                                  from.values + half * OUTPUT_COLUMNS * format::VALUE_BITS / 8 + (4 * i + mine) * 16);
        }
        if (parts::QUANTISED)
            fetch_scales<format>(from.values != 0, from.scales, half, raw.scales[k]);
    }
}

/* ---- Convert ---- */

/* Scale bits of part `part` of piece 4 i + mine: known but for `mine`, so that no register is indexed. */
template <class format> __device__ __forceinline__ u32 scale_bits(const u32 (&words)[MOST_SCALE_WORDS], int i, int part)
{
    using parts = half_of<format>;
    constexpr int FOUR_PIECES = 4 * parts::VALUES; /* values of the four threads' pieces */
    constexpr int PER_WORD = 4 / parts::SCALE_SIZE;
    int first = i * FOUR_PIECES / parts::GROUP;
    int mine = parts::GROUP >= FOUR_PIECES ? 0 : threadIdx.x % 4 * parts::VALUES / parts::GROUP + part;
    u32 word = words[first / PER_WORD];
#pragma unroll
    for (int other = first / PER_WORD + 1; other < MOST_SCALE_WORDS; other++)
        if (other * PER_WORD < (i + 1) * FOUR_PIECES / parts::GROUP)
            word = first + mine >= other * PER_WORD ? words[other] : word;
    return PER_WORD == 1 ? word : word >> (first + mine) % PER_WORD * 8 & 0xff;
}

/* A scale of one byte as two equal bf16, exactly.
 * ue8m0: 2^(e - 127), a denormal for 0; 255 is NaN. OCP Microscaling Formats 1.0, 5.4.1. */
template <class format> __device__ __forceinline__ u32 scale_pair(u32 bits)
{
    if (format::SCALE_TYPE == SCALE_UE8M0)
        return (bits == 0 ? 0x0040 : bits == 255 ? 0x7fc0 : bits << 7) * 0x10001;
    float scale = cvt_f32_f16((u16)cvt_f16x2_e4m3x2((u16)bits));
    return pack_bf16(scale, scale);
}

/* Eight e2m1 of a word as bf16, exactly: exponent and mantissa in bf16's places are the value times 2^(1 - 127),
 * subnormals too. */
__device__ __forceinline__ void bf16_of_e2m1(u32 word, u32 (&pair)[4])
{
    u32 apart[4]; /* elements j and j + 4 */
#pragma unroll
    for (int j = 0; j < 4; j++) {
        u32 nibbles = word >> 4 * j;
        apart[j] = mul_bf16x2((nibbles & 0x00070007) << 6 | (nibbles & 0x00080008) << 12, 0x7e807e80); /* 2^126 */
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
        pair[j] = __byte_perm(apart[2 * j], apart[2 * j + 1], 0x5410);
        pair[j + 2] = __byte_perm(apart[2 * j], apart[2 * j + 1], 0x7632);
    }
}

/* Two floats times the scale, rounded to float32 and to bf16. */
__device__ __forceinline__ u32 scaled(float low, float high, float scale)
{
    return pack_bf16(low * scale, high * scale);
}

/* Eight e4m3 of two words, times a scale. */
__device__ __forceinline__ uint4 scale_e4m3(u32 low, u32 high, float scale)
{
    u32 pair[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        u32 values = cvt_f16x2_e4m3x2((u16)((j < 2 ? low : high) >> j % 2 * 16));
        pair[j] = scaled(cvt_f32_f16((u16)values), cvt_f32_f16((u16)(values >> 16)), scale);
    }
    return {pair[0], pair[1], pair[2], pair[3]};
}

/* Eight e2m1 of a word, times a scale. A product with a scale of one byte has few enough bits that rounding it once, to
 * bf16, gives what rounding it twice gives. scale: of scale_pair, or float32 bits. */
template <class format> __device__ __forceinline__ uint4 scale_e2m1(u32 word, u32 scale)
{
    u32 pair[4];
    bf16_of_e2m1(word, pair);
#pragma unroll
    for (int j = 0; j < 4; j++)
        pair[j] =
            format::SCALE_TYPE != SCALE_FP32
                ? mul_bf16x2(pair[j], scale)
                : scaled(__uint_as_float(pair[j] << 16), __uint_as_float(pair[j] & 0xffff0000), __uint_as_float(scale));
    return {pair[0], pair[1], pair[2], pair[3]};
}

/* Chunk `chunk` of what a piece becomes: eight values. scale: of scale_pair, or float32 bits. */
template <class format> __device__ __forceinline__ uint4 make_chunk(const uint4 &piece, int chunk, u32 scale)
{
    const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
    if (format::VALUE_BITS == 4)
        return scale_e2m1<format>(words[chunk], scale);
    float factor = __uint_as_float(format::SCALE_TYPE == SCALE_FP32 ? scale : scale << 16);
    return scale_e4m3(words[2 * chunk % 4], words[2 * chunk % 4 + 1], factor);
}

/* ---- Write ---- */

/* Copies a thread's share of a tile that is bf16 in the cache: chunks mine and mine + 4. */
__device__ __forceinline__ void copy_tile(u32 tile, int key, u64 source, bool there, const void *harmless)
{
    int mine = threadIdx.x % 4;
#pragma unroll
    for (int chunk = mine; chunk < mine + 8; chunk += 4)
        cp_async_16(tile + swizzled(key, chunk), there ? (const void *)(source + chunk * 16) : harmless,
                    there ? 16 : 0);
}

/* key_full: mbarrier at which each thread arrives twice: when its stores, and when its copies are written. */
template <class format>
__device__ __forceinline__ void write_half(const work &w, int half, u8 (&key)[KEY_TILES][TILE_BYTES], u64 *key_full,
                                           const raw_keys &raw)
{
    using parts = half_of<format>;
    int pieces = half_values<format>(half) / parts::VALUES, mine = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        int row = my_rows().low + 8 * k;
        u32 tiles = shared_address(key[half * HALF_TILES]);
        bool there = raw.values[k] != 0;
        u64 tail = raw.values[k] + (parts::QUANTISED ? format::TAIL_OFFSET : 0);
#pragma unroll
        for (int tile = 0; tile < HALF_TILES; tile++) {
            int column_tile = half * HALF_TILES + tile - parts::FIRST_TAIL_TILE;
            if (!parts::QUANTISED || (!parts::FULL && column_tile >= 0))
                copy_tile(tiles + tile * TILE_BYTES, row, tail + column_tile * ROW_BYTES, there, w.params.query);
        }
        if (REST_TILES > 0 && row / 32 == half)
            copy_tile(shared_address(key[V_TILES]), row, tail + (V_TILES - parts::FIRST_TAIL_TILE) * ROW_BYTES, there,
                      w.params.query);
#pragma unroll
        for (int i = 0; i < parts::PIECES; i++) {
            int piece = 4 * i + mine;
            if (!parts::FULL && piece >= pieces)
                continue;
            u32 scale = 0;
#pragma unroll
            for (int c = 0; c < parts::CHUNKS; c++) {
                if (c * parts::SCALES % parts::CHUNKS == 0) {
                    scale = scale_bits<format>(raw.scales[k], i, c * parts::SCALES / parts::CHUNKS);
                    scale = format::SCALE_TYPE == SCALE_FP32 ? scale : scale_pair<format>(scale);
                }
                int chunk = piece * parts::CHUNKS + c;
                store_shared_16(tiles + chunk / 8 * TILE_BYTES + swizzled(row, chunk % 8),
                                make_chunk<format>(raw.piece[k][i], c, scale));
            }
        }
    }
    cp_async_mbarrier_arrive(shared_address(key_full));
    fence_proxy_async();
    mbarrier_arrive(shared_address(key_full));
}

#endif
