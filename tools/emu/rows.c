/* Gives virtual registers rows: those that are never live at once share one.
 *
 * PTX names a new register for nearly every result: thousands a kernel, megabytes a warp. Two registers can share a row
 * when no lane ever needs both.
 *
 * Why this is safe when lanes diverge: a row holds 32 values, one a lane, and an instruction touches only the lanes of
 * the group that executes it. Each lane by itself follows one path through the control-flow graph, so a lane's slot of
 * a row is exactly a register of a scalar program, to which ordinary per-path liveness applies. That another group
 * stands in another branch, and uses the same row there for another register, concerns other slots. Instructions that
 * read other lanes' slots (shfl, votes, matrices) do so only for lanes that execute them together, at the same pc,
 * where the same registers are live.
 *
 * What keeps rows apart here, beyond two registers being live at once:
 * - A guarded instruction writes some lanes only: the old value of its result stays live through it.
 * - A register that is written and never read still needs its row at that point.
 * - Results never share a row with sources of the same instruction, so that an instruction may write its first result
 *   before it has read its last source.
 * - wgmma reads and writes registers later on: its matrices stay live until the wait (PTX ISA 9.7.15.7), or a reused
 *   row would be overwritten late, and checks of registers in flight would accuse the innocent.
 * - A register read before it is written is live from the kernel's start: the row's written-mark stays false for it. */
#include "decode.h"
#include "flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHY_SIZE = 512,
    CLASSES = 3,
    MAX_ROWS = 4096, /* of a class: a thread has 255 registers on a GPU, so text that needs more is no kernel */
    NONE = -1
};

/* The rows of a class: for each, a bit for every pc where it is taken. */
struct rows {
    uint64_t *taken[MAX_ROWS];
    int32_t count;
};

struct assignment {
    struct emu_flow flow;
    struct emu_live_span **spans; /* of each register */
    int32_t *row_of;
    size_t words; /* of a row's bits */
    struct rows rows[CLASSES];
};

static uint64_t bits_between(uint32_t from, uint32_t to, uint32_t word)
{
    uint32_t first = word * 64, low = from > first ? from - first : 0, high = to < first + 63 ? to - first : 63;
    return (UINT64_MAX >> (63 - high)) & (UINT64_MAX << low);
}

static bool is_free(const uint64_t *taken, const struct emu_live_span *span)
{
    for (; span; span = span->next)
        for (uint32_t word = span->from / 64; word <= span->to / 64; word++)
            if (taken[word] & bits_between(span->from, span->to, word))
                return false;
    return true;
}

static void take(uint64_t *taken, const struct emu_live_span *span)
{
    for (; span; span = span->next)
        for (uint32_t word = span->from / 64; word <= span->to / 64; word++)
            taken[word] |= bits_between(span->from, span->to, word);
}

/* The first row that is free wherever the register is live, or a new one; NONE when memory or rows are out. */
static int32_t find_row(const struct assignment *assignment, struct rows *rows, const struct emu_live_span *spans)
{
    int32_t row = 0;
    while (row < rows->count && !is_free(rows->taken[row], spans))
        row++;
    if (row == rows->count) {
        if (row == MAX_ROWS)
            return NONE;
        rows->taken[row] = emu_arena_alloc(assignment->flow.arena, assignment->words, sizeof **rows->taken);
        if (!rows->taken[row])
            return NONE;
        rows->count++;
    }
    take(rows->taken[row], spans);
    return row;
}

/* ---- The order: by the first pc where a register is live ---- */

struct start {
    uint32_t pc;
    uint32_t reg;
};

static int by_pc(const void *a, const void *b)
{
    const struct start *left = a, *right = b;
    if (left->pc != right->pc)
        return left->pc < right->pc ? -1 : 1;
    return left->reg < right->reg ? -1 : left->reg > right->reg;
}

