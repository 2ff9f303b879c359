/* The formats of the caches: the configuration's numbers as types, so that code is made for each; and where a key of a
 * format lies. No architecture changes it. */
#ifndef SMLA_KEY_FORMAT_CUH
#define SMLA_KEY_FORMAT_CUH

#include "key_cache.cuh"
#include "smla_config.cuh"
#include "types.cuh"

enum scale_type { SCALE_NONE = 0, SCALE_FP32 = 1, SCALE_UE8M0 = 2, SCALE_E4M3 = 3 };

struct first_format {
    static constexpr int VALUE_BITS = SMLA_KV_VALUE_BITS;
    static constexpr int VALUE_ELEMS = SMLA_KV_VALUE_ELEMS; /* the rest of d_qk is a bf16 tail */
    static constexpr int SCALE_TYPE = SMLA_KV_SCALE_TYPE;
    static constexpr int SCALE_GROUP = SMLA_KV_SCALE_GROUP;
    static constexpr int SCALE_OFFSET = SMLA_KV_SCALE_OFFSET_BYTES;
    static constexpr int SCALE_BYTES = SMLA_KV_SCALE_BYTES;
    static constexpr int TAIL_OFFSET = SMLA_KV_TAIL_OFFSET_BYTES;
    static constexpr int TOKEN_BYTES = SMLA_KV_TOKEN_BYTES;
    static constexpr bool BY_PAGE = SMLA_KV_BY_PAGE;
};

#if SMLA_CACHES > 1
struct second_format {
    static constexpr int VALUE_BITS = SMLA_EXTRA_KV_VALUE_BITS;
    static constexpr int VALUE_ELEMS = SMLA_EXTRA_KV_VALUE_ELEMS;
    static constexpr int SCALE_TYPE = SMLA_EXTRA_KV_SCALE_TYPE;
    static constexpr int SCALE_GROUP = SMLA_EXTRA_KV_SCALE_GROUP;
    static constexpr int SCALE_OFFSET = SMLA_EXTRA_KV_SCALE_OFFSET_BYTES;
    static constexpr int SCALE_BYTES = SMLA_EXTRA_KV_SCALE_BYTES;
    static constexpr int TAIL_OFFSET = SMLA_EXTRA_KV_TAIL_OFFSET_BYTES;
    static constexpr int TOKEN_BYTES = SMLA_EXTRA_KV_TOKEN_BYTES;
    static constexpr bool BY_PAGE = SMLA_EXTRA_KV_BY_PAGE;
};
#else
using second_format = first_format;
#endif

static constexpr bool DEQUANTISES = first_format::VALUE_BITS < 16 || second_format::VALUE_BITS < 16;

struct key_source {
    u64 values; /* address; 0: an invalid entry */
    u64 scales;
};

template <class format, bool PAGED>
__device__ __forceinline__ key_source find_key(const smla_key_cache &cache, i32 index)
{
    if (index < 0)
        return {0, 0};
    u64 base = (u64)cache.kv;
    if (format::BY_PAGE) {
        u32 page = page_of(cache, index), token = (u32)index - page * cache.page_tokens;
        base += page * cache.kv_stride_page;
        return {base + token * (u64)format::TOKEN_BYTES,
                base + cache.page_tokens * (u64)format::TOKEN_BYTES + token * (u64)format::SCALE_BYTES};
    }
    u64 values = base + row_offset<PAGED>(cache, index) * (format::VALUE_BITS == 16 ? 2 : 1);
    return {values, values + format::SCALE_OFFSET};
}

#endif
