/* sm_90 decode on a card or on the emulated device, against the CPU reference: named cases, random ones, and the ways a
 * call may be made. Of each call also: the same bits again, and nothing beside the outputs written.
 *
 *   gpu-decode [--tiny] [--cases N] [--seed S] [--case K] [NAME…]
 *
 *   --tiny    some of the named cases, those of bug reports among them, and of the random ones: half a minute on the
 *             emulated device
 *   --cases   random cases: 400 on a card, 18 on the emulated device, unless given
 *   --case    random case K of the seed alone, which is the same call anywhere
 *   NAME      only what begins with one of these (docs/bug-reports.md has some); "random" is the random cases
 *
 * Exit 0 all passed, 1 something failed, 2 a wrong argument, 77 there is no card. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "cli.h"
#include "decode_problem.h"
#include "kernel.h"
#include "random_numbers.h"

enum { D_V = 512, MOST_HEADS = 128 };

static int passed, failed;

static struct options {
    bool tiny;
    int64_t cases, seed, only; /* only: -1, or the one case to run */
    char **names;
    int name_count;
} options = {.cases = -1, .seed = 1, .only = -1};

static void report(const char *name, bool fine, const char *text)
{
    printf("%-6s %-44s %s\n", fine ? "passed" : "FAILED", name, text);
    fflush(stdout);
    *(fine ? &passed : &failed) += 1;
}

static bool is_wanted(const char *name)
{
    for (int i = 0; i < options.name_count; i++)
        if (strncmp(name, options.names[i], strlen(options.names[i])) == 0)
            return true;
    return options.name_count == 0;
}

/* ---- Values ---- */

#define BF16(rows, entries, counts)                                                                                    \
    {                                                                                                                  \
        .s_kv = (rows), .topk = (entries), .lengths = (counts)                                                         \
    }
#define PAGED(preset, tokens, gap, rows, entries, counts)                                                              \
    {                                                                                                                  \
        .format = {.format = (preset), .page_tokens = (tokens), .page_gap_bytes = (gap)}, .s_kv = (rows),              \
        .topk = (entries), .lengths = (counts)                                                                         \
    }
#define NONE DECODE_LENGTHS_NONE
#define REQUEST DECODE_LENGTHS_PER_REQUEST
#define TOKEN DECODE_LENGTHS_PER_TOKEN
#define ONE_LONG DECODE_LENGTHS_ONE_LONG

/* How large the rows of a table are. */
enum size { TINY, SMALL, LARGE };

