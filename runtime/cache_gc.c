#include "cache_gc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache_internal.h"

/* One collection. */
struct collection {
    struct rt_cache *cache;
    const struct rt_cache_limits *limits;
    rt_cache_removed_fn tell;
    void *user;
    struct rt_cache_collected *out;
    int64_t now_s;
    uint64_t left_bytes; /* of entries */
    bool shrinking;      /* there were more than max_bytes */
};

static int64_t age_s(const struct rt_cache_file *file, int64_t now_s)
{
    return now_s - (int64_t)file->status.st_mtim.tv_sec;
}

/* A time that is far ahead was set by a wrong clock, and keeps nothing. */
static bool is_young(const struct rt_cache_file *file, int64_t now_s)
{
    const int64_t age = age_s(file, now_s);

    return age < RT_CACHE_KEEP_S && age > -RT_CACHE_KEEP_S;
}

/* The process in ".<hex>.<pid>.<random>.tmp"; 0 when there is none. */
static pid_t writer_of(const char *name)
{
    const char *dot = name[0] == '.' ? strchr(name + 1, '.') : NULL;
    char *end;
    long pid;

    if (dot == NULL)
        return 0;
    errno = 0;
    pid = strtol(dot + 1, &end, 10);
    return errno == 0 && *end == '.' && pid > 0 && (pid_t)pid == pid ? (pid_t)pid : 0;
}

static bool is_dead(pid_t process)
{
    return process > 0 && kill(process, 0) != 0 && errno == ESRCH;
}

bool rt_cache_is_stale(const struct rt_cache_file *temporary, bool dead_writers)
{
    return !is_young(temporary, (int64_t)time(NULL)) || (dead_writers && is_dead(writer_of(temporary->name.file)));
}

static enum rt_remove_result remove_file(const struct collection *collection, const struct rt_cache_file *file)
{
    enum rt_remove_result result = RT_REMOVED;

    if (!collection->limits->dry_run)
        result = rt_cache_file_remove(collection->cache, file);
    if (result == RT_REMOVE_FAILED)
        collection->out->failed++;
    if (collection->tell != NULL && (result == RT_REMOVED || result == RT_REMOVE_FAILED))
        collection->tell(collection->user, file, result);
    return result;
}

static void remove_temporary(struct collection *collection, const struct rt_cache_file *file)
{
    if (S_ISREG(file->status.st_mode) && rt_cache_is_stale(file, collection->limits->dead_writers) &&
        remove_file(collection, file) == RT_REMOVED)
        collection->out->temporaries++;
}

/* What vanished is credited too: two collections at once remove no more than one would. */
static void remove_entry(struct collection *collection, const struct rt_cache_file *file)
{
    const uint64_t size = (uint64_t)file->status.st_size;
    const enum rt_remove_result result = remove_file(collection, file);

    if (result == RT_REMOVED) {
        collection->out->removed++;
        collection->out->removed_bytes += size;
    } else if (result == RT_REMOVE_GONE) {
        collection->out->vanished++;
        collection->out->vanished_bytes += size;
    } else {
        return;
    }
    collection->left_bytes -= size;
}

static bool is_entry(const struct rt_cache_file *file)
{
    return !file->temporary && S_ISREG(file->status.st_mode) && rt_cache_name_is_entry(&file->name);
}

static bool is_too_old(const struct collection *collection, const struct rt_cache_file *file)
{
    const uint64_t max_age_s = collection->limits->max_age_s;
    const int64_t age = age_s(file, collection->now_s);

    return max_age_s > 0 && age > 0 && (uint64_t)age > max_age_s;
}

