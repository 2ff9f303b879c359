/* smla-cache stats. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_gc.h"
#include "cli.h"
#include "smla_cache.h"

struct count {
    size_t entries;
    uint64_t bytes;
};

/* Sound entries that have something in common. */
struct group {
    char name[48];
    struct count count;
};

enum { GROUPS = 64, BY_TARGET = 0, BY_KIND, BY_COMPILER, GROUPINGS };

static const char *const grouping_names[GROUPINGS] = {"targets", "kinds", "compilers"};

struct statistics {
    struct cache_folder folder;
    struct count sound;
    struct count bad;
    struct count temporary;
    size_t stale; /* temporary files that nobody writes any more */
    int64_t oldest_s;
    int64_t newest_s;
    struct group groups[GROUPINGS][GROUPS];
};

static void add(struct count *count, uint64_t bytes)
{
    count->entries++;
    count->bytes += bytes;
}

/* The last group takes what has no room. */
static void add_to_group(struct group *groups, const char *name, uint64_t bytes)
{
    size_t i = 0;
    while (i < GROUPS - 1 && groups[i].name[0] != 0 && strcmp(groups[i].name, name) != 0)
        i++;
    if (groups[i].name[0] == 0)
        snprintf(groups[i].name, sizeof groups[i].name, "%s", i < GROUPS - 1 ? name : "others");
    add(&groups[i].count, bytes);
}

static void add_sound(struct statistics *statistics, const struct rt_cache_file *file, const struct rt_entry *entry)
{
    const struct rt_builder *builder = &entry->info.builder;
    const int64_t used_s = (int64_t)file->status.st_mtim.tv_sec;
    char id[RT_DIGEST_HEX], compiler[48];
    rt_digest_hex(&builder->build_id, id);
    snprintf(compiler, sizeof compiler, "NVRTC %d.%d, %.16s", (int)builder->nvrtc_major, (int)builder->nvrtc_minor, id);
    if (statistics->sound.entries == 0 || used_s < statistics->oldest_s)
        statistics->oldest_s = used_s;
    if (statistics->sound.entries == 0 || used_s > statistics->newest_s)
        statistics->newest_s = used_s;
    add(&statistics->sound, entry->file_size);
    add_to_group(statistics->groups[BY_TARGET], entry->info.arch, entry->file_size);
    add_to_group(statistics->groups[BY_KIND], cache_kind_name(entry->info.key.kind), entry->file_size);
    add_to_group(statistics->groups[BY_COMPILER], compiler, entry->file_size);
}

static void add_file(struct statistics *statistics, struct rt_cache_file *file)
{
    char why[256];
    struct rt_entry entry;
    if (file->temporary) {
        add(&statistics->temporary, (uint64_t)file->status.st_size);
        statistics->stale += rt_cache_is_stale(file, true);
        return;
    }
    const enum rt_read_result result = rt_cache_file_read(statistics->folder.cache, file, &entry, why);
    if (result == RT_READ_OK) {
        add_sound(statistics, file, &entry);
        rt_entry_free(&entry);
    } else if (result != RT_READ_ABSENT) {
        add(&statistics->bad, (uint64_t)file->status.st_size);
    }
}

static json_t *json_of(const struct count *count)
{
    return json_pack("{s:I, s:I}", "entries", (json_int_t)count->entries, "bytes", (json_int_t)count->bytes);
}

static json_t *groups_json(const struct group *groups)
{
    json_t *root = json_object();
    for (size_t i = 0; i < GROUPS && groups[i].name[0] != 0; i++)
        json_object_set_new(root, groups[i].name, json_of(&groups[i].count));
    return root;
}

static int print_json(const struct statistics *statistics)
{
    const struct statistics *of = statistics;
    json_t *root = json_pack("{s:s, s:b, s:I, s:I, s:o, s:o, s:I}", "path", of->folder.path, "exists",
                             (int)(of->folder.cache != NULL), "entries", (json_int_t)of->sound.entries, "bytes",
                             (json_int_t)of->sound.bytes, "bad", json_of(&of->bad), "temporary",
                             json_of(&of->temporary), "stale", (json_int_t)of->stale);
    json_object_set_new(root, "oldest_use_s", of->sound.entries > 0 ? json_integer(of->oldest_s) : json_null());
    json_object_set_new(root, "newest_use_s", of->sound.entries > 0 ? json_integer(of->newest_s) : json_null());
    for (size_t i = 0; i < GROUPINGS; i++)
        json_object_set_new(root, grouping_names[i], groups_json(of->groups[i]));
    return cache_print_json(root);
}

static int print_text(const struct statistics *statistics)
{
    const struct statistics *of = statistics;
    char oldest[CACHE_TIME_BYTES], newest[CACHE_TIME_BYTES];
    printf("%s%s\n", of->folder.path, of->folder.cache == NULL ? " (not there yet)" : "");
    printf("  %-24s %7zu  %12" PRIu64 " bytes\n", "entries", of->sound.entries, of->sound.bytes);
    for (size_t i = 0; i < GROUPINGS; i++)
        for (size_t j = 0; j < GROUPS && of->groups[i][j].name[0] != 0; j++)
            printf("    %-28s %7zu  %12" PRIu64 " bytes\n", of->groups[i][j].name, of->groups[i][j].count.entries,
                   of->groups[i][j].count.bytes);
    if (of->bad.entries > 0)
        printf("  %-24s %7zu  %12" PRIu64 " bytes; smla-cache verify says which and why\n", "bad entries",
               of->bad.entries, of->bad.bytes);
    if (of->temporary.entries > 0)
        printf("  %-24s %7zu  %12" PRIu64 " bytes; %zu left behind, which smla-cache gc removes\n", "temporary files",
               of->temporary.entries, of->temporary.bytes, of->stale);
    if (of->sound.entries == 0)
        return CLI_FINE;
    cache_time_text(of->oldest_s, oldest);
    cache_time_text(of->newest_s, newest);
    printf("  used, to a day, between %s and %s\n", oldest, newest);
    return CLI_FINE;
}

int cache_stats(const struct cache_options *options)
{
    struct statistics statistics = {.sound = {0}};
    int code = cache_open_list(options, false, &statistics.folder);
    for (size_t i = 0; i < statistics.folder.list.count; i++)
        add_file(&statistics, &statistics.folder.list.files[i]);
    if (code == CLI_FINE || statistics.folder.list.count > 0)
        code = cli_worse(code, options->json ? print_json(&statistics) : print_text(&statistics));
    cache_close(&statistics.folder);
    return code;
}
