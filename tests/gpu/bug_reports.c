/* What other people's sparse MLA kernels got wrong, tried with sm_90 prefill: docs/bug-reports.md tells which report is
 * which, and where those are that need no device.
 *
 *   gpu-bug_reports [ID…]    only the cases whose names begin with one of these
 *
 * Exit 0 all passed, 1 something failed, 2 a wrong argument, 77 there is no card. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kernel_table.h"
#include "properties.h"
#include "random_numbers.h"

static struct kernel_table kernels;
static char *const *wanted; /* arguments, or empty */
static int wanted_count, passed, failed;

static void report(const char *name, bool fine, const char *text)
{
    printf("%-6s %-44s %s\n", fine ? "passed" : "FAILED", name, text);
    fflush(stdout);
    *(fine ? &passed : &failed) += 1;
}

/* An ID ends where the name's does: D1 does not begin "D10 …". */
static bool is_wanted(const char *name)
{
    for (int i = 0; i < wanted_count; i++) {
        const size_t length = strlen(wanted[i]);
        if (strncmp(name, wanted[i], length) == 0 && (name[length] == ' ' || name[length] == '\0'))
            return true;
    }
    return wanted_count == 0;
}

/* ---- Calls ---- */

/* A call that is plain but for some axes. */
struct report_case {
    const char *name;
    int32_t heads, width;
    int64_t s_q, s_kv, topk;
    struct {
        enum axis axis; /* 0 ends the list */
        int value;
    } set[5];
    float deviation; /* of the logits; 0: 1 */
    int repeats;     /* runs besides that must give the same bits */
    const char *format, *extra;
};

static const struct report_case cases[] = {
    {"A3 no rows and NULL for them, entries -1",
     16,
     576,
     16,
     0,
     2048,
     {{AXIS_ABSENT, 1}, {AXIS_ENTRY, 1}},
     .repeats = 0},
    {"A3 no rows, lengths 0", 8, 576, 16, 0, 2048, {{AXIS_LENGTH, LENGTH_ZERO}}, .repeats = 0},
    {"A3 one row, lengths 0", 8, 576, 16, 1, 2048, {{AXIS_LENGTH, LENGTH_ZERO}}, .repeats = 0},
    {"B3 entries s_kv",
     64,
     576,
     7,
     640,
     192,
     {{AXIS_PLACE, PLACE_ANYWHERE}, {AXIS_ENTRY, ENTRY_S_KV}, {AXIS_POOL, POOL_ALL}},
     .repeats = 0},
    {"B3 entries s_kv + 63",
     64,
     576,
     7,
     640,
     192,
     {{AXIS_PLACE, PLACE_ANYWHERE}, {AXIS_ENTRY, ENTRY_S_KV_63}, {AXIS_POOL, POOL_ALL}},
     .repeats = 0},
    {"B3 entries 2^31 - 1",
     64,
     576,
     7,
     640,
     192,
     {{AXIS_PLACE, PLACE_ANYWHERE}, {AXIS_ENTRY, ENTRY_INT_MAX}, {AXIS_POOL, POOL_ALL}},
     .repeats = 0},
    {"B5 a length for each query, apart",
     64,
     512,
     33,
     640,
     192,
     {{AXIS_LENGTH, LENGTH_RANDOM}, {AXIS_LENGTH_VIEW, VIEW_PADDED}},
     .repeats = 0},
    {"B6 each key twice", 64, 512, 7, 3000, 2048, {{AXIS_DUPLICATES, DUPLICATES_PAIRS}}, .repeats = 0},
    {"B6 one key 64 times", 64, 512, 7, 3000, 64, {{AXIS_DUPLICATES, DUPLICATES_ONE_KEY}}, .repeats = 0},
    {"B6 one key 2048 times", 64, 512, 7, 3000, 2048, {{AXIS_DUPLICATES, DUPLICATES_ONE_KEY}}, .repeats = 0},
    {"B6 each key again in the next block",
     64,
     512,
     7,
     3000,
     640,
     {{AXIS_DUPLICATES, DUPLICATES_NEXT_BLOCK}},
     .repeats = 0},
    {"B8 logits of 6e4 and empty rows", 64, 512, 33, 640, 1, {{AXIS_DEAD, DEAD_SOME}}, .deviation = 3e4f, .repeats = 0},
    {"B9 no valid key but in the last blocks",
     16,
     512,
     8,
     3000,
     2048,
     {{AXIS_PLACE, PLACE_LEADING}, {AXIS_SHARE, SHARE_MOST}},
     .repeats = 0},
    {"C2 a sink", 64, 512, 7, 640, 192, {{AXIS_SINK, SINK_FINITE}}, .repeats = 0},
    {"C2 no sink", 64, 512, 7, 640, 192, {{0}}, .repeats = 0},
    {"C4 lengths 1 to 300", 64, 576, 300, 640, 300, {{AXIS_LENGTH, LENGTH_RAMP}}, .repeats = 0},
    {"D6 70,000 queries", 1, 512, 70000, 640, 64, {{0}}, .repeats = 0},
    {"G6 4092 queries of 8 heads", 8, 512, 4092, 13600, 1152, {{AXIS_LENGTH, LENGTH_RAMP}}, .repeats = 200},
    {"G6 13,600 queries of 8 heads", 8, 512, 13600, 13600, 512, {{AXIS_LENGTH, LENGTH_RAMP}}, .repeats = 20},
    {"M3 32,768 queries of lists that fill up", 1, 576, 32768, 8192, 2048, {{AXIS_LENGTH, LENGTH_RAMP}}, .repeats = 0},
    {"N2 200 runs, NaN in the outputs before each",
     64,
     512,
     20,
     640,
     300,
     {{AXIS_PLACE, PLACE_ANYWHERE}, {AXIS_SINK, SINK_EVERY_KIND}, {AXIS_LENGTH, LENGTH_EVERY_KIND}},
     .repeats = 200},
};

