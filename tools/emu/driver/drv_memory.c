/* Memory: device pointers are host pointers, so device, pinned and managed memory differ in name alone. */
#include <stdlib.h>
#include <string.h>

#include "drv_device.h"
#include "drv_state.h"

enum { PITCH_ALIGN = 512 };

static const char *what_of(const struct drv_allocation *allocation)
{
    if (allocation->managed)
        return "cuMemAllocManaged";
    return allocation->type == DRV_CU_MEMORYTYPE_HOST ? "pinned host memory" : "cuMemAlloc";
}

/* Host memory may be written behind our back: all of it counts as initialised. */
static bool host_writes(const struct drv_allocation *allocation)
{
    return allocation->managed || allocation->type == DRV_CU_MEMORYTYPE_HOST;
}

static int enter_allocation(const struct drv_allocation *model, struct drv_allocation **out)
{
    struct drv_allocation *allocation = drv_new(DRV_ALLOCATION, sizeof *allocation);
    if (allocation == NULL)
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    drv_remove(DRV_ALLOCATION, drv_handle(allocation));
    *allocation = *model;
    allocation->id = drv.next_id++;
    if (!drv_add(DRV_ALLOCATION, allocation->address, allocation)) {
        free(allocation);
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (host_writes(allocation))
        emu_memory_mark(drv.memory, allocation->address, allocation->size);
    drv.allocated_bytes += allocation->size;
    *out = allocation;
    return DRV_CUDA_SUCCESS;
}

/* Allocates as `model` says and gives the address. */
static int allocate(struct drv_allocation model, uint64_t *out)
{
    struct drv_allocation *allocation = NULL;
    if (model.size > drv_total_memory())
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    model.address = emu_memory_alloc(drv.memory, model.size, what_of(&model));
    if (model.address == 0)
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    const int result = enter_allocation(&model, &allocation);
    if (result != DRV_CUDA_SUCCESS)
        emu_memory_free(drv.memory, model.address);
    else
        *out = model.address;
    return result;
}

static void forget(struct drv_allocation *allocation)
{
    drv_remove(DRV_ALLOCATION, allocation->address);
    drv.allocated_bytes -= allocation->size;
    if (allocation->registered)
        emu_memory_remove(drv.memory, allocation->address);
    else
        emu_memory_free(drv.memory, allocation->address);
    free(allocation);
}

static bool is_of_context(void *object, const void *context)
{
    return ((const struct drv_allocation *)object)->context == context;
}

void drv_allocations_destroy(struct drv_context *context)
{
    struct drv_allocation *allocation;
    while ((allocation = drv_search(DRV_ALLOCATION, is_of_context, context)) != NULL)
        forget(allocation);
}

/* ---- Device memory ---- */

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(free_bytes != NULL && total != NULL, CUDA_ERROR_INVALID_VALUE);
    *total = drv_total_memory();
    *free_bytes = drv.allocated_bytes < *total ? *total - drv.allocated_bytes : 0;
    return DRV_CUDA_SUCCESS;
}

int cuMemAlloc_v2(uint64_t *out, size_t size)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && size > 0, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_forbid_in_capture(false));
    return allocate((struct drv_allocation){.size = size, .context = call.context, .type = DRV_CU_MEMORYTYPE_DEVICE},
                    out);
}

int cuMemAllocPitch_v2(uint64_t *out, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && pitch != NULL && width > 0 && height > 0, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(element == 4 || element == 8 || element == 16, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_forbid_in_capture(false));
    size_t row, size;
    if (__builtin_add_overflow(width, PITCH_ALIGN - 1, &row))
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    row = row / PITCH_ALIGN * PITCH_ALIGN;
    if (__builtin_mul_overflow(row, height, &size))
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    DRV_TRY(allocate((struct drv_allocation){.size = size, .context = call.context, .type = DRV_CU_MEMORYTYPE_DEVICE},
                     out));
    *pitch = row;
    return DRV_CUDA_SUCCESS;
}

int cuMemAllocManaged(uint64_t *out, size_t size, unsigned int flags)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && size > 0 && (flags == 1 || flags == 2), CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_forbid_in_capture(false));
    return allocate(
        (struct drv_allocation){
            .size = size, .context = call.context, .type = DRV_CU_MEMORYTYPE_DEVICE, .managed = true},
        out);
}

