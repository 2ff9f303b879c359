/* What the commands share: the folder, and words for what is in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli.h"
#include "smla_cache.h"

int cache_print_json(json_t *root)
{
    const int failed = root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0 || putchar('\n') == EOF;
    json_decref(root);
    return failed ? cli_fail(CLI_CHECK_FAILED, "cannot print the JSON result") : CLI_FINE;
}

char *cache_folder_of(const struct cache_options *options)
{
    char *folder = options->cache == NULL ? rt_cache_default_dir() : realpath(options->cache, NULL);
    if (folder == NULL && options->cache != NULL)
        folder = strdup(options->cache); /* not there yet */
    if (folder == NULL)
        cli_fail(0, "there is no cache folder: SMLA_CACHE_DIR, XDG_CACHE_HOME and HOME are unset");
    return folder;
}

void cache_log_line(void *user, int32_t level, const char *line)
{
    (void)user;
    if (level == SMLA_LOG_WARNING)
        cli_fail(0, "%s", line);
}

int cache_open(const struct cache_options *options, bool writable, struct cache_folder *folder)
{
    const struct rt_log log = {.fn = cache_log_line};
    struct stat info;
    *folder = (struct cache_folder){.path = cache_folder_of(options)};
    if (folder->path == NULL)
        return CLI_UNAVAILABLE;
    if (stat(folder->path, &info) != 0 && errno == ENOENT)
        return CLI_FINE; /* nothing was cached yet */
    return rt_cache_open(folder->path, writable, true, &log, &folder->cache) == SMLA_OK ? CLI_FINE
                                                                                        : cli_smla_error(folder->path);
}

int cache_not_read(const struct cache_folder *folder)
{
    return cli_fail(CLI_USAGE, "the folder '%s' cannot be read, or not all of it", folder->path);
}

int cache_open_list(const struct cache_options *options, bool writable, struct cache_folder *folder)
{
    const int code = cache_open(options, writable, folder);
    if (code != CLI_FINE || folder->cache == NULL)
        return code;
    return rt_cache_list(folder->cache, &folder->list) ? CLI_FINE : cache_not_read(folder);
}

void cache_close(struct cache_folder *folder)
{
    rt_cache_files_free(&folder->list);
    rt_cache_close(folder->cache);
    free(folder->path);
}

bool cache_has_prefix(const struct rt_cache_file *file, const char *prefix)
{
    char id[2 * sizeof file->name.file];
    snprintf(id, sizeof id, "%s%s", file->name.shard, file->name.file);
    return !file->temporary && rt_cache_name_is_entry(&file->name) && strncmp(id, prefix, strlen(prefix)) == 0;
}

bool cache_id_has_prefix(const struct rt_key *key, const char *prefix)
{
    char id[RT_DIGEST_HEX];
    rt_digest_hex(&key->kernel_id, id);
    return strncmp(id, prefix, strlen(prefix)) == 0;
}

bool cache_is_prefix(const char *text)
{
    const size_t length = strlen(text);
    if (length > 0 && length < RT_DIGEST_HEX && strspn(text, "0123456789abcdef") == length)
        return true;
    cli_fail(0, "'%s' is no beginning of a kernel id: 1 to 64 of 0-9 and a-f", text);
    return false;
}

const char *cache_kind_name(enum rt_kind kind)
{
    return kind == RT_KIND_PTX ? "ptx" : "cubin";
}

void cache_time_text(int64_t time_s, char text[CACHE_TIME_BYTES])
{
    const time_t seconds = (time_t)time_s;
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(text, CACHE_TIME_BYTES, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
        snprintf(text, CACHE_TIME_BYTES, "unknown");
}
