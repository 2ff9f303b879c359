#include "prefill_check.h"

#include <stdio.h>
#include <string.h>

#include "launch.h"
#include "prefill_check_key.h"

/* ---- Allocations ---- */

/* What the driver knows of a pointer; zeros where it knows nothing. */
struct allocation {
    unsigned int memory_type;
    rt_cu_deviceptr device_pointer; /* 0: kernels of this context cannot access it */
    rt_cu_deviceptr start;
    size_t size;
};

static rt_cu_deviceptr address_of(const void *pointer)
{
    return (rt_cu_deviceptr)(uintptr_t)pointer;
}

/* The three errors say that the pointer is not the driver's, which is no fault: a device may read malloc's memory. */
static smla_status ask(const struct rt_driver *driver, const struct tensor *tensor, struct allocation *out)
{
    int attributes[] = {RT_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, RT_CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                        RT_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, RT_CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&out->memory_type, &out->device_pointer, &out->start, &out->size};

    memset(out, 0, sizeof *out);
    const rt_cu_result result = driver->cuPointerGetAttributes(4, attributes, values, address_of(tensor->pointer));
    if (result == RT_CUDA_SUCCESS)
        return SMLA_OK;
    memset(out, 0, sizeof *out);
    if (result == RT_CUDA_ERROR_INVALID_VALUE || result == RT_CUDA_ERROR_INVALID_CONTEXT ||
        result == RT_CUDA_ERROR_NOT_SUPPORTED)
        return SMLA_OK;
    return rt_driver_fail(driver, result, "cuPointerGetAttributes of %s", tensor->name);
}

/* Neighbours of the virtual memory API may be one tensor's, whose allocation alone says nothing. Of other memory the
 * driver says that the value is not valid. */
static smla_status ask_virtual(const struct rt_driver *driver, const struct tensor *tensor, bool *is_virtual)
{
    rt_cu_allocation_handle handle;
    void *address;

    *is_virtual = false;
    memcpy(&address, &tensor->pointer, sizeof address);
    if (driver->cuMemRetainAllocationHandle == NULL || driver->cuMemRelease == NULL)
        return SMLA_OK;
    const rt_cu_result result = driver->cuMemRetainAllocationHandle(&handle, address);
    if (result == RT_CUDA_ERROR_INVALID_VALUE || result == RT_CUDA_ERROR_NOT_SUPPORTED)
        return SMLA_OK;
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuMemRetainAllocationHandle of %s", tensor->name);
    *is_virtual = true;
    driver->cuMemRelease(handle);
    return SMLA_OK;
}

/* Bytes of a cache with pages: of the last one, the tokens that are there. */
static int64_t paged_bytes(const struct rt_kv *kv, const struct tensor *tensor, const struct rt_check_list *list)
{
    const int64_t left = list->s_kv % list->page_tokens;
    const int64_t whole = rt_tensor_bytes(tensor);

    if (left == 0 || tensor->rows == 0)
        return whole;
    struct tensor before = *tensor, last = *tensor;
    before.rows--;
    last.rows = 1;
    if (kv->by_page)
        last.width -= (list->page_tokens - left) * kv->scale_bytes;
    else
        last.columns = left;
    const int64_t end = before.rows * tensor->row_stride * tensor->elem_bytes + rt_tensor_bytes(&last);
    const int64_t end_before = rt_tensor_bytes(&before);
    return end > end_before ? end : end_before;
}

/* The list whose cache a tensor is; NULL for other tensors. */
static const struct rt_check_list *list_of_kv(const struct rt_prefill_check *check, const struct tensor *tensor)
{
    for (int c = 0; c < check->kernel->caches; c++)
        if (tensor == &check->tensors[check->lists[c].kv])
            return &check->lists[c];
    return NULL;
}

static int64_t bytes_of(const struct rt_prefill_check *check, const struct tensor *tensor)
{
    const struct rt_check_list *list = list_of_kv(check, tensor);

    if (list == NULL || list->page_tokens == 0)
        return rt_tensor_bytes(tensor);
    return paged_bytes(&check->kernel->kv[list - check->lists], tensor, list);
}

/* What of the call made a tensor as large as it is. */
static void say_extent(const struct rt_prefill_check *check, const struct tensor *tensor, char *text, size_t size)
{
    const struct rt_check_list *list = list_of_kv(check, tensor);

    if (list == NULL)
        snprintf(text, size, "[%lld, %lld, %lld] with strides of %lld and %lld elements", (long long)tensor->rows,
                 (long long)tensor->columns, (long long)tensor->width, (long long)tensor->row_stride,
                 (long long)tensor->column_stride);
    else if (list->page_tokens == 0)
        snprintf(text, size, "%s %lld, %s %lld", list->s_kv_name, (long long)list->s_kv, list->stride_token_name,
                 (long long)tensor->row_stride);
    else
        snprintf(text, size, "%s %lld in pages of %lld tokens, %s %lld", list->s_kv_name, (long long)list->s_kv,
                 (long long)list->page_tokens, list->stride_page_name, (long long)tensor->row_stride);
}

