#include "cache_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache_internal.h"
#include "folder.h"
#include "why.h"

/* ---- Listing ----------------------------------------------------------------------------------------------- */

struct listing {
    const struct rt_cache *cache;
    struct rt_cache_files *out;
    size_t capacity;
    bool complete;
};

static bool ends_in(const char *name, const char *suffix)
{
    const size_t length = strlen(name);

    return length >= strlen(suffix) && strcmp(name + length - strlen(suffix), suffix) == 0;
}

static void leave_out(struct listing *listing, const char *within, const char *why)
{
    listing->complete = false;
    const struct rt_event event = {.kind = SMLA_EVENT_UNUSED,
                                   .level = SMLA_LOG_WARNING,
                                   .status = SMLA_ERROR_IO,
                                   .tier = rt_cache_tier(listing->cache)};

    rt_tell(&listing->cache->log, &event, "the cache folder %s/" RT_CACHE_VERSION_DIR "%s is not read: %s",
            listing->cache->dir, within, why);
}

static bool make_room(struct listing *listing)
{
    struct rt_cache_files *out = listing->out;
    const size_t capacity = listing->capacity > 0 ? 2 * listing->capacity : 64;
    struct rt_cache_file *files;

    if (out->count < listing->capacity)
        return true;
    files = realloc(out->files, capacity * sizeof *files);
    if (files == NULL)
        return false;
    out->files = files;
    listing->capacity = capacity;
    return true;
}

static void list_file(struct listing *listing, int shard, const char *shard_name, const char *file_name)
{
    const bool temporary = file_name[0] == '.';
    struct rt_cache_file *file;

    if (!ends_in(file_name, temporary ? ".tmp" : ".smk"))
        return;
    if (!make_room(listing)) {
        listing->complete = false;
        return;
    }
    file = &listing->out->files[listing->out->count];
    *file = (struct rt_cache_file){.temporary = temporary};
    snprintf(file->name.shard, sizeof file->name.shard, "%.2s", shard_name);
    snprintf(file->name.file, sizeof file->name.file, "%s", file_name);
    /* What was removed since it was read is not there. */
    if (fstatat(shard, file_name, &file->status, AT_SYMLINK_NOFOLLOW) == 0)
        listing->out->count++;
    else
        listing->complete &= errno == ENOENT;
}

static void list_shard(struct listing *listing, int version, const char *name)
{
    char why[RT_WHY_BYTES], within[1 + RT_SHARD_BYTES];
    int error = 0;
    const int shard = rt_folder_open_in(version, name, &error, why);
    DIR *list = shard >= 0 ? rt_folder_list(shard) : NULL;
    struct dirent *item;

    snprintf(within, sizeof within, "/%.2s", name);
    if (shard >= 0 && list == NULL)
        rt_refuse(why, "%s", strerror(errno));
    if (list == NULL && error != ENOENT)
        leave_out(listing, within, why);
    while (list != NULL && (item = readdir(list)) != NULL)
        list_file(listing, shard, name, item->d_name);
    if (list != NULL)
        closedir(list);
    if (shard >= 0)
        close(shard);
}

static int by_name(const void *left, const void *right)
{
    const struct rt_cache_name *a = &((const struct rt_cache_file *)left)->name;
    const struct rt_cache_name *b = &((const struct rt_cache_file *)right)->name;
    const int shards = strcmp(a->shard, b->shard);

    return shards != 0 ? shards : strcmp(a->file, b->file);
}

bool rt_cache_list(const struct rt_cache *cache, struct rt_cache_files *out)
{
    char why[RT_WHY_BYTES];
    struct listing listing = {.cache = cache, .out = out, .complete = true};
    int error = 0;
    int version;
    DIR *list;
    struct dirent *item;

    *out = (struct rt_cache_files){0};
    if (cache->dir == NULL)
        return false;
    version = rt_folder_open_in(cache->folder, RT_CACHE_VERSION_DIR, &error, why);
    if (version < 0 && error == ENOENT)
        return true; /* nothing was written yet */
    list = version >= 0 ? rt_folder_list(version) : NULL;
    if (version >= 0 && list == NULL)
        rt_refuse(why, "%s", strerror(errno));
    if (list == NULL)
        leave_out(&listing, "", why);
    while (list != NULL && (item = readdir(list)) != NULL) {
        if (rt_cache_name_is_shard(item->d_name))
            list_shard(&listing, version, item->d_name);
    }
    if (list != NULL)
        closedir(list);
    if (version >= 0)
        close(version);
    if (out->count > 0)
        qsort(out->files, out->count, sizeof out->files[0], by_name);
    return listing.complete;
}

void rt_cache_files_free(struct rt_cache_files *files)
{
    free(files->files);
    *files = (struct rt_cache_files){0};
}

/* ---- One file ---------------------------------------------------------------------------------------------- */

enum rt_read_result rt_cache_file_read(const struct rt_cache *cache, struct rt_cache_file *file, struct rt_entry *out,
                                       char why[256])
{
    int error = 0;
    const int shard = rt_cache_open_shard(cache, file->name.shard, false, &error, why);
    enum rt_read_result result;
    struct stat status;

    if (shard < 0)
        return error == ENOENT ? RT_READ_ABSENT : RT_READ_REFUSED;
    result = rt_cache_read_entry(shard, &file->name, out, &status, why);
    close(shard);
    if (status.st_ino != 0) /* zeros where it could not be opened */
        file->status = status;
    return result;
}

enum rt_remove_result rt_cache_file_remove(const struct rt_cache *cache, const struct rt_cache_file *file)
{
    char why[RT_WHY_BYTES];
    int error = 0;
    const int shard = rt_cache_open_shard(cache, file->name.shard, false, &error, why);
    enum rt_remove_result result;

    if (shard < 0) {
        errno = error;
        return error == ENOENT ? RT_REMOVE_GONE : RT_REMOVE_FAILED;
    }
    result = rt_file_remove_if_same(shard, file->name.file, &file->status);
    error = errno;
    close(shard);
    errno = error;
    return result;
}

char *rt_cache_file_path(const struct rt_cache *cache, const struct rt_cache_name *name)
{
    char *path;

    return asprintf(&path, "%s/" RT_CACHE_VERSION_DIR "/%s/%s", cache->dir, name->shard, name->file) < 0 ? NULL : path;
}
