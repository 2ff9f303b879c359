/* The files of a cache folder, for keeping it small and for the tools. */
#ifndef SMLA_RUNTIME_CACHE_FILES_H
#define SMLA_RUNTIME_CACHE_FILES_H

#include "cache.h"
#include "cache_name.h"
#include "file.h"

struct rt_cache_file {
    struct rt_cache_name name;
    struct stat status; /* of itself where it is a link; as it was last looked at */
    bool temporary;     /* being written, or left by a writer that was killed; else it ends in .smk */
};

struct rt_cache_files {
    struct rt_cache_file *files;
    size_t count;
};

/* Lists the entries and temporary files, by name. A folder within that cannot be read or is not trusted is logged and
 * left out. Returns false when there was one, or no memory. In every case the caller frees *out. */
bool rt_cache_list(const struct rt_cache *cache, struct rt_cache_files *out);
void rt_cache_files_free(struct rt_cache_files *files);

/* Reads and verifies a listed entry. RT_READ_OK: *out is the caller's. The others but ABSENT come with a
 * sentence. file->status becomes that of what was opened. */
enum rt_read_result rt_cache_file_read(const struct rt_cache *cache, struct rt_cache_file *file, struct rt_entry *out,
                                       char why[256]);

/* Verifies bytes by the name that they have or are to have in a cache. Takes ownership of `bytes` (malloc'd) in every
 * case. On false *out is untouched and why[] says why. */
bool rt_cache_entry_of(const struct rt_cache_name *name, uint8_t *bytes, size_t size, struct rt_entry *out,
                       char why[256]);

/* Removes a listed file unless it is another by now. */
enum rt_remove_result rt_cache_file_remove(const struct rt_cache *cache, const struct rt_cache_file *file);

/* "<folder>/v1/<hh>/<file>"; malloc'd, NULL without memory. */
char *rt_cache_file_path(const struct rt_cache *cache, const struct rt_cache_name *name);

#endif
