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

static constexpr int MOST_TURNS = 4; /* pieces of a key half's 16 that a thread has */
static constexpr int STAGED_TURNS = SMLA_STAGED_TURNS;
static constexpr int REGISTER_TURNS = MOST_TURNS - STAGED_TURNS;
static constexpr int MOST_SCALE_WORDS = 4; /* of a key half */

/* What follows from a format, for one half of V's columns. */
template <class format, int HALF> struct half_of {
    static constexpr bool QUANTISED = format::VALUE_BITS < 16;
    static constexpr int FIRST = HALF * OUTPUT_COLUMNS;     /* column */
    static constexpr int VALUES = 128 / format::VALUE_BITS; /* of a piece */
    static constexpr int CHUNKS = VALUES / CHUNK_ELEMS;     /* that a piece becomes */
    static constexpr int LEFT = QUANTISED ? format::VALUE_ELEMS - FIRST : 0;
    static constexpr int PIECES = (LEFT < 0 ? 0 : LEFT < OUTPUT_COLUMNS ? LEFT : OUTPUT_COLUMNS) / VALUES;
    static constexpr int TURNS = (PIECES + 3) / 4; /* pieces that a thread has of a key, at most */
    static constexpr int FIRST_TAIL_TILE = QUANTISED ? format::VALUE_ELEMS / TILE_COLUMNS : 0;
    static constexpr int SCALES =
        QUANTISED && format::SCALE_GROUP < VALUES ? VALUES / format::SCALE_GROUP : 1; /* of a piece */
    static constexpr int SCALE_SIZE = format::SCALE_TYPE == SCALE_FP32 ? 4 : 1;
    static constexpr int GROUP = QUANTISED ? format::SCALE_GROUP : OUTPUT_COLUMNS;
    static constexpr int FIRST_SCALE_BYTE = FIRST / GROUP * SCALE_SIZE;
    static constexpr int SCALE_RUN = (PIECES * VALUES + GROUP - 1) / GROUP * SCALE_SIZE; /* bytes of scales */
    static constexpr bool RUN_IN_WORDS = FIRST_SCALE_BYTE % 4 == 0 && format::SCALE_BYTES % 4 == 0;
    static_assert(TURNS <= MOST_TURNS && SCALE_RUN <= 4 * MOST_SCALE_WORDS, "fits into raw_half");
    static_assert(format::VALUE_ELEMS % TILE_COLUMNS == 0 && (!QUANTISED || format::VALUE_ELEMS <= SMLA_D_V),
                  "a tile is quantised or not; columns that are not of V are not");

    /* Whether a thread has a piece in a turn. */
    static __device__ __forceinline__ bool has(int turn)
    {
        return 4 * turn + 3 < PIECES || 4 * turn + (int)(threadIdx.x % 4) < PIECES;
    }
};

/* Where a thread's two keys of a block lie. */
struct key_sources {
    key_source key[2];
};

/* Half of a thread's two keys, as they come from memory. Zeros where the entry is invalid. The first pieces pass
 * through registers, the others through shared memory: what loads have in flight has to fit into what shared memory
 * leaves of the L1 cache, and copies do not. Staged pieces are the thread's own: nobody else waits for them. */
struct raw_half {
    u32 staged; /* address of the thread's piece of turn REGISTER_TURNS */
    uint4 piece[2][REGISTER_TURNS > 0 ? REGISTER_TURNS : 1];
    u32 scales[2][MOST_SCALE_WORDS];
};

static constexpr int STAGED_PIECE_BYTES = WARPGROUP * (int)sizeof(uint4); /* of all threads of a warpgroup */
static constexpr int STAGED_BYTES = 2 * STAGED_TURNS * STAGED_PIECE_BYTES;

__device__ __forceinline__ u32 staged_piece(const raw_half &raw, int k, int turn)
{
    return raw.staged + (2 * (turn - REGISTER_TURNS) + k) * STAGED_PIECE_BYTES;
}

/* ---- Fetch ---- */

/* Where a key's bytes are copied from; of an invalid entry no byte is, but addresses are formed: in the first query,
 * whose row of bf16 is not shorter. One selection for all of a key's copies, which then differ by a constant. */
__device__ __forceinline__ u64 readable(const key_source &from, const void *harmless)
{
    return from.values ? from.values : (u64)harmless;
}

