#include "obtain.h"

#include <time.h>

#include "compile.h"
#include "describe.h"
#include "error.h"
#include "node_lock.h"
#include "why.h"

/* Longer than any kernel takes to compile; a holder that was stopped delays others by no more. */
static const uint64_t longest_wait_ns = 60u * 1000000000ull;
enum { FIRST_PAUSE_MS = 1, LONGEST_PAUSE_MS = 64 };

struct request {
    smla_context *context;
    const struct gen_bundle *bundle;
    int32_t max_nvrtc_major;
};

static smla_status refuse_compile(const struct request *request, enum rt_kind kind)
{
    const struct rt_settings *settings = &request->context->settings;
    char what[RT_DESCRIPTION_BYTES], command[RT_COMMAND_BYTES];

    rt_count(&request->context->counters.refused_compiles, 1);
    rt_describe(&request->bundle->spec, what);
    rt_describe_command(&request->bundle->spec, kind == RT_KIND_PTX ? "ptx" : "cubin",
                        rt_cache_dir(request->context->cache), command);
    const smla_status status =
        rt_fail(SMLA_ERROR_NOT_CACHED, "%s is in no bundle and no cache, and compiling is %s; this builds it: %s", what,
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

/* Looks into the cache folder. A compiler that is not open yet stays closed when the folder has the entry. */
static bool find_on_disk(const struct request *request, const struct rt_key *key, bool again, struct rt_entry *out)
{
    const struct rt_nvrtc *nvrtc = rt_context_open_nvrtc(request->context);
    const struct rt_builder *builder = nvrtc ? &nvrtc->builder : NULL;
    const char *arch = request->bundle->spec.target->arch;
    struct rt_cache *cache = request->context->cache;
    const bool found = again ? rt_cache_find_again(cache, key, arch, builder, request->max_nvrtc_major, out)
                             : rt_cache_find(cache, key, arch, builder, request->max_nvrtc_major, out);

    if (found)
        rt_count(&request->context->counters.disk_hits, 1);
    return found;
}

/* Looks into bundles and the system folder, which nobody writes to meanwhile. */
static bool find_read_only(const struct request *request, const struct rt_key *key, struct rt_entry *out)
{
    struct rt_counters *counters = &request->context->counters;
    const struct rt_nvrtc *nvrtc = rt_context_open_nvrtc(request->context);
    const enum rt_tier tier = rt_tiers_find(&request->context->tiers, key, request->bundle->spec.target->arch,
                                            nvrtc ? &nvrtc->builder : NULL, request->max_nvrtc_major, out);

    if (tier != RT_TIER_NONE)
        rt_count(tier == RT_TIER_BUNDLE ? &counters->bundle_hits : &counters->system_hits, 1);
    return tier != RT_TIER_NONE;
}

/* ---- One compilation a key among the processes of this node ------------------------------------------------- */

static void tell_no_lock(const struct request *request, const char *why)
{
    if (!__atomic_exchange_n(&request->context->no_lock_told, true, __ATOMIC_RELAXED))
        rt_log_line(&request->context->settings.log, SMLA_LOG_INFO,
                    "no lock is to be had among the processes of this node, so each compiles for itself: %s", why);
}

static void sleep_ms(long milliseconds)
{
    const struct timespec pause = {.tv_nsec = milliseconds * 1000000};

    nanosleep(&pause, NULL);
}

/* Waits for the lock and for the entry, whichever comes first. True: *out is what another process compiled. */
static bool wait_for_turn(const struct request *request, const struct rt_key *key, struct rt_node_lock *lock,
                          enum rt_node_lock_state *turn, struct rt_entry *out)
{
    const uint64_t start = rt_now_ns();
    char why[RT_WHY_BYTES];
    uint64_t waited = 0;
    bool found = false;

    for (long pause = FIRST_PAUSE_MS;; pause = pause < LONGEST_PAUSE_MS ? 2 * pause : LONGEST_PAUSE_MS) {
        *turn = rt_node_lock_try(lock, why);
        if (*turn == RT_NODE_LOCK_NONE)
            tell_no_lock(request, why);
        else /* held, too: an entry may have come between the miss and the lock */
            found = find_on_disk(request, key, true, out);
        if (found || *turn != RT_NODE_LOCK_BUSY || waited >= longest_wait_ns)
            break;
        sleep_ms(pause);
        waited = rt_now_ns() - start;
    }
    if (waited > 0) {
        rt_count(&request->context->counters.node_waits, 1);
        rt_count(&request->context->counters.node_wait_ns, waited);
    }
    if (waited > 0 && found)
        rt_log_line(&request->context->settings.log, SMLA_LOG_INFO, "another process compiled %s: waited %u ms for it",
                    out->info.description, (unsigned)(waited / 1000000u));
    return found;
}

/* True: *out is what another process compiled. Otherwise the caller compiles, and then closes the lock, which it holds
 * when others should wait for it. */
static bool found_meanwhile(const struct request *request, const struct rt_key *key, struct rt_node_lock *lock,
                            struct rt_entry *out)
{
    const struct rt_settings *settings = &request->context->settings;
    char why[RT_WHY_BYTES];
    enum rt_node_lock_state turn;

    lock->file = -1;
    if (!rt_cache_publishes(request->context->cache)) /* nobody would find what this process compiles */
        return false;
    if (!rt_node_lock_open(settings->runtime_dir, key, lock, why)) {
        tell_no_lock(request, why);
        return false;
    }
    const bool found = wait_for_turn(request, key, lock, &turn, out);
    if (turn == RT_NODE_LOCK_BUSY && !found)
        rt_log_line(&settings->log, SMLA_LOG_WARNING,
                    "another process has been compiling the same kernel for %u s: compiling it here too",
                    (unsigned)(longest_wait_ns / 1000000000u));
    /* One that compiled and could not write the entry down, on a full disk perhaps: by turns each would wait for all
     * before it. */
    if (found || turn != RT_NODE_LOCK_HELD || rt_node_lock_failed_meanwhile(lock))
        rt_node_lock_close(lock);
    return found;
}

static smla_status compile_and_publish(const struct request *request, const struct rt_key *key,
                                       struct rt_node_lock *lock, struct rt_entry *out, bool *lasting)
{
    smla_context *context = request->context;
    const smla_status status = compile(request, key, out, lasting);
    bool published = false;

    if (status == SMLA_OK) {
        log_compiled(request, out);
        published = rt_cache_publish(context->cache, out);
    }
    if (!published && lock->file >= 0)
        rt_node_lock_tell_failure(lock);
    rt_node_lock_close(lock);
    return status;
}

/* ---- In one process ----------------------------------------------------------------------------------------- */

/* What the store calls, once for a key. */
static smla_status make_image(void *user, const struct rt_key *key, struct rt_entry *out, bool *lasting)
{
    const struct request *request = user;
    smla_context *context = request->context;
    const bool may_compile = context->settings.jit_policy == SMLA_JIT_ON;
    struct rt_node_lock lock;

    if (find_read_only(request, key, out) || find_on_disk(request, key, false, out) ||
        (may_compile && found_meanwhile(request, key, &lock, out)))
        return SMLA_OK;
    rt_count(&context->counters.misses, 1);
    return may_compile ? compile_and_publish(request, key, &lock, out, lasting) : refuse_compile(request, key->kind);
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
