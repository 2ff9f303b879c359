/* sm_90 prefill over quantised caches, pages and two caches, on a card against the float64 kernel over the same keys as
 * bf16, or on the emulated device against the CPU reference.
 *
 *   gpu-formats [-q QUERIES] [ID…]
 *
 *   -q    at most so many queries, for checkers that take their time
 *   ID    only the cases whose names begin with one of these (docs/bug-reports.md has the table);
 *         far: pages past 2^32 bytes
 *
 * Exit 0 all passed, 1 something failed, 2 a wrong argument, 77 there is no card. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "cli.h"
#include "kernel.h"
#include "layouts.h"
#include "prefill.h"
#include "problem.h"

static int passed, failed;
static int64_t most_queries = INT32_MAX;

#define USUAL .s_q = 30, .s_kv = 1500, .topk = 640, .invalid = 0.1, .sink = true, .lengths = LENGTHS_WILD
#define EXTRA .has_extra = true, .extra_s_kv = 700, .extra_topk = 200

#define ONE_KEY .s_q = 2000, .s_kv = 2048, .topk = 1, .any_codes = true, .magnitude = 1e-30f, .sm_scale = 1e-12f

static const struct problem_spec specs[] = {
    /* presets, one run of tokens or one page */
    {.name = "v32", USUAL, .d_qk = 576, .format = {.format = "v32"}},
    {.name = "v32, scales no powers of two", USUAL, .d_qk = 576, .format = {.format = "v32"}, .odd_scales = true},
    {.name = "v32_norope", USUAL, .format = {.format = "v32_norope"}, .odd_scales = true},
    {.name = "v4, pages of 64", USUAL, .format = {.format = "v4", .page_tokens = 64, .page_gap_bytes = 64}},
    {.name = "v41", USUAL, .format = {.format = "v41"}},
    {.name = "v41_planar, pages of 53", USUAL, .format = {.format = "v41_planar", .page_tokens = 53}},
    {.name = "v41_fp4", USUAL, .format = {.format = "v41_fp4"}},
    {.name = "v41_fp4_planar, pages of 61", USUAL, .format = {.format = "v41_fp4_planar", .page_tokens = 61}},
    {.name = "hopper_fp4", USUAL, .format = {.format = "hopper_fp4"}},
    /* pages */
    {.name = "E2 v4, pages of 2", USUAL, .format = {.format = "v4", .page_tokens = 2, .page_gap_bytes = 560}},
    {.name = "E2 v4, pages of 32", USUAL, .format = {.format = "v4", .page_tokens = 32}},
    {.name = "E2 v4, pages of 256", USUAL, .format = {.format = "v4", .page_tokens = 256, .page_gap_bytes = 256}},
    {.name = "E2 v41_planar, pages of 1", USUAL, .format = {.format = "v41_planar", .page_tokens = 1}},
    {.name = "v4, one page", USUAL, .format = {.format = "v4", .page_tokens = 1500}},
    {.name = "D2 v41, pages of 64 with gaps",
     USUAL,
     .format = {.format = "v41", .page_tokens = 64, .page_gap_bytes = 64}},
    {.name = "D2 v32, pages in a pool of layers",
     USUAL,
     .d_qk = 576,
     .format = {.format = "v32", .page_tokens = 64, .page_gap_bytes = 1039680 - 64 * 656}},
    {.name = "v41, tokens with gaps", USUAL, .format = {.format = "v41", .token_gap_bytes = 48}},
    {.name = "bf16, pages of 7", USUAL, .format = {.format = "bf16", .page_tokens = 7, .page_gap_bytes = 160}},
    {.name = "bf16, d 576, pages of 64", USUAL, .d_qk = 576, .format = {.format = "bf16", .page_tokens = 64}},
    /* two caches */
    {.name = "F5 v4 + v4, pages of 64 and 2",
     USUAL,
     EXTRA,
     .format = {.format = "v4", .page_tokens = 64, .page_gap_bytes = 64},
     .extra = {.format = "v4", .page_tokens = 2}},
    {.name = "v41 + v41_fp4", USUAL, EXTRA, .format = {.format = "v41"}, .extra = {.format = "v41_fp4"}},
    {.name = "v41_planar + v41_fp4_planar",
     USUAL,
     EXTRA,
     .format = {.format = "v41_planar", .page_tokens = 53, .page_gap_bytes = 16},
     .extra = {.format = "v41_fp4_planar", .page_tokens = 32}},
    {.name = "bf16 + bf16", USUAL, EXTRA},
    {.name = "bf16 + v41", USUAL, EXTRA, .extra = {.format = "v41"}},
    {.name = "v41_fp4 + bf16, pages of 5", USUAL, EXTRA, .format = {.format = "v41_fp4"}, .extra = {.page_tokens = 5}},
    {.name = "v32 + v32", USUAL, EXTRA, .d_qk = 576, .format = {.format = "v32"}, .extra = {.format = "v32"}},
    {.name = "two caches, second empty", USUAL, .has_extra = true},
    {.name = "two caches, first empty", .s_q = 20, .sink = true, EXTRA},
    {.name = "two caches, both empty", .s_q = 20, .sink = true, .has_extra = true},
    {.name = "two caches, dead rows",
     .s_q = 40,
     .s_kv = 640,
     .topk = 100,
     EXTRA,
     .dead_rows = 0.5,
     .lengths = LENGTHS_RANDOM,
     .format = {.format = "v41"},
     .extra = {.format = "v41_fp4"}},
    {.name = "two caches, first block dead",
     USUAL,
     EXTRA,
     .first_block_dead = true,
     .format = {.format = "v41"},
     .extra = {.format = "v41"}},
    /* heads and conventions */
    {.name = "v41, 6 heads", USUAL, .h_q = 6, .format = {.format = "v41"}},
    {.name = "v4, 80 heads", USUAL, .h_q = 80, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v32, 128 heads", USUAL, .h_q = 128, .d_qk = 576, .format = {.format = "v32"}},
    {.name = "v4, lse with sink, base 2",
     USUAL,
     .format = {.format = "v4", .page_tokens = 64},
     .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2},
    {.name = "v41, NaN selected", USUAL, .nan_selected = true, .format = {.format = "v41"}},
    {.name = "v4, NaN selected", USUAL, .nan_selected = true, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v41, views", USUAL, .strided = true, .format = {.format = "v41", .token_gap_bytes = 16}},
    /* one key a query, so that out is that key; every code of values and scales */
    {.name = "E3 v32, every code", ONE_KEY, .d_qk = 576, .format = {.format = "v32"}},
    {.name = "E3 v4, every code", ONE_KEY, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "E3 v41, every code", ONE_KEY, .format = {.format = "v41"}},
    {.name = "E3 v41_planar, every code", ONE_KEY, .format = {.format = "v41_planar", .page_tokens = 64}},
    {.name = "E3 v41_fp4, every code", ONE_KEY, .format = {.format = "v41_fp4"}},
    {.name = "E3 v32_norope, every code", ONE_KEY, .format = {.format = "v32_norope"}},
    {.name = "E3 v41_fp4_planar, every code", ONE_KEY, .format = {.format = "v41_fp4_planar", .page_tokens = 64}},
    {.name = "E3 hopper_fp4, every code", ONE_KEY, .format = {.format = "hopper_fp4"}},
    /* layouts that no preset is */
    {.name = "e2m1, fp32 scales, long tail, by page",
     USUAL,
     .format = {.layout = &layout_e2m1_fp32_page, .page_tokens = 33, .page_gap_bytes = 4}},
    {.name = "e4m3, e4m3 scales, d 576", USUAL, .d_qk = 576, .format = {.layout = &layout_e4m3_e4m3_token}},
    {.name = "e4m3, one scale a token", USUAL, .format = {.layout = &layout_e4m3_one_scale, .page_tokens = 16}},
    {.name = "bf16 by page", USUAL, .format = {.layout = &layout_bf16_page, .page_tokens = 16}},
    {.name = "bf16 by page + v41",
     USUAL,
     EXTRA,
     .format = {.layout = &layout_bf16_page, .page_tokens = 16},
     .extra = {.format = "v41"}},
    {.name = "e4m3 one scale + e2m1 fp32",
     USUAL,
     EXTRA,
     .format = {.layout = &layout_e4m3_one_scale, .page_tokens = 16},
     .extra = {.layout = &layout_e2m1_fp32_page, .page_tokens = 3, .page_gap_bytes = 12}},
};

static void report(const char *name, bool fine, const char *text)
{
    printf("%-6s %-38s %s\n", fine ? "passed" : "FAILED", name, text);
    fflush(stdout);
    *(fine ? &passed : &failed) += 1;
}

/* Right, and the same bits again. */
static void test_values(struct bench *bench, const struct problem_spec *row)
{
    struct problem_spec cut = *row;
    const struct problem_spec *const spec = &cut;
    cut.s_q = cut.s_q < most_queries ? cut.s_q : most_queries;
    struct problem problem;
    char why[PROBLEM_WHY], again_why[PROBLEM_WHY];
    if (!problem_make(bench, spec, &problem, why)) {
        report(spec->name, false, why);
        return;
    }
    bool fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
    size_t size = 0;
    uint8_t *first = problem_snapshot(bench, &problem, &size);
    fine = fine && problem_run(bench, bench->prefill, &problem, NULL, again_why);
    uint8_t *again = problem_snapshot(bench, &problem, &size);
    if (fine && (!first || !again || memcmp(first, again, size) != 0)) {
        snprintf(why, PROBLEM_WHY, "a second run gave other bits");
        fine = false;
    }
    free(first);
    free(again);
    problem_free(bench, &problem);
    report(spec->name, fine, why);
}

/* ---- Reports of other kernels ---- */

/* Each token's scale has another exponent, so that a scale of the next token is a factor of two: pages padded to a
 * multiple of 576 bytes, and to 16 alone. */
static void test_E2_pages(struct bench *bench)
{
    static const int64_t pages[] = {1, 2, 32, 64, 256};
    enum { V4_BYTES = 584 };
    for (size_t i = 0; i < 2 * sizeof(pages) / sizeof(pages[0]); i++) {
        const int64_t tokens = pages[i / 2], step = i % 2 ? 576 : 16, tight = tokens * V4_BYTES;
        char name[64];
        snprintf(name, sizeof(name), "E2 v4, pages of %d at multiples of %d", (int)tokens, (int)step);
        const struct problem_spec spec = {.name = name,
                                          .s_q = 300,
                                          .s_kv = 700,
                                          .topk = 1,
                                          .magnitude = 1e-30f,
                                          .sm_scale = 1e-12f,
                                          .exponents = 51,
                                          .format = {.format = "v4",
                                                     .page_tokens = tokens,
                                                     .page_gap_bytes = (tight + step - 1) / step * step - tight}};
        test_values(bench, &spec);
    }
}

/* Makes and runs the problem and takes the outputs' bytes. */
static uint8_t *bits_of(struct bench *bench, const struct problem_spec *spec, size_t *size, char why[PROBLEM_WHY])
{
    struct problem problem;
    if (!problem_make(bench, spec, &problem, why))
        return NULL;
    const bool fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
    uint8_t *bits = fine ? problem_snapshot(bench, &problem, size) : NULL;
    problem_free(bench, &problem);
    return bits;
}

/* The same tokens in tight pages, with 64 bytes behind each, and in a pool of many layers: the same bits. */
static void test_D2_gaps(struct bench *bench)
{
    static const struct {
        const char *format;
        int32_t width;
        int64_t token_bytes;
    } rows[] = {{"v32", 576, 656},
                {"v32_norope", 512, 528},
                {"v4", 512, 584},
                {"v41", 512, 528},
                {"v41_planar", 512, 528},
                {"v41_fp4", 512, 288},
                {"v41_fp4_planar", 512, 288},
                {"hopper_fp4", 512, 384}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int64_t gaps[] = {0, 64, 1039680 - 64 * rows[i].token_bytes};
        uint8_t *first = NULL;
        char name[64], why[PROBLEM_WHY] = "";
        bool fine = true;
        snprintf(name, sizeof(name), "D2 %s, the same tokens in three places", rows[i].format);
        for (int gap = 0; fine && gap < 3; gap++) {
            size_t size = 0;
            const struct problem_spec spec = {
                USUAL, .d_qk = rows[i].width,
                .format = {.format = rows[i].format, .page_tokens = 64, .page_gap_bytes = gaps[gap]}};
            uint8_t *bits = bits_of(bench, &spec, &size, why);
            fine = bits != NULL;
            if (fine && first && memcmp(bits, first, size) != 0) {
                snprintf(why, PROBLEM_WHY, "other bits with %d bytes behind a page", (int)gaps[gap]);
                fine = false;
            }
            if (first)
                free(bits);
            else
                first = bits;
        }
        free(first);
        report(name, fine, why);
    }
}

/* Keys of up to 448 * 2^15 beside small ones, and queries of 50: no NaN, and a query alone gives the bits that it gives
 * among others. Few rows: two of their logits of 1e8 that nearly tie would be past the bounds, as logits of 1e4 are
 * (docs/verification.md). */
static void test_E4_alone(struct bench *bench, const char *format, int32_t heads, int32_t width, int64_t most)
{
    static const int64_t counts[] = {1, 2, 3, 7, 8, 64, 128, 321};
    const struct problem_spec spec = {.s_q = most,
                                      .h_q = heads,
                                      .s_kv = 1500,
                                      .topk = 640,
                                      .d_qk = width,
                                      .magnitude = 50,
                                      .exponents = 27,
                                      .format = {.format = format, .page_tokens = 64}};
    struct problem problem;
    char name[64], why[PROBLEM_WHY] = "", again_why[PROBLEM_WHY] = "other bits in another batch";
    snprintf(name, sizeof(name), "E4 %s, keys far apart, batches of 1 to %d", format, (int)most);
    bool fine = problem_make(bench, &spec, &problem, why);
    if (!fine) {
        report(name, false, why);
        return;
    }
    const int64_t all = problem.args.s_q;
    size_t size = 0;
    fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
    uint8_t *first = problem_snapshot(bench, &problem, &size);
    fine = fine && first;
    for (size_t i = 0; fine && i < sizeof(counts) / sizeof(counts[0]) && counts[i] <= all; i++) {
        problem.args.s_q = counts[i];
        fine = problem_run(bench, bench->prefill, &problem, NULL, again_why);
        uint8_t *bits = problem_snapshot(bench, &problem, &size);
        fine = fine && bits && memcmp(bits, first, problem.out.size_bytes / (size_t)all * (size_t)counts[i]) == 0;
        free(bits);
        if (!fine)
            memcpy(why, again_why, PROBLEM_WHY);
    }
    free(first);
    problem_free(bench, &problem);
    report(name, fine, why);
}

static void test_E4(struct bench *bench)
{
    test_E4_alone(bench, "v32", 64, 576, 64);
    test_E4_alone(bench, "v4", 8, 512, 321);
}

/* The bf16 kernel over the same keys, into the problem's own outputs. */
static bool run_on_bf16(struct bench *bench, struct problem *problem, char why[PROBLEM_WHY])
{
    const smla_kernel_desc desc = {
        .struct_size = sizeof(desc), .op = SMLA_OP_PREFILL, .h_q = problem->spec.h_q, .d_qk = problem->spec.d_qk};
    struct problem_flat flat = {0};
    smla_kernel *kernel = NULL;
    struct problem call = *problem;
    bool fine =
        smla_prepare(bench->context, &desc, &kernel) == SMLA_OK && problem_flatten(bench, problem, &flat, &call.args);
    call.args.out = problem->args.out;
    call.args.lse = problem->args.lse;
    call.args.max_logits = problem->args.max_logits;
    if (fine)
        fine = problem_run(bench, kernel, &call, NULL, why);
    else
        snprintf(why, PROBLEM_WHY, "no bf16 kernel, or %s", device_why(bench->device));
    problem_flat_free(bench, &flat);
    smla_kernel_destroy(kernel);
    return fine;
}

/* Prefill over a quantised cache and over its keys as bf16, at every length from 1 to 300: at most 2 units in the last
 * place of the row's largest element apart, at any length. */
static void test_C4_lengths(struct bench *bench, const char *format, int32_t heads, int32_t width)
{
    enum { D_V = 512 };
    const struct problem_spec spec = {.s_q = 300,
                                      .s_kv = 1500,
                                      .topk = 300,
                                      .h_q = heads,
                                      .d_qk = width,
                                      .lengths = LENGTHS_RAMP,
                                      .format = {.format = format, .page_tokens = 64}};
    struct problem problem;
    char name[64], why[PROBLEM_WHY] = "", text[PROBLEM_WHY] = "";
    snprintf(name, sizeof(name), "C4 %s, %d heads, lengths 1 to 300", format, (int)heads);
    if (!problem_make(bench, &spec, &problem, why)) {
        report(name, false, why);
        return;
    }
    size_t size = 0;
    bool fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
    uint8_t *quantised = problem_snapshot(bench, &problem, &size);
    fine = fine && run_on_bf16(bench, &problem, why) && problem_check(bench, &problem, why);
    uint8_t *plain = problem_snapshot(bench, &problem, &size);
    const uint16_t *a = (const uint16_t *)(const void *)quantised, *b = (const uint16_t *)(const void *)plain;
    double worst = 0;
    int64_t differing = 0;
    for (int64_t row = 0; fine && a && b && row < problem.args.s_q * heads; row++) {
        float largest = 0, apart = 0;
        for (int64_t d = row * D_V; d < (row + 1) * D_V; d++) {
            largest = fmaxf(largest, fabsf(bf16_to_float(b[d])));
            apart = fmaxf(apart, fabsf(bf16_to_float(a[d]) - bf16_to_float(b[d])));
            differing += a[d] != b[d];
        }
        worst = fmax(worst, (double)apart / ldexp(1, ilogbf(fmaxf(largest, 1e-30f)) - 7));
    }
    snprintf(text, sizeof(text), "%.2f ulp apart at most, %lld elements differ", worst, (long long)differing);
    fine = fine && a && b && worst <= 2;
    report(name, fine, worst > 0 || fine ? text : why);
    free(quantised);
    free(plain);
    problem_free(bench, &problem);
}

static void test_C4(struct bench *bench)
{
    test_C4_lengths(bench, "v32", 64, 576);
    test_C4_lengths(bench, "v4", 64, 512);
    test_C4_lengths(bench, "v4", 16, 512);
}

/* Which of two caches is the first changes nothing but the order of summation. Each list ends in a block of its own. */
static void test_F5_swapped(struct bench *bench)
{
    static const int64_t pages[][2] = {{256, 64}, {64, 256}, {256, 2}, {64, 64}};
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        const struct problem_spec spec = {.s_q = 30,
                                          .s_kv = 1500,
                                          .topk = 130,
                                          .invalid = 0.1,
                                          .sink = true,
                                          .lengths = LENGTHS_WILD,
                                          .has_extra = true,
                                          .extra_s_kv = 700,
                                          .extra_topk = 65,
                                          .format = {.format = "v4", .page_tokens = pages[i][0]},
                                          .extra = {.format = "v4", .page_tokens = pages[i][1]}};
        struct problem problem;
        char name[64], why[PROBLEM_WHY] = "";
        snprintf(name, sizeof(name), "F5 v4 + v4, pages of %d and %d, swapped", (int)pages[i][0], (int)pages[i][1]);
        bool fine = problem_make(bench, &spec, &problem, why);
        if (fine) {
            fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
            problem_swap_caches(&problem);
            fine =
                fine && problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
            problem_free(bench, &problem);
        }
        report(name, fine, why);
    }
}

