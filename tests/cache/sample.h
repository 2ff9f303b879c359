/* Made-up kernels, keys and folders for the tests of the cache. */
#ifndef SMLA_TESTS_CACHE_SAMPLE_H
#define SMLA_TESTS_CACHE_SAMPLE_H

#include "entry.h"

/* Parts of a made-up cubin; zeros mean the default. */
struct sample_cubin {
    const char *arch; /* in its note; NULL: no note */
    const char *symbol;
    uint8_t os_abi;
    uint8_t abi_version;
    uint32_t flags;
    size_t code_bytes;
};

/* Builds the smallest ELF file that rt_cubin_check takes for a cubin. malloc'd. */
uint8_t *sample_cubin_make(const struct sample_cubin *cubin, size_t *size);

/* An entry of a made-up kernel; `seed` decides its key and code. Freed with rt_entry_free. */
struct rt_entry_info sample_info(uint8_t seed);
struct rt_entry sample_entry(uint8_t seed);
/* The same by NVRTC major.minor. */
struct rt_entry sample_entry_by(uint8_t seed, int32_t nvrtc_major, int32_t nvrtc_minor);

/* A malloc'd copy of exactly these bytes, so that ASan sees what reads past them. */
uint8_t *sample_copy(const void *bytes, size_t size);

/* A new empty folder; sample_folder_remove removes it with everything in it and frees the name. */
char *sample_folder(void);
void sample_folder_remove(char *folder);

/* "<folder>/<rest>"; freed by the caller. */
char *sample_path(const char *folder, const char *rest);
/* Where the cache keeps an entry. */
char *sample_entry_path(const char *folder, const struct rt_entry *entry);

/* Counts the regular files below a folder whose names end in `suffix`. */
int sample_count_files(const char *folder, const char *suffix);

/* Writes a whole file, or reads one (malloc'd). */
void sample_file_write(const char *path, const void *bytes, size_t size);
uint8_t *sample_file_read(const char *path, size_t *size);

/* Runs body(argument) in a child, as user `uid` where this is root; returns what it returned, 0 to 254. */
int sample_in_child(unsigned uid, int (*body)(void *argument), void *argument);

/* The lines that a cache logged. */
struct sample_log {
    int lines;
    char last[1024];
};
void sample_log_line(void *user, int32_t level, const char *line);

#endif
