#include "obtain.h"

#include <stdio.h>
#include <stdlib.h>

#include "cache_name.h"
#include "describe.h"
#include "error.h"
#include "obtain_internal.h"

enum { RT_REMOVAL_BYTES = 640 };

/* ---- What is told -------------------------------------------------------------------------------------------- */

void rt_request_tell(const struct rt_request *request, const struct rt_key *key, struct rt_event event,
                     const char *words)
{
    char what[RT_DESCRIPTION_BYTES];

    rt_describe(&request->bundle->spec, what);
    event.key = key;
    event.kernel = what;
    rt_tell(&request->context->settings.log, &event, "%s %s", words, what);
}

void rt_request_tell_remembered(const struct rt_request *request, const struct rt_key *key)
{
    rt_count(&request->context->counters.remembered_failures, 1);
    rt_request_tell(request, key,
                    (struct rt_event){.kind = SMLA_EVENT_FAILURE_HIT,
                                      .level = SMLA_LOG_INFO,
                                      .status = SMLA_ERROR_COMPILE,
                                      .tier = SMLA_TIER_MEMORY},
                    "did not compile before, and is not compiled again:");
}

/* smla-gen would find the refused entries in that folder, and take them. False, and an empty text, where not all
 * removals have place. */
static bool describe_removal(const struct rt_request *request, char text[RT_REMOVAL_BYTES])
{
    char path[RT_PLACE_BYTES], word[RT_REMOVAL_BYTES];
    size_t length = 0;

    text[0] = '\0';
    for (int i = 0; i < request->refused.count; i++) {
        if (request->refused.entries[i]->tier != SMLA_TIER_CACHE)
            continue;
        const bool whole =
            rt_entry_path(request->refused.entries[i], path) && rt_describe_quoted(path, word, sizeof word);
        const size_t room = RT_REMOVAL_BYTES - length;
        const size_t size = whole ? (size_t)snprintf(text + length, room, "rm %s && ", word) : room;
        if (size >= room) {
            text[0] = '\0';
            return false;
        }
        length += size;
    }
    return true;
}

enum { RT_FOUND_BYTES = 320, RT_WITH_BYTES = 96 };

/* What there is instead, and what has to build it then. too_new: of major 0 where there is none. */
static void describe_found(const struct rt_request *request, const struct rt_builder *too_new,
                           char found[RT_FOUND_BYTES], char with[RT_WITH_BYTES])
{
    const int version = request->context->driver.version;

    found[0] = with[0] = '\0';
    if (too_new->nvrtc_major > 0) {
        snprintf(found, RT_FOUND_BYTES,
                 " in a form that the driver loads (there it was built by NVRTC %d.%d, and the CUDA driver, API %d.%d, "
                 "loads no code built by a newer major: update the driver, or have NVRTC %d build it)",
                 too_new->nvrtc_major, too_new->nvrtc_minor, version / 1000, version % 1000 / 10,
                 request->max_nvrtc_major);
        snprintf(with, RT_WITH_BYTES, ", with SMLA_NVRTC naming an NVRTC of major %d", request->max_nvrtc_major);
    } else if (request->refused.count > 0) {
        snprintf(found, RT_FOUND_BYTES, " in a form that the driver loads");
    }
}

static smla_status refuse_compile(const struct rt_request *request, const struct rt_key *key,
                                  const struct rt_builder *too_new)
{
    const uint32_t policy = rt_context_jit_policy(request->context);
    const char *folder = rt_cache_dir(request->context->cache);
    char what[RT_DESCRIPTION_BYTES], command[RT_COMMAND_BYTES], removal[RT_REMOVAL_BYTES];
    char found[RT_FOUND_BYTES], with[RT_WITH_BYTES];

    rt_count(&request->context->counters.refused_compiles, 1);
    rt_request_tell(
        request, key,
        (struct rt_event){.kind = SMLA_EVENT_COMPILE_REFUSED, .level = SMLA_LOG_INFO, .status = SMLA_ERROR_NOT_CACHED},
        policy == SMLA_JIT_SEALED ? "compiling is sealed, and no bundle and no cache has"
                                  : "compiling is off, and no bundle and no cache has");
    rt_describe(&request->bundle->spec, what);
    describe_found(request, too_new, found, with);
    /* A bundle where smla-gen would take from the folder what is of no use here. */
    const bool into_folder = describe_removal(request, removal) && too_new->nvrtc_major == 0;
    rt_describe_command(&request->bundle->spec, key->kind == RT_KIND_PTX ? "ptx" : "cubin", into_folder ? folder : NULL,
                        command);
    rt_fail(SMLA_ERROR_NOT_CACHED, "%s is in no bundle and no cache%s, and compiling is %s; this builds it%s: %s%s",
            what, found, policy == SMLA_JIT_SEALED ? "sealed" : "off", with, into_folder ? removal : "", command);
    if (folder)
        rt_fail_path(folder);
    return SMLA_ERROR_NOT_CACHED;
}

