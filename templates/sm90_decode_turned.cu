/* Sparse MLA decode for sm_90, few heads, as sm90_attention_turned.cuh has it: blocks of threads share all tokens' keys
 * (decode_schedule.cuh), and each goes through its range of them. The results of items that are cut are parts, which
 * decode_combine.cu combines. */
#include "decode_params.h"
#include "decode_schedule.cuh"
#include "decode_walk.cuh"
#include "grid_dependency.cuh"
#include "prefill_work.cuh"
#include "ptx_sm90.cuh"
#include "sm90_attention_turned.cuh"
#include "smla_config.cuh"
#include "types.cuh"

static_assert(SMLA_WALK_OFFSET == sizeof(block_memory), "");

extern "C" __global__ void __launch_bounds__(SMLA_THREADS, 1)
    smla_sm90_decode_turned(const __grid_constant__ smla_decode_params params)
{
    extern __shared__ __align__(1024) u8 shared[];
    block_memory &memory = *(block_memory *)shared;

    if (threadIdx.x == 0) {
        init_barriers(memory);
        init_walk();
    }
    griddepcontrol_wait();
    if (params.starts_early)
        griddepcontrol_launch_dependents(); /* what combines waits for the rest by itself */
    make_schedule(params, walk().schedule);

    const int warpgroup = warp_uniform(threadIdx.x / WARPGROUP);
    work w = no_work(params);
    if (!first_work(w))
        return;
    if (warpgroup == 0) {
        setmaxnreg_dec<SMLA_SOFTMAX_REGISTERS>();
        softmax_role(w, memory);
    } else {
        setmaxnreg_inc<SMLA_OUTPUT_REGISTERS>();
        output_role<true>(w, memory, warpgroup - 1);
    }
}
