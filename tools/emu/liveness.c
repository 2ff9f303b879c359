/* Where each virtual register is live: from its writes to the reads that they reach, block by block. */
#include "flow.h"

/* A stretch of one block that begins with a write for all lanes (`kills`), or with the block's first read or partial
 * write, and ends with the last read or partial write before the next full write. */
struct event {
    uint32_t block, first, last;
    bool kills;
    bool exposed; /* a read that a value from before the block can reach */
};

struct liveness {
    struct emu_flow *flow;
    size_t register_count;
    struct event *events;  /* sorted by register, in code order for each */
    uint32_t *first_event; /* of each register, and one more */
    uint32_t *touched;     /* blocks where the walk's register is live without being used */
    uint32_t touched_count;
    struct emu_live_span **spans;
};

static bool add_span(const struct liveness *live, int32_t reg, uint32_t from, uint32_t to)
{
    struct emu_live_span *span = emu_arena_alloc(live->flow->arena, 1, sizeof *span);
    if (!span)
        return false;
    *span = (struct emu_live_span){from, to, live->spans[reg]};
    live->spans[reg] = span;
    return true;
}

/* ---- Events: one pass counts them, a second one stores them ---- */

struct pass {
    struct liveness *live;
    uint32_t *last_block; /* of each register: of its last event, plus 1 */
    bool stores;
};

/* The register's last event in this block; NULL when there is none, or nothing is stored. */
static struct event *last_event(const struct pass *pass, int32_t reg)
{
    return pass->stores ? &pass->live->events[pass->live->first_event[reg] - 1] : NULL;
}

/* While storing, first_event[reg] is where the register's next event goes. */
static void new_event(const struct pass *pass, int32_t reg, struct event event)
{
    pass->last_block[reg] = event.block + 1;
    if (pass->stores)
        pass->live->events[pass->live->first_event[reg]++] = event;
    else
        pass->live->first_event[reg + 1]++;
}

static void see_read(const struct pass *pass, int32_t reg, uint32_t block, uint32_t pc)
{
    if (pass->last_block[reg] != block + 1) {
        new_event(pass, reg, (struct event){block, pc, pc, false, true});
        return;
    }
    struct event *event = last_event(pass, reg);
    if (event) {
        event->last = pc;
        event->exposed |= !event->kills;
    }
}

/* A guarded write leaves the other lanes' value: it continues what is there. */
static void see_write(const struct pass *pass, int32_t reg, uint32_t block, uint32_t pc, bool guarded)
{
    if (!guarded || pass->last_block[reg] != block + 1)
        new_event(pass, reg, (struct event){block, pc, pc, !guarded, false});
    else if (last_event(pass, reg))
        last_event(pass, reg)->last = pc;
}

static bool run_pass(struct liveness *live, bool stores)
{
    const struct emu_kernel *kernel = live->flow->kernel;
    struct pass pass = {.live = live, .stores = stores};
    pass.last_block = emu_arena_alloc(live->flow->arena, live->register_count, sizeof *pass.last_block);
    if (!pass.last_block)
        return false;
    for (uint32_t pc = 0; pc < kernel->instr_count; pc++) {
        const struct emu_instr *instr = &kernel->instrs[pc];
        for (int i = 0; i < instr->read_count; i++)
            see_read(&pass, instr->reads[i].row, live->flow->block_of[pc], pc);
        for (int i = 0; i < instr->write_count; i++)
            see_write(&pass, instr->writes[i].row, live->flow->block_of[pc], pc, instr->guard >= 0);
    }
    return true;
}

static bool collect_events(struct liveness *live)
{
    uint32_t *first = emu_arena_alloc(live->flow->arena, live->register_count + 1, sizeof *first);
    live->first_event = first;
    if (!first || !run_pass(live, false))
        return false;
    for (size_t reg = 0; reg < live->register_count; reg++)
        first[reg + 1] += first[reg];
    live->events = emu_arena_alloc(live->flow->arena, first[live->register_count], sizeof *live->events);
    if (!live->events || !run_pass(live, true))
        return false;
    for (size_t reg = live->register_count; reg > 0; reg--) /* each is now where the following one's begin */
        first[reg] = first[reg - 1];
    first[0] = 0;
    return true;
}

/* ---- From each read back to the writes that reach it ---- */

static void touch(struct liveness *live, uint32_t number, uint32_t mark)
{
    const struct emu_block *block = &live->flow->blocks[number];
    if (block->has_events != mark && block->live_in != mark && block->live_out != mark)
        live->touched[live->touched_count++] = number;
}

/* The register is live where this block starts: so it is where each block before it ends. */
static uint32_t enter_block(struct liveness *live, uint32_t mark, uint32_t number, uint32_t depth)
{
    struct emu_flow *flow = live->flow;
    const struct emu_block *block = &flow->blocks[number];
    for (uint32_t i = 0; i < block->before_count; i++) {
        uint32_t before = flow->before[block->first_before + i];
        struct emu_block *from = &flow->blocks[before];
        touch(live, before, mark);
        from->live_out = mark;
        if (from->kills == mark || from->live_in == mark)
            continue;
        from->live_in = mark;
        flow->stack[depth++] = before;
    }
    return depth;
}