static const struct row {
    enum size size;
    struct decode_spec spec;
} rows[] = {
    /* bf16, 64 heads */
    {TINY, {.name = "one token", .b = 1, .s_q = 1, .caches = {BF16(640, 300, NONE)}}},
    {TINY, {.name = "A2 no requests", .b = 0, .s_q = 1, .caches = {BF16(640, 300, NONE)}}},
    {TINY, {.name = "A2 no tokens", .b = 3, .s_q = 0, .caches = {BF16(640, 300, NONE)}}},
    {TINY, {.name = "A3 topk 0", .b = 3, .s_q = 1, .sink = DECODE_SINK, .caches = {BF16(640, 0, NONE)}}},
    {TINY, {.name = "A3 no slots", .b = 2, .s_q = 2, .sink = DECODE_SINK, .caches = {BF16(0, 200, TOKEN)}}},
    {SMALL, {.name = "one slot", .b = 2, .s_q = 2, .invalid = 0.3, .caches = {BF16(1, 130, TOKEN)}}},
    {SMALL, {.name = "topk 1", .b = 7, .s_q = 1, .caches = {BF16(640, 1, NONE)}}},
    {SMALL, {.name = "topk 64", .b = 3, .s_q = 1, .invalid = 0.1, .caches = {BF16(640, 64, NONE)}}},
    {SMALL, {.name = "topk 65", .b = 3, .s_q = 1, .invalid = 0.1, .caches = {BF16(640, 65, NONE)}}},
    {TINY,
     {.name = "A4 garbage lengths, per request",
      .b = 7,
      .s_q = 1,
      .invalid = 0.1,
      .sink = DECODE_SINK,
      .strides = DECODE_APART,
      .caches = {BF16(640, 130, REQUEST)}}},
    {SMALL,
     {.name = "A4 garbage lengths, per token",
      .b = 3,
      .s_q = 3,
      .invalid = 0.1,
      .sink = DECODE_SINK,
      .strides = DECODE_TRANSPOSED,
      .caches = {BF16(640, 130, TOKEN)}}},
    {SMALL, {.name = "one long among short", .b = 7, .s_q = 1, .caches = {BF16(2000, 700, ONE_LONG)}}},
    {TINY,
     {.name = "B9 valid keys in the last block alone",
      .b = 1,
      .s_q = 2,
      .live_block = 8,
      .sink = DECODE_SINK,
      .caches = {BF16(640, 500, NONE)}}},
    {TINY,
     {.name = "B9 valid keys in the first block alone",
      .b = 1,
      .s_q = 1,
      .live_block = 1,
      .caches = {BF16(640, 500, NONE)}}},
    {SMALL, {.name = "all invalid", .b = 2, .s_q = 1, .invalid = 1, .caches = {BF16(640, 300, NONE)}}},
    {TINY,
     {.name = "C2 sinks, some tokens dead",
      .b = 4,
      .s_q = 1,
      .dead_tokens = 0.5,
      .sink = DECODE_SINK,
      .caches = {BF16(640, 300, NONE)}}},
    {TINY,
     {.name = "NaN sink, lse with it in base 2",
      .b = 3,
      .s_q = 1,
      .dead_tokens = 0.4,
      .sink = DECODE_NAN_SINK,
      .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2,
      .caches = {BF16(640, 300, NONE)}}},
    {SMALL,
     {.name = "empty lse negative",
      .b = 4,
      .s_q = 1,
      .dead_tokens = 0.5,
      .lse_flags = SMLA_LSE_EMPTY_NEGATIVE,
      .caches = {BF16(640, 300, NONE)}}},
    {SMALL,
     {.name = "lse with sink, none given",
      .b = 2,
      .s_q = 1,
      .lse_flags = SMLA_LSE_WITH_SINK,
      .caches = {BF16(640, 300, NONE)}}},
    {SMALL, {.name = "no lse", .b = 2, .s_q = 1, .no_lse = true, .caches = {BF16(640, 300, NONE)}}},
    {SMALL, {.name = "NaN selected", .b = 3, .s_q = 1, .nan_selected = true, .caches = {BF16(300, 200, NONE)}}},
    {TINY, {.name = "infinity selected", .b = 3, .s_q = 1, .inf_selected = true, .caches = {BF16(300, 200, NONE)}}},
    {TINY,
     {.name = "infinity selected, one of few valid keys",
      .b = 1,
      .s_q = 1,
      .invalid = 0.99,
      .inf_selected = true,
      .caches = {BF16(6, 900, NONE)}}},
    {SMALL, {.name = "logits of 3e3", .b = 2, .s_q = 1, .magnitude = 1000, .caches = {BF16(640, 300, NONE)}}},
    {SMALL, {.name = "scale negative", .b = 2, .s_q = 1, .sm_scale = -0.04f, .caches = {BF16(640, 300, NONE)}}},
    {SMALL, {.name = "scale zero", .b = 2, .s_q = 1, .sm_scale = -0.0f, .caches = {BF16(640, 300, NONE)}}},
    {SMALL, {.name = "sm_limit 1", .b = 3, .s_q = 1, .sm_limit = 1, .caches = {BF16(640, 300, REQUEST)}}},
    {SMALL, {.name = "sm_limit 2", .b = 3, .s_q = 1, .sm_limit = 2, .caches = {BF16(640, 300, REQUEST)}}},
    {SMALL, {.name = "sm_limit 3", .b = 1, .s_q = 1, .sm_limit = 3, .caches = {BF16(640, 300, NONE)}}},
    {TINY,
     {.name = "infinity selected, one of few, not shared",
      .b = 1,
      .s_q = 1,
      .invalid = 0.99,
      .inf_selected = true,
      .sm_limit = 1,
      .caches = {BF16(6, 900, NONE)}}},
    {LARGE, {.name = "64 requests, one long", .b = 64, .s_q = 1, .caches = {BF16(20000, 16384, ONE_LONG)}}},
    {LARGE, {.name = "300 requests", .b = 300, .s_q = 2, .sink = DECODE_SINK, .caches = {BF16(4000, 200, TOKEN)}}},
    {LARGE, {.name = "topk 16384", .b = 2, .s_q = 1, .caches = {BF16(20000, 16384, NONE)}}},
    {LARGE, {.name = "1500 requests of few keys", .b = 1500, .s_q = 1, .caches = {BF16(640, 70, REQUEST)}}},
    /* bf16, pieces that topk alone decides */
    {SMALL,
     {.name = "batch invariant, topk 1100",
      .h_q = 16,
      .batch_invariant = 1,
      .b = 2,
      .s_q = 1,
      .sink = DECODE_SINK,
      .caches = {BF16(2000, 1100, REQUEST)}}},
    {SMALL,
     {.name = "batch invariant, topk 3100",
      .h_q = 16,
      .batch_invariant = 1,
      .b = 2,
      .s_q = 1,
      .invalid = 0.1,
      .caches = {BF16(4000, 3100, NONE)}}},
    {SMALL,
     {.name = "batch invariant, one long among short",
      .h_q = 16,
      .batch_invariant = 1,
      .b = 9,
      .s_q = 1,
      .dead_tokens = 0.2,
      .caches = {BF16(4000, 2100, ONE_LONG)}}},
    /* formats, one cache */
    {SMALL,
     {.name = "v4, pages of 64 apart",
      .b = 3,
      .s_q = 1,
      .invalid = 0.1,
      .sink = DECODE_SINK,
      .strides = DECODE_APART,
      .caches = {PAGED("v4", 64, 64, 700, 200, REQUEST)}}},
    {SMALL,
     {.name = "v4, pages of 2", .b = 2, .s_q = 2, .invalid = 0.1, .caches = {PAGED("v4", 2, 16, 700, 200, TOKEN)}}},
    {SMALL, {.name = "v4, pages of 53", .b = 2, .s_q = 1, .caches = {PAGED("v4", 53, 8, 700, 200, NONE)}}},
    {SMALL,
     {.name = "v32, 40 heads, pages of 61",
      .h_q = 40,
      .d_qk = 576,
      .b = 3,
      .s_q = 2,
      .invalid = 0.1,
      .spoiled = 0x7f,
      .caches = {PAGED("v32", 61, 0, 700, 200, TOKEN)}}},
    {TINY,
     {.name = "v32, 100 heads, one long among short",
      .h_q = 100,
      .d_qk = 576,
      .b = 5,
      .s_q = 1,
      .invalid = 0.1,
      .spoiled = 0x7f,
      .sink = DECODE_SINK,
      .strides = DECODE_APART,
      .caches = {PAGED("v32", 61, 0, 2000, 700, ONE_LONG)}}},
    {SMALL,
     {.name = "v41_planar, 128 heads, pages of 1",
      .h_q = 128,
      .b = 2,
      .s_q = 1,
      .sink = DECODE_SINK,
      .strides = DECODE_TRANSPOSED,
      .caches = {PAGED("v41_planar", 1, 0, 700, 200, REQUEST)}}},
    /* two caches */
    {TINY,
     {.name = "v4 + v4, window and compressed, 8 heads",
      .h_q = 8,
      .b = 3,
      .s_q = 2,
      .invalid = 0.1,
      .has_extra = true,
      .sink = DECODE_SINK,
      .strides = DECODE_APART,
      .caches = {PAGED("v4", 64, 64, 400, 128, TOKEN), PAGED("v4", 2, 16, 700, 200, REQUEST)}}},
    {TINY,
     {.name = "v4 + v4, first empty",
      .h_q = 8,
      .b = 3,
      .s_q = 1,
      .has_extra = true,
      .caches = {PAGED("v4", 64, 64, 0, 0, NONE), PAGED("v4", 2, 16, 700, 200, REQUEST)}}},
    {TINY,
     {.name = "v4 + v4, second empty",
      .h_q = 8,
      .b = 3,
      .s_q = 1,
      .has_extra = true,
      .caches = {PAGED("v4", 64, 64, 700, 200, REQUEST), PAGED("v4", 2, 16, 0, 0, NONE)}}},
    {TINY,
     {.name = "v4 + v4, both empty",
      .h_q = 8,
      .b = 3,
      .s_q = 1,
      .sink = DECODE_SINK,
      .has_extra = true,
      .caches = {PAGED("v4", 64, 64, 0, 0, NONE), PAGED("v4", 2, 16, 0, 0, NONE)}}},
    {SMALL,
     {.name = "v4 + v4, one long among short",
      .h_q = 8,
      .b = 9,
      .s_q = 1,
      .has_extra = true,
      .caches = {PAGED("v4", 64, 64, 400, 128, REQUEST), PAGED("v4", 2, 16, 900, 700, ONE_LONG)}}},
    {SMALL,
     {.name = "v41 + v41_fp4, 80 heads",
      .h_q = 80,
      .b = 2,
      .s_q = 1,
      .invalid = 0.1,
      .has_extra = true,
      .spoiled = 0x7f,
      .caches = {PAGED("v41", 256, 32, 400, 128, REQUEST), PAGED("v41_fp4", 64, 0, 700, 150, NONE)}}},
    /* few tokens, which a companion takes in tiles of 16 heads, or of 8: on so many multiprocessors that items are cut,
     * or a range has several tiles' */
    {SMALL,
     {.name = "few tokens, 20 heads",
      .h_q = 20,
      .b = 1,
      .s_q = 1,
      .invalid = 0.1,
      .sink = DECODE_SINK,
      .strides = DECODE_TRANSPOSED,
      .sm_limit = 7,
      .caches = {BF16(640, 500, TOKEN)}}},
    {SMALL,
     {.name = "few tokens, 40 heads",
      .h_q = 40,
      .b = 1,
      .s_q = 1,
      .invalid = 0.1,
      .strides = DECODE_APART,
      .sm_limit = 5,
      .caches = {BF16(640, 250, NONE)}}},
    {SMALL,
     {.name = "few tokens, 100 heads",
      .h_q = 100,
      .d_qk = 576,
      .b = 2,
      .s_q = 1,
      .sink = DECODE_SINK,
      .strides = DECODE_APART,
      .sm_limit = 6,
      .caches = {BF16(640, 64, REQUEST)}}},
    {SMALL,
     {.name = "few tokens, 9 heads",
      .h_q = 9,
      .b = 3,
      .s_q = 1,
      .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2,
      .sink = DECODE_SINK,
      .caches = {BF16(640, 300, TOKEN)}}},
    {SMALL,
     {.name = "few tokens, some dead",
      .b = 4,
      .s_q = 1,
      .dead_tokens = 0.5,
      .sink = DECODE_SINK,
      .caches = {BF16(640, 200, TOKEN)}}},
    {SMALL,
     {.name = "few tokens, no keys", .h_q = 24, .b = 3, .s_q = 1, .sink = DECODE_SINK, .caches = {BF16(640, 0, NONE)}}},
    {SMALL,
     {.name = "few tokens, v4 + v4",
      .b = 1,
      .s_q = 2,
      .invalid = 0.1,
      .has_extra = true,
      .sink = DECODE_SINK,
      .caches = {PAGED("v4", 64, 64, 400, 128, TOKEN), PAGED("v4", 2, 16, 700, 250, TOKEN)}}},
    {SMALL,
     {.name = "few tokens, v4 + v4, 16 heads",
      .h_q = 16,
      .b = 2,
      .s_q = 1,
      .dead_tokens = 0.3,
      .has_extra = true,
      .strides = DECODE_APART,
      .caches = {PAGED("v4", 64, 64, 400, 128, REQUEST), PAGED("v4", 2, 16, 700, 200, REQUEST)}}},
    {SMALL,
     {.name = "few tokens, v32, 128 heads",
      .h_q = 128,
      .d_qk = 576,
      .b = 1,
      .s_q = 1,
      .invalid = 0.1,
      .spoiled = 0x7f,
      .caches = {PAGED("v32", 64, 0, 700, 300, NONE)}}},
    {LARGE,
     {.name = "M2 v4 + v4, one request of 16 tokens",
      .b = 1,
      .s_q = 16,
      .has_extra = true,
      .sink = DECODE_SINK,
      .caches = {PAGED("v4", 64, 64, 4000, 128, TOKEN), PAGED("v4", 64, 64, 4000, 512, TOKEN)}}},
};

