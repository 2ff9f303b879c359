/* out[m][n] = in[m][n] + sum over k of a[m][k] b[n][k] for other types than bf16, one wgmma of each: 64 rows of 32
 * bytes of A, N of B, brought to shared memory by ordinary stores, not swizzled. One block of 128 threads, 10 KiB. */
#include "own.cuh"

enum { ROW_BYTES = 32, A_BYTES = 64 * ROW_BYTES };

/* Rows to core matrices of 8 x 16 bytes: two beside each other, the next eight rows 256 bytes on. */
static __device__ void fill(u8 *to, const u8 *from, u32 rows)
{
    for (u32 i = threadIdx.x; i < 2 * rows; i += 128) {
        const u32 row = i / 2, half = i % 2;
        *(uint4 *)(to + row / 8 * 256 + half * 128 + row % 8 * 16) = ((const uint4 *)from)[i];
    }
}

static __device__ u64 prepare(const u8 *a, const u8 *b, u32 columns)
{
    fill(memory, a, 64);
    fill(memory + A_BYTES, b, columns);
    fence_proxy_async(); /* NEEDED: wgmma reads by the async proxy */
    __syncthreads();     /* NEEDED: everybody's rows */
    return descriptor(shared_address(memory), 128, 256, 0);
}

template <class T> static __device__ void move(T *d, T *out, u32 registers, u32 columns, bool back)
{
#pragma unroll
    for (u32 r = 0; r < registers; r++) {
        T *at = out + wgmma_row(r) * columns + wgmma_column(r);
        if (back)
            *at = d[r];
        else
            d[r] = *at;
    }
}

#define FINISH "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
#define B_OF(a) ((a) + A_BYTES / 16)

/* B is negated. */
extern "C" __global__ void __launch_bounds__(128) tf32_n8(float *out, const u8 *a_rows, const u8 *b_rows)
{
    const u64 a = prepare(a_rows, b_rows, 8);
    float d[4];
    move(d, out, 4, 8, false);
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, %4, %5, 1, 1, -1;\n" FINISH
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(B_OF(a))
                 : "memory");
    move(d, out, 4, 8, true);
}

/* D is f16, two a register. */
extern "C" __global__ void __launch_bounds__(128) e4m3_n16_f16(u16 *out, const u8 *a_rows, const u8 *b_rows)
{
    const u64 a = prepare(a_rows, b_rows, 16);
    u32 d[4];
    for (u32 r = 0; r < 4; r++)
        d[r] = *(u32 *)(out + wgmma_row(2 * r) * 16 + wgmma_column(2 * r));
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k32.f16.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, 1, 1, 1;\n" FINISH
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "l"(a), "l"(B_OF(a))
                 : "memory");
    for (u32 r = 0; r < 4; r++)
        *(u32 *)(out + wgmma_row(2 * r) * 16 + wgmma_column(2 * r)) = d[r];
}

extern "C" __global__ void __launch_bounds__(128) e5m2_e4m3_n32(float *out, const u8 *a_rows, const u8 *b_rows)
{
    const u64 a = prepare(a_rows, b_rows, 32);
    float d[16];
    move(d, out, 16, 32, false);
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k32.f32.e5m2.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
                 "%11, %12, %13, %14, %15}, %16, %17, 1, 1, 1;\n" FINISH
                 : EIGHT("+f", d, 0), EIGHT("+f", d, 8)
                 : "l"(a), "l"(B_OF(a))
                 : "memory");
    move(d, out, 16, 32, true);
}

/* Sums stay at the ends of int32. */
extern "C" __global__ void __launch_bounds__(128) s8_u8_n24(i32 *out, const u8 *a_rows, const u8 *b_rows)
{
    const u64 a = prepare(a_rows, b_rows, 24);
    i32 d[12];
    move(d, out, 12, 24, false);
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.u8.satfinite {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
                 "%10, %11}, %12, %13, 1;\n" FINISH
                 : EIGHT("+r", d, 0), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11])
                 : "l"(a), "l"(B_OF(a))
                 : "memory");
    move(d, out, 12, 24, true);
}

/* The widest there is. */
extern "C" __global__ void __launch_bounds__(128) bf16_n256(float *out, const u8 *a_rows, const u8 *b_rows)
{
    const u64 a = prepare(a_rows, b_rows, 256);
    float d[128];
    move(d, out, 128, 256, false);
    asm volatile(
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" NAMES_32
        ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
        "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, "
        "%95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "
        "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, 1, 1, "
        "1, 0, 0;\n" FINISH
        : THIRTY_TWO("+f", d, 0), THIRTY_TWO("+f", d, 32), THIRTY_TWO("+f", d, 64), THIRTY_TWO("+f", d, 96)
        : "l"(a), "l"(B_OF(a))
        : "memory");
    move(d, out, 128, 256, true);
}
