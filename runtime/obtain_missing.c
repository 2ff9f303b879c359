#include <string.h>
#include <time.h>

#include "compile.h"
#include "error.h"
#include "failures.h"
#include "node_lock.h"
#include "obtain_internal.h"
#include "why.h"

/* Longer than any kernel takes to compile; a holder that was stopped delays others by no more. */
static const uint64_t longest_wait_ns = 60u * 1000000000ull;
enum { FIRST_PAUSE_MS = 1, LONGEST_PAUSE_MS = 64 };

/* ---- Compiling ---------------------------------------------------------------------------------------------- */

static void tell_compiled(const struct rt_request *request, const struct rt_key *key, smla_status status,
                          uint64_t duration_ns, const struct rt_entry *entry)
{
    struct rt_event event = {.kind = SMLA_EVENT_COMPILE_END,
                             .level = SMLA_LOG_INFO,
                             .status = status,
                             .duration_ns = duration_ns,
                             .key = key};

    if (status != SMLA_OK) {
        rt_request_tell(request, key, event, "not compiled:");
        return;
    }
    event.kernel = entry->info.description;
    rt_tell(&request->context->settings.log, &event,
            "compiled %s with NVRTC %d.%d in %u ms: %d registers, %d bytes spilled", entry->info.description,
            entry->info.builder.nvrtc_major, entry->info.builder.nvrtc_minor, (unsigned)entry->info.compile_ms,
            entry->info.registers, entry->info.spill_bytes);
}

static smla_status run_compiler(const struct rt_request *request, const struct rt_key *key,
                                const struct rt_nvrtc *nvrtc, struct rt_entry *out, bool *lasting)
{
    struct rt_counters *counters = &request->context->counters;
    const uint64_t start = rt_now_ns();

    rt_count(&counters->compiles, 1);
    rt_request_tell(request, key, (struct rt_event){.kind = SMLA_EVENT_COMPILE_START, .level = SMLA_LOG_INFO},
                    "compiling");
    const smla_status status = rt_compile(nvrtc, request->bundle, key, out, lasting);
    const uint64_t duration = rt_now_ns() - start;
    rt_count(&counters->compile_ns, duration);
    if (status != SMLA_OK)
        rt_count(&counters->compile_failures, 1);
    if (*lasting)
        rt_failures_add(key, &nvrtc->builder);
    tell_compiled(request, key, status, duration, out);
    return status;
}

static smla_status compile(const struct rt_request *request, const struct rt_key *key, struct rt_entry *out,
                           bool *lasting)
{
    const struct rt_nvrtc *nvrtc;
    const smla_status status =
        rt_context_nvrtc(request->context, request->bundle->spec.target, request->max_nvrtc_major, &nvrtc);

    if (status != SMLA_OK)
        return status;
    *lasting = rt_failures_find(key, &nvrtc->builder);
    if (!*lasting)
        return run_compiler(request, key, nvrtc, out, lasting);
    rt_request_tell_remembered(request, key);
    return SMLA_ERROR_COMPILE;
}

/* ---- One compilation a key among the processes of this node ------------------------------------------------- */

static void tell_no_lock(const struct rt_request *request, const char *why)
{
    if (!__atomic_exchange_n(&request->context->no_lock_told, true, __ATOMIC_RELAXED))
        rt_tell(&request->context->settings.log, &(struct rt_event){.kind = SMLA_EVENT_UNUSED, .level = SMLA_LOG_INFO},
                "no lock is to be had among the processes of this node, so each compiles for itself: %s", why);
}

static void sleep_ms(long milliseconds)
{
    const struct timespec pause = {.tv_nsec = milliseconds * 1000000};

    nanosleep(&pause, NULL);
}

static void tell_waited(const struct rt_request *request, const struct rt_key *key, const struct rt_entry *entry,
                        uint64_t waited_ns)
{
    const struct rt_event event = {.kind = SMLA_EVENT_NODE_WAIT,
                                   .level = SMLA_LOG_INFO,
                                   .tier = SMLA_TIER_CACHE,
                                   .duration_ns = waited_ns,
                                   .key = key,
                                   .kernel = entry->info.description};

    rt_tell(&request->context->settings.log, &event, "another process compiled %s: waited %u ms for it",
            entry->info.description, (unsigned)(waited_ns / 1000000u));
}

/* Waits for the lock and for the entry, whichever comes first. True: *out is what another process compiled. */
static bool wait_for_turn(const struct rt_request *request, const struct rt_key *key, struct rt_node_lock *lock,
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
            found = rt_request_find_on_disk(request, key, true, out);
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
        tell_waited(request, key, out, waited);
    return found;
}

/* True: *out is what another process compiled. Otherwise the caller compiles, and then closes the lock, which it holds
 * when others should wait for it. */
static bool found_meanwhile(const struct rt_request *request, const struct rt_key *key, struct rt_node_lock *lock,
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
        rt_request_tell(
            request, key,
            (struct rt_event){.kind = SMLA_EVENT_NODE_WAIT, .level = SMLA_LOG_WARNING, .duration_ns = longest_wait_ns},
            "another process has been at it for a minute, so compiling it here too:");
    /* One that compiled and could not write the entry down, on a full disk perhaps: by turns each would wait for all
     * before it. */
    if (found || turn != RT_NODE_LOCK_HELD || rt_node_lock_failed_meanwhile(lock))
        rt_node_lock_close(lock);
    return found;
}

/* What a folder took, it told already where it did not. */
static bool publish(const struct rt_request *request, const struct rt_entry *entry)
{
    const uint64_t start = rt_now_ns();
    const bool published = rt_cache_publish(request->context->cache, entry);

    if (published)
        rt_request_tell(request, &entry->info.key,
                        (struct rt_event){.kind = SMLA_EVENT_STORE,
                                          .level = SMLA_LOG_DEBUG,
                                          .tier = SMLA_TIER_CACHE,
                                          .duration_ns = rt_now_ns() - start},
                        "written to the cache folder:");
    return published;
}

/* What the driver does not load, so that nobody finds it any more. By the same compiler it has the same name, and is
 * gone already. */
static void remove_replaced(const struct rt_request *request, const struct rt_entry *by)
{
    for (int i = 0; i < request->refused.count; i++) {
        const struct rt_entry *entry = request->refused.entries[i];

        if (entry->tier == SMLA_TIER_CACHE &&
            memcmp(&entry->info.builder.build_id, &by->info.builder.build_id, sizeof by->info.builder.build_id) != 0)
            rt_cache_remove(request->context->cache, entry);
    }
}

static smla_status compile_and_publish(const struct rt_request *request, const struct rt_key *key,
                                       struct rt_node_lock *lock, struct rt_entry *out, bool *lasting)
{
    const smla_status status = compile(request, key, out, lasting);
    const bool published = status == SMLA_OK && publish(request, out);

    if (published)
        remove_replaced(request, out);

    if (!published && lock->file >= 0)
        rt_node_lock_tell_failure(lock);
    rt_node_lock_close(lock);
    return status;
}

smla_status rt_request_make_missing(const struct rt_request *request, const struct rt_key *key, struct rt_entry *out,
                                    bool *lasting)
{
    struct rt_node_lock lock;

    if (found_meanwhile(request, key, &lock, out))
        return SMLA_OK;
    rt_count(&request->context->counters.misses, 1);
    return compile_and_publish(request, key, &lock, out, lasting);
}
