/* smla-bench: what smla costs: its start-up, and a call beside rivals and ceilings. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "cli.h"

/* In two, since a compiler need not take more than 4095 characters of one. */
static const char help[] =
    "usage: smla-bench [startup] [--device auto|cuda|cpu] [options]\n"
    "       smla-bench prefill [--h-q N ... | --shapes FILE] [--rival LIB]... [options]\n"
    "       smla-bench decode [--h-q N ... | --shapes FILE] [--rival LIB]... [options]\n"
    "       smla-bench table [--variants] RESULT...\n"
    "\n"
    "startup: cold compile through NVRTC, disk hit to ready, and the host cost of one\n"
    "smla_prefill call with the device idle; each as median, least and most of N runs.\n"
    "\n"
    "prefill: what a launch takes on the device (graphs of many launches are replayed, and the\n"
    "time divided) and on the host (the device idle), shape by shape, as TFLOP/s over the valid\n"
    "entries and TB/s gathered, with clocks and power read meanwhile, beside what the device\n"
    "reaches when it does nothing but multiply, gather, or both (sm_90; needs NVRTC).\n"
    "Consecutive launches use other queries, lists and outputs, of more than twice the L2 cache\n"
    "together where a replay has as many launches; the keys are one pool of s_kv rows.\n"
    "\n"
    "decode: the same of smla_decode, over caches of pages with random lists. All launches of a\n"
    "shape have the same lengths and use one workspace. TB/s count a key each time it is listed.\n"
    "\n"
    "table: results of prefill and decode, files that --json printed, as tables of\n"
    "Markdown.\n"
    "\n"
    "  --device DEVICE         auto (what there is), cuda (a driver must be there), cpu (no driver)\n"
    "  --sm TARGET             target to compile for (the device's own, else 90)\n"
    "  --h-q N, --d-qk N       the kernel (64, 512)\n"
    "  --runs N                runs of each (startup 11, with calls timed 100 times a run;\n"
    "                          else 30 replays)\n"
    "  --driver PATH           the libcuda to use (SMLA_DRIVER, else libcuda.so.1)\n"
    "  --nvrtc PATH            the libnvrtc to use (SMLA_NVRTC, else the newest found)\n"
    "  --json                  print the result as JSON\n"
    "  --help, --version\n"
    "\n";

static const char help_of_calls[] =
    "Of prefill and decode; without a shape a table of 25 (prefill) or 50 (decode) is measured:\n"
    "  --s-q N                 query tokens, in decode of each request (4096; decode 1)\n"
    "  --s-kv N                rows of the pool, in decode slots (65536)\n"
    "  --topk N                entries of a list (640)\n"
    "  --kv-format NAME        format of the cache (bf16)\n"
    "  --lengths LOW:HIGH      topk_length of each row, in decode of each request and of the first\n"
    "                          cache, uniform in it (none)\n"
    "  --sink                  with attn_sink\n"
    "  --sm-limit N            it takes at most N multiprocessors (0: all)\n"
    "  --shapes FILE           shapes from a JSON array of objects with these options' names as\n"
    "                          keys ('_' for '-'), such as a result's shape\n"
    "  --rival LIB             measure what this library exports (tools/bench/smla_rival.h) in\n"
    "                          turn with smla, and compare its out with smla's at up to 512\n"
    "                          tokens; may be repeated\n"
    "  --launches N            launches in a replay (as many as take 10 ms, from 4 to 512)\n"
    "  --no-ceilings           do not measure what the device reaches\n"
    "  --ceiling-turns N       turns of those kernels' loops (as many as take some ms on an H200)\n"
    "  --list-shapes           print the shapes as --shapes reads them, one a line; measure nothing\n"
    "\n"
    "Of prefill alone:\n"
    "  --page N                tokens a page (0: rows; 64 in a format placed by page)\n"
    "  --not-persistent        a kernel that has a block of threads a query\n"
    "  --no-workspace          no more than the call needs: a quantised cache is not unpacked first\n"
    "  --indices KIND          uniform; drift: one entry in 20 changes from a query to the next;\n"
    "                          window: the last 128 positions, the others random before them; or\n"
    "                          a file: safetensors with 'indices', or plain int32, [s_q, topk]\n"
    "\n"
    "Of decode alone:\n"
    "  --b N                   requests (1)\n"
    "  --page-tokens N         tokens a page (64; 0: rows)\n"
    "  --extra-kv-format NAME  format of a second cache (none)\n"
    "  --extra-topk N, --extra-s-kv N, --extra-page-tokens N\n"
    "                          its lists, slots, and pages (0: rows, or 64 where it is placed by\n"
    "                          page)\n"
    "  --lengths one-long:N    one request has topk, the others N\n"
    "  --batch-invariant       a kernel whose bits do not depend on the batch\n"
    "\n"
    "Of table alone:\n"
    "  --variants              a line for each shape, from all the files: what the kernel that the\n"
    "                          plan chooses takes beside those that were asked for, and whether\n"
    "                          it was the fastest\n"
    "\n"
    "Exit: 0 something ran and nothing failed, 2 usage, 3 nothing could run here, 4 device fault.\n";

