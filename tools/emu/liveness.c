/* Gives virtual registers rows: liveness over the control-flow graph, then a linear scan.
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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_SIZE = 512, CLASSES = 3, NOWHERE = -1 };

/* Straight code from `first` to before `end`; a block goes on to at most two others. */
struct block {
    uint32_t first, end;
    int32_t next[2];
    uint32_t first_before, before_count; /* of flow->before */
    uint32_t defined, live, walked;      /* marks of walks: the register's, or the walk's, number + 1 */
};

/* Where a register must have its row, both ends included, in pcs. */
struct range {
    uint32_t from, to;
    int32_t reg;
    bool used;
    uint8_t row_class;
};

/* A register is read in a block before it is written there, or is written there for all lanes. */
struct event {
    uint32_t block;
    bool defines;
};

struct flow {
    struct emu_kernel *kernel;
    struct emu_arena *arena;
    struct block *blocks;
    uint32_t block_count;
    uint32_t *block_of; /* pc to block */
    uint32_t *before;   /* predecessors, block by block */
    uint32_t *stack;    /* of walks */
    struct range *ranges;
    size_t register_count;
    struct event *events;  /* sorted by register */
    uint32_t *first_event; /* of each register, and one more */
    uint32_t walks;
};

/* ---- Blocks ---- */

/* The pc that an instruction can jump to, or NOWHERE. */
static int64_t jump_target(const struct emu_instr *instr)
{
    for (int i = 0; i < instr->operand_count; i++)
        if (instr->operands[i].kind == EMU_OP_LABEL)
            return instr->operands[i].imm;
    return NOWHERE;
}

static bool starts_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* Does a lane that executes this never reach the next instruction? */
static bool ends_path(const struct emu_instr *instr)
{
    return instr->guard < 0 && (starts_with(instr->text, "bra") || starts_with(instr->text, "ret") ||
                                starts_with(instr->text, "exit") || starts_with(instr->text, "trap"));
}

static bool ends_block(const struct emu_instr *instr)
{
    return jump_target(instr) != NOWHERE || ends_path(instr);
}

/* Marks the first instruction of each block in block_of, then numbers them. */
static bool find_blocks(struct flow *flow)
{
    const struct emu_kernel *kernel = flow->kernel;
    flow->block_of = emu_arena_alloc(flow->arena, (size_t)kernel->instr_count + 1, sizeof *flow->block_of);
    if (!flow->block_of)
        return false;
    flow->block_of[0] = 1;
    for (uint32_t pc = 0; pc < kernel->instr_count; pc++) {
        int64_t target = jump_target(&kernel->instrs[pc]);
        if (target != NOWHERE)
            flow->block_of[target] = 1;
        if (ends_block(&kernel->instrs[pc]))
            flow->block_of[pc + 1] = 1;
    }
    for (uint32_t pc = 0; pc < kernel->instr_count; pc++) {
        flow->block_count += flow->block_of[pc];
        flow->block_of[pc] = flow->block_count - 1;
    }
    return true;
}

static void link_block(struct flow *flow, struct block *block)
{
    const struct emu_instr *last = &flow->kernel->instrs[block->end - 1];
    int64_t target = jump_target(last);
    bool goes_on = !ends_path(last) && block->end < flow->kernel->instr_count;
    block->next[0] = goes_on ? (int32_t)flow->block_of[block->end] : NOWHERE;
    block->next[1] = target != NOWHERE ? (int32_t)flow->block_of[target] : NOWHERE;
    for (int i = 0; i < 2; i++)
        if (block->next[i] != NOWHERE)
            flow->blocks[block->next[i]].before_count++;
}

static void list_predecessors(struct flow *flow)
{
    uint32_t total = 0;
    for (uint32_t b = 0; b < flow->block_count; b++) {
        flow->blocks[b].first_before = total;
        total += flow->blocks[b].before_count;
        flow->blocks[b].before_count = 0;
    }
    for (uint32_t b = 0; b < flow->block_count; b++)
        for (int i = 0; i < 2; i++) {
            if (flow->blocks[b].next[i] == NOWHERE)
                continue;
            struct block *next = &flow->blocks[flow->blocks[b].next[i]];
            flow->before[next->first_before + next->before_count++] = b;
        }
}

