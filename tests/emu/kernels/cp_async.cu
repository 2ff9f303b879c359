/* out[i] = 4 values of `wide` + 2 of `middle` + 1 of `narrow`, added up, for i < count; i past `count` count as 0 and
 * are not read. A pipeline of four stages of 128 rows by cp.async of 16, 8 and 4 bytes, two groups behind.
 *
 * One block of 128 threads; a thread reads what its left neighbour copied, so that a barrier is needed. */
#include "own.cuh"

enum { STAGES = 4, THREADS = 128, AHEAD = 3 };

template <int BYTES> static __device__ void copy(void *to, const void *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES),
                 "r"(there ? BYTES : 0)
                 : "memory");
}

static __device__ void wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"((int)AHEAD) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cp_async(const float4 *wide, const float2 *middle, const float *narrow, float *out, u32 count)
{
    __shared__ float4 wides[STAGES][THREADS];
    __shared__ float2 middles[STAGES][THREADS];
    __shared__ float narrows[STAGES][THREADS];
    const u32 steps = (count + THREADS - 1) / THREADS, other = (threadIdx.x + 1) % THREADS;
    for (u32 step = 0; step < steps + AHEAD; step++) {
        const u32 row = step * THREADS + threadIdx.x, stage = step % STAGES;
        if (step < steps) {
            copy<16>(&wides[stage][threadIdx.x], wide + (row < count ? row : 0), row < count);
            copy<8>(&middles[stage][threadIdx.x], middle + (row < count ? row : 0), row < count);
            copy<4>(&narrows[stage][threadIdx.x], narrow + (row < count ? row : 0), row < count);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (step < AHEAD)
            continue;
        wait_group();    /* NEEDED: this thread's copies have come */
        __syncthreads(); /* NEEDED: the neighbour's copies have come too */
        const u32 read = (step - AHEAD) % STAGES, at = (step - AHEAD) * THREADS + other;
        const float4 w = wides[read][other];
        const float2 m = middles[read][other];
        if (at < count)
            out[at] = w.x + w.y + w.z + w.w + m.x + m.y + narrows[read][other];
        __syncthreads(); /* NEEDED: the stage may be filled again */
    }
}