/* Says whether it is a call of the kernel's companion. */
static void add_who(const struct decode_bench *bench, const struct decode_spec *spec, char why[PROBLEM_WHY])
{
    const int64_t topk[2] = {spec->caches[0].topk, spec->has_extra ? spec->caches[1].topk : 0};
    const smla_kernel *kernel = bench->kernel;
    const int32_t sms = spec->sm_limit > 0 && spec->sm_limit < kernel->sm_count ? spec->sm_limit : kernel->sm_count;
    if (gen_companion_takes(&kernel->takes_companion, spec->b * spec->s_q, topk, sms))
        strncat(why, ", companion", PROBLEM_WHY - strlen(why) - 1);
}

/* Right, the same bits again. */
static bool try_spec(struct decode_bench *bench, const struct decode_spec *spec, int repeats, char why[PROBLEM_WHY])
{
    struct decode_problem problem;
    if (!decode_make(bench, spec, &problem, why))
        return false;
    bool fine = decode_run(bench, &problem, why) && decode_check(bench, &problem, why);
    size_t size = 0;
    uint8_t *first = decode_snapshot(bench, &problem, &size);
    for (int repeat = 0; fine && repeat < repeats; repeat++) {
        char again_why[PROBLEM_WHY];
        fine = decode_run(bench, &problem, again_why);
        uint8_t *again = decode_snapshot(bench, &problem, &size);
        if (!fine || !first || !again || memcmp(first, again, size) != 0) {
            snprintf(why, PROBLEM_WHY, "repeat %d gave other bits, or a fault", repeat + 1);
            fine = false;
        }
        free(again);
    }
    free(first);
    decode_free(bench, &problem);
    add_who(bench, spec, why);
    return fine;
}

