/* What the files of obtain share. */
#ifndef SMLA_RUNTIME_OBTAIN_INTERNAL_H
#define SMLA_RUNTIME_OBTAIN_INTERNAL_H

#include "context.h"

struct rt_request {
    smla_context *context;
    const struct gen_bundle *bundle;
    int32_t max_nvrtc_major;
    struct rt_refused refused;
};

enum { RT_PLACE_BYTES = 512 };

/* The file of an entry that was found. False where the path was cut. */
bool rt_entry_path(const struct rt_entry *entry, char path[RT_PLACE_BYTES]);

/* Tells an event about the kernel, with the line's own words in front of its description. A failure that the caller
 * gets as a status is no warning. */
void rt_request_tell(const struct rt_request *request, const struct rt_key *key, struct rt_event event,
                     const char *words);

/* … that the source was refused before, and is not compiled. */
void rt_request_tell_remembered(const struct rt_request *request, const struct rt_key *key);

/* Looks into the cache folder; again: after a miss. A compiler that is not open yet stays closed when the folder has
 * the entry. */
bool rt_request_find_on_disk(const struct rt_request *request, const struct rt_key *key, bool again,
                             struct rt_entry *out);

/* Makes what no tier has, or takes it from another process that makes it meanwhile. *lasting as in store.h. */
smla_status rt_request_make_missing(const struct rt_request *request, const struct rt_key *key, struct rt_entry *out,
                                    bool *lasting);

#endif
