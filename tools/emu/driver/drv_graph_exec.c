/* Executable graphs: the nodes' operations in an order that keeps every edge. */
#include <stdlib.h>
#include <string.h>

#include "drv_state.h"

void drv_exec_free(struct drv_exec *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        drv_op_free(&exec->ops[i]);
    free(exec->ops);
    free(exec->from);
    free(exec->need_counts);
    free(exec);
}

static struct drv_exec *new_exec(size_t capacity)
{
    struct drv_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        return NULL;
    exec->ops = calloc(capacity + 1, sizeof *exec->ops);
    exec->from = calloc(capacity + 1, sizeof *exec->from);
    exec->need_counts = calloc(capacity + 1, sizeof *exec->need_counts);
    if (exec->ops != NULL && exec->from != NULL && exec->need_counts != NULL)
        return exec;
    drv_exec_free(exec);
    return NULL;
}

static int append(struct drv_exec *exec, const struct drv_op *op, struct drv_node *from, size_t need_count)
{
    DRV_TRY(drv_op_copy(&exec->ops[exec->count], op));
    exec->from[exec->count] = from;
    exec->need_counts[exec->count] = need_count;
    exec->count++;
    return DRV_CUDA_SUCCESS;
}

static bool is_ready(const struct drv_node *node, const bool *done)
{
    for (size_t i = 0; i < node->need_count; i++)
        if (!done[node->needs[i]->index])
            return false;
    return true;
}

/* Takes node after node whose needs are done; INVALID_VALUE when there is a circle. */
static int sort(const struct drv_graph *graph, bool *done, struct drv_exec *exec)
{
    while (exec->count < graph->count) {
        const size_t before = exec->count;
        for (size_t i = 0; i < graph->count; i++) {
            struct drv_node *node = graph->nodes[i];
            if (done[i] || !is_ready(node, done))
                continue;
            DRV_TRY(append(exec, &node->op, node, node->need_count));
            done[i] = true;
        }
        DRV_CHECK(exec->count > before, CUDA_ERROR_INVALID_VALUE);
    }
    return DRV_CUDA_SUCCESS;
}

int drv_exec_make(const struct drv_graph *graph, uint64_t flags, struct drv_exec **out)
{
    struct drv_exec *exec = new_exec(graph->count);
    bool *done = calloc(graph->count + 1, sizeof *done);
    int result = exec == NULL || done == NULL ? DRV_CUDA_ERROR_OUT_OF_MEMORY : sort(graph, done, exec);
    free(done);
    if (result == DRV_CUDA_SUCCESS) {
        exec->flags = flags;
        *out = exec;
    } else if (exec != NULL) {
        drv_exec_free(exec);
    }
    return result;
}

int drv_exec_copy(const struct drv_exec *from, struct drv_exec **out)
{
    struct drv_exec *exec = new_exec(from->count);
    int result = exec == NULL ? DRV_CUDA_ERROR_OUT_OF_MEMORY : DRV_CUDA_SUCCESS;
    for (size_t i = 0; result == DRV_CUDA_SUCCESS && i < from->count; i++)
        result = append(exec, &from->ops[i], from->from[i], from->need_counts[i]);
    if (result == DRV_CUDA_SUCCESS)
        *out = exec;
    else if (exec != NULL)
        drv_exec_free(exec);
    return result;
}

int drv_exec_run(struct drv_context *context, const struct drv_exec *exec)
{
    for (size_t i = 0; i < exec->count; i++) {
        DRV_TRY(drv_op_run(context, &exec->ops[i]));
        if (context->error != DRV_CUDA_SUCCESS)
            return DRV_CUDA_SUCCESS; /* told at the next call, as for a launch */
    }
    return DRV_CUDA_SUCCESS;
}

/* ---- Handles ---- */

static bool is_exec(cu_graph_exec exec)
{
    return drv_find(DRV_EXEC, drv_handle(exec)) != NULL;
}

