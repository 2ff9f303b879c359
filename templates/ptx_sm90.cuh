/* One wrapper for each PTX instruction the sm_90 kernels use, PTX's own name with underscores.
 * Section numbers: PTX ISA 9.2. Shared-memory addresses are 32-bit, of the shared::cta window. */
#ifndef SMLA_PTX_SM90_CUH
#define SMLA_PTX_SM90_CUH

#include "types.cuh"

/* ---- Addresses and registers ---- */

/* 9.7.9.20 cvta */
__device__ __forceinline__ u32 shared_address(const void *pointer)
{
    u64 address;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
    return (u32)address;
}

/* 9.7.19.5 setmaxnreg: every warp of the warpgroup executes it. */
template <int REGISTERS> __device__ __forceinline__ void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> __device__ __forceinline__ void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* ---- Barriers ---- */

/* 9.7.13.1 barrier.cta: waits until `threads` threads (whole warps) have come; orders their memory accesses. */
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads)
{
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* 9.7.13.1 barrier.cta.arrive: counts as having come, and does not wait. */
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads)
{
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* 9.7.13.1 barrier.cta.red.or: waits as named_barrier_sync does; whether any of the threads came with `value` set. */
__device__ __forceinline__ bool named_barrier_any(int barrier, int threads, bool value)
{
    u32 any;
    asm volatile("{\n"
                 ".reg .pred mine, any;\n"
                 "setp.ne.u32 mine, %3, 0;\n"
                 "barrier.cta.red.or.aligned.pred any, %1, %2, mine;\n"
                 "selp.u32 %0, 1, 0, any;\n"
                 "}\n"
                 : "=r"(any)
                 : "r"(barrier), "r"(threads), "r"((u32)value)
                 : "memory");
    return any != 0;
}

/* 9.7.13.15.9 mbarrier.init */
__device__ __forceinline__ void mbarrier_init(u32 mbarrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(arrivals) : "memory");
}

/* 9.7.13.15.13 mbarrier.arrive, with release semantics. */
__device__ __forceinline__ void mbarrier_arrive(u32 mbarrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

/* 9.7.13.15.16 mbarrier.try_wait: waits until the phase of this parity has completed. */
__device__ __forceinline__ void mbarrier_wait(u32 mbarrier, u32 parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra WAIT;\n"
                 "}\n" ::"r"(mbarrier),
                 "r"(parity)
                 : "memory");
}

/* 9.7.13.4 fence.proxy.async: orders generic accesses before it and async-proxy accesses (wgmma) after it. */
__device__ __forceinline__ void fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- Copies ---- */

/* 9.7.9.25.3.1 cp.async: 16 bytes; those past `source_bytes` (0 or 16) are written as zeros and not read. */
__device__ __forceinline__ void cp_async_16(u32 destination, const void *source, u32 source_bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source),
                 "r"(source_bytes)
                 : "memory");
}

/* 9.7.9.25.3.3 cp.async.wait_all: this thread's copies have been written. */
__device__ __forceinline__ void cp_async_wait_all()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* 9.7.13.15.15 cp.async.mbarrier.arrive.noinc: arrives when this thread's copies so far have been written. */
__device__ __forceinline__ void cp_async_mbarrier_arrive(u32 mbarrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(mbarrier) : "memory");
}

/* 9.7.9.25.3.2, .3 cp.async.commit_group, cp.async.wait_group: of this thread's groups at most PENDING are not written. */
__device__ __forceinline__ void cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* 9.7.9.8 ld: bytes that nobody writes while the kernel runs, or zeros and no access. One predicated instruction: with
 * a branch around each load the warps spend their time on joining again. */
__device__ __forceinline__ uint4 load_global_16_if(bool there, u64 address)
{
    uint4 bytes;
    asm volatile("{\n"
                 ".reg .pred there;\n"
                 "setp.ne.s32 there, %4, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@there ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%5];\n"
                 "}\n"
                 : "=&r"(bytes.x), "=&r"(bytes.y), "=&r"(bytes.z), "=&r"(bytes.w)
                 : "r"((int)there), "l"(address));
    return bytes;
}

