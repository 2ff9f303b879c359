/* Random prefill calls over every cache format, one cache or two, on a card against the float64 kernel, or on the
 * emulated device against the CPU reference. Of each call also: the same bits again, whatever stands in what no list
 * selects, whichever outputs are wanted, and whatever the order of the queries; nothing beside the outputs written.
 *
 *   gpu-property [--cases N] [--seed S] [--seconds T] [--case K] [--tiny | --full] [--all]
 *
 * Case K of seed S is the same call anywhere, for one of the two sizes: --full is what a card gets without being asked,
 * --tiny what the emulated device gets. --case K runs that case alone and prints what it is. --all: besides
 * the kernels that a bundle packs, each count of heads with each preset, which needs an NVRTC.
 *
 * Exit 0 all passed, 1 something failed, 2 a wrong argument, 77 there is no card. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "kernel_table.h"
#include "properties.h"
#include "random_numbers.h"

enum {
    MOST_VALUES = 17,
    CARD_CASES = 3000,
    EMULATED_ROUNDS = 2, /* cases of each kernel */
    CARD_SECONDS = 120,
    ENOUGH_TO_COVER = 1000 /* cases, after which every value of every axis has been drawn */
};

struct options {
    int64_t cases, seed, seconds, only; /* only: -1, or the one case to run */
    bool tiny, full, all;
};

struct run {
    struct options options;
    struct kernel_table kernels;
    int64_t covered[AXES][MOST_VALUES];
    int kernel_count;
    int64_t covered_kernels[MOST_KERNELS];
    int64_t passed, failed;
};

/* ---- Cases ---- */

/* An axis besides the sizes says something only of a call that has queries, entries and rows. */
static void count_coverage(struct run *run, const struct random_call *call, int kernel)
{
    const struct problem_spec *spec = &call->problem.spec;
    const bool selects =
        spec->s_q > 0 && ((spec->s_kv > 0 && spec->topk > 0) || (spec->extra_s_kv > 0 && spec->extra_topk > 0));
    run->covered_kernels[kernel] += selects;
    for (enum axis axis = 0; axis < AXES; axis++) {
        const bool size =
            axis <= AXIS_TOPK || axis == AXIS_ABSENT || axis == AXIS_EXTRA_S_KV || axis == AXIS_EXTRA_TOPK;
        if ((selects || size) && random_call_has_axis(&run->kernels.descs[kernel], axis))
            run->covered[axis][call->choices.value[axis]]++;
    }
}

static void report(const struct run *run, int64_t number, const struct random_call *call, const struct bench *shape,
                   bool fine, const char *text)
{
    char what[1024], format[80];
    axes_describe(&call->choices, what, sizeof(what));
    kernel_format_text(&shape->desc, format);
    printf("%s case %" PRId64 " of seed %" PRId64 ": %d heads, d %d, %s; %s\n       %s\n", fine ? "passed" : "FAILED",
           number, run->options.seed, shape->desc.h_q, shape->desc.d_qk, format, what, text);
    if (!fine)
        printf("       again: gpu-property --seed %" PRId64 " --case %" PRId64 " %s%s\n", run->options.seed, number,
               run->options.tiny ? "--tiny" : "--full", run->options.all ? " --all" : "");
    fflush(stdout);
}

/* Kernels take turns, and every other turn has queries, entries and rows; all else of case K comes from (seed, K).
 * False when there is no going on. */
static bool run_case(struct run *run, int64_t number)
{
    const int kernel = (int)(number % run->kernel_count);
    uint64_t state = (uint64_t)run->options.seed;
    state = random_bits(&state) ^ (uint64_t)number;
    struct random_call call;
    char why[PROBLEM_WHY] = "", figures[PROBLEM_WHY] = "";
    struct bench *shape = kernel_table_bench(&run->kernels, kernel, why);
    if (!shape) {
        printf("FAILED %s\n", why);
        return false;
    }
    struct choices choices = axes_draw(&state, run->options.tiny);
    if (number / run->kernel_count % 2 == 0)
        axes_fill(&choices);
    const bool fine =
        random_call_make(shape, &choices, state, &call, why) && random_call_check(shape, &call, figures, why);
    count_coverage(run, &call, kernel);
    if (!fine || run->options.only >= 0)
        report(run, number, &call, shape, fine, fine ? figures : why);
    random_call_free(shape, &call);
    *(fine ? &run->passed : &run->failed) += 1;
    return fine || device_synchronize(shape->device); /* after a fault nothing runs any more */
}

/* ---- Coverage ---- */

static bool same_format(const smla_kernel_desc *a, const smla_kernel_desc *b)
{
    char x[80], y[80];
    kernel_format_text(a, x);
    kernel_format_text(b, y);
    return a->d_qk == b->d_qk && strcmp(x, y) == 0 && a->kv_layout == b->kv_layout;
}

/* A line for each d_qk and format: the cases of each count of heads, '-' where the kernel is not among those that run.
 * The number of kernels that run and had none. */
