/* What the own kernels share beside templates/ptx_sm90.cuh: one wrapper for each PTX instruction, PTX's own name.
 * Section numbers: PTX ISA 9.2. */
#ifndef OWN_CUH
#define OWN_CUH

#include "ptx_sm90.cuh"

/* What cuTensorMapEncodeTiled fills in. */
struct __align__(64) tensor_map
{
    u64 words[16];
};

extern __shared__ __align__(1024) u8 memory[];

/* ---- mbarriers ---- */

/* 9.7.13.15.13, at the barrier of any block of the cluster (address by mapa). */
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 mbarrier)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

/* 9.7.13.4: the init is seen by the cluster and by the async proxy. */
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* ---- Bulk copies ---- */

/* 9.7.9.25.5.2, two dimensions: x is the inner one. */
__device__ __forceinline__ void tensor_load(u32 to, const tensor_map *map, u32 mbarrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
                 "[%2];" ::"r"(to),
                 "l"(map), "r"(mbarrier), "r"(x), "r"(y)
                 : "memory");
}

__device__ __forceinline__ void tensor_store(const tensor_map *map, u32 from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
                 "r"(x), "r"(y)
                 : "memory");
}

/* 9.7.9.25.4.4: of this thread's groups at most PENDING have not been written. */
template <int PENDING> __device__ __forceinline__ void bulk_wait_group()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* ---- Clusters ---- */

__device__ __forceinline__ u32 cluster_rank()
{
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ u32 cluster_size()
{
    u32 size;
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
    return size;
}

/* 9.7.13.3 barrier.cluster, with release and acquire. */
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* 9.7.9.24 mapa: the same variable in another block. */
__device__ __forceinline__ u32 mapa(u32 address, u32 rank)
{
    u32 mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

/* ---- Matrices ---- */

/* 9.7.15.5.1.2.2; swizzle 0 none, 1 128 bytes, 2 64, 3 32. */
__device__ __forceinline__ u64 descriptor(u32 address, u32 leading_bytes, u32 stride_bytes, u32 swizzle)
{
    return (u64)((address & 0x3ffff) >> 4) | (u64)(leading_bytes >> 4) << 16 | (u64)(stride_bytes >> 4) << 32 |
           (u64)swizzle << 62;
}

/* Two floats as bf16; `low` in the lower half. */
__device__ __forceinline__ u32 bf16x2(float low, float high)
{
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* A list of eight registers from r on, for operands of wgmma. */
#define EIGHT(mode, r, at)                                                                                             \
    mode(r[at]), mode(r[(at) + 1]), mode(r[(at) + 2]), mode(r[(at) + 3]), mode(r[(at) + 4]), mode(r[(at) + 5]),        \
        mode(r[(at) + 6]), mode(r[(at) + 7])
#define THIRTY_TWO(mode, r, at)                                                                                        \
    EIGHT(mode, r, at), EIGHT(mode, r, (at) + 8), EIGHT(mode, r, (at) + 16), EIGHT(mode, r, (at) + 24)
#define NAMES_32                                                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "   \
    "%24, %25, %26, %27, %28, %29, %30, %31"

/* 9.7.15.5.1.1: row and column of this thread's register r of D. */
__device__ __forceinline__ u32 wgmma_row(u32 r)
{
    return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + 8 * (r / 2 % 2);
}

__device__ __forceinline__ u32 wgmma_column(u32 r)
{
    return r / 4 * 8 + threadIdx.x % 4 * 2 + r % 2;
}

#endif
