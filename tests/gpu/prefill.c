/* sm_90 prefill on a card against the float64 kernel, or on the emulated device against the CPU reference: shapes,
 * lists and values that others get wrong, and the ways a call may be made.
 *
 *   gpu-prefill [few-heads | few-queries | persistent | first-port [QUERIES]]
 *
 *   few-heads     only the cases of the kernel for few heads
 *   few-queries   only the cases of the kernel for few queries
 *   persistent    only the cases of the persistent kernel: all that it takes of the others', and some of its own
 *   first-port    only the seven cases of the operator's first port, each once and with at most so many queries, for
 *                 checkers that take their time
 *
 * Exit 0 all passed, 1 something failed, 2 a wrong argument, 77 there is no card. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "problem.h"

static int passed, failed;

static void report(const char *name, bool fine, const char *text)
{
    printf("%-6s %-34s %s\n", fine ? "passed" : "FAILED", name, text);
    fflush(stdout);
    *(fine ? &passed : &failed) += 1;
}

/* ---- Values ---- */

/* The cases that the operator's first port was tested with. */
static const struct problem_spec first_port[] = {
    {.name = "64 queries", .s_q = 64, .s_kv = 2048, .topk = 512},
    {.name = "duplicates", .s_q = 64, .s_kv = 2048, .topk = 512, .duplicates = true},
    {.name = "one query", .s_q = 1, .s_kv = 4096, .topk = 512},
    {.name = "seven queries", .s_q = 7, .s_kv = 2048, .topk = 512},
    {.name = "s_kv 128 < topk 512", .s_q = 16, .s_kv = 128, .topk = 512, .invalid = 0.75},
    {.name = "lengths", .s_q = 64, .s_kv = 2048, .topk = 512, .lengths = LENGTHS_RANDOM},
    {.name = "sink", .s_q = 64, .s_kv = 2048, .topk = 512, .sink = true},
};

