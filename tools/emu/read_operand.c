/* Operands of instructions (PTX ISA 6). */
#include "reader.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t special; /* enum emu_special */
    bool has_xyz;    /* .x, .y, .z follow, in the enumeration too */
} specials[] = {
    {"%tid", EMU_TID_X, true},
    {"%ntid", EMU_NTID_X, true},
    {"%ctaid", EMU_CTAID_X, true},
    {"%nctaid", EMU_NCTAID_X, true},
    {"%clusterid", EMU_CLUSTERID_X, true},
    {"%nclusterid", EMU_NCLUSTERID_X, true},
    {"%cluster_ctaid", EMU_CLUSTER_CTAID_X, true},
    {"%cluster_nctaid", EMU_CLUSTER_NCTAID_X, true},
    {"%laneid", EMU_LANEID, false},
    {"%warpid", EMU_WARPID, false},
    {"%nwarpid", EMU_NWARPID, false},
    {"%smid", EMU_SMID, false},
    {"%nsmid", EMU_NSMID, false},
    {"%gridid", EMU_GRIDID, false},
    {"%lanemask_eq", EMU_LANEMASK_EQ, false},
    {"%lanemask_lt", EMU_LANEMASK_LT, false},
    {"%lanemask_le", EMU_LANEMASK_LE, false},
    {"%lanemask_gt", EMU_LANEMASK_GT, false},
    {"%lanemask_ge", EMU_LANEMASK_GE, false},
    {"%clock", EMU_CLOCK, false},
    {"%clock_hi", EMU_CLOCK_HI, false},
    {"%clock64", EMU_CLOCK64, false},
    {"%globaltimer", EMU_GLOBALTIMER, false},
    {"%cluster_ctarank", EMU_CLUSTER_CTARANK, false},
    {"%cluster_nctarank", EMU_CLUSTER_NCTARANK, false},
    {"%is_explicit_cluster", EMU_IS_EXPLICIT_CLUSTER, false},
    {"%dynamic_smem_size", EMU_DYNAMIC_SMEM_SIZE, false},
    {"%total_smem_size", EMU_TOTAL_SMEM_SIZE, false},
};

enum { WARP_SIZE = 32 };

/* ---- Names ---- */

/* Splits "%r12" into "%r" and 12; false when there are no digits or they are not as %r<n> makes them. */
static bool split_number(struct emu_span name, struct emu_span *prefix, uint64_t *number)
{
    size_t digits = 0;
    while (digits < name.size && digits < 9 && name.text[name.size - 1 - digits] >= '0' &&
           name.text[name.size - 1 - digits] <= '9')
        digits++;
    *prefix = (struct emu_span){name.text, name.size - digits};
    const char *first = prefix->text + prefix->size;
    *number = 0;
    for (size_t i = 0; i < digits; i++)
        *number = *number * 10 + (uint64_t)(first[i] - '0');
    return digits && (digits == 1 || *first != '0');
}

/* Makes the register of a range, in the scope of its declaration. */
static const struct emu_symbol *make_register(struct emu_reader *reader, uint32_t scope, struct emu_span name,
                                              uint8_t bits)
{
    size_t index = reader->kernel->register_count;
    struct emu_register *reg = EMU_APPEND(reader, reader->kernel, register);
    struct emu_symbol symbol = {.name = name, .scope = scope, .index = (uint32_t)index, .kind = EMU_SYMBOL_REGISTER};
    if (!reg)
        return NULL;
    *reg = (struct emu_register){name, bits};
    if (!emu_names_add(&reader->syntax->names, reader->arena, &symbol)) {
        emu_scan_fail(&reader->scan, "out of memory");
        return NULL;
    }
    return emu_names_get(&reader->syntax->names, scope, name);
}

static const struct emu_symbol *find_in_range(struct emu_reader *reader, uint32_t scope, struct emu_span name)
{
    struct emu_span prefix;
    uint64_t number;
    if (!reader->syntax->names.scopes[scope].has_ranges || !split_number(name, &prefix, &number))
        return NULL;
    const struct emu_symbol *range = emu_names_get(&reader->syntax->names, scope, prefix);
    if (!range || range->kind != EMU_SYMBOL_RANGE || number >= reader->ranges[range->index].count)
        return NULL;
    return make_register(reader, scope, name, reader->ranges[range->index].bits);
}