static int print_kernels(const struct run *run)
{
    const smla_kernel_desc *descs = run->kernels.descs;
    int missing = 0;
    printf("  %-36s", "heads:");
    for (int h = 0; h < KERNEL_HEADS; h++)
        printf(" %4d", kernel_head_count(h));
    printf("\n");
    for (int first = 0; first < run->kernel_count; first++) {
        char format[80];
        int before = 0;
        while (!same_format(&descs[before], &descs[first]))
            before++;
        if (before < first)
            continue;
        kernel_format_text(&descs[first], format);
        printf("  d %d, %-29s", descs[first].d_qk, format);
        for (int h = 0; h < KERNEL_HEADS; h++) {
            int kernel = first;
            while (kernel < run->kernel_count &&
                   (descs[kernel].h_q != kernel_head_count(h) || !same_format(&descs[kernel], &descs[first])))
                kernel++;
            if (kernel == run->kernel_count)
                printf("    -");
            else
                printf(" %4" PRId64, run->covered_kernels[kernel]);
            missing += kernel < run->kernel_count && run->covered_kernels[kernel] == 0;
        }
        printf("\n");
    }
    return missing;
}

/* Prints how many cases had what; the number of values that none had. */
static int print_coverage(const struct run *run)
{
    printf("coverage, in cases:\n");
    int missing = print_kernels(run);
    for (enum axis axis = 0; axis < AXES; axis++) {
        printf("  %s:", axis_name(axis));
        for (int value = 0; value < axis_values(axis); value++) {
            printf("%s %s %" PRId64, value ? "," : "", axis_word(axis, value), run->covered[axis][value]);
            missing += run->covered[axis][value] == 0;
        }
        printf("\n");
    }
    return missing;
}

/* ---- The program ---- */

/* Returns 0, or the exit code. */
static int parse(int argc, char **argv, struct options *options)
{
    enum { CASES = CLI_OPTION_OWN, SEED, SECONDS, CASE, TINY, FULL, ALL };
    static const struct option table[] = {{"cases", required_argument, NULL, CASES},
                                          {"seed", required_argument, NULL, SEED},
                                          {"seconds", required_argument, NULL, SECONDS},
                                          {"case", required_argument, NULL, CASE},
                                          {"tiny", no_argument, NULL, TINY},
                                          {"full", no_argument, NULL, FULL},
                                          {"all", no_argument, NULL, ALL},
                                          {0}};
    *options = (struct options){.seed = 1, .only = -1};
    int64_t *const numbers[] = {&options->cases, &options->seed, &options->seconds, &options->only};
    cli_start("gpu-property", argc, argv);
    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (option == TINY)
            options->tiny = true;
        else if (option == FULL)
            options->full = true;
        else if (option == ALL)
            options->all = true;
        else if (option < CASES || option > CASE)
            return CLI_USAGE;
        else if (!cli_int(optarg, 0, INT32_MAX, numbers[option - CASES]))
            return cli_fail(CLI_USAGE, "'%s' is no number from 0 to %d", optarg, INT32_MAX);
    }
    if (optind < argc)
        return cli_fail(CLI_USAGE, "'%s' is no option", argv[optind]);
    if (options->tiny && options->full)
        return cli_fail(CLI_USAGE, "--tiny and --full exclude each other");
    return 0;
}

static void fill_defaults(struct options *options, bool emulated, int kernel_count)
{
    if (!options->tiny && !options->full)
        options->tiny = emulated;
    if (options->cases == 0)
        options->cases = emulated ? EMULATED_ROUNDS * kernel_count : CARD_CASES;
    if (options->seconds == 0)
        options->seconds = emulated ? INT32_MAX : CARD_SECONDS;
}

int main(int argc, char **argv)
{
    static struct run run;
    char why[PROBLEM_WHY];
    const int usage = parse(argc, argv, &run.options);
    if (usage != 0)
        return usage;
    const int opened = kernel_table_open(&run.kernels, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    run.kernel_count = run.options.all ? run.kernels.all : run.kernels.packed;
    fill_defaults(&run.options, run.kernels.card.emulated, run.kernel_count);
    const int64_t first = run.options.only >= 0 ? run.options.only : 0;
    const int64_t end = run.options.only >= 0 ? first + 1 : run.options.cases;
    const time_t begin = time(NULL);
    bool going_on = true;
    for (int64_t number = first; going_on && number < end && time(NULL) - begin <= run.options.seconds; number++)
        going_on = run_case(&run, number);
    const int missing = run.options.only < 0 ? print_coverage(&run) : 0;
    const bool covered = missing == 0 || run.kernels.card.emulated || run.passed + run.failed < ENOUGH_TO_COVER;
    if (!covered)
        printf("FAILED %d values of the axes were never drawn\n", missing);
    kernel_table_close(&run.kernels);
    printf("%" PRId64 " passed, %" PRId64 " failed\n", run.passed, run.failed);
    return run.failed == 0 && covered && going_on ? 0 : 1;
}