static const struct problem_spec specs[] = {
    /* list lengths */
    {.name = "topk 0", .s_q = 5, .s_kv = 64, .topk = 0, .sink = true},
    {.name = "topk 1", .s_q = 5, .s_kv = 64, .topk = 1},
    {.name = "topk 63", .s_q = 9, .s_kv = 640, .topk = 63},
    {.name = "topk 64", .s_q = 9, .s_kv = 640, .topk = 64},
    {.name = "topk 65", .s_q = 9, .s_kv = 640, .topk = 65},
    {.name = "topk 128", .s_q = 9, .s_kv = 640, .topk = 128},
    {.name = "topk 129", .s_q = 9, .s_kv = 640, .topk = 129},
    {.name = "topk 133", .s_q = 40, .s_kv = 640, .topk = 133, .lengths = LENGTHS_WILD, .sink = true},
    {.name = "topk 640", .s_q = 300, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_RANDOM, .sink = true},
    {.name = "topk 2051", .s_q = 20, .s_kv = 8192, .topk = 2051, .invalid = 0.1},
    {.name = "topk 16384", .s_q = 3, .s_kv = 65536, .topk = 16384},
    /* pools */
    {.name = "s_kv 0", .s_q = 5, .s_kv = 0, .topk = 100, .sink = true},
    {.name = "s_kv 1", .s_q = 5, .s_kv = 1, .topk = 100, .invalid = 0.3},
    {.name = "s_kv 3", .s_q = 5, .s_kv = 3, .topk = 70},
    /* entries */
    {.name = "invalid 10 %", .s_q = 64, .s_kv = 4096, .topk = 640, .invalid = 0.1, .lengths = LENGTHS_WILD},
    {.name = "invalid 97 %", .s_q = 200, .s_kv = 4096, .topk = 640, .invalid = 0.97, .sink = true},
    {.name = "first block dead", .s_q = 20, .s_kv = 4096, .topk = 200, .first_block_dead = true},
    {.name = "dead rows", .s_q = 40, .s_kv = 4096, .topk = 200, .dead_rows = 0.4, .sink = true},
    {.name = "all rows dead", .s_q = 40, .s_kv = 4096, .topk = 200, .invalid = 1, .sink = true},
    /* values */
    {.name = "NaN and inf selected", .s_q = 40, .s_kv = 300, .topk = 100, .nan_selected = true},
    {.name = "NaN sink", .s_q = 40, .s_kv = 300, .topk = 100, .nan_sink = true, .dead_rows = 0.3},
    {.name = "logits of 3e3", .s_q = 64, .s_kv = 4096, .topk = 640, .magnitude = 1000},
    {.name = "logits of 1e10", .s_q = 64, .s_kv = 4096, .topk = 1, .magnitude = 1e10f},
    {.name = "logits of 1e10, 16 heads", .h_q = 16, .s_q = 64, .s_kv = 4096, .topk = 1, .magnitude = 1e10f},
    {.name = "logits of 1e-4", .s_q = 64, .s_kv = 4096, .topk = 640, .magnitude = 1e-4f},
    {.name = "scale 1", .s_q = 64, .s_kv = 4096, .topk = 640, .sm_scale = 1},
    {.name = "scale negative", .s_q = 64, .s_kv = 4096, .topk = 640, .sm_scale = -0.04f, .invalid = 0.2},
    {.name = "scale zero", .s_q = 64, .s_kv = 4096, .topk = 640, .sm_scale = -0.0f, .invalid = 0.2, .sink = true},
    {.name = "scale denormal", .s_q = 64, .s_kv = 4096, .topk = 640, .sm_scale = 1e-42f},
    /* layouts */
    {.name = "views", .s_q = 33, .s_kv = 1000, .topk = 133, .strided = true, .lengths = LENGTHS_WILD, .sink = true},
    /* conventions */
    {.name = "lse base 2", .s_q = 20, .s_kv = 640, .topk = 100, .dead_rows = 0.3, .lse_flags = SMLA_LSE_BASE_2},
    {.name = "lse with sink",
     .s_q = 20,
     .s_kv = 640,
     .topk = 100,
     .dead_rows = 0.3,
     .sink = true,
     .lse_flags = SMLA_LSE_WITH_SINK},
    {.name = "lse with sink, base 2",
     .s_q = 20,
     .s_kv = 640,
     .topk = 100,
     .dead_rows = 0.3,
     .nan_sink = true,
     .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2},
    {.name = "lse with sink, none given",
     .s_q = 20,
     .s_kv = 640,
     .topk = 100,
     .dead_rows = 0.3,
     .lse_flags = SMLA_LSE_WITH_SINK},
    {.name = "empty lse negative",
     .s_q = 20,
     .s_kv = 640,
     .topk = 100,
     .dead_rows = 0.3,
     .lse_flags = SMLA_LSE_EMPTY_NEGATIVE},
    /* heads and widths */
    {.name = "1 head", .h_q = 1, .s_q = 20, .s_kv = 640, .topk = 200, .lengths = LENGTHS_WILD},
    {.name = "6 heads, d 576", .h_q = 6, .d_qk = 576, .s_q = 20, .s_kv = 640, .topk = 200, .strided = true},
    {.name = "16 heads, topk 100", .h_q = 16, .s_q = 40, .s_kv = 640, .topk = 100, .invalid = 0.2, .sink = true},
    {.name = "d 576", .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 640, .invalid = 0.2, .lengths = LENGTHS_WILD},
    {.name = "d 576, views", .d_qk = 576, .s_q = 9, .s_kv = 2000, .topk = 133, .strided = true, .nan_selected = true},
    {.name = "80 heads", .h_q = 80, .s_q = 40, .s_kv = 640, .topk = 300, .strided = true, .sink = true},
    {.name = "128 heads, d 576", .h_q = 128, .d_qk = 576, .s_q = 40, .s_kv = 4096, .topk = 2048, .sink = true},
    {.name = "128 heads, d 576, dead rows",
     .h_q = 128,
     .d_qk = 576,
     .s_q = 40,
     .s_kv = 640,
     .topk = 100,
     .dead_rows = 0.3,
     .nan_sink = true,
     .lse_flags = SMLA_LSE_WITH_SINK},
    /* size */
    {.name = "4096 queries, 64 Ki rows",
     .s_q = 4096,
     .s_kv = 65536,
     .topk = 640,
     .invalid = 0.05,
     .sink = true,
     .lengths = LENGTHS_RANDOM},
};

/* Blocks of threads that go through many queries, long and short; the last of them short (lists of one or two blocks of
 * keys, where a warpgroup can be done with a query before others have begun it), or without any key. */
