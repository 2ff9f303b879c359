/* Copies and fills, all in terms of one three-dimensional copy and one two-dimensional fill. */
#include <string.h>

#include "drv_state.h"

/* One side of a copy. */
struct side {
    uint8_t *base;
    size_t pitch, slice;
    bool device;
};

/* Bytes from the first to the last of a box, or 0 on overflow. */
static size_t span(const struct side *side, const struct cu_copy3d *copy)
{
    size_t rows, slices, total;
    if (__builtin_mul_overflow(copy->height - 1, side->pitch, &rows) ||
        __builtin_mul_overflow(copy->depth - 1, side->slice, &slices) || __builtin_add_overflow(rows, slices, &total) ||
        __builtin_add_overflow(total, copy->width, &total))
        return 0;
    return total;
}

static int make_side(const struct cu_copy3d *copy, int type, const void *host, uint64_t device, const size_t at[3],
                     const size_t pitch_height[2], struct side *side)
{
    const size_t pitch = pitch_height[0] != 0 ? pitch_height[0] : at[0] + copy->width;
    const size_t height = pitch_height[1] != 0 ? pitch_height[1] : at[1] + copy->height;
    DRV_CHECK(type != DRV_CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED);
    DRV_CHECK(type >= DRV_CU_MEMORYTYPE_HOST && type <= DRV_CU_MEMORYTYPE_UNIFIED, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(copy->height == 1 || at[0] + copy->width <= pitch, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(copy->depth == 1 || at[1] + copy->height <= height, CUDA_ERROR_INVALID_VALUE);
    const uint64_t start = type == DRV_CU_MEMORYTYPE_HOST ? drv_handle(host) : device;
    DRV_CHECK(start != 0, CUDA_ERROR_INVALID_VALUE);
    side->pitch = pitch;
    side->slice = pitch * height;
    side->base = (uint8_t *)(uintptr_t)(start + at[2] * side->slice + at[1] * pitch + at[0]);
    const size_t bytes = span(side, copy);
    side->device = emu_memory_find(drv.memory, drv_handle(side->base), bytes) != NULL;
    /* Memory that starts in an allocation must end there; an address called device memory must be some. */
    if (bytes == 0 || (!side->device && (type == DRV_CU_MEMORYTYPE_DEVICE ||
                                         emu_memory_find(drv.memory, drv_handle(side->base), 1) != NULL)))
        return drv_log(DRV_CUDA_ERROR_INVALID_VALUE, "a copy of %zu bytes at 0x%llx is not within an allocation", bytes,
                       (unsigned long long)drv_handle(side->base));
    return DRV_CUDA_SUCCESS;
}

/* What was not written stays so in the copy. */
static void carry_marks(const struct side *from, const struct side *to, const uint8_t *source, uint8_t *target,
                        size_t size)
{
    if (!to->device)
        return;
    if (from->device)
        emu_memory_copy_marks(drv.memory, drv_handle(target), drv_handle(source), size);
    else
        emu_memory_mark(drv.memory, drv_handle(target), size);
}

static void copy_rows(const struct cu_copy3d *copy, const struct side *from, const struct side *to)
{
    for (size_t z = 0; z < copy->depth; z++) {
        for (size_t y = 0; y < copy->height; y++) {
            const uint8_t *source = from->base + z * from->slice + y * from->pitch;
            uint8_t *target = to->base + z * to->slice + y * to->pitch;
            memmove(target, source, copy->width);
            carry_marks(from, to, source, target, copy->width);
        }
    }
}

int drv_copy(const struct cu_copy3d *copy, bool check_only)
{
    struct side from, to;
    if (copy->width == 0 || copy->height == 0 || copy->depth == 0)
        return DRV_CUDA_SUCCESS;
    const size_t src_at[3] = {copy->src_x, copy->src_y, copy->src_z};
    const size_t dst_at[3] = {copy->dst_x, copy->dst_y, copy->dst_z};
    DRV_TRY(make_side(copy, copy->src_type, copy->src_host, copy->src_device, src_at,
                      (const size_t[2]){copy->src_pitch, copy->src_height}, &from));
    DRV_TRY(make_side(copy, copy->dst_type, copy->dst_host, copy->dst_device, dst_at,
                      (const size_t[2]){copy->dst_pitch, copy->dst_height}, &to));
    if (check_only)
        return DRV_CUDA_SUCCESS;
    copy_rows(copy, &from, &to);
    drv.clock_ns += 1 + copy->width * copy->height * copy->depth / 1000;
    return DRV_CUDA_SUCCESS;
}

int drv_fill(const struct cu_memset_params *fill, bool check_only)
{
    const size_t element = fill->element_bytes;
    size_t row = 0, total = 0;
    if (fill->width == 0 || fill->height == 0)
        return DRV_CUDA_SUCCESS;
    DRV_CHECK(element == 1 || element == 2 || element == 4, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(fill->dst % element == 0 && (fill->height == 1 || fill->pitch % element == 0), CUDA_ERROR_INVALID_VALUE);
    if (__builtin_mul_overflow(fill->width, element, &row) ||
        __builtin_mul_overflow(fill->height - 1, fill->pitch, &total) || __builtin_add_overflow(total, row, &total))
        return DRV_CUDA_ERROR_INVALID_VALUE;
    DRV_CHECK(fill->height == 1 || fill->pitch >= row, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(emu_memory_find(drv.memory, fill->dst, total) != NULL, CUDA_ERROR_INVALID_VALUE);
    if (check_only)
        return DRV_CUDA_SUCCESS;
    for (size_t y = 0; y < fill->height; y++) {
        uint8_t *target = (uint8_t *)(uintptr_t)(fill->dst + y * fill->pitch);
        for (size_t x = 0; x < fill->width; x++)
            memcpy(target + x * element, &fill->value, element); /* little-endian: the low bytes */
        emu_memory_mark(drv.memory, drv_handle(target), row);
    }
    drv.clock_ns += 1 + row * fill->height / 1000;
    return DRV_CUDA_SUCCESS;
}

/* ---- One dimension ---- */

static struct cu_copy3d line(int dst_type, uint64_t dst, int src_type, uint64_t src, size_t size)
{
    return (struct cu_copy3d){.src_type = src_type,
                              .src_host = (const void *)(uintptr_t)src,
                              .src_device = src,
                              .dst_type = dst_type,
                              .dst_host = (void *)(uintptr_t)dst,
                              .dst_device = dst,
                              .width = size,
                              .height = 1,
                              .depth = 1};
}

static int submit_copy(cu_stream stream, const struct cu_copy3d *copy)
{
    DRV_ENTER_STREAM(stream);
    DRV_TRY(drv_copy(copy, true));
    return drv_submit(stream, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_MEMCPY, .as.copy = *copy});
}

/* A copy that returns when it is done: not in a capture, whatever the stream. */
static int copy_now(const struct cu_copy3d *copy)
{
    cu_stream stream = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_TRY(drv_stream_of(call.context, NULL, &stream));
    if (drv_capturing(stream))
        return drv_forbid_in_capture(true);
    DRV_TRY(drv_check_implicit(stream));
    DRV_TRY(drv_forbid_in_capture(false));
    return drv_copy(copy, false);
}

enum { HOST = DRV_CU_MEMORYTYPE_HOST, DEVICE = DRV_CU_MEMORYTYPE_DEVICE, UNIFIED = DRV_CU_MEMORYTYPE_UNIFIED };

int cuMemcpy(uint64_t dst, uint64_t src, size_t size)
{
    const struct cu_copy3d copy = line(UNIFIED, dst, UNIFIED, src, size);
    return copy_now(&copy);
}

int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t size, cu_stream stream)
{
    const struct cu_copy3d copy = line(UNIFIED, dst, UNIFIED, src, size);
    return submit_copy(stream, &copy);
}

int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t size)
{
    const struct cu_copy3d copy = line(DEVICE, dst, HOST, drv_handle(src), size);
    return copy_now(&copy);
}

int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t size)
{
    const struct cu_copy3d copy = line(HOST, drv_handle(dst), DEVICE, src, size);
    return copy_now(&copy);
}

