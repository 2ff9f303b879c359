/* Probes of what the ISA shows in figures: where wgmma, ldmatrix, stmatrix and tensor copies find each element. Results
 * are addresses or plain bytes, the same on any right device. Made into PTX or a cubin and run by probes.c. */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct __align__(128) tensor_map
{
    u64 words[16];
};

extern __shared__ __align__(1024) u8 memory[];

static __device__ u32 shared_address(const void *pointer)
{
    return (u32)__cvta_generic_to_shared(pointer);
}

static __device__ void fill(u8 *to, const u8 *from, u32 bytes)
{
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x)
        ((u32 *)to)[i] = ((const u32 *)from)[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

/* 9.7.15.5.2, m64n64: 32 registers of D. */
#define D32(d)                                                                                                         \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),        \
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),         \
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),        \
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define S32(d)                                                                                                         \
    "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]),        \
        "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]),         \
        "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]),        \
        "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31])
#define D_LIST                                                                                                         \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "  \
    "%24, %25, %26, %27, %28, %29, %30, %31}"

/* In one statement with wgmma, or the compiler sets the accumulator's registers between the two. */
#define FENCE "wgmma.fence.sync.aligned;\n"

/* Row and column of register r of this thread. */
static __device__ u32 row_of(u32 r)
{
    return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * (r / 2 % 2);
}

static __device__ u32 column_of(u32 r)
{
    return r / 4 * 8 + threadIdx.x % 4 * 2 + r % 2;
}

static __device__ void dump(u32 *out, const float *d)
{
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (u32 r = 0; r < 32; r++)
        out[row_of(r) * 64 + column_of(r)] = __float_as_uint(d[r]);
}

/* A and B by descriptors; the window's bytes are given, the descriptors' addresses count from `memory`. */
template <int TRANS_A, int TRANS_B> static __device__ void both(u32 *out, const u8 *image, u32 bytes, u64 a, u64 b)
{
    float d[32] = {};
    fill(memory, image, bytes);
    a += shared_address(memory) >> 4;
    b += shared_address(memory) >> 4;
    asm volatile("{.reg .pred p; setp.ne.u32 p, 0, 0;\n" FENCE
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " D_LIST ", %32, %33, p, 1, 1, %34, %35;}"
                 : D32(d)
                 : "l"(a), "l"(b), "n"(TRANS_A), "n"(TRANS_B));
    dump(out, d);
}

extern "C" __global__ void __launch_bounds__(128) wgmma_kk(u32 *out, const u8 *image, u32 bytes, u64 a, u64 b)
{
    both<0, 0>(out, image, bytes, a, b);
}

extern "C" __global__ void __launch_bounds__(128) wgmma_mk(u32 *out, const u8 *image, u32 bytes, u64 a, u64 b)
{
    both<1, 0>(out, image, bytes, a, b);
}

/* A in registers: row m is one-hot at k = m % 16, so that row k of D is row k of B. */
template <int TRANS_B> static __device__ void one_hot(u32 *out, const u8 *image, u32 bytes, u64 b)
{
    float d[32] = {};
    u32 a[4];
    for (u32 r = 0; r < 4; r++) {
        const u32 row = threadIdx.x % 32 / 4 + 8 * (r % 2), k = threadIdx.x % 4 * 2 + 8 * (r / 2);
        a[r] = (row == k ? 0x3c00u : 0) | (row == k + 1 ? 0x3c000000u : 0);
    }
    fill(memory, image, bytes);
    b += shared_address(memory) >> 4;
    asm volatile("{.reg .pred p; setp.ne.u32 p, 0, 0;\n" FENCE
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " D_LIST
                 ", {%32, %33, %34, %35}, %36, p, 1, 1, %37;}"
                 : D32(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TRANS_B));
    dump(out, d);
}

extern "C" __global__ void __launch_bounds__(128) wgmma_b_k(u32 *out, const u8 *image, u32 bytes, u64 a, u64 b)
{
    one_hot<0>(out, image, bytes, b);
}

extern "C" __global__ void __launch_bounds__(128) wgmma_b_mn(u32 *out, const u8 *image, u32 bytes, u64 a, u64 b)
{
    one_hot<1>(out, image, bytes, b);
}

