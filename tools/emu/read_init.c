/* Initialisers of variables (PTX ISA 5.4.4). */
#include "reader.h"

#include <string.h>

static const uint64_t MAX_INIT_BYTES = (uint64_t)1 << 28;

/* A variable being filled. */
struct filler {
    struct emu_reader *reader;
    struct emu_syntax_variable *variable;
    uint64_t element_bytes;
    uint64_t room; /* bytes of init */
    uint64_t end;  /* bytes filled so far */
    bool is_open;  /* the variable is as long as its initialiser */
};

/* Makes sure that init reaches behind element `index`. */
static bool make_room(struct filler *fill, uint64_t index)
{
    struct emu_scanner *scan = &fill->reader->scan;
    uint64_t end = (index + 1) * fill->element_bytes;
    if (end > (fill->is_open ? MAX_INIT_BYTES : fill->variable->size))
        return emu_scan_fail(scan, "more values than %.*s has room for", (int)fill->variable->name.size,
                             fill->variable->name.text);
    if (end > fill->room) {
        uint64_t room = fill->is_open ? end * 2 : fill->variable->size;
        uint8_t *init = emu_arena_alloc(fill->reader->arena, room, 1);
        if (!init)
            return emu_scan_fail(scan, "out of memory");
        if (fill->room)
            memcpy(init, fill->variable->init, fill->room);
        fill->variable->init = init;
        fill->room = room;
    }
    if (end > fill->end)
        fill->end = end;
    return true;
}

/* Stores the low bytes of a value: every host that runs this is little-endian, as the GPU is. */
static bool store(struct filler *fill, uint64_t index, uint64_t bits)
{
    if (!make_room(fill, index))
        return false;
    uint64_t bytes = fill->element_bytes < 8 ? fill->element_bytes : 8;
    memcpy(fill->variable->init + index * fill->element_bytes, &bits, bytes);
    return true;
}

static bool fail_value(struct filler *fill)
{
    return emu_scan_fail(&fill->reader->scan, "this initial value does not fit the type of %.*s",
                         (int)fill->variable->name.size, fill->variable->name.text);
}

/* A float literal into a variable of float type is converted, into one of bits it must be as wide. */
static bool store_float(struct filler *fill, uint64_t index, bool is_double, uint64_t bits, bool negative)
{
    float single;
    double value;
    uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    memcpy(&value, &bits, sizeof value);
    if (!is_double)
        value = (double)single;
    if (negative)
        value = -value;
    if (is_double || fill->variable->type == EMU_F32)
        single = (float)value;
    else
        single = negative ? -single : single;
    if (fill->variable->type == EMU_F64 || (is_double && fill->element_bytes == 8))
        memcpy(&bits, &value, sizeof bits);
    else if (fill->variable->type == EMU_F32 || (!is_double && fill->element_bytes == 4))
        memcpy(&bits, &single, sizeof single);
    else
        return fail_value(fill);
    return store(fill, index, bits);
}

static bool store_number(struct filler *fill, uint64_t index)
{
    struct emu_scanner *scan = &fill->reader->scan;
    bool negative = emu_scan_take(scan, '-');
    enum emu_token_kind kind = scan->kind;
    uint64_t value = scan->value;
    emu_scan_next(scan);
    if (kind == EMU_TOKEN_FLOAT32 || kind == EMU_TOKEN_FLOAT64)
        return store_float(fill, index, kind == EMU_TOKEN_FLOAT64, value, negative);
    bool is_float = fill->variable->type == EMU_F32 || fill->variable->type == EMU_F64;
    if (kind != EMU_TOKEN_INT || (is_float && value))
        return fail_value(fill);
    return store(fill, index, negative ? 0 - value : value);
}

static bool read_addend(struct emu_reader *reader, int64_t *addend)
{
    struct emu_scanner *scan = &reader->scan;
    bool minus = emu_scan_is(scan, '-');
    uint64_t value;
    *addend = 0;
    if (!emu_scan_take(scan, '+') && !emu_scan_take(scan, '-'))
        return true;
    if (!emu_scan_number(scan, INT32_MAX, &value))
        return false;
    *addend = minus ? -(int64_t)value : (int64_t)value;
    return true;
}

static const struct emu_symbol *read_variable_name(struct filler *fill)
{
    struct emu_reader *reader = fill->reader;
    struct emu_span name;
    if (!emu_reader_name(reader, &name))
        return NULL;
    const struct emu_symbol *symbol = emu_names_get(&reader->syntax->names, EMU_MODULE_SCOPE, name);
    if (symbol && symbol->kind == EMU_SYMBOL_VARIABLE) {
        uint8_t space = reader->syntax->variables[symbol->index].space;
        if (space == EMU_GLOBAL || space == EMU_CONST)
            return symbol;
    }
    emu_scan_fail(&reader->scan, "%.*s is no variable of this module's .global or .const memory", (int)name.size,
                  name.text);
    return NULL;
}

