/* What a random call of prefill is drawn from: axes, each with named values. The first value of an axis is the plain
 * one. What is drawn, what a failing case prints and what coverage counts all come from this table. */
#ifndef SMLA_TESTS_GPU_AXES_H
#define SMLA_TESTS_GPU_AXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum axis {
    AXIS_S_Q, /* the first three are numbers */
    AXIS_S_KV,
    AXIS_TOPK,
    AXIS_PLACE, /* of invalid entries, how many, which */
    AXIS_SHARE,
    AXIS_ENTRY,
    AXIS_LENGTH,
    AXIS_PAST, /* what stands past a length */
    AXIS_DUPLICATES,
    AXIS_DEAD, /* queries whose whole list is invalid */
    AXIS_POOL, /* rows that lists select from */
    AXIS_ROW_0,
    AXIS_POISON, /* of what nothing selects, when its bits are to change nothing */
    AXIS_SINK,
    AXIS_LSE,
    AXIS_SCALE,
    AXIS_LOGITS,
    AXIS_VALUES,
    AXIS_SPECIAL,
    AXIS_WANTED,
    AXIS_QUERY_VIEW,
    AXIS_KV_VIEW,
    AXIS_INDICES_VIEW,
    AXIS_LENGTH_VIEW,
    AXIS_OUT_VIEW,
    AXIS_LSE_VIEW,
    AXIS_MAX_VIEW,
    AXIS_BASE,
    AXIS_ABSENT,
    AXIS_PAGE, /* tokens a page */
    AXIS_PAGE_GAP,
    AXIS_SCALES, /* of quantised caches */
    AXIS_CODES,
    AXIS_EXTRA_S_KV, /* of the second cache; the first two are numbers */
    AXIS_EXTRA_TOPK,
    AXIS_EXTRA_LENGTH,
    AXIS_EXTRA_PAGE,
    AXES
};

enum place { PLACE_NONE, PLACE_LEADING, PLACE_TRAILING, PLACE_INTERLEAVED, PLACE_BLOCKS, PLACE_ANYWHERE };
enum share { SHARE_HALF, SHARE_TENTH, SHARE_MOST, SHARE_ALL };
enum entry { ENTRY_EVERY_KIND, ENTRY_MINUS_ONE, ENTRY_INT_MIN, ENTRY_INT_MAX, ENTRY_S_KV, ENTRY_S_KV_63, ENTRIES };
enum length {
    LENGTH_NULL,
    LENGTH_TOPK,
    LENGTH_ZERO,
    LENGTH_RANDOM,
    LENGTH_NEGATIVE,
    LENGTH_BEYOND,
    LENGTH_RAMP,
    LENGTH_EVERY_KIND
};
enum past { PAST_ROWS_OF_NAN, PAST_OUT_OF_RANGE, PAST_GARBAGE };
enum duplicates { DUPLICATES_NONE, DUPLICATES_PAIRS, DUPLICATES_ONE_KEY, DUPLICATES_NEXT_BLOCK };
enum dead { DEAD_NONE, DEAD_SOME, DEAD_FIRST };
enum pool { POOL_HALF, POOL_ALL, POOL_FEW };
enum row_0 { ROW_0_NOT_SELECTED, ROW_0_AS_OTHERS };
enum poison { POISON_INFINITY, POISON_NAN, POISON_LARGEST, POISON_ZERO };
enum sink { SINK_NULL, SINK_FINITE, SINK_HUGE, SINK_INFINITY, SINK_MINUS_INFINITY, SINK_NAN, SINK_EVERY_KIND };
enum scale { SCALE_USUAL, SCALE_ZERO, SCALE_MINUS_ZERO, SCALE_NEGATIVE, SCALE_DENORMAL, SCALE_ONE };
enum logits { LOGITS_OF_3, LOGITS_OF_1E_4, LOGITS_OF_30, LOGITS_OF_1E3 };
enum values { VALUES_NORMAL, VALUES_QUERY_0, VALUES_KV_0, VALUES_TINY, VALUES_LARGE };
enum special {
    SPECIAL_NONE,
    SPECIAL_NAN_KEY,
    SPECIAL_INFINITE_KEY,
    SPECIAL_MINUS_INFINITE_KEY,
    SPECIAL_NAN_QUERY,
    SPECIAL_INFINITE_QUERY
};
enum wanted { WANTED_OUT, WANTED_LSE, WANTED_MAX_LOGITS };
enum view { VIEW_CONTIGUOUS, VIEW_PADDED, VIEW_HEADS_OUTSIDE };
enum base { BASE_256, BASE_LEAST };
enum absent { ABSENT_NOTHING, ABSENT_WHAT_MAY_BE };

enum page_gap { PAGE_GAP_NONE, PAGE_GAP_16, PAGE_GAP_ANY, PAGE_GAP_FAR };
enum scales { SCALES_WRITTEN, SCALES_ODD, SCALES_FAR_APART, SCALES_NEGATIVE, SCALES_NAN };
enum codes { CODES_WRITTEN, CODES_EVERY, CODES_NAN };

/* The value that each axis has, by number; and what the axes of numbers stand for, which a test may set to others. */
struct choices {
    int value[AXES];
    int64_t s_q, s_kv, topk, extra_s_kv, extra_topk;
    float deviation; /* of the logits, at a usual scale */
};

/* tiny: only values whose sizes suit the emulated device. */
struct choices axes_draw(uint64_t *state, bool tiny);

/* Sizes of 0 become the plain ones. */
void axes_fill(struct choices *choices);

/* The plain values, and these sizes. */
struct choices axes_plain(int64_t s_q, int64_t s_kv, int64_t topk);

/* The number that a value's word begins with. */
int64_t axis_number(enum axis axis, int value);

const char *axis_name(enum axis axis);
int axis_values(enum axis axis);
const char *axis_word(enum axis axis, int value);

/* "s_q 7, s_kv 200, …": every axis that has not its plain value, and the numbers. */
void axes_describe(const struct choices *choices, char *text, size_t size);

#endif
