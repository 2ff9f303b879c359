/* smla-cache: looks at the user's cache of compiled kernels, fills it ahead of time, keeps it small and moves it. */
#include "smla_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_gc.h"
#include "cli.h"

enum {
    WARM_TAKES =
        CACHE_TAKES_SHAPES | CACHE_TAKES_THREADS | CACHE_TAKES_NVRTC | CACHE_TAKES_CHECK | CACHE_TAKES_PROGRESS,
    GC_TAKES = CACHE_TAKES_MAX_BYTES | CACHE_TAKES_OLDER_THAN | CACHE_TAKES_DRY_RUN,
    ANY_NUMBER = 1 << 20
};

/* In the order of --help. */
static const struct cache_command commands[] = {
    {"ls", "list the entries", cache_help_ls, cache_ls, 0, 0, 1},
    {"path", "print the folder", cache_help_path, cache_path, 0, 0, 0},
    {"info", "all that an entry says", cache_help_info, cache_info, 0, 1, 2},
    {"stats", "how much is there, of what, and when it was used", cache_help_stats, cache_stats, 0, 0, 0},
    {"verify", "read every entry in full; remove damaged ones", cache_help_verify, cache_verify, CACHE_TAKES_REPAIR, 0,
     1},
    {"gc", "remove what was not used for long", cache_help_gc, cache_gc, GC_TAKES, 0, 0},
    {"warm", "compile what is missing of a list of kernels", cache_help_warm, cache_warm, WARM_TAKES, 0, 0},
    {"export", "write entries into one file", cache_help_export, cache_export, CACHE_TAKES_OUTPUT, 0, ANY_NUMBER},
    {"import", "take entries from such a file", cache_help_import, cache_import, 0, 1, 1},
    {"doctor", "what smla would use here, and why", cache_help_doctor, cache_doctor, CACHE_TAKES_NVRTC, 0, 0},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const char help_begin[] = "usage: smla-cache COMMAND [OPTION...] [OPERAND...]\n\n";

static const char help_end[] =
    "\n"
    "'smla-cache COMMAND --help' tells the options of a command. Of each:\n"
    "\n"
    "  --cache DIR             another folder than SMLA_CACHE_DIR, else $XDG_CACHE_HOME/smla,\n"
    "                          else ~/.cache/smla\n"
    "  --json                  print the result as JSON\n"
    "  --help, --version\n"
    "\n"
    "Exit: 0 fine, 1 a check failed (a damaged entry, a kernel that is missing, a compile, what cannot\n"
    "be removed), 2 usage, or the folder or a file could not be used, 3 unsupported or unavailable\n"
    "here.\n";

static int print_help(void)
{
    fputs(help_begin, stdout);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].does);
    return fputs(help_end, stdout) < 0;
}

/* "ls, path, … or doctor" */
static const char *command_names(void)
{
    static char names[160];
    names[0] = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const size_t size = strlen(names);
        snprintf(names + size, sizeof names - size, "%s%s",
                 i == 0                   ? ""
                 : i + 1 == COMMAND_COUNT ? " or "
                                          : ", ",
                 commands[i].name);
    }
    return names;
}

static const struct cache_command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* ---- Command line ---- */

enum {
    OPTION_CACHE = CLI_OPTION_OWN,
    OPTION_CHECK,
    OPTION_PROGRESS,
    OPTION_REPAIR,
    OPTION_MAX_BYTES,
    OPTION_OLDER_THAN,
    OPTION_DRY_RUN
};

static const struct option long_options[] = {
    CLI_OPTIONS,
    SHAPES_OPTIONS,
    {"cache", required_argument, NULL, OPTION_CACHE},
    {"nvrtc", required_argument, NULL, CLI_OPTION_NVRTC},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"progress", no_argument, NULL, OPTION_PROGRESS},
    {"repair", no_argument, NULL, OPTION_REPAIR},
    {"max-bytes", required_argument, NULL, OPTION_MAX_BYTES},
    {"older-than", required_argument, NULL, OPTION_OLDER_THAN},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {NULL, 0, NULL, 0},
};

/* What was given, to compare with what the command takes. */
struct given {
    unsigned takes;        /* of the options, CACHE_TAKES_* */
    const char *names[16]; /* by bit: as it was written, without the dashes */
    bool help;
};

static unsigned takes_of(int option)
{
    switch (option) {
    case OPTION_CACHE:
    case CLI_OPTION_JSON:
    case CLI_OPTION_HELP:
        return 0;
    case CLI_OPTION_NVRTC:
        return CACHE_TAKES_NVRTC;
    case OPTION_CHECK:
        return CACHE_TAKES_CHECK;
    case OPTION_PROGRESS:
        return CACHE_TAKES_PROGRESS;
    case OPTION_REPAIR:
        return CACHE_TAKES_REPAIR;
    case OPTION_MAX_BYTES:
        return CACHE_TAKES_MAX_BYTES;
    case OPTION_OLDER_THAN:
        return CACHE_TAKES_OLDER_THAN;
    case OPTION_DRY_RUN:
        return CACHE_TAKES_DRY_RUN;
    case 'j':
        return CACHE_TAKES_THREADS;
    case 'o':
        return CACHE_TAKES_OUTPUT;
    default:
        return CACHE_TAKES_SHAPES;
    }
}

