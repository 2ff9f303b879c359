/* How the rows of a part lie in the workspace: as the accumulators lie in registers, so that a thread stores 16 bytes
 * at a time and a warp whole lines, and whoever combines parts reads them likewise.
 *
 *   part [2 halves of the columns][RUNS of an output thread][128 threads of the warpgroup][4 elements]
 *
 * A run is four consecutive accumulators of wgmma's D (PTX ISA 9.7.15.5.1.1.1): of two rows of the tile, 8 apart, two
 * columns each. The tile's rows are heads, or, turned round (HEADS_ARE_COLUMNS), its columns are. */
#ifndef SMLA_DECODE_PART_CUH
#define SMLA_DECODE_PART_CUH

#include "smla_config.cuh"
#include "types.cuh"

static constexpr int PART_THREADS = 128; /* of a warpgroup */
static constexpr int RUN_ELEMS = 4;
static constexpr int RUNS = SMLA_BLOCK_HEADS * SMLA_OUTPUT_COLUMNS / PART_THREADS / RUN_ELEMS; /* of a thread */
static constexpr int PART_RUNS = 2 * RUNS;
static constexpr int RUN_TILES = SMLA_OUTPUT_COLUMNS / 64; /* turned round: tiles of a half, for each group of heads */

static_assert(SMLA_D_V == 2 * SMLA_OUTPUT_COLUMNS, "");
static_assert(!SMLA_HEADS_ARE_COLUMNS || RUNS == SMLA_BLOCK_HEADS / 8 * RUN_TILES, "");

/* Where a thread's run of a part begins, in elements. run: of PART_RUNS, of the second half too. */
__device__ __forceinline__ u32 run_offset(int run, int thread)
{
    return (run * PART_THREADS + thread) * RUN_ELEMS;
}

/* The two heads of a run's elements, and the column of its first. */
struct run_place {
    int head[2];
    int column;
};

/* The lanes of a warp whose runs are of the same heads differ in these bits of their number. */
static constexpr int HEAD_SHARERS = SMLA_HEADS_ARE_COLUMNS ? 8 : 4;
static constexpr int FIRST_SHARER_STEP = SMLA_HEADS_ARE_COLUMNS ? 4 : 1;

__device__ __forceinline__ int sharer_of_heads()
{
    return threadIdx.x / FIRST_SHARER_STEP % HEAD_SHARERS;
}

/* The lane of that number among those that share this one's heads. */
__device__ __forceinline__ int lane_of_sharer(int sharer)
{
    const int lane = threadIdx.x % 32;
    return lane + (sharer - sharer_of_heads()) * FIRST_SHARER_STEP;
}

/* Which of the two heads an element is of, and how many columns it is from the first. */
__device__ __forceinline__ constexpr int head_of_element(int i)
{
    return SMLA_HEADS_ARE_COLUMNS ? i % 2 : i / 2;
}

__device__ __forceinline__ constexpr int column_of_element(int i)
{
    return SMLA_HEADS_ARE_COLUMNS ? i / 2 * 8 : i % 2;
}

__device__ __forceinline__ run_place place_of_run(int run, int thread)
{
    const int lane = thread % 32, row = thread / 32 * 16 + lane / 4, column = 2 * (lane % 4);
    const int first_column = run / RUNS * SMLA_OUTPUT_COLUMNS, i = run % RUNS;
    if (SMLA_HEADS_ARE_COLUMNS) {
        const int head = i / RUN_TILES * 8 + column;
        return {{head, head + 1}, first_column + i % RUN_TILES * 64 + row};
    }
    return {{row, row + 8}, first_column + i * 8 + column};
}

#endif
