/* out[i] = scale in[i] + in[i ^ 1], by a warpgroup that loads and two that compute, handing over by named barriers.
 *
 * Persistent: blocks take every gridDim-th tile of 128 numbers. 384 threads; two buffers, computed on in turns:
 *   warpgroup 0: sync empty[b] -> in to buffer b -> arrive full[b]
 *   warpgroup 1 + b: arrive empty[b] -> sync full[b] -> out -> arrive empty[b] … */
#include "own.cuh"

enum { WARPGROUP = 128, BUFFERS = 2, FULL = 1, EMPTY = FULL + BUFFERS };

static __device__ void barrier_sync(u32 barrier)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(2 * WARPGROUP) : "memory");
}

static __device__ void barrier_arrive(u32 barrier)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(2 * WARPGROUP) : "memory");
}

static __device__ void load(float buffers[BUFFERS][WARPGROUP], const float *in, u32 tiles)
{
    setmaxnreg_dec<40>();
    u32 buffer = 0;
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, buffer ^= 1) {
        barrier_sync(EMPTY + buffer); /* NEEDED: the last tile of this buffer is done with */
        buffers[buffer][threadIdx.x] = in[tile * WARPGROUP + threadIdx.x];
        barrier_arrive(FULL + buffer); /* NEEDED: its readers wait */
    }
}

static __device__ void compute(const float buffer[WARPGROUP], float *out, float scale, u32 which, u32 tiles)
{
    setmaxnreg_inc<232>();
    const u32 i = threadIdx.x % WARPGROUP;
    for (u32 tile = blockIdx.x + which * gridDim.x; tile < tiles; tile += 2 * gridDim.x) {
        barrier_arrive(EMPTY + which);
        barrier_sync(FULL + which); /* NEEDED: the tile has come */
        out[tile * WARPGROUP + i] = scale * buffer[i] + buffer[i ^ 1];
    }
}

extern "C" __global__ void __launch_bounds__(384, 1) roles(const float *in, float *out, float scale, u32 tiles)
{
    __shared__ float buffers[BUFFERS][WARPGROUP];
    const u32 warpgroup = threadIdx.x / WARPGROUP;
    if (warpgroup == 0)
        load(buffers, in, tiles);
    else
        compute(buffers[warpgroup - 1], out, scale, warpgroup - 1, tiles);
}