static void test_rows(struct decode_bench *bench)
{
    const enum size most = options.tiny ? TINY : bench->emulated ? SMALL : LARGE;
    char why[PROBLEM_WHY];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (is_wanted(rows[i].spec.name) && (rows[i].size <= most || options.name_count > 0)) {
            const bool fine = try_spec(bench, &rows[i].spec, bench->emulated ? 1 : 3, why);
            report(rows[i].spec.name, fine, why);
        }
}

/* ---- Random calls ---- */

/* Every preset and pairs of them, every count of heads that tiles treat differently. Cases of a kernel come one behind
 * the other, since preparing one takes seconds without a cache. */
static const struct kernel {
    int32_t h_q, d_qk, batch_invariant;
    const char *format, *extra; /* NULL format: bf16; NULL extra: none */
} kernels[] = {
    {64, 512, 0, "v4", "v4"},
    {16, 576, 0, "v32", NULL},
    {128, 512, 1, NULL, NULL},
    {41, 512, 0, "v41", "v41_fp4"},
    {1, 512, 1, "v4", "v4"},
    {81, 576, 0, NULL, NULL},
    {8, 512, 0, "v41_planar", "v41_fp4_planar"},
    {65, 512, 1, "v4", NULL},
    {57, 512, 0, "hopper_fp4", NULL},
    {80, 512, 0, "v32_norope", NULL},
    {48, 576, 1, "v32", "v32"},
    {40, 512, 0, NULL, "v41"},
    {128, 576, 0, "v32", NULL},
    {64, 512, 1, "v4", "v4"},
    {8, 512, 0, NULL, NULL},
    {64, 512, 0, "v41_fp4", NULL},
    {16, 512, 1, "v41", NULL},
    {64, 512, 0, "v41_planar", NULL},
    {64, 512, 0, "v41_fp4_planar", NULL},
    {64, 576, 1, NULL, NULL},
    {1, 576, 0, "v32", NULL},
    {64, 512, 0, NULL, NULL},
    {128, 512, 0, "v4", "v4"},
    {16, 512, 0, NULL, "bf16"},
};

enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]), CASES_OF_KERNEL = 6, CARD_CASES = 400, EMULATED_CASES = 18 };

#define PICK(state, table) (table)[random_below(state, (int64_t)(sizeof(table) / sizeof((table)[0])))]

static bool is_by_page(const char *format)
{
    smla_kv_layout layout = {.struct_size = sizeof(layout)};
    smla_kv_layout_preset(format, 512, &layout);
    return layout.place == SMLA_PLACE_PAGE;
}

/* Of a quantised format pages need strides of 16 bytes; by page a token has no gap. */
static struct problem_cache draw_format(const char *format, int32_t d_qk, uint64_t *state)
{
    static const int64_t pages[] = {1, 2, 53, 61, 64, 256}, gaps[] = {0, 16, 64, 1040};
    struct problem_cache cache = {.format = format};
    smla_kv_layout layout = {.struct_size = sizeof(layout)};
    const bool by_page = format && is_by_page(format);
    smla_kv_layout_preset(format ? format : "bf16", d_qk, &layout);
    if (by_page || random_chance(state, 0.7))
        cache.page_tokens = PICK(state, pages);
    if (!by_page && random_chance(state, 0.2))
        cache.token_gap_bytes = 16 * (1 + random_below(state, 4));
    const int64_t values = layout.value_type == SMLA_VALUE_E2M1   ? layout.value_elems / 2
                           : layout.value_type == SMLA_VALUE_BF16 ? 2 * layout.value_elems
                                                                  : layout.value_elems;
    const int64_t groups = layout.scale_group ? layout.value_elems / layout.scale_group : 0;
    const int64_t scales =
        layout.scale_bytes ? layout.scale_bytes : groups * (layout.scale_type == SMLA_SCALE_FP32 ? 4 : 1);
    const int64_t bytes =
        cache.page_tokens * (values + scales + 2 * (int64_t)layout.tail_elems + cache.token_gap_bytes);
    if (cache.page_tokens)
        cache.page_gap_bytes = (16 - bytes % 16) % 16 + PICK(state, gaps);
    return cache;
}

static int64_t draw_topk(bool small, uint64_t *state)
{
    static const int64_t usual[] = {1, 63, 64, 65, 127, 128, 129, 200, 256, 300};
    if (random_chance(state, 0.06))
        return 0;
    if (!small && random_chance(state, 0.15))
        return 1025 + random_below(state, 3000);
    return random_chance(state, 0.5) ? PICK(state, usual) : 1 + random_below(state, small ? 260 : 900);
}

static struct decode_cache draw_cache(const char *format, int32_t d_qk, bool small, uint64_t *state)
{
    static const int64_t few[] = {0, 1, 3};
    return (struct decode_cache){.format = draw_format(format, d_qk, state),
                                 .s_kv = random_chance(state, 0.1) ? PICK(state, few) : 4 + random_below(state, 700),
                                 .topk = draw_topk(small, state),
                                 .lengths = (enum decode_lengths)random_below(state, 4)};
}

