#include "tensor_check.h"

#include <stddef.h>

/* Alignments are powers of two; a call has twenty of these checks, and a 64-bit division takes long. */
static bool is_multiple(int64_t value, int32_t power_of_two)
{
    return (value & (power_of_two - 1)) == 0;
}

static smla_status check_pointer(const struct tensor *tensor)
{
    if (tensor->pointer == NULL && tensor->needed)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s is NULL: a device pointer to [%lld, %lld, %lld] is needed",
                       tensor->name, (long long)tensor->rows, (long long)tensor->columns, (long long)tensor->width);
    if (!is_multiple((int64_t)(uintptr_t)tensor->pointer, tensor->alignment_bytes))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s is at %p: this kernel needs it aligned to %d bytes",
                       tensor->name, tensor->pointer, tensor->alignment_bytes);
    return SMLA_OK;
}

smla_status rt_check_stride(const struct tensor *tensor, const char *name, int64_t stride)
{
    if (stride < 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld is negative: strides are in elements, 0 means contiguous",
                       name, (long long)stride);
    if (!is_multiple(stride, tensor->stride_alignment_elems))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld: this kernel needs a multiple of %d elements (%d bytes)",
                       name, (long long)stride, tensor->stride_alignment_elems,
                       tensor->stride_alignment_elems * tensor->elem_bytes);
    return SMLA_OK;
}

static smla_status fail_overflow(const struct tensor *tensor)
{
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s reaches past 2^63 bytes: [%lld, %lld, %lld] with strides of %lld and %lld elements",
                   tensor->name, (long long)tensor->rows, (long long)tensor->columns, (long long)tensor->width,
                   (long long)tensor->row_stride, (long long)tensor->column_stride);
}

/* Puts the contiguous strides where 0 stands. */
static smla_status resolve_strides(struct tensor *tensor)
{
    if (tensor->column_stride == 0)
        tensor->column_stride = tensor->width;
    if (tensor->row_stride == 0 && __builtin_mul_overflow(tensor->column_stride, tensor->columns, &tensor->row_stride))
        return fail_overflow(tensor);
    return SMLA_OK;
}

/* The last byte must be within int64: the kernel's offsets are. */
static smla_status check_extent(const struct tensor *tensor)
{
    int64_t across, down, elems, bytes;

    if (tensor->rows == 0)
        return SMLA_OK;
    if (__builtin_mul_overflow(tensor->rows - 1, tensor->row_stride, &down) ||
        __builtin_mul_overflow(tensor->columns - 1, tensor->column_stride, &across) ||
        __builtin_add_overflow(down, across, &elems) || __builtin_add_overflow(elems, tensor->width, &elems) ||
        __builtin_mul_overflow(elems, (int64_t)tensor->elem_bytes, &bytes))
        return fail_overflow(tensor);
    return SMLA_OK;
}

/* No overlap when one of the two dimensions steps over the whole of the other. check_extent has excluded overflow. */
static bool is_apart(const struct tensor *tensor)
{
    const int64_t row_span = (tensor->rows - 1) * tensor->row_stride + tensor->width;
    const int64_t column_span = (tensor->columns - 1) * tensor->column_stride + tensor->width;

    if (tensor->rows <= 1)
        return tensor->columns <= 1 || tensor->column_stride >= tensor->width;
    if (tensor->columns <= 1)
        return tensor->row_stride >= tensor->width;
    return (tensor->column_stride >= tensor->width && tensor->row_stride >= column_span) ||
           (tensor->row_stride >= tensor->width && tensor->column_stride >= row_span);
}

static smla_status check_apart(const struct tensor *tensor)
{
    if (!tensor->written || is_apart(tensor))
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s overlaps itself: [%lld, %lld, %lld] with strides of %lld and %lld elements; strides of 0 mean "
                   "contiguous",
                   tensor->name, (long long)tensor->rows, (long long)tensor->columns, (long long)tensor->width,
                   (long long)tensor->row_stride, (long long)tensor->column_stride);
}

smla_status rt_check_tensor(struct tensor *tensor)
{
    smla_status status = check_pointer(tensor);

    if (tensor->pointer == NULL && status == SMLA_OK) {
        /* Not there, so its strides do not matter, but the kernel gets proper ones. */
        tensor->row_stride = 0;
        tensor->column_stride = 0;
        return resolve_strides(tensor);
    }
    if (status == SMLA_OK && tensor->row_stride_name)
        status = rt_check_stride(tensor, tensor->row_stride_name, tensor->row_stride);
    if (status == SMLA_OK && tensor->column_stride_name)
        status = rt_check_stride(tensor, tensor->column_stride_name, tensor->column_stride);
    if (status == SMLA_OK)
        status = resolve_strides(tensor);
    /* Again, for a contiguous one: pages without a gap may be off the alignment, with one behind the other. */
    if (status == SMLA_OK && tensor->row_stride_name && tensor->rows > 1)
        status = rt_check_stride(tensor, tensor->row_stride_name, tensor->row_stride);
    if (status == SMLA_OK)
        status = check_extent(tensor);
    if (status == SMLA_OK)
        status = check_apart(tensor);
    return status;
}

int64_t rt_tensor_bytes(const struct tensor *tensor)
{
    if (tensor->rows == 0 || tensor->columns == 0 || tensor->width == 0)
        return 0;
    return ((tensor->rows - 1) * tensor->row_stride + (tensor->columns - 1) * tensor->column_stride + tensor->width) *
           tensor->elem_bytes;
}
