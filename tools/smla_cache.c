/* smla-cache: looks at the user's cache of compiled kernels, and fills it ahead of time. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache.h"
#include "cli.h"
#include "pool.h"
#include "shapes.h"

static const char help[] =
    "usage: smla-cache ls [--json]\n"
    "       smla-cache path [--json]\n"
    "       smla-cache warm --sm LIST (--op OP --h-q N --d-qk N ... | --from FILE) [-j N]\n"
    "\n"
    "ls lists the entries of the cache folder, path prints the folder, warm compiles kernels into\n"
    "it (without GPU and driver). The folder: --cache, else SMLA_CACHE_DIR, else\n"
    "$XDG_CACHE_HOME/smla, else ~/.cache/smla.\n"
    "\n" SHAPES_HELP "  -j N                    compile on N threads (one a core)\n"
    "  --cache DIR             another folder\n"
    "  --nvrtc PATH            the libnvrtc to use (SMLA_NVRTC, else the newest found)\n"
    "  --json                  print the result as JSON\n"
    "  --help, --version\n"
    "\n"
    "Exit: 0 fine, 1 ls found a damaged entry or a compile failed, 2 usage, 3 unsupported or\n"
    "unavailable here.\n";

struct options {
    struct shapes_options shapes;
    const char *cache;
    const char *nvrtc;
    size_t threads;
    bool json;
};

static int print_json(json_t *root)
{
    const int failed = root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0 || putchar('\n') == EOF;
    json_decref(root);
    return failed ? cli_fail(CLI_CHECK_FAILED, "cannot print the JSON result") : CLI_FINE;
}

/* The folder in use; malloc'd. NULL after a sentence. */
static char *folder_of(const struct options *options)
{
    char *folder = options->cache == NULL ? rt_cache_default_dir() : realpath(options->cache, NULL);
    if (folder == NULL && options->cache != NULL)
        folder = strdup(options->cache); /* not there yet */
    if (folder == NULL)
        cli_fail(0, "there is no cache folder: SMLA_CACHE_DIR, XDG_CACHE_HOME and HOME are unset");
    return folder;
}

/* ---- path ---- */

static int command_path(const struct options *options)
{
    char *folder = folder_of(options);
    if (folder == NULL)
        return CLI_UNAVAILABLE;
    int code = CLI_FINE;
    if (options->json)
        code = print_json(json_pack("{s:s}", "path", folder));
    else
        puts(folder);
    free(folder);
    return code;
}

/* ---- ls ---- */

struct listing {
    json_t *rows;
    bool json;
    size_t damaged;
    size_t count;
    uint64_t bytes;
};

static const char *kind_name(enum rt_kind kind)
{
    return kind == RT_KIND_PTX ? "ptx" : "cubin";
}

static void list_valid(struct listing *listing, const char *path, uint64_t size_bytes, const struct rt_entry_info *info)
{
    char id[RT_DIGEST_HEX];
    rt_digest_hex(&info->key.kernel_id, id);
    if (!listing->json)
        printf("%.16s  %-8s %-5s  nvrtc %d.%d  %8" PRIu64 " bytes  %3d registers  %d spilled  %s\n", id, info->arch,
               kind_name(info->key.kind), info->builder.nvrtc_major, info->builder.nvrtc_minor, size_bytes,
               info->registers, info->spill_bytes, info->description);
    json_array_append_new(listing->rows,
                          json_pack("{s:s, s:b, s:I, s:s, s:s, s:s, s:s, s:[i, i], s:i, s:i, s:i, s:I}", "path", path,
                                    "valid", 1, "bytes", (json_int_t)size_bytes, "kernel_id", id, "kind",
                                    kind_name(info->key.kind), "arch", info->arch, "description", info->description,
                                    "nvrtc", (int)info->builder.nvrtc_major, (int)info->builder.nvrtc_minor,
                                    "registers", (int)info->registers, "spill_bytes", (int)info->spill_bytes,
                                    "local_bytes", (int)info->local_bytes, "compile_ms", (json_int_t)info->compile_ms));
}

