/* combine on a card, or on the emulated device, against the CPU reference: parts, types, conventions and values that
 * others get wrong; the ways a call may be made; and what it is there for, the parts of a list that make the whole.
 *
 * Exit 0 all passed, 1 something failed, 77 there is no card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merge.h"
#include "random_numbers.h"

static int passed, failed;

static void report(const char *name, bool fine, const char *text)
{
    printf("%-6s %-34s %s\n", fine ? "passed" : "FAILED", name, text);
    fflush(stdout);
    *(fine ? &passed : &failed) += 1;
}

/* ---- Values ---- */

static const struct merge_spec specs[] = {
    /* numbers of parts */
    {.name = "0 parts", .s_q = 5, .parts = 0, .sink = true},
    {.name = "0 parts, lse with sink", .s_q = 5, .parts = 0, .nan_sink = true, .lse_flags = SMLA_LSE_WITH_SINK},
    {.name = "1 part", .s_q = 9, .parts = 1},
    {.name = "2 parts", .s_q = 9, .parts = 2},
    {.name = "3 parts, sink", .s_q = 9, .parts = 3, .sink = true},
    {.name = "7 parts", .s_q = 9, .parts = 7, .empty = 0.3},
    {.name = "16 parts", .s_q = 9, .parts = 16, .empty = 0.3, .sink = true},
    {.name = "32 parts", .s_q = 2, .parts = 32, .empty = 0.1},
    {.name = "33 parts", .s_q = 2, .parts = 33, .empty = 0.1, .sink = true},
    {.name = "70 parts, most empty", .s_q = 2, .parts = 70, .empty = 0.95},
    /* empty parts */
    {.name = "dead rows", .s_q = 20, .parts = 3, .empty = 0.3, .dead_rows = 0.4, .sink = true},
    {.name = "all rows dead", .s_q = 9, .parts = 4, .empty = 1},
    {.name = "all rows dead, NaN sink", .s_q = 9, .parts = 4, .empty = 1, .nan_sink = true},
    /* values */
    {.name = "NaN and inf in parts", .s_q = 20, .parts = 3, .empty = 0.2, .nan_parts = true, .dead_rows = 0.1},
    {.name = "NaN in parts and sink", .s_q = 20, .parts = 3, .nan_parts = true, .nan_sink = true},
    {.name = "lse about 1e4", .s_q = 9, .parts = 5, .center = 1e4f, .sink = true, .out_float32 = true},
    {.name = "lse far apart", .s_q = 9, .parts = 5, .spread = 1e3f, .empty = 0.2, .sink = true},
    {.name = "lse to the end of float", .s_q = 9, .parts = 5, .spread = 9e37f, .empty = 0.2, .sink = true},
    {.name = "elements of 1e38", .s_q = 9, .parts = 16, .magnitude = 1e38f, .spread = 0.1f, .partial_float32 = true},
    {.name = "elements of 1e-30", .s_q = 9, .parts = 3, .magnitude = 1e-30f, .out_float32 = true},
    /* conventions */
    {.name = "base 2 in", .s_q = 9, .parts = 3, .base_2 = true, .empty = 0.3, .dead_rows = 0.2, .sink = true},
    {.name = "base 2 out", .s_q = 9, .parts = 3, .empty = 0.3, .dead_rows = 0.2, .lse_flags = SMLA_LSE_BASE_2},
    {.name = "base 2 in and out", .s_q = 9, .parts = 3, .base_2 = true, .lse_flags = SMLA_LSE_BASE_2},
    {.name = "lse with sink",
     .s_q = 9,
     .parts = 3,
     .dead_rows = 0.3,
     .nan_sink = true,
     .sink = true,
     .lse_flags = SMLA_LSE_WITH_SINK},
    {.name = "lse with sink, base 2 in and out",
     .s_q = 9,
     .parts = 3,
     .dead_rows = 0.3,
     .sink = true,
     .base_2 = true,
     .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2},
    {.name = "lse with sink, none given",
     .s_q = 9,
     .parts = 3,
     .dead_rows = 0.3,
     .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_EMPTY_NEGATIVE},
    {.name = "empty lse negative", .s_q = 9, .parts = 3, .dead_rows = 0.3, .lse_flags = SMLA_LSE_EMPTY_NEGATIVE},
    /* types, layouts, heads */
    {.name = "bf16 to float32", .s_q = 9, .parts = 5, .out_float32 = true, .empty = 0.2, .sink = true},
    {.name = "float32 to bf16", .s_q = 9, .parts = 5, .partial_float32 = true, .empty = 0.2, .sink = true},
    {.name = "float32 to float32",
     .s_q = 9,
     .parts = 5,
     .partial_float32 = true,
     .out_float32 = true,
     .empty = 0.2,
     .sink = true,
     .nan_parts = true},
    {.name = "views", .s_q = 9, .parts = 5, .strided = true, .empty = 0.2, .sink = true},
    {.name = "views of float32",
     .s_q = 9,
     .parts = 5,
     .strided = true,
     .partial_float32 = true,
     .out_float32 = true,
     .empty = 0.2,
     .nan_parts = true},
    {.name = "1 head", .h_q = 1, .s_q = 50, .parts = 3, .empty = 0.2, .sink = true},
    {.name = "6 heads, views", .h_q = 6, .s_q = 20, .parts = 4, .empty = 0.2, .sink = true, .strided = true},
    {.name = "128 heads", .h_q = 128, .s_q = 9, .parts = 2, .empty = 0.2, .sink = true},
    /* size */
    {.name = "70000 queries", .h_q = 1, .s_q = 70000, .parts = 2, .empty = 0.3},
};

