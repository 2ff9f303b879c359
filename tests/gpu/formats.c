/* sm_90 prefill over quantised caches, pages and two caches, on a card against the float64 kernel over the same keys as
 * bf16, or on the emulated device against the CPU reference. Exit 0 all passed, 1 something failed, 77 there is no
 * card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layouts.h"
#include "problem.h"

static int passed, failed;

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
    {.name = "v4 + v4, pages of 64 and 2",
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
    {.name = "E3 hopper_fp4, every code", ONE_KEY, .format = {.format = "hopper_fp4"}},
    /* layouts that no preset is */
    {.name = "e2m1, fp32 scales, long tail, by page",
     USUAL,
     .format = {.layout = &layout_e2m1_fp32_page, .page_tokens = 33, .page_gap_bytes = 4}},
    {.name = "e4m3, e4m3 scales, d 576", USUAL, .d_qk = 576, .format = {.layout = &layout_e4m3_e4m3_token}},
    {.name = "e4m3, one scale a token", USUAL, .format = {.layout = &layout_e4m3_one_scale, .page_tokens = 16}},
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
static void test_values(struct bench *bench, const struct problem_spec *spec)
{
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

int main(void)
{
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        test_values(&bench, &specs[i]);
    bench_close(&bench);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
