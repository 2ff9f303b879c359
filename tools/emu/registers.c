/* Sources and destinations: rows of registers, immediates, special registers, addresses. */
#include <string.h>

#include "state.h"

static void fill32(uint32_t spare[EMU_LANES], uint32_t value)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        spare[lane] = value;
}

const uint32_t *emu_source32(struct emu_warp *warp, const struct emu_operand *operand, uint32_t spare[EMU_LANES])
{
    switch (operand->kind) {
    case EMU_OP_REG:
        if (operand->bits != 64)
            return emu_row32(warp, operand->row);
        for (int lane = 0; lane < EMU_LANES; lane++)
            spare[lane] = (uint32_t)emu_row64(warp, operand->row)[lane];
        return spare;
    case EMU_OP_SPECIAL:
        for (int lane = 0; lane < EMU_LANES; lane++)
            spare[lane] = (uint32_t)emu_special(warp, (enum emu_special)operand->imm, lane);
        return spare;
    default:
        fill32(spare, (uint32_t)operand->imm);
        return spare;
    }
}

const uint64_t *emu_source64(struct emu_warp *warp, const struct emu_operand *operand, uint64_t spare[EMU_LANES])
{
    if (operand->kind == EMU_OP_REG && operand->bits == 64)
        return emu_row64(warp, operand->row);
    for (int lane = 0; lane < EMU_LANES; lane++)
        switch (operand->kind) {
        case EMU_OP_REG:
            spare[lane] = emu_row32(warp, operand->row)[lane];
            break;
        case EMU_OP_SPECIAL:
            spare[lane] = emu_special(warp, (enum emu_special)operand->imm, lane);
            break;
        default:
            spare[lane] = (uint64_t)operand->imm;
        }
    return spare;
}

uint32_t emu_source_pred(const struct emu_warp *warp, const struct emu_operand *operand)
{
    const uint32_t value =
        operand->kind == EMU_OP_PRED ? warp->preds[operand->row] : (operand->imm ? EMU_ALL_LANES : 0);
    return operand->negated ? ~value : value;
}

void emu_store32(struct emu_warp *warp, const struct emu_operand *operand, const uint32_t *values, uint32_t mask)
{
    if (operand->kind == EMU_OP_SINK)
        return;
    if (operand->bits == 64) { /* a narrow result into a wide register: zero-extended */
        for (int lane = 0; lane < EMU_LANES; lane++)
            if (mask >> lane & 1)
                emu_row64(warp, operand->row)[lane] = values[lane];
        return;
    }
    uint32_t *row = emu_row32(warp, operand->row);
    if (mask == EMU_ALL_LANES) {
        memmove(row, values, EMU_LANES * sizeof(*row));
        return;
    }
    for (int lane = 0; lane < EMU_LANES; lane++)
        row[lane] = mask >> lane & 1 ? values[lane] : row[lane];
}

void emu_store64(struct emu_warp *warp, const struct emu_operand *operand, const uint64_t *values, uint32_t mask)
{
    if (operand->kind == EMU_OP_SINK)
        return;
    uint64_t *row = emu_row64(warp, operand->row);
    if (mask == EMU_ALL_LANES) {
        memmove(row, values, EMU_LANES * sizeof(*row));
        return;
    }
    for (int lane = 0; lane < EMU_LANES; lane++)
        row[lane] = mask >> lane & 1 ? values[lane] : row[lane];
}

void emu_store_pred(struct emu_warp *warp, const struct emu_operand *operand, uint32_t values, uint32_t mask)
{
    if (operand->kind == EMU_OP_SINK || operand->row < 0)
        return;
    uint32_t *row = &warp->preds[operand->row];
    *row = (*row & ~mask) | (values & mask);
}

/* ---- Special registers: PTX ISA 10 ---- */

static uint32_t thread_number(const struct emu_warp *warp, int lane)
{
    return (uint32_t)(warp->index * EMU_LANES + lane);
}

static uint64_t lane_mask(enum emu_special special, int lane)
{
    const uint32_t bit = 1u << lane, below = bit - 1;
    switch (special) {
    case EMU_LANEMASK_EQ:
        return bit;
    case EMU_LANEMASK_LT:
        return below;
    case EMU_LANEMASK_LE:
        return below | bit;
    case EMU_LANEMASK_GT:
        return ~(below | bit);
    default:
        return ~below;
    }
}

/* Component `at` of a block's place in its cluster, or of the cluster in the grid. */
static uint32_t in_cluster(const struct emu_cta *cta, int at)
{
    return cta->ctaid[at] % cta->launch->cluster[at];
}