static void note_given(struct given *given, int option, int index)
{
    const unsigned takes = takes_of(option);
    given->takes |= takes;
    for (size_t bit = 0; takes >> bit != 0; bit++)
        if (takes >> bit & 1)
            given->names[bit] = option == 'j' ? "j" : option == 'o' ? "o" : long_options[index].name;
}

static int check_given(const struct given *given, const struct cache_command *command)
{
    const unsigned wrong = given->takes & ~command->takes;
    for (size_t bit = 0; wrong >> bit != 0; bit++)
        if (wrong >> bit & 1)
            return cli_usage("%s takes no %s%s", command->name, given->names[bit][1] == 0 ? "-" : "--",
                             given->names[bit]);
    return CLI_FINE;
}

/* "100", "64K", "512M", "2G" */
static bool read_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    const size_t length = strlen(text);
    const char *unit = length > 0 ? strchr(units, text[length - 1]) : NULL;
    char number[24];
    int64_t value;
    if (length == 0 || length >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)(unit != NULL ? length - 1 : length), text);
    const int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    if (!cli_int(number, 0, INT64_MAX >> shift, &value))
        return false;
    *bytes = (uint64_t)value << shift;
    return true;
}

static int take_number(struct cache_options *options, int option)
{
    enum { DAY_S = 24 * 60 * 60 };
    int64_t number;
    if (option == OPTION_MAX_BYTES)
        return read_size(optarg, &options->max_bytes)
                   ? CLI_FINE
                   : cli_usage("--max-bytes '%s' is no number of bytes, as in 500000000, 64K, 512M or 2G", optarg);
    if (option == 'j') {
        if (!cli_int(optarg, 1, 1024, &number))
            return cli_usage("-j '%s' is no number from 1 to 1024", optarg);
        options->threads = (size_t)number;
        return CLI_FINE;
    }
    if (!cli_int(optarg, 1, 36500, &number))
        return cli_usage("--older-than '%s' is no number of days from 1 to 36500", optarg);
    options->max_age_s = (uint64_t)number * DAY_S;
    return CLI_FINE;
}

static int take_option(struct cache_options *options, int option)
{
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
    case OPTION_REPAIR:
        options->repair = true;
        return CLI_FINE;
    case OPTION_DRY_RUN:
        options->dry_run = true;
        return CLI_FINE;
    case OPTION_PROGRESS:
        cli_progress_lines();
        return CLI_FINE;
    case CLI_OPTION_JSON:
        options->json = true;
        return CLI_FINE;
    case 'o':
        options->output = strcmp(optarg, "-") == 0 ? NULL : optarg;
        return CLI_FINE;
    case OPTION_MAX_BYTES:
    case OPTION_OLDER_THAN:
    case 'j':
        return take_number(options, option);
    default:
        return shapes_option(&options->shapes, option, optarg);
    }
}

static int run_command(struct cache_options *options, const struct given *given, char **words, size_t count)
{
    const struct cache_command *command = count > 0 ? find_command(words[0]) : NULL;
    if (given->help)
        return command == NULL ? print_help() : fputs(command->help, stdout) < 0;
    if (count == 0)
        return cli_usage("a command is missing: %s", command_names());
    if (command == NULL)
        return cli_usage("command '%s' is unknown: %s", words[0], command_names());
    options->operands = words + 1;
    options->operand_count = count - 1;
    if (options->operand_count > command->max_operands)
        return cli_usage("'%s' is one argument too many", words[1 + command->max_operands]);
    if (options->operand_count < command->min_operands)
        return cli_usage("%s lacks an argument", command->name);
    const int code = check_given(given, command);
    return code == CLI_FINE ? command->run(options) : code;
}

int main(int argc, char **argv)
{
    struct cache_options options = {.max_bytes = CACHE_MAX_BYTES_UNSAID};
    struct given given = {0};
    int option, index = 0;
    cli_start("smla-cache", argc, argv);
    while ((option = getopt_long(argc, argv, "j:o:", long_options, &index)) != -1) {
        if (option == CLI_OPTION_VERSION)
            return cli_version();
        given.help |= option == CLI_OPTION_HELP;
        const int code = option == CLI_OPTION_HELP ? CLI_FINE : take_option(&options, option);
        if (code != CLI_FINE)
            return code;
        note_given(&given, option, index);
    }
    return run_command(&options, &given, argv + optind, (size_t)(argc - optind));
}