int cuMemFree_v2(uint64_t address)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    if (address == 0)
        return DRV_CUDA_SUCCESS;
    struct drv_allocation *allocation = drv_find(DRV_ALLOCATION, address);
    DRV_CHECK(allocation != NULL && allocation->type == DRV_CU_MEMORYTYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_forbid_in_capture(false));
    forget(allocation);
    return DRV_CUDA_SUCCESS;
}

/* ---- Host memory ---- */

static int allocate_host(struct drv_context *context, void **out, size_t size, unsigned int flags)
{
    uint64_t address = 0;
    DRV_CHECK(out != NULL && size > 0 && flags <= 7, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_forbid_in_capture(false));
    DRV_TRY(allocate((struct drv_allocation){.size = size,
                                             .context = context,
                                             .type = DRV_CU_MEMORYTYPE_HOST,
                                             .host_flags = flags | DRV_CU_MEMHOSTALLOC_DEVICEMAP},
                     &address));
    *out = (void *)(uintptr_t)address;
    return DRV_CUDA_SUCCESS;
}

int cuMemAllocHost_v2(void **out, size_t size)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    return allocate_host(call.context, out, size, 0);
}

int cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    return allocate_host(call.context, out, size, flags);
}

int cuMemFreeHost(void *memory)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    if (memory == NULL)
        return DRV_CUDA_SUCCESS;
    struct drv_allocation *allocation = drv_find(DRV_ALLOCATION, drv_handle(memory));
    DRV_CHECK(allocation != NULL && allocation->type == DRV_CU_MEMORYTYPE_HOST && !allocation->registered,
              CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_forbid_in_capture(false));
    forget(allocation);
    return DRV_CUDA_SUCCESS;
}

int cuMemHostRegister_v2(void *memory, size_t size, unsigned int flags)
{
    struct drv_allocation *allocation = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(memory != NULL && size > 0 && flags <= 15, CUDA_ERROR_INVALID_VALUE);
    if (emu_memory_find(drv.memory, drv_handle(memory), 1) != NULL ||
        !emu_memory_add(drv.memory, drv_handle(memory), size, "registered host memory"))
        return DRV_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    const struct drv_allocation model = {.address = drv_handle(memory),
                                         .size = size,
                                         .context = call.context,
                                         .type = DRV_CU_MEMORYTYPE_HOST,
                                         .registered = true,
                                         .host_flags = flags};
    const int result = enter_allocation(&model, &allocation);
    if (result != DRV_CUDA_SUCCESS)
        emu_memory_remove(drv.memory, model.address);
    return result;
}

int cuMemHostUnregister(void *memory)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(memory != NULL, CUDA_ERROR_INVALID_VALUE);
    struct drv_allocation *allocation = drv_find(DRV_ALLOCATION, drv_handle(memory));
    DRV_CHECK(allocation != NULL && allocation->registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    forget(allocation);
    return DRV_CUDA_SUCCESS;
}

/* The record of the memory that holds an address, or NULL. */
static struct drv_allocation *holder(uint64_t address)
{
    const struct emu_allocation *found = emu_memory_find(drv.memory, address, 1);
    return found == NULL ? NULL : drv_find(DRV_ALLOCATION, found->address);
}

int cuMemHostGetDevicePointer_v2(uint64_t *out, void *memory, unsigned int flags)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && memory != NULL && flags == 0, CUDA_ERROR_INVALID_VALUE);
    const struct drv_allocation *allocation = holder(drv_handle(memory));
    DRV_CHECK(allocation != NULL && host_writes(allocation), CUDA_ERROR_INVALID_VALUE);
    *out = drv_handle(memory);
    return DRV_CUDA_SUCCESS;
}

int cuMemHostGetFlags(unsigned int *flags, void *memory)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(flags != NULL && memory != NULL, CUDA_ERROR_INVALID_VALUE);
    const struct drv_allocation *allocation = holder(drv_handle(memory));
    DRV_CHECK(allocation != NULL && allocation->type == DRV_CU_MEMORYTYPE_HOST, CUDA_ERROR_INVALID_VALUE);
    *flags = allocation->host_flags;
    return DRV_CUDA_SUCCESS;
}

