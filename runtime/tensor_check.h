/* What a call checks of its tensors: pointers, alignment, strides, extents; and the sentences when one is wrong. */
#ifndef SMLA_RUNTIME_TENSOR_CHECK_H
#define SMLA_RUNTIME_TENSOR_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

/* One tensor of the call, [rows, columns, width] with the last dimension contiguous; of decode, so many of those. */
struct tensor {
    const char *name;
    const char *outer_stride_name; /* NULL: one */
    const char *row_stride_name;
    const char *column_stride_name; /* NULL: no such stride */
    const void *pointer;
    int64_t outer;
    int64_t rows;
    int64_t columns;
    int64_t width;
    int64_t outer_stride; /* elements; 0: contiguous, until resolved */
    int64_t row_stride;
    int64_t column_stride;
    int32_t elem_bytes;
    int32_t alignment_bytes;
    int32_t stride_alignment_elems;
    bool needed;  /* may not be NULL */
    bool written; /* rows and columns may not overlap */
};

/* In place, member by member: returned by value, the copies were half of a call's time (store forwarding). */
static inline void set_shape(struct tensor *tensor, const char *name, const void *pointer, int64_t rows,
                             int64_t columns, int64_t width)
{
    tensor->name = name;
    tensor->pointer = pointer;
    tensor->outer = 1;
    tensor->outer_stride_name = NULL;
    tensor->outer_stride = 0;
    tensor->rows = rows;
    tensor->columns = columns;
    tensor->width = width;
    tensor->elem_bytes = 4;
    tensor->alignment_bytes = 4;
    tensor->stride_alignment_elems = 1;
    tensor->needed = false;
    tensor->written = false;
}

static inline void set_strides(struct tensor *tensor, const char *row_stride_name, int64_t row_stride,
                               const char *column_stride_name, int64_t column_stride)
{
    tensor->row_stride_name = row_stride_name;
    tensor->row_stride = row_stride;
    tensor->column_stride_name = column_stride_name;
    tensor->column_stride = column_stride;
}

/* Of a tensor of four dimensions, the first. */
static inline void set_outer(struct tensor *tensor, int64_t outer, const char *stride_name, int64_t stride)
{
    tensor->outer = outer;
    tensor->outer_stride_name = stride_name;
    tensor->outer_stride = stride;
}

static inline void set_storage(struct tensor *tensor, int32_t elem_bytes, int32_t alignment_bytes,
                               int32_t stride_alignment_elems)
{
    tensor->elem_bytes = elem_bytes;
    tensor->alignment_bytes = alignment_bytes;
    tensor->stride_alignment_elems = stride_alignment_elems;
}

/* A size of the call: 0 to `most`. */
static inline smla_status check_size(const char *name, int64_t value, int64_t most)
{
    if (value < 0)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld is negative: sizes are 0 or more", name, (long long)value);
    if (value > most)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s %lld: at most %lld in one call", name, (long long)value,
                       (long long)most);
    return SMLA_OK;
}

/* Checks a tensor and puts the contiguous strides where 0 stands. Returns SMLA_OK; INVALID_ARGUMENT. */
smla_status rt_check_tensor(struct tensor *tensor);

/* Checks a stride against the tensor's alignment: for one that struct tensor has no place for. */
smla_status rt_check_stride(const struct tensor *tensor, const char *name, int64_t stride);

/* From the first byte to the last, of a tensor that rt_check_tensor has passed; 0 when it has no element. */
int64_t rt_tensor_bytes(const struct tensor *tensor);

#endif