static int instantiate(cu_graph_exec *out, cu_graph graph, uint64_t flags)
{
    struct drv_exec *exec = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && drv_find(DRV_GRAPH, drv_handle(graph)) != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(flags <= 15, CUDA_ERROR_INVALID_VALUE);
    if ((flags & 4) != 0) /* CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH */
        return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED, "the emulated device does not launch graphs from kernels");
    DRV_TRY(drv_exec_make(graph, flags, &exec));
    if (!drv_add(DRV_EXEC, drv_handle(exec), exec)) {
        drv_exec_free(exec);
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = exec;
    return DRV_CUDA_SUCCESS;
}

int cuGraphInstantiateWithFlags(cu_graph_exec *out, cu_graph graph, uint64_t flags)
{
    return instantiate(out, graph, flags);
}

int cuGraphInstantiate_v2(cu_graph_exec *out, cu_graph graph, cu_graph_node *error_node, char *log, size_t log_bytes)
{
    const int result = instantiate(out, graph, 0);
    if (error_node != NULL)
        *error_node = NULL;
    if (log != NULL && log_bytes > 0)
        log[0] = '\0';
    return result;
}

int cuGraphInstantiate(cu_graph_exec *out, cu_graph graph, cu_graph_node *error_node, char *log, size_t log_bytes)
{
    return cuGraphInstantiate_v2(out, graph, error_node, log, log_bytes);
}

int cuGraphInstantiateWithParams(cu_graph_exec *out, cu_graph graph, struct cu_instantiate_params *params)
{
    DRV_CHECK(params != NULL, CUDA_ERROR_INVALID_VALUE);
    const int result = instantiate(out, graph, params->flags);
    params->error_node = NULL;
    params->result = result != DRV_CUDA_SUCCESS; /* CUDA_GRAPH_INSTANTIATE_ERROR */
    return result;
}

int cuGraphExecDestroy(cu_graph_exec exec)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_exec(exec), CUDA_ERROR_INVALID_VALUE);
    drv_remove(DRV_EXEC, drv_handle(exec));
    drv_exec_free(exec);
    return DRV_CUDA_SUCCESS;
}

int cuGraphExecGetFlags(cu_graph_exec exec, uint64_t *flags)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_exec(exec) && flags != NULL, CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    return DRV_CUDA_SUCCESS;
}

int cuGraphUpload(cu_graph_exec exec, cu_stream stream)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(is_exec(exec), CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

/* Into a capture it goes as a child graph. */
int cuGraphLaunch(cu_graph_exec exec, cu_stream stream)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(is_exec(exec), CUDA_ERROR_INVALID_VALUE);
    return drv_submit(stream, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_GRAPH, .as.child = exec});
}

/* ---- Changing what is instantiated ---- */

static int find_op(cu_graph_exec exec, cu_graph_node node, int type, struct drv_op **out)
{
    DRV_CHECK(is_exec(exec), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < exec->count; i++) {
        if (exec->from[i] != node || exec->ops[i].type != type)
            continue;
        *out = &exec->ops[i];
        return DRV_CUDA_SUCCESS;
    }
    return DRV_CUDA_ERROR_INVALID_VALUE;
}