/* ---- Looking ------------------------------------------------------------------------------------------------ */

static void tell_found(const struct rt_request *request, const struct rt_entry *entry, uint64_t start_ns)
{
    static const struct {
        uint32_t kind;
        const char *words;
    } rows[] = {
        [SMLA_TIER_BUNDLE] = {SMLA_EVENT_BUNDLE_HIT, "found in a bundle:"},
        [SMLA_TIER_SYSTEM] = {SMLA_EVENT_SYSTEM_HIT, "found in the system folder:"},
        [SMLA_TIER_CACHE] = {SMLA_EVENT_CACHE_HIT, "found in the cache folder:"},
    };

    rt_request_tell(request, &entry->info.key,
                    (struct rt_event){.kind = rows[entry->tier].kind,
                                      .level = SMLA_LOG_DEBUG,
                                      .tier = entry->tier,
                                      .duration_ns = rt_now_ns() - start_ns},
                    rows[entry->tier].words);
}

/* Points into the request. */
static struct rt_wanted wanted_of(const struct rt_request *request, const struct rt_key *key,
                                  struct rt_builder *too_new)
{
    const struct rt_nvrtc *nvrtc = rt_context_open_nvrtc(request->context);

    return (struct rt_wanted){.key = key,
                              .arch = request->bundle->spec.target->arch,
                              .builder = nvrtc ? &nvrtc->builder : NULL,
                              .max_nvrtc_major = request->max_nvrtc_major,
                              .refused = &request->refused,
                              .too_new = too_new};
}

static bool find_on_disk(const struct rt_request *request, const struct rt_key *key, bool again,
                         struct rt_builder *too_new, struct rt_entry *out)
{
    const struct rt_wanted wanted = wanted_of(request, key, too_new);
    struct rt_cache *cache = request->context->cache;
    const uint64_t start = rt_now_ns();
    const bool found = again ? rt_cache_find_again(cache, &wanted, out) : rt_cache_find(cache, &wanted, out);

    if (found) {
        rt_count(&request->context->counters.disk_hits, 1);
        tell_found(request, out, start);
    }
    return found;
}

bool rt_request_find_on_disk(const struct rt_request *request, const struct rt_key *key, bool again,
                             struct rt_entry *out)
{
    return find_on_disk(request, key, again, NULL, out);
}

/* Looks into bundles and the system folder, which nobody writes to meanwhile. */
static bool find_read_only(const struct rt_request *request, const struct rt_key *key, struct rt_builder *too_new,
                           struct rt_entry *out)
{
    struct rt_counters *counters = &request->context->counters;
    const struct rt_wanted wanted = wanted_of(request, key, too_new);
    const uint64_t start = rt_now_ns();
    const bool found = rt_tiers_find(&request->context->tiers, &wanted, out);

    if (found) {
        rt_count(out->tier == SMLA_TIER_BUNDLE ? &counters->bundle_hits : &counters->system_hits, 1);
        tell_found(request, out, start);
    }
    return found;
}

/* ---- With a limit: a compiler cannot be stopped, so another thread waits for it ------------------------------ */

/* What a worker makes, long after the request that wanted it perhaps. */
struct making {
    struct rt_work work; /* first */
    struct rt_request request;
    struct gen_bundle bundle;
    struct rt_key key;
    struct rt_slot *slot;
};