#define ANYWHERE(entry)                                                                                                \
    {AXIS_PLACE, PLACE_ANYWHERE}, {AXIS_ENTRY, (entry)},                                                               \
    {                                                                                                                  \
        AXIS_POOL, POOL_ALL                                                                                            \
    }

/* And over quantised caches. pages: see AXIS_PAGE. */
enum { PAGES_OF_64 = 1, PAGES_OF_53 = 4 };
static const struct report_case format_cases[] = {
    {"A3 v4, no rows and NULL for them", 64, 512, 16, 0, 2048, {{AXIS_ABSENT, 1}, {AXIS_ENTRY, 1}}, .format = "v4"},
    {"B3 v4, entries s_kv", 64, 512, 7, 640, 192, {ANYWHERE(ENTRY_S_KV), {AXIS_PAGE, PAGES_OF_64}}, .format = "v4"},
    {"B3 v32, entries s_kv + 63", 64, 576, 7, 640, 192, {ANYWHERE(ENTRY_S_KV_63)}, .format = "v32"},
    {"B3 v4 + v4, entries s_kv, pages not full",
     64,
     512,
     7,
     630,
     192,
     {ANYWHERE(ENTRY_S_KV), {AXIS_PAGE, PAGES_OF_53}, {AXIS_EXTRA_PAGE, PAGES_OF_53}},
     .format = "v4",
     .extra = "v4"},
    {"B3 v41 + v41_fp4, entries 2^31 - 1",
     64,
     512,
     7,
     640,
     192,
     {ANYWHERE(ENTRY_INT_MAX)},
     .format = "v41",
     .extra = "v41_fp4"},
    {"B6 v4 + v4, one key of each cache, again and again",
     64,
     512,
     7,
     640,
     192,
     {{AXIS_DUPLICATES, DUPLICATES_ONE_KEY}},
     .format = "v4",
     .extra = "v4"},
    {"B9 v32, no valid key but in the last blocks",
     16,
     576,
     8,
     3000,
     2048,
     {{AXIS_PLACE, PLACE_LEADING}, {AXIS_SHARE, SHARE_MOST}},
     .format = "v32"},
    {"C2 v32, a sink", 64, 576, 7, 640, 192, {{AXIS_SINK, SINK_FINITE}}, .format = "v32"},
    {"C2 v32, no sink", 64, 576, 7, 640, 192, {{0}}, .format = "v32"},
    {"C2 v4, a sink", 6, 512, 7, 640, 192, {{AXIS_SINK, SINK_FINITE}}, .format = "v4"},
    {"C2 v4, no sink", 6, 512, 7, 640, 192, {{0}}, .format = "v4"},
    {"C2 v4 + v4, a sink", 64, 512, 7, 640, 192, {{AXIS_SINK, SINK_FINITE}}, .format = "v4", .extra = "v4"},
    {"C2 v4 + v4, no sink", 64, 512, 7, 640, 192, {{0}}, .format = "v4", .extra = "v4"},
    {"E6 16,384 queries of keys without rope",
     64,
     512,
     16384,
     640,
     64,
     {{AXIS_LENGTH, LENGTH_RAMP}},
     .format = "v32_norope"},
    {"E6 16,384 queries of 16 heads, keys without rope",
     16,
     512,
     16384,
     640,
     64,
     {{AXIS_LENGTH, LENGTH_RAMP}},
     .format = "v32_norope"},
    {"M3 32,768 queries of 1 head over v32, lists that fill up",
     1,
     576,
     32768,
     8192,
     2048,
     {{AXIS_LENGTH, LENGTH_RAMP}},
     .format = "v32"},
    {"N2 v4 + v4, 200 runs, NaN in the outputs before each",
     64,
     512,
     20,
     640,
     300,
     {ANYWHERE(ENTRY_EVERY_KIND), {AXIS_SINK, SINK_EVERY_KIND}},
     .repeats = 200,
     .format = "v4",
     .extra = "v4"},
};

