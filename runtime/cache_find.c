#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache_internal.h"
#include "folder.h"
#include "why.h"

bool rt_cache_entry_of(const struct rt_cache_name *name, uint8_t *bytes, size_t size, struct rt_entry *out,
                       char why[256])
{
    struct rt_key key;
    uint8_t build_prefix[RT_BUILD_PREFIX_BYTES];

    if (!rt_cache_name_parse(name->shard, name->file, &key, build_prefix)) {
        free(bytes);
        return rt_refuse(why, "not the name of an entry");
    }
    if (!rt_entry_read(bytes, size, &key, out, why))
        return false;
    if (memcmp(out->info.builder.build_id.bytes, build_prefix, sizeof build_prefix) == 0)
        return true;
    rt_entry_free(out);
    return rt_refuse(why, "built by another compiler than its name says");
}

enum rt_read_result rt_cache_read_entry(int shard, const struct rt_cache_name *name, struct rt_entry *out,
                                        struct stat *status, char why[256])
{
    struct rt_file file;
    enum rt_read_result result;

    *status = (struct stat){0};
    if (!rt_cache_name_is_entry(name)) {
        rt_refuse(why, "not the name of an entry");
        return RT_READ_REFUSED;
    }
    result = rt_file_read(shard, name->file, RT_ENTRY_MAX_BYTES, &file, why);
    *status = file.status;
    if (result != RT_READ_OK)
        return result;
    return rt_cache_entry_of(name, file.bytes, file.size, out, why) ? RT_READ_OK : RT_READ_DAMAGED;
}

/* What is looked for, and whether it was before. */
struct search {
    struct rt_cache *cache;
    const struct rt_wanted *wanted;
    bool again; /* what cannot be used was told, counted and removed the first time */
};

static struct rt_event event_of(const struct search *search, uint32_t kind)
{
    return (struct rt_event){.kind = kind,
                             .level = SMLA_LOG_WARNING,
                             .status = SMLA_ERROR_IO,
                             .tier = rt_cache_tier(search->cache),
                             .key = search->wanted->key};
}

static void report_unused(const struct search *search, const struct rt_cache_name *name, enum rt_read_result result,
                          const char *why)
{
    const bool damaged = result == RT_READ_DAMAGED;
    const struct rt_event event = event_of(search, damaged ? SMLA_EVENT_DAMAGE : SMLA_EVENT_UNUSED);
    struct rt_cache *cache = search->cache;

    rt_cache_count(damaged ? &cache->counters.damaged : &cache->counters.errors);
    rt_tell(&cache->log, &event, "the cache entry %s/" RT_CACHE_VERSION_DIR "/%s/%s is %s: %s", cache->dir, name->shard,
            name->file, damaged ? "damaged and not used" : "not used", why);
}

static void report_unused_folder(const struct search *search, const char *shard, const char *why)
{
    const struct rt_event event = event_of(search, SMLA_EVENT_UNUSED);

    rt_cache_count(&search->cache->counters.errors);
    rt_tell(&search->cache->log, &event, "the cache folder %s/" RT_CACHE_VERSION_DIR "/%s is not used: %s",
            search->cache->dir, shard, why);
}

/* As rt_cache_read_entry. The kernel id covers the target, so that an entry for another is none that smla wrote. */
static enum rt_read_result read_wanted(const struct search *search, int shard, const struct rt_cache_name *name,
                                       struct rt_entry *out, struct stat *status, char *why)
{
    const char *arch = search->wanted->arch;
    struct rt_entry entry;
    const enum rt_read_result result = rt_cache_read_entry(shard, name, &entry, status, why);

    if (result == RT_READ_OK && arch != NULL && strcmp(entry.info.arch, arch) != 0) {
        rt_refuse(why, "built for %s instead of %s", entry.info.arch, arch);
        rt_entry_free(&entry);
        return RT_READ_DAMAGED;
    }
    if (result == RT_READ_OK)
        *out = entry;
    return result;
}

bool rt_is_of_builder(const struct rt_wanted *wanted, const struct rt_builder *builder)
{
    if (wanted->max_nvrtc_major == 0 || builder->nvrtc_major <= wanted->max_nvrtc_major)
        return true;
    if (wanted->too_new != NULL && rt_builder_is_newer(builder, wanted->too_new))
        *wanted->too_new = *builder;
    return false;
}

/* Of a compiler that counts, and not refused. */
static bool is_wanted(const struct rt_wanted *wanted, const struct rt_entry *entry)
{
    struct rt_digest digest;

    rt_entry_digest(entry, &digest);
    return rt_is_of_builder(wanted, &entry->info.builder) && !rt_is_refused(wanted->refused, &digest);
}

/* True when the file holds a verified entry that is wanted; a damaged file is removed. */
static bool use_entry(const struct search *search, int shard, const struct rt_cache_name *name, struct rt_entry *out)
{
    char why[RT_WHY_BYTES];
    struct stat status;
    const enum rt_read_result result = read_wanted(search, shard, name, out, &status, why);

    if (result == RT_READ_ABSENT)
        return false;
    if (result != RT_READ_OK && search->again)
        return false;
    if (result != RT_READ_OK) {
        report_unused(search, name, result, why);
        if (result == RT_READ_DAMAGED && search->cache->writable)
            (void)rt_file_remove_if_same(shard, name->file, &status);
        return false;
    }
    if (is_wanted(search->wanted, out))
        return true;
    rt_entry_free(out);
    return false;
}

