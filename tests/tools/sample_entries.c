/* Publishes made-up entries into a cache folder, for the tests of smla-cache. Prints each path.
 *
 * usage: sample_entries FOLDER SEED... */
#include <stdio.h>
#include <stdlib.h>

#include "cache.h"
#include "sample.h"

static bool add(struct rt_cache *cache, const char *folder, uint8_t seed)
{
    struct rt_entry entry = sample_entry(seed);
    char *path = sample_entry_path(folder, &entry);
    const bool written = rt_cache_publish(cache, &entry);
    if (written)
        puts(path);
    free(path);
    rt_entry_free(&entry);
    return written;
}

int main(int argc, char **argv)
{
    struct rt_cache *cache;
    bool ok = argc > 1 && rt_cache_open(argv[1], true, true, NULL, &cache) == SMLA_OK;
    if (!ok)
        return 2;
    for (int i = 2; i < argc; i++)
        ok &= add(cache, argv[1], (uint8_t)atoi(argv[i]));
    rt_cache_close(cache);
    return ok ? 0 : 1;
}
