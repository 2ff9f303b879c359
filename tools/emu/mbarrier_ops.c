/* mbarrier instructions. PTX ISA 9.7.13.15. */
#include "mbarrier_ops.h"

#include <string.h>

static enum emu_action outcome(const struct emu_warp *warp)
{
    return warp->cta->cluster->sync->fault ? EMU_FAULT : EMU_NEXT;
}

/* A 32-bit source in one lane; `otherwise` when the operand is not there. */
static uint32_t value32(struct emu_warp *warp, const struct emu_instr *instr, int at, int lane, uint32_t otherwise)
{
    uint32_t spare[EMU_LANES];
    if (at >= instr->operand_count || instr->operands[at].kind == EMU_OP_NONE)
        return otherwise;
    return emu_source32(warp, &instr->operands[at], spare)[lane];
}

static enum emu_action exec_init(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !emu_mbarrier_init(warp, instr, lane, emu_address(warp, &instr->operands[0], lane),
                                                   value32(warp, instr, 1, lane, 1)))
            return EMU_FAULT;
    return EMU_NEXT;
}

static enum emu_action exec_inval(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !emu_mbarrier_inval(warp, instr, lane, emu_address(warp, &instr->operands[0], lane)))
            return EMU_FAULT;
    return EMU_NEXT;
}

/* ---- Arrivals ---- */

enum { ARRIVE_PLAIN, ARRIVE_DROP, ARRIVE_EXPECT, ARRIVE_EXPECT_DROP };

/* The state is the phase before the arrival, and above it the arrivals that were pending: opaque to the kernel, so ours
 * to choose. */
static void store_state(struct emu_warp *warp, const struct emu_instr *instr, int lane, const struct emu_access *access,
                        uint64_t address)
{
    struct emu_cta *cta;
    uint64_t states[EMU_LANES] = {0};
    if (instr->operands[0].kind == EMU_OP_SINK)
        return;
    const struct emu_mbarrier *mbarrier =
        emu_mbarrier_at(warp, access, lane, (enum emu_space)instr->facts.space, address, &cta);
    if (mbarrier)
        states[lane] = mbarrier->phase | (uint64_t)(uint32_t)mbarrier->pending << 32;
    emu_store64(warp, &instr->operands[0], states, 1u << lane);
}

/* .noComplete must not complete the phase (ISA 9.7.13.15.13): reported. */
static bool would_complete(struct emu_warp *warp, const struct emu_access *access, int lane, enum emu_space space,
                           uint64_t address, uint32_t count)
{
    struct emu_cta *cta;
    const struct emu_mbarrier *mbarrier = emu_mbarrier_at(warp, access, lane, space, address, &cta);
    if (mbarrier && (int64_t)mbarrier->pending > (int64_t)count)
        return false;
    if (mbarrier)
        emu_fault(warp, access->instr, lane, EMU_BARRIER_MISUSE,
                  "an arrival with .noComplete for %u completes the phase: %d are pending", count, mbarrier->pending);
    return true;
}

static bool arrive_lane(struct emu_warp *warp, const struct emu_instr *instr, int lane, const struct emu_access *access,
                        const struct emu_clocks *clocks)
{
    const uint64_t address = emu_address(warp, &instr->operands[1], lane);
    const enum emu_space space = (enum emu_space)instr->facts.space;
    const int mode = instr->facts.mode;
    const bool expects = mode == ARRIVE_EXPECT || mode == ARRIVE_EXPECT_DROP;
    const uint32_t number = value32(warp, instr, 2, lane, 1);
    if (instr->facts.full && would_complete(warp, access, lane, space, address, number))
        return false;
    store_state(warp, instr, lane, access, address);
    if (expects && !emu_mbarrier_expect(warp, access, lane, space, address, number))
        return false;
    return emu_mbarrier_arrive(warp, access, lane, space, address, expects ? 1 : number,
                               mode == ARRIVE_DROP || mode == ARRIVE_EXPECT_DROP, clocks);
}

static enum emu_action exec_arrive(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const struct emu_access access = emu_access_of(warp, instr, true);
    struct emu_clocks *clocks = NULL;
    if (instr->facts.nan && warp->sync->fenced) /* .relaxed: what a fence before it has released */
        clocks = emu_clocks_share(warp->sync->fenced);
    if (!instr->facts.nan) { /* .release: what this warp knows goes along */
        clocks = emu_clocks_share(warp->sync->now);
        struct emu_clocks *kept = emu_clocks_share(clocks);
        emu_warp_release(warp, &kept);
        emu_clocks_release(kept);
    }
    bool fine = true;
    for (int lane = 0; fine && lane < EMU_LANES; lane++)
        if (mask >> lane & 1)
            fine = arrive_lane(warp, instr, lane, &access, clocks);
    emu_clocks_release(clocks);
    return fine ? outcome(warp) : EMU_FAULT;
}

static enum emu_action exec_tx(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const struct emu_access access = emu_access_of(warp, instr, true);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        const int64_t bytes = value32(warp, instr, 1, lane, 0);
        if (mask >> lane & 1 &&
            !emu_mbarrier_expect(warp, &access, lane, (enum emu_space)instr->facts.space,
                                 emu_address(warp, &instr->operands[0], lane), instr->facts.mode ? -bytes : bytes))
            return EMU_FAULT;
    }
    return outcome(warp);
}

/* ---- Waits ---- */

