/* What the commands of smla-cache share. */
#ifndef SMLA_TOOLS_SMLA_CACHE_H
#define SMLA_TOOLS_SMLA_CACHE_H

#include <jansson.h>

#include "cache_files.h"
#include "shapes.h"
#include "smlab_write.h"

#define CACHE_MAX_BYTES_UNSAID UINT64_MAX

struct cache_options {
    struct shapes_options shapes;
    const char *cache;
    const char *nvrtc;
    const char *output; /* -o */
    char **operands;
    size_t operand_count;
    size_t threads;
    uint64_t max_bytes; /* CACHE_MAX_BYTES_UNSAID: as writers do */
    uint64_t max_age_s; /* 0: any */
    bool json;
    bool check;
    bool repair;
    bool dry_run;
};

/* Options that not every command takes. */
enum cache_takes {
    CACHE_TAKES_SHAPES = 1 << 0,
    CACHE_TAKES_THREADS = 1 << 1,
    CACHE_TAKES_NVRTC = 1 << 2,
    CACHE_TAKES_CHECK = 1 << 3,
    CACHE_TAKES_PROGRESS = 1 << 4,
    CACHE_TAKES_REPAIR = 1 << 5,
    CACHE_TAKES_MAX_BYTES = 1 << 6,
    CACHE_TAKES_OLDER_THAN = 1 << 7,
    CACHE_TAKES_DRY_RUN = 1 << 8,
    CACHE_TAKES_OUTPUT = 1 << 9
};

struct cache_command {
    const char *name;
    const char *does;                                /* in the list of --help */
    const char *help;                                /* of its own (cache_help.c) */
    int (*run)(const struct cache_options *options); /* returns an exit code */
    unsigned takes;
    size_t min_operands;
    size_t max_operands;
};

extern const char cache_help_ls[], cache_help_path[], cache_help_info[], cache_help_stats[], cache_help_verify[],
    cache_help_gc[], cache_help_warm[], cache_help_export[], cache_help_import[], cache_help_doctor[];

int cache_ls(const struct cache_options *options);
int cache_path(const struct cache_options *options);
int cache_info(const struct cache_options *options);
int cache_stats(const struct cache_options *options);
int cache_verify(const struct cache_options *options);
int cache_gc(const struct cache_options *options);
int cache_warm(const struct cache_options *options);
int cache_export(const struct cache_options *options);
int cache_import(const struct cache_options *options);
int cache_doctor(const struct cache_options *options);

/* ---- The folder ---- */

/* The folder in use; malloc'd. NULL after a sentence. */
char *cache_folder_of(const struct cache_options *options);

struct cache_folder {
    char *path;
    struct rt_cache *cache; /* NULL: there is no such folder yet */
    struct rt_cache_files list;
};

/* Opens the folder. Returns CLI_FINE, also without a folder; or another code after a sentence. In every case the caller
 * ends with cache_close. */
int cache_open(const struct cache_options *options, bool writable, struct cache_folder *folder);

/* The same, and lists it: also when the result is another code, what could be listed. */
int cache_open_list(const struct cache_options *options, bool writable, struct cache_folder *folder);

/* Says that the folder cannot be read in full. Returns an exit code. */
int cache_not_read(const struct cache_folder *folder);

void cache_close(struct cache_folder *folder);

/* ---- Bundles (*.smlab), of anybody ---- */

/* Opens one. Returns CLI_FINE; or another code after a sentence: with *smlab where only some of it is damaged, else
 * with NULL. The caller ends with rt_smlab_close. */
int cache_open_smlab(const char *path, struct rt_smlab **smlab);

/* Calls `call` with each entry, or with NULL and why not. Returns CLI_CHECK_FAILED where one was damaged. */
typedef void (*cache_smlab_fn)(void *user, const struct rt_smlab_row *row, const struct rt_entry *entry,
                               const char *why);
int cache_visit_smlab(const struct rt_smlab *smlab, cache_smlab_fn call, void *user);

/* "NAME.smlab: kernel 0123456789abcdef" */
enum { CACHE_ROW_BYTES = 1024 };
void cache_row_name(const char *path, const struct rt_smlab_row *row, char text[CACHE_ROW_BYTES]);

int cache_verify_smlab(const struct cache_options *options);

/* Tells the library's warnings as sentences (rt_log, smla_context_desc.log). */
void cache_log_line(void *user, int32_t level, const char *line);

/* ---- Words ---- */

/* Whether an entry's kernel id begins with the text, which has been checked to be hex. */
bool cache_has_prefix(const struct rt_cache_file *file, const char *prefix);
bool cache_id_has_prefix(const struct rt_key *key, const char *prefix);

/* Whether it is 1 to 64 lower-case hex digits. Otherwise a sentence. */
bool cache_is_prefix(const char *text);

const char *cache_kind_name(enum rt_kind kind);

/* {path, valid, bytes, kernel_id, kind, …}: what ls --json says of an entry. */
json_t *cache_entry_json(const char *path, uint64_t size_bytes, const struct rt_entry_info *info);

/* Prints and drops `root`; NULL stands for one that could not be made. Returns an exit code. */
int cache_print_json(json_t *root);

/* "2026-11-29 14:03:59 UTC" */
enum { CACHE_TIME_BYTES = 32 };
void cache_time_text(int64_t time_s, char text[CACHE_TIME_BYTES]);

#endif
