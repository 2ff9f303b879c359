/* Stream capture: who takes part, what forbids it, what becomes of it. */
#include <stdlib.h>
#include <string.h>

#include "drv_state.h"

static _Thread_local int thread_mode = DRV_CU_STREAM_CAPTURE_MODE_GLOBAL;

bool drv_capturing(const struct drv_stream *stream)
{
    return stream->capture != NULL;
}

void drv_capture_invalidate(struct drv_capture *capture)
{
    capture->invalidated = true;
}

/* Whether this capture keeps this thread from a call that could break captures (CUDA driver API,
 * cuThreadExchangeStreamCaptureMode). */
static bool forbids(const struct drv_capture *capture)
{
    const bool own = pthread_equal(capture->thread, pthread_self()) != 0;
    if (capture->mode == DRV_CU_STREAM_CAPTURE_MODE_RELAXED || thread_mode == DRV_CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (own)
        return true;
    return capture->mode == DRV_CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == DRV_CU_STREAM_CAPTURE_MODE_GLOBAL;
}

int drv_forbid_in_capture(bool whatever)
{
    int result = DRV_CUDA_SUCCESS;
    for (struct drv_capture *capture = drv.captures; capture != NULL; capture = capture->next) {
        if (!whatever && !forbids(capture))
            continue;
        drv_capture_invalidate(capture);
        result = DRV_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

/* The first from `other` on that the legacy stream would have to wait for, and that is being captured. */
static struct drv_stream *first_blocked(const struct drv_stream *stream, struct drv_stream *other)
{
    if (stream != stream->context->legacy)
        return NULL;
    while (other != NULL && (other->capture == NULL || (other->flags & DRV_CU_STREAM_NON_BLOCKING) != 0))
        other = other->next;
    return other;
}

/* A blocking stream waits for the legacy stream and the other way round: inside a capture that cannot be. */
int drv_check_implicit(struct drv_stream *stream)
{
    int result = DRV_CUDA_SUCCESS;
    struct drv_stream *other = stream->context->streams;
    while ((other = first_blocked(stream, other)) != NULL) {
        drv_capture_invalidate(other->capture);
        result = DRV_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        other = other->next;
    }
    return result;
}

/* ---- The tail: what comes next depends on it ---- */

static int set_tail(struct drv_node ***tail, size_t *count, struct drv_node *const *nodes, size_t node_count)
{
    struct drv_node **copy = calloc(node_count + 1, sizeof *copy);
    if (copy == NULL)
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    if (node_count > 0)
        memcpy(copy, nodes, node_count * sizeof *copy);
    free(*tail);
    *tail = copy;
    *count = node_count;
    return DRV_CUDA_SUCCESS;
}

static bool in_tail(const struct drv_stream *stream, const struct drv_node *node)
{
    for (size_t i = 0; i < stream->tail_count; i++)
        if (stream->tail[i] == node)
            return true;
    return false;
}

static int add_to_tail(struct drv_stream *stream, struct drv_node *const *nodes, size_t count)
{
    struct drv_node **grown = realloc(stream->tail, (stream->tail_count + count + 1) * sizeof *grown);
    if (grown == NULL)
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    stream->tail = grown;
    for (size_t i = 0; i < count; i++)
        if (!in_tail(stream, nodes[i]))
            stream->tail[stream->tail_count++] = nodes[i];
    return DRV_CUDA_SUCCESS;
}

/* ---- What happens in a capturing stream ---- */

static int check_valid(const struct drv_stream *stream)
{
    DRV_CHECK(!stream->capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return DRV_CUDA_SUCCESS;
}

int drv_capture_op(struct drv_stream *stream, const struct drv_op *op)
{
    struct drv_node *node = NULL;
    DRV_TRY(check_valid(stream));
    const int result = drv_graph_add(stream->capture->graph, stream->tail, stream->tail_count, op, &node);
    if (result != DRV_CUDA_SUCCESS) {
        drv_capture_invalidate(stream->capture);
        return result;
    }
    return set_tail(&stream->tail, &stream->tail_count, &node, 1);
}

int drv_capture_record(struct drv_stream *stream, struct drv_event *event)
{
    DRV_TRY(check_valid(stream));
    DRV_TRY(set_tail(&event->tail, &event->tail_count, stream->tail, stream->tail_count));
    event->capture = stream->capture;
    event->capture_id = stream->capture->id;
    return DRV_CUDA_SUCCESS;
}

static struct drv_capture *capture_of(const struct drv_event *event)
{
    struct drv_capture *capture = drv.captures;
    while (capture != NULL && (capture != event->capture || capture->id != event->capture_id))
        capture = capture->next;
    return capture;
}

/* A stream joins the capture of the event it waits for; a capturing one cannot wait for what is outside. */
int drv_capture_wait(struct drv_stream *stream, struct drv_event *event)
{
    struct drv_capture *capture = event->capture == NULL ? NULL : capture_of(event);
    if (drv_capturing(stream))
        DRV_TRY(check_valid(stream));
    if (capture == NULL && drv_capturing(stream)) {
        drv_capture_invalidate(stream->capture);
        return DRV_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    DRV_CHECK(capture != NULL, CUDA_ERROR_CAPTURED_EVENT); /* its capture is over */
    if (stream == stream->context->legacy) {
        drv_capture_invalidate(capture);
        return DRV_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (drv_capturing(stream) && stream->capture != capture) {
        drv_capture_invalidate(stream->capture);
        drv_capture_invalidate(capture);
        return DRV_CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    DRV_CHECK(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    stream->capture = capture;
    return add_to_tail(stream, event->tail, event->tail_count);
}

/* ---- Begin ---- */

static int begin(struct drv_stream *stream, int mode, struct drv_graph *graph, struct drv_node *const *needs,
                 size_t need_count)
{
    DRV_CHECK(mode >= DRV_CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= DRV_CU_STREAM_CAPTURE_MODE_RELAXED,
              CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(stream != stream->context->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    DRV_CHECK(!drv_capturing(stream), CUDA_ERROR_ILLEGAL_STATE);
    struct drv_capture *capture = calloc(1, sizeof *capture);
    DRV_CHECK(capture != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    capture->graph = graph != NULL ? graph : drv_graph_new();
    if (capture->graph == NULL || set_tail(&stream->tail, &stream->tail_count, needs, need_count) != DRV_CUDA_SUCCESS) {
        if (capture->graph != graph)
            drv_graph_free(capture->graph);
        free(capture);
        return DRV_CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture->id = drv.next_id++;
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->origin = stream;
    capture->to_graph = graph != NULL;
    capture->graph->owned = true;
    capture->next = drv.captures;
    drv.captures = capture;
    stream->capture = capture;
    return DRV_CUDA_SUCCESS;
}

int cuStreamBeginCapture_v2(cu_stream stream, int mode)
{
    DRV_ENTER_STREAM(stream);
    return begin(stream, mode, NULL, NULL, 0);
}

static bool are_nodes(const struct drv_graph *graph, cu_graph_node const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (drv_find(DRV_NODE, drv_handle(nodes[i])) == NULL || nodes[i]->graph != graph)
            return false;
    return true;
}

int cuStreamBeginCaptureToGraph(cu_stream stream, cu_graph graph, cu_graph_node const *needs,
                                const struct cu_edge_data *edges, size_t need_count, int mode)
{
    (void)edges; /* ports: all of ours are whole nodes */
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(drv_find(DRV_GRAPH, drv_handle(graph)) != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK((need_count == 0 || needs != NULL) && are_nodes(graph, needs, need_count), CUDA_ERROR_INVALID_VALUE);
    return begin(stream, mode, graph, needs, need_count);
}

/* ---- End ---- */

/* What hangs on the end of a graph is what no other node needs. */
static bool is_needed(const struct drv_graph *graph, const struct drv_node *node)
{
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i]->need_count; j++)
            if (graph->nodes[i]->needs[j] == node)
                return true;
    return false;
}

/* Every other stream's last work must have come back to the origin. */
static bool all_joined(const struct drv_capture *capture)
{
    for (struct drv_stream *stream = capture->origin->context->streams; stream != NULL; stream = stream->next) {
        if (stream->capture != capture || stream == capture->origin)
            continue;
        for (size_t i = 0; i < stream->tail_count; i++)
            if (!in_tail(capture->origin, stream->tail[i]) && !is_needed(capture->graph, stream->tail[i]))
                return false;
    }
    return true;
}

static void leave(struct drv_stream *stream)
{
    stream->capture = NULL;
    free(stream->tail);
    stream->tail = NULL;
    stream->tail_count = 0;
}

/* Takes a capture out of the world; its graph stays. */
static void finish(struct drv_capture *capture)
{
    for (struct drv_stream *stream = capture->origin->context->streams; stream != NULL; stream = stream->next)
        if (stream->capture == capture)
            leave(stream);
    struct drv_capture **link = &drv.captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->graph->owned = false;
    free(capture);
}

void drv_capture_forget_stream(struct drv_stream *stream)
{
    struct drv_capture *capture = stream->capture;
    if (capture == NULL)
        return;
    drv_capture_invalidate(capture);
    if (capture->origin != stream) {
        leave(stream);
        return;
    }
    struct drv_graph *graph = capture->to_graph ? NULL : capture->graph;
    finish(capture);
    if (graph != NULL)
        drv_graph_free(graph);
}

static int end_result(const struct drv_capture *capture)
{
    DRV_CHECK(!capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    DRV_CHECK(all_joined(capture), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    return DRV_CUDA_SUCCESS;
}

int cuStreamEndCapture(cu_stream stream, cu_graph *out)
{
    DRV_ENTER_STREAM(stream);
    struct drv_capture *capture = stream->capture;
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(capture != NULL, CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != stream) {
        drv_capture_invalidate(capture);
        return DRV_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    DRV_CHECK(capture->mode == DRV_CU_STREAM_CAPTURE_MODE_RELAXED || pthread_equal(capture->thread, pthread_self()),
              CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const int result = end_result(capture);
    struct drv_graph *graph = capture->graph;
    const bool to_graph = capture->to_graph;
    finish(capture);
    *out = result == DRV_CUDA_SUCCESS ? graph : NULL;
    if (result != DRV_CUDA_SUCCESS && !to_graph)
        drv_graph_free(graph);
    return result;
}

/* ---- Questions ---- */

static int status_of(const struct drv_stream *stream)
{
    if (!drv_capturing(stream))
        return DRV_CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalidated ? DRV_CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                        : DRV_CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* "The blocking stream capture is not invalidated" by the question (CUDA driver API, cuStreamIsCapturing). */
static int check_question(const struct drv_stream *stream)
{
    return first_blocked(stream, stream->context->streams) == NULL ? DRV_CUDA_SUCCESS
                                                                   : DRV_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

int cuStreamIsCapturing(cu_stream stream, int *status)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(status != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(check_question(stream));
    *status = status_of(stream);
    return DRV_CUDA_SUCCESS;
}

int cuStreamGetCaptureInfo_v3(cu_stream stream, int *status, uint64_t *id, cu_graph *graph, cu_graph_node const **needs,
                              const struct cu_edge_data **edges, size_t *need_count)
{
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(status != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(check_question(stream));
    *status = status_of(stream);
    if (*status != DRV_CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return DRV_CUDA_SUCCESS;
    if (id != NULL)
        *id = stream->capture->id;
    if (graph != NULL)
        *graph = stream->capture->graph;
    if (needs != NULL)
        *needs = stream->tail;
    if (edges != NULL)
        *edges = NULL;
    if (need_count != NULL)
        *need_count = stream->tail_count;
    return DRV_CUDA_SUCCESS;
}

int cuStreamGetCaptureInfo_v2(cu_stream stream, int *status, uint64_t *id, cu_graph *graph, cu_graph_node const **needs,
                              size_t *need_count)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, needs, NULL, need_count);
}

int cuStreamGetCaptureInfo(cu_stream stream, int *status, uint64_t *id)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

int cuStreamUpdateCaptureDependencies_v2(cu_stream stream, cu_graph_node *needs, const struct cu_edge_data *edges,
                                         size_t need_count, unsigned int flags)
{
    (void)edges;
    DRV_ENTER_STREAM(stream);
    DRV_CHECK(drv_capturing(stream), CUDA_ERROR_ILLEGAL_STATE);
    DRV_CHECK((need_count == 0 || needs != NULL) && flags <= 1 && are_nodes(stream->capture->graph, needs, need_count),
              CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(check_valid(stream));
    if (flags == 1) /* CU_STREAM_SET_CAPTURE_DEPENDENCIES */
        return set_tail(&stream->tail, &stream->tail_count, needs, need_count);
    return add_to_tail(stream, needs, need_count);
}

int cuStreamUpdateCaptureDependencies(cu_stream stream, cu_graph_node *needs, size_t need_count, unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(stream, needs, NULL, need_count, flags);
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(mode != NULL && *mode >= DRV_CU_STREAM_CAPTURE_MODE_GLOBAL && *mode <= DRV_CU_STREAM_CAPTURE_MODE_RELAXED,
              CUDA_ERROR_INVALID_VALUE);
    const int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return DRV_CUDA_SUCCESS;
}
