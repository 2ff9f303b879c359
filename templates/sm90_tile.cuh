/* Shared-memory tiles and the accumulators' lanes on sm_90.
 *
 * A tile is 64 rows of 128 bytes (64 bf16 columns) with the 128-byte swizzle: 16-byte chunk c of row r lies at
 * c ^ (r % 8). Wider matrices are tiles side by side. */
#ifndef SMLA_SM90_TILE_CUH
#define SMLA_SM90_TILE_CUH

#include "types.cuh"

static constexpr int WARPGROUP = 128;               /* threads */
static constexpr int TILE_COLUMNS = 64;             /* 128 bytes of bf16 */
static constexpr int ROW_BYTES = 128;               /* of a tile */
static constexpr int SWIZZLE_BYTES = 8 * ROW_BYTES; /* after so many bytes the swizzle repeats */
static constexpr int TILE_BYTES = 64 * ROW_BYTES;
static constexpr int CHUNK_ELEMS = 8; /* of 16 bytes */
static constexpr int WGMMA_K = 16;

/* Where a chunk lies in its tile. */
__device__ __forceinline__ u32 swizzled(int row, int chunk)
{
    return row * ROW_BYTES + ((chunk ^ (row % 8)) * 16);
}

/* A lane's rows in an accumulator: 16 warp + lane / 4, and 8 further. PTX ISA 9.7.15.5.1.1.1, matrix D. */
struct lane_rows {
    int lane;
    int warp; /* in the warpgroup */
    int low;
};

__device__ __forceinline__ lane_rows my_rows()
{
    /* volatile: read where it is used, rather than kept in a register from before the roles part */
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    int lane = thread % 32, warp = thread % WARPGROUP / 32;
    return {lane, warp, 16 * warp + lane / 4};
}

#endif
