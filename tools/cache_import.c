/* smla-cache import: entries out of a tar archive, each verified before it is written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache_archive.h"
#include "cli.h"
#include "settings.h"
#include "smla_cache.h"

struct imported {
    const struct cache_options *options;
    char *path;
    struct rt_cache *cache;
    struct archive *archive;
    json_t *left_out; /* {name, why} */
    size_t members;   /* that were told or taken */
    size_t written;
    uint64_t written_bytes;
    size_t present; /* before */
};

static void leave_out(struct imported *imported, const char *name, const char *why)
{
    cli_fail(0, "left out: %s: %s", name, why);
    json_array_append_new(imported->left_out, json_pack("{s:s, s:s}", "name", name, "why", why));
}

/* "v1/ab/<name>", "./" before it or not. */
static bool read_name(const char *path, struct rt_cache_name *name)
{
    static const char version[] = RT_CACHE_VERSION_DIR "/";
    *name = (struct rt_cache_name){.shard = ""};
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    if (strncmp(path, version, strlen(version)) != 0)
        return false;
    path += strlen(version);
    if (strlen(path) < RT_SHARD_BYTES || path[RT_SHARD_BYTES - 1] != '/' ||
        strlen(path) - RT_SHARD_BYTES >= sizeof name->file)
        return false;
    snprintf(name->shard, sizeof name->shard, "%.2s", path);
    snprintf(name->file, sizeof name->file, "%s", path + RT_SHARD_BYTES);
    return rt_cache_name_is_entry(name);
}

/* Whether the folder has a sound entry of that name. */
static bool is_present(const struct imported *imported, const struct rt_cache_name *name)
{
    char why[256];
    struct rt_cache_file file = {.name = *name};
    struct rt_entry entry;
    if (rt_cache_file_read(imported->cache, &file, &entry, why) != RT_READ_OK)
        return false;
    rt_entry_free(&entry);
    return true;
}

static int take_entry(struct imported *imported, const struct rt_cache_name *name, const struct rt_entry *entry)
{
    if (is_present(imported, name)) {
        imported->present++;
        return CLI_FINE;
    }
    if (!rt_cache_publish(imported->cache, entry)) /* which has said why */
        return cli_fail(CLI_USAGE,
                        "stopped: the folder '%s' takes no more. Make room and call again: what is there stays",
                        imported->path);
    imported->written++;
    imported->written_bytes += entry->file_size;
    return CLI_FINE;
}

/* Reads a member's bytes and takes the entry. *readable: the archive goes on. */
static int take_file(struct imported *imported, const struct cache_member *member, const struct rt_cache_name *name,
                     bool *readable)
{
    const size_t size = (size_t)member->size_bytes;
    char why[CACHE_ARCHIVE_WHY];
    struct rt_entry entry;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    *readable = cache_archive_read(imported->archive, bytes, size, why);
    if (!*readable) {
        free(bytes);
        leave_out(imported, member->name, why);
        return CLI_FINE;
    }
    if (!rt_cache_entry_of(name, bytes, size, &entry, why)) {
        leave_out(imported, member->name, why);
        return CLI_FINE;
    }
    const int code = take_entry(imported, name, &entry);
    rt_entry_free(&entry);
    return code;
}

static int take_member(struct imported *imported, const struct cache_member *member, bool *readable)
{
    struct rt_cache_name name;
    imported->members++;
    if (member->kind == CACHE_MEMBER_FOLDER)
        return CLI_FINE;
    if (member->kind != CACHE_MEMBER_FILE)
        leave_out(imported, member->name, "not a regular file");
    else if (!read_name(member->name, &name))
        leave_out(imported, member->name, "not the name of an entry");
    else if (member->size_bytes <= 0 || member->size_bytes > RT_ENTRY_MAX_BYTES)
        leave_out(imported, member->name, "empty, or larger than an entry may be");
    else
        return take_file(imported, member, &name, readable);
    return CLI_FINE;
}