static bool is_complete(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                        const struct emu_mbarrier *mbarrier)
{
    if (instr->facts.mode) /* parity */
        return (mbarrier->phase & 1) != (value32(warp, instr, 2, lane, 0) & 1);
    uint64_t spare[EMU_LANES];
    return mbarrier->phase != (uint32_t)emu_source64(warp, &instr->operands[2], spare)[lane];
}

static uint64_t generic_address(const struct emu_cta *cta, const struct emu_mbarrier *mbarrier)
{
    return emu_shared_window() + ((uint64_t)cta->rank << EMU_RANK_SHIFT) + mbarrier->offset;
}

/* try_wait gives up after a time that is the system's to choose (ISA 9.7.13.15.16): in the mixed schedules now and
 * then, in all when nothing else can happen (schedule.c). */
static bool gives_up(struct emu_warp *warp)
{
    struct emu_cluster *cluster = warp->cta->cluster;
    if (warp->sync->time_is_up) {
        warp->sync->time_is_up = false;
        return true;
    }
    return warp->cta->options->schedule >= EMU_RANDOM && emu_random(&cluster->random) % 16 == 0;
}

/* Lanes whose phase is complete. try_wait blocks while none's is. */
static enum emu_action exec_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const struct emu_access access = emu_access_of(warp, instr, true);
    struct emu_wait wait = {0};
    uint32_t complete = 0;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        struct emu_cta *cta;
        struct emu_mbarrier *mbarrier = emu_mbarrier_at(warp, &access, lane, (enum emu_space)instr->facts.space,
                                                        emu_address(warp, &instr->operands[1], lane), &cta);
        if (!mbarrier)
            return EMU_FAULT;
        if (is_complete(warp, instr, lane, mbarrier)) {
            complete |= 1u << lane;
            emu_mbarrier_seen(mbarrier);
            if (mbarrier->completed && !instr->facts.nan) /* .acquire */
                emu_warp_acquire(warp, mbarrier->completed);
        } else
            wait = (struct emu_wait){EMU_WAIT_MBARRIER, generic_address(cta, mbarrier), (mbarrier->phase & 1), mask};
    }
    if (complete == 0 && instr->facts.full && !gives_up(warp)) { /* try_wait */
        warp->wait = wait;
        return EMU_BLOCKED;
    }
    emu_store_pred(warp, &instr->operands[0], complete, mask);
    if (complete != mask)
        warp->wait = wait; /* for who asks what a polling warp is after */
    return complete == mask ? EMU_NEXT : EMU_YIELD;
}

static enum emu_action exec_pending(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    uint64_t spare[EMU_LANES];
    const uint64_t *states = emu_source64(warp, &instr->operands[1], spare);
    uint32_t counts[EMU_LANES];
    for (int lane = 0; lane < EMU_LANES; lane++)
        counts[lane] = (uint32_t)(states[lane] >> 32);
    emu_store32(warp, &instr->operands[0], counts, mask);
    return EMU_NEXT;
}

/* ---- Rows ---- */

/* The space of ".{shared,shared::cta,shared::cluster}": a token; absent: generic. */
static uint8_t space_of(const char *token)
{
    if (token[0] == 0)
        return EMU_GENERIC;
    return strcmp(token, "shared::cluster") == 0 ? EMU_SHARED_CLUSTER : EMU_SHARED_CTA;
}

static bool has(const struct emu_bind *bind, const char *token)
{
    for (int i = 0; i < bind->token_count; i++)
        if (strcmp(bind->tokens[i], token) == 0)
            return true;
    return false;
}

static void bind_common(const struct emu_bind *bind, emu_exec_fn exec)
{
    bind->instr->exec = exec;
    bind->instr->facts.space = EMU_GENERIC;
    for (int i = 0; i < bind->token_count; i++)
        if (strncmp(bind->tokens[i], "shared", 6) == 0)
            bind->instr->facts.space = space_of(bind->tokens[i]);
    bind->instr->facts.nan = has(bind, "relaxed");
}

bool emu_bind_mbarrier_init(const struct emu_bind *bind)
{
    bind_common(bind, exec_init);
    return true;
}

bool emu_bind_mbarrier_inval(const struct emu_bind *bind)
{
    bind_common(bind, exec_inval);
    return true;
}

bool emu_bind_mbarrier_arrive(const struct emu_bind *bind)
{
    const bool drop = strcmp(bind->tokens[0], "arrive_drop") == 0;
    bind_common(bind, exec_arrive);
    bind->instr->facts.full = has(bind, "noComplete");
    if (has(bind, "expect_tx"))
        bind->instr->facts.mode = drop ? ARRIVE_EXPECT_DROP : ARRIVE_EXPECT;
    else
        bind->instr->facts.mode = drop ? ARRIVE_DROP : ARRIVE_PLAIN;
    return true;
}

bool emu_bind_mbarrier_tx(const struct emu_bind *bind)
{
    bind_common(bind, exec_tx);
    bind->instr->facts.mode = strcmp(bind->tokens[0], "complete_tx") == 0;
    return true;
}

bool emu_bind_mbarrier_wait(const struct emu_bind *bind)
{
    bind_common(bind, exec_wait);
    bind->instr->facts.mode = has(bind, "parity");
    bind->instr->facts.full = strcmp(bind->tokens[0], "try_wait") == 0;
    return true;
}

bool emu_bind_mbarrier_pending(const struct emu_bind *bind)
{
    bind_common(bind, exec_pending);
    return true;
}
