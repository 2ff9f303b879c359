/* Barriers, fences, elect, and the rows of mbarrier and cp.async. PTX ISA 9.7.13, 9.7.9.25.3. */
#include <string.h>

#include "copy_ops.h"
#include "mbarrier_ops.h"
#include "sync_hooks.h"

static bool has(const struct emu_bind *bind, const char *token)
{
    for (int i = 0; i < bind->token_count; i++)
        if (strcmp(bind->tokens[i], token) == 0)
            return true;
    return false;
}

/* ---- bar, barrier: 9.7.13.1 ---- */

enum { BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR };

static uint32_t uniform32(struct emu_warp *warp, const struct emu_operand *operand, uint32_t mask)
{
    uint32_t spare[EMU_LANES];
    return emu_source32(warp, operand, spare)[__builtin_ctz(mask)];
}

static bool has_operand(const struct emu_instr *instr, int at)
{
    return at < instr->operand_count && instr->operands[at].kind != EMU_OP_NONE;
}

static bool barrier_operands(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask,
                             const struct emu_operand *which, const struct emu_operand *count, uint32_t *number,
                             uint32_t *threads)
{
    *number = uniform32(warp, which, mask);
    *threads = count ? uniform32(warp, count, mask) : (uint32_t)warp->cta->warp_count * EMU_LANES;
    if (*number < EMU_NAMED_BARRIERS && *threads != 0 && *threads % EMU_LANES == 0)
        return true;
    emu_fault(warp, instr, -1, EMU_BARRIER_MISUSE,
              "barrier %u for %u threads: there are barriers 0 to 15, threads are a multiple of 32", *number, *threads);
    return false;
}

/* bar.sync p, q; with an optional thread count that a predicate may follow (red). */
static enum emu_action exec_bar(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint32_t number, threads;
    if (instr->facts.aligned && !emu_lanes_are_here(warp, mask, warp->live))
        return EMU_BLOCKED;
    const struct emu_operand *count = has_operand(instr, 1) ? &instr->operands[1] : NULL;
    if (!barrier_operands(warp, instr, mask, &instr->operands[0], count, &number, &threads))
        return EMU_FAULT;
    return emu_named_barrier_arrive(warp, instr, mask, number, threads, instr->facts.mode != BAR_ARRIVE, 0);
}

static void store_red(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const int lane = __builtin_ctz(mask);
    if (instr->facts.mode == BAR_POPC) {
        emu_store32(warp, &instr->operands[0], warp->sync->red_true, mask);
        return;
    }
    const bool value =
        instr->facts.mode == BAR_AND ? warp->sync->red_false[lane] == 0 : warp->sync->red_true[lane] != 0;
    emu_store_pred(warp, &instr->operands[0], value ? EMU_ALL_LANES : 0, mask);
}

static enum emu_action exec_bar_red(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint32_t number, threads;
    const int last = instr->operand_count - 1;
    if (instr->facts.aligned && !emu_lanes_are_here(warp, mask, warp->live))
        return EMU_BLOCKED;
    if (!barrier_operands(warp, instr, mask, &instr->operands[1], last == 3 ? &instr->operands[2] : NULL, &number,
                          &threads))
        return EMU_FAULT;
    const uint32_t predicate = emu_source_pred(warp, &instr->operands[last]);
    const enum emu_action action = emu_named_barrier_arrive(warp, instr, mask, number, threads, true, predicate);
    if (action == EMU_NEXT)
        store_red(warp, instr, mask);
    return action;
}

static bool bind_bar(const struct emu_bind *bind)
{
    bind->instr->exec = exec_bar;
    bind->instr->facts.mode = has(bind, "arrive") ? BAR_ARRIVE : BAR_SYNC;
    /* bar is barrier.aligned */
    bind->instr->facts.aligned = has(bind, "aligned") || strncmp(bind->instr->text, "bar.", 4) == 0;
    if (bind->instr->facts.mode == BAR_ARRIVE && bind->instr->operand_count < 2) {
        strcpy(bind->why, "an arrival needs a thread count (ISA 9.7.13.1)");
        return false;
    }
    return true;
}

static bool bind_bar_red(const struct emu_bind *bind)
{
    bind_bar(bind);
    bind->instr->exec = exec_bar_red;
    bind->instr->facts.wide = true; /* a reduction: emu_named_barrier_arrive */
    bind->instr->facts.mode = has(bind, "popc") ? BAR_POPC : (has(bind, "and") ? BAR_AND : BAR_OR);
    return true;
}

/* ---- bar.warp.sync: 9.7.13.2 ---- */

static enum emu_action exec_warp_sync(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask);

