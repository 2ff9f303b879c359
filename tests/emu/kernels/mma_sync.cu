/* The older matrix instructions. One warp each.
 *   mma_f16:  out[16][16] = a[16][64] b[64][16]; ldmatrix, of b transposed; f16 with float32 sums
 *   mma_bf16: the same, bf16, b given as [16][64] and not transposed, one k step by halves (m16n8k8)
 *   mma_s8:   out[16][8] = a[16][32] b[8][32]
 *   mma_tf32: out[16][8] = a[16][8] b[8][8]^T */
#include "own.cuh"

static __device__ u32 row()
{
    return threadIdx.x / 4;
}

static __device__ u32 quad()
{
    return threadIdx.x % 4;
}

template <class T> static __device__ void put(T *out, u32 columns, u32 column, const T d[4])
{
    for (u32 i = 0; i < 4; i++)
        out[(row() + 8 * (i / 2)) * columns + column + 2 * quad() + i % 2] = d[i];
}

static __device__ void copy(void *to, const void *from)
{
    for (u32 i = threadIdx.x; i < 16 * 64 * 2 / 16; i += 32)
        cp_async_16(shared_address((uint4 *)to + i), (const uint4 *)from + i, 16);
}

extern "C" __global__ void __launch_bounds__(32) mma_f16(float *out, const u16 *a_rows, const u16 *b_rows)
{
    __shared__ __align__(16) u16 a[16][64], b[64][16];
    const u32 lane = threadIdx.x;
    float d[2][4] = {};
    copy(a, a_rows);
    copy(b, b_rows);
    cp_async_wait_all(); /* NEEDED: the copies have come */
    __syncwarp();        /* the other lanes' copies */
    for (u32 k = 0; k < 64; k += 16) {
        u32 x[4], y[4];
        ldmatrix_x4(x, shared_address(&a[lane % 16][k + lane / 16 * 8]));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
                     : "r"(shared_address(&b[k + lane % 16][lane / 16 * 8]))
                     : "memory");
        for (u32 half = 0; half < 2; half++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
                         "%9}, {%0, %1, %2, %3};"
                         : "+f"(d[half][0]), "+f"(d[half][1]), "+f"(d[half][2]), "+f"(d[half][3])
                         : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * half]), "r"(y[2 * half + 1]));
    }
    put(out, 16, 0, d[0]);
    put(out, 16, 8, d[1]);
}

extern "C" __global__ void __launch_bounds__(32) mma_bf16(float *out, const u16 *a, const u16 *b)
{
    float d[2][4] = {};
    for (u32 k = 0; k < 64; k += 8) {
        const u32 x0 = *(const u32 *)(a + row() * 64 + k + 2 * quad());
        const u32 x1 = *(const u32 *)(a + (row() + 8) * 64 + k + 2 * quad());
        for (u32 half = 0; half < 2; half++)
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, "
                         "%1, %2, %3};"
                         : "+f"(d[half][0]), "+f"(d[half][1]), "+f"(d[half][2]), "+f"(d[half][3])
                         : "r"(x0), "r"(x1), "r"(*(const u32 *)(b + (row() + 8 * half) * 64 + k + 2 * quad())));
    }
    put(out, 16, 0, d[0]);
    put(out, 16, 8, d[1]);
}

extern "C" __global__ void __launch_bounds__(32) mma_s8(i32 *out, const u32 *a, const u32 *b)
{
    i32 d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
                 "%1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[row() * 8 + quad()]), "r"(a[(row() + 8) * 8 + quad()]), "r"(a[row() * 8 + quad() + 4]),
                   "r"(a[(row() + 8) * 8 + quad() + 4]), "r"(b[row() * 8 + quad()]), "r"(b[row() * 8 + quad() + 4]));
    put(out, 8, 0, d);
}

extern "C" __global__ void __launch_bounds__(32) mma_tf32(float *out, const float *a, const float *b)
{
    float d[4] = {};
    u32 x[4], y[2];
    for (u32 i = 0; i < 4; i++)
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(a[(row() + 8 * (i % 2)) * 8 + quad() + 4 * (i / 2)]));
    for (u32 i = 0; i < 2; i++)
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[i]) : "f"(b[row() * 8 + quad() + 4 * i]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    put(out, 8, 0, d);
}