int cuMemcpyDtoD_v2(uint64_t dst, uint64_t src, size_t size)
{
    const struct cu_copy3d copy = line(DEVICE, dst, DEVICE, src, size);
    return copy_now(&copy);
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t size, cu_stream stream)
{
    const struct cu_copy3d copy = line(DEVICE, dst, HOST, drv_handle(src), size);
    return submit_copy(stream, &copy);
}

int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t size, cu_stream stream)
{
    const struct cu_copy3d copy = line(HOST, drv_handle(dst), DEVICE, src, size);
    return submit_copy(stream, &copy);
}

int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t size, cu_stream stream)
{
    const struct cu_copy3d copy = line(DEVICE, dst, DEVICE, src, size);
    return submit_copy(stream, &copy);
}

/* One device: peers are itself. */
int cuMemcpyPeer(uint64_t dst, cu_context dst_context, uint64_t src, cu_context src_context, size_t size)
{
    (void)dst_context;
    (void)src_context;
    return cuMemcpyDtoD_v2(dst, src, size);
}

int cuMemcpyPeerAsync(uint64_t dst, cu_context dst_context, uint64_t src, cu_context src_context, size_t size,
                      cu_stream stream)
{
    (void)dst_context;
    (void)src_context;
    return cuMemcpyDtoDAsync_v2(dst, src, size, stream);
}

