/* Looks at the lists of a prefill call before the kernel runs. For any architecture.
 *
 * One block reads the lists of one query token (blockIdx.x) in both caches, and writes where the first of these stands
 * to the 64 bits that `out` of its parameter leads to, all ones before: an entry below the length that is neither valid
 * nor -1; a length outside [0, topk]. The first is the smallest key (prefill_check_key.h), so the answer is the same
 * each time, whichever block comes first. What is past a list's length is not read, as the kernel does not read it.
 * (It is launched without programmatic dependence, and so needs no griddepcontrol.wait.) */
#include "key_cache.cuh"
#include "prefill_check_key.h"
#include "prefill_params.h"
#include "smla_config.cuh"
#include "types.cuh"

__device__ __forceinline__ u64 check_key(i64 token, int cache, u32 place)
{
    return (u64)token << 32 | (u64)cache << 31 | place;
}

/* The first place of a thread's part of a list. */
__device__ __forceinline__ u64 check_list(const smla_key_cache &cache, int number, i64 token)
{
    const i32 *list = cache.indices + token * cache.indices_stride_token;
    u32 length = list_length(cache, token);
    if (cache.topk_length && threadIdx.x == 0) {
        i32 given = cache.topk_length[token * cache.topk_length_stride];
        if (given < 0 || given > cache.topk)
            return check_key(token, number, 0);
    }
    for (u32 slot = threadIdx.x; slot < length; slot += SMLA_CHECK_THREADS)
        if ((u32)list[slot] >= cache.s_kv && list[slot] != -1)
            return check_key(token, number, slot + 1);
    return SMLA_CHECK_NOTHING;
}

extern "C" __global__ void __launch_bounds__(SMLA_CHECK_THREADS)
    smla_prefill_check(const __grid_constant__ smla_prefill_params params)
{
    i64 token = blockIdx.x;
    u64 first = check_list(params.cache[0], 0, token);
    if (SMLA_CACHES > 1 && first == SMLA_CHECK_NOTHING)
        first = check_list(params.cache[SMLA_CACHES - 1], 1, token);
    if (first != SMLA_CHECK_NOTHING)
        atomicMin((u64 *)params.out, first);
}
