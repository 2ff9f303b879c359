#include <stdlib.h>

#include "cache_files.h"
#include "why.h"

/* Returns false when the caller wants no more. *complete becomes false without memory for a path. */
static bool visit_file(struct rt_cache *cache, struct rt_cache_file *file, rt_cache_visit_fn call, void *user,
                       bool *complete)
{
    char why[RT_WHY_BYTES];
    struct rt_entry entry = {0};
    const enum rt_read_result result = rt_cache_file_read(cache, file, &entry, why);
    const bool valid = result == RT_READ_OK;
    char *path;
    bool more = true;

    if (result == RT_READ_ABSENT)
        return true;
    path = rt_cache_file_path(cache, &file->name);
    if (path != NULL)
        more = call(user, path, (uint64_t)file->status.st_size, valid, valid ? &entry.info : NULL, valid ? NULL : why);
    *complete &= path != NULL;
    free(path);
    rt_entry_free(&entry);
    return more;
}

bool rt_cache_visit(struct rt_cache *cache, rt_cache_visit_fn call, void *user)
{
    struct rt_cache_files list;
    bool complete = rt_cache_list(cache, &list);
    bool more = true;

    for (size_t i = 0; i < list.count && more; i++) {
        if (!list.files[i].temporary)
            more = visit_file(cache, &list.files[i], call, user, &complete);
    }
    rt_cache_files_free(&list);
    return complete;
}