static bool repeats(struct bench *bench, struct random_call *call, int count, char why[PROBLEM_WHY])
{
    size_t size;
    uint8_t *first = problem_snapshot(bench, &call->problem, &size);
    bool same = first != NULL;
    for (int i = 0; same && i < count; i++) {
        same = problem_run(bench, bench->prefill, &call->problem, NULL, why);
        uint8_t *again = problem_snapshot(bench, &call->problem, &size);
        if (same && (!again || memcmp(first, again, size) != 0)) {
            snprintf(why, PROBLEM_WHY, "run %d gave other bits", i + 2);
            same = false;
        }
        free(again);
    }
    free(first);
    return same;
}

/* On the emulated device few queries, and blocks of keys enough for every slot to be used again. */
static void cut_to_size(struct choices *choices, int *count)
{
    if (!kernels.card.emulated)
        return;
    choices->s_q = choices->s_q < 3 ? choices->s_q : 3;
    choices->topk = choices->topk < 400 ? choices->topk : 400;
    *count = *count < 2 ? *count : 2;
}

static void test_case(const struct report_case *what)
{
    struct random_call call = {0};
    char why[PROBLEM_WHY] = "", figures[PROBLEM_WHY] = "";
    struct choices choices = axes_plain(what->s_q, what->s_kv, what->topk);
    int count = what->repeats;
    for (size_t i = 0; i < sizeof(what->set) / sizeof(what->set[0]) && what->set[i].axis; i++)
        choices.value[what->set[i].axis] = what->set[i].value;
    if (what->deviation > 0)
        choices.deviation = what->deviation;
    cut_to_size(&choices, &count);
    const int kernel = kernel_find(&kernels, what->heads, what->width, what->format, what->extra);
    struct bench *bench = kernel_table_bench(&kernels, kernel, why);
    const bool fine = bench && random_call_make(bench, &choices, 1, &call, why) &&
                      random_call_check(bench, &call, figures, why) && repeats(bench, &call, count, why);
    if (bench)
        random_call_free(bench, &call);
    report(what->name, fine, fine ? figures : why);
}

