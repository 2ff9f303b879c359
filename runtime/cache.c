#include "cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cache_gc.h"
#include "cache_internal.h"
#include "error.h"
#include "file.h"
#include "folder.h"
#include "why.h"

/* ---- Opening ----------------------------------------------------------------------------------------------- */

/* Makes and opens the folder. */
static int make_and_open(struct rt_cache *cache, const char *dir, char *why)
{
    int error = 0;

    if (cache->is_default && !rt_folder_is_kept(dir, why))
        return EPERM;
    error = cache->writable ? rt_folder_make(dir) : 0;
    if (error != 0)
        rt_refuse(why, "%s", strerror(error));
    else
        cache->folder = rt_folder_open(dir, &error, why);
    /* Again, since what was missing is there now. */
    if (error == 0 && cache->is_default && !rt_folder_is_kept(dir, why)) {
        close(cache->folder);
        cache->folder = -1;
        error = EPERM;
    }
    return error;
}

/* Returns 0 or an errno with a sentence. */
static int open_dir(struct rt_cache *cache, const char *dir, char *why)
{
    int error = ENOENT;

    if (dir[0] != '/') {
        rt_refuse(why, "not an absolute path");
        return EINVAL;
    }
    /* Somebody may remove what was made before it is opened. */
    for (int attempt = 0; attempt < (cache->writable ? 8 : 1) && error == ENOENT; attempt++)
        error = make_and_open(cache, dir, why);
    return error;
}

static const struct rt_event unused = {
    .kind = SMLA_EVENT_UNUSED, .level = SMLA_LOG_WARNING, .status = SMLA_ERROR_IO, .tier = SMLA_TIER_CACHE};
static const struct rt_event unused_system = {
    .kind = SMLA_EVENT_UNUSED, .level = SMLA_LOG_WARNING, .status = SMLA_ERROR_IO, .tier = SMLA_TIER_SYSTEM};

static smla_status refuse_dir(struct rt_cache *cache, const char *dir, bool required, int error, const char *why)
{
    if (required) {
        const smla_status status = error == ENOMEM ? SMLA_ERROR_OUT_OF_MEMORY : SMLA_ERROR_IO;

        rt_fail_native(status, error, "the cache folder %s cannot be used: %s. Name another, or switch the cache off",
                       dir, why);
        rt_fail_path(dir);
        return status;
    }
    rt_cache_count(&cache->counters.errors);
    rt_tell(&cache->log, &unused,
            "the cache folder %s is done without: %s; name another with SMLA_CACHE_DIR, or set SMLA_CACHE=off", dir,
            why);
    return SMLA_OK;
}

/* Gives an allocated cache its folder. */
static smla_status use_dir(struct rt_cache *cache, const char *dir, bool required)
{
    char why[RT_WHY_BYTES];
    const int error = open_dir(cache, dir, why);

    if (error != 0)
        return refuse_dir(cache, dir, required, error, why);
    cache->dir = strdup(dir);
    return cache->dir != NULL ? SMLA_OK : rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a path");
}

/* A cache without a folder; NULL without memory. */
static struct rt_cache *make_cache(bool writable, const struct rt_log *log)
{
    struct rt_cache *cache = calloc(1, sizeof *cache);

    if (cache == NULL) {
        rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a cache");
        return NULL;
    }
    cache->folder = -1;
    cache->writable = writable;
    cache->cap_bytes = RT_CACHE_CAP_BYTES;
    if (log != NULL)
        cache->log = *log;
    return cache;
}

static smla_status open_user_cache(struct rt_cache *cache, const char *dir, bool required, struct rt_cache **out)
{
    smla_status status = SMLA_OK;

    if (cache == NULL)
        return SMLA_ERROR_OUT_OF_MEMORY;
    if (dir != NULL)
        status = use_dir(cache, dir, required);
    if (status != SMLA_OK) {
        rt_cache_close(cache);
        return status;
    }
    *out = cache;
    return SMLA_OK;
}

smla_status rt_cache_open(const char *dir, bool writable, bool required, const struct rt_log *log,
                          struct rt_cache **out)
{
    if (dir == NULL && required)
        return rt_fail(SMLA_ERROR_IO, "no cache folder was named, and one is required");
    return open_user_cache(make_cache(writable, log), dir, required, out);
}

smla_status rt_cache_open_default(const char *dir, bool writable, const struct rt_log *log, struct rt_cache **out)
{
    struct rt_cache *cache = make_cache(writable, log);

    if (cache != NULL)
        cache->is_default = true;
    return open_user_cache(cache, dir, false, out);
}