/* Case K of the seed is the same on every device with the same size. */
static struct decode_spec draw_spec(int64_t number, bool small)
{
    static const int64_t requests[] = {1, 1, 2, 3, 5, 8, 13, 17, 0}, few_requests[] = {1, 1, 2, 3, 4};
    static const int64_t tokens[] = {1, 1, 1, 2, 3, 4, 8, 16, 0}, few_tokens[] = {1, 1, 2};
    static const double shares[] = {0, 0.1, 0.5, 0.97, 1};
    static const float scales[] = {0, 0, 0, 1, -0.04f, -0.0f};
    static const float magnitudes[] = {0, 0, 1000, 1e-4f};
    uint64_t state = (uint64_t)options.seed;
    state = random_bits(&state) ^ (uint64_t)number;
    const struct kernel *kernel = &kernels[(number / CASES_OF_KERNEL + options.seed - 1) % KERNELS];
    struct decode_spec spec = {.name = "random",
                               .h_q = kernel->h_q,
                               .d_qk = kernel->d_qk,
                               .batch_invariant = kernel->batch_invariant,
                               .has_extra = kernel->extra != NULL,
                               .seed = (uint32_t)random_bits(&state)};
    spec.b = small ? PICK(&state, few_requests) : PICK(&state, requests);
    spec.s_q = small ? PICK(&state, few_tokens) : PICK(&state, tokens);
    spec.caches[0] = draw_cache(kernel->format, kernel->d_qk, small, &state);
    if (spec.has_extra)
        spec.caches[1] =
            draw_cache(strcmp(kernel->extra, "bf16") == 0 ? NULL : kernel->extra, kernel->d_qk, small, &state);
    spec.invalid = PICK(&state, shares);
    spec.dead_tokens = random_chance(&state, 0.3) ? 0.4 : 0;
    spec.live_block = random_chance(&state, 0.15) ? 1 + random_below(&state, 4) : 0;
    spec.sink = (enum decode_sink)random_below(&state, 3);
    spec.strides = (enum decode_strides)random_below(&state, 3);
    spec.no_lse = random_chance(&state, 0.1);
    spec.nan_selected = random_chance(&state, 0.1);
    spec.lse_flags = (uint32_t)random_below(&state, 8);
    spec.sm_limit = random_chance(&state, 0.4) ? (int32_t)random_below(&state, 4) : 0;
    spec.sm_scale = PICK(&state, scales);
    spec.magnitude = PICK(&state, magnitudes);
    if (spec.sm_scale == 1)
        spec.magnitude = 0; /* logits of 1e4 are past the bounds: docs/verification.md */
    spec.spoiled = random_chance(&state, 0.5) ? 0x7f : 0xff;
    return spec;
}

static void describe_cache(const struct decode_cache *cache, char *text, size_t size)
{
    static const char *const lengths[] = {"no lengths", "lengths per request", "lengths per token", "one long",
                                          "a ramp"};
    snprintf(text, size, "%s pages of %d +%d tokens +%d, s_kv %d, topk %d, %s",
             cache->format.format ? cache->format.format : "bf16", (int)cache->format.page_tokens,
             (int)cache->format.page_gap_bytes, (int)cache->format.token_gap_bytes, (int)cache->s_kv, (int)cache->topk,
             lengths[cache->lengths]);
}

static void describe_spec(const struct decode_spec *spec, bool small, int64_t number)
{
    char first[160], second[160] = "no second";
    describe_cache(&spec->caches[0], first, sizeof(first));
    if (spec->has_extra)
        describe_cache(&spec->caches[1], second, sizeof(second));
    printf("       h_q %d, d_qk %d, batch_invariant %d, b %d, s_q %d; %s; %s; invalid %g, dead %g, live block %d, sink "
           "%d, strides %d, no lse %d, NaN %d, lse flags %u, sm_limit %d, scale %g, magnitude %g\n"
           "       again: gpu-decode --seed %d --case %d%s\n",
           spec->h_q, spec->d_qk, (int)spec->batch_invariant, (int)spec->b, (int)spec->s_q, first, second,
           spec->invalid, spec->dead_tokens, (int)spec->live_block, (int)spec->sink, (int)spec->strides, spec->no_lse,
           spec->nan_selected, spec->lse_flags, spec->sm_limit, (double)spec->sm_scale, (double)spec->magnitude,
           (int)options.seed, (int)number, small ? " --tiny" : "");
}

static void test_random(struct decode_bench *bench)
{
    const bool small = bench->emulated || options.tiny;
    const int64_t usual = options.tiny ? 2 : bench->emulated ? EMULATED_CASES : CARD_CASES;
    const int64_t first = options.only >= 0 ? options.only : 0;
    const int64_t end = options.only >= 0 ? first + 1 : options.cases >= 0 ? options.cases : usual;
    if (!is_wanted("random") && options.only < 0)
        return;
    for (int64_t number = first; number < end; number++) {
        char why[PROBLEM_WHY], name[32];
        const struct decode_spec spec = draw_spec(number, small);
        const bool fine = try_spec(bench, &spec, 1, why);
        snprintf(name, sizeof(name), "random %d", (int)number);
        report(name, fine, why);
        if (!fine || options.only >= 0)
            describe_spec(&spec, small, number);
    }
}

/* ---- Every key once ---- */

static int64_t valid_entries(const struct decode_problem *problem, int64_t token)
{
    int64_t count = 0;
    for (int c = 0; c < (problem->spec.has_extra ? 2 : 1); c++) {
        const struct decode_cache *cache = &problem->spec.caches[c];
        const int32_t *list = problem->lists[c] + token * cache->topk;
        const int64_t length = problem->lengths[c] ? problem->lengths[c][token] : cache->topk;
        for (int64_t j = 0; j < cache->topk && j < length; j++)
            count += list[j] >= 0 && list[j] < cache->s_kv;
    }
    return count;
}

/* With a scale of zero each key's weight is 1, and lse the logarithm of their number: the bounds of compare.h would not
 * miss one key in a thousand, this does. */