enum { STARTUP_RUNS = 11 };

enum {
    OPTION_DEVICE = CLI_OPTION_OWN,
    OPTION_RUNS,
    /* The rest is of prefill and decode. */
    OPTION_B,
    OPTION_S_Q,
    OPTION_S_KV,
    OPTION_TOPK,
    OPTION_KV_FORMAT,
    OPTION_PAGE,
    OPTION_PAGE_TOKENS,
    OPTION_EXTRA_KV_FORMAT,
    OPTION_EXTRA_S_KV,
    OPTION_EXTRA_TOPK,
    OPTION_EXTRA_PAGE_TOKENS,
    OPTION_BATCH_INVARIANT,
    OPTION_LENGTHS,
    OPTION_SINK,
    OPTION_NOT_PERSISTENT,
    OPTION_SM_LIMIT,
    OPTION_INDICES,
    OPTION_SHAPES,
    OPTION_RIVAL,
    OPTION_LAUNCHES,
    OPTION_NO_CEILINGS,
    OPTION_CEILING_TURNS,
    OPTION_LIST_SHAPES,
    OPTION_VARIANTS /* table's */
};

static const struct option long_options[] = {
    CLI_OPTIONS,
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"sm", required_argument, NULL, CLI_OPTION_SM},
    {"h-q", required_argument, NULL, CLI_OPTION_H_Q},
    {"heads", required_argument, NULL, CLI_OPTION_H_Q},
    {"d-qk", required_argument, NULL, CLI_OPTION_D_QK},
    {"runs", required_argument, NULL, OPTION_RUNS},
    {"driver", required_argument, NULL, CLI_OPTION_DRIVER},
    {"nvrtc", required_argument, NULL, CLI_OPTION_NVRTC},
    {"b", required_argument, NULL, OPTION_B},
    {"s-q", required_argument, NULL, OPTION_S_Q},
    {"s-kv", required_argument, NULL, OPTION_S_KV},
    {"topk", required_argument, NULL, OPTION_TOPK},
    {"kv-format", required_argument, NULL, OPTION_KV_FORMAT},
    {"page", required_argument, NULL, OPTION_PAGE},
    {"page-tokens", required_argument, NULL, OPTION_PAGE_TOKENS},
    {"extra-kv-format", required_argument, NULL, OPTION_EXTRA_KV_FORMAT},
    {"extra-s-kv", required_argument, NULL, OPTION_EXTRA_S_KV},
    {"extra-topk", required_argument, NULL, OPTION_EXTRA_TOPK},
    {"extra-page-tokens", required_argument, NULL, OPTION_EXTRA_PAGE_TOKENS},
    {"batch-invariant", no_argument, NULL, OPTION_BATCH_INVARIANT},
    {"lengths", required_argument, NULL, OPTION_LENGTHS},
    {"sink", no_argument, NULL, OPTION_SINK},
    {"not-persistent", no_argument, NULL, OPTION_NOT_PERSISTENT},
    {"sm-limit", required_argument, NULL, OPTION_SM_LIMIT},
    {"indices", required_argument, NULL, OPTION_INDICES},
    {"shapes", required_argument, NULL, OPTION_SHAPES},
    {"rival", required_argument, NULL, OPTION_RIVAL},
    {"launches", required_argument, NULL, OPTION_LAUNCHES},
    {"no-ceilings", no_argument, NULL, OPTION_NO_CEILINGS},
    {"ceiling-turns", required_argument, NULL, OPTION_CEILING_TURNS},
    {"list-shapes", no_argument, NULL, OPTION_LIST_SHAPES},
    {"variants", no_argument, NULL, OPTION_VARIANTS},
    {NULL, 0, NULL, 0},
};

