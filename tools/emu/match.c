#include "match.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WHY_SIZE = 512, NEAREST = 3 };

static bool fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, WHY_SIZE, format, args);
    va_end(args);
    return false;
}

/* ---- Taking patterns apart ---- */

/* The end of a token that starts at `at`: a dot, or a bracket that does not belong to it. */
static const char *token_end(const char *at)
{
    return at + strcspn(at, ".");
}

/* One element behind its dot; returns its end, NULL when it is malformed. */
static const char *parse_element(const char *at, struct emu_element *element)
{
    char close = *at == '[' ? ']' : *at == '{' ? '}' : '\0';
    element->optional = close == '}';
    const char *start = close ? at + 1 : at;
    const char *end = close ? strchr(start, close) : token_end(start);
    if (!end || end == start || start[strcspn(start, " ,")] == ' ')
        return NULL;
    element->choices = (struct emu_span){start, (size_t)(end - start)};
    end += close != '\0';
    return !*end || *end == '.' ? end : NULL;
}

static bool parse_pattern(const struct emu_row *row, struct emu_pattern *pattern)
{
    const char *at = token_end(row->pattern);
    pattern->row = row;
    pattern->base = (struct emu_span){row->pattern, (size_t)(at - row->pattern)};
    while (*at) {
        if (pattern->element_count == EMU_MAX_ELEMENTS)
            return false;
        at = parse_element(at + 1, &pattern->elements[pattern->element_count++]);
        if (!at)
            return false;
    }
    return pattern->base.size && row->operands && !row->operands[strspn(row->operands, "dsxmtl?")];
}

bool emu_matcher_init(struct emu_matcher *matcher, struct emu_arena *arena, const struct emu_row_list *const *lists,
                      size_t list_count, char *why)
{
    size_t total = 0;
    for (size_t i = 0; i < list_count; i++)
        total += lists[i]->count;
    *matcher = (struct emu_matcher){.patterns = emu_arena_alloc(arena, total, sizeof *matcher->patterns)};
    if (!matcher->patterns)
        return fail(why, "out of memory");
    for (size_t i = 0; i < list_count; i++)
        for (size_t j = 0; j < lists[i]->count; j++)
            if (!parse_pattern(&lists[i]->rows[j], &matcher->patterns[matcher->count++]))
                return fail(why, "the opcode table's row \"%s\", operands \"%s\", is malformed",
                            lists[i]->rows[j].pattern, lists[i]->rows[j].operands);
    return true;
}

/* ---- Matching an opcode ---- */

bool emu_next_choice(struct emu_span *rest, struct emu_span *choice)
{
    if (!rest->size)
        return false;
    const char *comma = memchr(rest->text, ',', rest->size);
    size_t size = comma ? (size_t)(comma - rest->text) : rest->size;
    *choice = (struct emu_span){rest->text, size};
    size_t taken = comma ? size + 1 : size;
    *rest = (struct emu_span){rest->text + taken, rest->size - taken};
    return true;
}

/* Does a token fit a choice, in which # stands for one or more digits? */
static bool fits_choice(struct emu_span choice, const char *token)
{
    for (size_t i = 0; i < choice.size; i++) {
        size_t digits = strspn(token, "0123456789");
        if (choice.text[i] == '#' ? !digits : *token != choice.text[i])
            return false;
        token += choice.text[i] == '#' ? digits : 1;
    }
    return !*token;
}

static bool fits_element(const struct emu_element *element, const char *token)
{
    struct emu_span rest = element->choices, choice;
    while (emu_next_choice(&rest, &choice))
        if (fits_choice(choice, token))
            return true;
    return false;
}

/* An opcode, split at its dots: tokens[0] is the base name. */
struct opcode {
    char text[256];
    int count;
    const char *tokens[EMU_MAX_TOKENS];
};

static bool split_opcode(const char *text, struct opcode *opcode)
{
    size_t size = strlen(text);
    if (size >= sizeof opcode->text)
        return false;
    memcpy(opcode->text, text, size + 1);
    opcode->count = 0;
    for (char *at = opcode->text;; at++) {
        if (opcode->count == EMU_MAX_TOKENS)
            return false;
        opcode->tokens[opcode->count++] = at;
        at += strcspn(at, ".");
        if (!*at)
            return true;
        *at = '\0';
    }
}

/* A pattern being matched: at most two ways are told apart from one. `found` has the token's number at each element, 0
 * for none. */
struct attempt {
    const struct emu_pattern *pattern;
    const struct opcode *opcode;
    int chosen[EMU_MAX_ELEMENTS], found[EMU_MAX_ELEMENTS];
    int ways;
};

/* Elements from `element` on against tokens from `token` on. As deep as a pattern is long. */
static void match_from(struct attempt *attempt, int element, int token)
{
    int elements = attempt->pattern->element_count, left = attempt->opcode->count - token;
    if (attempt->ways > 1 || left > elements - element)
        return;
    if (element == elements) {
        if (!attempt->ways++)
            memcpy(attempt->found, attempt->chosen, sizeof attempt->found);
        return;
    }
    const struct emu_element *next = &attempt->pattern->elements[element];
    if (left && fits_element(next, attempt->opcode->tokens[token])) {
        attempt->chosen[element] = token;
        match_from(attempt, element + 1, token + 1);
    }
    if (next->optional) {
        attempt->chosen[element] = 0;
        match_from(attempt, element + 1, token);
    }
}