static const struct problem_spec persistent[] = {
    {.name = "one block of keys", .s_q = 1500, .s_kv = 640, .topk = 64, .emulated_s_q = 9},
    {.name = "two blocks of keys", .s_q = 1500, .s_kv = 640, .topk = 128, .emulated_s_q = 9},
    {.name = "short lists", .s_q = 3000, .s_kv = 640, .topk = 190, .lengths = LENGTHS_RANDOM, .emulated_s_q = 25},
    {.name = "long and short lists",
     .s_q = 2000,
     .s_kv = 8192,
     .topk = 640,
     .lengths = LENGTHS_WILD,
     .emulated_s_q = 9},
    {.name = "rows without keys",
     .s_q = 700,
     .s_kv = 640,
     .topk = 130,
     .dead_rows = 0.5,
     .lengths = LENGTHS_WILD,
     .emulated_s_q = 25,
     .sink = true},
    {.name = "81 heads, strided",
     .h_q = 81,
     .s_q = 300,
     .s_kv = 2048,
     .topk = 200,
     .lengths = LENGTHS_RANDOM,
     .strided = true,
     .sink = true},
    {.name = "128 heads, short lists",
     .h_q = 128,
     .s_q = 700,
     .s_kv = 2048,
     .topk = 150,
     .lengths = LENGTHS_RANDOM,
     .emulated_s_q = 13},
    {.name = "d 576, one block of keys", .d_qk = 576, .s_q = 1500, .s_kv = 640, .topk = 64, .emulated_s_q = 9},
    {.name = "d 576, two blocks of keys", .d_qk = 576, .s_q = 1500, .s_kv = 640, .topk = 128, .emulated_s_q = 9},
    {.name = "d 576, long and short lists",
     .d_qk = 576,
     .s_q = 2000,
     .s_kv = 8192,
     .topk = 640,
     .lengths = LENGTHS_WILD,
     .invalid = 0.1,
     .emulated_s_q = 9},
    {.name = "128 heads, d 576, rows without keys, strided",
     .h_q = 128,
     .d_qk = 576,
     .s_q = 700,
     .s_kv = 2048,
     .topk = 190,
     .dead_rows = 0.4,
     .lengths = LENGTHS_WILD,
     .strided = true,
     .sink = true,
     .emulated_s_q = 13},
    {.name = "128 heads, d 576, topk 2048",
     .h_q = 128,
     .d_qk = 576,
     .s_q = 700,
     .s_kv = 32768,
     .topk = 2048,
     .emulated_s_q = 3},
};

static const struct problem_spec few_heads[] = {
    {.name = "1 head, d 576", .h_q = 1, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 640, .lengths = LENGTHS_WILD},
    {.name = "6 heads", .h_q = 6, .s_q = 40, .s_kv = 640, .topk = 333, .strided = true, .sink = true},
    {.name = "6 heads, first block dead", .h_q = 6, .s_q = 9, .s_kv = 640, .topk = 300, .first_block_dead = true},
    {.name = "8 heads", .h_q = 8, .s_q = 300, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_RANDOM, .sink = true},
    {.name = "8 heads, topk 0", .h_q = 8, .s_q = 5, .s_kv = 64, .topk = 0, .sink = true},
    /* a block of threads goes through many queries, empty ones too */
    {.name = "8 heads, short lists",
     .h_q = 8,
     .s_q = 1500,
     .emulated_s_q = 28,
     .s_kv = 640,
     .topk = 150,
     .lengths = LENGTHS_WILD,
     .dead_rows = 0.1,
     .sink = true},
    {.name = "16 heads, d 576, lists of one block",
     .h_q = 16,
     .d_qk = 576,
     .s_q = 1500,
     .emulated_s_q = 28,
     .s_kv = 640,
     .topk = 64,
     .lengths = LENGTHS_WILD},
    {.name = "32 heads, short lists",
     .h_q = 32,
     .s_q = 1500,
     .emulated_s_q = 28,
     .s_kv = 640,
     .topk = 300,
     .lengths = LENGTHS_WILD},
    {.name = "24 heads, lists of one block", .h_q = 24, .s_q = 1500, .emulated_s_q = 28, .s_kv = 640, .topk = 64},
    {.name = "16 heads, lists of two blocks", .h_q = 16, .s_q = 1500, .emulated_s_q = 28, .s_kv = 640, .topk = 128},
    {.name = "56 heads, lists of one block", .h_q = 56, .s_q = 1500, .emulated_s_q = 28, .s_kv = 640, .topk = 64},
    {.name = "8 heads, NaN and inf selected", .h_q = 8, .s_q = 40, .s_kv = 2000, .topk = 200, .nan_selected = true},
    {.name = "8 heads, d 576", .h_q = 8, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 640, .invalid = 0.3},
    {.name = "8 heads, d 576, logits of 3e3",
     .h_q = 8,
     .d_qk = 576,
     .s_q = 40,
     .s_kv = 2000,
     .topk = 640,
     .magnitude = 1000},
    {.name = "16 heads", .h_q = 16, .s_q = 64, .s_kv = 4096, .topk = 1024, .invalid = 0.1, .lengths = LENGTHS_WILD},
    {.name = "16 heads, scale 1", .h_q = 16, .s_q = 64, .s_kv = 4096, .topk = 640, .sm_scale = 1, .invalid = 0.2},
    {.name = "16 heads, d 576", .h_q = 16, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 448, .strided = true},
    {.name = "24 heads, invalid 97 %", .h_q = 24, .s_q = 200, .s_kv = 4096, .topk = 640, .invalid = 0.97, .sink = true},
    {.name = "32 heads", .h_q = 32, .s_q = 300, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_RANDOM, .sink = true},
    {.name = "32 heads, NaN sink",
     .h_q = 32,
     .s_q = 40,
     .s_kv = 640,
     .topk = 200,
     .nan_sink = true,
     .dead_rows = 0.3,
     .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2},
    {.name = "32 heads, scale negative",
     .h_q = 32,
     .s_q = 40,
     .s_kv = 4096,
     .topk = 640,
     .sm_scale = -0.04f,
     .invalid = 0.2},
    {.name = "32 heads, d 576", .h_q = 32, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 640, .nan_selected = true},
    {.name = "48 heads", .h_q = 48, .s_q = 64, .s_kv = 4096, .topk = 640, .invalid = 0.1, .lengths = LENGTHS_WILD},
    {.name = "48 heads, d 576, logits of 3e3",
     .h_q = 48,
     .d_qk = 576,
     .s_q = 40,
     .s_kv = 2000,
     .topk = 640,
     .magnitude = 1000,
     .sink = true},
    {.name = "56 heads, views",
     .h_q = 56,
     .s_q = 33,
     .s_kv = 1000,
     .topk = 333,
     .strided = true,
     .lengths = LENGTHS_WILD,
     .sink = true},
    {.name = "56 heads, d 576", .h_q = 56, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 640, .dead_rows = 0.3},
    {.name = "66 heads", .h_q = 66, .s_q = 64, .s_kv = 4096, .topk = 640, .invalid = 0.1, .lengths = LENGTHS_WILD},
    {.name = "66 heads, d 576", .h_q = 66, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 300, .sink = true},
    {.name = "72 heads, scale zero", .h_q = 72, .s_q = 40, .s_kv = 4096, .topk = 640, .sm_scale = -0.0f, .sink = true},
    {.name = "72 heads, d 576", .h_q = 72, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 300, .lengths = LENGTHS_WILD},
    {.name = "80 heads, logits of 3e3", .h_q = 80, .s_q = 64, .s_kv = 4096, .topk = 640, .magnitude = 1000},
    {.name = "80 heads, NaN and inf selected", .h_q = 80, .s_q = 40, .s_kv = 2000, .topk = 200, .nan_selected = true},
    {.name = "80 heads, d 576", .h_q = 80, .d_qk = 576, .s_q = 40, .s_kv = 2000, .topk = 640, .invalid = 0.2},
};

