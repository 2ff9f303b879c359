/* Reads a module: what stands outside kernels (PTX ISA 11.1, 11.2, 11.5, 11.6). */
#include "reader.h"

#include <string.h>

enum { MAX_FILE = 1 << 16 };

/* ---- Helpers of all reader files ---- */

void *emu_reader_append(struct emu_reader *reader, void *items, size_t *count, size_t *capacity, size_t size)
{
    void *old, *grown; /* memcpy: items is a pointer to a pointer of any type */
    memcpy(&old, items, sizeof old);
    grown = *count < INT32_MAX ? emu_arena_grow(reader->arena, old, *count, capacity, size) : NULL;
    if (!grown) {
        emu_scan_fail(&reader->scan, "out of memory");
        return NULL;
    }
    memcpy(items, &grown, sizeof grown);
    void *added = (char *)grown + (*count)++ * size;
    return memset(added, 0, size); /* a dropped statement may have stood there */
}

bool emu_reader_declare(struct emu_reader *reader, struct emu_span name, enum emu_symbol_kind kind, size_t index)
{
    struct emu_symbol symbol = {name, reader->scope, (uint32_t)index, (uint8_t)kind, true};
    if (emu_names_get(&reader->syntax->names, reader->scope, name))
        return emu_scan_fail(&reader->scan, "%.*s is declared twice", (int)name.size, name.text);
    return emu_names_add(&reader->syntax->names, reader->arena, &symbol) ||
           emu_scan_fail(&reader->scan, "out of memory");
}

bool emu_reader_name(struct emu_reader *reader, struct emu_span *name)
{
    struct emu_scanner *scan = &reader->scan;
    *name = scan->span;
    if (scan->kind != EMU_TOKEN_NAME || scan->span.size > 4096)
        return emu_scan_fail(scan, "expected a name, not '%.*s'", scan->span.size > 40 ? 40 : (int)scan->span.size,
                             scan->span.text);
    emu_scan_next(scan);
    return true;
}

/* ---- Module directives ---- */

static bool read_version(struct emu_reader *reader)
{
    if (reader->scan.kind != EMU_TOKEN_FLOAT64)
        return emu_scan_fail(&reader->scan, ".version needs a number");
    emu_scan_next(&reader->scan);
    return true;
}

/* .target sm_90a, debug */
static bool read_target(struct emu_reader *reader)
{
    struct emu_span name;
    char *target = reader->syntax->target;
    if (!emu_reader_name(reader, &name))
        return false;
    if (name.size >= sizeof reader->syntax->target)
        return emu_scan_fail(&reader->scan, "no target is called %.*s", (int)name.size, name.text);
    memcpy(target, name.text, name.size);
    while (emu_scan_take(&reader->scan, ','))
        if (!emu_reader_name(reader, &name))
            return false;
    return true;
}

static bool read_address_size(struct emu_reader *reader)
{
    uint64_t bits;
    if (!emu_scan_number(&reader->scan, 64, &bits))
        return false;
    return bits == 64 || emu_scan_fail(&reader->scan, "only 64-bit addresses are supported");
}

static bool keep_file(struct emu_reader *reader, size_t index, struct emu_span name)
{
    struct emu_syntax *syntax = reader->syntax;
    if (index >= syntax->file_count) {
        const char **files = emu_arena_alloc(reader->arena, index + 1, sizeof *files);
        if (!files)
            return emu_scan_fail(&reader->scan, "out of memory");
        if (syntax->file_count)
            memcpy(files, syntax->files, syntax->file_count * sizeof *files);
        syntax->files = files;
        syntax->file_count = index + 1;
    }
    syntax->files[index] = emu_arena_copy(reader->arena, name.text, name.size);
    return syntax->files[index] || emu_scan_fail(&reader->scan, "out of memory");
}

/* .file 1 "name", timestamp, size (PTX ISA 11.5.3) */
static bool read_file(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    uint64_t index, ignored;
    if (!emu_scan_number(scan, MAX_FILE, &index))
        return false;
    if (scan->kind != EMU_TOKEN_STRING)
        return emu_scan_fail(scan, ".file needs a name");
    if (!keep_file(reader, (size_t)index, scan->span))
        return false;
    emu_scan_next(scan);
    while (emu_scan_take(scan, ','))
        if (!emu_scan_number(scan, UINT64_MAX, &ignored))
            return false;
    return true;
}

/* .section .debug_str { ... }: debug information beyond .loc is not needed. */
static bool skip_section(struct emu_reader *reader)
{
    emu_scan_skip_to(&reader->scan, '}');
    return emu_scan_expect(&reader->scan, '}');
}

/* .func: declarations are passed over, what they name is refused or known when it is called (call.c). */
static bool skip_function(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    while (scan->kind != EMU_TOKEN_END && !emu_scan_is(scan, ';')) {
        if (emu_scan_is(scan, '{'))
            return emu_scan_fail(scan, "a .func with a body is not supported: everything must be inlined");
        emu_scan_next(scan);
    }
    return emu_scan_expect(scan, ';');
}

static bool read_linkable(struct emu_reader *reader, bool is_extern)
{
    struct emu_scanner *scan = &reader->scan;
    enum emu_space space;
    if (emu_reader_space(scan, &space) && space != EMU_PARAM && space != EMU_LOCAL) {
        emu_scan_next(scan);
        return emu_read_variables(reader, space, is_extern);
    }
    if (emu_scan_take_word(scan, ".entry"))
        return emu_read_kernel(reader);
    if (emu_scan_take_word(scan, ".func"))
        return skip_function(reader);
    return emu_scan_fail(scan, "'%.*s' is not supported in a module", scan->span.size > 40 ? 40 : (int)scan->span.size,
                         scan->span.text);
}

static bool read_item(struct emu_reader *reader)
{
    struct emu_scanner *scan = &reader->scan;
    if (emu_scan_take_word(scan, ".extern"))
        return read_linkable(reader, true);
    if (emu_scan_take_word(scan, ".visible") || emu_scan_take_word(scan, ".weak") ||
        emu_scan_take_word(scan, ".common"))
        return read_linkable(reader, false);
    if (emu_scan_take_word(scan, ".version"))
        return read_version(reader);
    if (emu_scan_take_word(scan, ".target"))
        return read_target(reader);
    if (emu_scan_take_word(scan, ".address_size"))
        return read_address_size(reader);
    if (emu_scan_take_word(scan, ".file"))
        return read_file(reader);
    if (emu_scan_take_word(scan, ".pragma"))
        return emu_read_pragma(reader);
    if (emu_scan_take_word(scan, ".section"))
        return skip_section(reader);
    return emu_scan_take(scan, ';') || read_linkable(reader, false);
}

bool emu_read(struct emu_syntax *syntax, struct emu_arena *arena, const char *text, char *why)
{
    struct emu_reader reader = {.syntax = syntax, .arena = arena};
    *syntax = (struct emu_syntax){.arena = arena};
    emu_scan_start(&reader.scan, text, why);
    if (!emu_names_init(&syntax->names, arena))
        return emu_scan_fail(&reader.scan, "out of memory");
    while (reader.scan.kind != EMU_TOKEN_END)
        if (!read_item(&reader))
            return false;
    if (!reader.scan.failed && !*syntax->target)
        return emu_scan_fail(&reader.scan, "no .target: this is not PTX");
    return !reader.scan.failed;
}
