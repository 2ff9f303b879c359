/* Contexts and each thread's stack of them. */
#include <string.h>

#include "drv_state.h"

static _Thread_local struct drv_context *stack[DRV_CONTEXT_DEPTH];
static _Thread_local int depth;

struct drv_context *drv_current(void)
{
    return depth == 0 ? NULL : stack[depth - 1];
}

static bool is_alive(const struct drv_context *context)
{
    return drv_find(DRV_CONTEXT, drv_handle(context)) != NULL && (!context->primary || context->retained > 0);
}

static void begin(struct drv_context *context)
{
    context->id = drv.next_id++;
    context->error = 0;
    context->api_version = 3020;
    context->cache_config = 0;
    context->limits[DRV_CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[DRV_CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[DRV_CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limits[DRV_CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    context->limits[DRV_CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
}

void drv_context_clear(struct drv_context *context)
{
    drv_write_report(false);
    drv_streams_destroy(context);
    drv_events_destroy(context);
    drv_modules_destroy(context);
    drv_allocations_destroy(context);
}

/* ---- Primary ---- */

int cuDevicePrimaryCtxRetain(cu_context *out, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    if (drv.primary.retained == 0)
        begin(&drv.primary);
    drv.primary.retained++;
    *out = &drv.primary;
    return DRV_CUDA_SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    DRV_CHECK(drv.primary.retained > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--drv.primary.retained == 0)
        drv_context_clear(&drv.primary);
    return DRV_CUDA_SUCCESS;
}

int cuDevicePrimaryCtxReset_v2(int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    if (drv.primary.retained > 0)
        drv_context_clear(&drv.primary);
    drv.primary.retained = 0;
    return DRV_CUDA_SUCCESS;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned int flags)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    DRV_CHECK((flags & ~(unsigned int)DRV_CU_CTX_FLAGS_MASK) == 0, CUDA_ERROR_INVALID_VALUE);
    drv.primary.flags = flags;
    return DRV_CUDA_SUCCESS;
}

int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(flags != NULL && active != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    *flags = drv.primary.flags;
    *active = drv.primary.retained > 0;
    return DRV_CUDA_SUCCESS;
}

/* ---- Others ---- */

static int push(struct drv_context *context)
{
    DRV_CHECK(depth < DRV_CONTEXT_DEPTH, CUDA_ERROR_OUT_OF_MEMORY);
    stack[depth++] = context;
    return DRV_CUDA_SUCCESS;
}

static int create(cu_context *out, unsigned int flags, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL && (flags & ~(unsigned int)DRV_CU_CTX_FLAGS_MASK) == 0, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    struct drv_context *context = drv_new(DRV_CONTEXT, sizeof *context);
    DRV_CHECK(context != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    begin(context);
    context->flags = flags;
    const int result = push(context);
    if (result == DRV_CUDA_SUCCESS)
        *out = context;
    else
        drv_delete(DRV_CONTEXT, context);
    return result;
}

int cuCtxCreate_v2(cu_context *out, unsigned int flags, int device)
{
    return create(out, flags, device);
}

int cuCtxCreate_v3(cu_context *out, void *affinities, int affinity_count, unsigned int flags, int device)
{
    if (affinities != NULL || affinity_count != 0)
        return DRV_CUDA_ERROR_NOT_SUPPORTED;
    return create(out, flags, device);
}

int cuCtxCreate_v4(cu_context *out, void *params, unsigned int flags, int device)
{
    const struct cu_context_params *asked = params;
    if (asked != NULL && (asked->affinities != NULL || asked->affinity_count != 0 || asked->cig != NULL))
        return DRV_CUDA_ERROR_NOT_SUPPORTED;
    return create(out, flags, device);
}

int cuCtxDestroy_v2(cu_context context)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(context != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_alive(context) && !context->primary, CUDA_ERROR_INVALID_CONTEXT);
    DRV_TRY(drv_forbid_in_capture(true));
    drv_context_clear(context);
    if (drv_current() == context)
        depth--;
    drv_delete(DRV_CONTEXT, context);
    return DRV_CUDA_SUCCESS;
}

/* ---- The thread's stack ---- */

int cuCtxPushCurrent_v2(cu_context context)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(context != NULL && is_alive(context), CUDA_ERROR_INVALID_CONTEXT);
    return push(context);
}

int cuCtxPopCurrent_v2(cu_context *out)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(depth > 0, CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (out != NULL)
        *out = stack[depth];
    return DRV_CUDA_SUCCESS;
}

int cuCtxSetCurrent(cu_context context)
{
    DRV_ENTER(DRV_NEED_INIT);
    if (context == NULL) {
        depth -= depth > 0;
        return DRV_CUDA_SUCCESS;
    }
    DRV_CHECK(is_alive(context), CUDA_ERROR_INVALID_CONTEXT);
    depth -= depth > 0;
    return push(context);
}

int cuCtxGetCurrent(cu_context *out)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    *out = drv_current();
    return DRV_CUDA_SUCCESS;
}

/* ---- Questions ---- */

int cuCtxGetDevice(int *device)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(device != NULL, CUDA_ERROR_INVALID_VALUE);
    *device = 0;
    return DRV_CUDA_SUCCESS;
}

int cuCtxGetDevice_v2(int *device, cu_context context)
{
    if (context == NULL)
        return cuCtxGetDevice(device);
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(device != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_alive(context), CUDA_ERROR_INVALID_CONTEXT);
    *device = 0;
    return DRV_CUDA_SUCCESS;
}

int cuCtxGetFlags(unsigned int *flags)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(flags != NULL, CUDA_ERROR_INVALID_VALUE);
    *flags = call.context->flags;
    return DRV_CUDA_SUCCESS;
}