/* Right, and the same bits again. */
static void test_values(struct merger *merger, const struct merge_spec *spec, int repeats)
{
    struct merge merge;
    char why[PROBLEM_WHY];
    if (!merge_make(merger, spec, &merge, why)) {
        report(spec->name, false, why);
        return;
    }
    bool fine = merge_run(merger, &merge, NULL, why) && merge_check(merger, &merge, why);
    size_t size;
    uint8_t *first = merge_snapshot(merger, &merge, &size);
    for (int repeat = 0; fine && repeat < repeats; repeat++) {
        char again_why[PROBLEM_WHY];
        fine = merge_run(merger, &merge, NULL, again_why);
        uint8_t *again = merge_snapshot(merger, &merge, &size);
        if (fine && (!first || !again || memcmp(first, again, size) != 0)) {
            snprintf(why, sizeof(why), "repeat %d gave other bits", repeat + 1);
            fine = false;
        }
        free(again);
    }
    free(first);
    merge_free(merger, &merge);
    report(spec->name, fine, why);
}

/* Whatever comes together: every field by chance. */
static struct merge_spec draw_spec(uint32_t seed)
{
    static const int64_t parts[] = {0, 1, 2, 3, 7, 16};
    static const int32_t heads[] = {1, 3, 6, 16, 64};
    uint64_t state = seed;
    return (struct merge_spec){.h_q = heads[random_bits(&state) % 5],
                               .s_q = 1 + (int64_t)(random_bits(&state) % 5),
                               .parts = parts[random_bits(&state) % 6],
                               .partial_float32 = random_bits(&state) % 2,
                               .out_float32 = random_bits(&state) % 2,
                               .empty = random_bits(&state) % 2 ? 0.4 : 0,
                               .dead_rows = random_bits(&state) % 3 ? 0 : 0.3,
                               .sink = random_bits(&state) % 2,
                               .nan_sink = random_bits(&state) % 4 == 0,
                               .nan_parts = random_bits(&state) % 4 == 0,
                               .strided = random_bits(&state) % 2,
                               .base_2 = random_bits(&state) % 2,
                               .lse_flags = random_bits(&state) % 8,
                               .center = (float)(random_bits(&state) % 3) * 10,
                               .seed = seed};
}

static void test_random(struct merger *merger, uint32_t count)
{
    char why[PROBLEM_WHY] = "";
    bool fine = true;
    for (uint32_t seed = 1; fine && seed <= count; seed++) {
        const struct merge_spec spec = draw_spec(seed);
        struct merge merge;
        char what[PROBLEM_WHY];
        fine = merge_make(merger, &spec, &merge, what);
        if (!fine) {
            snprintf(why, sizeof(why), "seed %u: %.900s", seed, what);
            break;
        }
        fine = merge_run(merger, &merge, NULL, what) && merge_check(merger, &merge, what);
        snprintf(why, sizeof(why), fine ? "%u cases" : "seed %u: %.900s", seed, what);
        merge_free(merger, &merge);
    }
    report("random", fine, why);
}

