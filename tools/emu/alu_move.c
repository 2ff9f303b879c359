/* mov: registers, constants, special registers, addresses of variables, and vectors packed and unpacked (PTX ISA
 * 9.7.9.3, 9.7.9.4). */
#include "alu.h"

ALU_EXEC(mov_pred)
{
    emu_store_pred(warp, &instr->operands[0], emu_source_pred(warp, &instr->operands[1]), mask);
    return EMU_NEXT;
}

ALU_EXEC(mov_16)
{
    uint32_t spare[EMU_LANES], values[EMU_LANES];
    const uint32_t *row = emu_source32(warp, &instr->operands[1], spare);
    ALU_EACH_LANE(i) values[i] = row[i] & 0xffff;
    emu_store32(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

ALU_EXEC(mov_32)
{
    uint32_t spare[EMU_LANES];
    emu_store32(warp, &instr->operands[0], emu_source32(warp, &instr->operands[1], spare), mask);
    return EMU_NEXT;
}

ALU_EXEC(mov_64)
{
    uint64_t spare[EMU_LANES];
    emu_store64(warp, &instr->operands[0], emu_source64(warp, &instr->operands[1], spare), mask);
    return EMU_NEXT;
}

/* A shared variable's address is the block's own: its rank in the cluster is part of it (EMU_RANK_SHIFT). */
ALU_EXEC(mov_shared)
{
    uint64_t values[EMU_LANES];
    ALU_EACH_LANE(i)
    values[i] = (uint64_t)instr->operands[1].imm + ((uint64_t)warp->cta->rank << EMU_RANK_SHIFT);
    alu_store_any(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

static bool is_shared_variable(const struct emu_operand *operand)
{
    return operand->kind == EMU_OP_SYMBOL && (operand->space == EMU_SHARED_CTA || operand->space == EMU_SHARED_CLUSTER);
}

static uint64_t low_bits(uint64_t value, int bits)
{
    return bits == 64 ? value : value & ((1ull << bits) - 1);
}

static const struct emu_operand *elements_of(struct emu_warp *warp, const struct emu_operand *vector)
{
    return warp->cta->launch->kernel->pool + vector->first;
}

/* The first element is the lowest. */
ALU_EXEC(pack)
{
    const struct emu_operand *vector = &instr->operands[1], *elements = elements_of(warp, vector);
    const int bits = emu_type_bits((enum emu_type)instr->type) / vector->count;
    uint64_t values[EMU_LANES] = {0}, element[EMU_LANES];
    for (int k = 0; k < vector->count; k++) {
        alu_read64(warp, &elements[k], element);
        ALU_EACH_LANE(i) values[i] |= low_bits(element[i], bits) << (k * bits);
    }
    alu_store_any(warp, &instr->operands[0], values, mask);
    return EMU_NEXT;
}

ALU_EXEC(unpack)
{
    const struct emu_operand *vector = &instr->operands[0], *elements = elements_of(warp, vector);
    const int bits = emu_type_bits((enum emu_type)instr->type) / vector->count;
    uint64_t values[EMU_LANES], element[EMU_LANES];
    alu_read64(warp, &instr->operands[1], values);
    for (int k = 0; k < vector->count; k++) {
        ALU_EACH_LANE(i) element[i] = low_bits(values[i] >> (k * bits), bits);
        if (elements[k].kind != EMU_OP_SINK) {
            alu_store_any(warp, &elements[k], element, mask);
        }
    }
    return EMU_NEXT;
}

/* Elements must be scalars of an equal share of the type's bits; bytes live in 16-bit registers or wider. */
static bool check_vector(const struct emu_bind *bind, const struct emu_operand *vector, enum emu_type type,
                         bool is_written)
{
    const int bits = vector->count == 2 || vector->count == 4 ? emu_type_bits(type) / vector->count : 0;
    if (bits < 8 || (type != EMU_B16 && type != EMU_B32 && type != EMU_B64)) {
        return alu_refuse(bind, "a vector goes with .b16, .b32 or .b64, in 2 or 4 elements");
    }
    for (int k = 0; k < vector->count; k++) {
        const struct emu_operand *element = &bind->pool[vector->first + k];
        const bool is_constant = element->kind == EMU_OP_IMM && !is_written;
        const bool is_nowhere = element->kind == EMU_OP_SINK && is_written;
        const bool is_register = element->kind == EMU_OP_REG && element->bits == (bits == 8 ? 16 : bits);
        if (!is_constant && !is_nowhere && !is_register) {
            return alu_refuse(bind, "element %d is not a register of %d bits", k + 1, bits);
        }
    }
    return true;
}

bool alu_bind_mov(const struct emu_bind *bind)
{
    const enum emu_type type = alu_begin(bind);
    struct emu_instr *instr = bind->instr;
    const struct emu_operand *to = &instr->operands[0], *from = &instr->operands[1];
    const int bits = emu_type_bits(type);
    if (to->kind == EMU_OP_VECTOR) {
        instr->exec = unpack;
        return ((from->kind == EMU_OP_REG && from->bits == bits) || from->kind == EMU_OP_IMM ||
                alu_refuse(bind, "the source is not a register of %d bits", bits)) &&
               check_vector(bind, to, type, true);
    }
    if (from->kind == EMU_OP_VECTOR) {
        instr->exec = pack;
        return ((to->kind == EMU_OP_REG && to->bits == bits) ||
                alu_refuse(bind, "the destination is not a register of %d bits", bits)) &&
               check_vector(bind, from, type, false);
    }
    instr->exec = type == EMU_PRED ? mov_pred : bits == 16 ? mov_16 : bits == 32 ? mov_32 : mov_64;
    if (is_shared_variable(from)) {
        instr->exec = mov_shared;
    }
    return ALU_FINISH(bind, type, type);
}