__device__ __forceinline__ u32 load_global_4_if(bool there, u64 address)
{
    u32 bytes;
    asm volatile("{\n"
                 ".reg .pred there;\n"
                 "setp.ne.s32 there, %1, 0;\n"
                 "mov.b32 %0, 0;\n"
                 "@there ld.global.nc.u32 %0, [%2];\n"
                 "}\n"
                 : "=&r"(bytes)
                 : "r"((int)there), "l"(address));
    return bytes;
}

__device__ __forceinline__ u32 load_global_1_if(bool there, u64 address)
{
    u32 byte;
    asm volatile("{\n"
                 ".reg .pred there;\n"
                 "setp.ne.s32 there, %1, 0;\n"
                 "mov.b32 %0, 0;\n"
                 "@there ld.global.nc.u8 %0, [%2];\n"
                 "}\n"
                 : "=&r"(byte)
                 : "r"((int)there), "l"(address));
    return byte;
}

/* 9.7.9.11 st.shared */
__device__ __forceinline__ void store_shared_16(u32 address, uint4 bytes)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(bytes.x), "r"(bytes.y), "r"(bytes.z),
                 "r"(bytes.w)
                 : "memory");
}

/* 9.7.9.11 st.global: in the order of the code, so that no more than one store's operands are made at once. */
__device__ __forceinline__ void store_global_f32x4(float *address, float a, float b, float c, float d)
{
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

/* 9.7.14.5.16 stmatrix: four 8x8 matrices of 16 bits; lane i gives the address of row i % 8 of matrix i / 8. */
__device__ __forceinline__ void stmatrix_x4(u32 address, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}

/* The same with each matrix transposed on its way: row i in memory is column i of the fragment. */
__device__ __forceinline__ void stmatrix_x4_trans(u32 address, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

/* Two matrices; lanes 16 to 31 give no address. */
__device__ __forceinline__ void stmatrix_x2_trans(u32 address, u32 a, u32 b)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b)
                 : "memory");
}

/* 9.7.14.5.17 movmatrix: an 8x8 matrix of 16-bit elements, transposed, among a warp's lanes. */
__device__ __forceinline__ u32 movmatrix_trans(u32 matrix)
{
    u32 transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(matrix));
    return transposed;
}

/* ---- Conversions ---- */

/* 9.7.9.21 cvt: two e4m3 (the low byte first) to f16, exactly. */
__device__ __forceinline__ u32 cvt_f16x2_e4m3x2(u16 values)
{
    u32 converted;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(converted) : "h"(values));
    return converted;
}

/* The same of a word's four: the halves are named to ptxas, which then shifts nothing. */
__device__ __forceinline__ uint2 cvt_f16x2_e4m3x2_twice(u32 values)
{
    uint2 converted;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, low;\n"
        "cvt.rn.f16x2.e4m3x2 %1, high;\n"
        "}\n"
        : "=r"(converted.x), "=r"(converted.y)
        : "r"(values));
    return converted;
}

/* 9.7.9.7 prmt, with all four bits of each selector (__byte_perm has three). */
__device__ __forceinline__ u32 prmt(u32 low, u32 high, u32 selectors)
{
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selectors));
    return bytes;
}

/* 9.7.4.3 mul: two bf16, rounded to nearest even, subnormals kept. */
__device__ __forceinline__ u32 mul_bf16x2(u32 a, u32 b)
{
    u32 product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

/* 9.7.9.21 cvt */
__device__ __forceinline__ float cvt_f32_f16(u16 value)
{
    float converted;
    asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(value));
    return converted;
}

/* ---- wgmma ---- */

