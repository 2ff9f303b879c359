/* Finds the row of the opcode table for an instruction: exactly one, or a reason why not. */
#ifndef EMU_MATCH_H
#define EMU_MATCH_H

#include "arena.h"
#include "program.h"
#include "scan.h"

enum { EMU_MAX_ELEMENTS = 24, EMU_MAX_TOKENS = 24, EMU_MAX_CANDIDATES = 8 };

/* ".x" one choice, must; ".[a,b]" several, must; ".{a,b}" several, may. */
struct emu_element {
    struct emu_span choices; /* "a,b" */
    bool optional;
};

/* A row's pattern, taken apart. */
struct emu_pattern {
    const struct emu_row *row;
    struct emu_span base;
    int element_count;
    struct emu_element elements[EMU_MAX_ELEMENTS];
};

struct emu_matcher {
    struct emu_pattern *patterns;
    size_t count;
};

/* What can stand at an operand's place, as far as its look tells. */
enum emu_shape { EMU_SHAPE_VALUE, EMU_SHAPE_ADDRESS, EMU_SHAPE_TENSOR, EMU_SHAPE_LABEL };

/* A row whose pattern an opcode fits, with the token at each element, "" where an optional one is absent. */
struct emu_candidate {
    const struct emu_row *row;
    int token_count;
    const char **tokens;
};

/* The rows that an opcode fits; the operands decide among them. */
struct emu_candidates {
    int count;
    struct emu_candidate items[EMU_MAX_CANDIDATES];
};

/* Takes the rows of all lists apart. False, with a reason in why (512 bytes), when a pattern is malformed. */
bool emu_matcher_init(struct emu_matcher *matcher, struct emu_arena *arena, const struct emu_row_list *const *lists,
                      size_t list_count, char *why);
/* False, with a reason, when two rows can fit the same instruction, or one row in two ways. */
bool emu_matcher_check(const struct emu_matcher *matcher, char *why);

/* The next of "a,b,c"; *rest moves behind it. False at the end. */
bool emu_next_choice(struct emu_span *rest, struct emu_span *choice);
enum emu_shape emu_letter_shape(char letter);

/* All rows that the opcode fits. False, with a reason that names the nearest rows, when there is none. */
bool emu_match_opcode(const struct emu_matcher *matcher, struct emu_arena *arena, const char *opcode,
                      struct emu_candidates *candidates, char *why);
/* The one candidate whose operands look like this; NULL with a reason when it is not exactly one. */
const struct emu_candidate *emu_match_operands(const struct emu_candidates *candidates, const char *opcode,
                                               const enum emu_shape *shapes, int count, char *why);

#endif
