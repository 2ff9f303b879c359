/* Checks the opcode table: no instruction may fit two rows, or one row in two ways. */
#include "match.h"

#include <stdio.h>
#include <string.h>

enum { WHY_SIZE = 512 };

/* Can the same token fit two choices? # against a number or # is all that the table has. */
static bool choices_meet(struct emu_span a, struct emu_span b)
{
    size_t i = 0, j = 0;
    while (i < a.size && j < b.size) {
        bool wild_a = a.text[i] == '#', wild_b = b.text[j] == '#';
        if (!wild_a && !wild_b && a.text[i] != b.text[j])
            return false;
        if (wild_a != wild_b) {
            struct emu_span *exact = wild_a ? &b : &a;
            size_t *at = wild_a ? &j : &i, start = *at;
            while (*at < exact->size && exact->text[*at] >= '0' && exact->text[*at] <= '9')
                ++*at;
            if (*at == start)
                return false;
            ++*(wild_a ? &i : &j);
        } else {
            i++;
            j++;
        }
    }
    return i == a.size && j == b.size;
}

static bool elements_meet(const struct emu_element *a, const struct emu_element *b)
{
    struct emu_span rest_a = a->choices, choice_a;
    while (emu_next_choice(&rest_a, &choice_a)) {
        struct emu_span rest_b = b->choices, choice_b;
        while (emu_next_choice(&rest_b, &choice_b))
            if (choices_meet(choice_a, choice_b))
                return true;
    }
    return false;
}

/* Two patterns read the same token sequence side by side; states are pairs of places, one bit each. `differ` marks the
 * states that were reached by taking some token at different elements, for a pattern compared with itself. */
struct meeting {
    const struct emu_pattern *a, *b;
    bool reached[EMU_MAX_ELEMENTS + 1][EMU_MAX_ELEMENTS + 1];
    bool differ[EMU_MAX_ELEMENTS + 1][EMU_MAX_ELEMENTS + 1];
};

static void reach(struct meeting *meeting, int i, int j, bool reached, bool differ)
{
    meeting->reached[i][j] |= reached;
    meeting->differ[i][j] |= differ;
}

static void step(struct meeting *meeting, int i, int j)
{
    bool reached = meeting->reached[i][j], differ = meeting->differ[i][j];
    bool more_a = i < meeting->a->element_count, more_b = j < meeting->b->element_count;
    if (more_a && meeting->a->elements[i].optional)
        reach(meeting, i + 1, j, reached, differ);
    if (more_b && meeting->b->elements[j].optional)
        reach(meeting, i, j + 1, reached, differ);
    if (more_a && more_b && elements_meet(&meeting->a->elements[i], &meeting->b->elements[j]))
        reach(meeting, i + 1, j + 1, reached, differ || (reached && i != j));
}

static void run_meeting(struct meeting *meeting)
{
    meeting->reached[0][0] = true;
    for (int i = 0; i <= meeting->a->element_count; i++)
        for (int j = 0; j <= meeting->b->element_count; j++)
            step(meeting, i, j);
}

/* The numbers of operands that the letters allow, with the shapes of the most. */
static int expand_letters(const char *letters, enum emu_shape *shapes, int *least)
{
    int count = 0;
    *least = -1;
    for (; *letters && count < 16; letters++) {
        if (*letters == '?')
            *least = *least < 0 ? count : *least;
        else
            shapes[count++] = emu_letter_shape(*letters);
    }
    if (*least < 0)
        *least = count;
    return count;
}

static bool operands_meet(const char *a, const char *b)
{
    enum emu_shape shapes_a[16], shapes_b[16];
    int least_a, least_b;
    int most_a = expand_letters(a, shapes_a, &least_a), most_b = expand_letters(b, shapes_b, &least_b);
    int least = least_a > least_b ? least_a : least_b, most = most_a < most_b ? most_a : most_b;
    if (least > most)
        return false;
    return !memcmp(shapes_a, shapes_b, (size_t)least * sizeof *shapes_a);
}

static bool check_pair(const struct emu_pattern *a, const struct emu_pattern *b, char *why)
{
    struct meeting meeting = {.a = a, .b = b};
    if (a->base.size != b->base.size || memcmp(a->base.text, b->base.text, a->base.size) != 0 ||
        !operands_meet(a->row->operands, b->row->operands))
        return true;
    run_meeting(&meeting);
    if (!meeting.reached[a->element_count][b->element_count])
        return true;
    snprintf(why, WHY_SIZE, "the rows \"%.200s\" and \"%.200s\" can fit the same instruction", a->row->pattern,
             b->row->pattern);
    return false;
}

static bool fail_row(char *why, const char *problem, const struct emu_pattern *pattern)
{
    snprintf(why, WHY_SIZE, "the row \"%.400s\" %s", pattern->row->pattern, problem);
    return false;
}

static bool check_itself(const struct emu_pattern *pattern, char *why)
{
    struct meeting meeting = {.a = pattern, .b = pattern};
    for (int i = 0; i < pattern->element_count; i++)
        if (memchr(pattern->elements[i].choices.text, '.', pattern->elements[i].choices.size))
            return fail_row(why, "has a dot in a choice, which no token has", pattern);
    run_meeting(&meeting);
    if (!meeting.differ[pattern->element_count][pattern->element_count])
        return true;
    return fail_row(why, "can fit an instruction in two ways", pattern);
}

bool emu_matcher_check(const struct emu_matcher *matcher, char *why)
{
    for (size_t i = 0; i < matcher->count; i++) {
        if (!check_itself(&matcher->patterns[i], why))
            return false;
        for (size_t j = i + 1; j < matcher->count; j++)
            if (!check_pair(&matcher->patterns[i], &matcher->patterns[j], why))
                return false;
    }
    return true;
}
