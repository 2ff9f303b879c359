/* What an sm_90 device reaches when it does nothing else: multiply, gather, or both, as a prefill kernel of 64 heads
 * with keys of 1 KiB (d_qk and d_v 512) would, but with no softmax and nobody waiting for anybody.
 *
 * A turn is two blocks of 64 keys:
 *
 *   matrix   two warpgroups; each multiplies the query by one block's keys (Q . K^T, m64n64k16 from shared memory) and
 *            both blocks' P by its half of the values' columns (P . V, m64n256k16): one P from registers, as its own
 *            would be, the other from shared memory, as the other warpgroup's would be
 *   gather   64 random rows of 1 KiB of the pool, twice, by 16-byte cp.async
 *
 * What is read is random, what is computed means nothing: with both, keys are multiplied while they are overwritten. */
#include "ptx_sm90.cuh"
#include "sm90_tile.cuh"
#include "types.cuh"

static constexpr int KEYS = 64, D = 512;
static constexpr int KEY_BYTES = D * 2;
static constexpr int BLOCK_BYTES = KEYS * KEY_BYTES;
static constexpr int COLUMNS = D / 2; /* of a warpgroup's half of out */
static constexpr int CHUNKS = BLOCK_BYTES / 16;
static constexpr int GATHER_THREADS = 256, GATHER_SLOTS = 3;

extern __shared__ __align__(1024) u8 shared[];

/* ---- Instructions ----------------------------------------------------------------------------------------------
 * PTX ISA 9.7.15.5.2: D = A * B + (accumulate ? D : 0); bf16 in, fp32 accumulate. */

/* A and B from shared memory, both along K. */
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], u64 a, u64 b, int accumulate)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
                   "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(accumulate));
}

/* A from shared memory along K, B along N. */
__device__ __forceinline__ void wgmma_m64n256k16(float (&d)[128], u64 a, u64 b, int accumulate)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, p, 1, 1, 0, 1;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
                   "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
                   "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
                   "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
                   "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
                   "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),
                   "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),
                   "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]),
                   "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]),
                   "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
                   "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]),
                   "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]),
                   "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]),
                   "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
                 : "l"(a), "l"(b), "r"(accumulate));
}

/* A from registers, B along N. */
__device__ __forceinline__ void wgmma_m64n256k16_registers(float (&d)[128], const u32 (&a)[4], u64 b, int accumulate)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                 "}, {%128, %129, %130, %131}, %132, p, 1, 1, 1;\n}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
                   "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
                   "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
                   "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
                   "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
                   "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),
                   "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),
                   "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]),
                   "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]),
                   "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
                   "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]),
                   "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]),
                   "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]),
                   "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

/* ---- Gather ----------------------------------------------------------------------------------------------------- */

/* A random row of the pool; the same number gives the same row (splitmix32's finish). */
__device__ __forceinline__ u32 random_row(u32 number, u32 rows)
{
    number = (number ^ number >> 16) * 0x7feb352du;
    number = (number ^ number >> 15) * 0x846ca68bu;
    return __umulhi(number ^ number >> 16, rows);
}

/* This thread's part of a block of random rows, as one group of copies. A warp reads 512 bytes of one row. */
template <int THREADS>
__device__ __forceinline__ void gather_block(u32 block, const u8 *pool, u32 rows, u32 number, int thread)
{
#pragma unroll 8
    for (int i = thread; i < CHUNKS; i += THREADS) {
        int key = i / (KEY_BYTES / 16), chunk = i % (KEY_BYTES / 16);
        const u8 *row = pool + (u64)random_row(number * KEYS + key, rows) * KEY_BYTES;
        cp_async_16(block + chunk / 8 * TILE_BYTES + swizzled(key, chunk % 8), row + chunk * 16, 16);
    }
    cp_async_commit_group();
}

extern "C" __global__ void __launch_bounds__(GATHER_THREADS, 1)
    ceiling_gather(const u8 *pool, u32 rows, int turns, float *out)
{
    u32 base = shared_address(shared), first = blockIdx.x * 2 * turns;
    for (int i = 0; i < 2 * turns; i++) {
        cp_async_wait_group<GATHER_SLOTS - 1>();
        gather_block<GATHER_THREADS>(base + i % GATHER_SLOTS * BLOCK_BYTES, pool, rows, first + i, threadIdx.x);
    }
    cp_async_wait_all();
    if (rows == 0) /* never; but the compiler does not know */
        out[threadIdx.x] = ((const float *)shared)[threadIdx.x];
}

/* ---- Matrix ----------------------------------------------------------------------------------------------------- */

struct matrix_memory {
    u8 query[BLOCK_BYTES];
    u8 key[2][BLOCK_BYTES];
    u8 probability[2][TILE_BYTES];
};