static bool count_keys(struct decode_bench *bench, const struct decode_spec *spec, char why[PROBLEM_WHY])
{
    static uint16_t out[MOST_HEADS * D_V];
    static float lse[MOST_HEADS];
    struct decode_problem problem;
    size_t size;
    if (!decode_make(bench, spec, &problem, why))
        return false;
    bool fine = decode_run(bench, &problem, why) && decode_check(bench, &problem, why);
    uint8_t *bits = decode_snapshot(bench, &problem, &size);
    for (int64_t token = 0; fine && bits && token < spec->b * spec->s_q; token++) {
        const double wanted = (double)valid_entries(&problem, token);
        decode_token(&problem, bits, token / spec->s_q, token % spec->s_q, out, lse);
        for (int32_t head = 0; fine && head < problem.spec.h_q; head++) {
            const double counted = isinf(lse[head]) ? 0 : exp((double)lse[head]);
            fine = fabs(counted - wanted) < 0.25;
            if (!fine)
                snprintf(why, PROBLEM_WHY, "token %d, head %d: %.2f keys of %.0f", (int)token, (int)head, counted,
                         wanted);
        }
    }
    free(bits);
    decode_free(bench, &problem);
    return fine && bits;
}

static void test_counts_of(struct decode_bench *bench, const char *name, int32_t h_q, int32_t batch_invariant,
                           int tries)
{
    static const enum decode_lengths lengths[] = {REQUEST, TOKEN, ONE_LONG, NONE};
    char why[PROBLEM_WHY] = "";
    bool fine = true;
    if (!is_wanted(name))
        return;
    for (int i = 0; fine && i < tries; i++) {
        const int64_t most = bench->emulated ? 5 : 40;
        uint64_t state = (uint64_t)i;
        struct decode_spec spec = {.h_q = h_q,
                                   .batch_invariant = batch_invariant,
                                   .b = 1 + random_below(&state, most),
                                   .s_q = 1 + random_below(&state, 2),
                                   .sm_scale = -0.0f,
                                   .invalid = i % 3 == 1 ? 0.2 : 0,
                                   .dead_tokens = i % 5 == 2 ? 0.3 : 0,
                                   .sm_limit = i % 4 == 3 ? 1 + (int32_t)random_below(&state, 7) : 0,
                                   .seed = (uint32_t)i};
        spec.caches[0] = (struct decode_cache){
            .s_kv = 900, .topk = 1 + random_below(&state, bench->emulated ? 450 : 3000), .lengths = lengths[i % 4]};
        if (batch_invariant && i % 2 == 0)
            spec.caches[0].topk += 1024;
        fine = count_keys(bench, &spec, why);
        if (!fine) {
            describe_spec(&spec, false, 0);
            printf("       that is try %d\n", i);
        }
    }
    report(name, fine, why);
}

static void test_counts(struct decode_bench *bench)
{
    const int tries = options.tiny ? 2 : bench->emulated ? 16 : 100;
    test_counts_of(bench, "every key once, 8 heads", 8, 0, tries);
    if (options.tiny)
        return;
    test_counts_of(bench, "every key once, 8 heads, batch invariant", 8, 1, tries / 4);
    test_counts_of(bench, "every key once, 128 heads", 128, 0, tries / 2);
}

/* ---- Properties ---- */

static bool same_bits(struct decode_bench *bench, const struct decode_problem *problem, const uint8_t *bits,
                      const char *when, char why[PROBLEM_WHY])
{
    size_t size;
    uint8_t *now = decode_snapshot(bench, problem, &size);
    const bool same = now && bits && memcmp(now, bits, size) == 0;
    free(now);
    if (!same)
        snprintf(why, PROBLEM_WHY, "other bits %s", when);
    return same;
}

static bool call(struct decode_bench *bench, const smla_decode_args *args, char why[PROBLEM_WHY])
{
    smla_error_info info = {.struct_size = sizeof(info)};
    if (smla_decode(bench->kernel, args, NULL) == SMLA_OK && device_synchronize(bench->device))
        return true;
    smla_last_error(&info);
    snprintf(why, PROBLEM_WHY, "smla_decode: %.400s; %.400s", info.message, device_why(bench->device));
    return false;
}

/* Each token as a call of its own, into its place; all of them together must be what one call gave. */
static bool call_each_token(struct decode_bench *bench, const struct decode_problem *problem, char why[PROBLEM_WHY])
{
    const smla_decode_args *all = &problem->args;
    const int64_t heads = problem->spec.h_q, topk = all->topk;
    bool fine = true;
    for (int64_t token = 0; fine && token < all->b * all->s_q; token++) {
        smla_decode_args one = *all;
        one.b = one.s_q = 1;
        one.query = (const uint16_t *)all->query + token * heads * problem->spec.d_qk;
        one.indices = all->indices + token * topk;
        one.topk_length = all->topk_length ? all->topk_length + token : NULL;
        one.extra_indices = all->extra_indices ? all->extra_indices + token * all->extra_topk : NULL;
        one.extra_topk_length = all->extra_topk_length ? all->extra_topk_length + token : NULL;
        one.out = (uint16_t *)all->out + token * heads * D_V;
        one.lse = all->lse + token * heads;
        fine = call(bench, &one, why);
    }
    return fine;
}

static void test_batch_invariance(struct decode_bench *bench, const struct decode_spec *spec)
{
    static const int32_t limits[] = {1, 2, 3};
    struct decode_problem problem;
    char why[PROBLEM_WHY] = "";
    size_t size;
    if (!is_wanted(spec->name))
        return;
    if (!decode_make(bench, spec, &problem, why)) {
        report(spec->name, false, why);
        return;
    }
    bool fine = decode_run(bench, &problem, why) && decode_check(bench, &problem, why);
    uint8_t *bits = decode_snapshot(bench, &problem, &size);
    for (int i = 0; fine && i < 3; i++) {
        char when[64];
        snprintf(when, sizeof(when), "with sm_limit %d", (int)limits[i]);
        problem.args.sm_limit = limits[i];
        fine = decode_run(bench, &problem, why) && same_bits(bench, &problem, bits, when, why);
    }
    problem.args.sm_limit = 0;
    fine = fine && decode_poison(bench, &problem, why) && call_each_token(bench, &problem, why) &&
           same_bits(bench, &problem, bits, "of each token alone", why);
    free(bits);
    decode_free(bench, &problem);
    report(spec->name, fine, why);
}