/* ---- Over an unpacked cache ---- */

/* The same call over the keys as bf16, dequantised on the CPU, by the kernel for that. */
static bool run_on_rows(struct bench *bench, struct problem *problem, char why[PROBLEM_WHY])
{
    const smla_kernel_desc desc = {.struct_size = sizeof(desc),
                                   .op = SMLA_OP_PREFILL,
                                   .h_q = problem->spec.h_q,
                                   .d_qk = problem->spec.d_qk,
                                   .batch_invariant = 1};
    struct problem_flat flat = {0};
    smla_prefill_args flat_args = {0};
    smla_kernel *kernel = NULL;
    struct problem call = *problem;
    bool fine =
        smla_prepare(bench->context, &desc, &kernel) == SMLA_OK && problem_flatten(bench, problem, &flat, &flat_args);
    call.args.kv = flat_args.kv;
    call.args.kv_stride_token = call.args.kv_page_tokens = call.args.kv_stride_page = 0;
    if (fine)
        fine = problem_run(bench, kernel, &call, NULL, why);
    else
        snprintf(why, PROBLEM_WHY, "no bf16 kernel, or %s", device_why(bench->device));
    problem_flat_free(bench, &flat);
    smla_kernel_destroy(kernel);
    return fine;
}

/* The problem's call with so many bytes of workspace, 0xff before, that begin `shift` bytes past an aligned place. */
static uint8_t *bits_with_workspace(struct bench *bench, struct problem *problem, uint64_t bytes, size_t shift,
                                    bool unpacks, char why[PROBLEM_WHY])
{
    struct guarded workspace;
    size_t size = 0;
    char broken[GUARDED_WHY] = "no memory for a workspace";
    if (!guarded_create(bench->device, "workspace", NULL, bytes + shift, &workspace)) {
        snprintf(why, PROBLEM_WHY, "%s", broken);
        return NULL;
    }
    problem->args.workspace = (char *)guarded_data(&workspace) + shift;
    problem->args.workspace_bytes = bytes;
    bool fine = rt_prefill_unpacks(bench->prefill, &problem->args) == unpacks;
    if (!fine)
        snprintf(why, PROBLEM_WHY, "it %s", unpacks ? "does not unpack" : "unpacks");
    fine = fine && guarded_poison(bench->device, &workspace) && problem_run(bench, bench->prefill, problem, NULL, why);
    if (fine && guarded_check(bench->device, &workspace, broken) != GUARDED_INTACT) {
        snprintf(why, PROBLEM_WHY, "%s", broken);
        fine = false;
    }
    problem->args.workspace = NULL;
    problem->args.workspace_bytes = 0;
    guarded_destroy(bench->device, &workspace);
    return fine ? problem_snapshot(bench, problem, &size) : NULL;
}