/* 9.7.15.7.1 wgmma.fence: orders this warpgroup's register accesses before its next wgmma. */
__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* 9.7.15.7.2 */
__device__ __forceinline__ void wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* 9.7.15.7.3: at most PENDING groups are still running afterwards. */
template <int PENDING> __device__ __forceinline__ void wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* 9.7.15.5.1.2.2 matrix descriptor, 128-byte swizzle:
 *   bits 0-13 address / 16 · 16-29 leading byte offset / 16 · 32-45 stride byte offset / 16 · 62-63 = 1, 128B swizzle.
 * K-major: stride = bytes between groups of 8 rows; the leading offset is not used.
 * MN-major: leading = bytes between tiles of 64 columns; stride = bytes between groups of 8 keys. */
__device__ __forceinline__ u64 wgmma_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes)
{
    return (u64)((address & 0x3ffff) >> 4) | (u64)(leading_bytes >> 4) << 16 | (u64)(stride_bytes >> 4) << 32 |
           (u64)1 << 62;
}

/* Advances a descriptor's address. */
__device__ __forceinline__ u64 wgmma_descriptor_plus(u64 descriptor, u32 bytes)
{
    return descriptor + (bytes >> 4);
}

/* The same in the low word alone, which the address does not leave. The words are named to ptxas, or it adds 64 bits.
 * (The persistent kernel names none; what that is worth has not been told from what calls differ by.) */
__device__ __forceinline__ u64 wgmma_descriptor_plus_low(u64 descriptor, u32 bytes)
{
    u64 advanced;
    asm("{\n"
        ".reg .b32 low, high;\n"
        "mov.b64 {low, high}, %1;\n"
        "add.u32 low, low, %2;\n"
        "mov.b64 %0, {low, high};\n"
        "}\n"
        : "=l"(advanced)
        : "l"(descriptor), "r"(bytes >> 4));
    return advanced;
}

/* ---- Of the persistent kernel ---- */

/* 9.7.9.20 cvta, by the compiler, which takes it back where it knows the object. */
__device__ __forceinline__ u32 shared_window_address(const void *pointer)
{
    return (u32)__cvta_generic_to_shared(pointer);
}

/* 9.7.9.8 ld: an int that nobody writes while the kernel runs, or `otherwise` and no access. */
__device__ __forceinline__ i32 load_global_i32_if(bool there, const i32 *address, i32 otherwise)
{
    i32 value;
    asm volatile("{\n"
                 ".reg .pred there;\n"
                 "setp.ne.s32 there, %1, 0;\n"
                 "mov.b32 %0, %3;\n"
                 "@there ld.global.nc.s32 %0, [%2];\n"
                 "}\n"
                 : "=&r"(value)
                 : "r"((int)there), "l"(address), "r"(otherwise));
    return value;
}

/* 9.7.9.8 ld.shared */
__device__ __forceinline__ uint4 load_shared_16(u32 address)
{
    uint4 bytes;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bytes.x), "=r"(bytes.y), "=r"(bytes.z), "=r"(bytes.w)
                 : "r"(address)
                 : "memory");
    return bytes;
}

/* 9.7.14.5.15 ldmatrix: four 8x8 matrices of 16 bits; lane i gives the address of row i % 8 of matrix i / 8. */
__device__ __forceinline__ void ldmatrix_x4(u32 (&matrix)[4], u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

/* The same with each matrix transposed on its way. */
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&matrix)[4], u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

/* 9.7.14.5.14 mma, of one warp: d += a . b, bf16, A by rows and B by columns. */
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 9.7.13.15.13 mbarrier.arrive.expect_tx: arrives, and the phase waits for so many bytes of asynchronous copies. */
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 mbarrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes) : "memory");
}

/* 9.7.9.25.5.2 cp.async.bulk.tensor, by one thread: a box of a tensor into shared memory; zeros past its ends. The
 * mbarrier is told of the bytes. */
