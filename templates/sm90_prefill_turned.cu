/* Sparse MLA prefill for sm_90, few heads, as sm90_attention_turned.cuh has it: a block of threads a query token. */
#include "grid_dependency.cuh"
#include "prefill_params.h"
#include "prefill_place.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_attention_turned.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static_assert(SMLA_SHARED_BYTES == sizeof(block_memory), "");

/* Each role makes its own, so that no register is held for another's. */
__device__ __forceinline__ work my_work(const smla_prefill_params &params)
{
    work w = make_work(params, {blockIdx.x}, 0, SMLA_H_Q);
    make_uniform(w);
    return w;
}

template <bool PAGED> __device__ __forceinline__ void prefill(const smla_prefill_params &params)
{
    extern __shared__ __align__(1024) u8 shared[];
    block_memory &memory = *(block_memory *)shared;

    if (threadIdx.x == 0)
        init_barriers(memory);
    named_barrier_sync(SETUP, SMLA_THREADS);
    griddepcontrol_wait();

    const int warpgroup = warp_uniform(threadIdx.x / WARPGROUP);
    if (warpgroup == 0) {
        setmaxnreg_dec<SMLA_SOFTMAX_REGISTERS>();
        softmax_role(my_work(params), memory);
    } else {
        setmaxnreg_inc<SMLA_OUTPUT_REGISTERS>();
        output_role<PAGED>(my_work(params), memory, warpgroup - 1);
    }
}

#if SMLA_FLAT
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_turned(const __grid_constant__ smla_prefill_params params)
{
    prefill<false>(params);
}
#endif

/* The same where a cache has pages. */
extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_prefill_turned_paged(const __grid_constant__ smla_prefill_params params)
{
    prefill<true>(params);
}
