/* Declarations of variables and registers (PTX ISA 5.1, 5.4). */
#include "reader.h"

#include <string.h>

enum { MAX_DIMS = 5, MAX_RANGE = 1 << 24 };
/* Of one variable: the whole of a kernel's shared or local memory is far below, and global tables are small. */
static const uint64_t MAX_BYTES = (uint64_t)1 << 28;

struct declaration {
    enum emu_space space;
    enum emu_type type;
    uint32_t align;  /* 0: the type's */
    uint64_t vector; /* elements of .v2, .v4; 1 */
    bool is_extern;
};

bool emu_reader_space(const struct emu_scanner *scan, enum emu_space *space)
{
    static const struct {
        const char *name;
        enum emu_space space;
    } spaces[] = {{".global", EMU_GLOBAL},
                  {".shared", EMU_SHARED_CTA},
                  {".const", EMU_CONST},
                  {".local", EMU_LOCAL},
                  {".param", EMU_PARAM}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (emu_scan_is_word(scan, spaces[i].name)) {
            *space = spaces[i].space;
            return true;
        }
    return false;
}

/* The type that the current directive names, or EMU_NONE. */
static enum emu_type current_type(const struct emu_scanner *scan)
{
    char name[16];
    if (scan->kind != EMU_TOKEN_DIRECTIVE || scan->span.size > sizeof name)
        return EMU_NONE;
    memcpy(name, scan->span.text + 1, scan->span.size - 1);
    name[scan->span.size - 1] = '\0';
    return emu_type_find(name);
}

static bool read_align(struct emu_reader *reader, uint32_t *align)
{
    uint64_t value;
    if (!emu_scan_number(&reader->scan, 1 << 20, &value))
        return false;
    if (!value || value & (value - 1))
        return emu_scan_fail(&reader->scan, "alignment %llu is no power of two", (unsigned long long)value);
    *align = (uint32_t)value;
    return true;
}

/* .ptr .global .align 8: what a parameter points to. A promise to the compiler, nothing to execute (PTX ISA 5.1.6.3).
 */
static bool read_pointee(struct emu_reader *reader)
{
    enum emu_space space;
    uint32_t align;
    if (emu_reader_space(&reader->scan, &space))
        emu_scan_next(&reader->scan);
    return !emu_scan_take_word(&reader->scan, ".align") || read_align(reader, &align);
}

static bool read_attribute(struct emu_reader *reader, struct declaration *declaration)
{
    struct emu_scanner *scan = &reader->scan;
    enum emu_type type = current_type(scan);
    if (type != EMU_NONE) {
        declaration->type = type;
        emu_scan_next(scan);
        return true;
    }
    if (emu_scan_take_word(scan, ".align"))
        return read_align(reader, &declaration->align);
    if (declaration->space == EMU_PARAM && emu_scan_take_word(scan, ".ptr"))
        return read_pointee(reader);
    if (emu_scan_is_word(scan, ".v2") || emu_scan_is_word(scan, ".v4")) {
        declaration->vector = emu_scan_is_word(scan, ".v2") ? 2 : 4;
        emu_scan_next(scan);
        return true;
    }
    return emu_scan_fail(scan, "%.*s is not supported in a declaration", (int)scan->span.size, scan->span.text);
}

static bool read_attributes(struct emu_reader *reader, struct declaration *declaration)
{
    struct emu_scanner *scan = &reader->scan;
    declaration->vector = 1;
    while (scan->kind == EMU_TOKEN_DIRECTIVE)
        if (!read_attribute(reader, declaration))
            return false;
    if (declaration->type == EMU_NONE || declaration->type == EMU_PRED)
        return emu_scan_fail(scan, "a variable needs a type other than .pred");
    return true;
}

/* [2][3], or [] for the first; product of what is given into *elements. */
static bool read_dims(struct emu_reader *reader, uint64_t *dims, int *dim_count, uint64_t *elements)
{
    struct emu_scanner *scan = &reader->scan;
    while (emu_scan_take(scan, '[')) {
        if (*dim_count == MAX_DIMS - 1)
            return emu_scan_fail(scan, "more than %d dimensions", MAX_DIMS - 1);
        uint64_t *dim = &dims[(*dim_count)++];
        *dim = 0;
        if (*dim_count == 1 && emu_scan_take(scan, ']'))
            continue;
        if (!emu_scan_number(scan, MAX_BYTES, dim) || !emu_scan_expect(scan, ']'))
            return false;
        *elements *= *dim;
        if (*elements > MAX_BYTES)
            return emu_scan_fail(scan, "an array of more than %llu elements", (unsigned long long)MAX_BYTES);
    }
    return true;
}

static bool check_open_array(struct emu_reader *reader, const struct emu_syntax_variable *variable, bool has_init)
{
    if (has_init || (variable->is_extern && variable->space == EMU_SHARED_CTA))
        return true;
    return emu_scan_fail(&reader->scan, "array %.*s has no length", (int)variable->name.size, variable->name.text);
}

static bool check_extern(struct emu_reader *reader, const struct emu_syntax_variable *variable)
{
    if (!variable->is_extern || variable->space == EMU_SHARED_CTA)
        return true;
    return emu_scan_fail(&reader->scan, "%.*s is defined in another module: linking is not supported",
                         (int)variable->name.size, variable->name.text);
}

/* Enters the variable into the module and the scope. */
static struct emu_syntax_variable *add_variable(struct emu_reader *reader, const struct declaration *declaration,
                                                struct emu_span name)
{
    size_t index = reader->syntax->variable_count;
    struct emu_syntax_variable *variable = EMU_APPEND(reader, reader->syntax, variable);
    if (!variable || !emu_reader_declare(reader, name, EMU_SYMBOL_VARIABLE, index))
        return NULL;
    uint32_t natural = (uint32_t)emu_type_bits(declaration->type) / 8 * (uint32_t)declaration->vector;
    variable->name = name;
    variable->space = (uint8_t)declaration->space;
    variable->type = (uint8_t)declaration->type;
    variable->is_extern = declaration->is_extern;
    variable->align = declaration->align ? declaration->align : natural;
    variable->line = reader->scan.token_line;
    return variable;
}

/* Name, dimensions and initialiser. */
static struct emu_syntax_variable *read_declarator(struct emu_reader *reader, const struct declaration *declaration)
{
    struct emu_scanner *scan = &reader->scan;
    struct emu_span name;
    uint64_t dims[MAX_DIMS] = {0}, elements = declaration->vector;
    int dim_count = 0;
    struct emu_syntax_variable *variable = NULL;
    if (!emu_reader_name(reader, &name) || !(variable = add_variable(reader, declaration, name)) ||
        !read_dims(reader, dims, &dim_count, &elements))
        return NULL;
    bool is_open = dim_count && !dims[0], has_init = emu_scan_take(scan, '=');
    if (declaration->vector > 1)
        dims[dim_count++] = declaration->vector;
    variable->size = is_open ? 0 : elements * (uint64_t)emu_type_bits(declaration->type) / 8;
    if ((is_open && !check_open_array(reader, variable, has_init)) || !check_extern(reader, variable))
        return NULL;
    if (has_init && !emu_read_initialiser(reader, variable, dims, dim_count))
        return NULL;
    return variable;
}

bool emu_read_variables(struct emu_reader *reader, enum emu_space space, bool is_extern)
{
    struct declaration declaration = {.space = space, .is_extern = is_extern};
    if (!read_attributes(reader, &declaration))
        return false;
    do {
        struct emu_syntax_variable *variable = read_declarator(reader, &declaration);
        if (!variable)
            return false;
        variable->is_call = space == EMU_PARAM;
    } while (emu_scan_take(&reader->scan, ','));
    return emu_scan_expect(&reader->scan, ';');
}

bool emu_read_parameter(struct emu_reader *reader)
{
    struct declaration declaration = {.space = EMU_PARAM};
    return read_attributes(reader, &declaration) && read_declarator(reader, &declaration);
}

/* ---- Registers ---- */

static bool read_register_type(struct emu_reader *reader, uint8_t *bits)
{
    struct emu_scanner *scan = &reader->scan;
    int size = emu_type_bits(current_type(scan));
    if (size != 1 && size != 16 && size != 32 && size != 64)
        return emu_scan_fail(scan, "registers of %.*s are not supported", (int)scan->span.size, scan->span.text);
    *bits = (uint8_t)size;
    emu_scan_next(scan);
    return true;
}

/* <12> behind a name. */
static bool declare_range(struct emu_reader *reader, struct emu_span name, uint8_t bits)
{
    uint64_t count;
    if (!emu_scan_number(&reader->scan, MAX_RANGE, &count) || !emu_scan_expect(&reader->scan, '>'))
        return false;
    size_t index = reader->range_count;
    struct emu_range *range = EMU_APPEND(reader, reader, range);
    if (!range)
        return false;
    *range = (struct emu_range){count, bits};
    reader->syntax->names.scopes[reader->scope].has_ranges = true;
    return emu_reader_declare(reader, name, EMU_SYMBOL_RANGE, index);
}

static bool declare_register(struct emu_reader *reader, struct emu_span name, uint8_t bits)
{
    size_t index = reader->kernel->register_count;
    struct emu_register *reg = EMU_APPEND(reader, reader->kernel, register);
    if (!reg)
        return false;
    *reg = (struct emu_register){name, bits};
    return emu_reader_declare(reader, name, EMU_SYMBOL_REGISTER, index);
}

bool emu_read_registers(struct emu_reader *reader)
{
    uint8_t bits = 0;
    if (!read_register_type(reader, &bits))
        return false;
    do {
        struct emu_span name;
        if (!emu_reader_name(reader, &name))
            return false;
        bool is_range = emu_scan_take(&reader->scan, '<');
        if (is_range ? !declare_range(reader, name, bits) : !declare_register(reader, name, bits))
            return false;
    } while (emu_scan_take(&reader->scan, ','));
    return emu_scan_expect(&reader->scan, ';');
}
