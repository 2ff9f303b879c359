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
    };
    return rt_sized_write(out, &full, sizeof full);
}