/* The command line, and what it has said that not all benchmarks take. */
struct command {
    struct bench_options options;
    bool is_calls;        /* prefill or decode */
    const char *of_calls; /* an option of theirs; NULL: none was given */
    bool variants;
};

static const char *option_name(int option)
{
    for (const struct option *row = long_options; row->name != NULL; row++)
        if (row->val == option)
            return row->name;
    return "";
}

static int set_device(struct bench_options *options, const char *name)
{
    static const char *const names[] = {
        [BENCH_DEVICE_AUTO] = "auto", [BENCH_DEVICE_CUDA] = "cuda", [BENCH_DEVICE_CPU] = "cpu"};
    for (int i = BENCH_DEVICE_AUTO; i <= BENCH_DEVICE_CPU; i++) {
        if (strcmp(name, names[i]) == 0) {
            options->device = (enum bench_device)i;
            return CLI_FINE;
        }
    }
    return cli_usage("--device '%s' is none of auto, cuda, cpu", name);
}

static int set_number(int option, int64_t *out)
{
    if (cli_int(optarg, 1, 100000, out))
        return CLI_FINE;
    return cli_usage("--%s '%s' is no number from 1 to 100000", option_name(option), optarg);
}

static int add_rival(struct bench_options *options, const char *path)
{
    if (options->rival_count == BENCH_MAX_RIVALS)
        return cli_usage("--rival can be given %d times", BENCH_MAX_RIVALS);
    options->rivals[options->rival_count++] = path;
    return CLI_FINE;
}

static int set_shape(struct bench_options *options, int option)
{
    options->has_shape = true;
    return bench_shape_set(&options->shape, option_name(option), optarg, NULL);
}

static int take_calls_option(struct command *command, int option)
{
    struct bench_options *options = &command->options;
    command->of_calls = option_name(option);
    if (!command->is_calls)
        return CLI_FINE;
    switch (option) {
    case OPTION_SHAPES:
        options->shapes_path = optarg;
        return CLI_FINE;
    case OPTION_RIVAL:
        return add_rival(options, optarg);
    case OPTION_LAUNCHES:
        return set_number(option, &options->launches);
    case OPTION_NO_CEILINGS:
        options->no_ceilings = true;
        return CLI_FINE;
    case OPTION_CEILING_TURNS:
        return set_number(option, &options->ceiling_turns);
    case OPTION_LIST_SHAPES:
        options->list_shapes = true;
        return CLI_FINE;
    default:
        return set_shape(options, option);
    }
}

static int take_option(struct command *command, int option)
{
    struct bench_options *options = &command->options;
    int code = CLI_FINE;
    switch (option) {
    case OPTION_DEVICE:
        return set_device(options, optarg);
    case OPTION_RUNS:
        return set_number(option, &options->runs);
    case CLI_OPTION_DRIVER:
        options->driver = optarg;
        return CLI_FINE;
    case CLI_OPTION_NVRTC:
        options->nvrtc = optarg;
        return CLI_FINE;
    case CLI_OPTION_JSON:
        options->json = true;
        return CLI_FINE;
    case OPTION_VARIANTS:
        command->variants = true;
        return CLI_FINE;
    case CLI_OPTION_H_Q:
    case CLI_OPTION_D_QK:
        code = set_shape(options, option);
        break;
    }
    if (code != CLI_FINE)
        return code;
    return option > OPTION_RUNS ? take_calls_option(command, option) : shapes_option(&options->shapes, option, optarg);
}

