/* Loading a module: read, lay out, decode. */
#include "decode.h"

#include <stdio.h>
#include <string.h>

enum { WHY_SIZE = 512 };
/* A text of a few megabytes decodes into less; the limit is for those that want the machine. */
static const size_t MAX_ARENA = (size_t)1 << 30;

static bool load(struct emu_module *module, struct emu_arena *arena, const char *text, size_t size,
                 const struct emu_row_list *const *lists, size_t list_count, char *why)
{
    struct emu_syntax syntax;
    struct emu_matcher matcher;
    char *copy = emu_arena_copy(arena, text, size);
    module->text = copy;
    if (!copy) {
        snprintf(why, WHY_SIZE, "out of memory");
        return false;
    }
    if (strlen(copy) != size) {
        snprintf(why, WHY_SIZE, "a NUL character within the text: this is not PTX");
        return false;
    }
    if (!emu_matcher_init(&matcher, arena, lists, list_count, why) || !emu_read(&syntax, arena, copy, why) ||
        !emu_layout_module(&syntax, module, why))
        return false;
    memcpy(module->target, syntax.target, sizeof module->target);
    module->files = syntax.files;
    module->file_count = (uint32_t)syntax.file_count;
    return emu_decode_kernels(&syntax, &matcher, module, why);
}

struct emu_module *emu_module_load_rows(const char *text, size_t size, const struct emu_row_list *const *lists,
                                        size_t list_count, char why[512])
{
    struct emu_arena *arena = emu_arena_create(MAX_ARENA);
    struct emu_module *module = arena ? emu_arena_alloc(arena, 1, sizeof *module) : NULL;
    *why = '\0';
    while (size && !text[size - 1]) /* what ends a C string may be counted */
        size--;
    if (module) {
        module->arena = arena;
        if (load(module, arena, text, size, lists, list_count, why))
            return module;
    } else {
        snprintf(why, WHY_SIZE, "out of memory");
    }
    emu_arena_destroy(arena);
    return NULL;
}

void emu_module_free(struct emu_module *module)
{
    if (module)
        emu_arena_destroy(module->arena);
}

const struct emu_kernel *emu_module_find(const struct emu_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->kernel_count; i++)
        if (!strcmp(module->kernels[i].name, name))
            return &module->kernels[i];
    return NULL;
}