static bool is_entry_of(const char *shard, const char *file, const struct rt_key *wanted)
{
    struct rt_key key;
    uint8_t build_prefix[RT_BUILD_PREFIX_BYTES];

    return rt_cache_name_parse(shard, file, &key, build_prefix) && key.kind == wanted->kind &&
           memcmp(key.kernel_id.bytes, wanted->kernel_id.bytes, sizeof key.kernel_id.bytes) == 0;
}

/* Keeps the entry in *best when it is the first or by a newer compiler; frees the other. */
static void keep_newer(struct rt_entry *best, struct rt_entry *entry)
{
    if (best->file != NULL && !rt_builder_is_newer(&entry->info.builder, &best->info.builder)) {
        rt_entry_free(entry);
        return;
    }
    rt_entry_free(best);
    *best = *entry;
}

/* Finds the newest compiler's entry of a kernel; *out is empty and stays so when there is none. tried: a file that was
 * looked at already, or NULL. */
static void find_newest(const struct search *search, int shard, const char *shard_name, const char *tried,
                        struct rt_entry *out)
{
    DIR *list = rt_folder_list(shard);
    struct dirent *item;

    while (list != NULL && (item = readdir(list)) != NULL) {
        struct rt_cache_name name;
        struct rt_entry entry;

        if (!is_entry_of(shard_name, item->d_name, search->wanted->key) ||
            (tried != NULL && strcmp(item->d_name, tried) == 0))
            continue;
        memcpy(name.shard, shard_name, sizeof name.shard);
        snprintf(name.file, sizeof name.file, "%s", item->d_name);
        if (use_entry(search, shard, &name, &entry))
            keep_newer(out, &entry);
    }
    if (list != NULL)
        closedir(list);
}

/* The time of a file's last change says when its entry was last used, to a day, for rt_cache_gc. The time of the last
 * access does not: file systems are mounted without it. Not once a hit: over a network each is a request. */
static void note_use(int shard, const struct rt_entry *entry)
{
    enum { DAY_S = 24 * 60 * 60 };
    struct rt_cache_name name;
    struct stat status;

    rt_cache_name_make(&entry->info.key, &entry->info.builder.build_id, &name);
    if (fstatat(shard, name.file, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    const int64_t age_s = (int64_t)time(NULL) - (int64_t)status.st_mtim.tv_sec;
    if (age_s > DAY_S || age_s < -DAY_S)
        (void)utimensat(shard, name.file, NULL, AT_SYMLINK_NOFOLLOW); /* of root's entry it may fail */
}

static bool find(const struct search *search, struct rt_entry *out)
{
    const struct rt_builder *builder = search->wanted->builder;
    static const struct rt_digest no_build;
    char why[RT_WHY_BYTES];
    struct rt_entry found = {0};
    struct rt_cache_name name;
    int error;
    int shard;

    if (search->cache->dir == NULL)
        return false;
    rt_cache_name_make(search->wanted->key, builder != NULL ? &builder->build_id : &no_build, &name);
    shard = rt_cache_open_shard(search->cache, name.shard, false, &error, why);
    if (shard < 0) {
        if (error != ENOENT && !search->again)
            report_unused_folder(search, name.shard, why);
        return false;
    }
    if (builder == NULL || !use_entry(search, shard, &name, &found))
        find_newest(search, shard, name.shard, builder != NULL ? name.file : NULL, &found);
    if (found.file != NULL && search->cache->writable)
        note_use(shard, &found);
    close(shard);
    if (found.file == NULL)
        return false;
    found.tier = rt_cache_tier(search->cache);
    found.place = search->cache->dir;
    *out = found;
    return true;
}

bool rt_cache_find(struct rt_cache *cache, const struct rt_wanted *wanted, struct rt_entry *out)
{
    const struct search search = {cache, wanted, false};

    return find(&search, out);
}

bool rt_cache_find_again(struct rt_cache *cache, const struct rt_wanted *wanted, struct rt_entry *out)
{
    const struct search search = {cache, wanted, true};

    return find(&search, out);
}

static bool is_same_entry(const struct rt_entry *a, const struct rt_entry *b)
{
    struct rt_digest digests[2];

    rt_entry_digest(a, &digests[0]);
    rt_entry_digest(b, &digests[1]);
    return memcmp(&digests[0], &digests[1], sizeof digests[0]) == 0;
}

void rt_cache_remove(struct rt_cache *cache, const struct rt_entry *entry)
{
    char why[RT_WHY_BYTES];
    struct rt_cache_name name;
    struct rt_entry found;
    struct stat status;
    int error;

    rt_cache_name_make(&entry->info.key, &entry->info.builder.build_id, &name);
    const int shard = rt_cache_open_shard(cache, name.shard, false, &error, why);
    if (shard < 0)
        return;
    if (rt_cache_read_entry(shard, &name, &found, &status, why) == RT_READ_OK) {
        if (is_same_entry(&found, entry))
            (void)rt_file_remove_if_same(shard, name.file, &status);
        rt_entry_free(&found);
    }
    close(shard);
}