/* Tight strides and lengths for each token, so that a token is a call. */
static const struct decode_spec invariant[] = {
    {.name = "N1 batch invariance, topk 1100",
     .h_q = 8,
     .batch_invariant = 1,
     .b = 2,
     .s_q = 2,
     .sink = DECODE_SINK,
     .caches = {BF16(2000, 1100, TOKEN)}},
    {.name = "N1 batch invariance, topk 200",
     .h_q = 8,
     .batch_invariant = 1,
     .b = 4,
     .s_q = 2,
     .invalid = 0.1,
     .caches = {BF16(2000, 200, TOKEN)}},
    {.name = "N1 batch invariance, 128 heads, v4 + v4",
     .h_q = 128,
     .batch_invariant = 1,
     .b = 2,
     .s_q = 1,
     .has_extra = true,
     .caches = {PAGED("v4", 64, 0, 700, 128, TOKEN), PAGED("v4", 64, 0, 1500, 1000, TOKEN)}},
};

/* ---- Decode beside prefill ---- */

/* Decode over a cache and prefill over the same one, which has the same tokens: at most 2 units in the last place of
 * the row's largest element apart, whatever the length and however it was shared. */
static bool prefill_too(struct decode_bench *bench, const struct decode_problem *problem, char why[PROBLEM_WHY])
{
    const smla_decode_args *from = &problem->args;
    smla_kernel_desc desc = bench->desc;
    smla_kernel *kernel = NULL;
    smla_error_info info = {.struct_size = sizeof(info)};
    const smla_prefill_args args = {.struct_size = sizeof(args),
                                    .s_q = from->b * from->s_q,
                                    .s_kv = from->s_kv,
                                    .topk = from->topk,
                                    .sm_scale = from->sm_scale,
                                    .query = from->query,
                                    .kv = from->kv,
                                    .kv_page_tokens = from->kv_page_tokens,
                                    .indices = from->indices,
                                    .topk_length = from->topk_length,
                                    .out = from->out,
                                    .lse = from->lse};
    desc.op = SMLA_OP_PREFILL;
    const bool fine = smla_prepare(bench->context, &desc, &kernel) == SMLA_OK &&
                      smla_prefill(kernel, &args, NULL) == SMLA_OK && device_synchronize(bench->device);
    if (!fine && smla_last_error(&info) == SMLA_OK)
        snprintf(why, PROBLEM_WHY, "prefill: %.900s", info.message);
    smla_kernel_destroy(kernel);
    return fine;
}

static double ulps_apart(const uint16_t *a, const uint16_t *b, int64_t count)
{
    double worst = 0;
    for (int64_t row = 0; row < count; row++) {
        float largest = 0, apart = 0;
        for (int64_t d = row * D_V; d < (row + 1) * D_V; d++) {
            if (isnan(bf16_to_float(a[d])) || isnan(bf16_to_float(b[d])))
                return INFINITY;
            largest = fmaxf(largest, fabsf(bf16_to_float(b[d])));
            apart = fmaxf(apart, fabsf(bf16_to_float(a[d]) - bf16_to_float(b[d])));
        }
        worst = fmax(worst, (double)apart / ldexp(1, ilogbf(fmaxf(largest, 1e-30f)) - 7));
    }
    return worst;
}

static void test_C4(struct decode_bench *bench)
{
    const struct decode_spec spec = {.name = "C4 v4, decode beside prefill, lengths 1 to 600",
                                     .h_q = 16,
                                     .b = bench->emulated || options.tiny ? 6 : 600,
                                     .s_q = 1,
                                     .caches = {PAGED("v4", 64, 0, 1500, 600, DECODE_LENGTHS_RAMP)}};
    struct decode_problem problem;
    char why[PROBLEM_WHY] = "";
    size_t size;
    if (!is_wanted(spec.name))
        return;
    if (!decode_make(bench, &spec, &problem, why)) {
        report(spec.name, false, why);
        return;
    }
    bool fine = decode_run(bench, &problem, why) && decode_check(bench, &problem, why);
    uint8_t *decode = decode_snapshot(bench, &problem, &size);
    fine = fine && prefill_too(bench, &problem, why);
    uint8_t *prefill = decode_snapshot(bench, &problem, &size);
    if (fine && decode && prefill) {
        const double worst = ulps_apart((const uint16_t *)(const void *)decode, (const uint16_t *)(const void *)prefill,
                                        spec.b * spec.h_q);
        fine = worst <= 2;
        snprintf(why, PROBLEM_WHY, "%.2f ulp apart at most", worst);
    }
    free(decode);
    free(prefill);
    decode_free(bench, &problem);
    report(spec.name, fine && decode && prefill, why);
}

/* ---- Ways to call ---- */

/* A chain of calls on one workspace, each of which may start while the one before it ends. */
static void test_chain(struct decode_bench *bench, const struct decode_spec *spec)
{
    const int calls = bench->emulated ? 3 : 200;
    struct decode_problem problem;
    char why[PROBLEM_WHY] = "";
    size_t size;
    if (!is_wanted(spec->name))
        return;
    if (!decode_make(bench, spec, &problem, why)) {
        report(spec->name, false, why);
        return;
    }
    bool fine = decode_run(bench, &problem, why) && decode_check(bench, &problem, why);
    uint8_t *bits = decode_snapshot(bench, &problem, &size);
    fine = fine && decode_poison(bench, &problem, why);
    problem.args.launch_flags = SMLA_LAUNCH_AFTER_PREVIOUS;
    for (int i = 0; fine && i < calls; i++)
        fine = smla_decode(bench->kernel, &problem.args, NULL) == SMLA_OK;
    fine = fine && device_synchronize(bench->device) && same_bits(bench, &problem, bits, "in a chain", why);
    free(bits);
    decode_free(bench, &problem);
    report(spec->name, fine, why);
}

/* By lengths, and cut alike without. */
static void test_chains(struct decode_bench *bench)
{
    static const struct decode_spec specs[] = {
        {.name = "H3 a chain of dependent launches", .h_q = 8, .b = 3, .s_q = 1, .caches = {BF16(900, 400, REQUEST)}},
        {.name = "H3 a chain without lengths", .h_q = 8, .b = 2, .s_q = 1, .caches = {BF16(900, 400, NONE)}},
    };
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        test_chain(bench, &specs[i]);
}

