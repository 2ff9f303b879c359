/* Memory that is freed all at once: what is made of one PTX text lives in one arena. */
#ifndef EMU_ARENA_H
#define EMU_ARENA_H

#include <stddef.h>

struct emu_arena;

/* An arena that gives out at most `limit` bytes: PTX is untrusted, and a short text can ask for much. */
struct emu_arena *emu_arena_create(size_t limit);
/* Frees everything; NULL is harmless. */
void emu_arena_destroy(struct emu_arena *arena);

/* count * size zeroed bytes, aligned to 16; NULL when memory or the limit is reached, or the product overflows. */
void *emu_arena_alloc(struct emu_arena *arena, size_t count, size_t size);
/* The same with an alignment, a power of two. */
void *emu_arena_aligned(struct emu_arena *arena, size_t size, size_t align);
/* A NUL-terminated copy. */
char *emu_arena_copy(struct emu_arena *arena, const char *text, size_t size);

/* Makes room for one more element: returns items, or a copy of them twice as long. NULL as in emu_arena_alloc. */
void *emu_arena_grow(struct emu_arena *arena, void *items, size_t count, size_t *capacity, size_t size);

#endif
