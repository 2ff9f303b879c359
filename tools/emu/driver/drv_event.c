/* Events, in virtual time: a warp instruction is a nanosecond. */
#include <stdlib.h>

#include "drv_state.h"

int cuEventCreate(cu_event *out, unsigned int flags)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && flags <= 7, CUDA_ERROR_INVALID_VALUE);
    struct drv_event *event = drv_new(DRV_EVENT, sizeof *event);
    DRV_CHECK(event != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    event->context = call.context;
    event->flags = flags;
    *out = event;
    return DRV_CUDA_SUCCESS;
}

static void free_event(struct drv_event *event)
{
    free(event->tail);
    drv_delete(DRV_EVENT, event);
}

static bool is_of_context(void *object, const void *context)
{
    return ((const struct drv_event *)object)->context == context;
}

void drv_events_destroy(struct drv_context *context)
{
    struct drv_event *event;
    while ((event = drv_search(DRV_EVENT, is_of_context, context)) != NULL)
        free_event(event);
}

static bool is_event(cu_event event)
{
    return drv_find(DRV_EVENT, drv_handle(event)) != NULL;
}

int cuEventDestroy_v2(cu_event event)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(event != NULL && is_event(event), CUDA_ERROR_INVALID_HANDLE);
    free_event(event);
    return DRV_CUDA_SUCCESS;
}

int cuEventRecordWithFlags(cu_event event, cu_stream stream, unsigned int flags)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(is_event(event), CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(flags <= DRV_CU_EVENT_RECORD_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(event->context == stream->context, CUDA_ERROR_INVALID_HANDLE);
    if (drv_capturing(stream) && flags != DRV_CU_EVENT_RECORD_EXTERNAL)
        return drv_capture_record(stream, event);
    return drv_submit(stream, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_EVENT_RECORD, .as.event = event});
}

int cuEventRecord(cu_event event, cu_stream stream)
{
    return cuEventRecordWithFlags(event, stream, 0);
}

int cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned int flags)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(is_event(event), CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(flags <= DRV_CU_EVENT_WAIT_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    if (flags != DRV_CU_EVENT_WAIT_EXTERNAL && (event->capture != NULL || drv_capturing(stream)))
        return drv_capture_wait(stream, event);
    return drv_submit(stream, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_WAIT_EVENT, .as.event = event});
}

/* An event of a capture means nothing to those outside it. */
static int check(struct drv_event *event)
{
    DRV_CHECK(is_event(event), CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(event->capture == NULL, CUDA_ERROR_CAPTURED_EVENT);
    return event->context->error;
}

int cuEventQuery(cu_event event)
{
    DRV_ENTER(DRV_NEED_INIT);
    return check(event);
}

int cuEventSynchronize(cu_event event)
{
    DRV_ENTER(DRV_NEED_INIT);
    return check(event);
}

int cuEventElapsedTime(float *ms, cu_event start, cu_event end)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(ms != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(check(start));
    DRV_TRY(check(end));
    DRV_CHECK(start->recorded && end->recorded, CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(((start->flags | end->flags) & DRV_CU_EVENT_DISABLE_TIMING) == 0, CUDA_ERROR_INVALID_HANDLE);
    *ms = (float)(((double)end->time_ns - (double)start->time_ns) * 1e-6);
    return DRV_CUDA_SUCCESS;
}

int cuEventElapsedTime_v2(float *ms, cu_event start, cu_event end)
{
    return cuEventElapsedTime(ms, start, end);
}
