/* The map of global memory: which host addresses are device memory, and which of their bytes were written.
 *
 * Each allocation has pages of its own between pages that nobody may touch, so that the host's stray accesses fault as
 * well; its contents are 0xcd at first, so that a read of what was never written shows. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

enum { FRESH_BYTE = 0xcd };

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Whole pages for `size` bytes, at least one; 0 when there is no such number. */
static size_t round_up(size_t size)
{
    const size_t page = page_bytes();
    if (size > SIZE_MAX / 2)
        return 0;
    return size == 0 ? page : (size + page - 1) / page * page;
}

static void *map_guarded(size_t size)
{
    const size_t page = page_bytes(), inside = round_up(size);
    if (inside == 0)
        return NULL;
    uint8_t *base = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (mprotect(base + page, inside, PROT_READ | PROT_WRITE) != 0) {
        munmap(base, inside + 2 * page);
        return NULL;
    }
    memset(base + page, FRESH_BYTE, size);
    return base + page;
}

static void unmap_guarded(uint64_t address, size_t size)
{
    const size_t page = page_bytes();
    munmap((uint8_t *)(uintptr_t)address - page, round_up(size) + 2 * page);
}

struct emu_memory *emu_memory_create(void)
{
    struct emu_memory *memory = calloc(1, sizeof *memory);
    if (memory != NULL && pthread_mutex_init(&memory->lock, NULL) != 0) {
        free(memory);
        return NULL;
    }
    return memory;
}

void emu_memory_destroy(struct emu_memory *memory)
{
    if (memory == NULL)
        return;
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->allocations[i].owned)
            unmap_guarded(memory->allocations[i].address, memory->allocations[i].size);
        free(memory->allocations[i].written);
    }
    free(memory->allocations);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

