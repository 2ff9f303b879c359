/* Where variables and parameters lie. */
#include "decode.h"
#include "engine.h"

#include <stdio.h>
#include <string.h>

enum {
    WHY_SIZE = 512,
    MAX_SHARED = 227 * 1024, /* what a block can have on sm_90, static and dynamic */
    MAX_LOCAL = 512 * 1024,  /* of a thread */
    MAX_PARAM_BYTES = 32764  /* PTX ISA 7.1: from sm_70 on */
};
static const uint64_t MAX_GLOBAL = (uint64_t)1 << 28;

/* The next multiple of align, a power of two; sizes here are far from overflow. */
static uint64_t align_up(uint64_t offset, uint64_t align)
{
    return (offset + align - 1) & ~(align - 1);
}

/* Puts a variable behind *end. */
static void place(struct emu_syntax_variable *variable, uint64_t *end)
{
    variable->offset = align_up(*end, variable->align);
    *end = variable->offset + variable->size;
}

static bool fail_size(char *why, const struct emu_syntax_variable *variable, const char *memory, uint64_t limit)
{
    snprintf(why, WHY_SIZE, "line %u: %.*s: more %s memory than %llu bytes", variable->line, (int)variable->name.size,
             variable->name.text, memory, (unsigned long long)limit);
    return false;
}

/* ---- .global and .const ---- */

static bool is_global(const struct emu_syntax_variable *variable)
{
    return variable->space == EMU_GLOBAL || variable->space == EMU_CONST;
}

static bool place_globals(struct emu_syntax *syntax, struct emu_module *module, uint32_t *align, char *why)
{
    uint64_t end = 0;
    for (size_t i = 0; i < syntax->variable_count; i++) {
        struct emu_syntax_variable *variable = &syntax->variables[i];
        if (!is_global(variable))
            continue;
        place(variable, &end);
        module->global_count++;
        *align = variable->align > *align ? variable->align : *align;
        if (end > MAX_GLOBAL)
            return fail_size(why, variable, "global", MAX_GLOBAL);
    }
    module->global_bytes = (size_t)end;
    return true;
}

static void describe_global(const struct emu_syntax_variable *from, struct emu_arena *arena, struct emu_variable *to)
{
    *to = (struct emu_variable){.name = emu_arena_copy(arena, from->name.text, from->name.size),
                                .space = from->space,
                                .align = from->align,
                                .size = from->size,
                                .offset = from->offset,
                                .init = from->init};
}

/* Addresses of variables among the initial values: memory stays where it is, so they are known now. */
static void relocate(const struct emu_syntax *syntax, const struct emu_syntax_variable *variable,
                     const struct emu_module *module)
{
    for (size_t i = 0; i < variable->relocation_count; i++) {
        const struct emu_relocation *relocation = &variable->relocations[i];
        uint64_t address = (uint64_t)(uintptr_t)module->global_memory + syntax->variables[relocation->variable].offset +
                           (uint64_t)relocation->addend;
        memcpy(variable->init + relocation->offset, &address, sizeof address);
    }
}

static bool fill_globals(struct emu_syntax *syntax, struct emu_module *module)
{
    struct emu_variable *to = module->globals;
    for (size_t i = 0; i < syntax->variable_count; i++) {
        const struct emu_syntax_variable *variable = &syntax->variables[i];
        if (!is_global(variable))
            continue;
        relocate(syntax, variable, module);
        describe_global(variable, syntax->arena, to);
        if (!to++->name)
            return false;
        if (variable->init && variable->size)
            memcpy(module->global_memory + variable->offset, variable->init, (size_t)variable->size);
    }
    return true;
}

bool emu_layout_module(struct emu_syntax *syntax, struct emu_module *module, char *why)
{
    uint32_t align = 256; /* what cuMemAlloc promises at least */
    if (!place_globals(syntax, module, &align, why))
        return false;
    module->globals = emu_arena_alloc(syntax->arena, module->global_count, sizeof *module->globals);
    module->global_memory = emu_arena_aligned(syntax->arena, module->global_bytes, align);
    if (module->globals && module->global_memory && fill_globals(syntax, module))
        return true;
    snprintf(why, WHY_SIZE, "out of memory");
    return false;
}

/* ---- A kernel's memory ---- */

/* A module's .shared variable takes room only in kernels that name it, as ptxas does it. */
static void mark_used(struct emu_syntax *syntax, const struct emu_syntax_kernel *from, uint32_t number)
{
    for (size_t i = 0; i < from->operand_count; i++)
        if (from->operands[i].variable >= 0)
            syntax->variables[from->operands[i].variable].used_by = number + 1;
}

static bool place_used(struct emu_syntax *syntax, uint32_t number, struct emu_kernel *kernel, char *why)
{
    uint64_t shared = EMU_SHARED_RESERVED, local = 0;
    for (size_t i = 0; i < syntax->variable_count; i++) {
        struct emu_syntax_variable *variable = &syntax->variables[i];
        if (variable->used_by != number + 1 || variable->is_extern)
            continue;
        if (variable->space == EMU_SHARED_CTA)
            place(variable, &shared);
        else if (variable->space == EMU_LOCAL)
            place(variable, &local);
        if (shared > MAX_SHARED + EMU_SHARED_RESERVED)
            return fail_size(why, variable, "shared", MAX_SHARED);
        if (local > MAX_LOCAL)
            return fail_size(why, variable, "local", MAX_LOCAL);
    }
    kernel->static_shared_bytes = shared - EMU_SHARED_RESERVED;
    kernel->local_bytes = align_up(local, 16);
    return true;
}

/* All extern arrays are the same memory: the dynamic one, behind the static variables (PTX ISA 5.1.7). */
static void place_extern(struct emu_syntax *syntax, uint32_t number, struct emu_kernel *kernel)
{
    kernel->dynamic_align = 16;
    for (size_t i = 0; i < syntax->variable_count; i++) {
        const struct emu_syntax_variable *variable = &syntax->variables[i];
        if (variable->used_by == number + 1 && variable->is_extern && variable->align > kernel->dynamic_align)
            kernel->dynamic_align = variable->align;
    }
    for (size_t i = 0; i < syntax->variable_count; i++)
        if (syntax->variables[i].used_by == number + 1 && syntax->variables[i].is_extern)
            syntax->variables[i].offset =
                align_up(EMU_SHARED_RESERVED + kernel->static_shared_bytes, kernel->dynamic_align);
}

static bool place_params(struct emu_syntax *syntax, const struct emu_syntax_kernel *from, struct emu_kernel *kernel,
                         char *why)
{
    struct emu_param *params = emu_arena_alloc(syntax->arena, from->param_count, sizeof *params);
    uint64_t end = 0;
    if (!params) {
        snprintf(why, WHY_SIZE, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < from->param_count; i++) {
        struct emu_syntax_variable *variable = &syntax->variables[from->first_param + i];
        place(variable, &end);
        if (end > MAX_PARAM_BYTES)
            return fail_size(why, variable, "parameter", MAX_PARAM_BYTES);
        params[i] = (struct emu_param){(uint32_t)variable->offset, (uint32_t)variable->size, variable->align};
    }
    kernel->params = params;
    kernel->param_count = from->param_count;
    kernel->param_bytes = (uint32_t)end;
    return true;
}

bool emu_layout_kernel(struct emu_syntax *syntax, const struct emu_syntax_kernel *from, uint32_t number,
                       struct emu_kernel *kernel, char *why)
{
    mark_used(syntax, from, number);
    if (!place_used(syntax, number, kernel, why))
        return false;
    place_extern(syntax, number, kernel);
    return place_params(syntax, from, kernel, why);
}