/* ---- Questions ---- */

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    const struct emu_allocation *found = emu_memory_find(drv.memory, address, 1);
    DRV_CHECK(found != NULL, CUDA_ERROR_NOT_FOUND);
    if (base != NULL)
        *base = found->address;
    if (size != NULL)
        *size = found->size;
    return DRV_CUDA_SUCCESS;
}

static int write_attribute(void *data, int attribute, uint64_t address, const struct drv_allocation *allocation)
{
    const int type = allocation->type;
    switch (attribute) {
    case DRV_CU_POINTER_ATTRIBUTE_CONTEXT:
        *(cu_context *)data = allocation->context;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = (unsigned int)type;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(uint64_t *)data = address;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_HOST_POINTER:
        DRV_CHECK(host_writes(allocation), CUDA_ERROR_INVALID_VALUE);
        *(void **)data = (void *)(uintptr_t)address;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case DRV_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case DRV_CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = 0;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(uint64_t *)data = allocation->id;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)data = allocation->managed;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(uint64_t *)data = allocation->address;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = allocation->size;
        break;
    case DRV_CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1;
        break;
    default:
        return DRV_CUDA_ERROR_NOT_SUPPORTED;
    }
    return DRV_CUDA_SUCCESS;
}

/* Module variables are device memory without a record. */
static const struct drv_allocation *describe(uint64_t address, struct drv_allocation *spare)
{
    const struct emu_allocation *found = emu_memory_find(drv.memory, address, 1);
    if (found == NULL)
        return NULL;
    const struct drv_allocation *allocation = drv_find(DRV_ALLOCATION, found->address);
    *spare = (struct drv_allocation){
        .address = found->address, .size = found->size, .context = drv_current(), .type = DRV_CU_MEMORYTYPE_DEVICE};
    return allocation != NULL ? allocation : spare;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t address)
{
    struct drv_allocation spare;
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(data != NULL, CUDA_ERROR_INVALID_VALUE);
    const struct drv_allocation *allocation = describe(address, &spare);
    DRV_CHECK(allocation != NULL, CUDA_ERROR_INVALID_VALUE);
    return write_attribute(data, attribute, address, allocation);
}

/* Sizes of the attributes' values, for those of memory that is not ours: all zero. */
static size_t attribute_bytes(int attribute)
{
    switch (attribute) {
    case DRV_CU_POINTER_ATTRIBUTE_CONTEXT:
    case DRV_CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case DRV_CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case DRV_CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case DRV_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case DRV_CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return 8;
    case DRV_CU_POINTER_ATTRIBUTE_MAPPED:
        return 1;
    default:
        return 4;
    }
}

/* Unlike the single form, this one answers for foreign memory too. */
int cuPointerGetAttributes(unsigned int count, int *attributes, void **data, uint64_t address)
{
    struct drv_allocation spare;
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(attributes != NULL && data != NULL, CUDA_ERROR_INVALID_VALUE);
    const struct drv_allocation *allocation = describe(address, &spare);
    for (unsigned int i = 0; i < count; i++) {
        DRV_CHECK(data[i] != NULL, CUDA_ERROR_INVALID_VALUE);
        if (allocation == NULL || write_attribute(data[i], attributes[i], address, allocation) != DRV_CUDA_SUCCESS)
            memset(data[i], 0, attribute_bytes(attributes[i]));
    }
    return DRV_CUDA_SUCCESS;
}