int cuGraphExecKernelNodeSetParams_v2(cu_graph_exec exec, cu_graph_node node,
                                      const struct cu_kernel_node_params *params)
{
    struct drv_op *op = NULL, fresh;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(params != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(find_op(exec, node, DRV_CU_GRAPH_NODE_TYPE_KERNEL, &op));
    struct cu_launch_config config = {.shared_bytes = params->shared_bytes};
    memcpy(config.grid, params->grid, sizeof config.grid);
    memcpy(config.block, params->block, sizeof config.block);
    const cu_function handle = params->function != NULL ? params->function : (cu_function)(void *)params->kernel;
    DRV_TRY(drv_kernel_op_make(call.context, &config, handle, params->params, params->extra, &fresh));
    memcpy(fresh.as.kernel.cluster, op->as.kernel.cluster, sizeof fresh.as.kernel.cluster);
    fresh.as.kernel.dependent = op->as.kernel.dependent;
    drv_op_free(op);
    *op = fresh;
    return DRV_CUDA_SUCCESS;
}

int cuGraphExecKernelNodeSetParams(cu_graph_exec exec, cu_graph_node node,
                                   const struct cu_kernel_node_params_v1 *params)
{
    struct cu_kernel_node_params wide = {0};
    DRV_CHECK(params != NULL, CUDA_ERROR_INVALID_VALUE);
    memcpy(&wide, params, sizeof *params);
    return cuGraphExecKernelNodeSetParams_v2(exec, node, &wide);
}

int cuGraphExecMemcpyNodeSetParams(cu_graph_exec exec, cu_graph_node node, const struct cu_copy3d *copy,
                                   cu_context context)
{
    struct drv_op *op = NULL;
    (void)context;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(copy != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(find_op(exec, node, DRV_CU_GRAPH_NODE_TYPE_MEMCPY, &op));
    DRV_TRY(drv_copy(copy, true));
    op->as.copy = *copy;
    return DRV_CUDA_SUCCESS;
}

int cuGraphExecMemsetNodeSetParams(cu_graph_exec exec, cu_graph_node node, const struct cu_memset_params *fill,
                                   cu_context context)
{
    struct drv_op *op = NULL;
    (void)context;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(fill != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(find_op(exec, node, DRV_CU_GRAPH_NODE_TYPE_MEMSET, &op));
    DRV_TRY(drv_fill(fill, true));
    op->as.fill = *fill;
    return DRV_CUDA_SUCCESS;
}

int cuGraphExecHostNodeSetParams(cu_graph_exec exec, cu_graph_node node, const struct cu_host_params *host)
{
    struct drv_op *op = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(host != NULL && host->function != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(find_op(exec, node, DRV_CU_GRAPH_NODE_TYPE_HOST, &op));
    op->as.host = *host;
    return DRV_CUDA_SUCCESS;
}

/* CUgraphExecUpdateResult of putting `fresh` in the place of `exec`. */
static int compare(const struct drv_exec *exec, const struct drv_exec *fresh, struct drv_node **error_node)
{
    *error_node = NULL;
    if (exec->count != fresh->count)
        return DRV_CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < exec->count; i++) {
        *error_node = fresh->from[i];
        if (exec->need_counts[i] != fresh->need_counts[i])
            return DRV_CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (exec->ops[i].type != fresh->ops[i].type)
            return DRV_CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    }
    *error_node = NULL;
    return DRV_CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* The handles of the nodes stay those that the graph was instantiated from. */
static void replace_ops(struct drv_exec *exec, struct drv_exec *fresh)
{
    struct drv_op *ops = exec->ops;
    exec->ops = fresh->ops;
    fresh->ops = ops;
}

int cuGraphExecUpdate_v2(cu_graph_exec exec, cu_graph graph, struct cu_update_result *out)
{
    struct drv_exec *fresh = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(is_exec(exec) && drv_find(DRV_GRAPH, drv_handle(graph)) != NULL && out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_exec_make(graph, exec->flags, &fresh));
    *out = (struct cu_update_result){0};
    out->result = compare(exec, fresh, &out->error_node);
    if (out->result == DRV_CU_GRAPH_EXEC_UPDATE_SUCCESS)
        replace_ops(exec, fresh);
    drv_exec_free(fresh);
    return out->result == DRV_CU_GRAPH_EXEC_UPDATE_SUCCESS ? DRV_CUDA_SUCCESS
                                                           : DRV_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

int cuGraphExecUpdate(cu_graph_exec exec, cu_graph graph, cu_graph_node *error_node, int *update)
{
    struct cu_update_result result = {0};
    const int status = cuGraphExecUpdate_v2(exec, graph, &result);
    if (error_node != NULL)
        *error_node = result.error_node;
    if (update != NULL)
        *update = result.result;
    return status;
}