static const char *const tensors[] = {"out", "lse", "max_logits"};

/* Whether the call with that workspace gives these bits. */
static bool gives(struct bench *bench, struct problem *problem, uint64_t bytes, size_t shift, bool unpacks,
                  const uint8_t *expected, size_t size, char why[PROBLEM_WHY])
{
    uint8_t *bits = bits_with_workspace(bench, problem, bytes, shift, unpacks, why);
    int64_t differing = 0;
    size_t first = 0;
    for (size_t i = 0; bits && expected && i < size; i++) {
        first = differing == 0 ? i : first;
        differing += bits[i] != expected[i];
    }
    if (differing > 0) {
        const int tensor = first < problem->out.size_bytes                             ? 0
                           : first < problem->out.size_bytes + problem->lse.size_bytes ? 1
                                                                                       : 2;
        snprintf(why, PROBLEM_WHY, "%s with %llu bytes of workspace: %lld bytes differ, the first in %s",
                 unpacks ? "unpacked" : "in the kernel", (unsigned long long)bytes, (long long)differing,
                 tensors[tensor]);
    }
    const bool fine = bits && expected && differing == 0;
    free(bits);
    return fine;
}

/* Without a workspace, or with one that is a byte too small or is misaligned, the keys are dequantised in the kernel;
 * with one that serves the bits are those of the bf16 kernel over the same keys, which the CPU dequantised. Both are
 * right. Every call unpacks that can. */