/* Few queries, whose keys the blocks of a cluster share: with 132 multiprocessors 8 a query up to 16 queries, 4 up to
 * 33, 2 up to 66; where there are 128 heads half as many. On the emulated device, with four queries at most, as its
 * number of multiprocessors says. */
static const struct problem_spec few_queries[] = {
    {.name = "1 query", .s_q = 1, .s_kv = 8192, .topk = 640, .sink = true},
    {.name = "7 queries", .s_q = 7, .s_kv = 8192, .topk = 640, .sink = true},
    {.name = "16 queries, lengths", .s_q = 16, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_WILD, .sink = true},
    {.name = "17 queries, lengths", .s_q = 17, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_WILD},
    {.name = "33 queries, lengths", .s_q = 33, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_RANDOM, .sink = true},
    {.name = "66 queries, lengths", .s_q = 66, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_WILD, .sink = true},
    {.name = "67 queries", .s_q = 67, .s_kv = 8192, .topk = 640, .lengths = LENGTHS_WILD, .sink = true},
    {.name = "64 queries, lists of one key and up", .s_q = 64, .s_kv = 640, .topk = 500, .lengths = LENGTHS_RAMP},
    /* two launches, where the device has so many multiprocessors: 132, or on the emulated one 8 and 16 */
    {.name = "a last round of one query", .s_q = 133, .emulated_s_q = 9, .s_kv = 640, .topk = 300, .sink = true},
    {.name = "a last round of one query, views",
     .s_q = 265,
     .emulated_s_q = 17,
     .s_kv = 640,
     .topk = 200,
     .invalid = 0.1,
     .dead_rows = 0.3,
     .strided = true,
     .sink = true},
    {.name = "a last round of 16 queries, pages of 48",
     .s_q = 148,
     .s_kv = 1000,
     .topk = 640,
     .format = {.page_tokens = 48, .page_gap_bytes = 64, .token_gap_bytes = 32}},
    {.name = "a last round of 4 queries, 128 heads", .h_q = 128, .s_q = 70, .s_kv = 2000, .topk = 640, .sink = true},
    {.name = "few queries, topk 65", .s_q = 3, .s_kv = 640, .topk = 65},
    {.name = "few queries, topk 192", .s_q = 3, .s_kv = 640, .topk = 192, .lengths = LENGTHS_WILD, .sink = true},
    {.name = "few queries, topk 449", .s_q = 3, .s_kv = 640, .topk = 449},
    {.name = "few queries, topk 2051", .s_q = 3, .s_kv = 8192, .topk = 2051, .invalid = 0.1, .lengths = LENGTHS_RANDOM},
    {.name = "20 queries, topk 2051", .s_q = 20, .s_kv = 8192, .topk = 2051, .invalid = 0.1},
    {.name = "50 queries, topk 2051", .s_q = 50, .s_kv = 8192, .topk = 2051, .lengths = LENGTHS_WILD, .sink = true},
    {.name = "few queries, keys in the 1st block", .s_q = 4, .s_kv = 640, .topk = 640, .live_block = 1},
    {.name = "few queries, keys in the 4th block",
     .s_q = 4,
     .s_kv = 640,
     .topk = 640,
     .live_block = 4,
     .invalid = 0.9,
     .sink = true},
    {.name = "few queries, keys in the last block", .s_q = 4, .s_kv = 640, .topk = 640, .live_block = 10},
    {.name = "few queries, dead rows", .s_q = 16, .s_kv = 4096, .topk = 640, .dead_rows = 0.4, .sink = true},
    {.name = "few queries, invalid 97 %", .s_q = 16, .s_kv = 4096, .topk = 640, .invalid = 0.97, .sink = true},
    {.name = "few queries, s_kv 0", .s_q = 3, .s_kv = 0, .topk = 640, .sink = true},
    {.name = "few queries, NaN and inf selected", .s_q = 16, .s_kv = 2000, .topk = 640, .nan_selected = true},
    {.name = "few queries, NaN sink",
     .s_q = 16,
     .s_kv = 2000,
     .topk = 640,
     .nan_sink = true,
     .dead_rows = 0.3,
     .lse_flags = SMLA_LSE_WITH_SINK | SMLA_LSE_BASE_2},
    {.name = "few queries, empty lse negative",
     .s_q = 16,
     .s_kv = 2000,
     .topk = 640,
     .dead_rows = 0.3,
     .lse_flags = SMLA_LSE_EMPTY_NEGATIVE},
    {.name = "few queries, logits of 3e3", .s_q = 16, .s_kv = 4096, .topk = 640, .magnitude = 1000},
    {.name = "few queries, scale negative", .s_q = 16, .s_kv = 4096, .topk = 640, .sm_scale = -0.04f, .invalid = 0.2},
    {.name = "few queries, scale 1", .s_q = 16, .s_kv = 4096, .topk = 2048, .sm_scale = 1, .invalid = 0.2},
    {.name = "few queries, scale zero", .s_q = 16, .s_kv = 4096, .topk = 640, .sm_scale = -0.0f, .sink = true},
    {.name = "few queries, views",
     .s_q = 9,
     .s_kv = 1000,
     .topk = 640,
     .strided = true,
     .lengths = LENGTHS_WILD,
     .sink = true},
    {.name = "few queries, pages of 48",
     .s_q = 9,
     .s_kv = 1000,
     .topk = 640,
     .invalid = 0.2,
     .lengths = LENGTHS_WILD,
     .format = {.page_tokens = 48, .page_gap_bytes = 64, .token_gap_bytes = 32}},
    {.name = "few queries, 57 heads", .h_q = 57, .s_q = 9, .s_kv = 2000, .topk = 640, .strided = true, .sink = true},
    {.name = "few queries, 81 heads", .h_q = 81, .s_q = 9, .s_kv = 2000, .topk = 640, .lengths = LENGTHS_WILD},
    {.name = "few queries, 128 heads", .h_q = 128, .s_q = 7, .s_kv = 4096, .topk = 1024, .invalid = 0.1, .sink = true},
    {.name = "few queries, d 576",
     .d_qk = 576,
     .s_q = 7,
     .s_kv = 4096,
     .topk = 640,
     .invalid = 0.1,
     .lengths = LENGTHS_WILD,
     .sink = true},
    {.name = "20 queries, d 576, topk 2048", .d_qk = 576, .s_q = 20, .s_kv = 4096, .topk = 2048, .invalid = 0.1},
    {.name = "few queries, 128 heads, d 576, views",
     .h_q = 128,
     .d_qk = 576,
     .s_q = 16,
     .s_kv = 2000,
     .topk = 1000,
     .strided = true,
     .lengths = LENGTHS_RANDOM,
     .nan_sink = true},
};