/* Every count of entries that callers have, in every shape; on the emulated device each in one shape. */
static void test_list_lengths(void)
{
    static const int64_t topk[] = {1,   3,   63,  64,  65,   127,  128,  133,  192, 256,
                                   384, 512, 513, 640, 1000, 1152, 2048, 2051, 8192};
    enum { COUNT = sizeof(topk) / sizeof(topk[0]) };
    for (int i = 0; i < COUNT * KERNELS; i++) {
        const int kernel = i % KERNELS;
        char name[64];
        struct report_case what = {.name = name,
                                   .heads = kernel_heads(kernel),
                                   .width = kernel_width(kernel),
                                   .s_q = 2,
                                   .s_kv = 3000,
                                   .topk = topk[i / KERNELS],
                                   .set = {{AXIS_INDICES_VIEW, VIEW_PADDED}}};
        snprintf(name, sizeof(name), "B4 %d heads, d %d, topk %d", what.heads, what.width, (int)what.topk);
        if (!kernels.card.emulated || (what.topk <= 400 && i / KERNELS % KERNELS == kernel))
            test_case(&what);
    }
}

/* The two formats that are packed for every count of heads. */
static void test_head_counts_of(const char *format, int32_t width)
{
    for (int i = 0; i < KERNEL_HEADS; i++) {
        char name[64];
        struct report_case what = {.name = name,
                                   .heads = kernel_head_count(i),
                                   .width = width,
                                   .s_q = 3,
                                   .s_kv = 200,
                                   .topk = 65,
                                   .set = {{AXIS_PAGE, PAGES_OF_64}},
                                   .format = format};
        snprintf(name, sizeof(name), "F1 %d heads, d %d, %s", what.heads, what.width, format);
        test_case(&what);
    }
}

/* Outputs of exactly the heads that there are, between guard zones. */
static void test_head_counts(void)
{
    test_head_counts_of("v32", 576);
    test_head_counts_of("v4", 512);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        char name[64];
        struct report_case what = {.name = name,
                                   .heads = kernel_heads(kernel),
                                   .width = kernel_width(kernel),
                                   .s_q = 3,
                                   .s_kv = 200,
                                   .topk = 65};
        snprintf(name, sizeof(name), "F1 %d heads, d %d", what.heads, what.width);
        test_case(&what);
    }
}

/* More queries than rows, and few keys for many barriers. */
static void test_more_queries_than_rows(void)
{
    static const int64_t rows[] = {1, 2, 63}, topk[] = {64, 192, 2048};
    for (int i = 0; i < 9; i++) {
        char name[64];
        struct report_case what = {.name = name,
                                   .heads = 128,
                                   .width = i % 2 ? 512 : 576,
                                   .s_q = 1 + i % 3,
                                   .s_kv = rows[i % 3],
                                   .topk = topk[i / 3],
                                   .set = {{AXIS_DEAD, DEAD_SOME}, {AXIS_POOL, POOL_ALL}, {AXIS_ROW_0, 1}}};
        snprintf(name, sizeof(name), "G4 %d queries, %d rows, topk %d", (int)what.s_q, (int)what.s_kv, (int)what.topk);
        test_case(&what);
    }
}

/* ---- Ways to call ---- */

/* A problem of the first kernel (64 heads, d 512), and the bits of a plain call. */
struct plain {
    struct bench *bench;
    struct problem problem;
    uint8_t *bits;
    size_t size;
};

static bool plain_make(const struct problem_spec *spec, struct plain *plain, char why[PROBLEM_WHY])
{
    *plain = (struct plain){.bench = &kernels.card};
    if (!problem_make(plain->bench, spec, &plain->problem, why) ||
        !problem_run(plain->bench, plain->bench->prefill, &plain->problem, NULL, why))
        return false;
    plain->bits = problem_snapshot(plain->bench, &plain->problem, &plain->size);
    return plain->bits != NULL;
}

static void plain_free(struct plain *plain)
{
    free(plain->bits);
    problem_free(plain->bench, &plain->problem);
}

/* The outputs as they stand are those of the plain call. */
static bool plain_same(struct plain *plain, char why[PROBLEM_WHY])
{
    size_t size;
    uint8_t *bits = problem_snapshot(plain->bench, &plain->problem, &size);
    const bool same = bits && memcmp(bits, plain->bits, size) == 0;
    free(bits);
    snprintf(why, PROBLEM_WHY, "%s", same ? "same bits as a plain call" : "other bits than a plain call");
    return same;
}