static void test_unpacked(struct bench *bench, const struct problem_spec *row)
{
    struct problem_spec spec = *row;
    spec.s_q = spec.s_q < most_queries ? spec.s_q : most_queries;
    struct problem problem;
    char name[96], why[PROBLEM_WHY] = "";
    size_t size = 0;
    uint64_t bytes = 0;
    snprintf(name, sizeof(name), "unpacked %s", row->name);
    if (!problem_make(bench, &spec, &problem, why)) {
        report(name, false, why);
        return;
    }
    bench->prefill->unpack.least_reads = 0;
    const int64_t rows = problem.args.s_kv;
    bool fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
    fine = fine &&
           smla_prefill_wanted_workspace_size(bench->prefill, problem.args.s_q, INT32_MAX, rows, &bytes) == SMLA_OK;
    if (fine && bytes != (uint64_t)(rows * problem.spec.d_qk * 2)) {
        snprintf(why, PROBLEM_WHY, "%llu bytes of workspace", (unsigned long long)bytes);
        fine = false;
    }
    uint8_t *in_kernel = problem_snapshot(bench, &problem, &size);
    fine = fine && run_on_rows(bench, &problem, why);
    uint8_t *over_bf16 = problem_snapshot(bench, &problem, &size);
    if (fine && bytes > 0)
        fine = gives(bench, &problem, bytes - 1, 0, false, in_kernel, size, why) &&
               gives(bench, &problem, bytes, 8, false, in_kernel, size, why) &&
               gives(bench, &problem, bytes, 0, true, over_bf16, size, why) && problem_check(bench, &problem, why);
    free(in_kernel);
    free(over_bf16);
    problem_free(bench, &problem);
    report(name, fine, why);
}

