/* The table of names. */
#include "syntax.h"

#include <string.h>

enum { FIRST_SLOTS = 1 << 12, FIRST_SCOPES = 2 };

static uint64_t hash_name(uint32_t scope, struct emu_span name)
{
    uint64_t hash = 0xcbf29ce484222325u ^ scope; /* FNV-1a */
    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (unsigned char)name.text[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

/* The slot that holds the name, or the free one where it belongs. */
static struct emu_symbol *find_slot(const struct emu_names *names, uint32_t scope, struct emu_span name)
{
    size_t mask = names->slot_count - 1;
    size_t at = (size_t)hash_name(scope, name) & mask;
    for (;; at = (at + 1) & mask) {
        struct emu_symbol *slot = &names->slots[at];
        if (!slot->used)
            return slot;
        if (slot->scope == scope && slot->name.size == name.size && !memcmp(slot->name.text, name.text, name.size))
            return slot;
    }
}

bool emu_names_init(struct emu_names *names, struct emu_arena *arena)
{
    *names = (struct emu_names){.slot_count = FIRST_SLOTS};
    names->slots = emu_arena_alloc(arena, FIRST_SLOTS, sizeof *names->slots);
    names->scopes = emu_arena_grow(arena, NULL, 0, &names->scope_capacity, sizeof *names->scopes);
    names->scope_count = FIRST_SCOPES; /* the module's and the opcodes' */
    return names->slots && names->scopes;
}

uint32_t emu_names_open(struct emu_names *names, struct emu_arena *arena, uint32_t parent)
{
    struct emu_scope *scopes =
        emu_arena_grow(arena, names->scopes, names->scope_count, &names->scope_capacity, sizeof *scopes);
    if (!scopes || names->scope_count >= UINT32_MAX)
        return 0;
    names->scopes = scopes;
    scopes[names->scope_count] = (struct emu_scope){.parent = parent};
    return (uint32_t)names->scope_count++;
}

const struct emu_symbol *emu_names_get(const struct emu_names *names, uint32_t scope, struct emu_span name)
{
    const struct emu_symbol *slot = find_slot(names, scope, name);
    return slot->used ? slot : NULL;
}

static bool rehash(struct emu_names *names, struct emu_arena *arena)
{
    struct emu_names larger = *names;
    larger.slot_count *= 2;
    larger.slots = emu_arena_alloc(arena, larger.slot_count, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < names->slot_count; i++)
        if (names->slots[i].used)
            *find_slot(&larger, names->slots[i].scope, names->slots[i].name) = names->slots[i];
    *names = larger;
    return true;
}

bool emu_names_add(struct emu_names *names, struct emu_arena *arena, const struct emu_symbol *symbol)
{
    if (names->used >= names->slot_count / 2 && !rehash(names, arena))
        return false;
    struct emu_symbol *slot = find_slot(names, symbol->scope, symbol->name);
    *slot = *symbol;
    slot->used = true;
    names->used++;
    return true;
}

const struct emu_symbol *emu_names_find_label(const struct emu_names *names, uint32_t scope, struct emu_span name)
{
    for (; scope != EMU_MODULE_SCOPE; scope = names->scopes[scope].parent) {
        const struct emu_symbol *symbol = emu_names_get(names, scope, name);
        if (symbol)
            return symbol->kind == EMU_SYMBOL_LABEL ? symbol : NULL;
    }
    return NULL;
}
