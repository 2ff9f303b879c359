/* Keeping a cache folder small: what was not used for longest goes first. Removing is always safe: a reader has copied
 * what it uses, and what is missing is compiled again. */
#ifndef SMLA_RUNTIME_CACHE_GC_H
#define SMLA_RUNTIME_CACHE_GC_H

#include "cache_files.h"

/* Bytes of entries that writers let a folder hold, unless they are told another number. */
#define RT_CACHE_CAP_BYTES (UINT64_C(1) << 30)

/* Files younger than this are kept, by writers until the folder holds twice what it may: somebody has just compiled
 * them, or is writing them. */
enum { RT_CACHE_KEEP_S = 60 * 60 };

struct rt_cache_limits {
    uint64_t max_bytes;     /* more entries than that are too many … */
    uint64_t down_to_bytes; /* … and are removed until there are no more than this; at most max_bytes */
    uint64_t young_bytes;   /* more entries than that are too many even where those left are young; 0: any number */
    uint64_t max_age_s;     /* entries not used for longer are removed too; 0: whatever their age */
    bool dead_writers;      /* temporary files of processes that are not here are removed at once. On a folder that
                               several hosts or containers share a process may be alive and not here. */
    bool dry_run;           /* tell, remove nothing */
};

struct rt_cache_collected {
    size_t entries; /* as they were found */
    uint64_t bytes;
    size_t removed; /* by this call */
    uint64_t removed_bytes;
    size_t vanished; /* removed by somebody else meanwhile */
    uint64_t vanished_bytes;
    size_t temporaries; /* removed */
    size_t failed;      /* could not be removed */
};

/* Told of each file that was removed, or (RT_REMOVE_FAILED, with errno) could not be. */
typedef void (*rt_cache_removed_fn)(void *user, const struct rt_cache_file *file, enum rt_remove_result result);

/* Removes entries by the limits and temporary files that nobody writes any more. tell: may be NULL. Needs a writable
 * cache unless it is a dry run. Returns false when a folder could not be read. */
bool rt_cache_gc(struct rt_cache *cache, const struct rt_cache_limits *limits, rt_cache_removed_fn tell, void *user,
                 struct rt_cache_collected *out);

/* Tells whether nobody writes a temporary file any more. */
bool rt_cache_is_stale(const struct rt_cache_file *temporary, bool dead_writers);

#endif
