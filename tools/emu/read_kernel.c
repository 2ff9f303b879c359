/* Kernels: parameters, directives, statements (PTX ISA 7.1, 9.1, 11.4, 11.5, 11.7). */
#include "reader.h"

#include <string.h>

enum { MAX_THREADS = 1024, MAX_STATEMENTS = 1 << 20, MAX_FILES = 1 << 16, MAX_PARAMS = 4096, MAX_CLUSTER = 64 };

/* ---- Debug information ---- */

/* .loc 1 63 5, function_name $L__info_string0, inlined_at 1 106 5: the first place is the innermost (PTX ISA 11.5.4).
 */
bool emu_read_loc(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    uint64_t file, line, column;
    if (!emu_scan_number(scan, MAX_FILES, &file) || !emu_scan_number(scan, UINT32_MAX, &line) ||
        !emu_scan_number(scan, UINT32_MAX, &column))
        return false;
    reader->source_file = (uint32_t)file;
    reader->source_line = (uint32_t)line;
    if (emu_scan_take(scan, ',')) {
        if (!emu_scan_take_word(scan, "function_name"))
            return emu_scan_fail(scan, "expected function_name");
        emu_scan_next(scan);
        if (emu_scan_take(scan, '+'))
            emu_scan_next(scan);
        if (!emu_scan_expect(scan, ',') || !emu_scan_take_word(scan, "inlined_at"))
            return emu_scan_fail(scan, "expected inlined_at");
        return emu_scan_number(scan, MAX_FILES, &file) && emu_scan_number(scan, UINT32_MAX, &line) &&
               emu_scan_number(scan, UINT32_MAX, &column);
    }
    return true;
}

/* Advice to the compiler; nothing in it changes what a kernel does (PTX ISA 11.4.7). */
bool emu_read_pragma(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    do {
        if (scan->kind != EMU_TOKEN_STRING)
            return emu_scan_fail(scan, "a pragma is a string");
        emu_scan_next(scan);
    } while (emu_scan_take(scan, ','));
    return emu_scan_expect(scan, ';');
}

/* ---- Calls: only of vprintf and __assertfail (call.c) ---- */

/* call.uni (retval0), vprintf, (param0, param1); The name is kept, what is passed is not looked at. */
static bool read_call(struct emu_reader *reader, struct emu_span *function)
{
    struct emu_scanner *scan = &reader->scan;
    if (emu_scan_take(scan, '(')) {
        while (scan->kind == EMU_TOKEN_NAME || emu_scan_is(scan, ','))
            emu_scan_next(scan);
        if (!emu_scan_expect(scan, ')') || !emu_scan_expect(scan, ','))
            return false;
    }
    if (!emu_reader_name(reader, function))
        return false;
    if (!emu_span_is(*function, "vprintf") && !emu_span_is(*function, "__assertfail"))
        return emu_scan_fail(scan, "call of %.*s: functions are not supported, except vprintf and __assertfail",
                             (int)function->size, function->text);
    if (emu_scan_is(scan, ','))
        emu_scan_skip_to(scan, ';');
    return emu_scan_is(scan, ';') || emu_scan_expect(scan, ';');
}

/* An operand of an instruction that begins like this, in the memory of a call? */
static bool is_call_memory(const struct emu_reader *reader, const struct emu_statement *statement, const char *opcode,
                           const struct emu_syntax_operand *operand)
{
    return statement->operand_count == 2 && !strncmp(reader->syntax->opcodes[statement->opcode], opcode, 9) &&
           operand->kind == EMU_SYNTAX_ADDRESS && operand->variable >= 0 &&
           reader->syntax->variables[operand->variable].is_call;
}

/* A store to a call's argument does nothing: those who are called do not look. A load of its result gives 0. */
static void finish_call_memory(struct emu_reader *reader, struct emu_statement *statement,
                               const struct emu_syntax_operand *operands)
{
    if (is_call_memory(reader, statement, "st.param.", &operands[0])) {
        reader->kernel->statement_count--;
    } else if (is_call_memory(reader, statement, "ld.param.", &operands[1])) {
        statement->kind = EMU_STATEMENT_RESULT;
        statement->operand_count = 1;
    }
}

/* ---- Statements ---- */

/* The number of this opcode among the distinct ones. */
static bool intern_opcode(struct emu_reader *reader, struct emu_span text, uint32_t *opcode)
{
    struct emu_syntax *syntax = reader->syntax;
    const struct emu_symbol *known = emu_names_get(&syntax->names, EMU_OPCODE_SCOPE, text);
    if (known) {
        *opcode = known->index;
        return true;
    }
    struct emu_symbol symbol = {text, EMU_OPCODE_SCOPE, (uint32_t)syntax->opcode_count, EMU_SYMBOL_OPCODE, true};
    const char **added = EMU_APPEND(reader, syntax, opcode);
    if (!added || !(*added = emu_arena_copy(reader->arena, text.text, text.size)) ||
        !emu_names_add(&syntax->names, reader->arena, &symbol))
        return emu_scan_fail(&reader->scan, "out of memory");
    *opcode = symbol.index;
    return true;
}

