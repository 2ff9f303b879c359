/* Stream capture and graphs. */
#include <pthread.h>
#include <string.h>

#include "driver_harness.h"

static uint64_t word;
static void *params[] = {&word};

/* A capturing stream, and a kernel that adds one to `word`. */
static cu_stream begin(int mode, cu_function *bump)
{
    cu_stream stream = NULL;
    word = new_word(0);
    *bump = load(ptx_small, "bump");
    ok(cuStreamCreate(&stream, DRV_CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture_v2(stream, mode));
    return stream;
}

static int status_of(cu_stream stream)
{
    int status = -1;
    ok(cuStreamIsCapturing(stream, &status));
    return status;
}

static void test_capture_and_replay(void **state)
{
    cu_function bump;
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    uint32_t host = 0;
    uint64_t id = 0;
    int status = 0;
    size_t count = 0;
    (void)state;
    cu_stream stream = begin(DRV_CU_STREAM_CAPTURE_MODE_GLOBAL, &bump);
    assert_int_equal(status_of(stream), DRV_CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(launch_one(bump, 1, stream, params));
    ok(launch_one(bump, 1, stream, params));
    ok(cuMemcpyDtoHAsync_v2(&host, word, 4, stream));
    ok(cuStreamGetCaptureInfo(stream, &status, &id));
    assert_true(id != 0);
    gives(ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuStreamEndCapture(stream, &graph));
    assert_int_equal(status_of(stream), DRV_CU_STREAM_CAPTURE_STATUS_NONE);
    gives(ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
    assert_int_equal(read_word(word), 0); /* nothing has run */
    ok(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 3);
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    ok(cuGraphUpload(exec, stream));
    ok(cuGraphLaunch(exec, stream));
    ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(host, 4);
    ok(cuGraphExecDestroy(exec));
    gives(ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
}

/* A captured launch keeps its attribute, with other parameters too. */
static void test_a_dependent_launch_is_replayed(void **state)
{
    struct cu_launch_attribute early = {.id = DRV_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                        .value.number = 1};
    struct cu_launch_config config = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .attributes = &early, .attribute_count = 1};
    cu_function bump;
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    cu_graph_node node = NULL;
    struct cu_kernel_node_params wanted = {0};
    size_t count = 1;
    (void)state;
    config.stream = begin(DRV_CU_STREAM_CAPTURE_MODE_GLOBAL, &bump);
    ok(cuLaunchKernelEx(&config, bump, params, NULL));
    ok(cuStreamEndCapture(config.stream, &graph));
    ok(cuGraphGetNodes(graph, &node, &count));
    ok(cuGraphKernelNodeGetParams_v2(node, &wanted));
    wanted.params = params; /* the node's own go when they are replaced */
    ok(cuGraphKernelNodeSetParams_v2(node, &wanted));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphExecKernelNodeSetParams_v2(exec, node, &wanted));
    ok(cuGraphLaunch(exec, config.stream));
    gives(ERROR_LAUNCH_FAILED, cuStreamSynchronize(config.stream)); /* bump waits for nothing */
}

static void test_a_graph_outlives_the_library(void **state)
{
    cu_library library = NULL;
    cu_kernel kernel = NULL;
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    cu_stream stream = NULL;
    (void)state;
    word = new_word(0);
    ok(cuLibraryLoadData(&library, ptx_small, NULL, NULL, 0, NULL, NULL, 0));
    ok(cuLibraryGetKernel(&kernel, library, "bump"));
    ok(cuStreamCreate(&stream, 0));
    ok(cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(launch_one((cu_function)(void *)kernel, 1, stream, params));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    ok(cuLibraryUnload(library));
    ok(cuGraphLaunch(exec, stream));
    assert_int_equal(read_word(word), 1);
    ok(cuGraphExecDestroy(exec));
}

/* One call that a capture forbids. */
static void check_forbidden(int mode, int (*call)(cu_stream stream), int error)
{
    cu_function bump;
    cu_graph graph = NULL;
    cu_stream stream = begin(mode, &bump);
    assert_int_equal(call(stream), error);
    assert_int_equal(status_of(stream), DRV_CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    gives(ERROR_STREAM_CAPTURE_INVALIDATED, launch_one(bump, 1, stream, params));
    gives(ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    assert_null(graph);
    assert_int_equal(status_of(stream), DRV_CU_STREAM_CAPTURE_STATUS_NONE);
    ok(cuStreamDestroy_v2(stream));
}

static int call_alloc(cu_stream stream)
{
    uint64_t memory;
    (void)stream;
    return cuMemAlloc_v2(&memory, 4);
}

static int call_synchronize(cu_stream stream)
{
    (void)stream;
    return cuCtxSynchronize();
}

static int call_unload(cu_stream stream)
{
    cu_library library = NULL;
    (void)stream;
    ok(cuLibraryLoadData(&library, ptx_small, NULL, NULL, 0, NULL, NULL, 0)); /* loading is fine */
    return cuLibraryUnload(library);
}

static void *unload_elsewhere(void *result)
{
    *(int *)result = call_unload(NULL);
    return NULL;
}

static int call_unload_elsewhere(cu_stream stream)
{
    pthread_t thread;
    int result = 0;
    (void)stream;
    pthread_create(&thread, NULL, unload_elsewhere, &result);
    pthread_join(thread, NULL);
    return result;
}

static void test_calls_that_end_a_capture(void **state)
{
    const int global = DRV_CU_STREAM_CAPTURE_MODE_GLOBAL, local = DRV_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    const int relaxed = DRV_CU_STREAM_CAPTURE_MODE_RELAXED, unsupported = DRV_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    (void)state;
    check_forbidden(global, call_alloc, unsupported);
    check_forbidden(local, call_alloc, unsupported);
    check_forbidden(global, call_synchronize, unsupported);
    check_forbidden(relaxed, call_synchronize, unsupported);
    check_forbidden(global, call_unload, unsupported);
    check_forbidden(global, call_unload_elsewhere, unsupported);
    check_forbidden(relaxed, cuStreamSynchronize, unsupported);
    check_forbidden(relaxed, cuStreamQuery, unsupported);
}

static void test_calls_that_a_capture_allows(void **state)
{
    cu_function bump, other;
    cu_graph graph = NULL;
    uint64_t memory = 0;
    int mode = DRV_CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)state;
    cu_stream stream = begin(DRV_CU_STREAM_CAPTURE_MODE_RELAXED, &bump);
    ok(cuMemAlloc_v2(&memory, 4));
    other = load(ptx_small, "wide"); /* loading is fine in every mode (facts/jit.md §0.4) */
    ok(cuFuncSetAttribute(other, DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, DRV_CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemAlloc_v2(&memory, 4));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));
    mode = 7;
    gives(ERROR_INVALID_VALUE, cuThreadExchangeStreamCaptureMode(&mode));
}

static void test_the_legacy_stream(void **state)
{
    cu_stream blocking = NULL;
    cu_graph graph = NULL;
    int status = 0;
    (void)state;
    gives(ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, 0));
    ok(cuStreamBeginCapture_v2_ptsz(NULL, 2)); /* the thread's own can */
    ok(cuStreamEndCapture_ptsz(NULL, &graph));
    ok(cuGraphDestroy(graph));
    ok(cuStreamCreate(&blocking, 0));
    word = new_word(0);
    ok(cuStreamBeginCapture_v2(blocking, DRV_CU_STREAM_CAPTURE_MODE_RELAXED));
    gives(ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status)); /* asking does no harm */
    ok(cuStreamIsCapturing(blocking, &status));
    assert_int_equal(status, DRV_CU_STREAM_CAPTURE_STATUS_ACTIVE);
    gives(ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8Async(word, 0, 4, NULL));
    gives(ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(blocking, &graph));
}

static void test_fork_and_join(void **state)
{
    cu_function bump;
    cu_stream side = NULL;
    cu_event forked = NULL, joined = NULL, outside = NULL;
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    size_t edges = 0;
    (void)state;
    ok(cuStreamCreate(&side, 0));
    ok(cuEventCreate(&forked, 0));
    ok(cuEventCreate(&joined, 0));
    ok(cuEventCreate(&outside, 0));
    cu_stream stream = begin(DRV_CU_STREAM_CAPTURE_MODE_GLOBAL, &bump);
    ok(launch_one(bump, 1, stream, params));
    ok(cuEventRecord(forked, stream));
    ok(cuStreamWaitEvent(side, forked, 0));
    assert_int_equal(status_of(side), DRV_CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(launch_one(bump, 1, side, params));
    gives(ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(side, &graph)); /* and all is lost */
    gives(ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    gives(ERROR_CAPTURED_EVENT, cuEventQuery(forked));

    ok(cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(launch_one(bump, 1, stream, params));
    ok(cuEventRecord(forked, stream));
    ok(cuStreamWaitEvent(side, forked, 0));
    ok(launch_one(bump, 1, side, params));
    ok(cuEventRecord(joined, side));
    ok(cuStreamWaitEvent(stream, joined, 0));
    ok(launch_one(bump, 1, stream, params));
    ok(cuStreamEndCapture(stream, &graph));
    assert_int_equal(status_of(side), DRV_CU_STREAM_CAPTURE_STATUS_NONE);
    ok(cuGraphGetEdges(graph, NULL, NULL, &edges));
    assert_int_equal(edges, 3);
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, stream));
    assert_int_equal(read_word(word), 3);

    ok(cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuEventRecord(forked, stream));
    ok(cuStreamWaitEvent(side, forked, 0));
    ok(launch_one(bump, 1, side, params));
    cu_graph unjoined = NULL;
    gives(ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &unjoined));

    ok(cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_GLOBAL));
    gives(ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, outside, 0));
    gives(ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &unjoined));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

