/* smla-cache verify: every entry read in full, as the loader reads it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "smla_cache.h"

struct verification {
    const struct cache_options *options;
    struct cache_folder folder;
    json_t *bad;
    size_t sound;
    uint64_t sound_bytes;
    size_t bad_left;
    size_t removed;
};

/* What became of it: a word for people, and whether it is gone. */
static const char *repair(const struct verification *verification, const struct rt_cache_file *file, bool *gone)
{
    switch (rt_cache_file_remove(verification->folder.cache, file)) {
    case RT_REMOVED:
        *gone = true;
        return "removed";
    case RT_REMOVE_GONE:
        *gone = true;
        return "somebody else removed it";
    case RT_REMOVE_CHANGED:
        return "another file by now, left alone";
    default:
        return strerror(errno);
    }
}

static void tell_bad(struct verification *verification, const struct rt_cache_file *file, bool damaged, const char *why)
{
    const char *verdict = damaged ? "damaged" : "not used";
    const char *repaired = NULL;
    bool gone = false;
    char *path = rt_cache_file_path(verification->folder.cache, &file->name);
    if (damaged && verification->options->repair)
        repaired = repair(verification, file, &gone);
    verification->removed += gone;
    verification->bad_left += !gone;
    if (!verification->options->json)
        printf("%s: %s: %s%s%s\n", verdict, path != NULL ? path : file->name.file, why, repaired != NULL ? "; " : "",
               repaired != NULL ? repaired : "");
    json_array_append_new(verification->bad,
                          json_pack("{s:s, s:I, s:s, s:s, s:b}", "path", path != NULL ? path : file->name.file, "bytes",
                                    (json_int_t)file->status.st_size, "verdict", verdict, "why", why, "removed",
                                    (int)gone));
    free(path);
}

static void verify_file(struct verification *verification, struct rt_cache_file *file)
{
    char why[256];
    struct rt_entry entry;
    const enum rt_read_result result = rt_cache_file_read(verification->folder.cache, file, &entry, why);
    if (result == RT_READ_OK) {
        verification->sound++;
        verification->sound_bytes += entry.file_size;
        rt_entry_free(&entry);
    } else if (result != RT_READ_ABSENT) {
        tell_bad(verification, file, result == RT_READ_DAMAGED, why);
    }
}

static int print_summary(const struct verification *verification)
{
    const struct verification *of = verification;
    if (of->options->json)
        return cache_print_json(json_pack("{s:s, s:I, s:I, s:I, s:O}", "path", of->folder.path, "sound",
                                          (json_int_t)of->sound, "bytes", (json_int_t)of->sound_bytes, "removed",
                                          (json_int_t)of->removed, "bad", of->bad));
    printf("%zu sound entries, %" PRIu64 " bytes in %s; %zu bad", of->sound, of->sound_bytes, of->folder.path,
           of->bad_left + of->removed);
    if (of->options->repair)
        printf(", of which %zu are removed", of->removed);
    puts("");
    return CLI_FINE;
}

int cache_verify(const struct cache_options *options)
{
    if (options->operand_count > 0)
        return cache_verify_smlab(options);
    struct verification verification = {.options = options, .bad = json_array()};
    int code = cache_open_list(options, options->repair, &verification.folder);
    for (size_t i = 0; i < verification.folder.list.count; i++)
        if (!verification.folder.list.files[i].temporary)
            verify_file(&verification, &verification.folder.list.files[i]);
    if (code == CLI_FINE || verification.folder.list.count > 0)
        code = cli_worse(code, print_summary(&verification));
    json_decref(verification.bad);
    cache_close(&verification.folder);
    return verification.bad_left > 0 ? cli_worse(code, CLI_CHECK_FAILED) : code;
}
