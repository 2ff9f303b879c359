/* Random prefill calls on a card against the float64 kernel, or on the emulated device against the CPU reference. Of
 * each call also: the same bits again, whatever stands in what no list selects, whichever outputs are wanted, and
 * whatever the order of the queries; nothing beside the outputs written.
 *
 *   gpu-property [--cases N] [--seed S] [--seconds T] [--case K] [--tiny | --full]
 *
 * Case K of seed S is the same call anywhere, for one of the two sizes: --full is what a card gets without being asked,
 * --tiny what the emulated device gets. --case K runs that case alone and prints what it is.
 *
 * Exit 0 all passed, 1 something failed, 2 a wrong argument, 77 there is no card. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "random_call.h"
#include "random_numbers.h"

/* One kernel each; shapes.json names the same, so that tools/gpu-bundle packs them. */
static const int32_t heads[] = {1, 6, 8, 16, 32, 64, 66, 80, 128};
static const int32_t widths[] = {512, 576};

enum {
    HEADS = sizeof(heads) / sizeof(heads[0]),
    DESCRIPTIONS = HEADS * 2,
    MOST_VALUES = 17,
    CARD_CASES = 3000,
    EMULATED_CASES = 2 * DESCRIPTIONS,
    CARD_SECONDS = 120,
    ENOUGH_TO_COVER = 1000 /* cases, after which every value of every axis has been drawn */
};

struct options {
    int64_t cases, seed, seconds, only; /* only: -1, or the one case to run */
    bool tiny, full;
};

struct run {
    struct options options;
    struct bench card;                 /* opened by bench_open; the others use its device and context */
    struct bench shapes[DESCRIPTIONS]; /* prepared at the first case of the shape */
    int64_t covered[AXES][MOST_VALUES];
    int64_t covered_shapes[DESCRIPTIONS];
    int64_t passed, failed;
};

/* ---- Properties ---- */

struct bits {
    uint8_t *bytes;
    size_t size;
};

/* Runs the call and takes the bytes of its outputs, gaps included. */
static bool run_for_bits(struct bench *bench, struct random_call *call, struct bits *out, char why[PROBLEM_WHY])
{
    *out = (struct bits){0};
    if (!problem_run(bench, bench->prefill, &call->problem, NULL, why))
        return false;
    out->bytes = problem_snapshot(bench, &call->problem, &out->size);
    if (!out->bytes)
        snprintf(why, PROBLEM_WHY, "the outputs cannot be read: %s", device_why(bench->device));
    return out->bytes != NULL;
}

/* Whether a run gives the bits of the first. */
static bool same_again(struct bench *bench, struct random_call *call, const struct bits *first, const char *what,
                       char why[PROBLEM_WHY])
{
    struct bits again;
    if (!run_for_bits(bench, call, &again, why))
        return false;
    size_t at = 0;
    while (at < first->size && first->bytes[at] == again.bytes[at])
        at++;
    free(again.bytes);
    if (at < first->size)
        snprintf(why, PROBLEM_WHY, "%s: byte %zu of the outputs (out %zu, lse %zu, max_logits %zu bytes) differs", what,
                 at, call->problem.out.size_bytes, call->problem.lse.size_bytes, call->problem.max_logits.size_bytes);
    return at == first->size;
}

/* The three outputs in a snapshot. */
struct outputs {
    const uint16_t *out;
    const float *lse, *max_logits;
};

static struct outputs outputs_of(const struct random_call *call, const uint8_t *bytes)
{
    const uint8_t *lse = bytes + call->problem.out.size_bytes;
    return (struct outputs){(const uint16_t *)(const void *)bytes, (const float *)(const void *)lse,
                            (const float *)(const void *)(lse + call->problem.lse.size_bytes)};
}

/* Nothing but rows of outputs is written: all else still holds the poison. */
static bool gaps_intact(const struct random_call *call, const struct bits *bits, char why[PROBLEM_WHY])
{
    enum { D_V = 512 };
    const struct problem_spec *spec = &call->problem.spec;
    const size_t width = (size_t)spec->h_q * 4;
    uint8_t *rest = malloc(bits->size + 1);
    if (!rest)
        return false;
    memcpy(rest, bits->bytes, bits->size);
    uint8_t *lse = rest + call->problem.out.size_bytes, *max_logits = lse + call->problem.lse.size_bytes;
    for (int64_t token = 0; token < spec->s_q; token++) {
        for (int64_t head = 0; head < spec->h_q; head++)
            memset(rest + random_call_out_at(call, token, head) * 2, 0xff, D_V * 2);
        memset(lse + random_call_lse_at(call, token) * 4, 0xff, width);
        memset(max_logits + random_call_max_at(call, token) * 4, 0xff, width);
    }
    size_t at = 0;
    while (at < bits->size && rest[at] == 0xff)
        at++;
    free(rest);
    if (at < bits->size)
        snprintf(why, PROBLEM_WHY, "byte %zu of the outputs is of no row and was written", at);
    return at == bits->size;
}