/* What the name means here: innermost scope first. */
static const struct emu_symbol *find_name(struct emu_reader *reader, struct emu_span name)
{
    const struct emu_names *names = &reader->syntax->names;
    for (uint32_t scope = reader->scope;; scope = names->scopes[scope].parent) {
        const struct emu_symbol *symbol = emu_names_get(names, scope, name);
        if (!symbol && reader->kernel)
            symbol = find_in_range(reader, scope, name);
        if (symbol || scope == EMU_MODULE_SCOPE)
            return symbol;
    }
}

int32_t emu_read_register(struct emu_reader *reader, struct emu_span name)
{
    const struct emu_symbol *symbol = find_name(reader, name);
    return symbol && symbol->kind == EMU_SYMBOL_REGISTER ? (int32_t)symbol->index : -1;
}

/* ---- Values ---- */

static bool read_component(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    static const char *const names[] = {".x", ".y", ".z"};
    for (int i = 0; i < 3; i++)
        if (emu_scan_take_word(&reader->scan, names[i])) {
            operand->value += i;
            return true;
        }
    return emu_scan_fail(&reader->scan, "this special register needs .x, .y or .z");
}

/* A special register, whose name is already taken. *found tells whether it was one. */
static bool read_special(struct emu_reader *reader, struct emu_span name, struct emu_syntax_operand *operand,
                         bool *found)
{
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (!emu_span_is(name, specials[i].name))
            continue;
        *found = true;
        operand->kind = EMU_SYNTAX_SPECIAL;
        operand->value = specials[i].special;
        return !specials[i].has_xyz || read_component(reader, operand);
    }
    *found = false;
    return true;
}

