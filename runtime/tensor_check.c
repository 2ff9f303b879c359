#include "tensor_check.h"

#include <stddef.h>
#include <stdio.h>

/* Alignments are powers of two; a call has twenty of these checks, and a 64-bit division takes long. */
static bool is_multiple(int64_t value, int32_t power_of_two)
{
    return (value & (power_of_two - 1)) == 0;
}

enum { SHAPE_BYTES = 96, STRIDES_BYTES = 80 };

static const char *shape_of(const struct tensor *tensor, char text[SHAPE_BYTES])
{
    char outer[24] = "";

    if (tensor->outer_stride_name)
        snprintf(outer, sizeof outer, "%lld, ", (long long)tensor->outer);
    snprintf(text, SHAPE_BYTES, "[%s%lld, %lld, %lld]", outer, (long long)tensor->rows, (long long)tensor->columns,
             (long long)tensor->width);
    return text;
}

static const char *strides_of(const struct tensor *tensor, char text[STRIDES_BYTES])
{
    char outer[24] = "";

    if (tensor->outer_stride_name)
        snprintf(outer, sizeof outer, "%lld, ", (long long)tensor->outer_stride);
    snprintf(text, STRIDES_BYTES, "%s%lld and %lld elements", outer, (long long)tensor->row_stride,
             (long long)tensor->column_stride);
    return text;
}

static smla_status check_pointer(const struct tensor *tensor)
{
    char shape[SHAPE_BYTES];

    if (tensor->pointer == NULL && tensor->needed)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s is NULL: a device pointer to %s is needed", tensor->name,
                       shape_of(tensor, shape));
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
    char shape[SHAPE_BYTES], strides[STRIDES_BYTES];

    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s reaches past 2^63 bytes: %s with strides of %s", tensor->name,
                   shape_of(tensor, shape), strides_of(tensor, strides));
}

/* Puts the contiguous strides where 0 stands. */
static smla_status resolve_strides(struct tensor *tensor)
{
    if (tensor->column_stride == 0)
        tensor->column_stride = tensor->width;
    if (tensor->row_stride == 0 && __builtin_mul_overflow(tensor->column_stride, tensor->columns, &tensor->row_stride))
        return fail_overflow(tensor);
    if (tensor->outer_stride_name && tensor->outer_stride == 0 &&
        __builtin_mul_overflow(tensor->row_stride, tensor->rows, &tensor->outer_stride))
        return fail_overflow(tensor);
    return SMLA_OK;
}

/* The last byte must be within int64: the kernel's offsets are. */
static smla_status check_extent(const struct tensor *tensor)
{
    int64_t across, down, out, elems, bytes;

    if (tensor->rows == 0 || tensor->outer == 0)
        return SMLA_OK;
    if (__builtin_mul_overflow(tensor->rows - 1, tensor->row_stride, &down) ||
        __builtin_mul_overflow(tensor->columns - 1, tensor->column_stride, &across) ||
        __builtin_mul_overflow(tensor->outer - 1, tensor->outer_stride, &out) ||
        __builtin_add_overflow(down, across, &elems) || __builtin_add_overflow(elems, out, &elems) ||
        __builtin_add_overflow(elems, tensor->width, &elems) ||
        __builtin_mul_overflow(elems, (int64_t)tensor->elem_bytes, &bytes))
        return fail_overflow(tensor);
    return SMLA_OK;
}

struct dimension {
    int64_t count;
    int64_t stride;
};

static void sort_by_stride(struct dimension *dimensions, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && dimensions[j].stride < dimensions[j - 1].stride; j--) {
            const struct dimension swapped = dimensions[j];
            dimensions[j] = dimensions[j - 1];
            dimensions[j - 1] = swapped;
        }
}

/* No overlap when each dimension, by stride, steps over the whole of those before. check_extent has excluded overflow.
 * (There are others without, which nobody has.) */
static bool is_apart(const struct tensor *tensor)
{
    struct dimension dimensions[] = {{tensor->columns, tensor->column_stride},
                                     {tensor->rows, tensor->row_stride},
                                     {tensor->outer, tensor->outer_stride}};
    int64_t span = tensor->width;

    sort_by_stride(dimensions, 3);
    for (int i = 0; i < 3; i++) {
        if (dimensions[i].count <= 1)
            continue;
        if (dimensions[i].stride < span)
            return false;
        span += (dimensions[i].count - 1) * dimensions[i].stride;
    }
    return true;
}

static smla_status check_apart(const struct tensor *tensor)
{
    char shape[SHAPE_BYTES], strides[STRIDES_BYTES];

    if (!tensor->written || is_apart(tensor))
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s overlaps itself: %s with strides of %s; strides of 0 mean contiguous", tensor->name,
                   shape_of(tensor, shape), strides_of(tensor, strides));
}

static smla_status check_strides(const struct tensor *tensor)
{
    smla_status status = SMLA_OK;

    if (tensor->outer_stride_name)
        status = rt_check_stride(tensor, tensor->outer_stride_name, tensor->outer_stride);
    if (status == SMLA_OK && tensor->row_stride_name)
        status = rt_check_stride(tensor, tensor->row_stride_name, tensor->row_stride);
    if (status == SMLA_OK && tensor->column_stride_name)
        status = rt_check_stride(tensor, tensor->column_stride_name, tensor->column_stride);
    return status;
}

smla_status rt_check_tensor(struct tensor *tensor)
{
    smla_status status = check_pointer(tensor);

    if (tensor->pointer == NULL && status == SMLA_OK) {
        /* Not there, so its strides do not matter, but the kernel gets proper ones. */
        tensor->outer_stride = 0;
        tensor->row_stride = 0;
        tensor->column_stride = 0;
        return resolve_strides(tensor);
    }
    if (status == SMLA_OK)
        status = check_strides(tensor);
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
    if (tensor->outer == 0 || tensor->rows == 0 || tensor->columns == 0 || tensor->width == 0)
        return 0;
    return ((tensor->outer - 1) * tensor->outer_stride + (tensor->rows - 1) * tensor->row_stride +
            (tensor->columns - 1) * tensor->column_stride + tensor->width) *
           tensor->elem_bytes;
}
