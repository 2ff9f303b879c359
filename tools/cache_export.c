/* smla-cache export: entries as one file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_archive.h"
#include "cli.h"
#include "smla_cache.h"

struct exported {
    const struct cache_options *options;
    struct cache_folder folder;
    struct archive *archive;
    char *temporary; /* beside the output; NULL: written in place */
    int fd;
    size_t entries;
    uint64_t bytes;
    size_t left_out;
};

static int check_prefixes(const struct cache_options *options)
{
    for (size_t i = 0; i < options->operand_count; i++)
        if (!cache_is_prefix(options->operands[i]))
            return CLI_USAGE;
    if (options->output == NULL && options->json)
        return cli_usage("--json needs -o: stdout is the archive's");
    if (options->output == NULL && isatty(STDOUT_FILENO))
        return cli_usage("an archive is nothing for a terminal: name a file with -o");
    return CLI_FINE;
}

static bool is_wanted(const struct cache_options *options, const struct rt_cache_file *file)
{
    if (options->operand_count == 0)
        return cache_has_prefix(file, "");
    for (size_t i = 0; i < options->operand_count; i++)
        if (cache_has_prefix(file, options->operands[i]))
            return true;
    return false;
}

/* ---- The file: nobody sees half of it ---- */

static int cannot(const char *doing, const char *path, const char *why)
{
    return cli_fail(CLI_USAGE, "cannot %s '%s': %s", doing, path, why);
}

