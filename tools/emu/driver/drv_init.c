/* cuInit, versions, how a call begins, fork and exit. */
#include <stdlib.h>
#include <string.h>

#include "drv_state.h"

struct drv_state drv = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

/* A child has the parent's memory but not its driver. Nothing may take the lock there: another thread may have held it
 * at the fork. */
static void after_fork(void)
{
    drv.forked = true;
}

static int initialise(void)
{
    DRV_TRY(drv_settings_read(&drv.settings));
    drv.memory = emu_memory_create();
    drv.report = emu_report_create();
    drv.pool = drv_new(DRV_POOL, sizeof *drv.pool);
    if (drv.memory == NULL || drv.report == NULL || drv.pool == NULL ||
        !drv_add(DRV_CONTEXT, drv_handle(&drv.primary), &drv.primary) || pthread_atfork(NULL, NULL, after_fork) != 0)
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    drv.primary.primary = true;
    drv.initialised = true;
    return DRV_CUDA_SUCCESS;
}

int cuInit(unsigned int flags)
{
    if (drv.forked)
        return DRV_CUDA_ERROR_NOT_INITIALIZED;
    DRV_CHECK(flags == 0, CUDA_ERROR_INVALID_VALUE);
    pthread_mutex_lock(&drv.lock);
    const int result = drv.gone ? DRV_CUDA_ERROR_DEINITIALIZED : drv.initialised ? DRV_CUDA_SUCCESS : initialise();
    pthread_mutex_unlock(&drv.lock);
    return result;
}

int cuDriverGetVersion(int *version)
{
    DRV_CHECK(version != NULL, CUDA_ERROR_INVALID_VALUE);
    *version = DRV_VERSION;
    return DRV_CUDA_SUCCESS;
}

/* The last report: a run that never synchronised has one too. */
__attribute__((destructor)) static void at_exit(void)
{
    if (drv.forked)
        return;
    pthread_mutex_lock(&drv.lock);
    if (drv.initialised)
        drv_write_report(true);
    drv.gone = true;
    pthread_mutex_unlock(&drv.lock);
}

static int enter(struct drv_call *call)
{
    if (drv.forked)
        return DRV_CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&drv.lock);
    call->locked = true;
    if (drv.gone)
        return DRV_CUDA_ERROR_DEINITIALIZED;
    return drv.initialised ? DRV_CUDA_SUCCESS : DRV_CUDA_ERROR_NOT_INITIALIZED;
}

int drv_enter(struct drv_call *call, enum drv_need need)
{
    DRV_TRY(enter(call));
    if (need == DRV_NEED_INIT)
        return DRV_CUDA_SUCCESS;
    call->context = drv_current();
    DRV_CHECK(call->context != NULL, CUDA_ERROR_INVALID_CONTEXT);
    if (drv_find(DRV_CONTEXT, drv_handle(call->context)) == NULL)
        return DRV_CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (call->context->primary && call->context->retained == 0)
        return DRV_CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return need == DRV_NEED_HEALTHY ? call->context->error : DRV_CUDA_SUCCESS;
}

int drv_enter_stream(struct drv_call *call, struct drv_stream **stream)
{
    DRV_TRY(enter(call));
    struct drv_context *current = drv_current();
    if (current != NULL && drv_find(DRV_CONTEXT, drv_handle(current)) == NULL)
        return DRV_CUDA_ERROR_CONTEXT_IS_DESTROYED;
    DRV_TRY(drv_stream_of(current, *stream, stream));
    call->context = (*stream)->context;
    return call->context->error;
}

void drv_leave(struct drv_call *call)
{
    if (call->locked)
        pthread_mutex_unlock(&drv.lock);
}
