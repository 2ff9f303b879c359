/* What the files of the cache share. */
#ifndef SMLA_RUNTIME_CACHE_INTERNAL_H
#define SMLA_RUNTIME_CACHE_INTERNAL_H

#include "cache.h"
#include "cache_name.h"
#include "file.h"

struct rt_cache {
    char *dir;  /* NULL: a cache that always misses */
    int folder; /* held open; -1 when dir is NULL */
    bool writable;
    bool system;
    bool is_default; /* a folder by a home: the folders above it are looked at */
    struct rt_log log;
    int last_write_error; /* logged last; atomic, so that a full disk is one line and not one a kernel */
    struct rt_cache_counters counters;
    /* For removing the least recently used; read and written with __atomic builtins. */
    uint64_t cap_bytes;
    uint64_t published;   /* entries */
    uint64_t known_bytes; /* in the folder when it was last listed, and published since */
    bool collecting;      /* a thread is at it */
};

static inline void rt_cache_count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Of the user's folder, or of the system's, which is never written to. */
static inline uint32_t rt_cache_tier(const struct rt_cache *cache)
{
    return cache->system ? SMLA_TIER_SYSTEM : SMLA_TIER_CACHE;
}

/* Opens v1/<shard>, made first when `make`. Returns a descriptor, or -1 with an errno and a sentence. */
int rt_cache_open_shard(const struct rt_cache *cache, const char *shard, bool make, int *error, char why[256]);

/* Called after an entry was published: now and then, and when the folder seems to hold more than the cap, removes the
 * entries that were not used for longest. */
void rt_cache_collect_after(struct rt_cache *cache, const struct rt_entry *published);

/* Reads and verifies the entry in a file by what its name says. *status: of the file, for removing a damaged one; zero
 * when it could not be opened. */
enum rt_read_result rt_cache_read_entry(int shard, const struct rt_cache_name *name, struct rt_entry *out,
                                        struct stat *status, char why[256]);

#endif