/* sym, sym+4, generic(sym), generic(sym)+4. Global and constant addresses are generic ones on this device. */
static bool store_address(struct filler *fill, uint64_t index)
{
    struct emu_reader *reader = fill->reader;
    bool generic = emu_scan_take_word(&reader->scan, "generic") && emu_scan_expect(&reader->scan, '(');
    const struct emu_symbol *symbol = read_variable_name(fill);
    struct emu_relocation relocation = {.offset = index * fill->element_bytes, .bytes = (uint32_t)fill->element_bytes};
    if (!symbol || (generic && !emu_scan_expect(&reader->scan, ')')) || !read_addend(reader, &relocation.addend))
        return false;
    relocation.variable = symbol->index;
    if (fill->element_bytes != 8)
        return fail_value(fill);
    struct emu_relocation *added = EMU_APPEND(reader, fill->variable, relocation);
    if (!added)
        return false;
    *added = relocation;
    return store(fill, index, 0);
}

/* The character behind a backslash; -1 when it is none of the simple ones. */
static int unescape(char c)
{
    static const char names[] = "nt0\\\"r", values[] = "\n\t\0\\\"\r";
    const char *found = c ? strchr(names, c) : NULL;
    return found ? values[found - names] : -1;
}

static bool store_string(struct filler *fill, uint64_t index)
{
    struct emu_span text = fill->reader->scan.span;
    if (fill->element_bytes != 1)
        return fail_value(fill);
    for (size_t i = 0; i < text.size; i++, index++) {
        int c = text.text[i] == '\\' ? unescape(text.text[++i]) : (unsigned char)text.text[i];
        if (c < 0)
            return emu_scan_fail(&fill->reader->scan, "this escape in a string is not supported");
        if (!store(fill, index, (uint64_t)c))
            return false;
    }
    emu_scan_next(&fill->reader->scan);
    return store(fill, index, 0);
}

static bool store_value(struct filler *fill, uint64_t index)
{
    struct emu_scanner *scan = &fill->reader->scan;
    if (scan->kind == EMU_TOKEN_STRING)
        return store_string(fill, index);
    return scan->kind == EMU_TOKEN_NAME ? store_address(fill, index) : store_number(fill, index);
}

/* { ... } of dimension `dim`, its first element at `index`. Recursion is as deep as there are dimensions. */
static bool read_level(struct filler *fill, const uint64_t *dims, int dim_count, int dim, uint64_t index)
{
    struct emu_scanner *scan = &fill->reader->scan;
    if (dim >= dim_count)
        return emu_scan_fail(scan, "more braces than dimensions");
    uint64_t stride = 1;
    for (int inner = dim + 1; inner < dim_count; inner++)
        stride *= dims[inner];
    emu_scan_next(scan);
    for (uint64_t i = 0; !emu_scan_take(scan, '}'); i++) {
        bool is_level = emu_scan_is(scan, '{');
        uint64_t at = is_level ? index + i * stride : index + i;
        uint64_t most = dims[dim] ? dims[dim] * (is_level ? 1 : stride) : UINT64_MAX;
        if (i >= most)
            return emu_scan_fail(scan, "more values than the dimension has");
        if (is_level ? !read_level(fill, dims, dim_count, dim + 1, at) : !store_value(fill, at))
            return false;
        if (!emu_scan_is(scan, '}') && !emu_scan_expect(scan, ','))
            return false;
    }
    return true;
}

bool emu_read_initialiser(struct emu_reader *reader, struct emu_syntax_variable *variable, const uint64_t *dims,
                          int dim_count)
{
    struct filler fill = {.reader = reader,
                          .variable = variable,
                          .element_bytes = (uint64_t)emu_type_bits(variable->type) / 8,
                          .is_open = dim_count && !dims[0]};
    if ((variable->space != EMU_GLOBAL && variable->space != EMU_CONST) || variable->is_extern)
        return emu_scan_fail(&reader->scan, "only .global and .const variables have initial values");
    bool is_list = emu_scan_is(&reader->scan, '{');
    if (is_list ? !read_level(&fill, dims, dim_count, 0, 0) : !store_value(&fill, 0))
        return false;
    if (fill.is_open)
        variable->size = fill.end;
    return true;
}