static const struct problem_spec unpacked_specs[] = {
    {.name = "v32_norope", USUAL, .format = {.format = "v32_norope"}, .odd_scales = true},
    {.name = "v4, pages of 64 with gaps", USUAL, .format = {.format = "v4", .page_tokens = 64, .page_gap_bytes = 64}},
    {.name = "v4, pages of 2", USUAL, .format = {.format = "v4", .page_tokens = 2, .page_gap_bytes = 560}},
    {.name = "v41", USUAL, .format = {.format = "v41"}},
    {.name = "v41, pages of 64 with gaps", USUAL, .format = {.format = "v41", .page_tokens = 64, .page_gap_bytes = 64}},
    {.name = "v41, views", USUAL, .strided = true, .format = {.format = "v41", .token_gap_bytes = 16}},
    {.name = "v41_planar, pages of 53", USUAL, .format = {.format = "v41_planar", .page_tokens = 53}},
    {.name = "v41_fp4", USUAL, .format = {.format = "v41_fp4"}},
    {.name = "v41_fp4_planar, pages of 61", USUAL, .format = {.format = "v41_fp4_planar", .page_tokens = 61}},
    {.name = "hopper_fp4", USUAL, .format = {.format = "hopper_fp4"}},
    {.name = "e2m1, fp32 scales, long tail, by page",
     USUAL,
     .format = {.layout = &layout_e2m1_fp32_page, .page_tokens = 33, .page_gap_bytes = 4}},
    {.name = "e4m3, one scale a token", USUAL, .format = {.layout = &layout_e4m3_one_scale, .page_tokens = 16}},
    {.name = "v4, no tokens", .s_q = 30, .topk = 70, .sink = true, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v4, one token", .s_q = 30, .s_kv = 1, .topk = 70, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v41, three tokens", .s_q = 30, .s_kv = 3, .topk = 70, .format = {.format = "v41"}},
    {.name = "v4, 57 heads", USUAL, .h_q = 57, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v41, 128 heads", USUAL, .h_q = 128, .format = {.format = "v41"}},
    {.name = "v4, 8 heads", USUAL, .h_q = 8, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v41_fp4, 33 heads", USUAL, .h_q = 33, .format = {.format = "v41_fp4"}},
    {.name = "v32", USUAL, .d_qk = 576, .format = {.format = "v32"}, .odd_scales = true},
    {.name = "v32, 8 heads, pages of 64", USUAL, .h_q = 8, .d_qk = 576, .format = {.format = "v32", .page_tokens = 64}},
    {.name = "e4m3, e4m3 scales, d 576", USUAL, .d_qk = 576, .format = {.layout = &layout_e4m3_e4m3_token}},
    {.name = "v41, dead rows",
     .s_q = 40,
     .s_kv = 640,
     .topk = 100,
     .dead_rows = 0.5,
     .lengths = LENGTHS_RANDOM,
     .format = {.format = "v41"}},
    {.name = "v41, NaN selected", USUAL, .nan_selected = true, .format = {.format = "v41"}},
    {.name = "v4, lse with sink, base 2",
     USUAL,
     .format = {.format = "v4", .page_tokens = 64},
     .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2},
    {.name = "v4, every code", ONE_KEY, .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v41, every code", ONE_KEY, .format = {.format = "v41"}},
    {.name = "v41_fp4, every code", ONE_KEY, .format = {.format = "v41_fp4"}},
    {.name = "hopper_fp4, every code", ONE_KEY, .format = {.format = "hopper_fp4"}},
    {.name = "v4, keys far apart",
     .s_q = 64,
     .s_kv = 1500,
     .topk = 640,
     .magnitude = 50,
     .exponents = 27,
     .format = {.format = "v4", .page_tokens = 64}},
    {.name = "v4, lengths 1 to 300",
     .s_q = 300,
     .s_kv = 1500,
     .topk = 300,
     .lengths = LENGTHS_RAMP,
     .format = {.format = "v4", .page_tokens = 64}},
};

static void test_all_unpacked(struct bench *bench)
{
    for (size_t i = 0; i < sizeof(unpacked_specs) / sizeof(unpacked_specs[0]); i++)
        test_unpacked(bench, &unpacked_specs[i]);
}

static const struct {
    const char *id;
    void (*test)(struct bench *bench);
} sweeps[] = {{"unpacked", test_all_unpacked}, {"C4", test_C4}, {"D2", test_D2_gaps},
              {"E2", test_E2_pages},           {"E4", test_E4}, {"F5", test_F5_swapped}};

/* An ID ends where the name's does. */
static bool is_wanted(const char *name, char **wanted, int count)
{
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(wanted[i]);
        if (strncmp(name, wanted[i], length) == 0 && (name[length] == ' ' || name[length] == '\0'))
            return true;
    }
    return count == 0;
}

/* Ten pages 700 MB apart: the last lie past 2^32 bytes. The same bits as with the pages side by side. */
static void test_far_pages(struct bench *bench, const char *name, const char *format, int32_t d_qk)
{
    enum { PAGES = 10, TOKENS = 64 };
    const int64_t stride = 700000000;
    const struct problem_spec spec = {.name = name,
                                      .d_qk = d_qk,
                                      .s_q = 8,
                                      .s_kv = PAGES * TOKENS,
                                      .topk = 200,
                                      .format = {.format = format, .page_tokens = TOKENS}};
    struct problem problem;
    char why[PROBLEM_WHY] = "";
    void *far = NULL;
    if (!problem_make(bench, &spec, &problem, why)) {
        report(name, false, why);
        return;
    }
    const size_t page_bytes = problem.kv.size_bytes / PAGES;
    size_t size;
    bool fine = device_alloc(bench->device, (size_t)stride * (PAGES - 1) + page_bytes, &far) &&
                problem_run(bench, bench->prefill, &problem, NULL, why);
    uint8_t *near_bits = problem_snapshot(bench, &problem, &size);
    for (int page = 0; fine && page < PAGES; page++)
        fine = device_upload(bench->device, (uint8_t *)far + page * stride,
                             (const uint8_t *)problem.host[1] + (size_t)page * page_bytes, page_bytes);
    problem.args.kv = far;
    problem.args.kv_stride_page = stride;
    fine = fine && problem_run(bench, bench->prefill, &problem, NULL, why);
    uint8_t *far_bits = problem_snapshot(bench, &problem, &size);
    fine = fine && near_bits && far_bits && memcmp(near_bits, far_bits, size) == 0;
    report(name, fine, fine ? "same bits as near" : "other bits than near, or a fault");
    free(near_bits);
    free(far_bits);
    if (far)
        device_free(bench->device, far);
    problem_free(bench, &problem);
}

int main(int argc, char **argv)
{
    cli_start("gpu-formats", argc, argv);
    if (argc > 1 && strcmp(argv[1], "-q") == 0) {
        if (argc < 3 || !cli_int(argv[2], 1, INT32_MAX, &most_queries))
            return cli_fail(CLI_USAGE, "-q needs a number of queries");
        argc -= 2;
        argv += 2;
    }
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        if (is_wanted(specs[i].name, argv + 1, argc - 1))
            test_values(&bench, &specs[i]);
    for (size_t i = 0; i < sizeof(sweeps) / sizeof(sweeps[0]); i++)
        if (is_wanted(sweeps[i].id, argv + 1, argc - 1))
            sweeps[i].test(&bench);
    if (bench.emulated && argc == 1) { /* by name it runs: 7 GB of host memory, a minute */
        printf("       %-38s not run: 7 GB of host memory on the emulated device\n", "far pages");
    } else if (is_wanted("far", argv + 1, argc - 1)) {
        test_far_pages(&bench, "far pages of v4", "v4", 512);
        test_far_pages(&bench, "far pages of v32", "v32", 576);
    }
    bench_close(&bench);
    printf("%d passed, %d failed\n", passed, failed);
    if (passed + failed == 0)
        return 2;
    return failed == 0 ? 0 : 1;
}
