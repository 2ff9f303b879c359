/* Every block of the grid (x, y, z) takes a box of 8 x 4 x 2 floats of `in`, at (8 x - 4, 4 y - 2, 2 z - 1), so that
 * some of it lies outside and reads as 0. At (8 x, 4 y, 2 z) it puts the box into `out` and adds twice the box to
 * `sum`, as far as they reach; it writes the box flat to flat[block] and adds its eight integers i to counts[i].
 *
 * 32 threads, 512 bytes + 8 of shared memory. */
#include "own.cuh"

enum { ELEMENTS = 8 * 4 * 2, COUNTS = ELEMENTS * 4, BARRIER = 512 };

static __device__ void load_box(u32 to, const tensor_map *map, u32 barrier, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
                 "%5}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

static __device__ void store_box(const tensor_map *map, u32 from, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

static __device__ void add_box(const tensor_map *map, u32 from, int x, int y, int z)
{
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], "
                 "[%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

static __device__ void store_bytes(void *to, u32 from, u32 bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}

static __device__ void add_counts(u32 *to, u32 from, u32 bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(32)
    tma_reduce(const __grid_constant__ tensor_map in, const __grid_constant__ tensor_map out,
               const __grid_constant__ tensor_map sum, float *flat, u32 *counts)
{
    const u32 base = shared_address(memory), barrier = base + BARRIER;
    const int x = 8 * (int)blockIdx.x, y = 4 * (int)blockIdx.y, z = 2 * (int)blockIdx.z;
    const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    float *box = (float *)memory;
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        load_box(base, &in, barrier, x - 4, y - 2, z - 1); /* the bytes may come before they are expected */
        mbarrier_arrive_expect_tx(barrier, ELEMENTS * 4);
    }
    if (threadIdx.x < 8)
        ((u32 *)(memory + COUNTS))[threadIdx.x] = threadIdx.x;
    fence_proxy_async(); /* NEEDED: the counts go by the async proxy */
    __syncwarp();        /* the other lanes' counts */
    if (threadIdx.x == 0) {
        add_counts(counts, base + COUNTS, 32);
        bulk_commit_group();
    }
    mbarrier_wait(barrier, 0); /* NEEDED: the box has come */
    if (threadIdx.x == 0) {
        store_box(&out, base, x, y, z);
        store_bytes(flat + block * ELEMENTS, base, ELEMENTS * 4);
        bulk_commit_group();
        bulk_wait_group_read<0>(); /* NEEDED: the box may be overwritten */
    }
    __syncwarp(); /* … by all lanes */
    for (u32 i = threadIdx.x; i < ELEMENTS; i += 32)
        box[i] *= 2;
    fence_proxy_async(); /* NEEDED: the sums go by the async proxy */
    __syncwarp();        /* the other lanes' sums */
    if (threadIdx.x == 0) {
        add_box(&sum, base, x, y, z);
        bulk_commit_group();
        bulk_wait_group_read<0>(); /* NEEDED: shared memory ends with the block */
    }
}