/* Lanes that wait in a bar.warp.sync with the same mask: it need not be the same instruction (ISA 9.7.13.2). */
static uint32_t waiting_elsewhere(const struct emu_warp *warp, uint32_t wanted)
{
    uint32_t lanes = 0;
    for (int g = 1; g < warp->group_count; g++) {
        const struct emu_group *group = &warp->groups[g];
        if (group->blocked && group->wait.kind == EMU_WAIT_LANES && (group->wait.what & ~wanted) == 0 &&
            group->wait.what == (wanted & warp->live) &&
            warp->cta->launch->kernel->instrs[group->pc].exec == exec_warp_sync)
            lanes |= group->mask;
    }
    return lanes & wanted;
}

static enum emu_action exec_warp_sync(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const uint32_t wanted = uniform32(warp, &instr->operands[0], mask);
    if (mask & ~wanted)
        return emu_fault(warp, instr, __builtin_ctz(mask & ~wanted), EMU_DIVERGENT,
                         "lanes 0x%08x execute this, the member mask is 0x%08x", mask, wanted);
    if ((mask & ~warp->sync->warp_sync_done) == 0) {
        warp->sync->warp_sync_done &= ~mask;
        return EMU_NEXT;
    }
    const uint32_t elsewhere = waiting_elsewhere(warp, wanted);
    if (!emu_lanes_are_here(warp, mask | elsewhere, wanted)) {
        warp->wait.mask = mask;
        return EMU_BLOCKED;
    }
    warp->sync->warp_sync_done |= elsewhere;
    if (elsewhere)
        emu_wake(warp->cta->cluster, EMU_WAIT_LANES);
    return EMU_NEXT;
}

static bool bind_warp_sync(const struct emu_bind *bind)
{
    bind->instr->exec = exec_warp_sync;
    return true;
}

/* ---- barrier.cluster: 9.7.13.3 ---- */

static enum emu_action exec_cluster_arrive(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (instr->facts.aligned && !emu_lanes_are_here(warp, mask, warp->live))
        return EMU_BLOCKED;
    return emu_cluster_arrive(warp, instr, mask, instr->facts.mode);
}

static enum emu_action exec_cluster_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (instr->facts.aligned && !emu_lanes_are_here(warp, mask, warp->live))
        return EMU_BLOCKED;
    return emu_cluster_wait(warp, instr, mask);
}

static bool bind_cluster(const struct emu_bind *bind)
{
    bind->instr->exec = has(bind, "arrive") ? exec_cluster_arrive : exec_cluster_wait;
    bind->instr->facts.aligned = has(bind, "aligned");
    bind->instr->facts.mode = !has(bind, "relaxed");
    return true;
}

/* ---- Fences: 9.7.13.4 ---- */

static enum emu_action exec_fence_async(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)instr;
    (void)mask;
    emu_warp_fence(warp);
    return EMU_NEXT;
}

static enum emu_action exec_fence(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)mask;
    emu_sync_fence(warp, instr->facts.mode);
    if (instr->facts.mode & EMU_FENCE_RELEASE && (instr->facts.wide || warp->cta->cluster->cta_count == 1))
        emu_warp_fence_release(warp);
    return EMU_NEXT;
}

static enum emu_action exec_fence_inits(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)instr;
    (void)mask;
    emu_warp_fence_inits(warp);
    return EMU_NEXT;
}

static bool bind_fence_async(const struct emu_bind *bind)
{
    bind->instr->exec = exec_fence_async;
    return true;
}

static bool bind_fence_inits(const struct emu_bind *bind)
{
    bind->instr->exec = exec_fence_inits;
    return true;
}

static bool bind_fence(const struct emu_bind *bind)
{
    bind->instr->exec = exec_fence;
    bind->instr->facts.wide = !has(bind, "cta"); /* its scope holds the whole cluster */
    bind->instr->facts.mode = EMU_FENCE_RELEASE | EMU_FENCE_ACQUIRE;
    if (has(bind, "acquire"))
        bind->instr->facts.mode = EMU_FENCE_ACQUIRE;
    if (has(bind, "release"))
        bind->instr->facts.mode = EMU_FENCE_RELEASE;
    return true;
}

/* ---- elect.sync: 9.7.13.14. Which lane is deterministic by the ISA; here the lowest. ---- */

