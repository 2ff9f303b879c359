/* Cuts a kernel into blocks and links them. */
#include "flow.h"

#include <string.h>

bool emu_starts_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* The pc that an instruction can jump to, or EMU_NOWHERE. */
static int64_t jump_target(const struct emu_instr *instr)
{
    for (int i = 0; i < instr->operand_count; i++)
        if (instr->operands[i].kind == EMU_OP_LABEL)
            return instr->operands[i].imm;
    return EMU_NOWHERE;
}

/* Does a lane that executes this never reach the next instruction? */
static bool ends_path(const struct emu_instr *instr)
{
    return instr->guard < 0 && (emu_starts_with(instr->text, "bra") || emu_starts_with(instr->text, "ret") ||
                                emu_starts_with(instr->text, "exit") || emu_starts_with(instr->text, "trap"));
}

static bool ends_block(const struct emu_instr *instr)
{
    return jump_target(instr) != EMU_NOWHERE || ends_path(instr);
}

/* Marks the first instruction of each block in block_of, then numbers them. */
static bool find_blocks(struct emu_flow *flow)
{
    const struct emu_kernel *kernel = flow->kernel;
    flow->block_of = emu_arena_alloc(flow->arena, (size_t)kernel->instr_count + 1, sizeof *flow->block_of);
    if (!flow->block_of)
        return false;
    flow->block_of[0] = 1;
    for (uint32_t pc = 0; pc < kernel->instr_count; pc++) {
        int64_t target = jump_target(&kernel->instrs[pc]);
        if (target != EMU_NOWHERE)
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

static void link_block(struct emu_flow *flow, struct emu_block *block)
{
    const struct emu_instr *last = &flow->kernel->instrs[block->end - 1];
    int64_t target = jump_target(last);
    bool goes_on = !ends_path(last) && block->end < flow->kernel->instr_count;
    block->next[0] = goes_on ? (int32_t)flow->block_of[block->end] : EMU_NOWHERE;
    block->next[1] = target != EMU_NOWHERE ? (int32_t)flow->block_of[target] : EMU_NOWHERE;
    for (int i = 0; i < 2; i++)
        if (block->next[i] != EMU_NOWHERE)
            flow->blocks[block->next[i]].before_count++;
}

static void list_predecessors(struct emu_flow *flow)
{
    uint32_t total = 0;
    for (uint32_t b = 0; b < flow->block_count; b++) {
        flow->blocks[b].first_before = total;
        total += flow->blocks[b].before_count;
        flow->blocks[b].before_count = 0;
    }
    for (uint32_t b = 0; b < flow->block_count; b++)
        for (int i = 0; i < 2; i++) {
            if (flow->blocks[b].next[i] == EMU_NOWHERE)
                continue;
            struct emu_block *next = &flow->blocks[flow->blocks[b].next[i]];
            flow->before[next->first_before + next->before_count++] = b;
        }
}

bool emu_flow_build(struct emu_flow *flow, struct emu_kernel *kernel, struct emu_arena *arena)
{
    *flow = (struct emu_flow){.kernel = kernel, .arena = arena};
    if (!find_blocks(flow))
        return false;
    flow->blocks = emu_arena_alloc(flow->arena, flow->block_count, sizeof *flow->blocks);
    flow->before = emu_arena_alloc(flow->arena, (size_t)flow->block_count * 2, sizeof *flow->before);
    /* A walk puts the successors, or predecessors, of each block on its stack once. */
    flow->stack = emu_arena_alloc(flow->arena, (size_t)flow->block_count * 3 + 2, sizeof *flow->stack);
    if (!flow->blocks || !flow->before || !flow->stack)
        return false;
    for (uint32_t pc = 0; pc < flow->kernel->instr_count; pc++) {
        struct emu_block *block = &flow->blocks[flow->block_of[pc]];
        if (!block->end)
            block->first = pc;
        block->end = pc + 1;
    }
    for (uint32_t b = 0; b < flow->block_count; b++)
        link_block(flow, &flow->blocks[b]);
    list_predecessors(flow);
    return true;
}