static smla_status fail_extent(const struct rt_prefill_check *check, const struct tensor *tensor,
                               const struct allocation *allocation, uint64_t past)
{
    char extent[192];

    say_extent(check, tensor, extent, sizeof extent);
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s reaches %llu byte%s past its allocation of %zu bytes: %s, from byte %llu of it", tensor->name,
                   (unsigned long long)past, past == 1 ? "" : "s", allocation->size, extent,
                   (unsigned long long)(address_of(tensor->pointer) - allocation->start));
}

static smla_status check_range(const struct rt_prefill_check *check, const struct tensor *tensor)
{
    const struct rt_driver *driver = check->kernel->driver;
    const int64_t bytes = tensor->pointer ? bytes_of(check, tensor) : 0;
    struct allocation allocation;
    bool is_virtual;

    if (bytes == 0)
        return SMLA_OK;
    smla_status status = ask(driver, tensor, &allocation);
    if (status != SMLA_OK || allocation.memory_type == 0)
        return status;
    const uint64_t offset = address_of(tensor->pointer) - allocation.start;
    const uint64_t left = offset < allocation.size ? allocation.size - offset : (uint64_t)bytes; /* or not known */
    const bool accessible = allocation.device_pointer != 0;
    if (accessible && (uint64_t)bytes <= left)
        return SMLA_OK;
    status = ask_virtual(driver, tensor, &is_virtual);
    if (status != SMLA_OK || is_virtual)
        return status;
    if (!accessible)
        return rt_fail(
            SMLA_ERROR_INVALID_ARGUMENT,
            "%s at %p is memory that the kernel's device cannot access: another device's, or the host's that "
            "is not mapped",
            tensor->name, tensor->pointer);
    return fail_extent(check, tensor, &allocation, (uint64_t)bytes - left);
}

static smla_status check_ranges(const struct rt_prefill_check *check)
{
    struct tensor workspace;

    if (check->kernel->driver->cuPointerGetAttributes == NULL)
        return SMLA_OK;
    set_shape(&workspace, "workspace", check->workspace, 1, 1, RT_CHECK_WORKSPACE_BYTES / 4);
    set_strides(&workspace, NULL, workspace.width, NULL, workspace.width);
    smla_status status = check_range(check, &workspace);
    for (int i = 0; status == SMLA_OK && i < check->tensor_count; i++)
        status = check_range(check, &check->tensors[i]);
    return status;
}

/* ---- Workspace and stream ---- */

static smla_status check_workspace(const struct rt_prefill_check *check)
{
    const uintptr_t address = (uintptr_t)check->workspace;

    if (check->workspace == NULL || check->workspace_bytes < RT_CHECK_WORKSPACE_BYTES)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "workspace %p of %llu bytes: a checked kernel needs %d bytes of device memory "
                       "(smla_prefill_workspace_size)",
                       check->workspace, (unsigned long long)check->workspace_bytes, RT_CHECK_WORKSPACE_BYTES);
    if (address % RT_CHECK_WORKSPACE_BYTES)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "workspace is at %p: a checked kernel needs it aligned to %d bytes",
                       check->workspace, RT_CHECK_WORKSPACE_BYTES);
    return SMLA_OK;
}

static smla_status check_stream(const struct rt_driver *driver, void *stream)
{
    int status = RT_CU_STREAM_CAPTURE_STATUS_NONE;
    const rt_cu_result result = driver->cuStreamIsCapturing(stream, &status);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuStreamIsCapturing, before a checked kernel waits for the stream,");
    if (status != RT_CU_STREAM_CAPTURE_STATUS_NONE)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "the stream is capturing, and a checked kernel waits for it: check outside of the capture, and "
                       "capture a kernel without SMLA_KERNEL_CHECKED");
    return SMLA_OK;
}

/* ---- Lists ---- */

static smla_status wait_for(const struct rt_driver *driver, const char *what, void *stream)
{
    const rt_cu_result result = driver->cuStreamSynchronize(stream);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuStreamSynchronize after %s, or work before it,", what);
    return SMLA_OK;
}

static smla_status launch_check(const struct rt_prefill_check *check, void *stream)
{
    const smla_kernel *kernel = check->kernel;
    struct smla_prefill_params params = *check->params;
    const struct rt_launch launch = {
        .function = kernel->functions[kernel->check_variant],
        .name = "prefill_check",
        .grid_x = (unsigned int)params.s_q,
        .grid_y = 1,
        .threads = kernel->check_threads,
        .params = &params,
    };

    params.out = check->workspace;
    return rt_launch_here(kernel->driver, &launch, stream);
}

