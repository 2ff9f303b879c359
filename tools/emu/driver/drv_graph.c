/* Graphs: nodes and what each needs. */
#include <stdlib.h>
#include <string.h>

#include "drv_state.h"

struct drv_graph *drv_graph_new(void)
{
    return drv_new(DRV_GRAPH, sizeof(struct drv_graph));
}

static void free_node(struct drv_node *node)
{
    drv_op_free(&node->op);
    free(node->needs);
    drv_delete(DRV_NODE, node);
}

void drv_graph_free(struct drv_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        free_node(graph->nodes[i]);
    free(graph->nodes);
    drv_delete(DRV_GRAPH, graph);
}

static bool reserve(struct drv_graph *graph)
{
    if (graph->count < graph->capacity)
        return true;
    const size_t capacity = graph->capacity == 0 ? 16 : 2 * graph->capacity;
    struct drv_node **grown = realloc(graph->nodes, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    graph->nodes = grown;
    graph->capacity = capacity;
    return true;
}

static bool fill_node(struct drv_node *node, struct drv_node *const *needs, size_t need_count, const struct drv_op *op)
{
    node->needs = calloc(need_count + 1, sizeof *node->needs);
    if (node->needs == NULL || drv_op_copy(&node->op, op) != DRV_CUDA_SUCCESS)
        return false;
    if (need_count > 0)
        memcpy(node->needs, needs, need_count * sizeof *needs);
    node->need_count = need_count;
    return true;
}

int drv_graph_add(struct drv_graph *graph, struct drv_node *const *needs, size_t need_count, const struct drv_op *op,
                  struct drv_node **out)
{
    struct drv_node *node = reserve(graph) ? drv_new(DRV_NODE, sizeof *node) : NULL;
    if (node == NULL)
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    if (!fill_node(node, needs, need_count, op)) {
        free(node->needs);
        drv_delete(DRV_NODE, node);
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->graph = graph;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    *out = node;
    return DRV_CUDA_SUCCESS;
}

int drv_node_add_need(struct drv_node *node, struct drv_node *need)
{
    for (size_t i = 0; i < node->need_count; i++)
        if (node->needs[i] == need)
            return DRV_CUDA_ERROR_INVALID_VALUE;
    struct drv_node **grown = realloc(node->needs, (node->need_count + 1) * sizeof *grown);
    DRV_CHECK(grown != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    node->needs = grown;
    node->needs[node->need_count++] = need;
    return DRV_CUDA_SUCCESS;
}

/* ---- Handles ---- */

static bool is_graph(cu_graph graph)
{
    return drv_find(DRV_GRAPH, drv_handle(graph)) != NULL;
}

static bool is_node(cu_graph_node node)
{
    return drv_find(DRV_NODE, drv_handle(node)) != NULL;
}

int cuGraphCreate(cu_graph *out, unsigned int flags)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL && flags == 0, CUDA_ERROR_INVALID_VALUE);
    struct drv_graph *graph = drv_graph_new();
    DRV_CHECK(graph != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *out = graph;
    return DRV_CUDA_SUCCESS;
}

int cuGraphDestroy(cu_graph graph)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_graph(graph) && !graph->owned, CUDA_ERROR_INVALID_VALUE);
    drv_graph_free(graph);
    return DRV_CUDA_SUCCESS;
}

static int clone_nodes(const struct drv_graph *from, struct drv_graph *to)
{
    struct drv_node *node = NULL;
    for (size_t i = 0; i < from->count; i++)
        DRV_TRY(drv_graph_add(to, NULL, 0, &from->nodes[i]->op, &node));
    for (size_t i = 0; i < from->count; i++)
        for (size_t j = 0; j < from->nodes[i]->need_count; j++)
            DRV_TRY(drv_node_add_need(to->nodes[i], to->nodes[from->nodes[i]->needs[j]->index]));
    return DRV_CUDA_SUCCESS;
}

int cuGraphClone(cu_graph *out, cu_graph graph)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL && is_graph(graph), CUDA_ERROR_INVALID_VALUE);
    struct drv_graph *clone = drv_graph_new();
    DRV_CHECK(clone != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    const int result = clone_nodes(graph, clone);
    if (result == DRV_CUDA_SUCCESS)
        *out = clone;
    else
        drv_graph_free(clone);
    return result;
}

/* ---- Adding nodes by hand ---- */