static enum emu_action exec_elect(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const uint32_t wanted = uniform32(warp, &instr->operands[1], mask);
    if (mask & ~wanted)
        return emu_fault(warp, instr, __builtin_ctz(mask & ~wanted), EMU_DIVERGENT,
                         "lanes 0x%08x execute this, the member mask is 0x%08x", mask, wanted);
    if (!emu_lanes_are_here(warp, mask, wanted))
        return EMU_BLOCKED;
    const struct emu_operand *pair = &instr->operands[0];
    const int leader = __builtin_ctz(mask);
    uint32_t values[EMU_LANES];
    for (int lane = 0; lane < EMU_LANES; lane++)
        values[lane] = (uint32_t)leader;
    if (pair->row >= 0) {
        const struct emu_operand number = {.kind = EMU_OP_REG, .bits = 32, .row = pair->row};
        emu_store32(warp, &number, values, mask);
    }
    const struct emu_operand predicate = {.kind = EMU_OP_PRED, .row = pair->row2};
    emu_store_pred(warp, &predicate, 1u << leader, mask);
    return EMU_NEXT;
}

static bool bind_elect(const struct emu_bind *bind)
{
    bind->instr->exec = exec_elect;
    return true;
}

/* ---- Rows ---- */

#define SPACE ".{shared,shared::cta}"
#define ANY_SPACE ".{shared,shared::cta,shared::cluster}"
#define SCOPE ".{cta,cluster}"

static const struct emu_row rows[] = {
    {"bar.{cta}.[sync,arrive]", "s?s", bind_bar, "9.7.13.1"},
    {"barrier.{cta}.[sync,arrive].{aligned}", "s?s", bind_bar, "9.7.13.1"},
    {"bar.{cta}.red.popc.u32", "dss?s", bind_bar_red, "9.7.13.1"},
    {"bar.{cta}.red.[and,or].pred", "dss?s", bind_bar_red, "9.7.13.1"},
    {"barrier.{cta}.red.popc.{aligned}.u32", "dss?s", bind_bar_red, "9.7.13.1"},
    {"barrier.{cta}.red.[and,or].{aligned}.pred", "dss?s", bind_bar_red, "9.7.13.1"},
    {"bar.warp.sync", "s", bind_warp_sync, "9.7.13.2"},
    {"barrier.cluster.arrive.{release,relaxed}.{aligned}", "", bind_cluster, "9.7.13.3"},
    {"barrier.cluster.wait.{acquire}.{aligned}", "", bind_cluster, "9.7.13.3"},
    {"membar.[cta,gl,sys]", "", bind_fence, "9.7.13.4"},
    {"fence.{sc,acq_rel,acquire,release}.[cta,cluster,gpu,sys]", "", bind_fence, "9.7.13.4"},
    {"fence.mbarrier_init.release.cluster", "", bind_fence_inits, "9.7.13.4"},
    {"fence.proxy.async.{global,shared::cta,shared::cluster}", "", bind_fence_async, "9.7.13.4"},
    {"fence.proxy.alias", "", bind_fence, "9.7.13.4"},
    {"elect.sync", "ds", bind_elect, "9.7.13.14"},

    {"mbarrier.init" SPACE ".b64", "ms", emu_bind_mbarrier_init, "9.7.13.15.9"},
    {"mbarrier.inval" SPACE ".b64", "m", emu_bind_mbarrier_inval, "9.7.13.15.10"},
    {"mbarrier.[expect_tx,complete_tx].{relaxed}" SCOPE ANY_SPACE ".b64", "ms", emu_bind_mbarrier_tx,
     "9.7.13.15.11, 12"},
    {"mbarrier.[arrive,arrive_drop].{expect_tx,noComplete}.{release,relaxed}" SCOPE ANY_SPACE ".b64", "dm?s",
     emu_bind_mbarrier_arrive, "9.7.13.15.13, 14"},
    {"mbarrier.[test_wait,try_wait].{parity}.{acquire,relaxed}" SCOPE SPACE ".b64", "dms?s", emu_bind_mbarrier_wait,
     "9.7.13.15.16"},
    {"mbarrier.pending_count.b64", "ds", emu_bind_mbarrier_pending, "9.7.13.15.17"},

    {"cp.async.[ca,cg].[shared,shared::cta].global.{L2::64B,L2::128B,L2::256B}", "mms?s", emu_bind_cp_async,
     "9.7.9.25.3.1"},
    {"cp.async.[ca,cg].[shared,shared::cta].global.L2::cache_hint.{L2::64B,L2::128B,L2::256B}", "mmss?s",
     emu_bind_cp_async_hint, "9.7.9.25.3.1"},
    {"cp.async.commit_group", "", emu_bind_cp_async_commit, "9.7.9.25.3.2"},
    {"cp.async.wait_group", "s", emu_bind_cp_async_wait, "9.7.9.25.3.3"},
    {"cp.async.wait_all", "", emu_bind_cp_async_wait_all, "9.7.9.25.3.3"},
    {"cp.async.mbarrier.arrive.{noinc}" SPACE ".b64", "m", emu_bind_cp_async_arrive, "9.7.13.15.15"},
};
const struct emu_row_list emu_sync_rows = {rows, sizeof(rows) / sizeof(rows[0])};
