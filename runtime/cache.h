/* The disk cache: a folder of entries. Nothing here is needed for a right answer: every failure is a miss, a counter
 * and one log line, and the work goes on from memory. */
#ifndef SMLA_RUNTIME_CACHE_H
#define SMLA_RUNTIME_CACHE_H

#include "entry.h"
#include "log.h"

struct rt_cache; /* opaque; safe to use from several threads */

/* Counters of one cache; read and written with __atomic builtins. */
struct rt_cache_counters {
    uint64_t written;
    uint64_t damaged;
    uint64_t errors;
};

/* Opens a folder. dir: absolute path; created 0700 (parents too) when `writable`.
 * required: the caller named it, so a folder that cannot be used is SMLA_ERROR_IO; otherwise it is logged once and
 * *out is a cache that always misses. dir NULL with required false gives such a cache too. A folder that can be read
 * but not written to is used: its entries are found, publishing fails. The log's callback must outlive the cache.
 * Returns SMLA_OK; IO; OUT_OF_MEMORY. */
smla_status rt_cache_open(const char *dir, bool writable, bool required, const struct rt_log *log,
                          struct rt_cache **out);
/* The same, not required, for a folder that nobody named but by a home or XDG_CACHE_HOME: what is above it must keep it
 * from others, too (rt_folder_is_kept). */
smla_status rt_cache_open_default(const char *dir, bool writable, const struct rt_log *log, struct rt_cache **out);
/* How many bytes of entries writers let the folder hold; RT_CACHE_CAP_BYTES unless it is said. Before it is used. */
void rt_cache_set_cap(struct rt_cache *cache, uint64_t bytes);
void rt_cache_close(struct rt_cache *cache);

/* Opens the system folder, to read. dir: NULL, or a folder that may not be there; one that cannot be used is logged
 * once. Returns SMLA_OK; OUT_OF_MEMORY. */
smla_status rt_cache_open_system(const char *dir, const struct rt_log *log, struct rt_cache **out);

/* What is looked for. Only compilers whose major is at most max_nvrtc_major count, the builder too: the driver loads no
 * other's code. */
struct rt_wanted {
    const struct rt_key *key;
    const char *arch;                 /* of the target, "sm_90a"; NULL: of whatever target */
    const struct rt_builder *builder; /* preferred when not NULL; otherwise, and next, the newest compiler's */
    int32_t max_nvrtc_major;          /* 0: any */
    const struct rt_refused *refused; /* passed over; NULL: none */
    struct rt_builder *too_new; /* becomes the newest whose entry was passed over for max_nvrtc_major; may be NULL */
};

/* Whether the builder of a kernel's entry counts; notes one that is too new. */
bool rt_is_of_builder(const struct rt_wanted *wanted, const struct rt_builder *builder);

/* Looks for an entry. True: *out is verified and owned by the caller. */
bool rt_cache_find(struct rt_cache *cache, const struct rt_wanted *wanted, struct rt_entry *out);

/* The same after a miss, while another process may publish: tells, counts and removes nothing. */
bool rt_cache_find_again(struct rt_cache *cache, const struct rt_wanted *wanted, struct rt_entry *out);

/* Removes the file of an entry that was found, unless it is another by now. */
void rt_cache_remove(struct rt_cache *cache, const struct rt_entry *entry);

/* Publishes an entry: temporary file beside the target (O_EXCL, 0600), write, fsync, rename. False when it was not
 * written (read-only, full disk, …): logged and counted, never fatal. Now and then entries that were not used for long
 * are removed (cache_gc.h). */
bool rt_cache_publish(struct rt_cache *cache, const struct rt_entry *entry);

/* True when a folder is written to, and the last attempt to publish, if there was one, did not fail. */
bool rt_cache_publishes(const struct rt_cache *cache);

/* The folder in use, or NULL. Belongs to the cache. */
const char *rt_cache_dir(const struct rt_cache *cache);
const struct rt_cache_counters *rt_cache_counters(const struct rt_cache *cache);

/* Calls visit for every entry file (for smla-cache ls), by name. valid: the file verified; info is then filled, else
 * why; the other is NULL. Removes and counts nothing. Stops when visit returns false. Returns false when the folder, or
 * one within, cannot be read, which is logged; one without entries can. */
typedef bool (*rt_cache_visit_fn)(void *user, const char *path, uint64_t size_bytes, bool valid,
                                  const struct rt_entry_info *info, const char *why);
bool rt_cache_visit(struct rt_cache *cache, rt_cache_visit_fn visit, void *user);

/* The default folder from the environment (SMLA_CACHE_DIR, XDG_CACHE_HOME, HOME, passwd; empty means unset, a relative
 * XDG path is ignored). malloc'd; NULL when there is none. */
char *rt_cache_default_dir(void);

/* The same; *origin: the variable that decided, "passwd", or NULL where there is no folder. */
char *rt_cache_default_dir_from(const char **origin);

/* The system folder of this build (the CMake variable SMLA_SYSTEM_DIR); "": none. Static storage. */
const char *rt_cache_system_dir(void);

#endif