/* Registers that are live somewhere, in order. */
static size_t sort_registers(struct emu_live_span *const *spans, size_t register_count, struct start *starts)
{
    size_t count = 0;
    for (size_t reg = 0; reg < register_count; reg++) {
        if (!spans[reg])
            continue;
        struct start *start = &starts[count++];
        *start = (struct start){spans[reg]->from, (uint32_t)reg};
        for (const struct emu_live_span *span = spans[reg]; span; span = span->next)
            start->pc = span->from < start->pc ? span->from : start->pc;
    }
    qsort(starts, count, sizeof *starts, by_pc);
    return count;
}

/* ---- Renaming ---- */

static void rename_rows(struct emu_kernel *kernel, const int32_t *row_of, const struct emu_uses *uses,
                        size_t pool_count)
{
    for (uint32_t pc = 0; pc < kernel->instr_count; pc++)
        if (kernel->instrs[pc].guard >= 0)
            kernel->instrs[pc].guard = row_of[kernel->instrs[pc].guard];
    for (size_t i = 0; i < pool_count; i++) {
        struct emu_operand *operand = &kernel->pool[i];
        if (operand->kind == EMU_OP_NONE)
            continue;
        operand->row = operand->row < 0 ? -1 : row_of[operand->row];
        operand->row2 = operand->row2 < 0 ? -1 : row_of[operand->row2];
    }
    for (size_t i = 0; i < uses->count; i++)
        uses->items[i].row = row_of[uses->items[i].row];
}

static uint8_t class_of(const struct emu_register *reg)
{
    return reg->bits == 1 ? EMU_ROW_PRED : reg->bits == 64 ? EMU_ROW64 : EMU_ROW32;
}

static bool assign(struct assignment *assignment, const struct emu_register *registers, size_t register_count)
{
    struct emu_arena *arena = assignment->flow.arena;
    struct start *starts = emu_arena_alloc(arena, register_count, sizeof *starts);
    if (!starts)
        return false;
    size_t count = sort_registers(assignment->spans, register_count, starts);
    for (size_t i = 0; i < count; i++) {
        uint32_t reg = starts[i].reg;
        int32_t row = find_row(assignment, &assignment->rows[class_of(&registers[reg])], assignment->spans[reg]);
        if (row == NONE)
            return false;
        assignment->row_of[reg] = row;
    }
    return true;
}

static bool find_spans(struct assignment *assignment, struct emu_kernel *kernel, size_t register_count,
                       struct emu_arena *arena)
{
    assignment->words = kernel->instr_count / 64 + 1;
    assignment->spans = emu_arena_alloc(arena, register_count, sizeof(void *));
    assignment->row_of = emu_arena_alloc(arena, register_count, sizeof *assignment->row_of);
    return assignment->spans && assignment->row_of && emu_flow_build(&assignment->flow, kernel, arena) &&
           emu_find_liveness(&assignment->flow, register_count, assignment->spans);
}

static void finish(struct emu_kernel *kernel, const struct assignment *assignment, const struct emu_uses *uses,
                   size_t pool_count)
{
    rename_rows(kernel, assignment->row_of, uses, pool_count);
    kernel->row32_count = (uint32_t)assignment->rows[EMU_ROW32].count;
    kernel->row64_count = (uint32_t)assignment->rows[EMU_ROW64].count;
    kernel->pred_count = (uint32_t)assignment->rows[EMU_ROW_PRED].count;
}

bool emu_assign_rows(struct emu_kernel *kernel, const struct emu_register *registers, size_t register_count,
                     const struct emu_uses *uses, size_t pool_count, char *why)
{
    struct emu_arena *scratch = emu_arena_create((size_t)1 << 30); /* what the passes need goes away with them */
    struct assignment *assignment = scratch ? emu_arena_alloc(scratch, 1, sizeof *assignment) : NULL;
    bool done = assignment && find_spans(assignment, kernel, register_count, scratch) &&
                assign(assignment, registers, register_count);
    if (done)
        finish(kernel, assignment, uses, pool_count);
    else
        snprintf(why, WHY_SIZE, "line %u: %s: too large: out of memory, or more than %d registers live at once",
                 kernel->instrs[0].line, kernel->name, MAX_ROWS);
    emu_arena_destroy(scratch);
    return done;
}
