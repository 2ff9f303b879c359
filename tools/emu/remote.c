/* st.async and red.async: single values to a block's shared memory, completing on its mbarrier
 * (ISA 9.7.9.12, 9.7.13.7). Performed in the generic proxy. */
#include "tensor.h"

#include <string.h>

enum { DATA_OFFSET, DATA_RANK, DATA_SIZE, DATA_VALUE }; /* of op->data; two words of value */

static bool apply_remote(struct emu_async *op, int piece)
{
    (void)piece;
    const struct emu_instr *instr = op->instr;
    const enum emu_reduction reduction = (enum emu_reduction)instr->facts.mode;
    const uint32_t size = (uint32_t)op->data[DATA_SIZE];
    struct emu_cta *cta = &op->warp->cta->cluster->ctas[op->data[DATA_RANK]];
    const int touch = reduction == EMU_R_NONE ? EMU_WRITE : EMU_READ | EMU_WRITE;
    uint8_t *to = emu_touch_shared(cta, &op->access, op->lane, (uint32_t)op->data[DATA_OFFSET], size, touch);
    if (!to)
        return false;
    if (reduction == EMU_R_NONE)
        memcpy(to, &op->data[DATA_VALUE], size);
    else
        emu_reduce(reduction, (enum emu_type)instr->type, false, to, (const uint8_t *)&op->data[DATA_VALUE], size);
    return true;
}

/* The lane's value: all elements of a vector, one behind the other. Returns its size. */
static uint32_t read_value(struct emu_warp *warp, const struct emu_instr *instr, int lane, uint8_t value[16])
{
    const uint32_t bytes = (uint32_t)emu_type_bits((enum emu_type)instr->type) / 8;
    int count = 0;
    const struct emu_operand *elements = emu_vector_elements(emu_pool(warp), &instr->operands[1], &count);
    for (int i = 0; i < count; i++) {
        uint64_t spare[EMU_LANES];
        memcpy(value + (uint32_t)i * bytes, &emu_source64(warp, &elements[i], spare)[lane], bytes);
    }
    return bytes * (uint32_t)count;
}

/* A reduction goes to another block; a store to any of a cluster of more than one. */
static bool target_allowed(struct emu_warp *warp, const struct emu_instr *instr, int lane,
                           const struct emu_destination *to)
{
    const bool reduces = instr->facts.mode != EMU_R_NONE;
    if (warp->cta->cluster->cta_count > 1 && !(reduces && to->cta == warp->cta))
        return true;
    emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "%s",
              reduces ? "red.async must go to another block of the cluster (ISA 9.7.13.7)"
                      : "st.async needs a cluster of more than one block (ISA 9.7.9.12)");
    return false;
}

static bool issue(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    uint8_t value[16] = {0};
    struct emu_destination to;
    const uint32_t size = read_value(warp, instr, lane, value);
    if (!emu_destination_of(warp, instr, lane, (enum emu_space)instr->facts.space,
                            emu_address(warp, &instr->operands[0], lane), size,
                            emu_address(warp, &instr->operands[2], lane), &to) ||
        !target_allowed(warp, instr, lane, &to))
        return false;
    struct emu_async *op = emu_async_new(warp, instr, lane, EMU_ASYNC_REMOTE);
    if (!op)
        return false;
    op->piece_count = 1;
    op->apply = apply_remote;
    op->access.async_proxy = false;
    op->access.atomic = instr->facts.mode != EMU_R_NONE;
    op->data[DATA_OFFSET] = to.offset;
    op->data[DATA_RANK] = to.cta->rank;
    op->data[DATA_SIZE] = size;
    memcpy(&op->data[DATA_VALUE], value, sizeof(value));
    op->mbarrier = to.mbarrier;
    op->tx_bytes = size;
    emu_async_issue(op);
    return true;
}

static enum emu_action exec_remote(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !issue(warp, instr, lane))
            return EMU_FAULT;
    return EMU_NEXT;
}

static void bind_remote(struct emu_instr *instr)
{
    instr->type = (uint8_t)emu_type_find(strrchr(instr->text, '.') + 1);
    instr->facts.space = emu_opcode_has(instr, "shared::cluster") ? EMU_SHARED_CLUSTER : EMU_GENERIC;
    instr->exec = exec_remote;
}

bool emu_bind_st_async(const struct emu_bind *bind)
{
    static const char *const vectors[] = {"v2", "v4", NULL};
    struct emu_instr *instr = bind->instr;
    bind_remote(instr);
    instr->facts.mode = EMU_R_NONE;
    int count = 0;
    emu_vector_elements(bind->pool, &instr->operands[1], &count);
    const int at = emu_opcode_find(instr, vectors), expected = at < 0 ? 1 : 2 << at;
    if (count != expected)
        return emu_tensor_refuse(bind, "%d values where %d belong", count, expected);
    if (count * emu_type_bits((enum emu_type)instr->type) > 128)
        return emu_tensor_refuse(bind, "more than 16 bytes (ISA 9.7.9.12)");
    return true;
}

bool emu_bind_red_async(const struct emu_bind *bind)
{
    struct emu_instr *instr = bind->instr;
    bind_remote(instr);
    const enum emu_reduction reduction = emu_reduction_of(instr);
    const enum emu_type type = (enum emu_type)instr->type;
    instr->facts.mode = (uint8_t)reduction;
    if (!emu_reduction_allowed(reduction, type) || (type == EMU_U64 && reduction != EMU_R_ADD))
        return emu_tensor_refuse(bind, "not a reduction of this type (ISA 9.7.13.7)");
    return true;
}
