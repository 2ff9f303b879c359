#include "device.h"

#include <stdio.h>
#include <string.h>

#include "error.h"

static smla_status read_attributes(struct rt_device *device)
{
    const struct {
        int attribute;
        int *value;
        const char *name;
    } wanted[] = {
        {RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &device->cc_major, "COMPUTE_CAPABILITY_MAJOR"},
        {RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &device->cc_minor, "COMPUTE_CAPABILITY_MINOR"},
        {RT_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &device->max_threads, "MAX_THREADS_PER_BLOCK"},
        {RT_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device->max_shared_bytes,
         "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"},
        {RT_CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &device->max_grid_y, "MAX_GRID_DIM_Y"},
        {RT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->sm_count, "MULTIPROCESSOR_COUNT"},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const rt_cu_result result =
            device->driver->cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, device->ordinal);
        if (result != RT_CUDA_SUCCESS)
            return rt_driver_fail(device->driver, result, "cuDeviceGetAttribute(%s) of device %d", wanted[i].name,
                                  device->ordinal);
    }
    return SMLA_OK;
}

/* A green context has a part of the device's multiprocessors, which the device's attribute does not tell (that of an
 * instance of MIG does). A driver that does not say has none. */
static void count_own_multiprocessors(struct rt_device *device)
{
    struct rt_cu_multiprocessors own = {.type = RT_CU_DEV_RESOURCE_TYPE_SM};

    if (device->driver->cuCtxGetDevResource == NULL ||
        device->driver->cuCtxGetDevResource(device->context, &own, RT_CU_DEV_RESOURCE_TYPE_SM) != RT_CUDA_SUCCESS)
        return;
    if (own.smCount > 0 && own.smCount < (unsigned int)device->sm_count)
        device->sm_count = (int)own.smCount;
}

static smla_status read_device(struct rt_device *device)
{
    rt_cu_result result = device->driver->cuCtxGetDevice(&device->ordinal);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(device->driver, result, "cuCtxGetDevice");
    result = device->driver->cuCtxGetId(device->context, &device->context_id);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(device->driver, result, "cuCtxGetId");
    result = device->driver->cuDeviceGetName(device->name, (int)sizeof device->name, device->ordinal);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(device->driver, result, "cuDeviceGetName of device %d", device->ordinal);
    const smla_status status = read_attributes(device);
    if (status == SMLA_OK)
        count_own_multiprocessors(device);
    return status;
}

smla_status rt_device_fail_none_current(void)
{
    return rt_fail(SMLA_ERROR_UNAVAILABLE,
                   "no CUDA context is current in this thread: make one current first (cuCtxSetCurrent, or "
                   "cudaSetDevice and cudaFree(0)), or create the smla context with SMLA_CONTEXT_PRIMARY");
}

static smla_status ask_current(const struct rt_driver *driver, rt_cu_context *out)
{
    const rt_cu_result result = driver->cuCtxGetCurrent(out);

    return result == RT_CUDA_SUCCESS ? SMLA_OK : rt_driver_fail(driver, result, "cuCtxGetCurrent");
}

smla_status rt_device_current(const struct rt_driver *driver, rt_cu_context *out)
{
    const smla_status status = ask_current(driver, out);

    return status == SMLA_OK && *out == NULL ? rt_device_fail_none_current() : status;
}

static smla_status find_context(struct rt_device *device, rt_cu_context primary)
{
    if (primary == NULL)
        return rt_device_current(device->driver, &device->context);
    const smla_status status = ask_current(device->driver, &device->context);
    if (status != SMLA_OK || primary == device->context)
        return status;
    const rt_cu_result result = device->driver->cuCtxPushCurrent(primary);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(device->driver, result, "cuCtxPushCurrent of the primary context");
    device->context = primary;
    device->pushed = true;
    return SMLA_OK;
}

smla_status rt_device_enter(struct rt_device *device, const struct rt_driver *driver, rt_cu_context primary)
{
    memset(device, 0, sizeof *device);
    device->driver = driver;
    smla_status status = find_context(device, primary);
    if (status != SMLA_OK)
        return status;
    status = read_device(device);
    return status == SMLA_OK ? SMLA_OK : rt_device_leave(device, status);
}

smla_status rt_device_leave(struct rt_device *device, smla_status status)
{
    rt_cu_context popped;

    if (!device->pushed)
        return status;
    device->pushed = false;
    const rt_cu_result result = device->driver->cuCtxPopCurrent(&popped);
    if (result == RT_CUDA_SUCCESS || status != SMLA_OK)
        return status;
    return rt_driver_fail(device->driver, result, "cuCtxPopCurrent");
}

smla_status rt_device_target(const struct rt_device *device, const struct gen_target **out)
{
    *out = gen_target_for_device(device->cc_major, device->cc_minor);
    if (*out)
        return SMLA_OK;
    return rt_fail(
        SMLA_ERROR_UNSUPPORTED,
        "device %d (%s) has compute capability %d.%d: smla makes kernels for 9.0 and for 10.0 and later 10.x",
        device->ordinal, device->name, device->cc_major, device->cc_minor);
}

static smla_status check_variant(const struct rt_device *device, const struct gen_variant *variant)
{
    if (variant->threads > device->max_threads)
        return rt_fail(SMLA_ERROR_UNSUPPORTED, "%s needs blocks of %d threads, device %d (%s) allows %d", variant->name,
                       variant->threads, device->ordinal, device->name, device->max_threads);
    if (variant->shared_bytes > device->max_shared_bytes)
        return rt_fail(SMLA_ERROR_UNSUPPORTED, "%s needs %d bytes of shared memory a block, device %d (%s) allows %d",
                       variant->name, variant->shared_bytes, device->ordinal, device->name, device->max_shared_bytes);
    return SMLA_OK;
}

smla_status rt_device_check(const struct rt_device *device, const struct gen_spec *spec, const struct gen_plan *plan)
{
    const struct gen_target *target = spec->target;

    if (!gen_target_loads_on(target, device->cc_major, device->cc_minor))
        return rt_fail(SMLA_ERROR_UNSUPPORTED,
                       "target %s loads on compute capability %d.%d%s, device %d (%s) has %d.%d: leave target NULL for "
                       "the device's own",
                       target->name, target->cc_major, target->cc_minor, target->exact ? " alone" : " and later minors",
                       device->ordinal, device->name, device->cc_major, device->cc_minor);
    if (spec->op == SMLA_OP_PREFILL_REFERENCE && spec->h_q > device->max_grid_y)
        return rt_fail(SMLA_ERROR_UNSUPPORTED, "h_q %d: device %d (%s) allows a grid of %d in y", spec->h_q,
                       device->ordinal, device->name, device->max_grid_y);
    for (int32_t i = 0; i < plan->variant_count; i++) {
        const smla_status status = check_variant(device, &plan->variants[i]);
        if (status != SMLA_OK)
            return status;
    }
    return SMLA_OK;
}