static void end_making(struct making *making, smla_status status, const struct rt_entry *image, bool lasting)
{
    rt_store_finish(&making->request.context->store, making->slot, status, image, lasting);
    gen_bundle_free(&making->bundle);
    free(making);
}

static void run_making(struct rt_work *work)
{
    struct making *making = (struct making *)work;
    struct rt_entry image;
    bool lasting = false;

    const smla_status status = rt_request_make_missing(&making->request, &making->key, &image, &lasting);
    end_making(making, status, &image, lasting);
}

static void drop_making(struct rt_work *work)
{
    end_making((struct making *)work,
               rt_fail(SMLA_ERROR_UNAVAILABLE, "the context was destroyed before the kernel was compiled"), NULL,
               false);
}

static smla_status hand_over(const struct rt_request *request, const struct rt_key *key, struct rt_slot *slot,
                             struct rt_store_made *made)
{
    struct making *making = calloc(1, sizeof *making);
    struct gen_refusal refusal;

    if (making == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a compilation's record");
    making->work = (struct rt_work){.run = run_making, .drop = drop_making};
    making->key = *key;
    making->slot = slot;
    making->request = *request;
    making->request.bundle = &making->bundle;
    smla_status status = gen_bundle_make_again(request->bundle, &making->bundle, &refusal);
    if (status != SMLA_OK) {
        free(making);
        return rt_fail(status, "%s", refusal.text);
    }
    made->deadline_ns = rt_now_ns() + request->context->settings.compile_limit_ms * (uint64_t)1000000;
    status = rt_workers_add(&request->context->compiling, &making->work);
    if (status == SMLA_OK)
        return SMLA_PENDING;
    gen_bundle_free(&making->bundle);
    free(making);
    return status;
}

static smla_status fail_in_time(const struct rt_request *request, const struct rt_key *key)
{
    const uint32_t limit_ms = request->context->settings.compile_limit_ms;
    char what[RT_DESCRIPTION_BYTES];

    rt_count(&request->context->counters.compile_timeouts, 1);
    rt_request_tell(request, key,
                    (struct rt_event){.kind = SMLA_EVENT_COMPILE_TIMEOUT,
                                      .level = SMLA_LOG_INFO,
                                      .status = SMLA_ERROR_TIMEOUT,
                                      .duration_ns = limit_ms * (uint64_t)1000000},
                    "not waited for any longer, but being compiled:");
    rt_describe(&request->bundle->spec, what);
    return rt_fail(
        SMLA_ERROR_TIMEOUT,
        "%s was not compiled within compile_limit_ms, %u ms. The compilation goes on, and what comes of it is "
        "kept: ask again, or allow more",
        what, (unsigned)limit_ms);
}

/* ---- In one process ----------------------------------------------------------------------------------------- */

/* What the store calls, once for a key. */
static smla_status make_image(void *user, const struct rt_key *key, struct rt_slot *slot, struct rt_entry *out,
                              struct rt_store_made *made)
{
    const struct rt_request *request = user;
    struct rt_builder too_new = {.nvrtc_major = 0};