/* @%p or @!%p in front of an opcode (PTX ISA 9.3). */
static bool read_guard(struct emu_reader *reader, struct emu_statement *statement)
{
    struct emu_span name;
    statement->guard = -1;
    if (!emu_scan_take(&reader->scan, '@'))
        return true;
    statement->guard_negated = emu_scan_take(&reader->scan, '!');
    if (!emu_reader_name(reader, &name))
        return false;
    statement->guard = emu_read_register(reader, name);
    if (statement->guard < 0 || reader->kernel->registers[statement->guard].bits != 1)
        return emu_scan_fail(&reader->scan, "%.*s is no predicate", (int)name.size, name.text);
    return true;
}

static bool add_operands(struct emu_reader *reader, struct emu_statement *statement,
                         const struct emu_syntax_operand *operands)
{
    statement->first_operand = (uint32_t)reader->kernel->operand_count;
    for (int i = 0; i < statement->operand_count; i++) {
        struct emu_syntax_operand *added = EMU_APPEND(reader, reader->kernel, operand);
        if (!added)
            return false;
        *added = operands[i];
    }
    finish_call_memory(reader, statement, operands);
    return true;
}

static bool read_operands(struct emu_reader *reader, struct emu_statement *statement)
{
    struct emu_syntax_operand operands[EMU_MAX_OPERANDS] = {0};
    while (!emu_scan_is(&reader->scan, ';')) {
        if (statement->operand_count == EMU_MAX_OPERANDS)
            return emu_scan_fail(&reader->scan, "more than %d operands", EMU_MAX_OPERANDS);
        if (!emu_read_operand(reader, &operands[statement->operand_count++]))
            return false;
        if (!emu_scan_is(&reader->scan, ';') && !emu_scan_expect(&reader->scan, ','))
            return false;
    }
    return add_operands(reader, statement, operands);
}

static bool is_call(struct emu_span opcode)
{
    return emu_span_is(opcode, "call") || emu_span_is(opcode, "call.uni");
}

/* From the opcode to the ';'. */
static bool read_instruction(struct emu_reader *reader, struct emu_statement *statement)
{
    struct emu_scanner *scan = &reader->scan;
    if (scan->kind != EMU_TOKEN_NAME)
        return emu_scan_fail(scan, "expected an instruction");
    emu_scan_opcode(scan);
    struct emu_span opcode = scan->span;
    emu_scan_next(scan);
    if (is_call(opcode)) {
        statement->kind = EMU_STATEMENT_CALL;
        return read_call(reader, &opcode) && intern_opcode(reader, opcode, &statement->opcode);
    }
    return intern_opcode(reader, opcode, &statement->opcode) && read_operands(reader, statement);
}

static bool read_statement(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    struct emu_statement *statement = EMU_APPEND(reader, reader->kernel, statement);
    if (!statement)
        return false;
    if (reader->kernel->statement_count > MAX_STATEMENTS)
        return emu_scan_fail(scan, "a kernel of more than %d instructions", MAX_STATEMENTS);
    statement->line = scan->token_line;
    statement->source_file = reader->source_file;
    statement->source_line = reader->source_line;
    statement->scope = reader->scope;
    return read_guard(reader, statement) && read_instruction(reader, statement) && emu_scan_expect(scan, ';');
}

static bool read_label(struct emu_reader *reader)
{
    struct emu_span name;
    return emu_reader_name(reader, &name) && emu_scan_expect(&reader->scan, ':') &&
           emu_reader_declare(reader, name, EMU_SYMBOL_LABEL, reader->kernel->statement_count);
}

static bool read_body_directive(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    enum emu_space space;
    if (emu_reader_space(scan, &space)) {
        emu_scan_next(scan);
        return emu_read_variables(reader, space, false);
    }
    if (emu_scan_take_word(scan, ".reg"))
        return emu_read_registers(reader);
    if (emu_scan_take_word(scan, ".loc"))
        return emu_read_loc(reader);
    if (emu_scan_take_word(scan, ".pragma"))
        return emu_read_pragma(reader);
    return emu_scan_fail(scan, "%.*s is not supported in a kernel", (int)scan->span.size, scan->span.text);
}

static bool open_scope(struct emu_reader *reader)
{
    uint32_t scope = emu_names_open(&reader->syntax->names, reader->arena, reader->scope);
    if (!scope)
        return emu_scan_fail(&reader->scan, "out of memory");
    reader->scope = scope;
    return true;
}

static void close_scope(struct emu_reader *reader)
{
    reader->scope = reader->syntax->names.scopes[reader->scope].parent;
}

static bool read_body_item(struct emu_reader *reader)
{
    const struct emu_scanner *scan = &reader->scan;
    if (scan->kind == EMU_TOKEN_DIRECTIVE)
        return read_body_directive(reader);
    if (scan->kind == EMU_TOKEN_NAME && emu_scan_colon_follows(scan))
        return read_label(reader);
    return read_statement(reader);
}

