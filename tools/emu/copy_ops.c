/* cp.async: copies of 4, 8 or 16 bytes a lane into shared memory, and their completion. PTX ISA 9.7.9.25.3. */
#include "copy_ops.h"

#include <stdlib.h>
#include <string.h>

struct copies {
    uint64_t source[EMU_LANES];
    uint64_t destination[EMU_LANES];
    uint8_t source_bytes[EMU_LANES];
    uint8_t bytes;
    uint32_t mask;
};

/* One lane's copy; what is past source_bytes is zero and not read. */
static bool copy_lane(struct emu_async *op, int lane)
{
    const struct copies *copies = op->extra;
    if (!(copies->mask >> lane & 1))
        return true;
    uint8_t bytes[16] = {0};
    const size_t from = copies->source_bytes[lane];
    if (from > 0) {
        const uint8_t *source =
            emu_touch(op->warp, &op->access, lane, EMU_GLOBAL, copies->source[lane], from, copies->bytes, EMU_READ);
        if (!source)
            return false;
        memcpy(bytes, source, from);
    }
    uint8_t *destination = emu_touch(op->warp, &op->access, lane, EMU_SHARED_CTA, copies->destination[lane],
                                     copies->bytes, copies->bytes, EMU_WRITE);
    if (destination)
        memcpy(destination, bytes, copies->bytes);
    return destination != NULL;
}

/* The optional operand is src-size, or with .ignore-src a predicate. */
static uint8_t source_bytes(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    const uint8_t all = (uint8_t)instr->operands[2].imm;
    if (instr->operand_count < 4 || instr->operands[3].kind == EMU_OP_NONE || instr->facts.mode == 1)
        return all;
    const struct emu_operand *operand = &instr->operands[3];
    if (operand->kind == EMU_OP_PRED)
        return emu_source_pred(warp, operand) >> lane & 1 ? 0 : all;
    uint32_t spare[EMU_LANES];
    const uint32_t size = emu_source32(warp, operand, spare)[lane];
    return size > all ? all + 1 : (uint8_t)size;
}

/* The lanes in `mask` are filling the same group. */
static bool issue_copies(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct emu_async *op = emu_async_new(warp, instr, -1, EMU_ASYNC_CP);
    struct copies *copies = op ? malloc(sizeof(*copies)) : NULL;
    if (!copies) {
        if (op)
            emu_async_discard(op);
        return false;
    }
    op->extra = copies;
    op->lanes = copies->mask = mask;
    copies->bytes = (uint8_t)instr->operands[2].imm;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        copies->destination[lane] = emu_address(warp, &instr->operands[0], lane);
        copies->source[lane] = emu_address(warp, &instr->operands[1], lane);
        copies->source_bytes[lane] = source_bytes(warp, instr, lane);
        if (copies->source_bytes[lane] > copies->bytes) {
            emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "src-size is larger than cp-size %d", copies->bytes);
            emu_async_discard(op);
            return false;
        }
    }
    op->piece_count = EMU_LANES;
    op->apply = copy_lane;
    emu_async_issue(op);
    return !warp->cta->cluster->sync->fault;
}

/* The lanes of `mask` that fill the same group as its first: those that have parted may have committed apart. */
static uint32_t same_group(const struct emu_warp *warp, uint32_t mask)
{
    const uint32_t group = emu_async_group(warp, EMU_ASYNC_CP, __builtin_ctz(mask));
    uint32_t same = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1)
        if (emu_async_group(warp, EMU_ASYNC_CP, __builtin_ctz(left)) == group)
            same |= left & -left;
    return same;
}

static enum emu_action exec_cp_async(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    while (mask != 0) {
        const uint32_t same = same_group(warp, mask);
        if (!issue_copies(warp, instr, same))
            return EMU_FAULT;
        mask &= ~same;
    }
    return EMU_NEXT;
}

static enum emu_action exec_commit(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)instr;
    emu_async_commit(warp, EMU_ASYNC_CP, mask);
    return EMU_NEXT;
}

static enum emu_action exec_wait(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    const uint64_t pending = instr->facts.mode ? UINT64_MAX : (uint64_t)instr->operands[0].imm;
    emu_async_wait(warp, EMU_ASYNC_CP, mask, pending, false);
    return warp->cta->cluster->sync->fault ? EMU_FAULT : EMU_NEXT;
}