    if (find_read_only(request, key, &too_new, out) || find_on_disk(request, key, false, &too_new, out))
        return SMLA_OK;
    if (rt_context_jit_policy(request->context) != SMLA_JIT_ON) {
        rt_count(&request->context->counters.misses, 1);
        return refuse_compile(request, key, &too_new);
    }
    if (request->context->settings.compile_limit_ms > 0)
        return hand_over(request, key, slot, made);
    return rt_request_make_missing(request, key, out, &made->lasting);
}

static void note_hit(const struct rt_request *request, const struct rt_key *key, enum rt_store_origin origin,
                     uint64_t start_ns)
{
    const bool waited = origin == RT_STORE_WAITED;

    rt_count(&request->context->counters.memory_hits, 1);
    rt_request_tell(request, key,
                    (struct rt_event){.kind = waited ? SMLA_EVENT_THREAD_WAIT : SMLA_EVENT_MEMORY_HIT,
                                      .level = SMLA_LOG_DEBUG,
                                      .tier = SMLA_TIER_MEMORY,
                                      .duration_ns = rt_now_ns() - start_ns},
                    waited ? "another thread made" : "found in memory:");
}

static smla_status obtain(const struct rt_request *request, enum rt_kind kind, const struct rt_entry **out)
{
    smla_context *context = request->context;
    const uint64_t start = rt_now_ns();
    struct rt_request asked = *request;
    enum rt_store_origin origin;
    struct rt_key key;
    smla_status status = rt_key_make(request->bundle, kind, &key);

    if (status != SMLA_OK)
        return status;
    status = rt_store_get(&context->store, &key, request->max_nvrtc_major, &request->refused, make_image, &asked, out,
                          &origin);
    if (origin == RT_STORE_WAITED)
        rt_count(&context->counters.shared_waits, 1);
    if (status == SMLA_OK && origin != RT_STORE_MADE)
        note_hit(request, &key, origin, start);
    if (status == SMLA_PENDING)
        return fail_in_time(request, &key);
    if (status != SMLA_OK && origin == RT_STORE_HAD)
        rt_request_tell_remembered(request, &key);
    return status;
}

smla_status rt_obtain(smla_context *context, const struct gen_bundle *bundle, enum rt_kind kind,
                      int32_t max_nvrtc_major, const struct rt_entry **out)
{
    const struct rt_request request = {.context = context, .bundle = bundle, .max_nvrtc_major = max_nvrtc_major};

    return obtain(&request, kind, out);
}

/* ---- What the driver refuses -------------------------------------------------------------------------------- */

bool rt_entry_path(const struct rt_entry *entry, char path[RT_PLACE_BYTES])
{
    struct rt_cache_name name;
    int size;

    rt_cache_name_make(&entry->info.key, &entry->info.builder.build_id, &name);
    if (entry->tier == SMLA_TIER_BUNDLE)
        size = snprintf(path, RT_PLACE_BYTES, "%s", entry->place);
    else
        size = snprintf(path, RT_PLACE_BYTES, "%s/" RT_CACHE_VERSION_DIR "/%s/%.180s", entry->place, name.shard,
                        name.file);
    return size >= 0 && size < RT_PLACE_BYTES;
}

static void tell_refused(const struct rt_request *request, const struct rt_entry *image, const char *path,
                         const char *why)
{
    const struct rt_event event = {.kind = SMLA_EVENT_ENTRY_REFUSED,
                                   .level = SMLA_LOG_WARNING,
                                   .status = SMLA_ERROR_DRIVER,
                                   .tier = image->tier,
                                   .key = &image->info.key,
                                   .kernel = image->info.description};

    rt_count(&request->context->counters.entries_refused, 1);
    rt_tell(&request->context->settings.log, &event, "%s%s is whole, and the driver does not load it: %s",
            image->tier == SMLA_TIER_BUNDLE ? "an entry of the bundle " : "the cache entry ", path, why);
}

/* The last error is that there is no other; it says now why one is wanted. Number and path are those of what failed
 * last: the compiler, where it was asked. */
static smla_status fail_instead(smla_status status, const struct rt_error *refusal, const char *path)
{
    struct rt_error failure;

    rt_error_save(&failure);
    const bool compiling = status != SMLA_ERROR_NOT_CACHED;
    rt_fail_native(status, compiling ? failure.native_code : refusal->native_code,
                   "%s. The driver does not load %s: %s", failure.message, path, refusal->message);
    rt_fail_path(compiling ? failure.path : path);
    rt_fail_log(failure.log, sizeof failure.log);
    return status;
}

smla_status rt_obtain_instead(smla_context *context, const struct gen_bundle *bundle, int32_t max_nvrtc_major,
                              struct rt_refused *refused, const struct rt_entry **image)
{
    struct rt_error refusal;
    char path[RT_PLACE_BYTES];

    rt_error_save(&refusal);
    if ((*image)->tier == SMLA_TIER_NONE || refused->count == RT_MOST_REFUSED)
        return refusal.status;
    refused->entries[refused->count++] = *image;
    const struct rt_request request = {context, bundle, max_nvrtc_major, *refused};
    rt_entry_path(*image, path);
    tell_refused(&request, *image, path, refusal.message);
    const smla_status status = obtain(&request, (*image)->info.key.kind, image);
    return status == SMLA_OK ? SMLA_OK : fail_instead(status, &refusal, path);
}