/* ---- Far addresses ---- */

/* Parts and outputs past 2^32 elements from their begin: the bits of the near call. */
static void test_far(struct merger *merger)
{
    enum { H_Q = 4, D_V = 512 };
    const char *name = "offsets past 2^32 elements";
    const struct merge_spec spec = {.name = name, .h_q = H_Q, .s_q = 2, .parts = 2, .sink = true, .empty = 0.2};
    const int64_t far = ((int64_t)1 << 32) + 64;
    struct device *device = merger->bench->device;
    struct merge merge;
    char why[PROBLEM_WHY] = "";
    void *parts = NULL, *part_lse = NULL, *out = NULL;
    const size_t near_bytes = 2 * H_Q * D_V * 2, out_bytes = H_Q * D_V * 2;
    if (!merge_make(merger, &spec, &merge, why)) {
        report(name, false, why);
        return;
    }
    bool fine = merge_run(merger, &merge, NULL, why);
    size_t size;
    uint8_t *near_bits = merge_snapshot(merger, &merge, &size), *far_bits = calloc(size + 1, 1);
    fine = fine && near_bits && far_bits && device_alloc(device, (size_t)far * 2 + near_bytes, &parts) &&
           device_alloc(device, (size_t)far * 4 + 64, &part_lse) &&
           device_alloc(device, (size_t)far * 2 + out_bytes, &out);
    for (int part = 0; fine && part < 2; part++)
        fine =
            device_upload(device, (uint16_t *)parts + part * far, (uint8_t *)merge.host[0] + (size_t)part * near_bytes,
                          near_bytes) &&
            device_upload(device, (float *)part_lse + part * far, (float *)merge.host[1] + part * 2 * H_Q, 2 * H_Q * 4);
    merge.args.partial_out = parts;
    merge.args.partial_out_stride_part = far;
    merge.args.partial_lse = part_lse;
    merge.args.partial_lse_stride_part = far;
    merge.args.out = out;
    merge.args.out_stride_token = far;
    fine = fine && merge_run(merger, &merge, NULL, why);
    for (int token = 0; fine && token < 2; token++)
        fine = device_download(device, far_bits + (size_t)token * out_bytes, (uint16_t *)out + token * far, out_bytes);
    fine = fine && memcmp(near_bits, far_bits, 2 * out_bytes) == 0;
    report(name, fine, fine ? "same bits as near" : "other bits than near, or a fault");
    free(near_bits);
    free(far_bits);
    device_free(device, parts);
    device_free(device, part_lse);
    device_free(device, out);
    merge_free(merger, &merge);
}

/* ---- Ways to call ---- */

static const struct merge_spec way_spec = {
    .name = "way", .s_q = 12, .parts = 5, .empty = 0.3, .dead_rows = 0.1, .sink = true};

static bool same_bits(struct merger *merger, const struct merge *merge, const uint8_t *bits, char why[PROBLEM_WHY])
{
    size_t size;
    uint8_t *again = merge_snapshot(merger, merge, &size);
    const bool same = bits && again && memcmp(bits, again, size) == 0;
    free(again);
    snprintf(why, PROBLEM_WHY, same ? "same bits" : "other bits than a plain call");
    return same;
}

static void test_stream(struct merger *merger, const char *name, void *stream)
{
    struct merge merge;
    char why[PROBLEM_WHY];
    size_t size;
    if (!merge_make(merger, &way_spec, &merge, why)) {
        report(name, false, why);
        return;
    }
    bool fine = merge_run(merger, &merge, NULL, why);
    uint8_t *bits = merge_snapshot(merger, &merge, &size);
    fine = fine && merge_run(merger, &merge, stream, why) && same_bits(merger, &merge, bits, why);
    report(name, fine, why);
    free(bits);
    merge_free(merger, &merge);
}