static bool build_blocks(struct flow *flow)
{
    if (!find_blocks(flow))
        return false;
    flow->blocks = emu_arena_alloc(flow->arena, flow->block_count, sizeof *flow->blocks);
    flow->before = emu_arena_alloc(flow->arena, (size_t)flow->block_count * 2, sizeof *flow->before);
    /* A walk puts the successors, or predecessors, of each block on its stack once. */
    flow->stack = emu_arena_alloc(flow->arena, (size_t)flow->block_count * 3 + 2, sizeof *flow->stack);
    if (!flow->blocks || !flow->before || !flow->stack)
        return false;
    for (uint32_t pc = 0; pc < flow->kernel->instr_count; pc++) {
        struct block *block = &flow->blocks[flow->block_of[pc]];
        if (!block->end)
            block->first = pc;
        block->end = pc + 1;
    }
    for (uint32_t b = 0; b < flow->block_count; b++)
        link_block(flow, &flow->blocks[b]);
    list_predecessors(flow);
    return true;
}

/* ---- Where each register is read and written ---- */

static void extend(struct range *range, uint32_t from, uint32_t to)
{
    if (!range->used || from < range->from)
        range->from = from;
    if (!range->used || to > range->to)
        range->to = to;
    range->used = true;
}

/* Calls visit for each event of the kernel, in the order of the code. seen[reg] tells whether the block has already
 * read or written it; so there are at most two events a register and block. */
struct seen {
    uint32_t reading, writing; /* block + 1 */
};

typedef void visit_fn(struct flow *flow, int32_t reg, struct event event);

static void visit_instr(struct flow *flow, const struct emu_instr *instr, uint32_t block, struct seen *seen,
                        visit_fn *visit)
{
    for (int i = 0; i < instr->read_count; i++) {
        struct seen *reg = &seen[instr->reads[i].row];
        if (reg->reading != block + 1 && reg->writing != block + 1)
            visit(flow, instr->reads[i].row, (struct event){block, false});
        reg->reading = block + 1;
    }
    for (int i = 0; i < instr->write_count; i++) {
        struct seen *reg = &seen[instr->writes[i].row];
        if (instr->guard >= 0 || reg->writing == block + 1)
            continue;
        reg->writing = block + 1;
        visit(flow, instr->writes[i].row, (struct event){block, true});
    }
}

static bool visit_events(struct flow *flow, visit_fn *visit)
{
    struct seen *seen = emu_arena_alloc(flow->arena, flow->register_count, sizeof *seen);
    if (!seen)
        return false;
    for (uint32_t pc = 0; pc < flow->kernel->instr_count; pc++)
        visit_instr(flow, &flow->kernel->instrs[pc], flow->block_of[pc], seen, visit);
    return true;
}

static void count_event(struct flow *flow, int32_t reg, struct event event)
{
    (void)event;
    flow->first_event[reg + 1]++;
}

/* first_event[reg] is where the register's next event goes; afterwards it is where the following one's begin. */
static void store_event(struct flow *flow, int32_t reg, struct event event)
{
    flow->events[flow->first_event[reg]++] = event;
}

static bool collect_events(struct flow *flow)
{
    flow->first_event = emu_arena_alloc(flow->arena, flow->register_count + 1, sizeof *flow->first_event);
    if (!flow->first_event || !visit_events(flow, count_event))
        return false;
    for (size_t reg = 0; reg < flow->register_count; reg++)
        flow->first_event[reg + 1] += flow->first_event[reg];
    flow->events = emu_arena_alloc(flow->arena, flow->first_event[flow->register_count], sizeof *flow->events);
    if (!flow->events || !visit_events(flow, store_event))
        return false;
    memmove(flow->first_event + 1, flow->first_event, flow->register_count * sizeof *flow->first_event);
    flow->first_event[0] = 0;
    return true;
}

static void extend_to_uses(struct flow *flow)
{
    for (uint32_t pc = 0; pc < flow->kernel->instr_count; pc++) {
        const struct emu_instr *instr = &flow->kernel->instrs[pc];
        for (int i = 0; i < instr->read_count; i++)
            extend(&flow->ranges[instr->reads[i].row], pc, pc);
        for (int i = 0; i < instr->write_count; i++)
            extend(&flow->ranges[instr->writes[i].row], pc, pc);
    }
}

/* ---- Liveness: from each use back to the writes that reach it ---- */