/* tf32: rows 0 to 7 of each eight are one-hot at k = m % 8. */
extern "C" __global__ void __launch_bounds__(128) wgmma_b_tf32(u32 *out, const u8 *image, u32 bytes, u64, u64 b)
{
    float d[32] = {};
    u32 a[4];
    for (u32 r = 0; r < 4; r++)
        a[r] = threadIdx.x % 32 / 4 == threadIdx.x % 4 + 4 * (r / 2) ? 0x3f800000u : 0;
    fill(memory, image, bytes);
    b += shared_address(memory) >> 4;
    asm volatile("{.reg .pred p; setp.ne.u32 p, 0, 0;\n" FENCE
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 " D_LIST ", {%32, %33, %34, %35}, %36, p, 1, 1;}"
                 : D32(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    dump(out, d);
}

/* u8: warps 0 and 1 have k = 0 … 31 in their 32 rows, warps 2 and 3 again. */
extern "C" __global__ void __launch_bounds__(128) wgmma_b_u8(u32 *out, const u8 *image, u32 bytes, u64, u64 b)
{
    u32 d[32] = {}, a[4] = {};
    for (u32 r = 0; r < 4; r++)
        for (u32 i = 0; i < 4; i++) {
            const u32 row = threadIdx.x / 32 % 2 * 16 + threadIdx.x % 32 / 4 + 8 * (r % 2);
            a[r] |= (row == threadIdx.x % 4 * 4 + 16 * (r / 2) + i ? 1u : 0) << 8 * i;
        }
    fill(memory, image, bytes);
    b += shared_address(memory) >> 4;
    asm volatile("{.reg .pred p; setp.ne.u32 p, 0, 0;\n" FENCE
                 "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.u8 " D_LIST ", {%32, %33, %34, %35}, %36, p;}"
                 : S32(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (u32 r = 0; r < 32; r++)
        out[row_of(r) * 64 + column_of(r)] = d[r];
}

/* 9.7.14.5.15 to 17. One warp; each lane's address is that of row (lane * 5) % 32. Six forms of each, and movmatrix. */
#define LDMATRIX(form, at)                                                                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8." form ".shared.b16 {%0, %1, %2, %3}, [%4];"                              \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                                      \
                 : "r"(address));                                                                                      \
    for (u32 i = 0; i < 4; i++)                                                                                        \
    out[((at)*4 + i) * 32 + threadIdx.x] = r[i]

extern "C" __global__ void __launch_bounds__(32) matrices(u32 *out, const u8 *image, u32 bytes, u64, u64)
{
    const u32 lane = threadIdx.x, address = shared_address(memory) + lane * 5 % 32 * 16;
    u32 r[4] = {};
    fill(memory, image, 512);
    LDMATRIX("x4", 0);
    LDMATRIX("x4.trans", 1);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(out[256 + lane]) : "r"(address));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(out[288 + lane]), "=r"(out[320 + lane])
                 : "r"(address));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out[352 + lane]) : "r"(r[1]));
    __syncwarp();
    for (u32 i = 0; i < 4; i++)
        r[i] = (lane * 4 + i) * 0x10001u + 0x80000000u;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
    __syncwarp();
    for (u32 i = 0; i < 4; i++)
        out[384 + i * 32 + lane] = ((u32 *)memory)[i * 32 + lane];
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r[2]), "r"(r[3])
                 : "memory");
    __syncwarp();
    for (u32 i = 0; i < 4; i++)
        out[512 + i * 32 + lane] = ((u32 *)memory)[i * 32 + lane];
}

/* 9.7.9.25.5.2: one box into shared memory that holds 0xa5 otherwise, all of it to `out`; then the box back to another
 * tensor when there is one. */
#define TENSOR(dims, coordinates)                                                                                      \
    asm volatile("cp.async.bulk.tensor." dims                                                                          \
                 ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, " coordinates "], [%2];" ::"r"(to),  \
                 "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])                   \
                 : "memory");                                                                                          \
    break
#define TENSOR_BACK(dims, coordinates)                                                                                 \
    asm volatile("cp.async.bulk.tensor." dims ".global.shared::cta.bulk_group [%1, " coordinates "], [%0];" ::"r"(to), \
                 "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])                   \
                 : "memory");                                                                                          \
    break

struct box {
    int at[5];
    int rank;
    u32 tx_bytes, offset, window_bytes;
};

extern "C" __global__ void __launch_bounds__(32) tensor_load(u32 *out, const __grid_constant__ tensor_map map, box b)
{
    const int *at = b.at;
    const u32 barrier = shared_address(memory), to = barrier + 1024 + b.offset;
    for (u32 i = threadIdx.x; i < b.window_bytes / 4; i += 32)
        ((u32 *)(memory + 1024))[i] = 0xa5a5a5a5u;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(b.tx_bytes)
                     : "memory");
        switch (b.rank) {
        case 1:
            TENSOR("1d", "{%3}");
        case 2:
            TENSOR("2d", "{%3, %4}");
        case 3:
            TENSOR("3d", "{%3, %4, %5}");
        case 4:
            TENSOR("4d", "{%3, %4, %5, %6}");
        default:
            TENSOR("5d", "{%3, %4, %5, %6, %7}");
        }
    }
    asm volatile("{.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra WAIT;}" ::"r"(barrier)
                 : "memory");
    for (u32 i = threadIdx.x; i < b.window_bytes / 4; i += 32)
        out[i] = ((u32 *)(memory + 1024))[i];
}

