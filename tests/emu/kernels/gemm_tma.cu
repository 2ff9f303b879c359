/* out[m][n] = sum over k of a[m][k] b[n][k], bf16, by blocks of 64 x 64.
 *
 * Grid (N / 64, M / 64 rounded up), 160 threads, 56 KiB + 48 bytes of shared memory. No size need be a multiple of 64:
 * tensor loads fill with zeros what lies outside, the tensor store leaves it alone.
 *
 *   warp 4, one lane: wait empty[s] -> load a, b -> full[s]       (three stages)
 *   warps 0-3:        wait full[s] -> a to registers, wgmma with b in shared memory -> empty[s]; bf16 -> tensor store
 */
#include "own.cuh"

enum { STAGES = 3, TILE = 64 * 128, OUT = 2 * STAGES * TILE, FULL = OUT + TILE, EMPTY = FULL + 8 * STAGES };
enum { CONSUMERS = 128 };

static __device__ void load(u32 base, const tensor_map *a, const tensor_map *b, u32 steps)
{
    for (u32 step = 0; step < steps; step++) {
        const u32 stage = step % STAGES, full = base + FULL + 8 * stage;
        if (step >= STAGES)
            mbarrier_wait(base + EMPTY + 8 * stage, step / STAGES % 2 ^ 1);
        mbarrier_arrive_expect_tx(full, 2 * TILE);
        tensor_load(base + 2 * stage * TILE, a, full, 64 * step, 64 * blockIdx.y);
        tensor_load(base + (2 * stage + 1) * TILE, b, full, 64 * step, 64 * blockIdx.x);
    }
}

/* This warp's 16 rows of a tile of 128-byte rows, swizzled. */
static __device__ void read_a(u32 a[16], u32 tile)
{
    const u32 row = threadIdx.x / 32 * 16 + threadIdx.x % 16;
    for (u32 k = 0; k < 4; k++)
        ldmatrix_x4(*(u32(*)[4])(a + 4 * k), tile + row * 128 + ((2 * k + threadIdx.x % 32 / 16) ^ row % 8) * 16);
}

static __device__ void multiply(float d[32], const u32 a[4], u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : THIRTY_TWO("+f", d, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

static __device__ void compute(float d[32], u32 base, u32 steps)
{
    for (u32 step = 0; step < steps; step++) {
        const u32 stage = step % STAGES, tile = base + 2 * stage * TILE;
        u32 a[16];
        mbarrier_wait(base + FULL + 8 * stage, step / STAGES % 2); /* NEEDED: the tiles have come */
        read_a(a, tile);
        wgmma_fence(); /* NEEDED: a was written to registers */
        for (u32 k = 0; k < 4; k++)
            multiply(d, a + 4 * k, descriptor(tile + TILE + 32 * k, 16, 1024, 1));
        wgmma_commit_group();
        wgmma_wait_group<0>(); /* NEEDED: a and the tile of b are free again */
        fence_proxy_async();   /* NEEDED: ldmatrix read what the async proxy writes next */
        mbarrier_arrive(base + EMPTY + 8 * stage);
    }
}

static __device__ void store(const float d[32], u32 base, const tensor_map *out)
{
    for (u32 r = 0; r < 32; r += 2) {
        const u32 row = wgmma_row(r), column = wgmma_column(r);
        *(u32 *)(memory + OUT + row * 128 + ((column / 8) ^ row % 8) * 16 + column % 8 * 2) = bf16x2(d[r], d[r + 1]);
    }
    fence_proxy_async();              /* NEEDED: the async proxy reads the sums */
    named_barrier_sync(1, CONSUMERS); /* NEEDED: everybody's sums */
    if (threadIdx.x == 0) {
        tensor_store(out, base + OUT, 64 * blockIdx.x, 64 * blockIdx.y);
        bulk_commit_group();
        bulk_wait_group<0>();
    }
}

extern "C" __global__ void __launch_bounds__(160)
    gemm_tma(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
             const __grid_constant__ tensor_map out, u32 steps)
{
    const u32 base = shared_address(memory);
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < STAGES; stage++) {
            mbarrier_init(base + FULL + 8 * stage, 1);
            mbarrier_init(base + EMPTY + 8 * stage, CONSUMERS);
        }
        fence_proxy_async();
    }
    __syncthreads();
    if (threadIdx.x == CONSUMERS)
        load(base, &a, &b, steps);
    if (threadIdx.x < CONSUMERS) {
        float d[32] = {};
        compute(d, base, steps);
        store(d, base, &out);
    }
}