/* The register is live where this block starts: so it is where each block before it ends. */
static uint32_t enter_block(struct flow *flow, uint32_t reg, uint32_t number, uint32_t depth)
{
    const struct block *block = &flow->blocks[number];
    struct range *range = &flow->ranges[reg];
    extend(range, block->first, block->first);
    for (uint32_t i = 0; i < block->before_count; i++) {
        uint32_t before = flow->before[block->first_before + i];
        struct block *from = &flow->blocks[before];
        extend(range, from->end - 1, from->end - 1);
        if (from->defined == reg + 1 || from->live == reg + 1)
            continue;
        from->live = reg + 1;
        flow->stack[depth++] = before;
    }
    return depth;
}

static void walk_back(struct flow *flow, uint32_t reg)
{
    uint32_t depth = 0, first = flow->first_event[reg], end = flow->first_event[reg + 1];
    for (uint32_t i = first; i < end; i++)
        if (flow->events[i].defines)
            flow->blocks[flow->events[i].block].defined = reg + 1;
    for (uint32_t i = first; i < end; i++) {
        struct block *block = &flow->blocks[flow->events[i].block];
        if (flow->events[i].defines || block->live == reg + 1)
            continue;
        block->live = reg + 1;
        flow->stack[depth++] = flow->events[i].block;
    }
    while (depth) {
        uint32_t number = flow->stack[--depth];
        depth = enter_block(flow, reg, number, depth);
    }
}

/* ---- Registers in flight ---- */

static bool is_launch(const struct emu_instr *instr)
{
    return starts_with(instr->text, "wgmma.mma_async");
}

/* A wait that leaves nothing in flight. One that leaves some groups is not enough to tell which. */
static bool is_full_wait(const struct emu_instr *instr)
{
    return starts_with(instr->text, "wgmma.wait_group") && instr->guard < 0 && instr->operand_count == 1 &&
           instr->operands[0].kind == EMU_OP_IMM && instr->operands[0].imm == 0;
}

/* Extends `reach` over the code from pc to a full wait or the block's end; true when the block ends first. */
static bool reach_in_block(const struct flow *flow, uint32_t pc, struct range *reach)
{
    uint32_t end = flow->blocks[flow->block_of[pc]].end;
    for (uint32_t at = pc; at < end; at++)
        if (is_full_wait(&flow->kernel->instrs[at])) {
            extend(reach, pc, at);
            return false;
        }
    extend(reach, pc, end - 1);
    return true;
}

static uint32_t push_next(struct flow *flow, uint32_t number, uint32_t depth)
{
    for (int i = 0; i < 2; i++) {
        int32_t next = flow->blocks[number].next[i];
        if (next == NOWHERE || flow->blocks[next].walked == flow->walks)
            continue;
        flow->blocks[next].walked = flow->walks;
        flow->stack[depth++] = (uint32_t)next;
    }
    return depth;
}

/* The matrices are in 32-bit registers; descriptors and the scale predicate are read when wgmma is issued. */
static void extend_matrices(struct flow *flow, const struct emu_row_use *uses, int count, const struct range *reach)
{
    for (int i = 0; i < count; i++)
        if (uses[i].row_class == EMU_ROW32)
            extend(&flow->ranges[uses[i].row], reach->from, reach->to);
}

static void extend_to_wait(struct flow *flow, uint32_t pc)
{
    const struct emu_instr *instr = &flow->kernel->instrs[pc];
    struct range reach = {0};
    uint32_t depth = 0;
    flow->walks++;
    if (reach_in_block(flow, pc, &reach))
        depth = push_next(flow, flow->block_of[pc], depth);
    while (depth) {
        uint32_t number = flow->stack[--depth];
        if (reach_in_block(flow, flow->blocks[number].first, &reach))
            depth = push_next(flow, number, depth);
    }
    extend_matrices(flow, instr->reads, instr->read_count, &reach);
    extend_matrices(flow, instr->writes, instr->write_count, &reach);
}

static bool find_ranges(struct flow *flow)
{
    if (!build_blocks(flow) || !collect_events(flow))
        return false;
    extend_to_uses(flow);
    for (size_t reg = 0; reg < flow->register_count; reg++)
        walk_back(flow, (uint32_t)reg);
    for (uint32_t pc = 0; pc < flow->kernel->instr_count; pc++)
        if (is_launch(&flow->kernel->instrs[pc]))
            extend_to_wait(flow, pc);
    return true;
}

/* ---- Linear scan ---- */