/* { ... } with the scopes inside it. */
static bool read_body(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    int depth = 0;
    if (!emu_scan_is(scan, '{'))
        return emu_scan_expect(scan, '{');
    do {
        if (emu_scan_take(scan, '{')) {
            if (++depth > EMU_MAX_NESTING)
                return emu_scan_fail(scan, "scopes nested deeper than %d", EMU_MAX_NESTING);
            if (!open_scope(reader))
                return false;
        } else if (emu_scan_take(scan, '}')) {
            depth--;
            close_scope(reader);
        } else if (!emu_scan_take(scan, ';') && !read_body_item(reader)) {
            return false;
        }
    } while (depth);
    return true;
}

/* ---- Heads of kernels ---- */

static bool read_parameters(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    struct emu_syntax_kernel *kernel = reader->kernel;
    kernel->first_param = (uint32_t)reader->syntax->variable_count;
    if (!emu_scan_take(scan, '(') || emu_scan_take(scan, ')'))
        return !scan->failed;
    do {
        if (!emu_scan_take_word(scan, ".param"))
            return emu_scan_fail(scan, "expected .param");
        if (!emu_read_parameter(reader))
            return false;
        if (++kernel->param_count > MAX_PARAMS)
            return emu_scan_fail(scan, "more than %d parameters", MAX_PARAMS);
    } while (emu_scan_take(scan, ','));
    return emu_scan_expect(scan, ')');
}

/* One to three extents, 1 where not given. */
static bool read_extents(struct emu_reader *reader, uint64_t limit, uint64_t extents[3])
{
    extents[0] = extents[1] = extents[2] = 1;
    for (int i = 0; i < 3; i++) {
        if (i && !emu_scan_take(&reader->scan, ','))
            break;
        if (!emu_scan_number(&reader->scan, limit, &extents[i]))
            return false;
        if (!extents[i])
            return emu_scan_fail(&reader->scan, "an extent of 0");
    }
    return true;
}

static bool read_required(struct emu_reader *reader, uint64_t limit, uint32_t required[3])
{
    uint64_t extents[3];
    if (!read_extents(reader, limit, extents))
        return false;
    for (int i = 0; i < 3; i++)
        required[i] = (uint32_t)extents[i];
    return true;
}

static bool read_threads(struct emu_reader *reader, uint32_t required[3])
{
    uint64_t extents[3];
    if (!read_extents(reader, MAX_THREADS, extents))
        return false;
    for (int i = 0; required && i < 3; i++)
        required[i] = (uint32_t)extents[i];
    reader->kernel->max_threads = extents[0] * extents[1] * extents[2];
    return reader->kernel->max_threads <= MAX_THREADS ||
           emu_scan_fail(&reader->scan, "more than %d threads a block", MAX_THREADS);
}

static bool read_tuning(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    struct emu_syntax_kernel *kernel = reader->kernel;
    uint64_t ignored;
    if (emu_scan_take_word(scan, ".maxntid"))
        return read_threads(reader, NULL);
    if (emu_scan_take_word(scan, ".reqntid"))
        return read_threads(reader, kernel->required_ntid);
    if (emu_scan_take_word(scan, ".minnctapersm"))
        return emu_scan_number(scan, 64, &kernel->min_ctas);
    if (emu_scan_take_word(scan, ".maxnreg"))
        return emu_scan_number(scan, 255, &kernel->max_registers);
    if (emu_scan_take_word(scan, ".maxclusterrank"))
        return emu_scan_number(scan, MAX_CLUSTER, &ignored);
    if (emu_scan_take_word(scan, ".reqnctapercluster"))
        return read_required(reader, MAX_CLUSTER, kernel->required_cluster);
    if (emu_scan_take_word(scan, ".explicitcluster"))
        return kernel->explicit_cluster = true;
    if (emu_scan_take_word(scan, ".pragma"))
        return emu_read_pragma(reader);
    return emu_scan_fail(scan, "%.*s is not supported on a kernel", (int)scan->span.size, scan->span.text);
}

static bool read_head(struct emu_reader *reader)
{
    if (!read_parameters(reader))
        return false;
    while (reader->scan.kind == EMU_TOKEN_DIRECTIVE)
        if (!read_tuning(reader))
            return false;
    return true;
}

bool emu_read_kernel(struct emu_reader *reader)
{
    struct emu_span name;
    if (!emu_reader_name(reader, &name) ||
        !emu_reader_declare(reader, name, EMU_SYMBOL_FUNCTION, reader->syntax->kernel_count))
        return false;
    reader->kernel = EMU_APPEND(reader, reader->syntax, kernel);
    if (!reader->kernel)
        return false;
    reader->kernel->name = name;
    reader->kernel->line = reader->scan.token_line;
    reader->source_file = reader->source_line = 0;
    bool done = open_scope(reader) && read_head(reader) && read_body(reader);
    reader->kernel = NULL;
    reader->scope = EMU_MODULE_SCOPE;
    return done;
}