/* The first place that cannot be meant, or SMLA_CHECK_NOTHING. */
static smla_status find_first(const struct rt_prefill_check *check, void *stream, unsigned long long *first)
{
    const struct rt_driver *driver = check->kernel->driver;
    const rt_cu_deviceptr workspace = address_of(check->workspace);
    rt_cu_result result = driver->cuMemsetD32Async(workspace, 0xffffffffu, RT_CHECK_WORKSPACE_BYTES / 4, stream);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuMemsetD32Async of the workspace");
    const smla_status status = launch_check(check, stream);
    if (status != SMLA_OK)
        return status;
    result = driver->cuMemcpyAsync(address_of(first), workspace, sizeof *first, stream);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuMemcpyAsync from the workspace");
    return wait_for(driver, "the check of the lists", stream);
}

static smla_status read_value(const struct rt_driver *driver, const int *from, void *stream, int *value)
{
    const rt_cu_result result = driver->cuMemcpyAsync(address_of(value), address_of(from), sizeof *value, stream);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuMemcpyAsync of the first bad entry");
    return wait_for(driver, "reading the first bad entry", stream);
}

static smla_status fail_length(const struct rt_check_list *list, long long token, int length, int topk)
{
    if (length < 0 || length > topk)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s[%lld] is %d: lengths are 0 to %s %d", list->length_name, token,
                       length, list->topk_name, topk);
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s[%lld] was outside 0 to %s %d and is %d now: something writes it while the call reads it",
                   list->length_name, token, list->topk_name, topk, length);
}

static smla_status fail_index(const struct rt_check_list *list, long long token, int slot, int index, unsigned int s_kv)
{
    if (index < -1)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s[row %lld][slot %d] is %d: negative, and not the marker -1",
                       list->indices_name, token, slot, index);
    if (index != -1 && (unsigned int)index >= s_kv)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "%s[row %lld][slot %d] is %d: neither -1 nor below %s %u",
                       list->indices_name, token, slot, index, list->s_kv_name, s_kv);
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "%s[row %lld][slot %d] was neither -1 nor below %s %u and is %d now: something writes it while the "
                   "call reads it",
                   list->indices_name, token, slot, list->s_kv_name, s_kv, index);
}

static smla_status fail_first(const struct rt_prefill_check *check, unsigned long long first, void *stream)
{
    const int c = SMLA_CHECK_CACHE(first), slot = SMLA_CHECK_SLOT(first);
    const long long token = SMLA_CHECK_TOKEN(first);
    const struct smla_key_cache *cache = &check->params->cache[c];
    const bool is_length = slot < 0;
    int value = 0;

    if (token >= check->params->s_q || c >= check->kernel->caches || slot >= cache->topk ||
        (is_length && cache->topk_length == NULL))
        return rt_fail(SMLA_ERROR_INTERNAL, "the check of the lists answered 0x%llx, which is no place of them", first);
    const int *from = is_length ? cache->topk_length + token * cache->topk_length_stride
                                : cache->indices + token * cache->indices_stride_token + slot;
    const smla_status status = read_value(check->kernel->driver, from, stream, &value);
    if (status != SMLA_OK)
        return status;
    return is_length ? fail_length(&check->lists[c], token, value, cache->topk)
                     : fail_index(&check->lists[c], token, slot, value, cache->s_kv);
}

static smla_status check_here(const struct rt_prefill_check *check, void *stream)
{
    unsigned long long first = SMLA_CHECK_NOTHING;
    smla_status status = check_stream(check->kernel->driver, stream);

    if (status == SMLA_OK)
        status = check_ranges(check);
    if (status == SMLA_OK)
        status = find_first(check, stream, &first);
    return status == SMLA_OK && first != SMLA_CHECK_NOTHING ? fail_first(check, first, stream) : status;
}

/* ---- In the kernel's context ---- */

smla_status rt_prefill_check(const struct rt_prefill_check *check, void *stream)
{
    const struct rt_driver *driver = check->kernel->driver;
    rt_cu_context current = NULL, popped;
    smla_status status = check_workspace(check);

    if (status != SMLA_OK)
        return status;
    rt_cu_result result = driver->cuCtxGetCurrent(&current);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuCtxGetCurrent");
    if (current == check->kernel->cuda_context)
        return check_here(check, stream);
    result = driver->cuCtxPushCurrent(check->kernel->cuda_context);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuCtxPushCurrent of the kernel's context");
    status = check_here(check, stream);
    result = driver->cuCtxPopCurrent(&popped);
    if (result != RT_CUDA_SUCCESS && status == SMLA_OK)
        return rt_driver_fail(driver, result, "the lists are good, but cuCtxPopCurrent afterwards");
    return status;
}