/* ---- Two and three dimensions ---- */

static struct cu_copy3d widen(const struct cu_copy2d *copy)
{
    return (struct cu_copy3d){.src_x = copy->src_x,
                              .src_y = copy->src_y,
                              .src_type = copy->src_type,
                              .src_host = copy->src_host,
                              .src_device = copy->src_device,
                              .src_pitch = copy->src_pitch,
                              .dst_x = copy->dst_x,
                              .dst_y = copy->dst_y,
                              .dst_type = copy->dst_type,
                              .dst_host = copy->dst_host,
                              .dst_device = copy->dst_device,
                              .dst_pitch = copy->dst_pitch,
                              .width = copy->width,
                              .height = copy->height,
                              .depth = 1};
}

int cuMemcpy2D_v2(const struct cu_copy2d *copy)
{
    DRV_CHECK(copy != NULL, CUDA_ERROR_INVALID_VALUE);
    const struct cu_copy3d wide = widen(copy);
    return copy_now(&wide);
}

int cuMemcpy2DUnaligned_v2(const struct cu_copy2d *copy)
{
    return cuMemcpy2D_v2(copy);
}

int cuMemcpy2DAsync_v2(const struct cu_copy2d *copy, cu_stream stream)
{
    DRV_CHECK(copy != NULL, CUDA_ERROR_INVALID_VALUE);
    const struct cu_copy3d wide = widen(copy);
    return submit_copy(stream, &wide);
}

int cuMemcpy3D_v2(const struct cu_copy3d *copy)
{
    DRV_CHECK(copy != NULL, CUDA_ERROR_INVALID_VALUE);
    return copy_now(copy);
}

int cuMemcpy3DAsync_v2(const struct cu_copy3d *copy, cu_stream stream)
{
    DRV_CHECK(copy != NULL, CUDA_ERROR_INVALID_VALUE);
    return submit_copy(stream, copy);
}

/* ---- Fills ---- */

static int submit_fill(cu_stream stream, const struct cu_memset_params *fill)
{
    DRV_ENTER_STREAM(stream);
    DRV_TRY(drv_fill(fill, true));
    return drv_submit(stream, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_MEMSET, .as.fill = *fill});
}

static int fill_now(const struct cu_memset_params *fill)
{
    cu_stream stream = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_TRY(drv_stream_of(call.context, NULL, &stream));
    if (drv_capturing(stream))
        return drv_forbid_in_capture(true);
    DRV_TRY(drv_check_implicit(stream));
    DRV_TRY(drv_forbid_in_capture(false));
    return drv_fill(fill, false);
}

static struct cu_memset_params fill_of(uint64_t dst, size_t pitch, unsigned int value, unsigned int element,
                                       size_t width, size_t height)
{
    return (struct cu_memset_params){dst, pitch, value, element, width, height};
}

#define FILLS(suffix, type, bytes)                                                                                     \
    int cuMemsetD##suffix##_v2(uint64_t dst, type value, size_t count)                                                 \
    {                                                                                                                  \
        const struct cu_memset_params fill = fill_of(dst, 0, value, bytes, count, 1);                                  \
        return fill_now(&fill);                                                                                        \
    }                                                                                                                  \
    int cuMemsetD##suffix##Async(uint64_t dst, type value, size_t count, cu_stream stream)                             \
    {                                                                                                                  \
        const struct cu_memset_params fill = fill_of(dst, 0, value, bytes, count, 1);                                  \
        return submit_fill(stream, &fill);                                                                             \
    }                                                                                                                  \
    int cuMemsetD2D##suffix##_v2(uint64_t dst, size_t pitch, type value, size_t width, size_t height)                  \
    {                                                                                                                  \
        const struct cu_memset_params fill = fill_of(dst, pitch, value, bytes, width, height);                         \
        return fill_now(&fill);                                                                                        \
    }                                                                                                                  \
    int cuMemsetD2D##suffix##Async(uint64_t dst, size_t pitch, type value, size_t width, size_t height,                \
                                   cu_stream stream)                                                                   \
    {                                                                                                                  \
        const struct cu_memset_params fill = fill_of(dst, pitch, value, bytes, width, height);                         \
        return submit_fill(stream, &fill);                                                                             \
    }

FILLS(8, unsigned char, 1)
FILLS(16, unsigned short, 2)
FILLS(32, unsigned int, 4)