/* Number of allocations that start at or before an address. */
static size_t count_up_to(const struct emu_memory *memory, uint64_t address)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (memory->allocations[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool holds(const struct emu_allocation *allocation, uint64_t address, size_t size)
{
    return address >= allocation->address && size <= allocation->size &&
           address - allocation->address <= allocation->size - size;
}

/* Where a kernel's accesses go is mostly where the thread's last one went. */
static _Thread_local size_t last_hit;

struct emu_allocation *emu_memory_find(struct emu_memory *memory, uint64_t address, size_t size)
{
    if (last_hit < memory->count && holds(&memory->allocations[last_hit], address, size))
        return &memory->allocations[last_hit];
    const size_t count = count_up_to(memory, address);
    if (count == 0 || !holds(&memory->allocations[count - 1], address, size))
        return NULL;
    last_hit = count - 1;
    return &memory->allocations[count - 1];
}

static bool overlaps(const struct emu_memory *memory, size_t place, uint64_t address, size_t size)
{
    const struct emu_allocation *all = memory->allocations;
    return (place > 0 && all[place - 1].address + all[place - 1].size > address) ||
           (place < memory->count && all[place].address < address + size);
}

static bool reserve(struct emu_memory *memory)
{
    if (memory->count < memory->capacity)
        return true;
    const size_t capacity = memory->capacity == 0 ? 64 : 2 * memory->capacity;
    struct emu_allocation *grown = realloc(memory->allocations, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    memory->allocations = grown;
    memory->capacity = capacity;
    return true;
}

/* One bit for each 4 bytes, in words. */
static size_t mark_words(size_t size)
{
    return size / 128 + 1;
}

static bool insert(struct emu_memory *memory, uint64_t address, size_t size, const char *what, bool owned)
{
    const size_t place = count_up_to(memory, address);
    uint32_t *written = calloc(mark_words(size), sizeof *written);
    if (written == NULL || overlaps(memory, place, address, size) || !reserve(memory)) {
        free(written);
        return false;
    }
    struct emu_allocation *at = memory->allocations + place;
    memmove(at + 1, at, (memory->count - place) * sizeof *at);
    *at = (struct emu_allocation){.address = address, .size = size, .written = written, .what = what, .owned = owned};
    memory->count++;
    return true;
}

uint64_t emu_memory_alloc(struct emu_memory *memory, size_t size, const char *what)
{
    void *pages = map_guarded(size);
    if (pages == NULL)
        return 0;
    const uint64_t address = (uint64_t)(uintptr_t)pages;
    pthread_mutex_lock(&memory->lock);
    const bool ok = insert(memory, address, size, what, true);
    pthread_mutex_unlock(&memory->lock);
    if (ok)
        return address;
    unmap_guarded(address, size);
    return 0;
}

bool emu_memory_add(struct emu_memory *memory, uint64_t address, size_t size, const char *what)
{
    if (size == 0 || address + size < address)
        return false;
    pthread_mutex_lock(&memory->lock);
    const bool ok = insert(memory, address, size, what, false);
    pthread_mutex_unlock(&memory->lock);
    return ok;
}

/* Takes the allocation that starts at an address out of the map. */
static bool take(struct emu_memory *memory, uint64_t address, bool owned, struct emu_allocation *out)
{
    const size_t count = count_up_to(memory, address);
    struct emu_allocation *at = memory->allocations + count - (count > 0);
    if (count == 0 || at->address != address || at->owned != owned)
        return false;
    *out = *at;
    memmove(at, at + 1, (memory->count - count) * sizeof *at);
    memory->count--;
    return true;
}

bool emu_memory_free(struct emu_memory *memory, uint64_t address)
{
    struct emu_allocation taken;
    pthread_mutex_lock(&memory->lock);
    const bool ok = take(memory, address, true, &taken);
    pthread_mutex_unlock(&memory->lock);
    if (!ok)
        return false;
    free(taken.written);
    unmap_guarded(taken.address, taken.size);
    return true;
}

void emu_memory_remove(struct emu_memory *memory, uint64_t address)
{
    struct emu_allocation taken = {0};
    pthread_mutex_lock(&memory->lock);
    take(memory, address, false, &taken);
    pthread_mutex_unlock(&memory->lock);
    free(taken.written);
}

/* Bits are changed atomically: launches mark what they write. */
static void set_bits(uint32_t *words, size_t first, size_t last)
{
    for (size_t bit = first; bit <= last;) {
        const size_t low = bit % 32;
        const size_t count = last - bit < 31 - low ? last - bit + 1 : 32 - low;
        const uint32_t mask = (count == 32 ? UINT32_MAX : (UINT32_C(1) << count) - 1) << low;
        __atomic_fetch_or(&words[bit / 32], mask, __ATOMIC_RELAXED);
        bit += count;
    }
}

void emu_memory_mark(struct emu_memory *memory, uint64_t address, size_t size)
{
    const struct emu_allocation *allocation = emu_memory_find(memory, address, size);
    if (allocation == NULL || size == 0)
        return;
    const size_t first = (size_t)(address - allocation->address);
    set_bits(allocation->written, first / 4, (first + size - 1) / 4);
}

static bool is_marked(const struct emu_allocation *allocation, uint64_t address)
{
    const size_t bit = (size_t)(address - allocation->address) / 4;
    return (allocation->written[bit / 32] >> bit % 32 & 1) != 0;
}

static void clear_mark(struct emu_allocation *allocation, uint64_t address)
{
    const size_t bit = (size_t)(address - allocation->address) / 4;
    allocation->written[bit / 32] &= ~(UINT32_C(1) << bit % 32);
}

/* Cell by cell of the target. A cell that the copy covers in part stays initialised if it was. */
void emu_memory_copy_marks(struct emu_memory *memory, uint64_t to, uint64_t from, size_t size)
{
    struct emu_allocation *target = emu_memory_find(memory, to, size);
    const struct emu_allocation *source = emu_memory_find(memory, from, size);
    if (target == NULL || source == NULL)
        return;
    for (size_t done = 0; done < size;) {
        const size_t in_cell = 4 - (size_t)(to + done - target->address) % 4;
        const size_t step = size - done < in_cell ? size - done : in_cell;
        const bool whole = step == 4;
        if (is_marked(source, from + done) && is_marked(source, from + done + step - 1))
            emu_memory_mark(memory, to + done, step);
        else if (whole)
            clear_mark(target, to + done);
        done += step;
    }
}
