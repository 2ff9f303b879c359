#include "bench_args.h"

#include <math.h>

enum { D_V = 512 };

static smla_prefill_args prefill_args(const struct bench_shape *shape, const struct bench_pool *pool,
                                      const struct bench_tensors *tensors)
{
    return (smla_prefill_args){.struct_size = sizeof(smla_prefill_args),
                               .s_q = shape->s_q,
                               .s_kv = shape->s_kv,
                               .topk = shape->topk,
                               .sm_scale = 1 / sqrtf((float)shape->d_qk),
                               .query = tensors->query,
                               .query_stride_token = (int64_t)shape->h_q * shape->d_qk,
                               .query_stride_head = shape->d_qk,
                               .kv = pool->memory,
                               .kv_stride_token = pool->stride_token,
                               .indices = tensors->indices,
                               .indices_stride_token = shape->topk,
                               .topk_length = tensors->lengths,
                               .topk_length_stride = 1,
                               .attn_sink = tensors->sink,
                               .out = tensors->out,
                               .out_stride_token = (int64_t)shape->h_q * D_V,
                               .out_stride_head = D_V,
                               .lse = tensors->lse,
                               .lse_stride_token = shape->h_q,
                               .max_logits = tensors->max_logits,
                               .max_logits_stride_token = shape->h_q,
                               .workspace = tensors->workspace,
                               .workspace_bytes = tensors->workspace_bytes,
                               .kv_page_tokens = shape->page,
                               .kv_stride_page = pool->stride_page,
                               .sm_limit = (int32_t)shape->sm_limit};
}

static smla_decode_args decode_args(const struct bench_shape *shape, const struct bench_pool pools[2],
                                    const struct bench_tensors *tensors)
{
    const int64_t query_token = (int64_t)shape->h_q * shape->d_qk, out_token = (int64_t)shape->h_q * D_V;
    return (smla_decode_args){.struct_size = sizeof(smla_decode_args),
                              .decode_flags = SMLA_DECODE_LENGTHS_PER_REQUEST,
                              .sm_scale = 1 / sqrtf((float)shape->d_qk),
                              .b = shape->b,
                              .s_q = shape->s_q,
                              .s_kv = shape->s_kv,
                              .topk = shape->topk,
                              .query = tensors->query,
                              .query_stride_request = query_token * shape->s_q,
                              .query_stride_token = query_token,
                              .query_stride_head = shape->d_qk,
                              .kv = pools[0].memory,
                              .kv_page_tokens = shape->page,
                              .kv_stride_page = pools[0].stride_page,
                              .kv_stride_token = pools[0].stride_token,
                              .indices = tensors->indices,
                              .indices_stride_request = shape->topk * shape->s_q,
                              .indices_stride_token = shape->topk,
                              .topk_length = tensors->lengths,
                              .topk_length_stride_request = 1,
                              .attn_sink = tensors->sink,
                              .out = tensors->out,
                              .out_stride_request = out_token * shape->s_q,
                              .out_stride_token = out_token,
                              .out_stride_head = D_V,
                              .lse = tensors->lse,
                              .lse_stride_request = shape->h_q * shape->s_q,
                              .lse_stride_token = shape->h_q,
                              .lse_stride_head = 1,
                              .workspace = tensors->workspace,
                              .workspace_bytes = tensors->workspace_bytes,
                              .extra_s_kv = shape->extra_s_kv,
                              .extra_topk = shape->extra_topk,
                              .extra_kv = pools[1].memory,
                              .extra_kv_page_tokens = shape->extra_page,
                              .extra_kv_stride_page = pools[1].stride_page,
                              .extra_kv_stride_token = pools[1].stride_token,
                              .extra_indices = tensors->extra_indices,
                              .extra_indices_stride_request = shape->extra_topk * shape->s_q,
                              .extra_indices_stride_token = shape->extra_topk,
                              .sm_limit = (int32_t)shape->sm_limit};
}

union bench_args bench_args_make(const struct bench_shape *shape, const struct bench_pool pools[2],
                                 const struct bench_tensors *tensors)
{
    union bench_args args;
    if (shape->op == SMLA_OP_DECODE)
        args.decode = decode_args(shape, pools, tensors);
    else
        args.prefill = prefill_args(shape, &pools[0], tensors);
    return args;
}