static bool poison_outputs(struct plain *plain)
{
    struct device *device = plain->bench->device;
    return guarded_poison(device, &plain->problem.out) && guarded_poison(device, &plain->problem.lse) &&
           guarded_poison(device, &plain->problem.max_logits) && device_synchronize(device);
}

enum { RANKS = 8, STEPS = 50 };

struct rank {
    struct plain plain;
    smla_kernel *kernel; /* its own */
    int number;
    bool fine;
};

static const struct problem_spec one_query = {.name = "rank", .s_q = 1, .s_kv = 640, .topk = 133, .sink = true};

/* Which rank has the step's one token: any, at random. */
static int rank_with_work(int step)
{
    uint64_t state = (uint64_t)step;
    return (int)random_below(&state, RANKS);
}

static void *rank_run(void *argument)
{
    struct rank *rank = argument;
    rank->fine = true;
    for (int step = 0; step < STEPS; step++) {
        smla_prefill_args args = rank->plain.problem.args;
        args.s_q = rank_with_work(step) == rank->number ? 1 : 0;
        rank->fine = rank->fine && smla_prefill(rank->kernel, &args, NULL) == SMLA_OK;
    }
    return NULL;
}

/* Each of eight threads with a handle of its own; one has a token, the others have none. */
static void test_idle_ranks(const char *name)
{
    static struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    char why[PROBLEM_WHY] = "a rank's call failed";
    const smla_kernel_desc desc = {.struct_size = sizeof(desc), .op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512};
    bool fine = true;
    for (int i = 0; fine && i < RANKS; i++) {
        ranks[i].number = i;
        fine = plain_make(&one_query, &ranks[i].plain, why) && poison_outputs(&ranks[i].plain) &&
               smla_prepare(kernels.card.context, &desc, &ranks[i].kernel) == SMLA_OK;
    }
    for (int i = 0; fine && i < RANKS; i++)
        fine = pthread_create(&threads[i], NULL, rank_run, &ranks[i]) == 0;
    for (int i = 0; fine && i < RANKS; i++)
        fine = pthread_join(threads[i], NULL) == 0 && ranks[i].fine;
    fine = fine && device_synchronize(kernels.card.device);
    for (int i = 0; i < RANKS; i++) {
        fine = fine && plain_same(&ranks[i].plain, why);
        smla_kernel_destroy(ranks[i].kernel);
        plain_free(&ranks[i].plain);
    }
    report(name, fine, why);
}

/* Past a length the list was never written: the emulated device and initcheck see who reads there. */
static void test_unwritten_slots(const char *name)
{
    const struct problem_spec spec = {
        .name = name, .s_q = 40, .s_kv = 640, .topk = 133, .lengths = LENGTHS_WILD, .invalid = 0.1};
    struct plain plain;
    char why[PROBLEM_WHY];
    void *lists = NULL;
    bool fine = plain_make(&spec, &plain, why);
    struct problem *problem = &plain.problem;
    const int64_t topk = problem->args.topk, s_q = problem->args.s_q;
    fine = fine && device_alloc(plain.bench->device, (size_t)(s_q * topk) * 4, &lists);
    for (int64_t token = 0; fine && token < s_q; token++) {
        const int32_t length = ((const int32_t *)problem->host[3])[token];
        const int64_t count = length < 0 ? 0 : length > topk ? topk : length;
        fine = device_upload(plain.bench->device, (int32_t *)lists + token * topk,
                             (const int32_t *)problem->host[2] + token * topk, (size_t)count * 4);
    }
    problem->args.indices = lists;
    fine = fine && problem_run(plain.bench, plain.bench->prefill, problem, NULL, why) && plain_same(&plain, why);
    report(name, fine, why);
    if (lists)
        device_free(plain.bench->device, lists);
    plain_free(&plain);
}

/* kv without guard zones, and rows that nothing selects never written: the emulated device, memcheck and initcheck see
 * who reads there or beside. */