static int take_members(struct imported *imported)
{
    char why[CACHE_ARCHIVE_WHY];
    struct cache_member member;
    bool readable = true;
    int code = CLI_FINE;
    while (code == CLI_FINE && readable) {
        if (!cache_archive_next(imported->archive, &member, why))
            return cli_fail(imported->members == 0 ? CLI_USAGE : CLI_CHECK_FAILED, "'%s' cannot be read%s: %s",
                            imported->options->operands[0], imported->members == 0 ? "" : " to its end", why);
        if (member.kind == CACHE_MEMBER_END)
            break;
        code = take_member(imported, &member, &readable);
    }
    return code;
}

static int open_folder(struct imported *imported)
{
    const struct rt_log log = {.fn = cache_log_line};
    imported->path = cache_folder_of(imported->options);
    if (imported->path == NULL)
        return CLI_UNAVAILABLE;
    uint64_t cap_bytes;
    if (rt_settings_cache_bytes(&cap_bytes) != SMLA_OK ||
        rt_cache_open(imported->path, true, true, &log, &imported->cache) != SMLA_OK)
        return cli_smla_error(imported->path);
    rt_cache_set_cap(imported->cache, cap_bytes);
    return CLI_FINE;
}

static int import_from(struct imported *imported, int fd)
{
    char why[CACHE_ARCHIVE_WHY];
    imported->archive = cache_archive_open(fd, why);
    if (imported->archive == NULL)
        return cli_fail(CLI_USAGE, "'%s' is no tar archive: %s", imported->options->operands[0], why);
    int code = open_folder(imported);
    if (code == CLI_FINE)
        code = take_members(imported);
    cache_archive_close(imported->archive);
    return code;
}

/* ---- A bundle ---- */

struct from_smlab {
    struct imported *imported;
    int code; /* other than CLI_FINE: the folder takes no more */
};

static void take_row(void *user, const struct rt_smlab_row *row, const struct rt_entry *entry, const char *why)
{
    struct from_smlab *from = user;
    char text[CACHE_ROW_BYTES];
    struct rt_cache_name name;
    cache_row_name(from->imported->options->operands[0], row, text);
    rt_cache_name_make(&row->key, &row->builder.build_id, &name);
    if (entry == NULL)
        leave_out(from->imported, text, why);
    else if (from->code == CLI_FINE)
        from->code = take_entry(from->imported, &name, entry);
}

static int import_smlab(struct imported *imported)
{
    struct from_smlab from = {.imported = imported};
    struct rt_smlab *smlab;
    int code = cache_open_smlab(imported->options->operands[0], &smlab);
    if (smlab == NULL)
        return code;
    const int opened = open_folder(imported);
    if (opened == CLI_FINE)
        (void)cache_visit_smlab(smlab, take_row, &from);
    rt_smlab_close(smlab);
    return cli_worse(code, cli_worse(opened, from.code));
}

static int print_summary(const struct imported *imported)
{
    if (imported->options->json)
        return cache_print_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:O}", "path", imported->path, "file",
                                          imported->options->operands[0], "written", (json_int_t)imported->written,
                                          "bytes", (json_int_t)imported->written_bytes, "present",
                                          (json_int_t)imported->present, "left_out", imported->left_out));
    printf("%zu entries of %" PRIu64 " bytes written to %s, %zu were there, %zu left out\n", imported->written,
           imported->written_bytes, imported->path, imported->present, json_array_size(imported->left_out));
    return CLI_FINE;
}

int cache_import(const struct cache_options *options)
{
    const char *file = options->operands[0];
    struct imported imported = {.options = options, .left_out = json_array()};
    const bool smlab = smlab_is_path(file);
    int code = smlab ? import_smlab(&imported) : cache_archive_load();
    const int fd = smlab                    ? -1
                   : code != CLI_FINE       ? -1
                   : strcmp(file, "-") == 0 ? STDIN_FILENO
                                            : open(file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        code = import_from(&imported, fd);
    else if (code == CLI_FINE && !smlab)
        code = cli_fail(CLI_USAGE, "cannot open '%s': %s", file, strerror(errno));
    if (imported.cache != NULL)
        code = cli_worse(code, print_summary(&imported));
    if (json_array_size(imported.left_out) > 0)
        code = cli_worse(code, CLI_CHECK_FAILED);
    if (fd > STDIN_FILENO)
        close(fd);
    json_decref(imported.left_out);
    rt_cache_close(imported.cache);
    free(imported.path);
    return code;
}