/* An option of prefill or decode was given to another benchmark. */
static int not_of_calls(const struct command *command)
{
    return cli_usage("--%s is an option of %s", command->of_calls, bench_shape_owner(command->of_calls));
}

/* Which benchmark, when all options are known. */
static int run(struct command *command, const char *name)
{
    struct bench_options *options = &command->options;
    if (command->variants)
        return cli_usage("--variants is an option of table");
    if (command->is_calls) {
        if (options->has_shape && options->shapes_path != NULL)
            return cli_usage("--shapes and a shape's options exclude each other");
        return bench_calls(options);
    }
    if (strcmp(name, "startup") != 0)
        return cli_usage("benchmark '%s' is unknown: startup, prefill, decode and table are there", name);
    if (command->of_calls != NULL)
        return not_of_calls(command);
    options->runs = options->runs == 0 ? STARTUP_RUNS : options->runs;
    return bench_startup(options);
}

static int run_table(const struct command *command, char **paths, int count)
{
    if (command->of_calls != NULL)
        return not_of_calls(command);
    return count == 0 ? cli_usage("table needs results: files that smla-bench prefill or decode --json printed")
                      : bench_markdown(paths, (size_t)count, command->variants);
}

/* The command line as one text, before getopt sorts it. */
static void keep_command(int argc, char **argv, char text[BENCH_WHY])
{
    int used = snprintf(text, BENCH_WHY, "smla-bench");
    for (int i = 1; i < argc && used < BENCH_WHY; i++)
        used += snprintf(text + used, (size_t)(BENCH_WHY - used), " %s", argv[i]);
}

/* The benchmark's name, before the options, whose defaults it decides. */
static const char *find_name(int argc, char **argv)
{
    opterr = 0;
    while (getopt_long(argc, argv, "", long_options, NULL) != -1)
        continue;
    const char *name = optind < argc ? argv[optind] : "startup";
    opterr = 1;
    optind = 0; /* from the beginning again */
    return name;
}

int bench_open_device(const struct bench_options *options, struct device **device, char why[DEVICE_WHY])
{
    snprintf(why, DEVICE_WHY, "--device cpu: no driver was opened");
    if (options->device == BENCH_DEVICE_CPU)
        return CLI_FINE;
    const enum device_status status = device_open(options->driver, 0, device, why);
    if (status == DEVICE_OK || (status == DEVICE_UNAVAILABLE && options->device == BENCH_DEVICE_AUTO))
        return CLI_FINE;
    return cli_fail(status == DEVICE_FAULT ? CLI_DEVICE_FAULT : CLI_UNAVAILABLE, "%s", why);
}

int main(int argc, char **argv)
{
    struct command command = {.variants = false};
    int option;
    keep_command(argc, argv, command.options.command);
    cli_start("smla-bench", argc, argv);
    const char *name = find_name(argc, argv);
    const uint32_t op = bench_op_of(name);
    command.is_calls = op != 0;
    command.options.shape = bench_shapes_of(op)->start;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == CLI_OPTION_HELP)
            return fputs(help, stdout) < 0 || fputs(help_of_calls, stdout) < 0;
        if (option == CLI_OPTION_VERSION)
            return cli_version();
        const int code = take_option(&command, option);
        if (code != CLI_FINE)
            return code;
    }
    if (strcmp(name, "table") == 0)
        return run_table(&command, argv + optind + 1, argc - optind - 1);
    if (argc - optind > 1)
        return cli_usage("'%s' is one argument too many", argv[optind + 1]);
    return run(&command, name);
}
