/* Makes instructions of statements: the row of the opcode table, operands, rows read and written.
 *
 * While a kernel is being decoded, rows are the numbers of virtual registers; emu_assign_rows (liveness.c) turns them
 * into real ones, and only then do the table's bind functions see the instructions. */
#include "decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WHY_SIZE = 512, REASON_SIZE = 256 };

struct decoder {
    struct emu_syntax *syntax;
    const struct emu_syntax_kernel *from;
    struct emu_kernel *kernel;
    const struct emu_matcher *matcher;
    struct emu_candidates **candidates;  /* of each opcode; NULL: not looked for yet */
    const struct emu_candidate **chosen; /* of each instruction, for bind */
    struct emu_uses uses;
    char *why;
};

static bool fail(const struct decoder *decoder, const struct emu_instr *instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(const struct decoder *decoder, const struct emu_instr *instr, const char *format, ...)
{
    char reason[WHY_SIZE]; /* the arguments may stand in why */
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    snprintf(decoder->why, WHY_SIZE, "line %u: %.470s", instr->line, reason);
    return false;
}

static bool fail_memory(const struct decoder *decoder)
{
    snprintf(decoder->why, WHY_SIZE, "out of memory");
    return false;
}

/* ---- Operands ---- */

static void resolve_register(const struct decoder *decoder, const struct emu_syntax_operand *from,
                             struct emu_operand *to)
{
    to->bits = decoder->from->registers[from->reg].bits;
    to->kind = to->bits == 1 ? EMU_OP_PRED : EMU_OP_REG;
    to->row = from->reg;
    to->negated = from->negated;
}

/* d|p: the second is a predicate, the first one too or a 32-bit register. A sink in front is taken for what the other
 * side lets it be. */
static bool resolve_pair(const struct decoder *decoder, const struct emu_syntax_operand *from, struct emu_operand *to)
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
static bool resolve_variable(const struct decoder *decoder, const struct emu_syntax_operand *from,
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
static bool resolve_address(const struct decoder *decoder, const struct emu_syntax_operand *from,
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

static bool resolve_label(const struct decoder *decoder, const struct emu_statement *statement,
                          const struct emu_syntax_operand *from, struct emu_operand *to)
{
    const struct emu_symbol *label = emu_names_find_label(&decoder->syntax->names, statement->scope, from->name);
    to->kind = EMU_OP_LABEL;
    to->imm = label ? label->index : 0;
    return label;
}

/* An operand or an element of a vector; false when it is not what it should be. */
static bool resolve(const struct decoder *decoder, const struct emu_statement *statement,
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

static bool fail_operand(const struct decoder *decoder, const struct emu_instr *instr, int index,
                         const struct emu_syntax_operand *from)
{
    if (from->kind == EMU_SYNTAX_NAME)
        return fail(decoder, instr, "%s: nothing is called %.*s here", instr->text,
                    from->name.size > 100 ? 100 : (int)from->name.size, from->name.text);
    return fail(decoder, instr, "%s: operand %d is not understood", instr->text, index + 1);
}

/* The statement's operands, and what their vectors hold. The pool has the same numbers as the reader's. */
static bool resolve_operands(const struct decoder *decoder, const struct emu_statement *statement,
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

/* ---- Rows of the opcode table ---- */

static enum emu_shape shape_of(const struct emu_operand *operand)
{
    switch (operand->kind) {
    case EMU_OP_ADDRESS:
        return EMU_SHAPE_ADDRESS;
    case EMU_OP_TENSOR:
        return EMU_SHAPE_TENSOR;
    case EMU_OP_LABEL:
        return EMU_SHAPE_LABEL;
    default:
        return EMU_SHAPE_VALUE;
    }
}

/* The candidates of an opcode, looked for once. */
static const struct emu_candidates *find_candidates(const struct decoder *decoder, uint32_t opcode)
{
    struct emu_candidates **slot = &decoder->candidates[opcode];
    if (*slot)
        return *slot;
    struct emu_candidates *found = emu_arena_alloc(decoder->syntax->arena, 1, sizeof *found);
    if (!found) {
        fail_memory(decoder);
        return NULL;
    }
    if (!emu_match_opcode(decoder->matcher, decoder->syntax->arena, decoder->syntax->opcodes[opcode], found,
                          decoder->why))
        return NULL;
    return *slot = found;
}

static const struct emu_row *find_row(struct decoder *decoder, const struct emu_statement *statement,
                                      const struct emu_instr *instr)
{
    enum emu_shape shapes[EMU_MAX_OPERANDS];
    const struct emu_candidates *candidates = find_candidates(decoder, statement->opcode);
    if (!candidates)
        return NULL;
    for (int i = 0; i < instr->operand_count; i++)
        shapes[i] = shape_of(&instr->operands[i]);
    const struct emu_candidate *chosen =
        emu_match_operands(candidates, instr->text, shapes, instr->operand_count, decoder->why);
    decoder->chosen[instr - decoder->kernel->instrs] = chosen;
    return chosen ? chosen->row : NULL;
}

/* The types in the opcode, in order; a bind function may know better. */
static void note_types(struct emu_instr *instr, const struct emu_candidate *chosen)
{
    uint8_t *types[] = {&instr->type, &instr->type2, &instr->type3};
    for (int i = 0, found = 0; i < chosen->token_count && found < 3; i++) {
        enum emu_type type = emu_type_find(chosen->tokens[i]);
        if (type != EMU_NONE)
            *types[found++] = (uint8_t)type;
    }
}

static bool match(struct decoder *decoder, const struct emu_statement *statement, struct emu_instr *instr)
{
    if (statement->kind == EMU_STATEMENT_CALL)
        instr->row = emu_call_row(instr->text);
    else if (statement->kind == EMU_STATEMENT_RESULT)
        instr->row = &emu_call_result_row;
    else
        instr->row = find_row(decoder, statement, instr);
    if (!instr->row)
        return fail(decoder, instr, "%s", decoder->why);
    const struct emu_candidate *chosen = decoder->chosen[instr - decoder->kernel->instrs];
    if (chosen)
        note_types(instr, chosen);
    return true;
}

/* ---- Rows read and written ---- */

static void add_use(struct decoder *decoder, int32_t reg)
{
    static const uint8_t classes[65] = {[1] = EMU_ROW_PRED, [16] = EMU_ROW32, [32] = EMU_ROW32, [64] = EMU_ROW64};
    if (reg >= 0)
        decoder->uses.items[decoder->uses.count++] =
            (struct emu_row_use){classes[decoder->from->registers[reg].bits], reg};
}

static void add_value(struct decoder *decoder, const struct emu_operand *operand)
{
    const struct emu_operand *elements = decoder->kernel->pool + operand->first;
    add_use(decoder, operand->row);
    add_use(decoder, operand->row2);
    for (int i = 0; i < operand->count; i++)
        add_use(decoder, elements[i].row);
}

/* Which operands the letters say are read, or written; the address of a store is read like any other. */
static void add_uses(struct decoder *decoder, const struct emu_instr *instr, bool written)
{
    int index = 0;
    for (const char *letter = instr->row->operands; *letter && index < instr->operand_count; letter++) {
        if (*letter == '?')
            continue;
        if (strchr(written ? "dx" : "sxmt", *letter))
            add_value(decoder, &instr->operands[index]);
        index++;
    }
}

static bool can_be_written(const struct emu_operand *operand)
{
    return (operand->kind == EMU_OP_REG || operand->kind == EMU_OP_PRED || operand->kind == EMU_OP_PRED_PAIR ||
            operand->kind == EMU_OP_SINK) &&
           !operand->negated;
}

/* Results are registers, sources are not sinks. */
static bool check_value(const struct decoder *decoder, const struct emu_operand *operand, char letter)
{
    const struct emu_operand *elements = decoder->kernel->pool + operand->first;
    bool written = letter == 'd' || letter == 'x', read = letter == 's' || letter == 'x';
    if (operand->kind != EMU_OP_VECTOR)
        return (!written || can_be_written(operand)) && (!read || operand->kind != EMU_OP_SINK);
    for (int i = 0; i < operand->count; i++)
        if ((written && !can_be_written(&elements[i])) || (read && elements[i].kind == EMU_OP_SINK))
            return false;
    return true;
}

static bool check_values(const struct decoder *decoder, const struct emu_instr *instr)
{
    int index = 0;
    for (const char *letter = instr->row->operands; *letter && index < instr->operand_count; letter++) {
        if (*letter == '?')
            continue;
        if (!check_value(decoder, &instr->operands[index++], *letter))
            return fail(decoder, instr, "%s: operand %d must be a %s", instr->text, index,
                        *letter == 's' ? "value" : "register");
    }
    return true;
}

static void list_uses(struct decoder *decoder, struct emu_instr *instr)
{
    size_t first = decoder->uses.count;
    instr->reads = decoder->uses.items + first;
    add_use(decoder, instr->guard);
    add_uses(decoder, instr, false);
    instr->read_count = (uint16_t)(decoder->uses.count - first);
    first = decoder->uses.count;
    instr->writes = decoder->uses.items + first;
    add_uses(decoder, instr, true);
    instr->write_count = (uint16_t)(decoder->uses.count - first);
}

/* ---- Instructions ---- */

/* Every .sync gathers its lanes; barriers and waits on mbarriers order them as well. */
static bool orders_lanes(const char *opcode)
{
    return strstr(opcode, ".sync") != NULL || strstr(opcode, "_wait") != NULL || strncmp(opcode, "bar", 3) == 0;
}

static bool decode_statement(struct decoder *decoder, const struct emu_statement *statement, struct emu_instr *instr)
{
    instr->text = decoder->syntax->opcodes[statement->opcode];
    instr->orders_lanes = orders_lanes(instr->text);
    instr->guard = statement->guard;
    instr->guard_negated = statement->guard_negated;
    instr->line = statement->line;
    instr->source_file = statement->source_file;
    instr->source_line = statement->source_line;
    if (!resolve_operands(decoder, statement, instr) || !match(decoder, statement, instr) ||
        !check_values(decoder, instr))
        return false;
    list_uses(decoder, instr);
    return true;
}

/* A return behind the last statement, so that no pc runs off the end. */
static bool decode_end(struct decoder *decoder, struct emu_instr *instr)
{
    struct emu_candidates found;
    *instr = (struct emu_instr){.text = "ret", .guard = -1, .line = decoder->from->line};
    if (decoder->from->statement_count)
        instr->line = decoder->from->statements[decoder->from->statement_count - 1].line;
    const struct emu_candidate *chosen = NULL;
    if (emu_match_opcode(decoder->matcher, decoder->syntax->arena, "ret", &found, decoder->why))
        chosen = emu_match_operands(&found, "ret", NULL, 0, decoder->why);
    if (!chosen)
        return fail(decoder, instr, "%s", decoder->why);
    struct emu_candidate *kept = emu_arena_alloc(decoder->syntax->arena, 1, sizeof *kept);
    if (!kept)
        return fail_memory(decoder);
    *kept = *chosen;
    decoder->chosen[instr - decoder->kernel->instrs] = kept;
    instr->row = kept->row;
    list_uses(decoder, instr);
    return true;
}

static bool bind_instr(struct decoder *decoder, struct emu_instr *instr)
{
    const struct emu_candidate *chosen = decoder->chosen[instr - decoder->kernel->instrs];
    char reason[REASON_SIZE] = "";
    struct emu_bind bind = {.instr = instr,
                            .pool = decoder->kernel->pool,
                            .token_count = chosen ? chosen->token_count : 0,
                            .tokens = chosen ? chosen->tokens : NULL,
                            .why = reason};
    if (instr->row->bind(&bind))
        return true;
    return fail(decoder, instr, "%.200s: %s", instr->text, *reason ? reason : "not with these operands");
}

/* Room for everything that an instruction can read or write: each operand and element twice, a pair's second half,
 * the guard. */
static bool alloc_kernel(struct decoder *decoder)
{
    struct emu_kernel *kernel = decoder->kernel;
    struct emu_arena *arena = decoder->syntax->arena;
    size_t count = decoder->from->statement_count + 1, operands = decoder->from->operand_count;
    kernel->instr_count = (uint32_t)count;
    kernel->instrs = emu_arena_alloc(arena, count, sizeof *kernel->instrs);
    kernel->pool = emu_arena_alloc(arena, operands, sizeof *kernel->pool);
    decoder->chosen = emu_arena_alloc(arena, count, sizeof(void *));
    decoder->uses.items = emu_arena_alloc(arena, count + 4 * operands, sizeof *decoder->uses.items);
    decoder->uses.count = 0;
    return (kernel->instrs && kernel->pool && decoder->chosen && decoder->uses.items) || fail_memory(decoder);
}

static bool decode_instrs(struct decoder *decoder)
{
    const struct emu_syntax_kernel *from = decoder->from;
    struct emu_instr *instrs = decoder->kernel->instrs;
    for (size_t i = 0; i < from->statement_count; i++)
        if (!decode_statement(decoder, &from->statements[i], &instrs[i]))
            return false;
    return decode_end(decoder, &instrs[from->statement_count]);
}

static bool bind_instrs(struct decoder *decoder)
{
    for (uint32_t pc = 0; pc < decoder->kernel->instr_count; pc++)
        if (!bind_instr(decoder, &decoder->kernel->instrs[pc]))
            return false;
    return true;
}

/* ---- Kernels ---- */

/* .maxnreg, or what the launch bounds leave a thread of the 65536 registers of an SM (PTX ISA 11.4). */
static uint32_t launch_registers(const struct emu_syntax_kernel *from)
{
    uint64_t threads = from->max_threads * (from->min_ctas ? from->min_ctas : 1);
    if (from->max_registers)
        return (uint32_t)from->max_registers;
    uint64_t share = threads ? 65536 / threads / 8 * 8 : 255;
    return share > 255 ? 255 : (uint32_t)share;
}

static bool describe_kernel(const struct decoder *decoder)
{
    const struct emu_syntax_kernel *from = decoder->from;
    struct emu_kernel *kernel = decoder->kernel;
    kernel->name = emu_arena_copy(decoder->syntax->arena, from->name.text, from->name.size);
    kernel->max_threads = (uint32_t)from->max_threads;
    memcpy(kernel->required_ntid, from->required_ntid, sizeof kernel->required_ntid);
    memcpy(kernel->required_cluster, from->required_cluster, sizeof kernel->required_cluster);
    kernel->explicit_cluster = from->explicit_cluster;
    kernel->launch_registers = launch_registers(from);
    return kernel->name || fail_memory(decoder);
}

static bool decode_kernel(struct decoder *decoder, uint32_t number)
{
    const struct emu_syntax_kernel *from = decoder->from;
    return describe_kernel(decoder) &&
           emu_layout_kernel(decoder->syntax, from, number, decoder->kernel, decoder->why) && alloc_kernel(decoder) &&
           decode_instrs(decoder) &&
           emu_assign_rows(decoder->kernel, from->registers, from->register_count, &decoder->uses, from->operand_count,
                           decoder->why) &&
           bind_instrs(decoder);
}

bool emu_decode_kernels(struct emu_syntax *syntax, const struct emu_matcher *matcher, struct emu_module *module,
                        char *why)
{
    struct decoder decoder = {.syntax = syntax, .matcher = matcher, .why = why};
    decoder.candidates = emu_arena_alloc(syntax->arena, syntax->opcode_count, sizeof(void *));
    module->kernels = emu_arena_alloc(syntax->arena, syntax->kernel_count, sizeof *module->kernels);
    if (!decoder.candidates || !module->kernels)
        return fail_memory(&decoder);
    module->kernel_count = (uint32_t)syntax->kernel_count;
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        decoder.from = &syntax->kernels[i];
        decoder.kernel = &module->kernels[i];
        decoder.kernel->module = module;
        if (!decode_kernel(&decoder, i))
            return false;
    }
    return true;
}
