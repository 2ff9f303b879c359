/* smla-cache: looks at the user's cache of compiled kernels, and fills it ahead of time. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache.h"
#include "cli.h"
#include "smla_cache.h"

static const char help[] =
    "usage: smla-cache ls [--json]\n"
    "       smla-cache path [--json]\n"
    "       smla-cache warm --sm LIST (--op OP --h-q N --d-qk N ... | --from FILE) [-j N]\n"
    "                       [--check] [--progress]\n"
    "\n"
    "ls lists the entries of the cache folder, path prints the folder, warm compiles into it what is\n"
    "missing there (without GPU and driver), and writes warm.json when all is there. The folder:\n"
    "--cache, else SMLA_CACHE_DIR, else $XDG_CACHE_HOME/smla, else ~/.cache/smla.\n"
    "\n" SHAPES_HELP "  -j N                    compile on N threads (one a core)\n"
    "  --cache DIR             another folder\n"
    "  --nvrtc PATH            the libnvrtc to use (SMLA_NVRTC, else the newest found)\n"
    "  --check                 warm only looks: 1 unless every kernel is there, and warm.json\n"
    "  --progress              say what is compiled, a line each, where stderr is no terminal too\n"
    "  --json                  print the result as JSON\n"
    "  --help, --version\n"
    "\n"
    "Exit: 0 fine, 1 ls found a damaged entry, --check a missing one, or a compile failed, 2 usage, or\n"
    "the folder could not be used, 3 unsupported or unavailable here.\n";

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

/* ---- path ---- */

static int command_path(const struct cache_options *options)
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

void cache_log_line(void *user, int32_t level, const char *line)
{
    (void)user;
    if (level == SMLA_LOG_WARNING)
        cli_fail(0, "%s", line);
}

static int list_folder(const char *folder, struct listing *listing)
{
    const struct rt_log log = {cache_log_line, NULL};
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

static int command_ls(const struct cache_options *options)
{
    struct listing listing = {.rows = json_array(), .json = options->json};
    char *folder = cache_folder_of(options);
    if (folder == NULL) {
        json_decref(listing.rows);
        return CLI_UNAVAILABLE;
    }
    int code = list_folder(folder, &listing);
    if (code == CLI_FINE && options->json)
        code = cache_print_json(json_incref(listing.rows));
    else if (code == CLI_FINE)
        printf("%zu entries, %" PRIu64 " bytes in %s\n", listing.count, listing.bytes, folder);
    json_decref(listing.rows);
    free(folder);
    return listing.damaged > 0 ? cli_worse(code, CLI_CHECK_FAILED) : code;
}

/* ---- Command line ---- */

static const struct {
    const char *name;
    int (*run)(const struct cache_options *options);
} commands[] = {{"ls", command_ls}, {"path", command_path}, {"warm", cache_warm}};

enum { OPTION_CACHE = CLI_OPTION_OWN, OPTION_CHECK, OPTION_PROGRESS };

static const struct option long_options[] = {
    CLI_OPTIONS,
    SHAPES_OPTIONS,
    {"cache", required_argument, NULL, OPTION_CACHE},
    {"nvrtc", required_argument, NULL, CLI_OPTION_NVRTC},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"progress", no_argument, NULL, OPTION_PROGRESS},
    {NULL, 0, NULL, 0},
};

static int take_option(struct cache_options *options, int option)
{
    int64_t threads;
    switch (option) {
    case OPTION_CACHE:
        options->cache = optarg;
        return CLI_FINE;
    case CLI_OPTION_NVRTC:
        options->nvrtc = optarg;
        return CLI_FINE;
    case OPTION_CHECK:
        options->check = true;
        return CLI_FINE;
    case OPTION_PROGRESS:
        cli_progress_lines();
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

static int run_command(const struct cache_options *options, const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(options);
    return cli_usage("command '%s' is unknown: ls, path and warm are there", name);
}

int main(int argc, char **argv)
{
    struct cache_options options = {0};
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