/* ---- cp.async.mbarrier.arrive: 9.7.13.15.15 ---- */

/* Comes after the queue's earlier copies; brings what the warp knew at the instruction, and those copies. */
static bool arrive_lanes(struct emu_async *op, int piece)
{
    (void)piece;
    struct emu_clocks *clocks = emu_clocks_share(op->access.clocks);
    const bool visible = !(op->warp->cta->options->checks & EMU_CHECK_PROXY_CP_ASYNC);
    emu_clocks_learn(&clocks, op->access.agent, op->access.epoch, visible);
    bool fine = true;
    const uint32_t mask = (uint32_t)op->data[0];
    const uint64_t *addresses = op->extra;
    for (int lane = 0; fine && lane < EMU_LANES; lane++)
        if (mask >> lane & 1)
            fine = emu_mbarrier_arrive(op->warp, &op->access, lane, (enum emu_space)op->instr->facts.space,
                                       addresses[lane], 1, false, clocks);
    emu_clocks_release(clocks);
    return fine;
}

static enum emu_action exec_mbarrier_arrive(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    struct emu_async *op = emu_async_new(warp, instr, -1, EMU_ASYNC_CP);
    uint64_t *addresses = op ? malloc(EMU_LANES * sizeof(*addresses)) : NULL;
    if (!addresses) {
        if (op)
            emu_async_discard(op);
        return EMU_FAULT;
    }
    op->extra = addresses;
    op->data[0] = mask;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        addresses[lane] = emu_address(warp, &instr->operands[0], lane);
        op->mbarrier = addresses[lane]; /* tx_bytes 0: only tells that this is an arrival */
        /* Without .noinc the pending count is raised first. */
        const struct emu_access access = emu_access_of(warp, instr, true);
        struct emu_cta *cta;
        struct emu_mbarrier *mbarrier =
            emu_mbarrier_at(warp, &access, lane, (enum emu_space)instr->facts.space, addresses[lane], &cta);
        if (!mbarrier) {
            emu_async_discard(op);
            return EMU_FAULT;
        }
        mbarrier->pending += instr->facts.mode ? 0 : 1;
    }
    op->apply = arrive_lanes;
    emu_async_issue(op);
    return warp->cta->cluster->sync->fault ? EMU_FAULT : EMU_NEXT;
}

/* ---- Rows ---- */

bool emu_bind_cp_async(const struct emu_bind *bind)
{
    const int64_t size = bind->instr->operands[2].imm;
    const bool cg = strcmp(bind->tokens[1], "cg") == 0;
    if (bind->instr->operands[2].kind != EMU_OP_IMM || (size != 16 && (cg || (size != 4 && size != 8)))) {
        strcpy(bind->why, "cp-size must be 16, or with .ca 4 or 8");
        return false;
    }
    bind->instr->exec = exec_cp_async;
    return true;
}

bool emu_bind_cp_async_hint(const struct emu_bind *bind)
{
    if (!emu_bind_cp_async(bind))
        return false;
    /* With three operands and a cache policy the last is the policy, not src-size. */
    bind->instr->facts.mode = bind->instr->operand_count == 4;
    return true;
}

bool emu_bind_cp_async_commit(const struct emu_bind *bind)
{
    bind->instr->exec = exec_commit;
    return true;
}

bool emu_bind_cp_async_wait(const struct emu_bind *bind)
{
    bind->instr->exec = exec_wait;
    bind->instr->facts.mode = 0;
    return true;
}

bool emu_bind_cp_async_wait_all(const struct emu_bind *bind)
{
    bind->instr->exec = exec_wait;
    bind->instr->facts.mode = 1;
    return true;
}

bool emu_bind_cp_async_arrive(const struct emu_bind *bind)
{
    bind->instr->exec = exec_mbarrier_arrive;
    bind->instr->facts.mode = bind->tokens[3][0] == 'n'; /* noinc */
    bind->instr->facts.space = bind->tokens[4][0] ? EMU_SHARED_CTA : EMU_GENERIC;
    return true;
}
