/* The table of live handles: a stale or foreign one is refused instead of followed. */
#include <stdlib.h>

#include "drv_state.h"

struct slot {
    uint64_t handle;
    void *object;
    enum drv_kind kind;
    bool used; /* now or before: a search goes on behind it */
};

static struct slot *slots;
static size_t slot_count, used_count;

static size_t place(enum drv_kind kind, uint64_t handle)
{
    const uint64_t mixed = (handle ^ ((uint64_t)kind << 56)) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 20) & (slot_count - 1);
}

static struct slot *find_slot(enum drv_kind kind, uint64_t handle)
{
    if (slot_count == 0)
        return NULL;
    for (size_t i = place(kind, handle); slots[i].used; i = (i + 1) & (slot_count - 1))
        if (slots[i].kind == kind && slots[i].handle == handle)
            return &slots[i];
    return NULL;
}

static void insert(struct slot slot)
{
    size_t i = place(slot.kind, slot.handle);
    while (slots[i].kind != DRV_FREE)
        i = (i + 1) & (slot_count - 1);
    used_count += slots[i].used ? 0 : 1;
    slots[i] = slot;
    slots[i].used = true;
}

/* Also drops the marks of freed slots. */
static bool grow(void)
{
    struct slot *old = slots;
    const size_t old_count = slot_count;
    size_t live = 0;
    for (size_t i = 0; i < old_count; i++)
        live += old[i].kind != DRV_FREE;
    size_t count = 256;
    while (count < 4 * (live + 1))
        count *= 2;
    struct slot *fresh = calloc(count, sizeof *fresh);
    if (fresh == NULL)
        return false;
    slots = fresh;
    slot_count = count;
    used_count = 0;
    for (size_t i = 0; i < old_count; i++)
        if (old[i].kind != DRV_FREE)
            insert(old[i]);
    free(old);
    return true;
}

void *drv_find(enum drv_kind kind, uint64_t handle)
{
    const struct slot *slot = handle == 0 ? NULL : find_slot(kind, handle);
    return slot == NULL ? NULL : slot->object;
}

bool drv_add(enum drv_kind kind, uint64_t handle, void *object)
{
    if (2 * (used_count + 1) > slot_count && !grow())
        return false;
    insert((struct slot){handle, object, kind, true});
    return true;
}

void drv_remove(enum drv_kind kind, uint64_t handle)
{
    struct slot *slot = find_slot(kind, handle);
    if (slot != NULL)
        slot->kind = DRV_FREE;
}

void *drv_search(enum drv_kind kind, bool (*match)(void *object, const void *key), const void *key)
{
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].kind == kind && match(slots[i].object, key))
            return slots[i].object;
    return NULL;
}

void *drv_new(enum drv_kind kind, size_t size)
{
    void *object = calloc(1, size);
    if (object != NULL && !drv_add(kind, drv_handle(object), object)) {
        free(object);
        return NULL;
    }
    return object;
}

void drv_delete(enum drv_kind kind, void *object)
{
    drv_remove(kind, drv_handle(object));
    free(object);
}