__device__ __forceinline__ void copy_tensor_3d(u32 destination, const void *map, i32 x, i32 y, i32 z, u32 mbarrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(destination),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(mbarrier)
                 : "memory");
}

/* And back, in a bulk group; what lies past the tensor's ends is not written. */
__device__ __forceinline__ void store_tensor_3d(const void *map, i32 x, i32 y, i32 z, u32 source)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(source)
                 : "memory");
}

/* 9.7.9.25.4.3 */
__device__ __forceinline__ void bulk_commit_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* 9.7.9.25.4.4: of this thread's groups at most PENDING still read their sources. */
template <int PENDING> __device__ __forceinline__ void bulk_wait_group_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* 9.7.13.15.16 mbarrier.test_wait: whether the phase of this parity has completed. */
__device__ __forceinline__ bool mbarrier_test(u32 mbarrier, u32 parity)
{
    u32 done;
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n"
                 "}\n"
                 : "=r"(done)
                 : "r"(mbarrier), "r"(parity)
                 : "memory");
    return done != 0;
}

/* ---- Clusters ---- */

/* 10.12, 10.16, 10.17: the cluster's place in the grid, along x; this block's rank in it; how many blocks it has. */
__device__ __forceinline__ u32 clusterid_x()
{
    u32 id;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
    return id;
}

__device__ __forceinline__ u32 cluster_ctarank()
{
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ u32 cluster_nctarank()
{
    u32 ranks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(ranks));
    return ranks;
}

/* 9.7.13.3 barrier.cluster: each thread of the cluster arrives, then waits for all; what was written to any block's
 * shared memory before arriving is there after waiting. */
__device__ __forceinline__ void barrier_cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* 9.7.9.23 mapa: where another block of the cluster has what stands at this address here; in the shared::cluster
 * window. */
__device__ __forceinline__ u32 mapa_shared_cluster(u32 address, u32 rank)
{
    u32 mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

/* 9.7.9.12 st.async: into any block's shared memory; the mbarrier, of the same block, is told of the 16 bytes. */
__device__ __forceinline__ void store_async_f32x4(u32 address, float a, float b, float c, float d, u32 mbarrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                     address),
                 "f"(a), "f"(b), "f"(c), "f"(d), "r"(mbarrier)
                 : "memory");
}

/* 9.7.13.15.16 mbarrier.try_wait.acquire.cluster: what other blocks' st.async wrote is there after it. */
__device__ __forceinline__ void mbarrier_wait_cluster(u32 mbarrier, u32 parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "WAIT:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra WAIT;\n"
                 "}\n" ::"r"(mbarrier),
                 "r"(parity)
                 : "memory");
}

/* 9.7.9.8 ld.shared::cluster: any block's bytes, or zeros and no access. */
__device__ __forceinline__ uint4 load_shared_cluster_16_if(bool there, u32 address)
{
    uint4 bytes;
    asm volatile("{\n"
                 ".reg .pred there;\n"
                 "setp.ne.s32 there, %4, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@there ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%5];\n"
                 "}\n"
                 : "=&r"(bytes.x), "=&r"(bytes.y), "=&r"(bytes.z), "=&r"(bytes.w)
                 : "r"((int)there), "r"(address)
                 : "memory");
    return bytes;
}

/* 9.7.9.11 st.shared: accumulators as they are. (By way of their bits NVVM keeps them as integers, moves them back
 * behind wgmma.fence, and ptxas serialises what reads them.) */
__device__ __forceinline__ void store_shared_f32x4(u32 address, float a, float b, float c, float d)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

/* 9.7.13.15.16 mbarrier.try_wait.relaxed: waits, and orders nothing: for taking turns. */
__device__ __forceinline__ void mbarrier_wait_relaxed(u32 mbarrier, u32 parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "WAIT:\n"
                 "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra WAIT;\n"
                 "}\n" ::"r"(mbarrier),
                 "r"(parity)
                 : "memory");
}

#endif
