/* The context: settings, the tables opened at first need, the cache, images and modules in memory, counters. */
#ifndef SMLA_RUNTIME_CONTEXT_H
#define SMLA_RUNTIME_CONTEXT_H

#include <pthread.h>

#include "cache.h"
#include "clock.h"
#include "driver.h"
#include "events.h"
#include "module.h"
#include "nvrtc_table.h"
#include "preparation.h"
#include "settings.h"
#include "store.h"
#include "tiers.h"
#include "workers.h"

/* Written and read with rt_count and rt_counted; cache and modules have their own. */
struct rt_counters {
    uint64_t memory_hits;
    uint64_t disk_hits;
    uint64_t misses;
    uint64_t compiles;
    uint64_t compile_failures;
    uint64_t compile_ns;
    uint64_t shared_waits;
    uint64_t refused_compiles;
    uint64_t node_waits;
    uint64_t node_wait_ns;
    uint64_t bundle_hits;
    uint64_t system_hits;
    uint64_t compile_timeouts;
    uint64_t remembered_failures;
    uint64_t self_tests;
    uint64_t self_test_failures;
    uint64_t self_test_ns;
    uint64_t entries_refused;
    uint64_t driver_ns;
};

struct smla_context {
    struct rt_settings settings;
    struct rt_tiers tiers;  /* read-only, asked before … */
    struct rt_cache *cache; /* … the user's cache folder */
    struct rt_store store;
    struct rt_modules modules;
    struct rt_counters counters;
    struct rt_workers preparing; /* smla_prepare_start */
    struct rt_workers compiling; /* what no call may wait for to the end: compile_limit_ms */
    struct rt_preparations *preparations;
    pthread_mutex_t driver_lock; /* over opening what follows; nobody waits for a compiler there */
    struct rt_driver driver;
    bool driver_open;           /* atomic */
    pthread_mutex_t nvrtc_lock; /* over opening what follows */
    struct rt_nvrtc_set nvrtcs;
    rt_cu_device primary_device;
    bool no_lock_told;     /* atomic; one log line, not one a kernel */
    rt_cu_context primary; /* NULL without SMLA_CONTEXT_PRIMARY */
    struct rt_events events;
};

static inline uint32_t rt_context_jit_policy(const smla_context *context)
{
    return __atomic_load_n(&context->settings.jit_policy, __ATOMIC_RELAXED);
}

/* Opens the driver at the first call. *out belongs to the context and stays valid until it is destroyed.
 * Returns as rt_driver_open, and UNAVAILABLE in a forked child. */
smla_status rt_context_driver(smla_context *context, const struct rt_driver **out);

/* Whether the driver is in the process already, so that opening it takes no time to speak of. */
bool rt_context_driver_is_loaded(const smla_context *context);

/* Finds the NVRTC for a target, as rt_nvrtc_find, one thread at a time. */
smla_status rt_context_nvrtc(smla_context *context, const struct gen_target *target, int32_t max_major,
                             const struct rt_nvrtc **out);

/* The compiler that is open already, or NULL: a hit must not load one. */
const struct rt_nvrtc *rt_context_open_nvrtc(smla_context *context);

#endif
