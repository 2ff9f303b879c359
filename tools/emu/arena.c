#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16, ARENA_CHUNK = 1 << 16 };

struct chunk {
    struct chunk *next;
};

struct emu_arena {
    struct chunk *chunks; /* the first one is being filled */
    char *next;
    size_t left;
    size_t limit; /* bytes that may still be taken from the system */
};

struct emu_arena *emu_arena_create(size_t limit)
{
    struct emu_arena *arena = calloc(1, sizeof *arena);
    if (arena)
        arena->limit = limit;
    return arena;
}

void emu_arena_destroy(struct emu_arena *arena)
{
    if (!arena)
        return;
    for (struct chunk *chunk = arena->chunks; chunk;) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    free(arena);
}

/* A chunk with room for `size` bytes behind its header. */
static struct chunk *add_chunk(struct emu_arena *arena, size_t size)
{
    if (size > arena->limit)
        return NULL;
    struct chunk *chunk = calloc(1, size + ARENA_ALIGN);
    if (!chunk)
        return NULL;
    arena->limit -= size;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

/* A large block gets a chunk of its own; the one being filled stays in use. */
static void *alloc_large(struct emu_arena *arena, size_t size)
{
    struct chunk *chunk = add_chunk(arena, size);
    return chunk ? (char *)chunk + ARENA_ALIGN : NULL;
}

void *emu_arena_alloc(struct emu_arena *arena, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX / 4) / size)
        return NULL;
    size_t bytes = (count * size + ARENA_ALIGN) & ~(size_t)(ARENA_ALIGN - 1); /* never 0 */
    if (bytes > ARENA_CHUNK / 4)
        return alloc_large(arena, bytes);
    if (bytes > arena->left) {
        struct chunk *chunk = add_chunk(arena, ARENA_CHUNK);
        if (!chunk)
            return NULL;
        arena->next = (char *)chunk + ARENA_ALIGN;
        arena->left = ARENA_CHUNK;
    }
    void *result = arena->next;
    arena->next += bytes;
    arena->left -= bytes;
    return result;
}

void *emu_arena_aligned(struct emu_arena *arena, size_t size, size_t align)
{
    if (size > SIZE_MAX / 4 || align > SIZE_MAX / 4)
        return NULL;
    char *block = emu_arena_alloc(arena, size + align, 1);
    return block ? block + (-(uintptr_t)block & (align - 1)) : NULL;
}

char *emu_arena_copy(struct emu_arena *arena, const char *text, size_t size)
{
    char *copy = emu_arena_alloc(arena, size + 1, 1);
    if (copy && size)
        memcpy(copy, text, size);
    return copy;
}

void *emu_arena_grow(struct emu_arena *arena, void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    size_t longer = *capacity ? *capacity * 2 : 16;
    void *copy = emu_arena_alloc(arena, longer, size);
    if (!copy)
        return NULL;
    if (count)
        memcpy(copy, items, count * size);
    *capacity = longer;
    return copy;
}