static uint64_t cluster_special(const struct emu_cta *cta, enum emu_special special)
{
    const struct emu_launch *launch = cta->launch;
    if (special >= EMU_CLUSTERID_X && special <= EMU_CLUSTERID_Z)
        return cta->ctaid[special - EMU_CLUSTERID_X] / launch->cluster[special - EMU_CLUSTERID_X];
    if (special >= EMU_NCLUSTERID_X && special <= EMU_NCLUSTERID_Z)
        return launch->grid[special - EMU_NCLUSTERID_X] / launch->cluster[special - EMU_NCLUSTERID_X];
    if (special >= EMU_CLUSTER_CTAID_X && special <= EMU_CLUSTER_CTAID_Z)
        return in_cluster(cta, (int)special - EMU_CLUSTER_CTAID_X);
    if (special >= EMU_CLUSTER_NCTAID_X && special <= EMU_CLUSTER_NCTAID_Z)
        return launch->cluster[special - EMU_CLUSTER_NCTAID_X];
    if (special == EMU_CLUSTER_CTARANK)
        return cta->rank;
    if (special == EMU_CLUSTER_NCTARANK)
        return (uint64_t)cta->cluster->cta_count;
    return launch->kernel->explicit_cluster || cta->cluster->cta_count > 1;
}

uint64_t emu_special(const struct emu_warp *warp, enum emu_special special, int lane)
{
    const struct emu_cta *cta = warp->cta;
    const struct emu_launch *launch = cta->launch;
    const uint32_t thread = thread_number(warp, lane);
    if (special >= EMU_CLUSTERID_X && special <= EMU_IS_EXPLICIT_CLUSTER)
        return cluster_special(cta, special);
    switch (special) {
    case EMU_TID_X:
        return thread % launch->block[0];
    case EMU_TID_Y:
        return thread / launch->block[0] % launch->block[1];
    case EMU_TID_Z:
        return thread / launch->block[0] / launch->block[1];
    case EMU_NTID_X:
    case EMU_NTID_Y:
    case EMU_NTID_Z:
        return launch->block[special - EMU_NTID_X];
    case EMU_CTAID_X:
    case EMU_CTAID_Y:
    case EMU_CTAID_Z:
        return cta->ctaid[special - EMU_CTAID_X];
    case EMU_NCTAID_X:
    case EMU_NCTAID_Y:
    case EMU_NCTAID_Z:
        return launch->grid[special - EMU_NCTAID_X];
    case EMU_LANEID:
        return (uint64_t)lane;
    case EMU_WARPID:
        return (uint64_t)warp->index;
    case EMU_NWARPID:
        return (uint64_t)cta->warp_count;
    case EMU_SMID:
        return cta->cluster->sync->number % (uint64_t)launch->sm_count;
    case EMU_NSMID:
        return (uint64_t)launch->sm_count;
    case EMU_LANEMASK_EQ:
    case EMU_LANEMASK_LT:
    case EMU_LANEMASK_LE:
    case EMU_LANEMASK_GT:
    case EMU_LANEMASK_GE:
        return lane_mask(special, lane);
    case EMU_CLOCK:
    case EMU_CLOCK64:
    case EMU_GLOBALTIMER: /* virtual time: one tick a warp instruction */
        return warp->instr_executed;
    case EMU_CLOCK_HI:
        return warp->instr_executed >> 32;
    case EMU_DYNAMIC_SMEM_SIZE:
        return launch->shared_bytes;
    case EMU_TOTAL_SMEM_SIZE:
        return cta->shared.size;
    default:
        return 0;
    }
}

uint64_t emu_address(struct emu_warp *warp, const struct emu_operand *operand, int lane)
{
    if (operand->row < 0) { /* a shared variable by name: the block's own */
        const bool shared = operand->space == EMU_SHARED_CTA || operand->space == EMU_SHARED_CLUSTER;
        return (uint64_t)operand->imm | (shared ? (uint64_t)warp->cta->rank << EMU_RANK_SHIFT : 0);
    }
    const uint64_t base =
        operand->bits == 64 ? emu_row64(warp, operand->row)[lane] : emu_row32(warp, operand->row)[lane];
    /* A 32-bit base wraps at 32 bits: it is an address of the shared window. */
    return operand->bits == 64 ? base + (uint64_t)operand->imm : (uint32_t)(base + (uint64_t)operand->imm);
}
