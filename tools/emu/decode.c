/* Makes instructions of statements: the row of the opcode table, operands, rows read and written.
 *
 * While a kernel is being decoded, rows are the numbers of virtual registers; emu_assign_rows (liveness.c) turns them
 * into real ones, and only then do the table's bind functions see the instructions. */
#include "decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WHY_SIZE = 512, REASON_SIZE = 256 };

bool emu_decode_fail(const struct emu_decoder *decoder, const struct emu_instr *instr, const char *format, ...)
{
    char reason[WHY_SIZE]; /* the arguments may stand in why */
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    snprintf(decoder->why, WHY_SIZE, "line %u: %.470s", instr->line, reason);
    return false;
}

bool emu_decode_fail_memory(const struct emu_decoder *decoder)
{
    snprintf(decoder->why, WHY_SIZE, "out of memory");
    return false;
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
static const struct emu_candidates *find_candidates(const struct emu_decoder *decoder, uint32_t opcode)
{
    struct emu_candidates **slot = &decoder->candidates[opcode];
    if (*slot)
        return *slot;
    struct emu_candidates *found = emu_arena_alloc(decoder->syntax->arena, 1, sizeof *found);
    if (!found) {
        emu_decode_fail_memory(decoder);
        return NULL;
    }
    if (!emu_match_opcode(decoder->matcher, decoder->syntax->arena, decoder->syntax->opcodes[opcode], found,
                          decoder->why))
        return NULL;
    return *slot = found;
}

static const struct emu_row *find_row(struct emu_decoder *decoder, const struct emu_statement *statement,
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

static bool match(struct emu_decoder *decoder, const struct emu_statement *statement, struct emu_instr *instr)
{
    if (statement->kind == EMU_STATEMENT_CALL)
        instr->row = emu_call_row(instr->text);
    else if (statement->kind == EMU_STATEMENT_RESULT)
        instr->row = &emu_call_result_row;
    else
        instr->row = find_row(decoder, statement, instr);
    if (!instr->row)
        return emu_decode_fail(decoder, instr, "%s", decoder->why);
    const struct emu_candidate *chosen = decoder->chosen[instr - decoder->kernel->instrs];
    if (chosen)
        note_types(instr, chosen);
    return true;
}

/* ---- Rows read and written ---- */

static void add_use(struct emu_decoder *decoder, int32_t reg)
{
    static const uint8_t classes[65] = {[1] = EMU_ROW_PRED, [16] = EMU_ROW32, [32] = EMU_ROW32, [64] = EMU_ROW64};
    if (reg >= 0)
        decoder->uses.items[decoder->uses.count++] =
            (struct emu_row_use){classes[decoder->from->registers[reg].bits], reg};
}

static void add_value(struct emu_decoder *decoder, const struct emu_operand *operand)
{
    const struct emu_operand *elements = decoder->kernel->pool + operand->first;
    add_use(decoder, operand->row);
    add_use(decoder, operand->row2);
    for (int i = 0; i < operand->count; i++)
        add_use(decoder, elements[i].row);
}

/* Which operands the letters say are read, or written; the address of a store is read like any other. */
static void add_uses(struct emu_decoder *decoder, const struct emu_instr *instr, bool written)
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
static bool check_value(const struct emu_decoder *decoder, const struct emu_operand *operand, char letter)
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

static bool check_values(const struct emu_decoder *decoder, const struct emu_instr *instr)
{
    int index = 0;
    for (const char *letter = instr->row->operands; *letter && index < instr->operand_count; letter++) {
        if (*letter == '?')
            continue;
        if (!check_value(decoder, &instr->operands[index++], *letter))
            return emu_decode_fail(decoder, instr, "%s: operand %d must be a %s", instr->text, index,
                                   *letter == 's' ? "value" : "register");
    }
    return true;
}

static void list_uses(struct emu_decoder *decoder, struct emu_instr *instr)
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

static bool decode_statement(struct emu_decoder *decoder, const struct emu_statement *statement,
                             struct emu_instr *instr)
{
    instr->text = decoder->syntax->opcodes[statement->opcode];
    instr->orders_lanes = orders_lanes(instr->text);
    instr->guard = statement->guard;
    instr->guard_negated = statement->guard_negated;
    instr->line = statement->line;
    instr->source_file = statement->source_file;
    instr->source_line = statement->source_line;
    if (!emu_resolve_operands(decoder, statement, instr) || !match(decoder, statement, instr) ||
        !check_values(decoder, instr))
        return false;
    list_uses(decoder, instr);
    return true;
}

/* A return behind the last statement, so that no pc runs off the end. */
static bool decode_end(struct emu_decoder *decoder, struct emu_instr *instr)
{
    struct emu_candidates found;
    *instr = (struct emu_instr){.text = "ret", .guard = -1, .line = decoder->from->line};
    if (decoder->from->statement_count)
        instr->line = decoder->from->statements[decoder->from->statement_count - 1].line;
    const struct emu_candidate *chosen = NULL;
    if (emu_match_opcode(decoder->matcher, decoder->syntax->arena, "ret", &found, decoder->why))
        chosen = emu_match_operands(&found, "ret", NULL, 0, decoder->why);
    if (!chosen)
        return emu_decode_fail(decoder, instr, "%s", decoder->why);
    struct emu_candidate *kept = emu_arena_alloc(decoder->syntax->arena, 1, sizeof *kept);
    if (!kept)
        return emu_decode_fail_memory(decoder);
    *kept = *chosen;
    decoder->chosen[instr - decoder->kernel->instrs] = kept;
    instr->row = kept->row;
    list_uses(decoder, instr);
    return true;
}

static bool bind_instr(struct emu_decoder *decoder, struct emu_instr *instr)
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
    return emu_decode_fail(decoder, instr, "%.200s: %s", instr->text, *reason ? reason : "not with these operands");
}

/* Room for everything that an instruction can read or write: each operand and element twice, a pair's second half,
 * the guard. */
static bool alloc_kernel(struct emu_decoder *decoder)
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
    return (kernel->instrs && kernel->pool && decoder->chosen && decoder->uses.items) ||
           emu_decode_fail_memory(decoder);
}