extern "C" __global__ void __launch_bounds__(32)
    tensor_store(const u8 *image, const __grid_constant__ tensor_map map, box b)
{
    const int *at = b.at;
    const u32 barrier = 0, to = shared_address(memory) + 1024 + b.offset;
    fill(memory + 1024, image, b.window_bytes);
    if (threadIdx.x != 0)
        return;
    switch (b.rank) {
    case 1:
        TENSOR_BACK("1d", "{%3}");
    case 2:
        TENSOR_BACK("2d", "{%3, %4}");
    case 3:
        TENSOR_BACK("3d", "{%3, %4, %5}");
    case 4:
        TENSOR_BACK("4d", "{%3, %4, %5, %6}");
    default:
        TENSOR_BACK("5d", "{%3, %4, %5, %6, %7}");
    }
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}

/* The same with cache policies: load; store and reduce the box 20 rows further. Two dimensions. */
extern "C" __global__ void __launch_bounds__(32) tensor_hints(u32 *out, const __grid_constant__ tensor_map map, box b)
{
    const u32 barrier = shared_address(memory), to = barrier + 1024;
    u64 first, last;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(last));
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(b.tx_bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                 "[%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(b.at[0]), "r"(b.at[1]), "l"(first)
                 : "memory");
    asm volatile("{.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra WAIT;}" ::"r"(barrier)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%1, {%2, %3}], [%0], %4;\n"
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"r"(to),
                 "l"(&map), "r"(b.at[0]), "r"(b.at[1] + 20), "l"(last)
                 : "memory");
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group.L2::cache_hint "
                 "[%1, {%2, %3}], [%0], %4;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"r"(to),
                 "l"(&map), "r"(b.at[0]), "r"(b.at[1] + 20), "l"(last)
                 : "memory");
}

/* 9.7.9.25.5.3: one box of two dimensions into the tensor. */
#define REDUCE(operation)                                                                                              \
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." operation                                        \
                 ".bulk_group [%1, {%2, %3}], [%0];" ::"r"(from),                                                      \
                 "l"(&map), "r"(b.at[0]), "r"(b.at[1])                                                                 \
                 : "memory");                                                                                          \
    break

extern "C" __global__ void __launch_bounds__(32)
    tensor_reduce(const u8 *image, const __grid_constant__ tensor_map map, box b, int operation)
{
    const u32 from = shared_address(memory) + 1024;
    fill(memory + 1024, image, b.window_bytes);
    if (threadIdx.x != 0)
        return;
    switch (operation) {
    case 0:
        REDUCE("add");
    case 1:
        REDUCE("min");
    case 2:
        REDUCE("max");
    case 3:
        REDUCE("inc");
    case 4:
        REDUCE("dec");
    case 5:
        REDUCE("and");
    case 6:
        REDUCE("or");
    default:
        REDUCE("xor");
    }
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(32) tensor_prefetch(u32 *, const __grid_constant__ tensor_map map, box b)
{
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(&map), "r"(b.at[0]),
                     "r"(b.at[1])
                     : "memory");
}

/* 9.7.9.25.4.2 */
#define BULK_REDUCE(operation)                                                                                         \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." operation " [%0], [%1], %2;" ::"l"(out),        \
                 "r"(shared_address(memory)), "r"(bytes)                                                               \
                 : "memory");                                                                                          \
    break

extern "C" __global__ void __launch_bounds__(32) bulk_reduce(u32 *out, const u8 *image, u32 bytes, int operation)
{
    fill(memory, image, bytes);
    if (threadIdx.x != 0)
        return;
    switch (operation) {
    case 0:
        BULK_REDUCE("add.f32");
    case 1:
        BULK_REDUCE("add.noftz.f16");
    case 2:
        BULK_REDUCE("add.noftz.bf16");
    default:
        BULK_REDUCE("max.f16");
    }
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}

/* ---- Numbers ---- */