/* Captured once and replayed: what is captured is addresses, and zero queries are legal in capture. */
static void test_capture(struct merger *merger)
{
    struct device *device = merger->bench->device;
    const smla_combine_args nothing = {.struct_size = sizeof(nothing)};
    struct merge merge;
    void *stream = NULL, *graph = NULL;
    char why[PROBLEM_WHY] = "";
    size_t size;
    if (!merge_make(merger, &way_spec, &merge, why)) {
        report("capture and replay", false, why);
        return;
    }
    bool fine = merge_run(merger, &merge, NULL, why);
    uint8_t *bits = merge_snapshot(merger, &merge, &size);
    fine = fine && device_stream_create(device, true, &stream) && device_capture_begin(device, stream) &&
           smla_combine(merger->kernel, &merge.args, stream) == SMLA_OK &&
           smla_combine(merger->kernel, &nothing, stream) == SMLA_OK && device_capture_end(device, stream, &graph) &&
           guarded_poison(device, &merge.out) && guarded_poison(device, &merge.lse) && device_synchronize(device) &&
           device_graph_launch(device, graph, stream) && device_synchronize(device) &&
           same_bits(merger, &merge, bits, why);
    report("capture and replay", fine, why);
    if (graph)
        device_graph_destroy(device, graph);
    if (stream)
        device_stream_destroy(device, stream);
    free(bits);
    merge_free(merger, &merge);
}

/* Each query alone gives the bits that all together gave, without lse given too. */
static void test_batch_invariance(struct merger *merger)
{
    struct merge merge;
    char why[PROBLEM_WHY];
    size_t size;
    if (!merge_make(merger, &way_spec, &merge, why)) {
        report("batch invariance", false, why);
        return;
    }
    bool fine = merge_run(merger, &merge, NULL, why);
    uint8_t *bits = merge_snapshot(merger, &merge, &size);
    fine = fine && guarded_poison(merger->bench->device, &merge.out) && device_synchronize(merger->bench->device);
    for (int64_t token = 0; fine && token < way_spec.s_q; token++) {
        smla_combine_args one = merge.args;
        one.s_q = 1;
        one.partial_out = (const uint16_t *)one.partial_out + token * one.partial_out_stride_token;
        one.partial_lse += token * one.partial_lse_stride_token;
        one.out = (uint16_t *)one.out + token * one.out_stride_token;
        one.lse = NULL;
        fine = smla_combine(merger->kernel, &one, NULL) == SMLA_OK;
    }
    fine = fine && device_synchronize(merger->bench->device) && same_bits(merger, &merge, bits, why);
    report("batch invariance", fine, why);
    free(bits);
    merge_free(merger, &merge);
}

static void test_ways(struct merger *merger)
{
    void *stream = NULL;
    test_stream(merger, "legacy stream", (void *)0x1);
    test_stream(merger, "per-thread stream", (void *)0x2);
    if (device_stream_create(merger->bench->device, false, &stream)) {
        test_stream(merger, "blocking stream", stream);
        device_stream_destroy(merger->bench->device, stream);
    }
    test_capture(merger);
    test_batch_invariance(merger);
}

/* ---- The parts of a list make the whole ---- */

enum { MOST_SHARDS = 8 };

struct shards {
    const struct problem_spec problem;
    int count;
    int64_t cuts[MOST_SHARDS + 1]; /* of the list's positions */
};

static const struct shards shard_lists[] = {
    {{.name = "2 shards", .s_q = 20, .s_kv = 640, .topk = 200, .invalid = 0.1}, 2, {0, 96, 200}},
    {{.name = "3 shards, sink, lengths", .s_q = 20, .s_kv = 640, .topk = 300, .lengths = LENGTHS_WILD, .sink = true},
     3,
     {0, 64, 65, 300}},
    {{.name = "4 shards, dead rows, NaN sink",
      .s_q = 20,
      .s_kv = 640,
      .topk = 260,
      .dead_rows = 0.3,
      .invalid = 0.5,
      .nan_sink = true,
      .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2},
     4,
     {0, 64, 128, 192, 260}},
    {{.name = "8 shards, views, NaN selected",
      .h_q = 16,
      .s_q = 20,
      .s_kv = 640,
      .topk = 133,
      .strided = true,
      .nan_selected = true,
      .lengths = LENGTHS_RANDOM,
      .sink = true,
      .lse_flags = SMLA_LSE_EMPTY_NEGATIVE},
     8,
     {0, 1, 2, 40, 41, 64, 100, 132, 133}},
};

