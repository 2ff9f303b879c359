/* Arithmetic on pairs, and 8-bit floats; a thread an element. a, b, c: pairs of f16 (first kernel) or bf16 (second).
 * Results: out[8 * i …]. */
#include "own.cuh"

#define THREE(op, r, a, b, c) asm(op " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c))
#define TWO(op, r, a, b) asm(op " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b))

extern "C" __global__ void packed_f16(u32 *out, const u32 *a_in, const u32 *b_in, const u32 *c_in)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, a = a_in[i], b = b_in[i], c = c_in[i];
    u32 r[8];
    THREE("fma.rn.f16x2", r[0], a, b, c);
    THREE("fma.rn.relu.f16x2", r[1], a, b, c);
    TWO("add.rn.f16x2", r[2], a, b);
    TWO("sub.f16x2", r[3], a, b);
    TWO("mul.rn.f16x2", r[4], a, b);
    TWO("max.f16x2", r[5], a, b);
    TWO("min.NaN.f16x2", r[6], a, b);
    asm("neg.f16x2 %0, %1;" : "=r"(r[7]) : "r"(a));
    for (u32 k = 0; k < 8; k++)
        out[8 * i + k] = r[k];
}

extern "C" __global__ void packed_bf16(u32 *out, const u32 *a_in, const u32 *b_in, const u32 *c_in)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, a = a_in[i], b = b_in[i], c = c_in[i];
    u32 r[8];
    THREE("fma.rn.bf16x2", r[0], a, b, c);
    THREE("fma.rn.relu.bf16x2", r[1], a, b, c);
    TWO("add.rn.bf16x2", r[2], a, b);
    TWO("sub.rn.bf16x2", r[3], a, b);
    TWO("mul.rn.bf16x2", r[4], a, b);
    TWO("max.bf16x2", r[5], a, b);
    TWO("min.NaN.bf16x2", r[6], a, b);
    asm("neg.bf16x2 %0, %1;" : "=r"(r[7]) : "r"(a));
    for (u32 k = 0; k < 8; k++)
        out[8 * i + k] = r[k];
}

/* 8-bit floats: x to e4m3 and e5m2 and back to f16, and to f16 of a table's bytes. out: 4 floats an element. */
extern "C" __global__ void eight_bits(float *out, const float *in)
{
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    u16 e4m3, e5m2;
    u32 from_e4m3, from_e5m2;
    float low;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(e4m3) : "f"(-in[i]), "f"(in[i]));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(e5m2) : "f"(-in[i]), "f"(in[i]));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(from_e4m3) : "h"(e4m3));
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(from_e5m2) : "h"(e5m2));
    for (u32 k = 0; k < 4; k++) {
        const u16 half = (u16)((k < 2 ? from_e4m3 : from_e5m2) >> 16 * (k % 2));
        asm("cvt.f32.f16 %0, %1;" : "=f"(low) : "h"(half));
        out[4 * i + k] = low;
    }
}
