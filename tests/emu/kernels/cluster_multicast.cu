/* out[block][j] = sum over rows i of weight[block][i] tile[i][j], for the cluster's tiles of 32 x 32 floats one after
 * another; cluster c has rows [32 tiles c, …) of `in`. A cluster of two: each block loads half of each tile for both.
 *
 *   thread 0 of each block: wait empty[s] (both blocks' readers) -> expect a tile, load its half to both -> full[s] of
 * both all threads:            wait full[s] -> add up -> arrive at empty[s] of both blocks */
#include "own.cuh"

enum { STAGES = 2, THREADS = 32, TILE = 32 * 32 * 4, FULL = STAGES * TILE, EMPTY = FULL + 8 * STAGES };

/* 9.7.9.25.5.2: to the same place in each block of the mask, and to the barrier there. */
static __device__ void load_multicast(u32 to, const tensor_map *map, u32 mbarrier, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(mbarrier), "r"(0), "r"(y), "h"((u16)3)
                 : "memory");
}

static __device__ void load(u32 base, const tensor_map *in, u32 tile, u32 row)
{
    const u32 stage = tile % STAGES, rank = cluster_rank();
    if (tile >= STAGES)
        mbarrier_wait_cluster(base + EMPTY + 8 * stage, tile / STAGES % 2 ^ 1);
    mbarrier_arrive_expect_tx(base + FULL + 8 * stage, TILE);
    load_multicast(base + stage * TILE + rank * TILE / 2, in, base + FULL + 8 * stage, row + 16 * rank);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS)
    cluster_multicast(const __grid_constant__ tensor_map in, const float *weight, float *out, u32 tiles)
{
    const u32 base = shared_address(memory), lane = threadIdx.x, row = blockIdx.x / 2 * 32 * tiles;
    if (lane == 0) {
        for (u32 stage = 0; stage < STAGES; stage++) {
            mbarrier_init(base + FULL + 8 * stage, 1);
            mbarrier_init(base + EMPTY + 8 * stage, 2 * THREADS);
        }
        fence_mbarrier_init();
    }
    cluster_sync(); /* NEEDED: the other block's barriers are there */

    float sum = 0;
    for (u32 tile = 0; tile < tiles; tile++) {
        const u32 stage = tile % STAGES;
        if (lane == 0)
            load(base, &in, tile, row + 32 * tile);
        __syncwarp();
        mbarrier_wait_cluster(base + FULL + 8 * stage, tile / STAGES % 2); /* NEEDED: both halves have come */
        for (u32 i = 0; i < 32; i++)
            sum += weight[blockIdx.x * 32 + i] * ((float *)(memory + stage * TILE))[i * 32 + lane];
        asm volatile("fence.proxy.async;" ::: "memory"); /* NEEDED: read here, written next by the async proxy */
        for (u32 block = 0; block < 2; block++)
            mbarrier_arrive_cluster(mapa(base + EMPTY + 8 * stage, block));
    }
    out[blockIdx.x * 32 + lane] = sum;
    cluster_sync(); /* nobody leaves while the other may still arrive here */
}