static void walk_back(struct liveness *live, uint32_t mark, const struct event *events, uint32_t count)
{
    struct emu_flow *flow = live->flow;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct emu_block *block = &flow->blocks[events[i].block];
        block->has_events = mark;
        if (events[i].kills)
            block->kills = mark;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct emu_block *block = &flow->blocks[events[i].block];
        if (!events[i].exposed || block->live_in == mark)
            continue;
        block->live_in = mark;
        flow->stack[depth++] = events[i].block;
    }
    while (depth) {
        uint32_t number = flow->stack[--depth];
        depth = enter_block(live, mark, number, depth);
    }
}

/* The events' spans reach back to the block's start and on to its end where the register is live there. */
static bool add_event_spans(struct liveness *live, int32_t reg, uint32_t mark, const struct event *events,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct emu_block *block = &live->flow->blocks[events[i].block];
        bool is_first = !i || events[i - 1].block != events[i].block;
        bool is_last = i + 1 == count || events[i + 1].block != events[i].block;
        uint32_t from = is_first && block->live_in == mark ? block->first : events[i].first;
        uint32_t to = is_last && block->live_out == mark ? block->end - 1 : events[i].last;
        if (!add_span(live, reg, from, to))
            return false;
    }
    return true;
}

static bool find_spans(struct liveness *live, int32_t reg)
{
    const struct event *events = &live->events[live->first_event[reg]];
    uint32_t count = live->first_event[reg + 1] - live->first_event[reg], mark = (uint32_t)reg + 1;
    live->touched_count = 0;
    walk_back(live, mark, events, count);
    for (uint32_t i = 0; i < live->touched_count; i++) { /* live all through */
        const struct emu_block *block = &live->flow->blocks[live->touched[i]];
        if (!add_span(live, reg, block->first, block->end - 1))
            return false;
    }
    return add_event_spans(live, reg, mark, events, count);
}

/* ---- Registers in flight: from wgmma.mma_async on to a wait, whichever way the code goes (PTX ISA 9.7.15.7) ---- */

static bool is_launch(const struct emu_instr *instr)
{
    return emu_starts_with(instr->text, "wgmma.mma_async");
}

/* A wait that leaves nothing in flight. One that leaves some groups is not enough to tell which. */
static bool is_full_wait(const struct emu_instr *instr)
{
    return emu_starts_with(instr->text, "wgmma.wait_group") && instr->guard < 0 && instr->operand_count == 1 &&
           instr->operands[0].kind == EMU_OP_IMM && instr->operands[0].imm == 0;
}

/* The matrices are in 32-bit registers; descriptors and the scale predicate are read when wgmma is issued. */
static bool add_matrix_spans(const struct liveness *live, const struct emu_row_use *uses, int count, uint32_t from,
                             uint32_t to)
{
    for (int i = 0; i < count; i++)
        if (uses[i].row_class == EMU_ROW32 && !add_span(live, uses[i].row, from, to))
            return false;
    return true;
}

/* In flight from pc on to the block's end or a full wait; *ended tells which. */
static bool fly(const struct liveness *live, const struct emu_instr *instr, uint32_t pc, bool *ended)
{
    const struct emu_flow *flow = live->flow;
    uint32_t to = pc, last = flow->blocks[flow->block_of[pc]].end - 1;
    while (to < last && !is_full_wait(&flow->kernel->instrs[to]))
        to++;
    *ended = is_full_wait(&flow->kernel->instrs[to]);
    return add_matrix_spans(live, instr->reads, instr->read_count, pc, to) &&
           add_matrix_spans(live, instr->writes, instr->write_count, pc, to);
}

static uint32_t push_next(struct emu_flow *flow, uint32_t number, uint32_t mark, uint32_t depth)
{
    for (int i = 0; i < 2; i++) {
        int32_t next = flow->blocks[number].next[i];
        if (next == EMU_NOWHERE || flow->blocks[next].walked == mark)
            continue;
        flow->blocks[next].walked = mark;
        flow->stack[depth++] = (uint32_t)next;
    }
    return depth;
}

static bool fly_from(struct liveness *live, uint32_t pc)
{
    struct emu_flow *flow = live->flow;
    const struct emu_instr *instr = &flow->kernel->instrs[pc];
    uint32_t depth = 0, mark = pc + 1;
    bool ended;
    if (!fly(live, instr, pc, &ended))
        return false;
    if (!ended)
        depth = push_next(flow, flow->block_of[pc], mark, depth);
    while (depth) {
        uint32_t number = flow->stack[--depth];
        if (!fly(live, instr, flow->blocks[number].first, &ended))
            return false;
        if (!ended)
            depth = push_next(flow, number, mark, depth);
    }
    return true;
}

bool emu_find_liveness(struct emu_flow *flow, size_t register_count, struct emu_live_span **spans)
{
    struct liveness live = {.flow = flow, .register_count = register_count, .spans = spans};
    live.touched = emu_arena_alloc(flow->arena, flow->block_count, sizeof *live.touched);
    if (!live.touched || !collect_events(&live))
        return false;
    for (size_t reg = 0; reg < register_count; reg++)
        if (!find_spans(&live, (int32_t)reg))
            return false;
    for (uint32_t pc = 0; pc < flow->kernel->instr_count; pc++)
        if (is_launch(&flow->kernel->instrs[pc]) && !fly_from(&live, pc))
            return false;
    return true;
}
