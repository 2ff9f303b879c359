/* smla-cache ls and path. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "smla_cache.h"

int cache_path(const struct cache_options *options)
{
    char *folder = cache_folder_of(options);
    if (folder == NULL)
        return CLI_UNAVAILABLE;
    int code = CLI_FINE;
    if (options->json)
        code = cache_print_json(json_pack("{s:s}", "path", folder));
    else
        puts(folder);
    free(folder);
    return code;
}

struct listing {
    json_t *rows;
    bool json;
    size_t bad;
    size_t count;
    uint64_t bytes;
    const char *smlab; /* the bundle's path, of a bundle */
};

json_t *cache_entry_json(const char *path, uint64_t size_bytes, const struct rt_entry_info *info)
{
    char id[RT_DIGEST_HEX];
    rt_digest_hex(&info->key.kernel_id, id);
    return json_pack("{s:s, s:b, s:I, s:s, s:s, s:s, s:s, s:[i, i], s:i, s:i, s:i, s:I}", "path", path, "valid", 1,
                     "bytes", (json_int_t)size_bytes, "kernel_id", id, "kind", cache_kind_name(info->key.kind), "arch",
                     info->arch, "description", info->description, "nvrtc", (int)info->builder.nvrtc_major,
                     (int)info->builder.nvrtc_minor, "registers", (int)info->registers, "spill_bytes",
                     (int)info->spill_bytes, "local_bytes", (int)info->local_bytes, "compile_ms",
                     (json_int_t)info->compile_ms);
}

static void list_valid(struct listing *listing, const char *path, uint64_t size_bytes, const struct rt_entry_info *info)
{
    char id[RT_DIGEST_HEX];
    rt_digest_hex(&info->key.kernel_id, id);
    if (!listing->json)
        printf("%.16s  %-8s %-5s  nvrtc %d.%d  %8" PRIu64 " bytes  %3d registers  %d spilled  %s\n", id, info->arch,
               cache_kind_name(info->key.kind), info->builder.nvrtc_major, info->builder.nvrtc_minor, size_bytes,
               info->registers, info->spill_bytes, info->description);
    json_array_append_new(listing->rows, cache_entry_json(path, size_bytes, info));
}

/* verdict: "damaged", or "not used" of what is not trusted or no file, as verify says. */
static void list_bad(struct listing *listing, const char *path, uint64_t size_bytes, const char *verdict,
                     const char *why)
{
    listing->bad++;
    if (!listing->json)
        printf("%s: %s: %s\n", verdict, path, why);
    json_array_append_new(listing->rows, json_pack("{s:s, s:b, s:I, s:s, s:s}", "path", path, "valid", 0, "bytes",
                                                   (json_int_t)size_bytes, "verdict", verdict, "why", why));
}

static void list_file(struct listing *listing, const struct cache_folder *folder, struct rt_cache_file *file)
{
    char why[256];
    struct rt_entry entry;
    const enum rt_read_result result = rt_cache_file_read(folder->cache, file, &entry, why);
    const uint64_t size_bytes = (uint64_t)file->status.st_size;
    char *path = rt_cache_file_path(folder->cache, &file->name);
    if (result != RT_READ_ABSENT) {
        listing->count++;
        listing->bytes += size_bytes;
    }
    if (result == RT_READ_OK) {
        list_valid(listing, path, size_bytes, &entry.info);
        rt_entry_free(&entry);
    } else if (result != RT_READ_ABSENT) {
        list_bad(listing, path, size_bytes, result == RT_READ_DAMAGED ? "damaged" : "not used", why);
    }
    free(path);
}

static void list_row(void *user, const struct rt_smlab_row *row, const struct rt_entry *entry, const char *why)
{
    struct listing *listing = user;
    char name[CACHE_ROW_BYTES];
    cache_row_name(listing->smlab, row, name);
    listing->count++;
    listing->bytes += row->size;
    if (entry != NULL)
        list_valid(listing, listing->smlab, row->size, &entry->info);
    else
        list_bad(listing, name, row->size, "damaged", why);
}

static int list_smlab(const struct cache_options *options)
{
    struct listing listing = {.rows = json_array(), .json = options->json, .smlab = options->operands[0]};
    struct rt_smlab *smlab;
    int code = cache_open_smlab(listing.smlab, &smlab);
    if (smlab != NULL) {
        code = cli_worse(code, cache_visit_smlab(smlab, list_row, &listing));
        if (options->json)
            code = cli_worse(code, cache_print_json(json_incref(listing.rows)));
        else
            printf("%zu entries, %" PRIu64 " bytes in %s\n", listing.count, listing.bytes, listing.smlab);
    }
    json_decref(listing.rows);
    rt_smlab_close(smlab);
    return code;
}

int cache_ls(const struct cache_options *options)
{
    if (options->operand_count > 0)
        return list_smlab(options);
    struct listing listing = {.rows = json_array(), .json = options->json};
    struct cache_folder folder;
    int code = cache_open_list(options, false, &folder);
    for (size_t i = 0; i < folder.list.count; i++)
        if (!folder.list.files[i].temporary)
            list_file(&listing, &folder, &folder.list.files[i]);
    if (code == CLI_FINE && options->json)
        code = cache_print_json(json_incref(listing.rows));
    else if (code == CLI_FINE)
        printf("%zu entries, %" PRIu64 " bytes in %s\n", listing.count, listing.bytes, folder.path);
    json_decref(listing.rows);
    cache_close(&folder);
    return listing.bad > 0 ? cli_worse(code, CLI_CHECK_FAILED) : code;
}
