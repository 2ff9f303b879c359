#include "obtain.h"

#include "compile.h"
#include "describe.h"
#include "error.h"

struct request {
    smla_context *context;
    const struct gen_bundle *bundle;
    int32_t max_nvrtc_major;
};

static smla_status refuse_compile(const struct request *request)
{
    const struct rt_settings *settings = &request->context->settings;
    char what[RT_DESCRIPTION_BYTES], command[RT_COMMAND_BYTES];

    rt_count(&request->context->counters.refused_compiles, 1);
    rt_describe(&request->bundle->spec, what);
    rt_describe_command(&request->bundle->spec, rt_cache_dir(request->context->cache), command);
    const smla_status status =
        rt_fail(SMLA_ERROR_NOT_CACHED, "%s is not in the cache and compiling is %s; this builds it: %s", what,
                settings->jit_policy == SMLA_JIT_SEALED ? "sealed" : "off", command);
    if (rt_cache_dir(request->context->cache))
        rt_fail_path(rt_cache_dir(request->context->cache));
    return status;
}

static smla_status compile(const struct request *request, const struct rt_key *key, struct rt_entry *out, bool *lasting)
{
    struct rt_counters *counters = &request->context->counters;
    const struct rt_nvrtc *nvrtc;
    smla_status status =
        rt_context_nvrtc(request->context, request->bundle->spec.target, request->max_nvrtc_major, &nvrtc);

    if (status != SMLA_OK)
        return status;
    const uint64_t start = rt_now_ns();
    rt_count(&counters->compiles, 1);
    status = rt_compile(nvrtc, request->bundle, key, out, lasting);
    rt_count(&counters->compile_ns, rt_now_ns() - start);
    if (status != SMLA_OK)
        rt_count(&counters->compile_failures, 1);
    return status;
}

static void log_compiled(const struct request *request, const struct rt_entry *entry)
{
    rt_log_line(&request->context->settings.log, SMLA_LOG_INFO,
                "compiled %s with NVRTC %d.%d in %u ms: %d registers, %d bytes spilled", entry->info.description,
                entry->info.builder.nvrtc_major, entry->info.builder.nvrtc_minor, (unsigned)entry->info.compile_ms,
                entry->info.registers, entry->info.spill_bytes);
}

/* What the store calls, once for a key. A compiler that is not open yet stays closed when the folder has the entry. */
static smla_status make_image(void *user, const struct rt_key *key, struct rt_entry *out, bool *lasting)
{
    const struct request *request = user;
    smla_context *context = request->context;
    const struct rt_nvrtc *nvrtc = rt_context_open_nvrtc(context);

    if (rt_cache_find(context->cache, key, nvrtc ? &nvrtc->builder : NULL, request->max_nvrtc_major, out)) {
        rt_count(&context->counters.disk_hits, 1);
        return SMLA_OK;
    }
    rt_count(&context->counters.misses, 1);
    if (context->settings.jit_policy != SMLA_JIT_ON)
        return refuse_compile(request);
    const smla_status status = compile(request, key, out, lasting);
    if (status == SMLA_OK) {
        log_compiled(request, out);
        (void)rt_cache_publish(context->cache, out);
    }
    return status;
}

smla_status rt_obtain(smla_context *context, const struct gen_bundle *bundle, enum rt_kind kind,
                      int32_t max_nvrtc_major, const struct rt_entry **out)
{
    struct request request = {context, bundle, max_nvrtc_major};
    enum rt_store_origin origin;
    struct rt_key key;
    smla_status status = rt_key_make(bundle, kind, &key);

    if (status != SMLA_OK)
        return status;
    status = rt_store_get(&context->store, &key, max_nvrtc_major, make_image, &request, out, &origin);
    if (origin == RT_STORE_WAITED)
        rt_count(&context->counters.shared_waits, 1);
    if (status == SMLA_OK && origin != RT_STORE_MADE)
        rt_count(&context->counters.memory_hits, 1);
    return status;
}
