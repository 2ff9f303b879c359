#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "error.h"
#include "sized.h"

smla_status smla_stats(const smla_context *context, smla_stats_counters *out)
{
    if (context == NULL || out == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_stats: %s is NULL", context ? "out" : "context");
    const struct rt_counters *own = &context->counters;
    const struct rt_cache_counters *cache = rt_cache_counters(context->cache);
    const struct rt_cache_counters *system = rt_cache_counters(context->tiers.system);
    const struct rt_cache_counters *bundles = &context->tiers.counters;
    const smla_stats_counters full = {
        .struct_size = sizeof full,
        .memory_hits = rt_counted(&own->memory_hits),
        .disk_hits = rt_counted(&own->disk_hits),
        .misses = rt_counted(&own->misses),
        .compiles = rt_counted(&own->compiles),
        .compile_failures = rt_counted(&own->compile_failures),
        .compile_ns = rt_counted(&own->compile_ns),
        .shared_waits = rt_counted(&own->shared_waits),
        .entries_written = rt_counted(&cache->written),
        .entries_damaged = rt_counted(&cache->damaged) + rt_counted(&system->damaged) + rt_counted(&bundles->damaged),
        .cache_errors = rt_counted(&cache->errors) + rt_counted(&system->errors) + rt_counted(&bundles->errors),
        .refused_compiles = rt_counted(&own->refused_compiles),
        .kernels_loaded = rt_counted(&context->modules.loaded),
        .load_ns = rt_counted(&context->modules.load_ns),
        .node_waits = rt_counted(&own->node_waits),
        .node_wait_ns = rt_counted(&own->node_wait_ns),
        .bundle_hits = rt_counted(&own->bundle_hits),
        .system_hits = rt_counted(&own->system_hits),
        .compile_timeouts = rt_counted(&own->compile_timeouts),
        .remembered_failures = rt_counted(&own->remembered_failures),
        .events = rt_counted(&context->events.count),
        .self_tests = rt_counted(&own->self_tests),
        .self_test_failures = rt_counted(&own->self_test_failures),
        .self_test_ns = rt_counted(&own->self_test_ns),
        .entries_refused = rt_counted(&own->entries_refused),
        .driver_ns = rt_counted(&own->driver_ns),
    };
    return rt_sized_write(out, &full, sizeof full);
}

/* The caller's structs may be smaller than ours, or larger: then what we do not know is zero. */
static void write_events(smla_event *to, const smla_event *from, size_t count, size_t size)
{
    const size_t common = size < sizeof *from ? size : sizeof *from;
    const uint32_t struct_size = (uint32_t)size;

    for (size_t i = 0; i < count; i++) {
        uint8_t *event = (uint8_t *)to + i * size;

        memset(event, 0, size);
        memcpy(event, &from[i], common);
        memcpy(event, &struct_size, sizeof struct_size);
    }
}

smla_status smla_events(smla_context *context, uint64_t since, smla_event *events, size_t capacity, size_t *count)
{
    smla_event first;

    if (context == NULL || count == NULL || (events == NULL && capacity > 0))
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_events: %s is NULL",
                       context == NULL ? "context"
                       : count == NULL ? "count"
                                       : "events");
    if (capacity == 0) {
        *count = 0;
        return SMLA_OK;
    }
    const smla_status status = rt_sized_read(&first, sizeof first, events, "smla_event");
    if (status != SMLA_OK)
        return status;
    const size_t most = capacity < RT_EVENTS_KEPT ? capacity : RT_EVENTS_KEPT;
    smla_event *copies = malloc(most * sizeof *copies);
    if (copies == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for %zu events", most);
    *count = rt_events_read(&context->events, since, copies, most);
    write_events(events, copies, *count, events->struct_size);
    free(copies);
    return SMLA_OK;
}