/* Words that a format has no use for are left as they are. */
template <class format, int HALF>
__device__ __forceinline__ void fetch_scales(const key_source &from, u32 (&words)[MOST_SCALE_WORDS])
{
    using parts = half_of<format, HALF>;
    const u64 scales = from.scales + parts::FIRST_SCALE_BYTE;
    const bool there = from.values != 0;
#pragma unroll
    for (int i = 0; i < parts::SCALE_RUN; i += parts::RUN_IN_WORDS ? 4 : 1)
        if (parts::RUN_IN_WORDS)
            words[i / 4] = load_global_4_if(there, scales + i);
        else
            words[i / 4] = (i % 4 ? words[i / 4] : 0) | load_global_1_if(there, scales + i) << i % 4 * 8;
}

template <class format, int HALF>
__device__ __forceinline__ void fetch_half(const key_sources &from, raw_half &raw, const void *harmless)
{
    using parts = half_of<format, HALF>;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const u64 values = readable(from.key[k], harmless) + parts::FIRST * format::VALUE_BITS / 8 +
                           threadIdx.x % 4 * (u64)sizeof(uint4);
#pragma unroll
        for (int turn = 0; turn < parts::TURNS; turn++) {
            const bool there = from.key[k].values && parts::has(turn);
            const u64 source = values + 4 * turn * sizeof(uint4);
            if (turn < REGISTER_TURNS)
                raw.piece[k][turn] = load_global_16_if(there, source);
            else
                cp_async_16(staged_piece(raw, k, turn), (const void *)source, there ? 16 : 0);
        }
        if (parts::TURNS > 0)
            fetch_scales<format, HALF>(from.key[k], raw.scales[k]);
    }
}

/* ---- Convert ---- */

/* Scale bits of part `part` of piece 4 i + mine: known but for `mine`, so that no register is indexed. */
template <class format, int HALF>
__device__ __forceinline__ u32 scale_bits(const u32 (&words)[MOST_SCALE_WORDS], int i, int part)
{
    using parts = half_of<format, HALF>;
    constexpr int FOUR_PIECES = 4 * parts::VALUES; /* values of the four threads' pieces */
    constexpr int PER_WORD = 4 / parts::SCALE_SIZE;
    int first = i * FOUR_PIECES / parts::GROUP;
    int mine = parts::GROUP >= FOUR_PIECES ? 0 : threadIdx.x % 4 * parts::VALUES / parts::GROUP + part;
    u32 word = words[first / PER_WORD];
#pragma unroll
    for (int other = first / PER_WORD + 1; other < MOST_SCALE_WORDS; other++)
        if (other * PER_WORD < (i + 1) * FOUR_PIECES / parts::GROUP && 4 * other < parts::SCALE_RUN)
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

/* Eight e2m1 of a word as bf16, exactly: the bytes of the eight magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 are looked up by
 * the nibbles' three low bits, which is what prmt does with a selector; with the fourth set it gives a byte's sign
 * eight times instead. PTX ISA 9.7.9.7. */
__device__ __forceinline__ void bf16_of_e2m1(u32 word, u32 (&pair)[4])
{
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        const u32 four = word >> 8 * j, magnitudes = four & 0x7777;
        const u32 low = __byte_perm(0xc0800000, 0xc0804000, magnitudes);
        const u32 high = __byte_perm(0x3f3f3f00, 0x40404040, magnitudes);
        const u32 sign = prmt(0, 0x80808080, four | 0x4444); /* 0x80, or 0xff where the nibble is negative */
        const u32 signed_high = high | (sign << 7 & 0x80808080);
        pair[j] = __byte_perm(low, signed_high, 0x5140);
        pair[j + 1] = __byte_perm(low, signed_high, 0x7362);
    }
}

/* Two floats times the scale, rounded to float32 and to bf16. */
__device__ __forceinline__ u32 scaled(float low, float high, float scale)
{
    return pack_bf16(low * scale, high * scale);
}

/* Eight e4m3 of two words, times a scale: of scale_pair, or float32 bits. A product with a scale of one byte has few
 * enough bits that rounding it once, to bf16, gives what rounding it twice gives. */