static bool decode_instrs(struct emu_decoder *decoder)
{
    const struct emu_syntax_kernel *from = decoder->from;
    struct emu_instr *instrs = decoder->kernel->instrs;
    for (size_t i = 0; i < from->statement_count; i++)
        if (!decode_statement(decoder, &from->statements[i], &instrs[i]))
            return false;
    return decode_end(decoder, &instrs[from->statement_count]);
}

static bool bind_instrs(struct emu_decoder *decoder)
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

static bool describe_kernel(const struct emu_decoder *decoder)
{
    const struct emu_syntax_kernel *from = decoder->from;
    struct emu_kernel *kernel = decoder->kernel;
    kernel->name = emu_arena_copy(decoder->syntax->arena, from->name.text, from->name.size);
    kernel->max_threads = (uint32_t)from->max_threads;
    memcpy(kernel->required_ntid, from->required_ntid, sizeof kernel->required_ntid);
    memcpy(kernel->required_cluster, from->required_cluster, sizeof kernel->required_cluster);
    kernel->explicit_cluster = from->explicit_cluster;
    kernel->launch_registers = launch_registers(from);
    return kernel->name || emu_decode_fail_memory(decoder);
}

static bool decode_kernel(struct emu_decoder *decoder, uint32_t number)
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
    struct emu_decoder decoder = {.syntax = syntax, .matcher = matcher, .why = why};
    decoder.candidates = emu_arena_alloc(syntax->arena, syntax->opcode_count, sizeof(void *));
    module->kernels = emu_arena_alloc(syntax->arena, syntax->kernel_count, sizeof *module->kernels);
    if (!decoder.candidates || !module->kernels)
        return emu_decode_fail_memory(&decoder);
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