static int by_start(const void *a, const void *b)
{
    const struct range *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->reg < right->reg ? -1 : left->reg > right->reg;
}

/* Rows in use, a heap by the pc where they become free again; and the free ones. */
struct row_end {
    uint32_t to;
    int32_t row;
};

struct rows {
    struct row_end *heap;
    uint32_t heap_count;
    int32_t *free;
    uint32_t free_count;
    int32_t count;
};

static void swap_ends(struct row_end *a, struct row_end *b)
{
    struct row_end kept = *a;
    *a = *b;
    *b = kept;
}

static void push_end(struct rows *rows, struct row_end end)
{
    uint32_t at = rows->heap_count++;
    rows->heap[at] = end;
    for (; at && rows->heap[(at - 1) / 2].to > rows->heap[at].to; at = (at - 1) / 2)
        swap_ends(&rows->heap[at], &rows->heap[(at - 1) / 2]);
}

static int32_t pop_end(struct rows *rows)
{
    int32_t row = rows->heap[0].row;
    rows->heap[0] = rows->heap[--rows->heap_count];
    for (uint32_t at = 0, child; (child = 2 * at + 1) < rows->heap_count; at = child) {
        if (child + 1 < rows->heap_count && rows->heap[child + 1].to < rows->heap[child].to)
            child++;
        if (rows->heap[at].to <= rows->heap[child].to)
            break;
        swap_ends(&rows->heap[at], &rows->heap[child]);
    }
    return row;
}

static int32_t take_row(struct rows *rows, const struct range *range)
{
    while (rows->heap_count && rows->heap[0].to < range->from) /* `to` included: results apart from sources */
        rows->free[rows->free_count++] = pop_end(rows);
    int32_t row = rows->free_count ? rows->free[--rows->free_count] : rows->count++;
    push_end(rows, (struct row_end){range->to, row});
    return row;
}

static bool scan_ranges(struct flow *flow, int32_t *row_of, struct rows rows[CLASSES])
{
    struct range *sorted = flow->ranges;
    for (int i = 0; i < CLASSES; i++) {
        rows[i].heap = emu_arena_alloc(flow->arena, flow->register_count, sizeof *rows[i].heap);
        rows[i].free = emu_arena_alloc(flow->arena, flow->register_count, sizeof *rows[i].free);
        if (!rows[i].heap || !rows[i].free)
            return false;
    }
    qsort(sorted, flow->register_count, sizeof *sorted, by_start);
    for (size_t i = 0; i < flow->register_count; i++)
        if (sorted[i].used)
            row_of[sorted[i].reg] = take_row(&rows[sorted[i].row_class], &sorted[i]);
    return true;
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

static bool assign(struct flow *flow, const struct emu_register *registers, const struct emu_uses *uses,
                   size_t pool_count)
{
    struct rows rows[CLASSES] = {{0}};
    int32_t *row_of = emu_arena_alloc(flow->arena, flow->register_count, sizeof *row_of);
    flow->ranges = emu_arena_alloc(flow->arena, flow->register_count, sizeof *flow->ranges);
    if (!row_of || !flow->ranges)
        return false;
    for (size_t reg = 0; reg < flow->register_count; reg++)
        flow->ranges[reg] = (struct range){.reg = (int32_t)reg, .row_class = class_of(&registers[reg])};
    if (!find_ranges(flow) || !scan_ranges(flow, row_of, rows))
        return false;
    rename_rows(flow->kernel, row_of, uses, pool_count);
    flow->kernel->row32_count = (uint32_t)rows[EMU_ROW32].count;
    flow->kernel->row64_count = (uint32_t)rows[EMU_ROW64].count;
    flow->kernel->pred_count = (uint32_t)rows[EMU_ROW_PRED].count;
    return true;
}

bool emu_assign_rows(struct emu_kernel *kernel, const struct emu_register *registers, size_t register_count,
                     const struct emu_uses *uses, size_t pool_count, char *why)
{
    /* What the passes need goes away with them. */
    struct emu_arena *scratch = emu_arena_create((size_t)1 << 30);
    struct flow flow = {.kernel = kernel, .arena = scratch, .register_count = register_count};
    bool done = scratch && assign(&flow, registers, uses, pool_count);
    emu_arena_destroy(scratch);
    if (!done)
        snprintf(why, WHY_SIZE, "out of memory");
    return done;
}
