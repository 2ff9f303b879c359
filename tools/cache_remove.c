/* smla-cache gc. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_gc.h"
#include "cache_marker.h"
#include "cli.h"
#include "settings.h"
#include "smla_cache.h"

struct removal {
    const struct cache_options *options;
    struct cache_folder folder;
    json_t *removed; /* paths */
    bool failed;     /* one failure was told; the others are counted */
};

static void tell_removed(void *user, const struct rt_cache_file *file, enum rt_remove_result result)
{
    struct removal *removal = user;
    const int error = errno;
    char *path = rt_cache_file_path(removal->folder.cache, &file->name);
    if (result == RT_REMOVED) {
        if (removal->options->dry_run && !removal->options->json)
            printf("would remove %s\n", path);
        json_array_append_new(removal->removed, json_string(path));
    } else if (!removal->failed) {
        removal->failed = true;
        cli_fail(0, "cannot remove '%s': %s", path, strerror(error));
    }
    free(path);
}

static int print_summary(const struct removal *removal, const struct rt_cache_collected *done)
{
    const struct cache_options *options = removal->options;
    const size_t left = done->entries - done->removed - done->vanished;
    const uint64_t left_bytes = done->bytes - done->removed_bytes - done->vanished_bytes;
    if (options->json)
        return cache_print_json(
            json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "path", removal->folder.path,
                      "dry_run", (int)options->dry_run, "entries", (json_int_t)done->entries, "bytes",
                      (json_int_t)done->bytes, "removed_entries", (json_int_t)done->removed, "removed_bytes",
                      (json_int_t)done->removed_bytes, "removed_temporaries", (json_int_t)done->temporaries, "vanished",
                      (json_int_t)done->vanished, "failed", (json_int_t)done->failed, "left_entries", (json_int_t)left,
                      "left_bytes", (json_int_t)left_bytes, "removed", removal->removed));
    printf("%s %zu entries of %" PRIu64 " bytes and %zu temporary files; %zu entries of %" PRIu64 " bytes stay in %s\n",
           options->dry_run ? "would remove" : "removed", done->removed, done->removed_bytes, done->temporaries, left,
           left_bytes, removal->folder.path);
    if (left_bytes > options->max_bytes && done->failed == 0)
        cli_fail(0, "more than --max-bytes stay: they were used within the hour");
    return CLI_FINE;
}

int cache_gc(const struct cache_options *options)
{
    struct cache_options settled = *options;
    if (options->max_bytes == CACHE_MAX_BYTES_UNSAID && rt_settings_cache_bytes(&settled.max_bytes) != SMLA_OK)
        return cli_worse(CLI_USAGE, cli_smla_error("gc"));
    options = &settled;
    struct removal removal = {.options = options, .removed = json_array()};
    const struct rt_cache_limits limits = {.max_bytes = options->max_bytes,
                                           .down_to_bytes = options->max_bytes,
                                           .max_age_s = options->max_age_s,
                                           .dead_writers = true,
                                           .dry_run = options->dry_run};
    struct rt_cache_collected done = {0};
    int code = cache_open(options, !options->dry_run, &removal.folder);
    if (removal.folder.cache != NULL && !rt_cache_gc(removal.folder.cache, &limits, tell_removed, &removal, &done))
        code = cache_not_read(&removal.folder);
    if (code == CLI_FINE || removal.folder.cache != NULL)
        code = cli_worse(code, print_summary(&removal, &done));
    /* It says that kernels are there which may not be any more. */
    if (done.removed > 0 && !options->dry_run)
        code = cli_worse(code, cache_marker_remove(removal.folder.path));
    if (done.failed > 0)
        code = cli_worse(code, cli_fail(CLI_CHECK_FAILED, "%zu files could not be removed", done.failed));
    json_decref(removal.removed);
    cache_close(&removal.folder);
    return code;
}
