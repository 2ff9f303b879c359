#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache_internal.h"
#include "folder.h"
#include "why.h"

struct visit {
    struct rt_cache *cache;
    rt_cache_visit_fn call;
    void *user;
    bool stopped;    /* the caller wants no more */
    bool unreadable; /* some folder could not be read */
};

/* Hidden files are temporary ones. */
static bool is_entry_file(const char *name)
{
    static const char suffix[] = ".smk";
    const size_t length = strlen(name);

    return name[0] != '.' && length >= strlen(suffix) && strcmp(name + length - strlen(suffix), suffix) == 0;
}

static void visit_file(struct visit *visit, int shard, const struct rt_cache_name *name)
{
    char why[RT_WHY_BYTES];
    struct stat status;
    struct rt_entry entry = {0};
    char *path;
    const enum rt_read_result result = rt_cache_read_entry(shard, name, &entry, &status, why);
    const bool valid = result == RT_READ_OK;

    if (result == RT_READ_ABSENT)
        return;
    if (asprintf(&path, "%s/" RT_CACHE_VERSION_DIR "/%s/%s", visit->cache->dir, name->shard, name->file) < 0) {
        visit->unreadable = true;
    } else {
        visit->stopped = !visit->call(visit->user, path, (uint64_t)status.st_size, valid, valid ? &entry.info : NULL,
                                      valid ? NULL : why);
        free(path);
    }
    rt_entry_free(&entry);
}

static void visit_shard(struct visit *visit, int version, const char *shard_name)
{
    char why[RT_WHY_BYTES];
    struct rt_cache_name name;
    int error;
    const int shard = rt_folder_open_in(version, shard_name, &error, why);
    DIR *list = shard >= 0 ? rt_folder_list(shard) : NULL;
    struct dirent *item;

    snprintf(name.shard, sizeof name.shard, "%.2s", shard_name);
    visit->unreadable |= list == NULL;
    while (list != NULL && !visit->stopped && (item = readdir(list)) != NULL) {
        if (!is_entry_file(item->d_name))
            continue;
        snprintf(name.file, sizeof name.file, "%s", item->d_name);
        visit_file(visit, shard, &name);
    }
    if (list != NULL)
        closedir(list);
    if (shard >= 0)
        close(shard);
}

bool rt_cache_visit(struct rt_cache *cache, rt_cache_visit_fn call, void *user)
{
    char why[RT_WHY_BYTES];
    struct visit visit = {.cache = cache, .call = call, .user = user};
    int error = 0;
    int version;
    DIR *list;
    struct dirent *item;

    if (cache->dir == NULL)
        return false;
    version = rt_folder_open_in(cache->folder, RT_CACHE_VERSION_DIR, &error, why);
    if (version < 0)
        return error == ENOENT; /* nothing was written yet */
    list = rt_folder_list(version);
    visit.unreadable = list == NULL;
    while (list != NULL && !visit.stopped && (item = readdir(list)) != NULL) {
        if (rt_cache_name_is_shard(item->d_name))
            visit_shard(&visit, version, item->d_name);
    }
    if (list != NULL)
        closedir(list);
    close(version);
    return !visit.unreadable;
}
