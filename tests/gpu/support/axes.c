#include "axes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "random_numbers.h"

enum { MOST_VALUES = 17 };

struct axis_row {
    const char *name;
    const char *words[MOST_VALUES]; /* ends with NULL */
    int plain;                      /* percent of the cases that have the first value; the others share the rest */
    int tiny;                       /* values that the emulated device gets; 0: all */
};

static const struct axis_row table[AXES] = {
    [AXIS_S_Q] = {"s_q", {"2", "1", "3", "4", "0", "7", "20", "33"}, 30, 5},
    [AXIS_S_KV] = {"s_kv", {"200", "0", "1", "2", "3", "64", "65", "640", "3000"}, 40, 7},
    [AXIS_TOPK] = {"topk",
                   {"100", "0", "1", "2", "63", "64", "65", "127", "128", "129", "133", "192", "256", "257", "640",
                    "1000"},
                   10,
                   11},
    [AXIS_PLACE] = {"invalid", {"none", "leading", "trailing", "interleaved", "whole blocks", "anywhere"}, 25, 0},
    [AXIS_SHARE] = {"share", {"half", "a tenth", "97 %", "all"}, 40, 0},
    [AXIS_ENTRY] = {"entries", {"every kind", "-1", "INT_MIN", "INT_MAX", "s_kv", "s_kv + 63"}, 30, 0},
    [AXIS_LENGTH] = {"lengths",
                     {"NULL", "topk", "0", "random", "negative", "beyond topk", "1, 2, 3 and so on", "every kind"},
                     30,
                     0},
    [AXIS_PAST] = {"past lengths", {"rows of NaN", "out of range", "garbage"}, 50, 0},
    [AXIS_DUPLICATES] = {"duplicates", {"none", "pairs", "one key", "in the next block"}, 60, 0},
    [AXIS_DEAD] = {"dead queries", {"none", "some", "the first"}, 70, 0},
    [AXIS_POOL] = {"selected from", {"half the rows", "all rows", "few rows"}, 60, 0},
    [AXIS_ROW_0] = {"row 0", {"not selected", "as others"}, 60, 0},
    [AXIS_POISON] = {"other poison", {"infinity", "NaN", "the largest", "0"}, 40, 0},
    [AXIS_SINK] = {"sink", {"NULL", "finite", "huge", "inf", "-inf", "NaN", "every kind"}, 30, 0},
    /* value = SMLA_LSE_* */
    [AXIS_LSE] = {"lse",
                  {"plain", "base 2", "with sink", "base 2, with sink", "empty negative", "empty negative, base 2",
                   "empty negative, with sink", "all flags"},
                  30,
                  0},
    [AXIS_SCALE] = {"scale", {"usual", "0", "-0", "negative", "denormal", "1"}, 50, 0},
    [AXIS_LOGITS] = {"logits", {"of 3", "of 1e-4", "of 30", "of 1e3"}, 50, 0},
    [AXIS_VALUES] = {"values", {"normal", "query 0", "kv 0", "tiny", "large"}, 60, 0},
    [AXIS_SPECIAL] = {"special", {"none", "NaN key", "inf key", "-inf key", "NaN query", "inf query"}, 70, 0},
    [AXIS_WANTED] = {"wanted besides", {"out alone", "out and lse", "out and max_logits"}, 34, 0},
    [AXIS_QUERY_VIEW] = {"query strides", {"contiguous", "padded", "heads outside"}, 60, 0},
    [AXIS_KV_VIEW] = {"kv strides", {"contiguous", "padded"}, 60, 0},
    [AXIS_INDICES_VIEW] = {"indices strides", {"contiguous", "padded"}, 60, 0},
    [AXIS_LENGTH_VIEW] = {"length strides", {"contiguous", "padded"}, 60, 0},
    [AXIS_OUT_VIEW] = {"out strides", {"contiguous", "padded", "heads outside"}, 60, 0},
    [AXIS_LSE_VIEW] = {"lse strides", {"contiguous", "padded"}, 60, 0},
    [AXIS_MAX_VIEW] = {"max_logits strides", {"contiguous", "padded"}, 60, 0},
    [AXIS_BASE] = {"inputs", {"at 256 bytes", "at the least alignment"}, 60, 0},
    [AXIS_ABSENT] = {"empty tensors", {"given", "NULL"}, 50, 0},
    [AXIS_PAGE] = {"page", {"0, or all", "64", "1", "2", "53", "61", "256"}, 30, 0},
    [AXIS_PAGE_GAP] = {"page gap", {"none", "16 bytes", "any", "far"}, 40, 0},
    [AXIS_SCALES] = {"scales", {"as written", "odd", "far apart", "negative", "some NaN"}, 50, 0},
    [AXIS_CODES] = {"codes", {"as written", "every but NaN", "every"}, 50, 0},
    [AXIS_EXTRA_S_KV] = {"extra s_kv", {"100", "0", "1", "3", "65", "700"}, 50, 5},
    [AXIS_EXTRA_TOPK] = {"extra topk", {"65", "0", "1", "64", "130", "300"}, 50, 5},
    [AXIS_EXTRA_LENGTH] = {"extra lengths",
                           {"NULL", "topk", "0", "random", "negative", "beyond topk", "1, 2, 3 and so on",
                            "every kind"},
                           30,
                           0},
    [AXIS_EXTRA_PAGE] = {"extra page", {"0, or all", "64", "1", "2", "53", "61", "256"}, 30, 0},
};

