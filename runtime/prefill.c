/* The call: check the arguments, fill the parameter struct, launch. */
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "error.h"
#include "launch.h"
#include "prefill_params.h"
#include "sized.h"
#include "tensor_check.h"

_Static_assert(SMLA_PARAM_LSE_BASE_2 == SMLA_LSE_BASE_2, "template and header agree");
_Static_assert(SMLA_PARAM_LSE_WITH_SINK == SMLA_LSE_WITH_SINK, "template and header agree");
_Static_assert(SMLA_PARAM_LSE_EMPTY_NEGATIVE == SMLA_LSE_EMPTY_NEGATIVE, "template and header agree");
_Static_assert(sizeof(long long) == sizeof(int64_t), "strides are int64 on both sides");

enum { ALL_LSE_FLAGS = SMLA_LSE_BASE_2 | SMLA_LSE_WITH_SINK | SMLA_LSE_EMPTY_NEGATIVE };

enum tensor_index { QUERY, KV, INDICES, TOPK_LENGTH, ATTN_SINK, OUT, LSE, MAX_LOGITS, REF_OUT, REF_LOGIT, TENSORS };

static void list_inputs(const smla_kernel *kernel, const smla_prefill_args *args, struct tensor *tensors)
{
    set_shape(&tensors[QUERY], "query", args->query, args->s_q, kernel->h_q, kernel->d_qk);
    set_strides(&tensors[QUERY], "query_stride_token", args->query_stride_token, "query_stride_head",
                args->query_stride_head);
    set_storage(&tensors[QUERY], 2, kernel->pointer_alignment_bytes, kernel->stride_alignment_elems);
    tensors[QUERY].needed = true;
    set_shape(&tensors[KV], "kv", args->kv, args->s_kv, 1, kernel->d_qk);
    set_strides(&tensors[KV], "kv_stride_token", args->kv_stride_token, NULL, 0);
    set_storage(&tensors[KV], 2, kernel->pointer_alignment_bytes, kernel->stride_alignment_elems);
    tensors[KV].needed = args->s_kv > 0;
    set_shape(&tensors[INDICES], "indices", args->indices, args->s_q, 1, args->topk);
    set_strides(&tensors[INDICES], "indices_stride_token", args->indices_stride_token, NULL, 0);
    tensors[INDICES].needed = args->topk > 0;
    set_shape(&tensors[TOPK_LENGTH], "topk_length", args->topk_length, args->s_q, 1, 1);
    set_strides(&tensors[TOPK_LENGTH], "topk_length_stride", args->topk_length_stride, NULL, 0);
    set_shape(&tensors[ATTN_SINK], "attn_sink", args->attn_sink, 1, 1, kernel->h_q);
    set_strides(&tensors[ATTN_SINK], NULL, 0, NULL, 0);
}

static void list_outputs(const smla_kernel *kernel, const smla_prefill_args *args, struct tensor *tensors)
{
    set_shape(&tensors[OUT], "out", args->out, args->s_q, kernel->h_q, kernel->d_v);
    set_strides(&tensors[OUT], "out_stride_token", args->out_stride_token, "out_stride_head", args->out_stride_head);
    set_storage(&tensors[OUT], kernel->out_elem_bytes, kernel->out_alignment_bytes, kernel->stride_alignment_elems);
    tensors[OUT].needed = true;
    tensors[OUT].written = true;
    set_shape(&tensors[LSE], "lse", args->lse, args->s_q, 1, kernel->h_q);
    set_strides(&tensors[LSE], "lse_stride_token", args->lse_stride_token, NULL, 0);
    tensors[LSE].written = true;
    set_shape(&tensors[MAX_LOGITS], "max_logits", args->max_logits, args->s_q, 1, kernel->h_q);
    set_strides(&tensors[MAX_LOGITS], "max_logits_stride_token", args->max_logits_stride_token, NULL, 0);
    tensors[MAX_LOGITS].written = true;
    set_shape(&tensors[REF_OUT], "ref_out_abs", args->ref_out_abs, args->s_q, 1, (int64_t)kernel->h_q * kernel->d_v);
    set_strides(&tensors[REF_OUT], NULL, 0, NULL, 0);
    set_shape(&tensors[REF_LOGIT], "ref_logit_abs", args->ref_logit_abs, args->s_q, 1, kernel->h_q);
    set_strides(&tensors[REF_LOGIT], NULL, 0, NULL, 0);
}

static smla_status check_scalars(const smla_kernel *kernel, const smla_prefill_args *args)
{
    smla_status status = check_size("s_q", args->s_q, INT32_MAX / kernel->blocks_per_query);

    if (status == SMLA_OK)
        status = check_size("s_kv", args->s_kv, INT64_MAX);
    if (status == SMLA_OK)
        status = check_size("topk", args->topk, INT32_MAX);
    if (status != SMLA_OK)
        return status;
    if (args->lse_flags & ~(uint32_t)ALL_LSE_FLAGS)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "lse_flags 0x%x: SMLA_LSE_* are 0x1, 0x2 and 0x4",
                       (unsigned)args->lse_flags);
    if (args->reserved)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill_args.reserved is %u: zero the struct first",
                       (unsigned)args->reserved);
    if (!isfinite(args->sm_scale))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "sm_scale is %s: it must be finite, 1/sqrt(d_qk) for instance",
                       isnan(args->sm_scale) ? "NaN" : "infinite");
    return SMLA_OK;
}

