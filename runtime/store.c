#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "thread.h"

enum slot_state { SLOT_BUSY, SLOT_READY, SLOT_FAILED };

struct rt_slot {
    struct rt_slot *next;
    struct rt_key key;
    enum slot_state state;
    int users;            /* who uses the slot: the caller that makes it, those who wait, and who finishes it */
    uint64_t deadline_ns; /* nobody waits longer */
    bool listed;          /* found by new callers; a failure that may pass is not */
    struct rt_entry image;
    struct rt_error *failure; /* allocated beforehand, so that a failure can always be told */
};

smla_status rt_store_init(struct rt_store *store)
{
    store->first = NULL;
    if (pthread_mutex_init(&store->lock, NULL) != 0)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a lock");
    if (!rt_condition_init(&store->changed)) {
        pthread_mutex_destroy(&store->lock);
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a condition");
    }
    return SMLA_OK;
}

static void free_slot(struct rt_slot *slot)
{
    if (slot->state == SLOT_READY)
        rt_entry_free(&slot->image);
    free(slot->failure);
    free(slot);
}

void rt_store_free(struct rt_store *store)
{
    while (store->first) {
        struct rt_slot *next = store->first->next;
        free_slot(store->first);
        store->first = next;
    }
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
}

static bool same_key(const struct rt_key *a, const struct rt_key *b)
{
    return a->kind == b->kind && memcmp(&a->kernel_id, &b->kernel_id, sizeof a->kernel_id) == 0;
}

/* What a caller wants, and what it has no use for. */
struct want {
    const struct rt_key *key;
    int32_t max_nvrtc_major;
    const struct rt_refused *refused;
};

/* The image itself, not one of the same bytes: what was made instead of it is new, whatever its bytes. */
static bool was_refused(const struct rt_refused *refused, const struct rt_entry *image)
{
    for (int i = 0; i < refused->count; i++)
        if (refused->entries[i] == image)
            return true;
    return false;
}

static bool serves(const struct rt_slot *slot, const struct want *want)
{
    if (!same_key(&slot->key, want->key))
        return false;
    if (slot->state != SLOT_READY)
        return true;
    return (want->max_nvrtc_major == 0 || slot->image.info.builder.nvrtc_major <= want->max_nvrtc_major) &&
           !was_refused(want->refused, &slot->image);
}

/* The newest first: what was made instead of a refused image stands before it. */
static struct rt_slot *find_slot(struct rt_store *store, const struct want *want)
{
    for (struct rt_slot *slot = store->first; slot; slot = slot->next)
        if (serves(slot, want))
            return slot;
    return NULL;
}

static struct rt_slot *add_slot(struct rt_store *store, const struct rt_key *key)
{
    struct rt_slot *slot = calloc(1, sizeof *slot);
    struct rt_error *failure = calloc(1, sizeof *failure);

    if (slot == NULL || failure == NULL) {
        free(slot);
        free(failure);
        rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a kernel's record");
        return NULL;
    }
    slot->failure = failure;
    slot->key = *key;
    slot->listed = true;
    slot->users = 1;
    slot->deadline_ns = UINT64_MAX;
    slot->next = store->first;
    store->first = slot;
    return slot;
}

static void unlist(struct rt_store *store, struct rt_slot *slot)
{
    struct rt_slot **link = &store->first;

    while (*link != slot)
        link = &(*link)->next;
    *link = slot->next;
    slot->listed = false;
}

/* The last reader of a slot that nobody can find any more frees it. */
static void leave(struct rt_slot *slot)
{
    slot->users--;
    if (slot->users == 0 && !slot->listed)
        free_slot(slot);
}

static smla_status result_of(struct rt_slot *slot, const struct rt_entry **out)
{
    if (slot->state == SLOT_BUSY)
        return SMLA_PENDING;
    if (slot->state == SLOT_FAILED)
        return rt_error_restore(slot->failure);
    *out = &slot->image;
    return SMLA_OK;
}