/* Fills shared memory with random rows. */
__device__ __forceinline__ void fill(matrix_memory &memory, const u8 *pool, u32 rows)
{
    for (int i = threadIdx.x; i < (int)sizeof(matrix_memory) / 16; i += 3 * WARPGROUP)
        cp_async_16(shared_address(&memory) + i * 16,
                    pool + (u64)random_row(i / (KEY_BYTES / 16), rows) * KEY_BYTES + i % (KEY_BYTES / 16) * 16, 16);
    cp_async_wait_all();
    fence_proxy_async();
    __syncthreads();
}

__device__ __forceinline__ void multiply(matrix_memory &memory, int turns, bool never, float *out)
{
    int half =
        __shfl_sync(0xffffffff, (int)threadIdx.x / WARPGROUP, 0); /* the same in a warp, as the compiler then knows */
    float logit[KEYS / 2], sum[COLUMNS / 2];
    u32 p[KEYS / WGMMA_K][4]; /* this warpgroup's own P */
#pragma unroll
    for (int i = 0; i < KEYS / WGMMA_K; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            p[i][j] = ((const u32 *)memory.probability[half])[(i * 4 + j) * WARPGROUP + threadIdx.x % WARPGROUP];
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++)
        sum[i] = 0;

    u64 q = wgmma_descriptor(shared_address(memory.query), 0, SWIZZLE_BYTES);
    u64 k = wgmma_descriptor(shared_address(memory.key[half]), 0, SWIZZLE_BYTES);
    u64 other_p = wgmma_descriptor(shared_address(memory.probability[1 - half]), 0, SWIZZLE_BYTES);
    u32 columns = half * (COLUMNS / TILE_COLUMNS) * TILE_BYTES;
    u64 v = wgmma_descriptor(shared_address(memory.key[half]) + columns, TILE_BYTES, SWIZZLE_BYTES);
    u64 other_v = wgmma_descriptor(shared_address(memory.key[1 - half]) + columns, TILE_BYTES, SWIZZLE_BYTES);
    for (int turn = 0; turn < turns; turn++) {
        /* Not the compiler's to compute all descriptors before the loop: it would keep them in local memory. */
        asm volatile("" : "+l"(q), "+l"(k), "+l"(v), "+l"(other_p), "+l"(other_v));
        wgmma_fence();
#pragma unroll
        for (int d = 0; d < D; d += WGMMA_K) {
            int offset = d / TILE_COLUMNS * TILE_BYTES + d % TILE_COLUMNS * 2;
            wgmma_m64n64k16(logit, wgmma_descriptor_plus(q, offset), wgmma_descriptor_plus(k, offset), d > 0);
        }
#pragma unroll
        for (int i = 0; i < KEYS / WGMMA_K; i++)
            wgmma_m64n256k16_registers(sum, p[i], wgmma_descriptor_plus(v, i * WGMMA_K * ROW_BYTES), 1);
#pragma unroll
        for (int i = 0; i < KEYS / WGMMA_K; i++)
            wgmma_m64n256k16(sum, wgmma_descriptor_plus(other_p, i * WGMMA_K * 2),
                             wgmma_descriptor_plus(other_v, i * WGMMA_K * ROW_BYTES), 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    if (never)
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++)
            out[i * 3 * WARPGROUP + threadIdx.x] = sum[i] + logit[i % (KEYS / 2)];
}

template <bool GATHER> __device__ __forceinline__ void matrix_role(const u8 *pool, u32 rows, int turns, float *out)
{
    matrix_memory &memory = *(matrix_memory *)shared;
    fill(memory, pool, rows);
    if (threadIdx.x < 2 * WARPGROUP) {
        setmaxnreg_inc<216>();
        multiply(memory, turns, rows == 0, out);
    } else {
        setmaxnreg_dec<72>();
        for (int i = 0; GATHER && i < 2 * turns; i++) {
            cp_async_wait_group<1>();
            gather_block<WARPGROUP>(shared_address(memory.key[i % 2]), pool, rows, blockIdx.x * 2 * turns + i,
                                    threadIdx.x % WARPGROUP);
        }
        cp_async_wait_all();
    }
}

extern "C" __global__ void __launch_bounds__(3 * WARPGROUP, 1)
    ceiling_matrix(const u8 *pool, u32 rows, int turns, float *out)
{
    matrix_role<false>(pool, rows, turns, out);
}

extern "C" __global__ void __launch_bounds__(3 * WARPGROUP, 1)
    ceiling_both(const u8 *pool, u32 rows, int turns, float *out)
{
    matrix_role<true>(pool, rows, turns, out);
}