int cuCtxSetFlags(unsigned int flags)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK((flags & ~(unsigned int)DRV_CU_CTX_FLAGS_MASK) == 0, CUDA_ERROR_INVALID_VALUE);
    call.context->flags = flags;
    return DRV_CUDA_SUCCESS;
}

/* context NULL: the current one. */
static int context_of(const struct drv_call *call, cu_context context, struct drv_context **out)
{
    *out = context == NULL ? call->context : context;
    DRV_CHECK(*out != NULL && is_alive(*out), CUDA_ERROR_INVALID_CONTEXT);
    return DRV_CUDA_SUCCESS;
}

int cuCtxGetId(cu_context context, uint64_t *id)
{
    struct drv_context *which = NULL;
    DRV_ENTER(context == NULL ? DRV_NEED_CURRENT : DRV_NEED_INIT);
    DRV_CHECK(id != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(context_of(&call, context, &which));
    *id = which->id;
    return DRV_CUDA_SUCCESS;
}

int cuCtxGetApiVersion(cu_context context, unsigned int *version)
{
    struct drv_context *which = NULL;
    DRV_ENTER(context == NULL ? DRV_NEED_CURRENT : DRV_NEED_INIT);
    DRV_CHECK(version != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(context_of(&call, context, &which));
    *version = which->api_version;
    return DRV_CUDA_SUCCESS;
}

int cuCtxSynchronize(void)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    return drv_forbid_in_capture(true);
}

int cuCtxSynchronize_v2(cu_context context)
{
    struct drv_context *which = NULL;
    DRV_ENTER(context == NULL ? DRV_NEED_CURRENT : DRV_NEED_INIT);
    DRV_TRY(context_of(&call, context, &which));
    DRV_TRY(which->error);
    return drv_forbid_in_capture(true);
}

static bool is_limit(int limit)
{
    return limit == DRV_CU_LIMIT_STACK_SIZE || limit == DRV_CU_LIMIT_PRINTF_FIFO_SIZE ||
           limit == DRV_CU_LIMIT_MALLOC_HEAP_SIZE || limit == DRV_CU_LIMIT_MAX_L2_FETCH_GRANULARITY ||
           limit == DRV_CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

int cuCtxSetLimit(int limit, size_t value)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(is_limit(limit), CUDA_ERROR_UNSUPPORTED_LIMIT);
    call.context->limits[limit] = value;
    return DRV_CUDA_SUCCESS;
}

int cuCtxGetLimit(size_t *value, int limit)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(value != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_limit(limit), CUDA_ERROR_UNSUPPORTED_LIMIT);
    *value = call.context->limits[limit];
    return DRV_CUDA_SUCCESS;
}

int cuCtxGetCacheConfig(int *config)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(config != NULL, CUDA_ERROR_INVALID_VALUE);
    *config = call.context->cache_config;
    return DRV_CUDA_SUCCESS;
}

int cuCtxSetCacheConfig(int config)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(config >= 0 && config <= 3, CUDA_ERROR_INVALID_VALUE);
    call.context->cache_config = config;
    return DRV_CUDA_SUCCESS;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return DRV_CUDA_SUCCESS;
}

int cuCtxResetPersistingL2Cache(void)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    return DRV_CUDA_SUCCESS;
}