/* Each shard's prefill, without the sink, into the partials; lengths counted from the shard's begin. */
static bool prefill_shards(struct bench *bench, const struct problem *problem, const struct shards *shards,
                           void *partial_out, float *partial_lse, int32_t *lengths)
{
    const int64_t rows = problem->args.s_q * problem->spec.h_q;
    const int64_t stride = problem->args.topk_length_stride ? problem->args.topk_length_stride : 1;
    const int32_t *all = problem->host[3];
    int32_t host[64];
    for (int i = 0; i < shards->count; i++) {
        smla_prefill_args args = problem->args;
        args.indices_stride_token = args.indices_stride_token ? args.indices_stride_token : args.topk;
        args.indices += shards->cuts[i];
        args.topk = shards->cuts[i + 1] - shards->cuts[i];
        args.attn_sink = NULL;
        args.max_logits = NULL;
        args.lse_flags = i % 2 ? SMLA_LSE_EMPTY_NEGATIVE : 0; /* combine takes either */
        args.out = (uint16_t *)partial_out + i * rows * 512;
        args.lse = partial_lse + i * rows;
        args.out_stride_head = args.out_stride_token = args.lse_stride_token = 0;
        for (int64_t token = 0; all && token < args.s_q; token++) {
            const int64_t left = (int64_t)all[token * stride] - shards->cuts[i];
            host[token] = (int32_t)(left < 0 ? 0 : left < args.topk ? left : args.topk);
        }
        args.topk_length = all ? lengths : NULL;
        args.topk_length_stride = 1;
        if ((all && !device_upload(bench->device, lengths, host, (size_t)args.s_q * 4)) ||
            smla_prefill(bench->prefill, &args, NULL) != SMLA_OK || !device_synchronize(bench->device))
            return false;
    }
    return true;
}

/* out and lse of the problem by combine; its check then finds what it would of a prefill of the whole list. */
static void test_shards(struct merger *merger, const struct shards *shards)
{
    struct bench *bench = merger->bench;
    struct problem problem;
    char why[PROBLEM_WHY];
    void *memory[3] = {0};
    if (!problem_make(bench, &shards->problem, &problem, why)) {
        report(shards->problem.name, false, why);
        return;
    }
    const size_t rows = (size_t)(problem.args.s_q * problem.spec.h_q) * (size_t)shards->count;
    bool fine = merger_prepare(merger, problem.spec.h_q, why) &&
                problem_run(bench, bench->prefill, &problem, NULL, why) && /* for max_logits */
                guarded_poison(bench->device, &problem.out) && guarded_poison(bench->device, &problem.lse) &&
                device_alloc(bench->device, rows * 512 * 2, &memory[0]) &&
                device_alloc(bench->device, rows * 4, &memory[1]) && device_alloc(bench->device, 64 * 4, &memory[2]);
    const smla_combine_args args = {.struct_size = sizeof(args),
                                    .lse_flags = problem.args.lse_flags,
                                    .parts = shards->count,
                                    .s_q = problem.args.s_q,
                                    .partial_out = memory[0],
                                    .partial_lse = memory[1],
                                    .attn_sink = problem.args.attn_sink,
                                    .out = problem.args.out,
                                    .out_stride_token = problem.args.out_stride_token,
                                    .out_stride_head = problem.args.out_stride_head,
                                    .lse = problem.args.lse,
                                    .lse_stride_token = problem.args.lse_stride_token};
    if (fine && !(prefill_shards(bench, &problem, shards, memory[0], memory[1], memory[2]) &&
                  smla_combine(merger->kernel, &args, NULL) == SMLA_OK && device_synchronize(bench->device))) {
        smla_error_info info = {.struct_size = sizeof(info)};
        smla_last_error(&info);
        snprintf(why, sizeof(why), "%.400s %.400s", info.message, device_why(bench->device));
        fine = false;
    }
    fine = fine && problem_check(bench, &problem, why);
    report(shards->problem.name, fine, why);
    for (int i = 0; i < 3; i++)
        device_free(bench->device, memory[i]);
    problem_free(bench, &problem);
}

int main(void)
{
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    struct merger merger = {.bench = &bench};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        test_values(&merger, &specs[i], bench.emulated ? 1 : 3);
    test_random(&merger, bench.emulated ? 60 : 300);
    if (bench.emulated)
        printf("       offsets past 2^32 elements         not run: 34 GB of host memory on the emulated device\n");
    else
        test_far(&merger);
    test_ways(&merger);
    for (size_t i = 0; i < sizeof(shard_lists) / sizeof(shard_lists[0]); i++)
        test_shards(&merger, &shard_lists[i]);
    smla_kernel_destroy(merger.kernel);
    bench_close(&bench);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