/* Right, and the same bits again in each of the repeats. */
static void test_values(struct bench *bench, const struct problem_spec *spec, int repeats)
{
    struct problem problem;
    char why[PROBLEM_WHY];
    if (!problem_make(bench, spec, &problem, why)) {
        report(spec->name, false, why);
        return;
    }
    bool fine = problem_run(bench, bench->prefill, &problem, NULL, why) && problem_check(bench, &problem, why);
    size_t size = 0;
    uint8_t *first = problem_snapshot(bench, &problem, &size);
    for (int repeat = 0; fine && repeat < repeats; repeat++) {
        char again_why[PROBLEM_WHY];
        fine = problem_run(bench, bench->prefill, &problem, NULL, again_why);
        uint8_t *again = problem_snapshot(bench, &problem, &size);
        if (fine && (!first || !again || memcmp(first, again, size) != 0)) {
            snprintf(why, sizeof(why), "repeat %d gave other bits", repeat + 1);
            fine = false;
        }
        free(again);
    }
    free(first);
    problem_free(bench, &problem);
    report(spec->name, fine, why);
}

/* ---- Far addresses ---- */

/* kv rows 40 KiB apart: the last lie past 2^32 bytes and 2^32 elements. Only what is selected is filled; all else,
 * what a truncated offset would find included, is NaN. */