template <class format> __device__ __forceinline__ uint4 scale_e4m3(u32 low, u32 high, u32 scale)
{
    u32 pair[4];
    const uint2 of_low = cvt_f16x2_e4m3x2_twice(low), of_high = cvt_f16x2_e4m3x2_twice(high);
    const u32 halves[4] = {of_low.x, of_low.y, of_high.x, of_high.y};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const u32 values = halves[j];
        const float first = cvt_f32_f16((u16)values), second = cvt_f32_f16((u16)(values >> 16));
        pair[j] = format::SCALE_TYPE != SCALE_FP32 ? mul_bf16x2(pack_bf16(first, second), scale)
                                                   : scaled(first, second, __uint_as_float(scale));
    }
    return {pair[0], pair[1], pair[2], pair[3]};
}

/* Eight e2m1 of a word, times a scale as of scale_e4m3. */
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
    return scale_e4m3<format>(words[2 * chunk % 4], words[2 * chunk % 4 + 1], scale);
}

/* ---- Write ---- */

/* Copies a thread's share of a tile that is bf16 in the cache: chunks mine and mine + 4. */
__device__ __forceinline__ void copy_tile(u32 tile, int key, u64 source, bool there)
{
    const int mine = threadIdx.x % 4;
    source += mine * (u64)sizeof(uint4);
#pragma unroll
    for (int chunk = 0; chunk < 8; chunk += 4)
        cp_async_16(tile + swizzled(key, mine + chunk), (const void *)(source + chunk * sizeof(uint4)), there ? 16 : 0);
}

/* Half of the tiles that are bf16 in the cache, by copies. */
template <class format, int HALF>
__device__ __forceinline__ void copy_tail(const key_sources &from, u8 (&key)[KEY_TILES][TILE_BYTES],
                                          const void *harmless)
{
    using parts = half_of<format, HALF>;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const u64 tail = readable(from.key[k], harmless) + (parts::QUANTISED ? format::TAIL_OFFSET : 0);
#pragma unroll
        for (int tile = HALF * HALF_TILES; tile < (HALF == 0 ? HALF_TILES : KEY_TILES); tile++)
            if (tile >= parts::FIRST_TAIL_TILE)
                copy_tile(shared_address(key[tile]), my_rows().low + 8 * k,
                          tail + (tile - parts::FIRST_TAIL_TILE) * ROW_BYTES, from.key[k].values != 0);
    }
}

/* key_full: mbarrier at which each thread arrives twice: when its stores, and when its copies are written. Who waits
 * there orders both before wgmma (fence_proxy_async). */
template <class format, int HALF>
__device__ __forceinline__ void write_half(const key_sources &from, u8 (&key)[KEY_TILES][TILE_BYTES], u64 *key_full,
                                           const raw_half &raw, const void *harmless)
{
    using parts = half_of<format, HALF>;
    const int mine = threadIdx.x % 4;
    if (parts::TURNS > REGISTER_TURNS)
        cp_async_wait_all();
    copy_tail<format, HALF>(from, key, harmless);
    cp_async_mbarrier_arrive(shared_address(key_full));
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const int row = my_rows().low + 8 * k;
        const u32 tiles = shared_address(key);
        uint4 piece[MOST_TURNS]; /* what is staged is asked for before the others are converted */
#pragma unroll
        for (int turn = 0; turn < parts::TURNS; turn++)
            piece[turn] = turn < REGISTER_TURNS ? raw.piece[k][turn] : load_shared_16(staged_piece(raw, k, turn));
#pragma unroll
        for (int turn = 0; turn < parts::TURNS; turn++) {
            if (!parts::has(turn))
                continue;
            u32 scale = 0;
#pragma unroll
            for (int c = 0; c < parts::CHUNKS; c++) {
                if (c * parts::SCALES % parts::CHUNKS == 0) {
                    scale = scale_bits<format, HALF>(raw.scales[k], turn, c * parts::SCALES / parts::CHUNKS);
                    scale = format::SCALE_TYPE == SCALE_FP32 ? scale : scale_pair<format>(scale);
                }
                const int chunk = parts::FIRST / CHUNK_ELEMS + (4 * turn + mine) * parts::CHUNKS + c;
                store_shared_16(tiles + chunk / 8 * TILE_BYTES + swizzled(row, chunk % 8),
                                make_chunk<format>(piece[turn], c, scale));
            }
        }
    }
    mbarrier_arrive(shared_address(key_full));
}

#endif
