/* Operations: run, copy, free. */
#include <stdlib.h>
#include <string.h>

#include "drv_state.h"

/* Parameters and pointers to each of them, in one block. */
static int copy_params(struct drv_kernel_op *to, const struct drv_kernel_op *from)
{
    const struct emu_kernel *code = from->function->code;
    to->params = malloc(code->param_bytes + 1);
    to->param_pointers = calloc(code->param_count + 1, sizeof *to->param_pointers);
    if (to->params == NULL || to->param_pointers == NULL) {
        free(to->params);
        free(to->param_pointers);
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(to->params, from->params, code->param_bytes);
    for (uint32_t i = 0; i < code->param_count; i++)
        to->param_pointers[i] = to->params + code->params[i].offset;
    drv_module_use(to->function->module);
    return DRV_CUDA_SUCCESS;
}

int drv_op_copy(struct drv_op *to, const struct drv_op *from)
{
    struct drv_op copy = *from;
    if (from->type == DRV_CU_GRAPH_NODE_TYPE_KERNEL)
        DRV_TRY(copy_params(&copy.as.kernel, &from->as.kernel));
    else if (from->type == DRV_CU_GRAPH_NODE_TYPE_GRAPH)
        DRV_TRY(drv_exec_copy(from->as.child, &copy.as.child));
    *to = copy;
    return DRV_CUDA_SUCCESS;
}

void drv_op_free(struct drv_op *op)
{
    if (op->type == DRV_CU_GRAPH_NODE_TYPE_GRAPH)
        drv_exec_free(op->as.child);
    if (op->type != DRV_CU_GRAPH_NODE_TYPE_KERNEL)
        return;
    free(op->as.kernel.params);
    free(op->as.kernel.param_pointers);
    drv_module_unuse(op->as.kernel.function->module);
}

static void record(struct drv_event *event)
{
    if (drv_find(DRV_EVENT, drv_handle(event)) == NULL)
        return;
    event->recorded = true;
    event->capture = NULL;
    event->time_ns = drv.clock_ns;
}

/* The user's function may wait for threads that call the driver, so it runs without the lock. */
static void run_host(const struct cu_host_params *host)
{
    pthread_mutex_unlock(&drv.lock);
    host->function(host->user);
    pthread_mutex_lock(&drv.lock);
}

int drv_op_run(struct drv_context *context, const struct drv_op *op)
{
    drv.clock_ns++;
    switch (op->type) {
    case DRV_CU_GRAPH_NODE_TYPE_KERNEL:
        return drv_kernel_op_run(context, &op->as.kernel);
    case DRV_CU_GRAPH_NODE_TYPE_MEMCPY:
        return drv_copy(&op->as.copy, false);
    case DRV_CU_GRAPH_NODE_TYPE_MEMSET:
        return drv_fill(&op->as.fill, false);
    case DRV_CU_GRAPH_NODE_TYPE_HOST:
        run_host(&op->as.host);
        return DRV_CUDA_SUCCESS;
    case DRV_CU_GRAPH_NODE_TYPE_GRAPH:
        return drv_exec_run(context, op->as.child);
    case DRV_CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        record(op->as.event);
        return DRV_CUDA_SUCCESS;
    default: /* empty; a wait for what has happened */
        return DRV_CUDA_SUCCESS;
    }
}

int drv_submit(struct drv_stream *stream, const struct drv_op *op)
{
    if (stream->capture != NULL)
        return drv_capture_op(stream, op);
    DRV_TRY(drv_check_implicit(stream));
    return drv_op_run(stream->context, op);
}
