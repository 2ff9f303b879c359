/* What the operands of statements mean: registers, addresses of variables, pcs of labels. */
#include "decode.h"

static void resolve_register(const struct emu_decoder *decoder, const struct emu_syntax_operand *from,
                             struct emu_operand *to)
{
    to->bits = decoder->from->registers[from->reg].bits;
    to->kind = to->bits == 1 ? EMU_OP_PRED : EMU_OP_REG;
    to->row = from->reg;
    to->negated = from->negated;
}

/* d|p: the second is a predicate, the first one too or a 32-bit register. A sink in front is taken for what the other
 * side lets it be. */
static bool resolve_pair(const struct emu_decoder *decoder, const struct emu_syntax_operand *from,
                         struct emu_operand *to)
{
    const struct emu_register *registers = decoder->from->registers;
    to->kind = EMU_OP_PRED_PAIR;
    to->row = from->reg;
    to->row2 = from->reg2;
    to->bits = from->reg >= 0 ? registers[from->reg].bits : 32;
    return (to->bits == 1 || to->bits == 32) && (from->reg2 < 0 || registers[from->reg2].bits == 1);
}

static bool is_wide_special(int64_t special)
{
    return special == EMU_CLOCK64 || special == EMU_GLOBALTIMER || special == EMU_GRIDID;
}

/* The address of a variable: absolute for .global and .const, an offset in the space for the rest. */
static bool resolve_variable(const struct emu_decoder *decoder, const struct emu_syntax_operand *from,
                             struct emu_operand *to)
{
    const struct emu_syntax_variable *variable = &decoder->syntax->variables[from->variable];
    to->space = variable->space;
    to->imm = (int64_t)(variable->offset + (uint64_t)from->value);
    if (variable->space == EMU_GLOBAL || variable->space == EMU_CONST)
        to->imm += (int64_t)(uintptr_t)decoder->kernel->module->global_memory;
    return !variable->is_call;
}

/* [base + displacement], also of a tensor operand. */
static bool resolve_address(const struct emu_decoder *decoder, const struct emu_syntax_operand *from,
                            struct emu_operand *to)
{
    to->imm = from->value;
    if (from->variable >= 0)
        return resolve_variable(decoder, from, to);
    if (from->reg < 0)
        return true;
    to->row = from->reg;
    to->bits = decoder->from->registers[from->reg].bits;
    return to->bits == 32 || to->bits == 64;
}

static bool resolve_label(const struct emu_decoder *decoder, const struct emu_statement *statement,
                          const struct emu_syntax_operand *from, struct emu_operand *to)
{
    const struct emu_symbol *label = emu_names_find_label(&decoder->syntax->names, statement->scope, from->name);
    to->kind = EMU_OP_LABEL;
    to->imm = label ? label->index : 0;
    return label;
}

/* An operand or an element of a vector; false when it is not what it should be. */
static bool resolve(const struct emu_decoder *decoder, const struct emu_statement *statement,
                    const struct emu_syntax_operand *from, struct emu_operand *to)
{
    *to = (struct emu_operand){.row = -1, .row2 = -1, .imm = from->value};
    to->first = (int32_t)from->first;
    to->count = (int32_t)from->count;
    switch ((enum emu_syntax_kind)from->kind) {
    case EMU_SYNTAX_REGISTER:
        resolve_register(decoder, from, to);
        return !to->negated || to->kind == EMU_OP_PRED;
    case EMU_SYNTAX_PAIR:
        return resolve_pair(decoder, from, to);
    case EMU_SYNTAX_INT:
        to->kind = EMU_OP_IMM;
        return true;
    case EMU_SYNTAX_FLOAT32:
    case EMU_SYNTAX_FLOAT64:
        to->kind = EMU_OP_IMM;
        to->bits = from->kind == EMU_SYNTAX_FLOAT32 ? 32 : 64;
        return true;
    case EMU_SYNTAX_SPECIAL:
        to->kind = EMU_OP_SPECIAL;
        to->bits = is_wide_special(from->value) ? 64 : 32;
        return true;
    case EMU_SYNTAX_VARIABLE:
        to->kind = EMU_OP_SYMBOL;
        return resolve_variable(decoder, from, to);
    case EMU_SYNTAX_NAME:
        return resolve_label(decoder, statement, from, to);
    case EMU_SYNTAX_ADDRESS:
        to->kind = EMU_OP_ADDRESS;
        return resolve_address(decoder, from, to);
    case EMU_SYNTAX_TENSOR:
        to->kind = EMU_OP_TENSOR;
        return resolve_address(decoder, from, to);
    case EMU_SYNTAX_VECTOR:
        to->kind = EMU_OP_VECTOR;
        return true;
    case EMU_SYNTAX_SINK:
        to->kind = EMU_OP_SINK;
        return true;
    }
    return false;
}

static bool fail_operand(const struct emu_decoder *decoder, const struct emu_instr *instr, int index,
                         const struct emu_syntax_operand *from)
{
    if (from->kind == EMU_SYNTAX_NAME)
        return emu_decode_fail(decoder, instr, "%s: nothing is called %.*s here", instr->text,
                               from->name.size > 100 ? 100 : (int)from->name.size, from->name.text);
    return emu_decode_fail(decoder, instr, "%s: operand %d is not understood", instr->text, index + 1);
}

bool emu_resolve_operands(const struct emu_decoder *decoder, const struct emu_statement *statement,
                          struct emu_instr *instr)
{
    struct emu_operand *pool = decoder->kernel->pool;
    instr->operands = pool + statement->first_operand;
    instr->operand_count = statement->operand_count;
    for (int i = 0; i < statement->operand_count; i++) {
        uint32_t at = statement->first_operand + (uint32_t)i;
        const struct emu_syntax_operand *from = &decoder->from->operands[at];
        if (!resolve(decoder, statement, from, &pool[at]))
            return fail_operand(decoder, instr, i, from);
        for (uint32_t element = from->first; element < from->first + from->count; element++)
            if (!resolve(decoder, statement, &decoder->from->operands[element], &pool[element]) ||
                pool[element].kind == EMU_OP_LABEL)
                return fail_operand(decoder, instr, i, &decoder->from->operands[element]);
    }
    return true;
}