static void finish(struct rt_store *store, struct rt_slot *slot, smla_status status, const struct rt_entry *image,
                   bool lasting)
{
    if (status == SMLA_OK) {
        slot->image = *image;
        slot->state = SLOT_READY;
        free(slot->failure);
        slot->failure = NULL;
    } else {
        slot->state = SLOT_FAILED;
        rt_error_save(slot->failure);
        if (!lasting)
            unlist(store, slot);
    }
    pthread_cond_broadcast(&store->changed);
    leave(slot);
}

/* Called with the lock held, which it gives up while making. */
static void make_slot(struct rt_store *store, struct rt_slot *slot, rt_store_make_fn make, void *user)
{
    struct rt_store_made made = {.lasting = false};
    struct rt_entry image;

    slot->users++; /* for who finishes it, which may be over when make returns */
    pthread_mutex_unlock(&store->lock);
    const smla_status status = make(user, &slot->key, slot, &image, &made);
    pthread_mutex_lock(&store->lock);
    if (status == SMLA_PENDING) {
        slot->deadline_ns = made.deadline_ns;
        pthread_cond_broadcast(&store->changed);
    } else {
        finish(store, slot, status, &image, made.lasting);
    }
}

void rt_store_finish(struct rt_store *store, struct rt_slot *slot, smla_status status, const struct rt_entry *image,
                     bool lasting)
{
    pthread_mutex_lock(&store->lock);
    finish(store, slot, status, image, lasting);
    pthread_mutex_unlock(&store->lock);
}

/* Also past the deadline one look is taken. */
static void wait_for(struct rt_store *store, struct rt_slot *slot)
{
    bool in_time = true;

    while (slot->state == SLOT_BUSY && in_time)
        in_time = rt_wait_until(&store->changed, &store->lock, slot->deadline_ns);
}

/* One pass under the lock. *again: the image waited for is of no use here, so look once more. */
static smla_status get_once(struct rt_store *store, const struct want *want, rt_store_make_fn make, void *user,
                            const struct rt_entry **out, enum rt_store_origin *origin, bool *again)
{
    struct rt_slot *slot = find_slot(store, want);

    *again = false;
    if (slot == NULL) {
        *origin = RT_STORE_MADE;
        slot = add_slot(store, want->key);
        if (slot == NULL)
            return SMLA_ERROR_OUT_OF_MEMORY;
        make_slot(store, slot, make, user);
    } else {
        *origin = slot->state == SLOT_BUSY ? RT_STORE_WAITED : RT_STORE_HAD;
        slot->users++;
    }
    wait_for(store, slot);
    *again = *origin != RT_STORE_MADE && !serves(slot, want);
    const smla_status status = *again ? SMLA_OK : result_of(slot, out);
    leave(slot);
    return status;
}

smla_status rt_store_get(struct rt_store *store, const struct rt_key *key, int32_t max_nvrtc_major,
                         const struct rt_refused *refused, rt_store_make_fn make, void *user,
                         const struct rt_entry **out, enum rt_store_origin *origin)
{
    const struct want want = {key, max_nvrtc_major, refused};
    smla_status status;
    bool again;

    pthread_mutex_lock(&store->lock);
    do
        status = get_once(store, &want, make, user, out, origin, &again);
    while (again);
    pthread_mutex_unlock(&store->lock);
    return status;
}

static size_t copy_ready(const struct rt_store *store, struct rt_entry *out)
{
    size_t count = 0;

    for (const struct rt_slot *slot = store->first; slot; slot = slot->next) {
        if (slot->state != SLOT_READY)
            continue;
        if (out)
            out[count] = slot->image;
        count++;
    }
    return count;
}

smla_status rt_store_list(struct rt_store *store, struct rt_entry **out, size_t *count)
{
    pthread_mutex_lock(&store->lock);
    const size_t found = copy_ready(store, NULL);
    struct rt_entry *entries = found > 0 ? malloc(found * sizeof *entries) : NULL;
    if (entries)
        copy_ready(store, entries);
    pthread_mutex_unlock(&store->lock);
    if (found > 0 && entries == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a list of %zu images", found);
    *out = entries;
    *count = found;
    return SMLA_OK;
}