static void test_bare_kv(const char *name, double invalid, double dead_rows)
{
    const struct problem_spec spec = {
        .name = name, .s_q = 20, .s_kv = 640, .topk = 133, .invalid = invalid, .dead_rows = dead_rows};
    enum { WIDTH = 512, NAN_BF16 = 0x7fff };
    struct plain plain;
    char why[PROBLEM_WHY];
    void *kv = NULL;
    bool fine = plain_make(&spec, &plain, why) && device_alloc(plain.bench->device, (size_t)spec.s_kv * WIDTH * 2, &kv);
    const uint16_t *rows = plain.problem.host[1];
    for (int64_t row = 0; fine && row < spec.s_kv; row++)
        if (rows[row * WIDTH] != NAN_BF16)
            fine = device_upload(plain.bench->device, (uint16_t *)kv + row * WIDTH, rows + row * WIDTH, WIDTH * 2);
    plain.problem.args.kv = kv;
    fine = fine && problem_run(plain.bench, plain.bench->prefill, &plain.problem, NULL, why) && plain_same(&plain, why);
    report(name, fine, why);
    if (kv)
        device_free(plain.bench->device, kv);
    plain_free(&plain);
}

static bool run_at_stride(struct plain *plain, int64_t stride, char why[PROBLEM_WHY])
{
    enum { WIDTH = 512 };
    struct problem *problem = &plain->problem;
    struct device *device = plain->bench->device;
    const size_t size = (size_t)(problem->args.s_kv * stride) * 2;
    void *kv = NULL;
    bool fine = device_alloc(device, size, &kv) && device_fill(device, kv, 0xff, size);
    for (int64_t row = 0; fine && row < problem->args.s_kv; row++)
        fine = device_upload(device, (uint16_t *)kv + row * stride, (const uint16_t *)problem->host[1] + row * WIDTH,
                             WIDTH * 2);
    problem->args.kv = kv;
    problem->args.kv_stride_token = stride;
    fine = fine && problem_run(plain->bench, plain->bench->prefill, problem, NULL, why) && plain_same(plain, why);
    if (kv)
        device_free(device, kv);
    return fine;
}

/* Tight, 16 bytes and 64 bytes more, and one row a page of a pool of many layers. */
static void test_strides(const char *name)
{
    static const int64_t strides[] = {512, 520, 544, 1039680 / 2};
    const struct problem_spec spec = {.name = name, .s_q = 9, .s_kv = 64, .topk = 133, .invalid = 0.1};
    struct plain plain;
    char why[PROBLEM_WHY];
    bool fine = plain_make(&spec, &plain, why);
    for (size_t i = 0; fine && i < sizeof(strides) / sizeof(strides[0]); i++)
        fine = run_at_stride(&plain, strides[i], why);
    report(name, fine, why);
    plain_free(&plain);
}

static const struct problem_spec captured_spec = {
    .name = "captured", .s_q = 50, .s_kv = 2048, .topk = 300, .invalid = 0.1, .lengths = LENGTHS_RANDOM, .sink = true};

static bool capture(struct plain *plain, smla_kernel *kernel, void *stream, void **graph)
{
    struct device *device = plain->bench->device;
    return device_capture_begin(device, stream) && smla_prefill(kernel, &plain->problem.args, stream) == SMLA_OK &&
           device_capture_end(device, stream, graph);
}

static bool replay(struct plain *plain, void *stream, void *graph)
{
    struct device *device = plain->bench->device;
    return poison_outputs(plain) && device_graph_launch(device, graph, stream) && device_synchronize(device);
}

static void end_graph(struct plain *plain, void *stream, void *graph)
{
    if (graph)
        device_graph_destroy(plain->bench->device, graph);
    if (stream)
        device_stream_destroy(plain->bench->device, stream);
    plain_free(plain);
}

static bool churn(struct device *device)
{
    bool fine = true;
    for (int i = 0; fine && i < 1000; i++) {
        void *memory = NULL;
        const size_t size = (size_t)(1 + i % 64) << 12;
        fine = device_alloc(device, size, &memory) && device_fill(device, memory, 0xff, size) &&
               device_free(device, memory);
    }
    return fine && device_synchronize(device);
}