smla_status rt_cache_open_system(const char *dir, const struct rt_log *log, struct rt_cache **out)
{
    struct rt_cache *cache = make_cache(false, log);
    char why[RT_WHY_BYTES];
    int error;

    if (cache == NULL)
        return SMLA_ERROR_OUT_OF_MEMORY;
    *out = cache;
    cache->system = true;
    error = dir != NULL ? open_dir(cache, dir, why) : ENOENT;
    if (error == 0) {
        cache->dir = strdup(dir);
        return cache->dir != NULL ? SMLA_OK : rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a path");
    }
    if (error != ENOENT && error != ENOTDIR) {
        rt_cache_count(&cache->counters.errors);
        rt_tell(&cache->log, &unused_system, "the system folder %s is not used: %s", dir, why);
    }
    return SMLA_OK;
}

void rt_cache_set_cap(struct rt_cache *cache, uint64_t bytes)
{
    cache->cap_bytes = bytes;
}

void rt_cache_close(struct rt_cache *cache)
{
    if (cache == NULL)
        return;
    if (cache->folder >= 0)
        close(cache->folder);
    free(cache->dir);
    free(cache);
}

const char *rt_cache_dir(const struct rt_cache *cache)
{
    return cache->dir;
}

const struct rt_cache_counters *rt_cache_counters(const struct rt_cache *cache)
{
    return &cache->counters;
}

/* ---- Folders within ---------------------------------------------------------------------------------------- */

/* Opens a folder within another, made first when `make`. -1 with an errno and a sentence. */
static int open_within(int parent, const char *name, bool make, int *error, char *why)
{
    *error = make ? rt_folder_make_in(parent, name) : 0;
    if (*error != 0) {
        rt_refuse(why, "%s", strerror(*error));
        return -1;
    }
    return rt_folder_open_in(parent, name, error, why);
}

int rt_cache_open_shard(const struct rt_cache *cache, const char *shard, bool make, int *error, char why[256])
{
    const int version = open_within(cache->folder, RT_CACHE_VERSION_DIR, make, error, why);
    int folder;

    if (version < 0)
        return -1;
    folder = open_within(version, shard, make, error, why);
    close(version);
    return folder;
}

/* ---- Publishing -------------------------------------------------------------------------------------------- */

/* Unlike any other writer's, on other hosts too. rt_file_publish refuses one that exists. */
static void make_temporary_name(const struct rt_cache_name *name, char *temporary, size_t size)
{
    uint64_t random = 0;

    /* Without it, before the kernel's pool is ready, the name is still this process's. */
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = 0;
    snprintf(temporary, size, ".%.32s.%ld.%016llx.tmp", name->file, (long)getpid(), (unsigned long long)random);
}

/* An event each time, but one warning for a full disk, not one a kernel. */
static bool fail_publish(struct rt_cache *cache, const struct rt_entry *entry, int error, const char *why)
{
    const bool known = __atomic_exchange_n(&cache->last_write_error, error, __ATOMIC_RELAXED) == error;
    const struct rt_event event = {.kind = SMLA_EVENT_STORE_FAILED,
                                   .level = known ? SMLA_LOG_DEBUG : SMLA_LOG_WARNING,
                                   .status = SMLA_ERROR_IO,
                                   .tier = SMLA_TIER_CACHE,
                                   .key = &entry->info.key,
                                   .kernel = entry->info.description};

    rt_cache_count(&cache->counters.errors);
    rt_tell(
        &cache->log, &event,
        "cannot write to the cache folder %s: %s; kernels are used from memory. Name another with SMLA_CACHE_DIR, or "
        "set SMLA_CACHE=ro",
        cache->dir, why);
    return false;
}

bool rt_cache_publish(struct rt_cache *cache, const struct rt_entry *entry)
{
    char why[RT_WHY_BYTES];
    char temporary[96];
    struct rt_cache_name name;
    int error;
    int shard;

    if (cache->dir == NULL || !cache->writable)
        return false;
    rt_cache_name_make(&entry->info.key, &entry->info.builder.build_id, &name);
    shard = rt_cache_open_shard(cache, name.shard, true, &error, why);
    if (shard < 0)
        return fail_publish(cache, entry, error, why);
    make_temporary_name(&name, temporary, sizeof temporary);
    error = rt_file_publish(shard, temporary, name.file, entry->file, entry->file_size);
    close(shard);
    if (error != 0)
        return fail_publish(cache, entry, error, strerror(error));
    rt_cache_count(&cache->counters.written);
    __atomic_store_n(&cache->last_write_error, 0, __ATOMIC_RELAXED);
    rt_cache_collect_after(cache, entry);
    return true;
}

bool rt_cache_publishes(const struct rt_cache *cache)
{
    return cache->dir != NULL && cache->writable && __atomic_load_n(&cache->last_write_error, __ATOMIC_RELAXED) == 0;
}
