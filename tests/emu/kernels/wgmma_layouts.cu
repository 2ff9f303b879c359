/* out[m][n] = sum over k of a(m, k) b(n, k), f16, 64 x 64 x 64: every swizzle, and each of A and B by rows of k ("k")
 * or of m and n ("m"). One block of 128 threads, 16 KiB + 8 bytes of shared memory.
 *
 * Tensor loads of boxes of 64 rows of SPAN bytes bring the tiles, swizzled as the descriptors say: what wgmma reads is
 * what the other unit wrote. */
#include "own.cuh"

enum { TILE = 64 * 64 * 2, BARRIER = 2 * TILE };

/* The descriptor of k = 16 * step … + 15. */
template <u32 SPAN, bool MN_MAJOR> static __device__ u64 slice(u32 tile, u32 step)
{
    const u32 swizzle = SPAN == 128 ? 1 : SPAN == 64 ? 2 : SPAN == 32 ? 3 : 0, box = 64 * SPAN, k_bytes = 32 * step;
    if (SPAN == 16)
        return MN_MAJOR ? descriptor(tile + 16 * SPAN * step, 8 * SPAN, box, 0)
                        : descriptor(tile + 2 * box * step, box, 8 * SPAN, 0);
    return MN_MAJOR ? descriptor(tile + 16 * SPAN * step, box, 8 * SPAN, swizzle)
                    : descriptor(tile + k_bytes / SPAN * box + k_bytes % SPAN, 16, 8 * SPAN, swizzle);
}

template <u32 SPAN> static __device__ void load(u32 tile, const tensor_map *map, u32 barrier)
{
    for (u32 box = 0; box < 128 / SPAN; box++)
        tensor_load(tile + box * 64 * SPAN, map, barrier, box * SPAN / 2, 0);
}

template <u32 SPAN, bool A_MN, bool B_MN>
static __device__ void layout(float *out, const tensor_map *a, const tensor_map *b)
{
    const u32 base = shared_address(memory), barrier = base + BARRIER;
    float d[32];
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(barrier, 2 * TILE);
        load<SPAN>(base, a, barrier);
        load<SPAN>(base + TILE, b, barrier);
    }
    __syncthreads();           /* NEEDED: the barrier is there */
    mbarrier_wait(barrier, 0); /* NEEDED: the tiles have come */
    wgmma_fence();
#pragma unroll
    for (u32 step = 0; step < 4; step++)
        asm volatile("{.reg .pred p;\nsetp.ne.u32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES_32 "}, %32, %33, p, 1, 1, %35, %36;}"
                     : THIRTY_TWO("+f", d, 0)
                     : "l"(slice<SPAN, A_MN>(base, step)), "l"(slice<SPAN, B_MN>(base + TILE, step)), "r"(step),
                       "n"(A_MN), "n"(B_MN));
    wgmma_commit_group();
    wgmma_wait_group<0>(); /* NEEDED: d is complete */
    for (u32 r = 0; r < 32; r++)
        out[wgmma_row(r) * 64 + wgmma_column(r)] = d[r];
}

#define LAYOUT(name, ...)                                                                                              \
    extern "C" __global__ void __launch_bounds__(128)                                                                  \
        name(float *out, const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b)                   \
    {                                                                                                                  \
        layout<__VA_ARGS__>(out, &a, &b);                                                                              \
    }
#define LAYOUTS(span)                                                                                                  \
    LAYOUT(kk_##span, span, false, false)                                                                              \
    LAYOUT(mk_##span, span, true, false)                                                                               \
    LAYOUT(km_##span, span, false, true)                                                                               \
    LAYOUT(mm_##span, span, true, true)

LAYOUTS(16)
LAYOUTS(32)
LAYOUTS(64)
LAYOUTS(128)