/* The chosen outputs alone: their bits as before, the others not touched. */
static bool wanted_alone(struct bench *bench, struct random_call *call, const struct bits *first, char why[PROBLEM_WHY])
{
    smla_prefill_args *args = &call->problem.args, all = *args;
    const int wanted = call->choices.value[AXIS_WANTED];
    struct bits expected = {malloc(first->size + 1), first->size};
    if (!expected.bytes)
        return false;
    memcpy(expected.bytes, first->bytes, first->size);
    uint8_t *lse = expected.bytes + call->problem.out.size_bytes;
    if (wanted != WANTED_LSE) {
        args->lse = NULL;
        memset(lse, 0xff, call->problem.lse.size_bytes);
    }
    if (wanted != WANTED_MAX_LOGITS) {
        args->max_logits = NULL;
        memset(lse + call->problem.lse.size_bytes, 0xff, call->problem.max_logits.size_bytes);
    }
    const bool same = same_again(bench, call, &expected, axis_word(AXIS_WANTED, wanted), why);
    *args = all;
    free(expected.bytes);
    return same;
}

/* Query t of the rotated call is query t + 1 of the first. */
static bool rotates(struct bench *bench, struct random_call *call, const struct bits *first, char why[PROBLEM_WHY])
{
    const struct problem_spec *spec = &call->problem.spec;
    struct bits rotated;
    if (!random_call_rotate(bench, call) || !run_for_bits(bench, call, &rotated, why))
        return false;
    const struct outputs was = outputs_of(call, first->bytes), is = outputs_of(call, rotated.bytes);
    const size_t width = (size_t)spec->h_q * 4;
    bool same = true;
    for (int64_t token = 0; same && token < spec->s_q; token++) {
        const int64_t from = (token + 1) % spec->s_q;
        for (int64_t head = 0; same && head < spec->h_q; head++)
            same = memcmp(is.out + random_call_out_at(call, token, head),
                          was.out + random_call_out_at(call, from, head), 1024) == 0;
        same = same &&
               memcmp(is.lse + random_call_lse_at(call, token), was.lse + random_call_lse_at(call, from), width) == 0 &&
               memcmp(is.max_logits + random_call_max_at(call, token), was.max_logits + random_call_max_at(call, from),
                      width) == 0;
        if (!same)
            snprintf(why, PROBLEM_WHY, "queries in another order: query %" PRId64 " has other bits as query %" PRId64,
                     from, token);
    }
    free(rotated.bytes);
    return same;
}

/* figures: of the comparison with float64 when it is right. */
static bool check_call(struct bench *bench, struct random_call *call, char figures[PROBLEM_WHY], char why[PROBLEM_WHY])
{
    struct bits first;
    if (!run_for_bits(bench, call, &first, why))
        return false;
    bool fine = problem_check(bench, &call->problem, why);
    memcpy(figures, why, PROBLEM_WHY);
    fine = fine && gaps_intact(call, &first, why) && same_again(bench, call, &first, "run again", why) &&
           wanted_alone(bench, call, &first, why) && random_call_spoil_rest(bench, call) &&
           same_again(bench, call, &first, "other values where no list selects", why) &&
           rotates(bench, call, &first, why);
    free(first.bytes);
    return fine;
}

/* ---- Cases ---- */

static bool shape_prepare(struct run *run, int description, char why[PROBLEM_WHY])
{
    struct bench *shape = &run->shapes[description];
    if (shape->prefill)
        return true;
    *shape = run->card;
    shape->prefill = shape->reference = NULL;
    shape->h_q = heads[description % HEADS];
    shape->d_qk = widths[description / HEADS];
    smla_kernel_desc desc = {
        .struct_size = sizeof(desc), .op = SMLA_OP_PREFILL, .h_q = shape->h_q, .d_qk = shape->d_qk};
    smla_status status = smla_prepare(shape->context, &desc, &shape->prefill);
    desc.op = SMLA_OP_PREFILL_REFERENCE;
    if (status == SMLA_OK && !shape->emulated) /* there the CPU reference judges */
        status = smla_prepare(shape->context, &desc, &shape->reference);
    smla_error_info info = {.struct_size = sizeof(info)};
    if (status != SMLA_OK && smla_last_error(&info) == SMLA_OK)
        snprintf(why, PROBLEM_WHY, "smla_prepare: %.900s", info.message);
    return status == SMLA_OK;
}

static void shapes_close(struct run *run)
{
    for (int i = 0; i < DESCRIPTIONS; i++) {
        smla_kernel_destroy(run->shapes[i].prefill);
        smla_kernel_destroy(run->shapes[i].reference);
    }
}