static bool list_entry(void *user, const char *path, uint64_t size_bytes, bool valid, const struct rt_entry_info *info,
                       const char *why)
{
    struct listing *listing = user;
    listing->count++;
    listing->bytes += size_bytes;
    if (valid) {
        list_valid(listing, path, size_bytes, info);
        return true;
    }
    listing->damaged++;
    if (!listing->json)
        printf("damaged: %s: %s\n", path, why);
    json_array_append_new(listing->rows, json_pack("{s:s, s:b, s:I, s:s}", "path", path, "valid", 0, "bytes",
                                                   (json_int_t)size_bytes, "why", why));
    return true;
}

static void log_line(void *user, int32_t level, const char *line)
{
    (void)user;
    if (level == SMLA_LOG_WARNING)
        cli_fail(0, "%s", line);
}

static int list_folder(const char *folder, struct listing *listing)
{
    const struct rt_log log = {log_line, NULL};
    struct rt_cache *cache;
    struct stat info;
    if (stat(folder, &info) != 0)
        return CLI_FINE; /* nothing was cached yet */
    if (rt_cache_open(folder, false, true, &log, &cache) != SMLA_OK)
        return cli_smla_error(folder);
    const bool ok = rt_cache_visit(cache, list_entry, listing);
    rt_cache_close(cache);
    return ok ? CLI_FINE : cli_fail(CLI_USAGE, "the folder '%s' cannot be read", folder);
}

static int command_ls(const struct options *options)
{
    struct listing listing = {.rows = json_array(), .json = options->json};
    char *folder = folder_of(options);
    if (folder == NULL) {
        json_decref(listing.rows);
        return CLI_UNAVAILABLE;
    }
    int code = list_folder(folder, &listing);
    if (code == CLI_FINE && options->json)
        code = print_json(json_incref(listing.rows));
    else if (code == CLI_FINE)
        printf("%zu entries, %" PRIu64 " bytes in %s\n", listing.count, listing.bytes, folder);
    json_decref(listing.rows);
    free(folder);
    return listing.damaged > 0 ? cli_worse(code, CLI_CHECK_FAILED) : code;
}

/* ---- warm ---- */

struct warmed {
    smla_support support;
    size_t size;
    bool done;
};

struct warm {
    const struct shapes_job *jobs;
    struct warmed *warmed;
    size_t count;
    smla_context *context;
};

static int32_t count_bytes(void *user, const void *data, size_t size)
{
    struct warmed *warmed = user;
    (void)data;
    warmed->size = size;
    return 0;
}

static int warm_one(void *user, size_t index, char label[160])
{
    struct warm *warm = user;
    struct warmed *warmed = &warm->warmed[index];
    smla_kernel_desc desc;
    shapes_text(&warm->jobs[index], label);
    shapes_desc(&warm->jobs[index], &desc);
    warmed->support.struct_size = sizeof warmed->support;
    if (smla_query_support(warm->context, &desc, &warmed->support) != SMLA_OK)
        return cli_smla_error(label);
    if (!warmed->support.supported)
        return cli_fail(CLI_UNAVAILABLE, "%s: %s", label, warmed->support.reason);
    if (smla_generate(warm->context, &desc, SMLA_EMIT_CUBIN, count_bytes, warmed) != SMLA_OK)
        return cli_smla_error(label);
    warmed->done = true;
    return CLI_FINE;
}

/* {path, compiles, hits, written, kernels: [{target, kernel_id, variant, bytes}]} */
static int print_warmed(const struct warm *warm, const char *folder, const smla_stats_counters *stats, bool json)
{
    json_t *kernels = json_array();
    size_t ready = 0;
    for (size_t i = 0; i < warm->count; i++) {
        const struct warmed *warmed = &warm->warmed[i];
        if (!warmed->done)
            continue;
        ready++;
        json_array_append_new(kernels, json_pack("{s:s, s:s, s:s, s:I}", "target", warmed->support.target, "kernel_id",
                                                 warmed->support.kernel_id, "variant", warmed->support.variant, "bytes",
                                                 (json_int_t)warmed->size));
    }
    const uint64_t hits = stats->disk_hits + stats->memory_hits;
    if (json)
        return print_json(json_pack("{s:s, s:I, s:I, s:I, s:o}", "path", folder, "compiles",
                                    (json_int_t)stats->compiles, "hits", (json_int_t)hits, "written",
                                    (json_int_t)stats->entries_written, "kernels", kernels));
    json_decref(kernels);
    printf("%zu of %zu kernels ready in %s: %" PRIu64 " compiled, %" PRIu64 " were there, %" PRIu64 " written\n", ready,
           warm->count, folder, stats->compiles, hits, stats->entries_written);
    return CLI_FINE;
}