const char *axis_name(enum axis axis)
{
    return table[axis].name;
}

int axis_values(enum axis axis)
{
    int count = 0;
    while (table[axis].words[count])
        count++;
    return count;
}

const char *axis_word(enum axis axis, int value)
{
    return table[axis].words[value];
}

int64_t axis_number(enum axis axis, int value)
{
    return strtol(table[axis].words[value], NULL, 10);
}

static int64_t number(const struct choices *choices, enum axis axis)
{
    return axis_number(axis, choices->value[axis]);
}

static const float deviations[] = {
    [LOGITS_OF_3] = 1, [LOGITS_OF_1E_4] = 3e-5f, [LOGITS_OF_30] = 10, [LOGITS_OF_1E3] = 300};

static void take_sizes(struct choices *choices)
{
    choices->s_q = number(choices, AXIS_S_Q);
    choices->s_kv = number(choices, AXIS_S_KV);
    choices->topk = number(choices, AXIS_TOPK);
    choices->extra_s_kv = number(choices, AXIS_EXTRA_S_KV);
    choices->extra_topk = number(choices, AXIS_EXTRA_TOPK);
}

void axes_fill(struct choices *choices)
{
    static const enum axis sizes[] = {AXIS_S_Q, AXIS_S_KV, AXIS_TOPK};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (number(choices, sizes[i]) == 0)
            choices->value[sizes[i]] = 0;
    take_sizes(choices);
}

struct choices axes_draw(uint64_t *state, bool tiny)
{
    struct choices choices;
    for (enum axis axis = 0; axis < AXES; axis++) {
        const int count = tiny && table[axis].tiny ? table[axis].tiny : axis_values(axis);
        const bool plain = random_chance(state, table[axis].plain / 100.0);
        choices.value[axis] = plain ? 0 : 1 + (int)random_below(state, count - 1);
    }
    take_sizes(&choices);
    choices.deviation = deviations[choices.value[AXIS_LOGITS]];
    return choices;
}

struct choices axes_plain(int64_t s_q, int64_t s_kv, int64_t topk)
{
    return (struct choices){.s_q = s_q,
                            .s_kv = s_kv,
                            .topk = topk,
                            .extra_s_kv = axis_number(AXIS_EXTRA_S_KV, 0),
                            .extra_topk = axis_number(AXIS_EXTRA_TOPK, 0),
                            .deviation = deviations[LOGITS_OF_3]};
}

void axes_describe(const struct choices *choices, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "s_q %" PRId64 "; s_kv %" PRId64 "; topk %" PRId64, choices->s_q,
                                   choices->s_kv, choices->topk);
    for (enum axis axis = AXIS_TOPK + 1; axis < AXES && used < size; axis++)
        if (choices->value[axis] != 0)
            used += (size_t)snprintf(text + used, size - used, "; %s %s", table[axis].name,
                                     table[axis].words[choices->value[axis]]);
}
