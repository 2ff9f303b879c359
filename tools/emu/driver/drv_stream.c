/* Streams. Work is done when it is submitted, so a stream is a context, flags and perhaps a capture. */
#include <stdlib.h>

#include "drv_state.h"

_Thread_local bool drv_null_is_per_thread;

static struct drv_stream *new_stream(struct drv_context *context, unsigned int flags, int priority)
{
    struct drv_stream *stream = drv_new(DRV_STREAM, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->id = drv.next_id++;
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

static void free_stream(struct drv_stream *stream)
{
    drv_capture_forget_stream(stream);
    struct drv_stream **link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    drv_delete(DRV_STREAM, stream);
}

void drv_streams_destroy(struct drv_context *context)
{
    while (context->streams != NULL)
        free_stream(context->streams);
    context->legacy = NULL;
}

static struct drv_stream *default_stream(struct drv_context *context)
{
    struct drv_stream *stream = new_stream(context, 0, 0);
    if (stream != NULL)
        stream->is_default = true;
    return stream;
}

static struct drv_stream *per_thread_stream(struct drv_context *context)
{
    for (struct drv_stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (stream->is_default && stream != context->legacy && pthread_equal(stream->thread, pthread_self()))
            return stream;
    if (context->legacy == NULL && (context->legacy = default_stream(context)) == NULL)
        return NULL; /* so that the two cannot be mixed up */
    struct drv_stream *stream = default_stream(context);
    if (stream != NULL)
        stream->thread = pthread_self();
    return stream;
}

int drv_stream_of(struct drv_context *context, struct drv_stream *handle, struct drv_stream **out)
{
    const bool is_default =
        handle == NULL || handle == CU_STREAM_LEGACY_HANDLE || handle == CU_STREAM_PER_THREAD_HANDLE;
    if (!is_default) {
        *out = drv_find(DRV_STREAM, drv_handle(handle));
        return *out != NULL ? DRV_CUDA_SUCCESS : DRV_CUDA_ERROR_INVALID_HANDLE;
    }
    DRV_CHECK(context != NULL, CUDA_ERROR_INVALID_CONTEXT);
    if (handle == CU_STREAM_PER_THREAD_HANDLE || (handle == NULL && drv_null_is_per_thread)) {
        *out = per_thread_stream(context);
    } else {
        if (context->legacy == NULL)
            context->legacy = default_stream(context);
        *out = context->legacy;
    }
    return *out != NULL ? DRV_CUDA_SUCCESS : DRV_CUDA_ERROR_OUT_OF_MEMORY;
}

int cuStreamCreateWithPriority(cu_stream *out, unsigned int flags, int priority)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && flags <= DRV_CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    struct drv_stream *stream = new_stream(call.context, flags, priority);
    DRV_CHECK(stream != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *out = stream;
    return DRV_CUDA_SUCCESS;
}

int cuStreamCreate(cu_stream *out, unsigned int flags)
{
    return cuStreamCreateWithPriority(out, flags, 0);
}

int cuStreamDestroy_v2(cu_stream stream)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(stream != NULL && drv_find(DRV_STREAM, drv_handle(stream)) != NULL, CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(!stream->is_default, CUDA_ERROR_INVALID_HANDLE);
    free_stream(stream);
    return DRV_CUDA_SUCCESS;
}

/* Waiting for a stream that captures is an error, and the capture's end. */
static int wait(struct drv_stream *stream)
{
    if (drv_capturing(stream)) {
        drv_capture_invalidate(stream->capture);
        return DRV_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return drv_check_implicit(stream);
}

int cuStreamQuery(cu_stream stream)
{
    DRV_ENTER_STREAM(stream);
    return wait(stream);
}

int cuStreamSynchronize(cu_stream stream)
{
    DRV_ENTER_STREAM(stream);
    return wait(stream);
}

int cuStreamGetPriority(cu_stream stream, int *priority)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(priority != NULL, CUDA_ERROR_INVALID_VALUE);
    *priority = stream->priority;
    return DRV_CUDA_SUCCESS;
}

int cuStreamGetFlags(cu_stream stream, unsigned int *flags)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(flags != NULL, CUDA_ERROR_INVALID_VALUE);
    *flags = stream->flags;
    return DRV_CUDA_SUCCESS;
}

int cuStreamGetId(cu_stream stream, uint64_t *id)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(id != NULL, CUDA_ERROR_INVALID_VALUE);
    *id = stream->id;
    return DRV_CUDA_SUCCESS;
}

int cuStreamGetCtx(cu_stream stream, cu_context *out)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    *out = stream->context;
    return DRV_CUDA_SUCCESS;
}

int cuStreamGetCtx_v2(cu_stream stream, cu_context *out, void **green)
{
    DRV_TRY(cuStreamGetCtx(stream, out));
    if (green != NULL)
        *green = NULL;
    return DRV_CUDA_SUCCESS;
}

int cuStreamGetDevice(cu_stream stream, int *device)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(device != NULL, CUDA_ERROR_INVALID_VALUE);
    *device = 0;
    return DRV_CUDA_SUCCESS;
}

int cuStreamCopyAttributes(cu_stream to, cu_stream from)
{
    DRV_ENTER_STREAM(from);
    struct drv_stream *target = NULL;
    DRV_TRY(drv_stream_of(call.context, to, &target));
    target->priority = from->priority;
    return DRV_CUDA_SUCCESS;
}

int cuStreamAttachMemAsync(cu_stream stream, uint64_t address, size_t size, unsigned int flags)
{
    (void)size;
    (void)flags;
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(emu_memory_find(drv.memory, address, 1) != NULL, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

int cuLaunchHostFunc(cu_stream stream, cu_host_function function, void *user)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(function != NULL, CUDA_ERROR_INVALID_VALUE);
    return drv_submit(stream, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_HOST, .as.host = {function, user}});
}

/* A callback also hears of the stream's error; it is called now, without the lock, as all before it is done. */
int cuStreamAddCallback(cu_stream stream, cu_stream_callback callback, void *user, unsigned int flags)
{
    const cu_stream handle = stream;
    {
        DRV_ENTER_STREAM(stream);
        DRV_CHECK(callback != NULL && flags == 0, CUDA_ERROR_INVALID_VALUE);
        if (drv_capturing(stream)) {
            drv_capture_invalidate(stream->capture);
            return DRV_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
        DRV_TRY(drv_check_implicit(stream));
    }
    callback(handle, DRV_CUDA_SUCCESS, user);
    return DRV_CUDA_SUCCESS;
}