/* +4, +-4, -4 and nothing. */
static bool read_displacement(struct emu_reader *reader, int64_t *value)
{
    struct emu_scanner *scan = &reader->scan;
    bool negative = false;
    uint64_t number;
    *value = 0;
    if (!emu_scan_is(scan, '+') && !emu_scan_is(scan, '-'))
        return true;
    emu_scan_take(scan, '+');
    negative = emu_scan_take(scan, '-');
    if (!emu_scan_number(scan, (uint64_t)1 << 40, &number))
        return false;
    *value = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool read_number(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    struct emu_scanner *scan = &reader->scan;
    bool negative = emu_scan_take(scan, '-');
    uint64_t sign = (uint64_t)1 << (scan->kind == EMU_TOKEN_FLOAT32 ? 31 : 63);
    operand->value = (int64_t)scan->value;
    if (scan->kind == EMU_TOKEN_INT) {
        operand->kind = EMU_SYNTAX_INT;
        operand->value = (int64_t)(negative ? 0 - scan->value : scan->value);
    } else if (scan->kind == EMU_TOKEN_FLOAT32 || scan->kind == EMU_TOKEN_FLOAT64) {
        operand->kind = scan->kind == EMU_TOKEN_FLOAT32 ? EMU_SYNTAX_FLOAT32 : EMU_SYNTAX_FLOAT64;
        operand->value = (int64_t)(negative ? scan->value ^ sign : scan->value);
    } else {
        return emu_scan_fail(scan, "expected an operand, not '%.*s'", scan->span.size > 40 ? 40 : (int)scan->span.size,
                             scan->span.text);
    }
    emu_scan_next(scan);
    return true;
}

/* A name that no register or special register has. */
static bool read_other_name(struct emu_reader *reader, struct emu_span name, const struct emu_symbol *symbol,
                            struct emu_syntax_operand *operand)
{
    operand->name = name;
    if (emu_span_is(name, "_")) {
        operand->kind = EMU_SYNTAX_SINK;
    } else if (emu_span_is(name, "WARP_SZ")) {
        operand->kind = EMU_SYNTAX_INT;
        operand->value = WARP_SIZE;
    } else if (symbol && symbol->kind == EMU_SYMBOL_VARIABLE) {
        operand->kind = EMU_SYNTAX_VARIABLE;
        operand->variable = (int32_t)symbol->index;
        return read_displacement(reader, &operand->value);
    } else {
        operand->kind = EMU_SYNTAX_NAME;
    }
    return true;
}

static bool read_named(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    struct emu_span name;
    if (!emu_reader_name(reader, &name))
        return false;
    const struct emu_symbol *symbol = find_name(reader, name);
    if (symbol && symbol->kind == EMU_SYMBOL_REGISTER) {
        operand->kind = EMU_SYNTAX_REGISTER;
        operand->reg = (int32_t)symbol->index;
        return true;
    }
    bool found = false;
    if (name.text[0] == '%' && (!read_special(reader, name, operand, &found) || found))
        return found && !reader->scan.failed;
    return read_other_name(reader, name, symbol, operand);
}

static bool read_value(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    operand->reg = operand->reg2 = operand->variable = -1;
    operand->negated = emu_scan_take(&reader->scan, '!');
    if (!operand->negated)
        return reader->scan.kind == EMU_TOKEN_NAME ? read_named(reader, operand) : read_number(reader, operand);
    if (!read_named(reader, operand))
        return false;
    return operand->kind == EMU_SYNTAX_REGISTER || emu_scan_fail(&reader->scan, "only a predicate can be negated");
}

/* d|p: two results (PTX ISA 9.7.9.6 shfl.sync, 9.7.1 setp). */
static bool read_pair(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    struct emu_syntax_operand second = {0};
    if (!read_value(reader, &second))
        return false;
    bool first_ok = operand->kind == EMU_SYNTAX_REGISTER || operand->kind == EMU_SYNTAX_SINK;
    bool second_ok = second.kind == EMU_SYNTAX_REGISTER || second.kind == EMU_SYNTAX_SINK;
    if (!first_ok || !second_ok || operand->negated || second.negated)
        return emu_scan_fail(&reader->scan, "'|' joins two registers");
    operand->kind = EMU_SYNTAX_PAIR;
    operand->reg2 = second.reg;
    return true;
}

/* ---- Vectors and addresses ---- */

/* { a, b, ... }, elements one behind the other in the kernel's operands. Vectors do not nest. */
static bool read_vector(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    struct emu_scanner *scan = &reader->scan;
    operand->kind = EMU_SYNTAX_VECTOR;
    operand->first = (uint32_t)reader->kernel->operand_count;
    emu_scan_expect(scan, '{');
    do {
        struct emu_syntax_operand element = {0};
        if (operand->count++ == EMU_MAX_VECTOR)
            return emu_scan_fail(scan, "a vector of more than %d elements", EMU_MAX_VECTOR);
        if (!read_value(reader, &element))
            return false;
        struct emu_syntax_operand *added = EMU_APPEND(reader, reader->kernel, operand);
        if (!added)
            return false;
        *added = element;
    } while (emu_scan_take(scan, ','));
    return emu_scan_expect(scan, '}');
}

static bool read_base(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    if (!read_value(reader, operand))
        return false;
    switch (operand->kind) {
    case EMU_SYNTAX_REGISTER:
        return !operand->negated && read_displacement(reader, &operand->value);
    case EMU_SYNTAX_VARIABLE:
    case EMU_SYNTAX_INT:
        return true;
    default:
        return emu_scan_fail(&reader->scan, "an address is a register, a variable or a number");
    }
}

static bool read_address(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    struct emu_scanner *scan = &reader->scan;
    emu_scan_expect(scan, '[');
    if (!read_base(reader, operand))
        return emu_scan_fail(scan, "not an address");
    operand->kind = EMU_SYNTAX_ADDRESS;
    if (emu_scan_take(scan, ',')) {
        struct emu_syntax_operand coordinates = {0};
        if (!read_vector(reader, &coordinates))
            return false;
        operand->kind = EMU_SYNTAX_TENSOR;
        operand->first = coordinates.first;
        operand->count = coordinates.count;
    }
    return emu_scan_expect(scan, ']');
}

bool emu_read_operand(struct emu_reader *reader, struct emu_syntax_operand *operand)
{
    *operand = (struct emu_syntax_operand){.reg = -1, .reg2 = -1, .variable = -1};
    if (emu_scan_is(&reader->scan, '['))
        return read_address(reader, operand);
    if (emu_scan_is(&reader->scan, '{'))
        return read_vector(reader, operand);
    if (!read_value(reader, operand))
        return false;
    return !emu_scan_take(&reader->scan, '|') || read_pair(reader, operand);
}
