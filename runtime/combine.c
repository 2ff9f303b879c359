/* The call that merges partial results: check the arguments, fill the parameter struct, select the variant, launch. */
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "combine_params.h"
#include "error.h"
#include "launch.h"
#include "sized.h"
#include "tensor_check.h"

enum { ALL_LSE_FLAGS = SMLA_LSE_BASE_2 | SMLA_LSE_WITH_SINK | SMLA_LSE_EMPTY_NEGATIVE };

enum tensor_index { PARTIAL_OUT, PARTIAL_LSE, ATTN_SINK, OUT, LSE, TENSORS };

/* The tensors of a call. Of the partials, one part stands in the table: parts lie outside of its three dimensions. */
struct call {
    struct tensor tensors[TENSORS];
    int64_t partial_out_stride_part;
    int64_t partial_lse_stride_part;
};

static int32_t elem_bytes(uint32_t dtype)
{
    return dtype == SMLA_DTYPE_FLOAT32 ? 4 : 2;
}

/* 16 bytes at once, of either type. */
static void set_rows_of(struct tensor *tensor, const smla_kernel *kernel, uint32_t dtype)
{
    const int32_t bytes = elem_bytes(dtype);

    set_storage(tensor, bytes, kernel->pointer_alignment_bytes, kernel->pointer_alignment_bytes / bytes);
}

static void list_tensors(const smla_kernel *kernel, const smla_combine_args *args, struct tensor *tensors)
{
    set_shape(&tensors[PARTIAL_OUT], "partial_out", args->partial_out, args->s_q, kernel->h_q, kernel->d_v);
    set_strides(&tensors[PARTIAL_OUT], "partial_out_stride_token", args->partial_out_stride_token,
                "partial_out_stride_head", args->partial_out_stride_head);
    set_rows_of(&tensors[PARTIAL_OUT], kernel, args->partial_dtype);
    set_shape(&tensors[PARTIAL_LSE], "partial_lse", args->partial_lse, args->s_q, kernel->h_q, 1);
    set_strides(&tensors[PARTIAL_LSE], "partial_lse_stride_token", args->partial_lse_stride_token,
                "partial_lse_stride_head", args->partial_lse_stride_head);
    set_shape(&tensors[ATTN_SINK], "attn_sink", args->attn_sink, 1, 1, kernel->h_q);
    set_strides(&tensors[ATTN_SINK], NULL, 0, NULL, 0);
    set_shape(&tensors[OUT], "out", args->out, args->s_q, kernel->h_q, kernel->d_v);
    set_strides(&tensors[OUT], "out_stride_token", args->out_stride_token, "out_stride_head", args->out_stride_head);
    set_rows_of(&tensors[OUT], kernel, args->out_dtype);
    tensors[OUT].needed = true;
    tensors[OUT].written = true;
    set_shape(&tensors[LSE], "lse", args->lse, args->s_q, kernel->h_q, 1);
    set_strides(&tensors[LSE], "lse_stride_token", args->lse_stride_token, "lse_stride_head", args->lse_stride_head);
    tensors[LSE].written = true;
}

static smla_status check_flags(const smla_combine_args *args)
{
    if (args->lse_flags & ~(uint32_t)ALL_LSE_FLAGS)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "lse_flags 0x%x: SMLA_LSE_* are 0x1, 0x2 and 0x4",
                       (unsigned)args->lse_flags);
    if (args->partial_lse_flags & ~(uint32_t)(SMLA_LSE_BASE_2 | SMLA_LSE_EMPTY_NEGATIVE))
        return rt_fail(
            SMLA_ERROR_INVALID_ARGUMENT,
            "partial_lse_flags 0x%x: SMLA_LSE_BASE_2 (0x1) and SMLA_LSE_EMPTY_NEGATIVE (0x4) may stand here; "
            "parts are without the sink, which joins once, as attn_sink of this call",
            (unsigned)args->partial_lse_flags);
    return SMLA_OK;
}

static smla_status check_dtype(const char *name, uint32_t dtype)
{
    if (dtype == SMLA_DTYPE_BF16 || dtype == SMLA_DTYPE_FLOAT32)
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %u: SMLA_DTYPE_* are 0 (bf16) and 1 (float32)", name,
                   (unsigned)dtype);
}

static smla_status check_scalars(const smla_kernel *kernel, const smla_combine_args *args)
{
    smla_status status = check_size("s_q", args->s_q, INT32_MAX / kernel->blocks_per_query);

    if (status == SMLA_OK)
        status = check_size("parts", args->parts, INT32_MAX);
    if (status == SMLA_OK)
        status = check_flags(args);
    if (status == SMLA_OK)
        status = check_dtype("partial_dtype", args->partial_dtype);
    if (status == SMLA_OK)
        status = check_dtype("out_dtype", args->out_dtype);
    if (status == SMLA_OK && (args->reserved | args->reserved_2))
        status = rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_combine_args.%s is %u: zero the struct first",
                         args->reserved ? "reserved" : "reserved_2",
                         (unsigned)(args->reserved ? args->reserved : args->reserved_2));
    if (status == SMLA_OK)
        status = rt_check_launch_flags(args->launch_flags);
    return status;
}

static smla_status fail_parts(const struct tensor *tensor, int64_t parts, int64_t stride)
{
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s reaches past 2^63 bytes: %lld parts of [%lld, %lld, %lld] with strides of %lld, %lld and %lld "
                   "elements",
                   tensor->name, (long long)parts, (long long)tensor->rows, (long long)tensor->columns,
                   (long long)tensor->width, (long long)stride, (long long)tensor->row_stride,
                   (long long)tensor->column_stride);
}