static void test_capture_to_a_graph(void **state)
{
    cu_graph graph = NULL, got = NULL;
    cu_graph_node first = NULL;
    cu_graph_node const *tail = NULL;
    cu_stream stream = NULL;
    size_t count = 0;
    int status = 0;
    (void)state;
    word = new_word(0);
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddEmptyNode(&first, graph, NULL, 0));
    ok(cuStreamCreate(&stream, 0));
    ok(cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1, DRV_CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemsetD32Async(word, 5, 1, stream));
    ok(cuStreamGetCaptureInfo_v3(stream, &status, NULL, &got, &tail, NULL, &count));
    assert_ptr_equal(got, graph);
    assert_int_equal(count, 1);
    ok(cuStreamUpdateCaptureDependencies(stream, &first, 1, 1));
    gives(ERROR_INVALID_VALUE, cuGraphDestroy(graph)); /* in use */
    ok(cuStreamEndCapture(stream, &got));
    ok(cuGraphNodeGetDependencies(first, NULL, &count));
    assert_int_equal(count, 0);
    ok(cuGraphDestroy(graph));
    ok(cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuStreamDestroy_v2(stream)); /* takes its capture along */
}

static void add_ten(void *value)
{
    *(int *)value += 10;
}

static struct cu_kernel_node_params kernel_params(cu_function function)
{
    return (struct cu_kernel_node_params){
        .function = function, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
}

static void test_graphs_by_hand(void **state)
{
    cu_graph graph = NULL, clone = NULL;
    cu_graph_node fill = NULL, kernel = NULL, copy = NULL, host = NULL, roots[4], from[8], to[8];
    cu_graph_exec exec = NULL;
    uint32_t result = 0;
    int calls = 0, type = -1;
    size_t count = 4;
    cu_event event = NULL;
    (void)state;
    word = new_word(0);
    struct cu_kernel_node_params bump = kernel_params(load(ptx_small, "bump")), read = {0};
    struct cu_memset_params set = {.dst = word, .value = 6, .element_bytes = 4, .width = 1, .height = 1};
    struct cu_copy3d back = {.src_type = DRV_CU_MEMORYTYPE_DEVICE,
                             .src_device = word,
                             .dst_type = DRV_CU_MEMORYTYPE_HOST,
                             .dst_host = &result,
                             .width = 4,
                             .height = 1,
                             .depth = 1};
    struct cu_host_params call = {add_ten, &calls};
    ok(cuGraphCreate(&graph, 0));
    /* Added backwards: the edges order them. */
    ok(cuGraphAddHostNode(&host, graph, NULL, 0, &call));
    ok(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &back, *state));
    ok(cuGraphAddKernelNode_v2(&kernel, graph, NULL, 0, &bump));
    ok(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &set, *state));
    ok(cuGraphAddDependencies(graph, (cu_graph_node[]){fill, kernel, copy}, (cu_graph_node[]){kernel, copy, host}, 3));
    gives(ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &fill, &kernel, 1)); /* twice */
    ok(cuGraphGetRootNodes(graph, roots, &count));
    assert_true(count == 1 && roots[0] == fill && roots[1] == NULL);
    count = 8;
    ok(cuGraphGetEdges(graph, from, to, &count));
    assert_int_equal(count, 3);
    ok(cuGraphNodeGetType(copy, &type));
    assert_int_equal(type, DRV_CU_GRAPH_NODE_TYPE_MEMCPY);
    ok(cuGraphKernelNodeGetParams_v2(kernel, &read));
    assert_ptr_equal(read.function, bump.function);
    assert_int_equal(*(uint64_t *)read.params[0], word);
    ok(cuGraphKernelNodeSetParams_v2(kernel, &read));
    ok(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
    ok(cuGraphLaunch(exec, NULL));
    assert_true(result == 7 && calls == 10);
    /* Changes of what is instantiated. */
    set.value = 20;
    ok(cuGraphExecMemsetNodeSetParams(exec, fill, &set, *state));
    uint64_t other = new_word(0);
    void *other_params[] = {&other};
    bump.params = other_params;
    ok(cuGraphExecKernelNodeSetParams_v2(exec, kernel, &bump));
    ok(cuGraphExecHostNodeSetParams(exec, host, &call));
    ok(cuGraphExecMemcpyNodeSetParams(exec, copy, &back, *state));
    gives(ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams_v2(exec, fill, &bump));
    ok(cuGraphLaunch(exec, NULL));
    assert_true(result == 20 && read_word(other) == 1);
    /* A whole graph in the place of the old one. */
    struct cu_update_result update;
    ok(cuGraphExecUpdate_v2(exec, graph, &update));
    ok(cuGraphLaunch(exec, NULL));
    assert_int_equal(result, 7);
    ok(cuGraphClone(&clone, graph));
    count = 0;
    ok(cuGraphGetEdges(clone, NULL, NULL, &count));
    assert_int_equal(count, 3);
    ok(cuEventCreate(&event, 0));
    ok(cuGraphAddEventRecordNode(&roots[0], clone, NULL, 0, event));
    ok(cuGraphAddEventWaitNode(&roots[1], clone, roots, 1, event));
    gives(ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, clone, &update));
    assert_int_equal(update.result, DRV_CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    /* Children, circles, foreign nodes. */
    ok(cuGraphAddChildGraphNode(&roots[2], clone, NULL, 0, graph));
    ok(cuGraphExecDestroy(exec));
    struct cu_instantiate_params with = {.flags = 0, .result = 9};
    ok(cuGraphInstantiateWithParams(&exec, clone, &with));
    assert_int_equal(with.result, 0);
    ok(cuGraphLaunch(exec, NULL));
    assert_int_equal(calls, 50);
    ok(cuGraphExecDestroy(exec));
    gives(ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&roots[3], clone, &fill, 1));
    ok(cuGraphAddDependencies(graph, &host, &fill, 1));
    gives(ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroyNode(fill));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    gives(ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&exec, graph, 4));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuGraphDestroy(clone));
    gives(ERROR_INVALID_VALUE, cuGraphDestroy(clone));
}

