/* out[y][x] = in[y][x] + 1 for 64 x 64 floats, block b four rows of boxes of 16 x 16: by a tensor map of `in` that the
 * block makes itself, in shared memory and from zeros, and one of `out` that the host made for another tensor and the
 * block changes in global memory. maps: 2 x 128 bytes a block, the second the host's. 32 threads, 2 KiB + 8 bytes. */
#include "own.cuh"

enum { SIZE = 64, SIDE = 16, BOX = SIDE * SIDE * 4, MAP = BOX, BARRIER = MAP + 128 };

/* 9.7.9.26 tensormap.replace */
#define REPLACE(field, value)                                                                                          \
    asm volatile("tensormap.replace.tile." field ".shared::cta.b1024.b32 [%0], %1;" ::"r"(map), "n"(value) : "memory")
#define REPLACE_AT(field, at, value)                                                                                   \
    asm volatile("tensormap.replace.tile." field ".shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(at),           \
                 "r"(value)                                                                                            \
                 : "memory")

static __device__ void make_map(u32 map, const float *in)
{
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map), "l"(in)
                 : "memory");
    REPLACE("rank", 1);
    REPLACE_AT("box_dim", 0, SIDE);
    REPLACE_AT("box_dim", 1, SIDE);
    REPLACE_AT("global_dim", 0, SIZE);
    REPLACE_AT("global_dim", 1, SIZE);
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(map),
                 "l"((u64)(SIZE * 4))
                 : "memory");
    REPLACE_AT("element_stride", 0, 1);
    REPLACE_AT("element_stride", 1, 1);
    REPLACE("elemtype", 7);
    REPLACE("interleave_layout", 0);
    REPLACE("swizzle_mode", 0);
    REPLACE("fill_mode", 0);
}

/* 9.7.13.16: copies the map; a whole warp. */
static __device__ void publish(tensor_map *to, u32 map)
{
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], "
                 "128;" ::"l"(to),
                 "r"(map)
                 : "memory");
}

static __device__ void change_address(tensor_map *map, float *out)
{
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(out) : "memory");
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
}

static __device__ void acquire(const tensor_map *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

static __device__ void add_one(const tensor_map *in, const tensor_map *out, u32 base, int x, u32 parity)
{
    const int y = SIDE * blockIdx.x;
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(base + BARRIER, BOX);
        tensor_load(base, in, base + BARRIER, x, y);
    }
    mbarrier_wait(base + BARRIER, parity);
    for (u32 i = threadIdx.x; i < SIDE * SIDE; i += 32)
        ((float *)memory)[i] += 1;
    fence_proxy_async();
    __syncwarp();
    if (threadIdx.x == 0) {
        tensor_store(out, base, x, y);
        bulk_commit_group();
        bulk_wait_group<0>();
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(32) tensor_map_made(const float *in, float *out, tensor_map *maps)
{
    const u32 base = shared_address(memory);
    tensor_map *in_map = maps + 2 * blockIdx.x, *out_map = in_map + 1;
    ((u32 *)(memory + MAP))[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        mbarrier_init(base + BARRIER, 1);
    fence_proxy_async();
    __syncwarp(); /* NEEDED: the map is all zeros */
    if (threadIdx.x == 0) {
        make_map(base + MAP, in);
        change_address(out_map, out);
    }
    __syncwarp();
    publish(in_map, base + MAP); /* NEEDED: in global memory there is no map yet */
    acquire(in_map);             /* NEEDED: the copies read the new map */
    acquire(out_map);            /* NEEDED: … and the changed one */
    __syncwarp();
    for (u32 box = 0; box < SIZE / SIDE; box++)
        add_one(in_map, out_map, base, SIDE * box, box % 2);
}