/* Between capture and replay the kernel is destroyed and memory comes and goes. */
static void test_replay_after_destroy(const char *name)
{
    const smla_kernel_desc desc = {.struct_size = sizeof(desc), .op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512};
    struct plain plain;
    smla_kernel *kernel = NULL;
    void *stream = NULL, *graph = NULL;
    char why[PROBLEM_WHY] = "a call failed";
    bool fine = plain_make(&captured_spec, &plain, why) &&
                smla_prepare(plain.bench->context, &desc, &kernel) == SMLA_OK &&
                device_stream_create(plain.bench->device, true, &stream) && capture(&plain, kernel, stream, &graph);
    smla_kernel_destroy(kernel);
    fine = fine && churn(plain.bench->device) && replay(&plain, stream, graph) && plain_same(&plain, why);
    report(name, fine, why);
    end_graph(&plain, stream, graph);
}

/* Captured with lengths of 64, replayed with others. */
static void test_replay_with_other_lengths(const char *name)
{
    struct plain plain;
    void *stream = NULL, *graph = NULL;
    char why[PROBLEM_WHY] = "a call failed";
    bool fine = plain_make(&captured_spec, &plain, why);
    const int64_t s_q = plain.problem.args.s_q;
    struct device *device = plain.bench->device;
    int32_t *lengths = malloc((size_t)s_q * 4 + 4);
    for (int64_t token = 0; lengths && token < s_q; token++)
        lengths[token] = 64;
    void *const on_device = guarded_data(&plain.problem.topk_length);
    fine = fine && lengths && device_upload(device, on_device, lengths, (size_t)s_q * 4) &&
           device_stream_create(device, true, &stream) && capture(&plain, plain.bench->prefill, stream, &graph) &&
           replay(&plain, stream, graph) && device_upload(device, on_device, plain.problem.host[3], (size_t)s_q * 4) &&
           replay(&plain, stream, graph) && plain_same(&plain, why);
    report(name, fine, why);
    free(lengths);
    end_graph(&plain, stream, graph);
}

/* One query fewer, and one fewer again: the others keep their bits, what is no query's stays as it was. */
static void test_query_counts(const char *name)
{
    const struct problem_spec spec = {.name = name, .s_q = 65, .s_kv = 640, .topk = 129, .lengths = LENGTHS_RANDOM};
    struct plain plain;
    char why[PROBLEM_WHY] = "";
    bool fine = plain_make(&spec, &plain, why);
    struct problem *problem = &plain.problem;
    const size_t all = (size_t)problem->args.s_q;
    const size_t sizes[] = {problem->out.size_bytes, problem->lse.size_bytes, problem->max_logits.size_bytes};
    for (size_t fewer = 1; fine && fewer <= 2; fewer++) {
        uint8_t *at = plain.bits;
        for (int i = 0; i < 3; at += sizes[i++])
            memset(at + sizes[i] / all * (all - fewer), 0xff, sizes[i] / all * fewer);
        problem->args.s_q = (int64_t)(all - fewer);
        fine = problem_run(plain.bench, plain.bench->prefill, problem, NULL, why) && plain_same(&plain, why);
    }
    report(name, fine, why);
    plain_free(&plain);
}

/* Milliseconds of a call, the median of several; 0 after a fault. */
static float call_ms(struct bench *bench, const smla_prefill_args *args)
{
    enum { CALLS = 9 };
    float ms[CALLS] = {0}, median = 0;
    void *begin = NULL, *end = NULL;
    bool fine = device_event_create(bench->device, &begin) && device_event_create(bench->device, &end);
    for (int i = 0; fine && i < CALLS; i++)
        fine = device_event_record(bench->device, begin, NULL) && smla_prefill(bench->prefill, args, NULL) == SMLA_OK &&
               device_event_record(bench->device, end, NULL) && device_synchronize(bench->device) &&
               device_event_elapsed_ms(bench->device, begin, end, &ms[i]);
    for (int i = 0; fine && i < CALLS; i++) {
        int less = 0;
        for (int j = 0; j < CALLS; j++)
            less += ms[j] < ms[i] || (ms[j] == ms[i] && j < i);
        if (less == CALLS / 2)
            median = ms[i];
    }
    if (begin)
        device_event_destroy(bench->device, begin);
    if (end)
        device_event_destroy(bench->device, end);
    return median;
}

