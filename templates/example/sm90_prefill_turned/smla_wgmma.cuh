/* The wgmma shapes of sm90_prefill_turned. Generated.
 * PTX ISA 9.7.15.5.2: D = A * B + (accumulate ? D : 0); bf16 in, fp32 accumulate; A and B by
 * shared-memory descriptors, A a fragment where _a_registers is named; scale-a, scale-b 1; A along K, or
 * along M where _a_mn is named; B along K (_b_k) or along N (_b_mn). */
#ifndef SMLA_WGMMA_CUH
#define SMLA_WGMMA_CUH

#include "types.cuh"

/* logits^T = key . query^T */
__device__ __forceinline__ void wgmma_m64nNk16_b_k(float (&d)[16], u64 desc_a, u64 desc_b, int accumulate)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p, 1, 1, 0, 0;\n}\n"
        :
          "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(desc_a), "l"(desc_b), "r"(accumulate));
}

/* out^T += V^T . P^T */
__device__ __forceinline__ void wgmma_m64nNk16_a_mn_b_k(float (&d)[16], u64 desc_a, u64 desc_b, int accumulate)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p, 1, 1, 1, 0;\n}\n"
        :
          "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(desc_a), "l"(desc_b), "r"(accumulate));
}

#endif