static void test_a_graph_launched_into_a_capture(void **state)
{
    cu_function bump;
    cu_graph inner = NULL, outer = NULL;
    cu_graph_exec inner_exec = NULL, exec = NULL;
    (void)state;
    cu_stream stream = begin(DRV_CU_STREAM_CAPTURE_MODE_RELAXED, &bump);
    ok(launch_one(bump, 1, stream, params));
    ok(cuStreamEndCapture(stream, &inner));
    ok(cuGraphInstantiateWithFlags(&inner_exec, inner, 0));
    ok(cuStreamBeginCapture_v2(stream, DRV_CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuGraphLaunch(inner_exec, stream));
    ok(cuGraphLaunch(inner_exec, stream));
    ok(cuStreamEndCapture(stream, &outer));
    ok(cuGraphInstantiateWithFlags(&exec, outer, 0));
    ok(cuGraphExecDestroy(inner_exec));
    ok(cuGraphLaunch(exec, stream));
    assert_int_equal(read_word(word), 2);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(inner));
    ok(cuGraphDestroy(outer));
}

/* A fault in a replay shows like that of a launch. */
static void test_a_fault_in_a_graph(void **state)
{
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    cu_stream stream = NULL;
    const cu_function stuck = load(ptx_small, "stuck");
    (void)state;
    ok(cuStreamCreate(&stream, 0));
    ok(cuStreamBeginCapture_v2(stream, 0));
    ok(launch_one(stuck, 32, stream, NULL));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, stream));
    gives(ERROR_LAUNCH_TIMEOUT, cuStreamSynchronize(stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_context(test_capture_and_replay),
        in_context(test_a_dependent_launch_is_replayed),
        in_context(test_a_graph_outlives_the_library),
        in_context(test_calls_that_end_a_capture),
        in_context(test_calls_that_a_capture_allows),
        in_context(test_the_legacy_stream),
        in_context(test_fork_and_join),
        in_context(test_capture_to_a_graph),
        in_context(test_graphs_by_hand),
        in_context(test_a_graph_launched_into_a_capture),
        in_context(test_a_fault_in_a_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
