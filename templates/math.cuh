/* Arithmetic that no architecture changes. */
#ifndef SMLA_MATH_CUH
#define SMLA_MATH_CUH

#include "types.cuh"

static constexpr float LOG2_E = 1.4426950408889634f;
static constexpr float LN_2 = 0.6931471805599453f;

__device__ __forceinline__ float infinity()
{
    return __int_as_float(0x7f800000);
}

/* 2^x within 2 ulp + 2^-22 relative; results below 2^-126 become 0. PTX ISA 9.7.3.21. */
__device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2 x, absolute error 2^-22 or so near 1, relative elsewhere. PTX ISA 9.7.3.20. */
__device__ __forceinline__ float log2_approx(float x)
{
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x, correctly rounded, without the branch that `1.0f / x` brings. PTX ISA 9.7.3.13. */
__device__ __forceinline__ float reciprocal(float x)
{
    float y;
    asm("rcp.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / (sum + 2^sink), subnormals too: past 2^100 the sum, 2^39 at most, does not count. */
__device__ __forceinline__ float share_beside_sink(float sum, float sink)
{
    const float two_to_minus_64 = 5.421010862427522e-20f;
    return sink > 100 ? exp2_approx(64 - sink) * two_to_minus_64 : reciprocal(sum + exp2_approx(sink));
}

/* The larger; NaN when either is NaN (fmaxf would drop it). PTX ISA 9.7.3.12. */
__device__ __forceinline__ float max_nan(float a, float b)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

/* log(exp(lse) + exp(sink)), in natural logarithms: a sink near the end of float has no base-2 form. */
__device__ __forceinline__ float add_sink(float lse, float sink)
{
    float max = fmaxf(lse, sink);
    if (max == infinity())
        return lse + max; /* keeps a NaN */
    return max + LN_2 * log2_approx(exp2_approx((lse - max) * LOG2_E) + exp2_approx((sink - max) * LOG2_E));
}

/* Two bf16, rounded to nearest even; `low` in the low half. PTX ISA 9.7.9.21. */
__device__ __forceinline__ u32 pack_bf16(float low, float high)
{
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ __forceinline__ float bf16_to_float(u16 bits)
{
    return __uint_as_float((u32)bits << 16);
}

#endif