/* An axis besides the sizes says something only of a call that has queries, entries and rows. */
static void count_coverage(struct run *run, const struct choices *choices, int description, bool says_something)
{
    run->covered_shapes[description] += says_something;
    for (int axis = 0; axis < AXES; axis++)
        if (says_something || axis <= AXIS_TOPK || axis == AXIS_ABSENT)
            run->covered[axis][choices->value[axis]]++;
}

static void report(const struct run *run, int64_t number, const struct random_call *call, const struct bench *shape,
                   bool fine, const char *text)
{
    char what[1024];
    axes_describe(&call->choices, what, sizeof(what));
    printf("%s case %" PRId64 " of seed %" PRId64 ": %d heads, d %d; %s\n       %s\n", fine ? "passed" : "FAILED",
           number, run->options.seed, shape->h_q, shape->d_qk, what, text);
    if (!fine)
        printf("       again: gpu-property --seed %" PRId64 " --case %" PRId64 " %s\n", run->options.seed, number,
               run->options.tiny ? "--tiny" : "--full");
    fflush(stdout);
}

/* Shapes take turns; all else of case K comes from (seed, K). False when there is no going on. */
static bool run_case(struct run *run, int64_t number)
{
    const int description = (int)(number % DESCRIPTIONS);
    struct bench *shape = &run->shapes[description];
    uint64_t state = (uint64_t)run->options.seed;
    state = random_bits(&state) ^ (uint64_t)number;
    struct random_call call;
    char why[PROBLEM_WHY] = "", figures[PROBLEM_WHY] = "";
    if (!shape_prepare(run, description, why)) {
        printf("FAILED %s\n", why);
        return false;
    }
    const bool fine = random_call_make(shape, random_bits(&state), run->options.tiny, &call, why) &&
                      check_call(shape, &call, figures, why);
    const struct problem_spec *spec = &call.problem.spec;
    count_coverage(run, &call.choices, description, spec->s_q > 0 && spec->s_kv > 0 && spec->topk > 0);
    if (!fine || run->options.only >= 0)
        report(run, number, &call, shape, fine, fine ? figures : why);
    random_call_free(shape, &call);
    *(fine ? &run->passed : &run->failed) += 1;
    return fine || device_synchronize(shape->device); /* after a fault nothing runs any more */
}

/* ---- Coverage ---- */

/* Prints how many cases had what; the number of values that none had. */
static int print_coverage(const struct run *run)
{
    int missing = 0;
    printf("coverage, in cases:\n  heads x d:");
    for (int i = 0; i < DESCRIPTIONS; i++) {
        printf("%s %d x %d %" PRId64, i ? "," : "", heads[i % HEADS], widths[i / HEADS], run->covered_shapes[i]);
        missing += run->covered_shapes[i] == 0;
    }
    printf("\n");
    for (int axis = 0; axis < AXES; axis++) {
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
    enum { CASES = CLI_OPTION_OWN, SEED, SECONDS, CASE, TINY, FULL };
    static const struct option table[] = {{"cases", required_argument, NULL, CASES},
                                          {"seed", required_argument, NULL, SEED},
                                          {"seconds", required_argument, NULL, SECONDS},
                                          {"case", required_argument, NULL, CASE},
                                          {"tiny", no_argument, NULL, TINY},
                                          {"full", no_argument, NULL, FULL},
                                          {0}};
    *options = (struct options){.seed = 1, .only = -1};
    int64_t *const numbers[] = {&options->cases, &options->seed, &options->seconds, &options->only};
    cli_start("gpu-property", argc, argv);
    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (option == TINY)
            options->tiny = true;
        else if (option == FULL)
            options->full = true;
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

static void fill_defaults(struct options *options, bool emulated)
{
    if (!options->tiny && !options->full)
        options->tiny = emulated;
    if (options->cases == 0)
        options->cases = emulated ? EMULATED_CASES : CARD_CASES;
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
    const int opened = bench_open(&run.card, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    fill_defaults(&run.options, run.card.emulated);
    const int64_t first = run.options.only >= 0 ? run.options.only : 0;
    const int64_t end = run.options.only >= 0 ? first + 1 : run.options.cases;
    const time_t begin = time(NULL);
    bool going_on = true;
    for (int64_t number = first; going_on && number < end && time(NULL) - begin <= run.options.seconds; number++)
        going_on = run_case(&run, number);
    const int missing = run.options.only < 0 ? print_coverage(&run) : 0;
    const bool covered = missing == 0 || run.card.emulated || run.passed + run.failed < ENOUGH_TO_COVER;
    if (!covered)
        printf("FAILED %d values of the axes were never drawn\n", missing);
    shapes_close(&run);
    bench_close(&run.card);
    printf("%" PRId64 " passed, %" PRId64 " failed\n", run.passed, run.failed);
    return run.failed == 0 && covered && going_on ? 0 : 1;
}