static int check_needs(const struct drv_graph *graph, cu_graph_node const *needs, size_t count)
{
    DRV_CHECK(count == 0 || needs != NULL, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        DRV_CHECK(is_node(needs[i]) && needs[i]->graph == graph, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

static int add(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count, const struct drv_op *op)
{
    DRV_CHECK(out != NULL && is_graph(graph), CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(check_needs(graph, needs, count));
    return drv_graph_add(graph, needs, count, op, out);
}

static int kernel_op(struct drv_context *context, const struct cu_kernel_node_params *params, struct drv_op *op)
{
    DRV_CHECK(params != NULL, CUDA_ERROR_INVALID_VALUE);
    struct cu_launch_config config = {.shared_bytes = params->shared_bytes};
    const cu_function handle = params->function != NULL ? params->function : (cu_function)(void *)params->kernel;
    memcpy(config.grid, params->grid, sizeof config.grid);
    memcpy(config.block, params->block, sizeof config.block);
    return drv_kernel_op_make(context, &config, handle, params->params, params->extra, op);
}

static struct cu_kernel_node_params widen(const struct cu_kernel_node_params_v1 *params)
{
    struct cu_kernel_node_params wide = {0};
    memcpy(&wide, params, sizeof *params);
    return wide;
}

int cuGraphAddKernelNode_v2(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                            const struct cu_kernel_node_params *params)
{
    struct drv_op op;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_TRY(kernel_op(call.context, params, &op));
    const int result = add(out, graph, needs, count, &op);
    drv_op_free(&op);
    return result;
}

int cuGraphAddKernelNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                         const struct cu_kernel_node_params_v1 *params)
{
    DRV_CHECK(params != NULL, CUDA_ERROR_INVALID_VALUE);
    const struct cu_kernel_node_params wide = widen(params);
    return cuGraphAddKernelNode_v2(out, graph, needs, count, &wide);
}

int cuGraphKernelNodeGetParams_v2(cu_graph_node node, struct cu_kernel_node_params *params)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_node(node) && params != NULL && node->op.type == DRV_CU_GRAPH_NODE_TYPE_KERNEL,
              CUDA_ERROR_INVALID_VALUE);
    const struct drv_kernel_op *op = &node->op.as.kernel;
    *params = (struct cu_kernel_node_params){.function = op->kernel == NULL ? op->function : NULL,
                                             .shared_bytes = op->shared_bytes,
                                             .params = op->param_pointers,
                                             .kernel = op->kernel,
                                             .context = op->function->context};
    memcpy(params->grid, op->grid, sizeof params->grid);
    memcpy(params->block, op->block, sizeof params->block);
    return DRV_CUDA_SUCCESS;
}

int cuGraphKernelNodeSetParams_v2(cu_graph_node node, const struct cu_kernel_node_params *params)
{
    struct drv_op op;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(is_node(node) && node->op.type == DRV_CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(kernel_op(call.context, params, &op));
    op.as.kernel.dependent = node->op.as.kernel.dependent;
    drv_op_free(&node->op);
    node->op = op;
    return DRV_CUDA_SUCCESS;
}

int cuGraphAddMemcpyNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                         const struct cu_copy3d *copy, cu_context context)
{
    (void)context;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(copy != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_copy(copy, true));
    return add(out, graph, needs, count, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_MEMCPY, .as.copy = *copy});
}

int cuGraphAddMemsetNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                         const struct cu_memset_params *fill, cu_context context)
{
    (void)context;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(fill != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_fill(fill, true));
    return add(out, graph, needs, count, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_MEMSET, .as.fill = *fill});
}

int cuGraphAddHostNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                       const struct cu_host_params *host)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(host != NULL && host->function != NULL, CUDA_ERROR_INVALID_VALUE);
    return add(out, graph, needs, count, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_HOST, .as.host = *host});
}

int cuGraphAddEmptyNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count)
{
    DRV_ENTER(DRV_NEED_INIT);
    return add(out, graph, needs, count, &(struct drv_op){.type = DRV_CU_GRAPH_NODE_TYPE_EMPTY});
}

static int add_event(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count, cu_event event,
                     int type)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(drv_find(DRV_EVENT, drv_handle(event)) != NULL, CUDA_ERROR_INVALID_VALUE);
    return add(out, graph, needs, count, &(struct drv_op){.type = type, .as.event = event});
}

int cuGraphAddEventRecordNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                              cu_event event)
{
    return add_event(out, graph, needs, count, event, DRV_CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

int cuGraphAddEventWaitNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                            cu_event event)
{
    return add_event(out, graph, needs, count, event, DRV_CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

/* The child is taken as it stands now. */
int cuGraphAddChildGraphNode(cu_graph_node *out, cu_graph graph, cu_graph_node const *needs, size_t count,
                             cu_graph child)
{
    struct drv_op op = {.type = DRV_CU_GRAPH_NODE_TYPE_GRAPH};
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_graph(child) && child != graph, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_exec_make(child, 0, &op.as.child));
    const int result = add(out, graph, needs, count, &op);
    drv_op_free(&op);
    return result;
}

int cuGraphAddDependencies(cu_graph graph, cu_graph_node const *from, cu_graph_node const *to, size_t count)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_graph(graph), CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(check_needs(graph, from, count));
    DRV_TRY(check_needs(graph, to, count));
    for (size_t i = 0; i < count; i++) {
        DRV_CHECK(from[i] != to[i], CUDA_ERROR_INVALID_VALUE);
        DRV_TRY(drv_node_add_need(to[i], from[i]));
    }
    return DRV_CUDA_SUCCESS;
}

int cuGraphAddDependencies_v2(cu_graph graph, cu_graph_node const *from, cu_graph_node const *to,
                              const struct cu_edge_data *edges, size_t count)
{
    (void)edges;
    return cuGraphAddDependencies(graph, from, to, count);
}

static void drop_need(struct drv_node *node, const struct drv_node *need)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->need_count; i++)
        if (node->needs[i] != need)
            node->needs[kept++] = node->needs[i];
    node->need_count = kept;
}