/* Resolves the parts' stride; their last byte must be within int64, as in tensor_check.c. They are only read, so they
 * may overlap. The tensor itself has been checked. */
static smla_status check_part_stride(const struct tensor *tensor, const char *name, int64_t parts, int64_t *stride)
{
    const smla_status status = rt_check_stride(tensor, name, *stride);
    int64_t before, elems, bytes;

    if (status != SMLA_OK)
        return status;
    if (*stride == 0 && __builtin_mul_overflow(tensor->row_stride, tensor->rows, stride))
        return fail_parts(tensor, parts, *stride);
    const int64_t part_elems =
        (tensor->rows - 1) * tensor->row_stride + (tensor->columns - 1) * tensor->column_stride + tensor->width;
    if (__builtin_mul_overflow(parts - 1, *stride, &before) || __builtin_add_overflow(before, part_elems, &elems) ||
        __builtin_mul_overflow(elems, (int64_t)tensor->elem_bytes, &bytes))
        return fail_parts(tensor, parts, *stride);
    return SMLA_OK;
}

static smla_status check_partial(struct tensor *tensor, const char *stride_name, int64_t parts, int64_t *stride)
{
    if (parts == 0) {
        tensor->pointer = NULL; /* nothing is read, so nothing of it matters */
        return SMLA_OK;
    }
    if (tensor->pointer == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "%s is NULL: a device pointer to %lld parts of [%lld, %lld, %lld] is needed", tensor->name,
                       (long long)parts, (long long)tensor->rows, (long long)tensor->columns, (long long)tensor->width);
    const smla_status status = rt_check_tensor(tensor);
    return status == SMLA_OK ? check_part_stride(tensor, stride_name, parts, stride) : status;
}

static smla_status check_tensors(const smla_kernel *kernel, const smla_combine_args *args, struct call *call)
{
    list_tensors(kernel, args, call->tensors);
    call->partial_out_stride_part = args->partial_out_stride_part;
    call->partial_lse_stride_part = args->partial_lse_stride_part;
    smla_status status = check_partial(&call->tensors[PARTIAL_OUT], "partial_out_stride_part", args->parts,
                                       &call->partial_out_stride_part);
    if (status == SMLA_OK)
        status = check_partial(&call->tensors[PARTIAL_LSE], "partial_lse_stride_part", args->parts,
                               &call->partial_lse_stride_part);
    for (int i = ATTN_SINK; status == SMLA_OK && i < TENSORS; i++)
        status = rt_check_tensor(&call->tensors[i]);
    return status;
}

static void fill_params(const smla_combine_args *args, const struct call *call, struct smla_combine_params *params)
{
    const struct tensor *tensors = call->tensors;

    /* Padding too: what is passed to a kernel has no undefined byte. */
    memset(params, 0, sizeof *params);
    params->partial_out = tensors[PARTIAL_OUT].pointer;
    params->partial_lse = tensors[PARTIAL_LSE].pointer;
    params->attn_sink = args->attn_sink;
    params->out = args->out;
    params->lse = args->lse;
    params->partial_out_stride_part = call->partial_out_stride_part;
    params->partial_out_stride_token = tensors[PARTIAL_OUT].row_stride;
    params->partial_out_stride_head = tensors[PARTIAL_OUT].column_stride;
    params->partial_lse_stride_part = call->partial_lse_stride_part;
    params->partial_lse_stride_token = tensors[PARTIAL_LSE].row_stride;
    params->partial_lse_stride_head = tensors[PARTIAL_LSE].column_stride;
    params->out_stride_token = tensors[OUT].row_stride;
    params->out_stride_head = tensors[OUT].column_stride;
    params->lse_stride_token = tensors[LSE].row_stride;
    params->lse_stride_head = tensors[LSE].column_stride;
    params->parts = (unsigned int)args->parts;
    params->partial_is_base_2 = (args->partial_lse_flags & SMLA_LSE_BASE_2) != 0;
    params->lse_flags = args->lse_flags;
}

static smla_status check_kernel(const smla_kernel *kernel)
{
    if (kernel == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_combine: kernel is NULL");
    if (kernel->op != SMLA_OP_COMBINE)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "smla_combine: the kernel is %s, which %s calls: prepare one of SMLA_OP_COMBINE", kernel->name,
                       kernel->op == SMLA_OP_DECODE ? "smla_decode" : "smla_prefill");
    return SMLA_OK;
}

smla_status smla_combine(smla_kernel *kernel, const smla_combine_args *args, void *stream)
{
    struct call call;
    struct smla_combine_params params;
    smla_combine_args full;
    smla_status status = check_kernel(kernel);

    if (status == SMLA_OK)
        status = rt_sized_read(&full, sizeof full, args, "smla_combine_args");
    if (status == SMLA_OK)
        status = check_scalars(kernel, &full);
    if (status != SMLA_OK || full.s_q == 0)
        return status;
    status = check_tensors(kernel, &full, &call);
    if (status != SMLA_OK)
        return status;
    fill_params(&full, &call, &params);
    struct rt_launch launch = {
        .function = kernel->functions[SMLA_COMBINE_VARIANT(full.partial_dtype == SMLA_DTYPE_FLOAT32,
                                                           full.out_dtype == SMLA_DTYPE_FLOAT32)],
        .name = kernel->name,
        .threads = kernel->threads,
        .shared_bytes = kernel->shared_bytes,
        .grid_x = (unsigned int)(full.s_q * kernel->blocks_per_query),
        .grid_y = 1,
        .params = &params,
    };
    rt_add_launch_flags(&launch, full.launch_flags);
    return rt_launch_on(kernel, &launch, stream);
}