/* Conversions of 65536 floats whose upper halves are all there are, with a rest that makes ties and near ties. */
extern "C" __global__ void __launch_bounds__(128) conversions(u32 *out, const u8 *, u32 rest, u64, u64)
{
    for (u32 i = threadIdx.x; i < 65536; i += 128) {
        const float x = __uint_as_float(i << 16 | rest);
        u16 half, bf16, e4m3, e5m2;
        u32 from_e4m3, tf32;
        asm volatile("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
        asm volatile("cvt.rn.bf16.f32 %0, %1;" : "=h"(bf16) : "f"(x));
        asm volatile("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(e4m3) : "f"(x), "f"(-x));
        asm volatile("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(e5m2) : "f"(x), "f"(-x));
        asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(from_e4m3) : "h"((u16)i));
        asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(x));
        out[4 * i] = half | (u32)bf16 << 16;
        out[4 * i + 1] = e4m3 | (u32)e5m2 << 16;
        out[4 * i + 2] = from_e4m3;
        out[4 * i + 3] = x == x ? tf32 : 0;
    }
}

/* Conversions from 16 bits: all there are, with every NaN. */
extern "C" __global__ void __launch_bounds__(128) narrow_conversions(u32 *out, const u8 *, u32, u64, u64)
{
    for (u32 i = threadIdx.x; i < 65536; i += 128) {
        float from_half, from_bf16;
        u32 from_e5m2;
        u16 e4m3, e5m2;
        asm volatile("cvt.f32.f16 %0, %1;" : "=f"(from_half) : "h"((u16)i));
        asm volatile("cvt.f32.bf16 %0, %1;" : "=f"(from_bf16) : "h"((u16)i));
        asm volatile("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(from_e5m2) : "h"((u16)i));
        asm volatile("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(e4m3) : "r"(i * 0x10001u ^ 0x80000000u));
        asm volatile("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(e5m2) : "r"(i * 0x10001u ^ 0x80000000u));
        out[4 * i] = __float_as_uint(from_half);
        out[4 * i + 1] = __float_as_uint(from_bf16);
        out[4 * i + 2] = from_e5m2;
        out[4 * i + 3] = e4m3 | (u32)e5m2 << 16;
    }
}

/* Approximations to 16 of their 24 bits: at special values they are exact. */
static __device__ u32 about(float x, u32 half)
{
    const u32 bits = __float_as_uint(x);
    return (bits >> 23 & 255) == 255 ? bits : (bits + half) / (2 * half) * (2 * half);
}

#define UNARY(opcode, half, at)                                                                                        \
    asm volatile(opcode " %0, %1;" : "=f"(y) : "f"(x));                                                                \
    out[i * 16 + (at)] = about(y, half)

extern "C" __global__ void __launch_bounds__(32) approximations(u32 *out, const u8 *image, u32 count, u64, u64)
{
    for (u32 i = threadIdx.x; i < count; i += 32) {
        const float x = ((const float *)image)[i];
        float y;
        UNARY("ex2.approx.f32", 128, 0);
        UNARY("ex2.approx.ftz.f32", 128, 1);
        UNARY("lg2.approx.f32", 128, 2);
        UNARY("lg2.approx.ftz.f32", 128, 3);
        UNARY("rcp.approx.f32", 128, 4);
        UNARY("rcp.approx.ftz.f32", 128, 5);
        UNARY("rsqrt.approx.f32", 128, 6);
        UNARY("rsqrt.approx.ftz.f32", 128, 7);
        UNARY("sqrt.approx.f32", 128, 8);
        UNARY("sqrt.approx.ftz.f32", 128, 9);
        UNARY("tanh.approx.f32", 65536, 10);
        UNARY("rcp.rn.f32", 128, 11);
        UNARY("rcp.rn.ftz.f32", 128, 12);
        UNARY("sqrt.rn.f32", 128, 13);
        UNARY("sqrt.rn.ftz.f32", 128, 14);
        int whole;
        asm volatile("cvt.rni.s32.f32 %0, %1;" : "=r"(whole) : "f"(x));
        out[i * 16 + 15] = (u32)whole;
    }
}

#define BINARY(opcode, at)                                                                                             \
    asm volatile(opcode " %0, %1, %2;" : "=f"(y) : "f"(x), "f"(z));                                                    \
    out[i * 24 + (at)] = __float_as_uint(y)
#define TERNARY(opcode, at)                                                                                            \
    asm volatile(opcode " %0, %1, %2, %1;" : "=f"(y) : "f"(x), "f"(z));                                                \
    out[i * 24 + (at)] = __float_as_uint(y)

/* Every pair of `count` floats. Exact: each has one right answer, NaNs included. */
extern "C" __global__ void __launch_bounds__(128) pairs(u32 *out, const u8 *image, u32 count, u64, u64)
{
    for (u32 i = threadIdx.x; i < count * count; i += 128) {
        const float x = ((const float *)image)[i / count], z = ((const float *)image)[i % count];
        float *const cell = (float *)&out[i * 24 + 22], *const shared = (float *)memory + threadIdx.x;
        float y;
        BINARY("add.rn.f32", 0);
        BINARY("add.rn.ftz.f32", 1);
        BINARY("sub.rn.f32", 2);
        BINARY("mul.rn.f32", 3);
        BINARY("mul.rn.ftz.f32", 4);
        BINARY("min.f32", 5);
        BINARY("max.f32", 6);
        BINARY("min.ftz.f32", 7);
        BINARY("max.ftz.f32", 8);
        BINARY("min.NaN.f32", 9);
        BINARY("max.NaN.f32", 10);
        BINARY("div.rn.f32", 11);
        BINARY("div.rn.ftz.f32", 12);
        TERNARY("fma.rn.f32", 13);
        TERNARY("fma.rn.ftz.f32", 14);
        TERNARY("fma.rn.sat.f32", 15);
        BINARY("add.rz.f32", 16);
        BINARY("mul.rp.f32", 17);
        BINARY("add.sat.f32", 18);
        BINARY("max.ftz.NaN.f32", 19);
        u32 packed;
        asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(x), "f"(z));
        out[i * 24 + 20] = packed;
        asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(x), "f"(z));
        out[i * 24 + 21] = packed;
        *cell = x;
        asm volatile("red.global.add.f32 [%0], %1;" ::"l"(cell), "f"(z) : "memory");
        __syncwarp();
        *shared = x;
        asm volatile("atom.shared.add.f32 %0, [%1], %2;" : "=f"(y) : "r"(shared_address(shared)), "f"(z) : "memory");
        __syncwarp();
        out[i * 24 + 23] = __float_as_uint(*shared);
    }
}

#define HALVES(opcode, at)                                                                                             \
    asm volatile(opcode " %0, %1, %2;" : "=r"(y) : "r"(x), "r"(z));                                                    \
    out[i * 16 + (at)] = y
#define HALVES3(opcode, at)                                                                                            \
    asm volatile(opcode " %0, %1, %2, %1;" : "=r"(y) : "r"(x), "r"(z));                                                \
    out[i * 16 + (at)] = y

/* Every pair of `count` f16s (lower halves) and bf16s (upper halves of the words), in both halves. */
extern "C" __global__ void __launch_bounds__(128) half_pairs(u32 *out, const u8 *image, u32 count, u64, u64)
{
    for (u32 i = threadIdx.x; i < count * count; i += 128) {
        const u32 first = ((const u32 *)image)[i / count], second = ((const u32 *)image)[i % count];
        u32 x = (first & 0xffff) | second << 16, z = (second & 0xffff) | first << 16, y;
        HALVES("add.rn.f16x2", 0);
        HALVES("sub.rn.f16x2", 1);
        HALVES("mul.rn.f16x2", 2);
        HALVES("min.f16x2", 3);
        HALVES("max.NaN.f16x2", 4);
        HALVES3("fma.rn.f16x2", 5);
        HALVES3("fma.rn.relu.f16x2", 6);
        HALVES("add.rn.ftz.f16x2", 7);
        x = first >> 16 | (second & 0xffff0000u), z = second >> 16 | (first & 0xffff0000u);
        HALVES("add.rn.bf16x2", 8);
        HALVES("sub.rn.bf16x2", 9);
        HALVES("mul.rn.bf16x2", 10);
        HALVES("min.bf16x2", 11);
        HALVES("max.NaN.bf16x2", 12);
        HALVES3("fma.rn.bf16x2", 13);
        HALVES3("fma.rn.relu.bf16x2", 14);
        HALVES("max.bf16x2", 15);
    }
}

/* Sixteen lanes ask lane 20, who is not among them: nothing is defined, this shows what a card does. */
extern "C" __global__ void __launch_bounds__(32) absent_lane(u32 *out, const u8 *, u32, u64, u64)
{
    u32 value = 0x1000 + threadIdx.x, got = 0;
    if (threadIdx.x < 16) {
        asm volatile("shfl.sync.idx.b32 %0, %1, 20, 31, 0xffff;" : "=r"(got) : "r"(value));
        out[threadIdx.x] = got;
    } else
        out[threadIdx.x] = value;
}