static int by_last_use(const void *left, const void *right)
{
    const struct timespec *a = &((const struct rt_cache_file *)left)->status.st_mtim;
    const struct timespec *b = &((const struct rt_cache_file *)right)->status.st_mtim;

    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

static void collect(struct collection *collection, const struct rt_cache_files *list)
{
    const struct rt_cache_limits *limits = collection->limits;

    for (size_t i = 0; i < list->count; i++) {
        const struct rt_cache_file *file = &list->files[i];

        if (file->temporary)
            remove_temporary(collection, file);
        if (!is_entry(file))
            continue;
        collection->out->entries++;
        collection->out->bytes += (uint64_t)file->status.st_size;
    }
    collection->left_bytes = collection->out->bytes;
    collection->shrinking = collection->left_bytes > limits->max_bytes;
    for (size_t i = 0; i < list->count; i++) {
        const struct rt_cache_file *file = &list->files[i];
        const bool too_many = collection->shrinking && collection->left_bytes > limits->down_to_bytes;

        if (is_entry(file) && !is_young(file, collection->now_s) && (too_many || is_too_old(collection, file)))
            remove_entry(collection, file);
    }
    if (limits->young_bytes == 0 || collection->left_bytes <= limits->young_bytes)
        return;
    /* The last is what was just written. */
    for (size_t i = 0; i + 1 < list->count; i++) {
        const struct rt_cache_file *file = &list->files[i];

        if (is_entry(file) && is_young(file, collection->now_s) &&
            collection->left_bytes > limits->young_bytes - limits->young_bytes / 16)
            remove_entry(collection, file);
    }
}

bool rt_cache_gc(struct rt_cache *cache, const struct rt_cache_limits *limits, rt_cache_removed_fn tell, void *user,
                 struct rt_cache_collected *out)
{
    struct rt_cache_files list;
    struct collection collection = {
        .cache = cache, .limits = limits, .tell = tell, .user = user, .out = out, .now_s = (int64_t)time(NULL)};

    *out = (struct rt_cache_collected){0};
    if (!cache->writable && !limits->dry_run)
        return false;
    const bool complete = rt_cache_list(cache, &list);
    if (list.count > 0)
        qsort(list.files, list.count, sizeof list.files[0], by_last_use);
    collect(&collection, &list);
    rt_cache_files_free(&list);
    return complete;
}

/* ---- By writers -------------------------------------------------------------------------------------------- */

enum { PUBLISHED_BETWEEN = 64 };

/* One entry in 64, of each process, and of all: a process that publishes a few never comes to its 64th, but the ids of
 * kernels are evenly spread. In between when the folder seems to be over the cap. */
static bool is_time_to_collect(struct rt_cache *cache, const struct rt_entry *published)
{
    const uint64_t count = __atomic_add_fetch(&cache->published, 1, __ATOMIC_RELAXED);
    const uint64_t bytes = __atomic_add_fetch(&cache->known_bytes, published->file_size, __ATOMIC_RELAXED);

    return count % PUBLISHED_BETWEEN == 0 ||
           published->info.key.kernel_id.bytes[RT_DIGEST_BYTES - 1] % PUBLISHED_BETWEEN == 0 ||
           bytes > cache->cap_bytes;
}

void rt_cache_collect_after(struct rt_cache *cache, const struct rt_entry *published)
{
    const uint64_t cap = cache->cap_bytes;
    /* A little below the cap, or the next entry would be over it again. */
    const uint64_t most = cap <= UINT64_MAX / 2 ? 2 * cap : UINT64_MAX;
    const struct rt_cache_limits limits = {.max_bytes = cap, .down_to_bytes = cap - cap / 16, .young_bytes = most};
    struct rt_cache_collected done;
    uint64_t left;

    if (!is_time_to_collect(cache, published) || __atomic_exchange_n(&cache->collecting, true, __ATOMIC_ACQUIRE))
        return;
    (void)rt_cache_gc(cache, &limits, NULL, NULL, &done);
    left = done.bytes - done.removed_bytes - done.vanished_bytes;
    /* Where the young alone are over the cap, listing them at each entry helps nobody: when there may be twice as many.
     */
    __atomic_store_n(&cache->known_bytes, left <= cap ? left : left - cap, __ATOMIC_RELAXED);
    __atomic_store_n(&cache->collecting, false, __ATOMIC_RELEASE);
    if (done.removed + done.temporaries > 0)
        rt_tell(&cache->log,
                &(struct rt_event){.kind = SMLA_EVENT_EVICTION, .level = SMLA_LOG_INFO, .tier = SMLA_TIER_CACHE},
                "removed %zu entries of %llu bytes, not used for longest, and %zu left-over files from %s",
                done.removed, (unsigned long long)done.removed_bytes, done.temporaries, cache->dir);
}
