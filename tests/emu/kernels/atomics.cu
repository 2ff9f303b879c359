/* Atomics, in one launch of any grid of 128 threads:
 *   bins[16]      how often each value % 16 occurs: counted in shared memory, then added to global memory
 *   *largest      the largest float, by compare-and-swap
 *   *total        the sum of all blocks' sums: the last block to finish adds up what the others left in partial[block]
 *   owner[tile]   1 + how often a tile was taken: blocks take tiles from a counter until none is left */
#include "own.cuh"

enum { THREADS = 128, BINS = 16 };

struct results {
    u32 bins[BINS];
    float largest;
    u32 ticket; /* of blocks that are done */
    u32 next_tile;
    u32 total;
};

static __device__ void keep_largest(float *at, float value)
{
    u32 seen = *(volatile u32 *)at;
    while (__uint_as_float(seen) < value) {
        const u32 before = atomicCAS((u32 *)at, seen, __float_as_uint(value));
        if (before == seen)
            break;
        seen = before;
    }
}

static __device__ u32 take_tile(results *all, u32 *shared_tile)
{
    if (threadIdx.x == 0)
        *shared_tile = atomicAdd(&all->next_tile, 1);
    __syncthreads(); /* NEEDED: everybody sees the tile */
    const u32 tile = *shared_tile;
    __syncthreads(); /* NEEDED: … before the next one */
    return tile;
}

static __device__ void finish(results *all, u32 *partial, u32 sum)
{
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence(); /* NEEDED: the partial sum comes before the ticket */
        if (atomicInc(&all->ticket, gridDim.x - 1) != gridDim.x - 1)
            return;
        __threadfence(); /* NEEDED: the ticket comes before the others' sums */
        u32 total = 0;
        for (u32 block = 0; block < gridDim.x; block++)
            total += partial[block];
        all->total = total;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    atomics(const u32 *in, results *all, u32 *partial, u32 *owner, u32 tiles)
{
    __shared__ u32 bins[BINS], sum, shared_tile;
    if (threadIdx.x < BINS)
        bins[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        sum = 0; /* take_tile's barriers come between this and the first count, the last count and what follows */
    for (u32 tile; (tile = take_tile(all, &shared_tile)) < tiles;) {
        const u32 value = in[tile * THREADS + threadIdx.x];
        atomicAdd(&bins[value % BINS], 1);
        atomicAdd(&sum, value);
        keep_largest(&all->largest, (float)value);
        if (threadIdx.x == 0)
            atomicAdd(&owner[tile], 1);
    }
    if (threadIdx.x < BINS)
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(&all->bins[threadIdx.x]), "r"(bins[threadIdx.x])
                     : "memory");
    finish(all, partial, sum);
}