static float time_of_heads(int32_t heads, const char *format, int32_t width, int64_t topk, char why[PROBLEM_WHY])
{
    struct random_call call = {0};
    struct choices choices = axes_plain(8192, 8192, topk);
    int repeated = 0;
    cut_to_size(&choices, &repeated);
    struct bench *bench = kernel_table_bench(&kernels, kernel_find(&kernels, heads, width, format, NULL), why);
    const bool made = bench && random_call_make(bench, &choices, 1, &call, why);
    const float ms = made ? call_ms(bench, &call.problem.args) : 0;
    if (bench)
        random_call_free(bench, &call);
    return ms;
}

/* A figure, and that 8 heads take less than 64: on a card. */
static void test_time_of_few_heads(const char *name)
{
    static const struct {
        const char *format;
        int32_t width;
    } rows[] = {{NULL, 512}, {"v32", 576}, {"v4", 512}};
    char why[PROBLEM_WHY] = "", text[PROBLEM_WHY] = "";
    bool fine = true;
    for (size_t i = 0; fine && i < sizeof(rows) / sizeof(rows[0]); i++) {
        const float few = time_of_heads(8, rows[i].format, rows[i].width, 512, why);
        const float many = time_of_heads(64, rows[i].format, rows[i].width, 512, why);
        const size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s%s %.3f and %.3f ms", i ? ", " : "",
                 rows[i].format ? rows[i].format : "bf16", (double)few, (double)many);
        fine = few > 0 && many > 0 && (kernels.card.emulated || few < many);
    }
    report(name, fine, why[0] ? why : text);
}

static void test_nothing_past_the_rows(const char *name)
{
    test_bare_kv(name, 0.02, 0);
}

static void test_entries_of_minus_one(const char *name)
{
    test_bare_kv(name, 0.3, 0.5);
}

static const struct {
    const char *name;
    void (*test)(const char *name);
} ways[] = {
    {"A2 ranks without work", test_idle_ranks},
    {"B7 slots past the length never written", test_unwritten_slots},
    {"D2 the same rows at other strides", test_strides},
    {"D8 replay after the kernel's end", test_replay_after_destroy},
    {"D9 rows that nothing selects never written", test_nothing_past_the_rows},
    {"D10 entries -1 with nothing before kv", test_entries_of_minus_one},
    {"F2 time of 8 heads and of 64", test_time_of_few_heads},
    {"F4 65, 64 and 63 queries", test_query_counts},
    {"G3 replay with other lengths", test_replay_with_other_lengths},
};

/* Cases that one function makes by the dozen. */
static const struct {
    const char *id;
    void (*test)(void);
} sweeps[] = {{"B4", test_list_lengths}, {"F1", test_head_counts}, {"G4", test_more_queries_than_rows}};

int main(int argc, char **argv)
{
    char why[PROBLEM_WHY];
    cli_start("gpu-bug_reports", argc, argv);
    wanted = argv + 1;
    wanted_count = argc - 1;
    const int opened = kernel_table_open(&kernels, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (is_wanted(cases[i].name))
            test_case(&cases[i]);
    for (size_t i = 0; i < sizeof(format_cases) / sizeof(format_cases[0]); i++)
        if (is_wanted(format_cases[i].name))
            test_case(&format_cases[i]);
    for (size_t i = 0; i < sizeof(sweeps) / sizeof(sweeps[0]); i++)
        if (is_wanted(sweeps[i].id))
            sweeps[i].test();
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (is_wanted(ways[i].name))
            ways[i].test(ways[i].name);
    kernel_table_close(&kernels);
    printf("%d passed, %d failed\n", passed, failed);
    if (passed + failed == 0)
        return cli_fail(CLI_USAGE, "no case has such a name");
    return failed == 0 ? 0 : 1;
}