int cuPointerSetAttribute(const void *value, int attribute, uint64_t address)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(value != NULL && emu_memory_find(drv.memory, address, 1) != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(attribute == DRV_CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

/* Hints about managed memory: heard and ignored. */
static int hint(uint64_t address, size_t size)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(size > 0 && emu_memory_find(drv.memory, address, size) != NULL, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

int cuMemAdvise(uint64_t address, size_t size, int advice, int device)
{
    (void)advice;
    (void)device;
    return hint(address, size);
}

int cuMemAdvise_v2(uint64_t address, size_t size, int advice, struct cu_location location)
{
    (void)advice;
    (void)location;
    return hint(address, size);
}

int cuMemPrefetchAsync(uint64_t address, size_t size, int device, cu_stream stream)
{
    (void)device;
    (void)stream;
    return hint(address, size);
}

int cuMemPrefetchAsync_v2(uint64_t address, size_t size, struct cu_location location, unsigned int flags,
                          cu_stream stream)
{
    (void)location;
    (void)flags;
    (void)stream;
    return hint(address, size);
}

/* ---- Memory in stream order: at once, as all is done at once ---- */

int cuMemAllocAsync(uint64_t *out, size_t size, cu_stream stream)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(out != NULL && size > 0, CUDA_ERROR_INVALID_VALUE);
    if (drv_capturing(stream)) {
        drv_capture_invalidate(stream->capture);
        return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED, "the emulated device has no allocation nodes in graphs");
    }
    return allocate((struct drv_allocation){.size = size, .context = call.context, .type = DRV_CU_MEMORYTYPE_DEVICE},
                    out);
}

int cuMemAllocFromPoolAsync(uint64_t *out, size_t size, cu_pool pool, cu_stream stream)
{
    DRV_CHECK(pool != NULL, CUDA_ERROR_INVALID_VALUE);
    return cuMemAllocAsync(out, size, stream);
}

int cuMemFreeAsync(uint64_t address, cu_stream stream)
{
    DRV_ENTER_STREAM(stream);
    struct drv_allocation *allocation = drv_find(DRV_ALLOCATION, address);
    DRV_CHECK(allocation != NULL && allocation->type == DRV_CU_MEMORYTYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    if (drv_capturing(stream)) {
        drv_capture_invalidate(stream->capture);
        return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED, "the emulated device has no allocation nodes in graphs");
    }
    forget(allocation);
    return DRV_CUDA_SUCCESS;
}

/* ---- Pools: names without effect ---- */

int cuDeviceGetDefaultMemPool(cu_pool *out, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    *out = drv.pool;
    return DRV_CUDA_SUCCESS;
}

int cuDeviceGetMemPool(cu_pool *out, int device)
{
    return cuDeviceGetDefaultMemPool(out, device);
}

int cuDeviceSetMemPool(int device, cu_pool pool)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    DRV_CHECK(drv_find(DRV_POOL, drv_handle(pool)) != NULL, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

int cuMemPoolCreate(cu_pool *out, const void *properties)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL && properties != NULL, CUDA_ERROR_INVALID_VALUE);
    struct drv_pool *pool = drv_new(DRV_POOL, sizeof *pool);
    DRV_CHECK(pool != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *out = pool;
    return DRV_CUDA_SUCCESS;
}

int cuMemPoolDestroy(cu_pool pool)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(pool != drv.pool && drv_find(DRV_POOL, drv_handle(pool)) != NULL, CUDA_ERROR_INVALID_VALUE);
    drv_delete(DRV_POOL, pool);
    return DRV_CUDA_SUCCESS;
}

int cuMemPoolTrimTo(cu_pool pool, size_t keep)
{
    (void)keep;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(drv_find(DRV_POOL, drv_handle(pool)) != NULL, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

/* CUmemPool_attribute: 1 to 3 are ints, 4 to 8 numbers of bytes. */
static size_t pool_value_bytes(int attribute)
{
    return attribute <= 3 ? sizeof(int) : sizeof(uint64_t);
}

int cuMemPoolSetAttribute(cu_pool pool, int attribute, void *value)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(drv_find(DRV_POOL, drv_handle(pool)) != NULL && value != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(attribute >= 1 && attribute <= 8, CUDA_ERROR_INVALID_VALUE);
    memcpy(&pool->attributes[attribute - 1], value, pool_value_bytes(attribute));
    return DRV_CUDA_SUCCESS;
}

int cuMemPoolGetAttribute(cu_pool pool, int attribute, void *value)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(drv_find(DRV_POOL, drv_handle(pool)) != NULL && value != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(attribute >= 1 && attribute <= 8, CUDA_ERROR_INVALID_VALUE);
    memcpy(value, &pool->attributes[attribute - 1], pool_value_bytes(attribute));
    return DRV_CUDA_SUCCESS;
}