static void test_far_rows(struct bench *bench)
{
    enum { STRIDE = 20480, ROWS = 250000, D = 512 };
    const char *name = "offsets past 2^32 elements";
    const struct problem_spec spec = {.name = name, .s_q = 8, .s_kv = 640, .topk = 64};
    struct problem near_problem;
    char why[PROBLEM_WHY] = "";
    void *far = NULL;
    if (!problem_make(bench, &spec, &near_problem, why) ||
        !device_alloc(bench->device, (size_t)STRIDE * ROWS * 2, &far) ||
        !device_fill(bench->device, far, 0xff, (size_t)STRIDE * ROWS * 2)) {
        report(name, false, why[0] ? why : device_why(bench->device));
        return;
    }
    /* The far call: the near call's rows, the list's entry e standing at row ROWS - 640 + e. */
    bool fine = problem_run(bench, bench->prefill, &near_problem, NULL, why);
    size_t size;
    uint8_t *near_bits = problem_snapshot(bench, &near_problem, &size);
    const uint16_t *rows = near_problem.host[1];
    for (int64_t row = 0; fine && row < spec.s_kv; row++)
        fine = device_upload(bench->device, (uint16_t *)far + (ROWS - spec.s_kv + row) * STRIDE, rows + row * D, D * 2);
    const size_t count = (size_t)(spec.s_q * spec.topk);
    int32_t *list = malloc(count * 4);
    for (size_t i = 0; list && i < count; i++)
        list[i] = ((const int32_t *)near_problem.host[2])[i] + ROWS - (int32_t)spec.s_kv;
    fine = fine && list && device_upload(bench->device, guarded_data(&near_problem.indices), list, count * 4);
    near_problem.args.kv = far;
    near_problem.args.kv_stride_token = STRIDE;
    near_problem.args.s_kv = ROWS;
    fine = fine && problem_run(bench, bench->prefill, &near_problem, NULL, why);
    uint8_t *far_bits = problem_snapshot(bench, &near_problem, &size);
    fine = fine && near_bits && far_bits && memcmp(near_bits, far_bits, size) == 0;
    report(name, fine, fine ? "same bits as near" : "other bits than near, or a fault");
    free(near_bits);
    free(far_bits);
    free(list);
    device_free(bench->device, far);
    problem_free(bench, &near_problem);
}

/* ---- Ways to call ---- */

/* The bits that a plain call gives, to compare others with. */
struct way {
    struct bench *bench;
    struct problem problem;
    uint8_t *bits;
    size_t size;
    const char *name;
    void *stream;
    bool fine;
};

static bool same_bits(struct way *way, char why[PROBLEM_WHY])
{
    size_t size;
    uint8_t *bits = problem_snapshot(way->bench, &way->problem, &size);
    const bool same = bits && memcmp(bits, way->bits, size) == 0;
    free(bits);
    if (!same)
        snprintf(why, PROBLEM_WHY, "other bits than a plain call");
    return same;
}

static const struct problem_spec way_spec = {
    .name = "way", .s_q = 50, .s_kv = 2048, .topk = 300, .invalid = 0.1, .lengths = LENGTHS_RANDOM, .sink = true};

static bool way_make_heads(struct bench *bench, int32_t h_q, struct way *way, char why[PROBLEM_WHY])
{
    struct problem_spec spec = way_spec;
    spec.h_q = h_q;
    memset(way, 0, sizeof(*way));
    way->bench = bench;
    if (!problem_make(bench, &spec, &way->problem, why) ||
        !problem_run(bench, bench->prefill, &way->problem, NULL, why))
        return false;
    way->bits = problem_snapshot(bench, &way->problem, &way->size);
    return way->bits != NULL;
}

static bool way_make(struct bench *bench, struct way *way, char why[PROBLEM_WHY])
{
    return way_make_heads(bench, 64, way, why);
}

static void way_free(struct way *way)
{
    free(way->bits);
    if (way->bench)
        problem_free(way->bench, &way->problem);
}

static void test_stream(struct bench *bench, const char *name, void *stream)
{
    struct way way;
    char why[PROBLEM_WHY] = "same bits";
    const bool fine = way_make(bench, &way, why) && problem_run(bench, bench->prefill, &way.problem, stream, why) &&
                      same_bits(&way, why);
    report(name, fine, why);
    way_free(&way);
}

/* A thread without a current context, on a stream of the kernel's. */
static void *call_from_thread(void *argument)
{
    struct way *way = argument;
    way->fine = true;
    const int calls = way->bench->emulated ? 2 : 50;
    for (int i = 0; i < calls; i++)
        way->fine = way->fine && smla_prefill(way->bench->prefill, &way->problem.args, way->stream) == SMLA_OK;
    return NULL;
}

