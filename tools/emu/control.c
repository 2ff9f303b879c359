/* Control flow: bra, ret, exit, trap, setmaxnreg and the like. PTX ISA 9.7.12, 9.7.19. */
#include "state.h"

/* ---- Groups ---- */

/* The group that runs is groups[0] of the warp while an instruction executes (schedule.c). */
static struct emu_group *running(struct emu_warp *warp)
{
    return &warp->groups[0];
}

/* Splits off the lanes in `taken`, which go to `pc`; the rest goes on. */
static void branch(struct emu_warp *warp, uint32_t taken, uint32_t pc)
{
    struct emu_group *group = running(warp);
    const uint32_t rest = group->mask & ~taken;
    if (taken == 0) {
        group->pc++;
        return;
    }
    if (rest != 0) {
        struct emu_group *other = &warp->groups[warp->group_count++];
        *other = *group;
        other->mask = rest;
        other->pc = group->pc + 1;
    }
    group->mask = taken;
    group->pc = pc;
}

static enum emu_action exec_bra(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    branch(warp, mask, (uint32_t)instr->operands[0].imm);
    return EMU_BRANCH;
}

static enum emu_action exec_bra_uni(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (mask != 0 && mask != running(warp)->mask)
        return emu_fault(warp, instr, -1, EMU_DIVERGENT, "bra.uni is taken by lanes 0x%08x of 0x%08x", mask,
                         running(warp)->mask);
    return exec_bra(warp, instr, mask);
}

static enum emu_action exec_exit(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)instr;
    struct emu_group *group = running(warp);
    warp->live &= ~mask;
    group->mask &= ~mask;
    group->pc++;
    emu_lanes_exit(warp, mask);
    return EMU_BRANCH;
}

static enum emu_action exec_trap(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    return emu_fault(warp, instr, __builtin_ctz(mask), EMU_TRAP, "%s was executed", instr->text);
}

static enum emu_action exec_nothing(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)warp;
    (void)instr;
    (void)mask;
    return EMU_NEXT;
}

static enum emu_action exec_yield(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)warp;
    (void)instr;
    (void)mask;
    return EMU_YIELD;
}

/* ---- setmaxnreg: PTX ISA 9.7.19.5 ---- */

static enum emu_action bad_count(struct emu_warp *warp, const struct emu_instr *instr, uint32_t count)
{
    if (count < 24 || count > 256 || count % 8 != 0)
        return emu_fault(warp, instr, -1, EMU_BAD_REGISTERS, "%u registers: a multiple of 8 from 24 to 256 is needed",
                         count);
    if (instr->facts.mode ? count < warp->registers : count > warp->registers)
        return emu_fault(warp, instr, -1, EMU_BAD_REGISTERS, "%s to %u registers, but the warp has %u",
                         instr->facts.mode ? "inc" : "dec", count, warp->registers);
    return EMU_NEXT;
}

static enum emu_action exec_setmaxnreg(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const uint32_t count = (uint32_t)instr->operands[0].imm;
    struct emu_cta_sync *sync = warp->cta->sync;
    if (!emu_lanes_are_here(warp, mask, warp->live))
        return EMU_BLOCKED;
    if (bad_count(warp, instr, count) != EMU_NEXT)
        return EMU_FAULT;
    if (instr->facts.mode && count - warp->registers > sync->register_pool) {
        warp->wait = (struct emu_wait){EMU_WAIT_REGISTERS, count, 0, mask};
        return EMU_BLOCKED;
    }
    sync->register_pool += warp->registers; /* unsigned: goes below and comes back */
    sync->register_pool -= count;
    warp->registers = count;
    warp->sync->setmaxnreg_count++;
    warp->sync->setmaxnreg_last = instr->line;
    if (!instr->facts.mode)
        emu_wake(warp->cta->cluster, EMU_WAIT_REGISTERS);
    return EMU_NEXT;
}

/* ---- griddepcontrol: PTX ISA 9.7.13.13 ---- */

/* One launch runs after the other here, so there is nothing to wait for; but who has not waited is remembered, and what
 * it does to global memory reported (memory.c). */
static enum emu_action exec_grid_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)instr;
    warp->sync->grid_waited |= mask;
    emu_clocks_learn(&warp->sync->now, emu_agent_ahead(warp->sync->now), 1, true);
    return EMU_NEXT;
}

/* ---- Rows ---- */

static bool bind_bra(const struct emu_bind *bind)
{
    bind->instr->exec = bind->tokens[0][0] ? exec_bra_uni : exec_bra;
    bind->instr->guard_by_exec = false;
    return true;
}

static bool bind_exit(const struct emu_bind *bind)
{
    bind->instr->exec = exec_exit;
    return true;
}

static bool bind_trap(const struct emu_bind *bind)
{
    bind->instr->exec = exec_trap;
    return true;
}

static bool bind_nothing(const struct emu_bind *bind)
{
    bind->instr->exec = exec_nothing;
    return true;
}

static bool bind_nanosleep(const struct emu_bind *bind)
{
    bind->instr->exec = exec_yield;
    return true;
}

static bool bind_griddepcontrol(const struct emu_bind *bind)
{
    bind->instr->exec = bind->tokens[0][0] == 'w' ? exec_grid_wait : exec_nothing;
    return true;
}

static bool bind_setmaxnreg(const struct emu_bind *bind)
{
    bind->instr->exec = exec_setmaxnreg;
    bind->instr->facts.aligned = true;
    bind->instr->facts.mode = bind->tokens[0][0] == 'i'; /* inc */
    return true;
}

static const struct emu_row rows[] = {
    {"bra.{uni}", "l", bind_bra, "9.7.12.3"},
    {"ret.{uni}", "", bind_exit, "9.7.12.6: of an entry, as exit"},
    {"exit", "", bind_exit, "9.7.12.7"},
    {"trap", "", bind_trap, "9.7.19.4"},
    {"brkpt", "", bind_trap, "9.7.19.1"},
    {"nanosleep.u32", "s", bind_nanosleep, "9.7.19.2"},
    {"pmevent", "s", bind_nothing, "9.7.19.3"},
    {"setmaxnreg.[inc,dec].sync.aligned.u32", "s", bind_setmaxnreg, "9.7.19.5"},
    {"griddepcontrol.[launch_dependents,wait]", "", bind_griddepcontrol, "9.7.13.13"},
};
const struct emu_row_list emu_control_rows = {rows, sizeof(rows) / sizeof(rows[0])};
