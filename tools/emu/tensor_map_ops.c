/* Tensor maps that a kernel makes or changes: tensormap.replace (ISA 9.7.9.26), tensormap.cp_fenceproxy (9.7.13.16) and
 * the proxy fences of tensor maps (9.7.13.4). A map stays marked as changed until a fence has acquired it; a copy that
 * uses a marked map is a fault (bulk_tensor.c). */
#include "tensor.h"
#include "tensor_map.h"

#include <string.h>

static uint8_t *touch_map(struct emu_warp *warp, const struct emu_instr *instr, int lane, enum emu_space space,
                          const struct emu_operand *operand, int touch)
{
    const struct emu_access access = emu_access_of(warp, instr, false);
    return emu_touch(warp, &access, lane, space, emu_address(warp, operand, lane), EMU_TENSOR_MAP_BYTES,
                     EMU_TENSOR_MAP_ALIGN, touch);
}

/* ---- tensormap.replace ---- */

/* facts.mode: the field; facts.space: where the map is. */
static bool replace(struct emu_warp *warp, const struct emu_instr *instr, int lane)
{
    const bool has_ordinal = instr->operand_count == 3;
    const struct emu_operand *value = &instr->operands[instr->operand_count - 1];
    uint8_t *map =
        touch_map(warp, instr, lane, (enum emu_space)instr->facts.space, &instr->operands[0], EMU_READ | EMU_WRITE);
    if (!map)
        return false;
    uint32_t spare[EMU_LANES];
    uint64_t spare64[EMU_LANES];
    const uint64_t number = emu_opcode_has(instr, "b64") ? emu_source64(warp, value, spare64)[lane]
                                                         : emu_source32(warp, value, spare)[lane];
    const char *why = emu_tensor_map_replace(map, (enum emu_map_field)instr->facts.mode,
                                             has_ordinal ? (uint32_t)instr->operands[1].imm : 0, number);
    if (why)
        emu_fault(warp, instr, lane, EMU_BAD_OPERAND, "%s", why);
    return !why;
}

static enum emu_action exec_replace(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES; lane++)
        if (mask >> lane & 1 && !replace(warp, instr, lane))
            return EMU_FAULT;
    return EMU_NEXT;
}

bool emu_bind_map_replace(const struct emu_bind *bind)
{
    static const char *const fields[] = {"global_address", "rank",           "box_dim",  "global_dim",
                                         "global_stride",  "element_stride", "elemtype", "interleave_layout",
                                         "swizzle_mode",   "fill_mode",      NULL};
    struct emu_instr *instr = bind->instr;
    const int field = emu_opcode_find(instr, fields);
    const bool wide = field == EMU_FIELD_ADDRESS || field == EMU_FIELD_STRIDE;
    const bool ordinal = field >= EMU_FIELD_BOX && field <= EMU_FIELD_STEP;
    if (emu_opcode_has(instr, "b64") != wide)
        return emu_tensor_refuse(bind, "the type of .%s must be .%s", fields[field], wide ? "b64" : "b32");
    if (instr->operand_count != 2 + ordinal)
        return emu_tensor_refuse(bind, "%d operands where %d belong", instr->operand_count, 2 + ordinal);
    if (ordinal && instr->operands[1].kind != EMU_OP_IMM)
        return emu_tensor_refuse(bind, "the ordinal must be a constant");
    if (field >= EMU_FIELD_TYPE && instr->operands[1].kind != EMU_OP_IMM)
        return emu_tensor_refuse(bind, "the new value of .%s must be a constant", fields[field]);
    instr->facts.mode = (uint8_t)field;
    instr->facts.space = emu_opcode_has(instr, "shared::cta") ? EMU_SHARED_CTA : EMU_GLOBAL;
    instr->exec = exec_replace;
    return true;
}

/* ---- tensormap.cp_fenceproxy ---- */

static enum emu_action exec_copy(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    if (!emu_whole_warp(warp, instr, mask))
        return EMU_FAULT;
    const uint8_t *from = touch_map(warp, instr, 0, EMU_SHARED_CTA, &instr->operands[1], EMU_READ);
    uint8_t *to = from ? touch_map(warp, instr, 0, EMU_GLOBAL, &instr->operands[0], EMU_WRITE) : NULL;
    if (!to)
        return EMU_FAULT;
    memcpy(to, from, EMU_TENSOR_MAP_BYTES);
    return EMU_NEXT;
}

static bool is_map_size(const struct emu_operand *operand)
{
    return operand->kind == EMU_OP_IMM && operand->imm == EMU_TENSOR_MAP_BYTES;
}

bool emu_bind_map_copy(const struct emu_bind *bind)
{
    if (!is_map_size(&bind->instr->operands[2]))
        return emu_tensor_refuse(bind, "the size must be the constant 128");
    bind->instr->facts.aligned = true;
    bind->instr->exec = exec_copy;
    return true;
}

/* ---- fence.proxy.tensormap ---- */

/* Acquiring writes nothing that a kernel can read. */
static enum emu_action exec_acquire(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    for (int lane = 0; lane < EMU_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        uint8_t *map = touch_map(warp, instr, lane, EMU_GENERIC, &instr->operands[0], EMU_READ);
        if (!map)
            return EMU_FAULT;
        emu_tensor_map_acquire(map);
    }
    return EMU_NEXT;
}

static enum emu_action exec_release(struct emu_warp *warp, const struct emu_instr *instr, uint32_t mask)
{
    (void)warp;
    (void)instr;
    (void)mask;
    return EMU_NEXT;
}

bool emu_bind_map_fence(const struct emu_bind *bind)
{
    const bool acquire = emu_opcode_has(bind->instr, "acquire");
    if (bind->instr->operand_count != (acquire ? 2 : 0))
        return emu_tensor_refuse(bind, "acquire has an address and a size, release has neither");
    if (acquire && !is_map_size(&bind->instr->operands[1]))
        return emu_tensor_refuse(bind, "the size must be the constant 128");
    bind->instr->exec = acquire ? exec_acquire : exec_release;
    return true;
}
