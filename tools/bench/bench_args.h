/* Arguments of one call, of either operator. */
#ifndef SMLA_TOOLS_BENCH_ARGS_H
#define SMLA_TOOLS_BENCH_ARGS_H

#include "bench_shape.h"

/* A cache on the device. */
struct bench_pool {
    void *memory;
    int64_t token_bytes;               /* 0: there is no such cache */
    int64_t stride_token, stride_page; /* as in smla_prefill_args, and told */
};

/* Where the tensors of a call lie. NULL: there is none. */
struct bench_tensors {
    void *query;
    void *indices, *lengths, *extra_indices;
    const float *sink;
    void *out;
    float *lse, *max_logits;
    void *workspace;
    uint64_t workspace_bytes;
};

/* By the shape's op. */
union bench_args {
    smla_prefill_args prefill;
    smla_decode_args decode;
};

/* Every stride is told that could be 0 for contiguous: a rival may have to tell the shape from them. */
union bench_args bench_args_make(const struct bench_shape *shape, const struct bench_pool pools[2],
                                 const struct bench_tensors *tensors);

#endif
