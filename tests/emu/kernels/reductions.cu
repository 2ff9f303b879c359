/* out[block] of 12 words: what a block of 256 threads finds about its numbers in[block * 256 …], count of them there.
 */
#include "own.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, ALL = 0xffffffffu };

struct found {
    u32 sum;          /* shuffles down, shared memory */
    u32 maximum;      /* redux */
    u32 odd;          /* how many, barrier.red.popc */
    u32 any_big;      /* over 1000000, barrier.red.or */
    u32 all_small;    /* barrier.red.and */
    u32 last_prefix;  /* of the block's inclusive sums, shuffles up */
    u32 same_as_zero; /* how many of warp 0 equal its first, match.any */
    u32 alike;        /* warp 1 has one value only, match.all */
    u32 leaders;      /* how many warps elected one lane */
    u32 ballot;       /* warp 0's odd numbers, lanes reversed */
    u32 smallest;     /* by a butterfly */
    i32 least_signed; /* redux.sync.min.s32 */
};

static __device__ u32 sum_down(u32 value)
{
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(ALL, value, step);
    return value;
}

static __device__ u32 prefix(u32 value)
{
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 below = __shfl_up_sync(ALL, value, step);
        value += threadIdx.x % 32 >= step ? below : 0;
    }
    return value;
}

static __device__ u32 smallest(u32 value)
{
    for (int step = 1; step < 32; step *= 2)
        value = min(value, __shfl_xor_sync(ALL, value, step));
    return value;
}

static __device__ u32 redux_max(u32 value)
{
    u32 all;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(all) : "r"(value));
    return all;
}

static __device__ i32 redux_min(i32 value)
{
    i32 all;
    asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(all) : "r"(value));
    return all;
}

static __device__ bool elect()
{
    u32 chosen;
    asm volatile("{.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;}" : "=r"(chosen));
    return chosen;
}

extern "C" __global__ void __launch_bounds__(THREADS) reductions(const u32 *in, found *out)
{
    __shared__ u32 sums[WARPS], maxima[WARPS], minima[WARPS], leaders;
    __shared__ i32 signed_minima[WARPS];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, value = in[blockIdx.x * THREADS + threadIdx.x];
    found all = {};
    if (threadIdx.x == 0)
        leaders = 0;
    const u32 sum = sum_down(value), maximum = redux_max(value), minimum = smallest(value);
    const i32 signed_minimum = redux_min((i32)(value << 8));
    if (lane == 0) {
        sums[warp] = sum;
        maxima[warp] = maximum;
        minima[warp] = minimum;
        signed_minima[warp] = signed_minimum;
    }
    all.odd = __syncthreads_count(value % 2);
    all.any_big = __syncthreads_or(value > 1000000);
    all.all_small = __syncthreads_and(value <= 1000000);
    if (elect())
        atomicAdd(&leaders, 1);

    u32 below = 0;
    for (u32 i = 0; i < warp; i++)
        below += sums[i];
    const u32 inclusive = below + prefix(value);
    all.ballot = __brev(__ballot_sync(ALL, value % 2));
    all.same_as_zero = __popc(__match_any_sync(ALL, value));
    int one_value;
    __match_all_sync(ALL, value, &one_value);
    __syncthreads(); /* NEEDED: every warp's leader has counted itself */
    if (threadIdx.x == THREADS - 1)
        out[blockIdx.x].last_prefix = inclusive;
    if (threadIdx.x == 32)
        out[blockIdx.x].alike = one_value;
    if (threadIdx.x != 0)
        return;
    all.smallest = ~0u;
    for (u32 i = 0; i < WARPS; i++) {
        all.sum += sums[i];
        all.maximum = max(all.maximum, maxima[i]);
        all.smallest = min(all.smallest, minima[i]);
        all.least_signed = min(all.least_signed, signed_minima[i]);
    }
    out[blockIdx.x].sum = all.sum;
    out[blockIdx.x].maximum = all.maximum;
    out[blockIdx.x].odd = all.odd;
    out[blockIdx.x].any_big = all.any_big;
    out[blockIdx.x].all_small = all.all_small;
    out[blockIdx.x].same_as_zero = all.same_as_zero;
    out[blockIdx.x].leaders = leaders;
    out[blockIdx.x].ballot = all.ballot;
    out[blockIdx.x].smallest = all.smallest;
    out[blockIdx.x].least_signed = all.least_signed;
}