/* The graph's call with other contents at the same addresses: what it gives is what an eager call gives, which is
 * right.
 */
static bool replay(struct decode_bench *bench, struct decode_problem *problem, void *graph, void *stream, bool checked,
                   char why[PROBLEM_WHY])
{
    size_t size;
    bool fine = decode_poison(bench, problem, why) && device_graph_launch(bench->device, graph, stream) &&
                device_synchronize(bench->device);
    uint8_t *bits = decode_snapshot(bench, problem, &size);
    fine = fine && decode_run(bench, problem, why) && same_bits(bench, problem, bits, "from an eager call", why);
    fine = fine && (!checked || decode_check(bench, problem, why));
    free(bits);
    return fine;
}

static void test_graph(struct decode_bench *bench, const struct decode_spec *given, int replays)
{
    struct decode_spec spec = *given;
    struct decode_problem problem;
    void *stream = NULL, *graph = NULL;
    char why[PROBLEM_WHY] = "";
    if (!is_wanted(spec.name))
        return;
    if (!decode_make(bench, &spec, &problem, why)) {
        report(spec.name, false, why);
        return;
    }
    bool fine = device_stream_create(bench->device, true, &stream) && device_capture_begin(bench->device, stream);
    const bool captured = fine && smla_decode(bench->kernel, &problem.args, stream) == SMLA_OK;
    fine = fine && device_capture_end(bench->device, stream, &graph) && captured;
    if (!fine)
        snprintf(why, PROBLEM_WHY, "capture: %.900s", device_why(bench->device));
    for (int i = 0; fine && i < replays; i++) {
        struct decode_problem other;
        spec.seed = (uint32_t)i + 1;
        fine = decode_make(bench, &spec, &other, why);
        if (!fine)
            break;
        fine = decode_refill(bench, &problem, &other, why) && replay(bench, &problem, graph, stream, i < 20, why);
        decode_free(bench, &other);
        if (!fine) {
            char text[PROBLEM_WHY];
            memcpy(text, why, sizeof(text));
            snprintf(why, PROBLEM_WHY, "replay %d: %.1000s", i + 1, text);
        }
    }
    if (fine)
        snprintf(why, PROBLEM_WHY, "%d replays", replays);
    if (graph)
        device_graph_destroy(bench->device, graph);
    if (stream)
        device_stream_destroy(bench->device, stream);
    decode_free(bench, &problem);
    report(spec.name, fine, why);
}

static void test_graphs(struct decode_bench *bench)
{
    static const struct decode_spec specs[] = {
        {.name = "G3 a graph replayed, 8 heads",
         .h_q = 8,
         .b = 3,
         .s_q = 2,
         .invalid = 0.1,
         .dead_tokens = 0.1,
         .sink = DECODE_SINK,
         .caches = {BF16(900, 400, TOKEN)}},
        {.name = "G3 a graph replayed, v4 + v4",
         .b = 2,
         .s_q = 2,
         .invalid = 0.1,
         .has_extra = true,
         .caches = {PAGED("v4", 64, 64, 400, 128, REQUEST), PAGED("v4", 64, 64, 900, 300, REQUEST)}},
        {.name = "G3 a graph replayed, batch invariant",
         .h_q = 8,
         .batch_invariant = 1,
         .b = 2,
         .s_q = 1,
         .caches = {BF16(2000, 1200, TOKEN)}},
        {.name = "G3 a graph replayed, v4 + v4, without lengths",
         .b = 1,
         .s_q = 2,
         .invalid = 0.1,
         .has_extra = true,
         .caches = {PAGED("v4", 64, 64, 400, 128, NONE), PAGED("v4", 64, 64, 900, 300, NONE)}},
    };
    const int replays[] = {bench->emulated ? 4 : 1000, bench->emulated ? 2 : 200, bench->emulated ? 2 : 200,
                           bench->emulated ? 2 : 200};
    for (int i = 0; i < (options.tiny ? 1 : 4); i++)
        test_graph(bench, &specs[i], options.tiny ? 1 : replays[i]);
}

/* ---- The program ---- */

/* Returns 0, or the exit code. */
static int parse(int argc, char **argv)
{
    enum { TINY_RUN = CLI_OPTION_OWN, CASES, SEED, CASE };
    static const struct option table[] = {{"tiny", no_argument, NULL, TINY_RUN},
                                          {"cases", required_argument, NULL, CASES},
                                          {"seed", required_argument, NULL, SEED},
                                          {"case", required_argument, NULL, CASE},
                                          {0}};
    int64_t *const numbers[] = {&options.cases, &options.seed, &options.only};
    cli_start("gpu-decode", argc, argv);
    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (option == TINY_RUN)
            options.tiny = true;
        else if (option < CASES || option > CASE)
            return CLI_USAGE;
        else if (!cli_int(optarg, option == SEED ? 1 : 0, INT32_MAX, numbers[option - CASES]))
            return cli_fail(CLI_USAGE, "'%s' is no number up to %d", optarg, INT32_MAX);
    }
    options.names = argv + optind;
    options.name_count = argc - optind;
    return 0;
}

int main(int argc, char **argv)
{
    struct decode_bench bench;
    char why[PROBLEM_WHY];
    const int usage = parse(argc, argv);
    if (usage != 0)
        return usage;
    const int opened = decode_bench_open(&bench, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    if (options.only < 0) {
        test_rows(&bench);
        test_counts(&bench);
        for (size_t i = 0; i < sizeof(invariant) / sizeof(invariant[0]); i++)
            test_batch_invariance(&bench, &invariant[i]);
        test_C4(&bench);
        test_chains(&bench);
        test_graphs(&bench);
    }
    test_random(&bench);
    decode_bench_close(&bench);
    printf("%d passed, %d failed\n", passed, failed);
    if (passed + failed == 0)
        return 2;
    return failed == 0 ? 0 : 1;
}
