/* What the commands of smla-cache share. */
#ifndef SMLA_TOOLS_SMLA_CACHE_H
#define SMLA_TOOLS_SMLA_CACHE_H

#include <jansson.h>

#include "shapes.h"

struct cache_options {
    struct shapes_options shapes;
    const char *cache;
    const char *nvrtc;
    size_t threads;
    bool json;
    bool check;
};

/* The folder in use; malloc'd. NULL after a sentence. */
char *cache_folder_of(const struct cache_options *options);

/* Tells the library's warnings as sentences (rt_log, smla_context_desc.log). */
void cache_log_line(void *user, int32_t level, const char *line);

/* Prints and drops `root`; NULL stands for one that could not be made. Returns an exit code. */
int cache_print_json(json_t *root);

/* smla-cache warm. Returns an exit code. */
int cache_warm(const struct cache_options *options);

#endif