int cuGraphDestroyNode(cu_graph_node node)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_node(node) && !node->graph->owned, CUDA_ERROR_INVALID_VALUE);
    struct drv_graph *graph = node->graph;
    for (size_t i = 0; i < graph->count; i++)
        drop_need(graph->nodes[i], node);
    for (size_t i = node->index + 1; i < graph->count; i++) {
        graph->nodes[i - 1] = graph->nodes[i];
        graph->nodes[i - 1]->index = i - 1;
    }
    graph->count--;
    free_node(node);
    return DRV_CUDA_SUCCESS;
}

/* ---- Questions ---- */

int cuGraphNodeGetType(cu_graph_node node, int *type)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_node(node) && type != NULL, CUDA_ERROR_INVALID_VALUE);
    *type = node->op.type;
    return DRV_CUDA_SUCCESS;
}

/* The driver's convention: no array asks for the number; a larger array is padded with NULL. */
struct list {
    cu_graph_node *nodes;
    size_t capacity, count;
};

static void list_add(struct list *list, cu_graph_node node)
{
    if (list->nodes != NULL && list->count < list->capacity)
        list->nodes[list->count] = node;
    list->count++;
}

static void list_end(const struct list *list, size_t *count)
{
    for (size_t i = list->count; list->nodes != NULL && i < list->capacity; i++)
        list->nodes[i] = NULL;
    *count = list->nodes == NULL || list->count < list->capacity ? list->count : list->capacity;
}

static int list_nodes(cu_graph graph, cu_graph_node *nodes, size_t *count, bool roots_only)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_graph(graph) && count != NULL, CUDA_ERROR_INVALID_VALUE);
    struct list list = {nodes, *count, 0};
    for (size_t i = 0; i < graph->count; i++)
        if (!roots_only || graph->nodes[i]->need_count == 0)
            list_add(&list, graph->nodes[i]);
    list_end(&list, count);
    return DRV_CUDA_SUCCESS;
}

int cuGraphGetNodes(cu_graph graph, cu_graph_node *nodes, size_t *count)
{
    return list_nodes(graph, nodes, count, false);
}

int cuGraphGetRootNodes(cu_graph graph, cu_graph_node *nodes, size_t *count)
{
    return list_nodes(graph, nodes, count, true);
}

int cuGraphGetEdges(cu_graph graph, cu_graph_node *from, cu_graph_node *to, size_t *count)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_graph(graph) && count != NULL && (from == NULL) == (to == NULL), CUDA_ERROR_INVALID_VALUE);
    struct list froms = {from, *count, 0}, tos = {to, *count, 0};
    for (size_t i = 0; i < graph->count; i++) {
        for (size_t j = 0; j < graph->nodes[i]->need_count; j++) {
            list_add(&froms, graph->nodes[i]->needs[j]);
            list_add(&tos, graph->nodes[i]);
        }
    }
    list_end(&froms, count);
    list_end(&tos, count);
    return DRV_CUDA_SUCCESS;
}

int cuGraphGetEdges_v2(cu_graph graph, cu_graph_node *from, cu_graph_node *to, struct cu_edge_data *edges,
                       size_t *count)
{
    const size_t capacity = count == NULL ? 0 : *count;
    DRV_TRY(cuGraphGetEdges(graph, from, to, count));
    if (edges != NULL)
        memset(edges, 0, capacity * sizeof *edges);
    return DRV_CUDA_SUCCESS;
}

int cuGraphNodeGetDependencies(cu_graph_node node, cu_graph_node *needs, size_t *count)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_node(node) && count != NULL, CUDA_ERROR_INVALID_VALUE);
    struct list list = {needs, *count, 0};
    for (size_t i = 0; i < node->need_count; i++)
        list_add(&list, node->needs[i]);
    list_end(&list, count);
    return DRV_CUDA_SUCCESS;
}

int cuGraphNodeGetDependencies_v2(cu_graph_node node, cu_graph_node *needs, struct cu_edge_data *edges, size_t *count)
{
    const size_t capacity = count == NULL ? 0 : *count;
    DRV_TRY(cuGraphNodeGetDependencies(node, needs, count));
    if (edges != NULL)
        memset(edges, 0, capacity * sizeof *edges);
    return DRV_CUDA_SUCCESS;
}
