#include "context.h"

#include <stdlib.h>
#include <unistd.h>

#include "error.h"
#include "sized.h"

static smla_status open_driver(smla_context *context)
{
    smla_status status = SMLA_OK;

    pthread_mutex_lock(&context->driver_lock);
    if (!context->driver_open) {
        status = rt_driver_open(&context->driver, context->settings.driver_path);
        __atomic_store_n(&context->driver_open, status == SMLA_OK, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&context->driver_lock);
    return status;
}

bool rt_context_driver_is_loaded(const smla_context *context)
{
    return __atomic_load_n(&context->driver_open, __ATOMIC_ACQUIRE) ||
           rt_driver_is_loaded(context->settings.driver_path);
}

smla_status rt_context_driver(smla_context *context, const struct rt_driver **out)
{
    smla_status status = SMLA_OK;

    if (!__atomic_load_n(&context->driver_open, __ATOMIC_ACQUIRE))
        status = open_driver(context);
    if (status == SMLA_OK)
        status = rt_driver_check_process(&context->driver);
    if (status == SMLA_OK)
        *out = &context->driver;
    return status;
}

smla_status rt_context_nvrtc(smla_context *context, const struct gen_target *target, int32_t max_major,
                             const struct rt_nvrtc **out)
{
    pthread_mutex_lock(&context->nvrtc_lock);
    if (max_major != 0) /* it is the driver's, which is open */
        context->nvrtcs.driver_version = context->driver.version;
    const smla_status status = rt_nvrtc_find(&context->nvrtcs, target, max_major, out);
    pthread_mutex_unlock(&context->nvrtc_lock);
    return status;
}

const struct rt_nvrtc *rt_context_open_nvrtc(smla_context *context)
{
    pthread_mutex_lock(&context->nvrtc_lock);
    const struct rt_nvrtc *open = context->nvrtcs.first;
    pthread_mutex_unlock(&context->nvrtc_lock);
    return open;
}

static smla_status check_ordinal(const struct rt_driver *driver, int32_t device)
{
    int count = 0;
    const rt_cu_result result = driver->cuDeviceGetCount(&count);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuDeviceGetCount");
    if (device >= count)
        return rt_fail(SMLA_ERROR_UNAVAILABLE, "device %d: this process sees %d CUDA device%s", (int)device, count,
                       count == 1 ? " (0)" : "s");
    return SMLA_OK;
}

static smla_status retain_primary(smla_context *context)
{
    const struct rt_driver *driver;
    const int32_t device = context->settings.device;
    smla_status status = rt_context_driver(context, &driver);

    if (status == SMLA_OK)
        status = check_ordinal(driver, device);
    if (status != SMLA_OK)
        return status;
    rt_cu_result result = driver->cuDeviceGet(&context->primary_device, device);
    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuDeviceGet of device %d", (int)device);
    result = driver->cuDevicePrimaryCtxRetain(&context->primary, context->primary_device);
    if (result != RT_CUDA_SUCCESS) {
        context->primary = NULL;
        return rt_driver_fail(driver, result, "cuDevicePrimaryCtxRetain of device %d", (int)device);
    }
    return SMLA_OK;
}

static smla_status open_cache(smla_context *context)
{
    const struct rt_settings *settings = &context->settings;
    const bool required = settings->cache_dir_given && settings->cache_policy != SMLA_CACHE_OFF;
    const bool writable = settings->cache_policy == SMLA_CACHE_RW;
    smla_status status = rt_tiers_open(&context->tiers, settings);

    if (status != SMLA_OK)
        return status;
    status = settings->cache_dir_named
                 ? rt_cache_open(settings->cache_dir, writable, required, &settings->log, &context->cache)
                 : rt_cache_open_default(settings->cache_dir, writable, &settings->log, &context->cache);
    if (status == SMLA_OK)
        rt_cache_set_cap(context->cache, settings->cache_bytes);
    return status;
}

static smla_status init_lock(pthread_mutex_t *lock)
{
    return pthread_mutex_init(lock, NULL) == 0 ? SMLA_OK : rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a lock");
}

static smla_status init_parts(smla_context *context)
{
    smla_status status = init_lock(&context->driver_lock);

    if (status == SMLA_OK)
        status = init_lock(&context->nvrtc_lock);
    if (status == SMLA_OK)
        status = init_lock(&context->events.lock);
    if (status == SMLA_OK)
        status = rt_store_init(&context->store);
    if (status == SMLA_OK)
        status = rt_modules_init(&context->modules, &context->settings.log);
    if (status == SMLA_OK)
        status = rt_workers_init(&context->compiling);
    if (status == SMLA_OK)
        status = rt_workers_init(&context->preparing);
    if (status == SMLA_OK)
        status = rt_preparations_begin(&context->preparations);
    return status;
}

static smla_status make_context(const smla_context_desc *desc, smla_context **out)
{
    smla_context *context = calloc(1, sizeof *context);

    if (context == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a context of %zu bytes", sizeof *context);
    smla_status status = rt_settings_read(&context->settings, desc);
    if (status != SMLA_OK) {
        free(context);
        return status;
    }
    context->settings.log.events = &context->events;
    context->events.pid = getpid();
    context->nvrtcs.path = context->settings.nvrtc_path;
    context->nvrtcs.places = &rt_nvrtc_default_places;
    status = init_parts(context);
    if (status == SMLA_OK)
        *out = context;
    else
        smla_context_destroy(context); /* what was not made is zeroed, as a lock is that was never used */
    return status;
}

smla_status smla_context_create(const smla_context_desc *desc, smla_context **out)
{
    smla_context_desc full = {.struct_size = sizeof full};
    smla_context *context = NULL;
    smla_status status = SMLA_OK;

    if (out == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_context_create: out is NULL");
    if (desc)
        status = rt_sized_read(&full, sizeof full, desc, "smla_context_desc");
    if (status == SMLA_OK)
        status = make_context(&full, &context);
    if (status != SMLA_OK)
        return status;
    status = open_cache(context);
    if (status == SMLA_OK && (full.flags & SMLA_CONTEXT_PRIMARY))
        status = retain_primary(context);
    if (status == SMLA_OK)
        *out = context;
    else
        smla_context_destroy(context);
    return status;
}

smla_status smla_context_seal(smla_context *context)
{
    if (context == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_context_seal: context is NULL");
    __atomic_store_n(&context->settings.jit_policy, SMLA_JIT_SEALED, __ATOMIC_RELAXED);
    return SMLA_OK;
}

smla_status smla_context_mute(smla_context *context)
{
    if (context == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_context_mute: context is NULL");
    rt_events_mute(&context->events);
    return SMLA_OK;
}

/* A child forked after cuInit may not call the driver; while the process ends, the driver may be gone before us. */
static void release_driver(smla_context *context)
{
    const struct rt_driver *driver = &context->driver;

    if (!context->driver_open || getpid() != driver->pid)
        return;
    if (rt_modules_unload(&context->modules, driver) && context->primary)
        driver->cuDevicePrimaryCtxRelease(context->primary_device);
}

void smla_context_destroy(smla_context *context)
{
    if (context == NULL)
        return;
    rt_preparations_end(context->preparations);
    rt_workers_stop(&context->preparing); /* they may wait for … */
    rt_workers_stop(&context->compiling);
    release_driver(context);
    rt_modules_free(&context->modules);
    rt_store_free(&context->store);
    rt_nvrtc_set_free(&context->nvrtcs);
    rt_cache_close(context->cache);
    rt_tiers_close(&context->tiers);
    pthread_mutex_destroy(&context->events.lock);
    pthread_mutex_destroy(&context->nvrtc_lock);
    pthread_mutex_destroy(&context->driver_lock);
    rt_settings_free(&context->settings);
    free(context);
}