static void test_threads(struct bench *bench)
{
    enum { THREADS = 8 };
    struct way ways[THREADS] = {0};
    pthread_t threads[THREADS];
    char why[PROBLEM_WHY] = "calls from 8 threads without a context, NULL stream among them";
    bool fine = true;
    for (int i = 0; i < THREADS; i++) {
        fine = fine && way_make(bench, &ways[i], why);
        ways[i].stream = NULL;
        fine = fine && (i == 0 || device_stream_create(bench->device, true, &ways[i].stream));
    }
    for (int i = 0; fine && i < THREADS; i++)
        fine = pthread_create(&threads[i], NULL, call_from_thread, &ways[i]) == 0;
    for (int i = 0; fine && i < THREADS; i++)
        fine = pthread_join(threads[i], NULL) == 0 && ways[i].fine;
    fine = fine && device_synchronize(bench->device);
    for (int i = 0; i < THREADS; i++) {
        fine = fine && same_bits(&ways[i], why);
        way_free(&ways[i]);
    }
    report("threads", fine, why);
}

/* Captured once, replayed with other lists and sinks: what is captured is addresses, not contents. */
static void test_capture(struct bench *bench)
{
    struct way way;
    void *stream = NULL, *graph = NULL;
    char why[PROBLEM_WHY] = "capture, replay, replay with other lists and sinks (H4)";
    bool fine = way_make(bench, &way, why) && device_stream_create(bench->device, true, &stream) &&
                device_capture_begin(bench->device, stream);
    fine = fine && smla_prefill(bench->prefill, &way.problem.args, stream) == SMLA_OK;
    const smla_prefill_args nothing = {.struct_size = sizeof(nothing), .sm_scale = 1};
    fine = fine && smla_prefill(bench->prefill, &nothing, stream) == SMLA_OK; /* zero queries are legal in capture */
    fine = fine && device_capture_end(bench->device, stream, &graph);
    fine = fine && guarded_poison(bench->device, &way.problem.out) && device_synchronize(bench->device) &&
           device_graph_launch(bench->device, graph, stream) && device_synchronize(bench->device) &&
           same_bits(&way, why);

    /* Reverse the lists: the same keys for most rows in another order, other keys for rows with a length. */
    const size_t count = (size_t)(way.problem.args.s_q * way_spec.topk);
    int32_t *list = way.problem.host[2];
    for (size_t i = 0; fine && i < count / 2; i++) {
        const int32_t entry = list[i];
        list[i] = list[count - 1 - i] == 1 ? -1 : list[count - 1 - i];
        list[count - 1 - i] = entry == 1 ? -1 : entry;
    }
    float *sink = way.problem.host[ATTN_SINK];
    for (int i = 0; fine && i < way.problem.spec.h_q / 2; i++) {
        const float first = sink[i];
        sink[i] = sink[way.problem.spec.h_q - 1 - i];
        sink[way.problem.spec.h_q - 1 - i] = first;
    }
    fine = fine && device_upload(bench->device, guarded_data(&way.problem.indices), list, count * 4) &&
           device_upload(bench->device, guarded_data(&way.problem.attn_sink), sink,
                         (size_t)way.problem.spec.h_q * sizeof *sink) &&
           guarded_poison(bench->device, &way.problem.out) && device_synchronize(bench->device) &&
           device_graph_launch(bench->device, graph, stream) && device_synchronize(bench->device) &&
           problem_check(bench, &way.problem, why);
    report("capture and replay", fine, why);
    if (graph)
        device_graph_destroy(bench->device, graph);
    if (stream)
        device_stream_destroy(bench->device, stream);
    way_free(&way);
}

/* A query's bits do not depend on its neighbours, where the description asks for it: each alone gives what all together
 * gave. */
static void test_batch_invariance(struct bench *bench, const char *name, int32_t h_q)
{
    struct way way;
    char why[PROBLEM_WHY] = "each query alone gives the bits of all together";
    bench->batch_invariant = true;
    bool fine = way_make_heads(bench, h_q, &way, why);
    const smla_prefill_args all = way.problem.args;
    fine = fine && guarded_poison(bench->device, &way.problem.out) && device_synchronize(bench->device);
    for (int64_t token = 0; fine && token < all.s_q; token++) {
        smla_prefill_args one = all;
        one.s_q = 1;
        one.query = (const uint16_t *)all.query + token * h_q * 512;
        one.indices = all.indices + token * all.topk;
        one.topk_length = all.topk_length + token;
        one.out = (uint16_t *)all.out + token * h_q * 512;
        one.lse = all.lse + token * h_q;
        one.max_logits = all.max_logits + token * h_q;
        fine = smla_prefill(bench->prefill, &one, NULL) == SMLA_OK;
    }
    fine = fine && device_synchronize(bench->device) && same_bits(&way, why);
    bench->batch_invariant = false;
    report(name, fine, why);
    way_free(&way);
}