static bool same_base(const struct emu_pattern *pattern, const char *base)
{
    return emu_span_is(pattern->base, base);
}

static bool add_candidate(struct emu_candidates *candidates, struct emu_arena *arena, const struct attempt *attempt)
{
    struct emu_candidate *candidate = &candidates->items[candidates->count++];
    candidate->row = attempt->pattern->row;
    candidate->token_count = attempt->pattern->element_count;
    candidate->tokens = emu_arena_alloc(arena, EMU_MAX_ELEMENTS, sizeof *candidate->tokens);
    for (int i = 0; candidate->tokens && i < candidate->token_count; i++) {
        const char *token = attempt->found[i] ? attempt->opcode->tokens[attempt->found[i]] : "";
        candidate->tokens[i] = emu_arena_copy(arena, token, strlen(token));
        if (!candidate->tokens[i])
            return false;
    }
    return candidate->tokens;
}

/* How many tokens of the opcode some element of the pattern would take. */
static int closeness(const struct emu_pattern *pattern, const struct opcode *opcode)
{
    int common = 0;
    for (int token = 1; token < opcode->count; token++)
        for (int element = 0; element < pattern->element_count; element++)
            if (fits_element(&pattern->elements[element], opcode->tokens[token])) {
                common++;
                break;
            }
    return common;
}

/* "fma.rz.f16 is not in the permitted set; nearest: ..." */
static bool fail_unknown(const struct emu_matcher *matcher, const struct opcode *opcode, const char *text, char *why)
{
    const struct emu_pattern *nearest[NEAREST] = {NULL};
    int scores[NEAREST] = {-1, -1, -1};
    for (size_t i = 0; i < matcher->count; i++) {
        const struct emu_pattern *pattern = &matcher->patterns[i];
        int score = same_base(pattern, opcode->tokens[0]) ? closeness(pattern, opcode) : -1;
        for (int place = 0; place < NEAREST && score >= 0; place++) {
            if (score <= scores[place])
                continue;
            memmove(&nearest[place + 1], &nearest[place], (size_t)(NEAREST - 1 - place) * sizeof *nearest);
            memmove(&scores[place + 1], &scores[place], (size_t)(NEAREST - 1 - place) * sizeof *scores);
            nearest[place] = pattern;
            scores[place] = score;
            break;
        }
    }
    int used = snprintf(why, WHY_SIZE, "%.120s is not in the permitted set; %s", text,
                        nearest[0] ? "the nearest there:" : "nothing there has this name");
    for (int i = 0; i < NEAREST && nearest[i] && used < WHY_SIZE; i++)
        used += snprintf(why + used, (size_t)(WHY_SIZE - used), " %.120s", nearest[i]->row->pattern);
    return false;
}

bool emu_match_opcode(const struct emu_matcher *matcher, struct emu_arena *arena, const char *opcode,
                      struct emu_candidates *candidates, char *why)
{
    struct opcode split;
    candidates->count = 0;
    if (!split_opcode(opcode, &split))
        return fail(why, "%.80s... is no opcode: too long", opcode);
    for (size_t i = 0; i < matcher->count; i++) {
        struct attempt attempt = {.pattern = &matcher->patterns[i], .opcode = &split};
        if (!same_base(attempt.pattern, split.tokens[0]))
            continue;
        match_from(&attempt, 0, 1);
        if (attempt.ways > 1 || (attempt.ways && candidates->count == EMU_MAX_CANDIDATES))
            return fail(why, "%s fits the row %s in more than one way", opcode, attempt.pattern->row->pattern);
        if (attempt.ways && !add_candidate(candidates, arena, &attempt))
            return fail(why, "out of memory");
    }
    return candidates->count || fail_unknown(matcher, &split, opcode, why);
}

/* ---- Matching operands ---- */

enum emu_shape emu_letter_shape(char letter)
{
    return letter == 'm'   ? EMU_SHAPE_ADDRESS
           : letter == 't' ? EMU_SHAPE_TENSOR
           : letter == 'l' ? EMU_SHAPE_LABEL
                           : EMU_SHAPE_VALUE;
}

static bool fits_operands(const char *letters, const enum emu_shape *shapes, int count)
{
    bool optional = false;
    int taken = 0;
    for (; *letters; letters++) {
        if (*letters == '?') {
            optional = true;
            continue;
        }
        if (taken == count)
            return optional;
        if (emu_letter_shape(*letters) != shapes[taken++])
            return false;
    }
    return taken == count;
}

const struct emu_candidate *emu_match_operands(const struct emu_candidates *candidates, const char *opcode,
                                               const enum emu_shape *shapes, int count, char *why)
{
    const struct emu_candidate *found = NULL;
    for (int i = 0; i < candidates->count; i++) {
        if (!fits_operands(candidates->items[i].row->operands, shapes, count))
            continue;
        if (found) {
            fail(why, "%s fits two rows, %s and %s", opcode, found->row->pattern, candidates->items[i].row->pattern);
            return NULL;
        }
        found = &candidates->items[i];
    }
    if (!found)
        fail(why, "%s does not take these %d operands; it takes \"%s\"", opcode, count,
             candidates->items[0].row->operands);
    return found;
}
