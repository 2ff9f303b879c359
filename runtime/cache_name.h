/* Names of cache entries within the folder: v1/<hh>/<62 hex>.<16 hex>.<kind>.smk. */
#ifndef SMLA_RUNTIME_CACHE_NAME_H
#define SMLA_RUNTIME_CACHE_NAME_H

#include <stdbool.h>

#include "key.h"

/* The folder of this format's entries; another major version has another. */
#define RT_CACHE_VERSION_DIR "v1"

enum {
    RT_SHARD_BYTES = 3,       /* the first two hex digits of the kernel_id, and NUL */
    RT_BUILD_PREFIX_BYTES = 8 /* of the build_id, in the name */
};

struct rt_cache_name {
    char shard[RT_SHARD_BYTES];
    char file[256]; /* any name that a folder can hold */
};

/* The name of the entry of a key by a builder. */
void rt_cache_name_make(const struct rt_key *key, const struct rt_digest *build_id, struct rt_cache_name *name);

/* Reads a key and the start of a build_id out of a name; false when it is none that rt_cache_name_make makes. */
bool rt_cache_name_parse(const char *shard, const char *file, struct rt_key *key,
                         uint8_t build_prefix[RT_BUILD_PREFIX_BYTES]);

/* True when it is one that rt_cache_name_make makes. */
bool rt_cache_name_is_entry(const struct rt_cache_name *name);

/* True for two hex digits. */
bool rt_cache_name_is_shard(const char *name);

#endif