static void test_table(struct bench *bench, const struct problem_spec *table, size_t count, int repeats)
{
    for (size_t i = 0; i < count; i++)
        test_values(bench, &table[i], repeats);
}

/* Kernels that compute the same query tokens: a batch-invariant one is not split, however few they are. */
enum which { BY_PLAN, PERSISTENT, NOT_PERSISTENT, KERNELS };

static void choose_kernel(struct bench *bench, enum which which)
{
    bench->batch_invariant = which != BY_PLAN;
    bench->kernel_flags = which == NOT_PERSISTENT ? SMLA_KERNEL_NOT_PERSISTENT : 0;
}

static bool has_persistent_kernel(const struct problem_spec *spec)
{
    const int32_t h_q = spec->h_q == 0 ? 64 : spec->h_q;
    return h_q > 80 || (h_q > 56 && (h_q <= 64 || spec->d_qk == 576));
}

static void test_persistent_table(struct bench *bench, const struct problem_spec *table, size_t count, int repeats)
{
    for (size_t i = 0; i < count; i++)
        if (has_persistent_kernel(&table[i]))
            test_values(bench, &table[i], repeats);
}

static void test_persistent(struct bench *bench, int repeats)
{
    printf("persistent:\n");
    choose_kernel(bench, PERSISTENT);
    test_persistent_table(bench, first_port, sizeof(first_port) / sizeof(first_port[0]), repeats);
    test_persistent_table(bench, specs, sizeof(specs) / sizeof(specs[0]), repeats);
    test_persistent_table(bench, persistent, sizeof(persistent) / sizeof(persistent[0]), repeats);
    test_threads(bench);
    test_capture(bench);
    choose_kernel(bench, BY_PLAN);
}

static void test_ways(struct bench *bench)
{
    void *stream = NULL;
    test_stream(bench, "NULL stream", NULL);
    test_stream(bench, "legacy stream", (void *)0x1);
    test_stream(bench, "per-thread stream", (void *)0x2);
    if (device_stream_create(bench->device, false, &stream)) {
        test_stream(bench, "blocking stream", stream);
        device_stream_destroy(bench->device, stream);
    }
    test_threads(bench);
    test_capture(bench);
    test_batch_invariance(bench, "N1 batch invariance", 64);
    test_batch_invariance(bench, "N1 batch invariance, 16 heads", 16);
}

int main(int argc, char **argv)
{
    const bool first_port_only = argc > 1 && strcmp(argv[1], "first-port") == 0;
    const bool few_heads_only = argc == 2 && strcmp(argv[1], "few-heads") == 0;
    const bool few_queries_only = argc == 2 && strcmp(argv[1], "few-queries") == 0;
    const bool persistent_only = argc == 2 && strcmp(argv[1], "persistent") == 0;
    const bool all = !first_port_only && !few_heads_only && !few_queries_only && !persistent_only;
    int64_t most_queries = INT32_MAX;
    cli_start("gpu-prefill", argc, argv);
    if (argc > 1 + !all && !(argc == 3 && first_port_only && cli_int(argv[2], 1, INT32_MAX, &most_queries)))
        return cli_fail(CLI_USAGE,
                        "it takes no argument, or few-heads, few-queries, persistent, or first-port and a number of "
                        "queries");
    struct bench bench;
    char why[PROBLEM_WHY];
    const int opened = bench_open(&bench, why);
    if (opened != 0) {
        printf("%s: %s\n", opened == 77 ? "skipped" : "FAILED", why);
        return opened;
    }
    const int repeats = first_port_only ? 0 : bench.emulated ? 1 : 3;
    for (size_t i = 0; (all || first_port_only) && i < sizeof(first_port) / sizeof(first_port[0]); i++) {
        struct problem_spec spec = first_port[i];
        spec.s_q = spec.s_q < most_queries ? spec.s_q : most_queries;
        for (enum which which = BY_PLAN; which < KERNELS; which++) {
            choose_kernel(&bench, which);
            if (which != PERSISTENT || first_port_only)
                test_values(&bench, &spec, repeats);
        }
    }
    choose_kernel(&bench, BY_PLAN);
    if (all || few_heads_only)
        test_table(&bench, few_heads, sizeof(few_heads) / sizeof(few_heads[0]), repeats);
    if (few_queries_only || (all && !bench.emulated)) /* on the emulated device tests of their own */
        test_table(&bench, few_queries, sizeof(few_queries) / sizeof(few_queries[0]), repeats);
    if (all || persistent_only)
        test_persistent(&bench, repeats);
    if (all) {
        test_table(&bench, specs, sizeof(specs) / sizeof(specs[0]), repeats);
        if (bench.emulated)
            printf("       offsets past 2^32 elements         not run: 10 GB of host memory on the emulated device\n");
        else
            test_far_rows(&bench);
        test_ways(&bench);
    }
    bench_close(&bench);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