static int open_output(struct exported *exported)
{
    const char *output = exported->options->output;
    struct stat info;
    if (output == NULL) {
        exported->fd = STDOUT_FILENO;
        return CLI_FINE;
    }
    const bool in_place = stat(output, &info) == 0 && !S_ISREG(info.st_mode); /* a pipe, /dev/null */
    if (!in_place && asprintf(&exported->temporary, "%s.%ld.tmp", output, (long)getpid()) < 0)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    exported->fd = in_place ? open(output, O_WRONLY | O_CLOEXEC)
                            : open(exported->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return exported->fd >= 0 ? CLI_FINE : cannot("write", output, strerror(errno));
}

/* code: of what was done so far; what failed is removed. */
static int close_output(struct exported *exported, int code)
{
    const char *output = exported->options->output;
    if (output == NULL || exported->fd < 0)
        return code;
    const bool keep = exported->entries > 0 && (code == CLI_FINE || code == CLI_CHECK_FAILED);
    bool ok = exported->temporary == NULL || fsync(exported->fd) == 0;
    ok = close(exported->fd) == 0 && ok;
    if (exported->temporary != NULL && keep && ok)
        ok = rename(exported->temporary, output) == 0;
    if (!ok)
        code = cli_worse(code, cannot("write", output, strerror(errno)));
    if (exported->temporary != NULL && !(keep && ok))
        (void)unlink(exported->temporary);
    return code;
}

/* ---- The entries ---- */

static int add_entry(struct exported *exported, const struct rt_cache_file *file, const struct rt_entry *entry)
{
    char name[sizeof RT_CACHE_VERSION_DIR + sizeof file->name + 2];
    char why[CACHE_ARCHIVE_WHY];
    snprintf(name, sizeof name, RT_CACHE_VERSION_DIR "/%s/%s", file->name.shard, file->name.file);
    if (!cache_archive_add(exported->archive, name, entry->file, entry->file_size, why))
        return cannot("write", exported->options->output != NULL ? exported->options->output : "stdout", why);
    exported->entries++;
    exported->bytes += entry->file_size;
    return CLI_FINE;
}

/* False: it is not there any more, or bad, which is told. */
static bool read_entry(struct exported *exported, struct rt_cache_file *file, struct rt_entry *entry)
{
    char why[256];
    const enum rt_read_result result = rt_cache_file_read(exported->folder.cache, file, entry, why);
    if (result == RT_READ_OK || result == RT_READ_ABSENT)
        return result == RT_READ_OK;
    exported->left_out++;
    cli_fail(0, "left out: " RT_CACHE_VERSION_DIR "/%s/%s is %s: %s", file->name.shard, file->name.file,
             result == RT_READ_DAMAGED ? "damaged" : "not used", why);
    return false;
}

/* Only a failure to write ends it. */
static int export_file(struct exported *exported, struct rt_cache_file *file)
{
    struct rt_entry entry;
    if (!read_entry(exported, file, &entry))
        return CLI_FINE;
    const int code = add_entry(exported, file, &entry);
    rt_entry_free(&entry);
    return code;
}

static int export_all(struct exported *exported)
{
    char why[CACHE_ARCHIVE_WHY];
    int code = open_output(exported);
    if (code != CLI_FINE)
        return code;
    exported->archive = cache_archive_create(exported->fd, why);
    if (exported->archive == NULL)
        return close_output(exported, cannot("write", "the archive", why));
    for (size_t i = 0; i < exported->folder.list.count && code == CLI_FINE; i++)
        if (is_wanted(exported->options, &exported->folder.list.files[i]))
            code = export_file(exported, &exported->folder.list.files[i]);
    if (!cache_archive_finish(exported->archive, why) && code == CLI_FINE)
        code = cannot("write", "the archive", why);
    if (code == CLI_FINE && exported->entries == 0)
        code = cli_fail(CLI_CHECK_FAILED, "there is no such entry in '%s'", exported->folder.path);
    if (code == CLI_FINE && exported->left_out > 0)
        code = CLI_CHECK_FAILED;
    return close_output(exported, code);
}

/* ---- A bundle ---- */

/* Reads all entries that are wanted; *list has room for them. */
static void read_wanted(struct exported *exported, struct rt_entry *list)
{
    for (size_t i = 0; i < exported->folder.list.count; i++) {
        struct rt_cache_file *file = &exported->folder.list.files[i];
        if (is_wanted(exported->options, file) && read_entry(exported, file, &list[exported->entries]))
            exported->bytes += list[exported->entries++].file_size;
    }
}

static int export_smlab(struct exported *exported)
{
    const char *output = exported->options->output;
    struct rt_entry *list = calloc(exported->folder.list.count + 1, sizeof *list);
    size_t size_bytes;
    int code = CLI_FINE;
    if (list == NULL)
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    read_wanted(exported, list);
    if (exported->entries == 0)
        code = cli_fail(CLI_CHECK_FAILED, "there is no such entry in '%s'", exported->folder.path);
    else
        code = smlab_write(output, list, exported->entries, &size_bytes);
    for (size_t i = 0; i < exported->entries; i++)
        rt_entry_free(&list[i]);
    free(list);
    return code == CLI_FINE && exported->left_out > 0 ? CLI_CHECK_FAILED : code;
}

static int print_summary(const struct exported *exported)
{
    if (exported->options->json)
        return cache_print_json(json_pack("{s:s, s:s, s:I, s:I, s:I}", "path", exported->folder.path, "file",
                                          exported->options->output, "entries", (json_int_t)exported->entries, "bytes",
                                          (json_int_t)exported->bytes, "left_out", (json_int_t)exported->left_out));
    if (exported->options->output != NULL)
        printf("%zu entries of %" PRIu64 " bytes in %s, %zu left out\n", exported->entries, exported->bytes,
               exported->options->output, exported->left_out);
    return CLI_FINE;
}

int cache_export(const struct cache_options *options)
{
    struct exported exported = {.options = options, .fd = -1};
    const bool smlab = options->output != NULL && smlab_is_path(options->output);
    int code = check_prefixes(options);
    if (code == CLI_FINE && !smlab)
        code = cache_archive_load();
    if (code != CLI_FINE)
        return code;
    code = cache_open_list(options, false, &exported.folder);
    if (code == CLI_FINE)
        code = smlab ? export_smlab(&exported) : export_all(&exported);
    if (exported.entries > 0 && (code == CLI_FINE || code == CLI_CHECK_FAILED))
        code = cli_worse(code, print_summary(&exported));
    cache_close(&exported.folder);
    free(exported.temporary);
    return code;
}