static smla_status check_reference_outputs(const smla_kernel *kernel, const smla_prefill_args *args)
{
    if (kernel->op == SMLA_OP_PREFILL_REFERENCE || (args->ref_out_abs == NULL && args->ref_logit_abs == NULL))
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s is given, and only a kernel of SMLA_OP_PREFILL_REFERENCE writes it: leave it NULL for %s",
                   args->ref_out_abs ? "ref_out_abs" : "ref_logit_abs", kernel->name);
}

static smla_status check_tensors(const smla_kernel *kernel, const smla_prefill_args *args,
                                 struct tensor tensors[TENSORS])
{
    smla_status status = check_reference_outputs(kernel, args);

    list_inputs(kernel, args, tensors);
    list_outputs(kernel, args, tensors);
    for (int i = 0; status == SMLA_OK && i < TENSORS; i++)
        status = rt_check_tensor(&tensors[i]);
    return status;
}

/* No int index reaches past 2^31 rows, so the kernel need not know of more. */
static unsigned int clamp_rows(int64_t s_kv)
{
    return s_kv > (int64_t)INT32_MAX + 1 ? (unsigned int)INT32_MAX + 1u : (unsigned int)s_kv;
}

static void fill_params(const smla_prefill_args *args, const struct tensor tensors[TENSORS],
                        struct smla_prefill_params *params)
{
    /* Padding too: what is passed to a kernel has no undefined byte. */
    memset(params, 0, sizeof *params);
    params->query = args->query;
    params->kv = args->kv;
    params->indices = args->indices;
    params->topk_length = args->topk_length;
    params->attn_sink = args->attn_sink;
    params->out = args->out;
    params->lse = args->lse;
    params->max_logits = args->max_logits;
    params->ref_out_abs = args->ref_out_abs;
    params->ref_logit_abs = args->ref_logit_abs;
    params->query_stride_token = tensors[QUERY].row_stride;
    params->query_stride_head = tensors[QUERY].column_stride;
    params->kv_stride_token = tensors[KV].row_stride;
    params->indices_stride_token = tensors[INDICES].row_stride;
    params->topk_length_stride = tensors[TOPK_LENGTH].row_stride;
    params->out_stride_token = tensors[OUT].row_stride;
    params->out_stride_head = tensors[OUT].column_stride;
    params->lse_stride_token = tensors[LSE].row_stride;
    params->max_logits_stride_token = tensors[MAX_LOGITS].row_stride;
    params->s_q = args->s_q;
    params->s_kv = clamp_rows(args->s_kv);
    params->topk = (int)args->topk;
    params->sm_scale = args->sm_scale;
    params->lse_flags = args->lse_flags;
}

static smla_status check_kernel(const smla_kernel *kernel, const char *function)
{
    if (kernel == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s: kernel is NULL", function);
    if (kernel->op == SMLA_OP_COMBINE)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s: the kernel is of SMLA_OP_COMBINE, which smla_combine calls: prepare one of SMLA_OP_PREFILL",
                       function);
    return SMLA_OK;
}

static smla_status launch(const smla_kernel *kernel, struct smla_prefill_params *params, void *stream)
{
    const struct rt_launch launch = {
        .function = kernel->functions[0],
        .grid_x = (unsigned int)(params->s_q * kernel->blocks_per_query),
        .grid_y = kernel->op == SMLA_OP_PREFILL_REFERENCE ? (unsigned int)kernel->h_q : 1,
        .params = params,
    };

    return rt_launch_on(kernel, &launch, stream);
}

smla_status smla_prefill(smla_kernel *kernel, const smla_prefill_args *args, void *stream)
{
    struct tensor tensors[TENSORS];
    struct smla_prefill_params params;
    smla_prefill_args full;

    smla_status status = check_kernel(kernel, "smla_prefill");
    if (status == SMLA_OK)
        status = rt_sized_read(&full, sizeof full, args, "smla_prefill_args");
    if (status == SMLA_OK)
        status = check_scalars(kernel, &full);
    if (status != SMLA_OK || full.s_q == 0 || kernel->h_q == 0)
        return status;
    status = check_tensors(kernel, &full, tensors);
    if (status != SMLA_OK)
        return status;
    fill_params(&full, tensors, &params);
    return launch(kernel, &params, stream);
}

smla_status smla_prefill_workspace_size(const smla_kernel *kernel, int64_t max_s_q, int64_t max_topk,
                                        uint64_t *out_bytes)
{
    smla_status status = check_kernel(kernel, "smla_prefill_workspace_size");
    if (status == SMLA_OK && out_bytes == NULL)
        status = rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_prefill_workspace_size: out_bytes is NULL");
    if (status == SMLA_OK)
        status = check_size("max_s_q", max_s_q, INT64_MAX);
    if (status == SMLA_OK)
        status = check_size("max_topk", max_topk, INT64_MAX);
    if (status == SMLA_OK)
        *out_bytes = 0; /* plain prefill keeps everything in a block */
    return status;
}