static int run_warm(struct warm *warm, const struct options *options, const char *folder)
{
    const smla_context_desc desc = {.struct_size = sizeof desc,
                                    .cache_policy = SMLA_CACHE_RW,
                                    .jit_policy = SMLA_JIT_ON,
                                    .nvrtc_path = options->nvrtc,
                                    .cache_dir = folder,
                                    .log = log_line};
    smla_stats_counters stats = {.struct_size = sizeof stats};
    if (smla_context_create(&desc, &warm->context) != SMLA_OK)
        return cli_smla_error(folder);
    int code = pool_run(warm->count, options->threads, warm_one, warm);
    smla_stats(warm->context, &stats);
    code = cli_worse(code, print_warmed(warm, folder, &stats, options->json));
    smla_context_destroy(warm->context);
    if (stats.cache_errors > 0)
        code = cli_worse(code, cli_fail(CLI_USAGE, "the folder '%s' could not be used for every entry", folder));
    return code;
}

static int command_warm(const struct options *options)
{
    struct shapes_job *jobs;
    struct warm warm = {0};
    int code = shapes_jobs(&options->shapes, &jobs, &warm.count);
    if (code != CLI_FINE)
        return code;
    char *folder = folder_of(options);
    warm.jobs = jobs;
    warm.warmed = calloc(warm.count, sizeof *warm.warmed);
    if (folder == NULL || warm.warmed == NULL)
        code = folder == NULL ? CLI_UNAVAILABLE : cli_fail(CLI_CHECK_FAILED, "out of memory");
    else
        code = run_warm(&warm, options, folder);
    free(warm.warmed);
    free(folder);
    free(jobs);
    return code;
}

/* ---- Command line ---- */

static const struct {
    const char *name;
    int (*run)(const struct options *options);
} commands[] = {{"ls", command_ls}, {"path", command_path}, {"warm", command_warm}};

enum { OPTION_CACHE = CLI_OPTION_OWN };

static const struct option long_options[] = {
    CLI_OPTIONS,
    SHAPES_OPTIONS,
    {"cache", required_argument, NULL, OPTION_CACHE},
    {"nvrtc", required_argument, NULL, CLI_OPTION_NVRTC},
    {NULL, 0, NULL, 0},
};

static int take_option(struct options *options, int option)
{
    int64_t threads;
    switch (option) {
    case OPTION_CACHE:
        options->cache = optarg;
        return CLI_FINE;
    case CLI_OPTION_NVRTC:
        options->nvrtc = optarg;
        return CLI_FINE;
    case CLI_OPTION_JSON:
        options->json = true;
        return CLI_FINE;
    case 'j':
        if (!cli_int(optarg, 1, 1024, &threads))
            return cli_usage("-j '%s' is no number from 1 to 1024", optarg);
        options->threads = (size_t)threads;
        return CLI_FINE;
    default:
        return shapes_option(&options->shapes, option, optarg);
    }
}

static int run_command(const struct options *options, const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(options);
    return cli_usage("command '%s' is unknown: ls, path and warm are there", name);
}

int main(int argc, char **argv)
{
    struct options options = {0};
    int option;
    cli_start("smla-cache", argc, argv);
    while ((option = getopt_long(argc, argv, "j:", long_options, NULL)) != -1) {
        if (option == CLI_OPTION_HELP)
            return fputs(help, stdout) < 0;
        if (option == CLI_OPTION_VERSION)
            return cli_version();
        const int code = take_option(&options, option);
        if (code != CLI_FINE)
            return code;
    }
    if (optind == argc)
        return cli_usage("a command is missing: ls, path or warm");
    if (argc - optind > 1)
        return cli_usage("'%s' is one argument too many", argv[optind + 1]);
    return run_command(&options, argv[optind]);
}
