/* Images in memory, and one making of each at a time. */
#ifndef SMLA_RUNTIME_STORE_H
#define SMLA_RUNTIME_STORE_H

#include <pthread.h>

#include "entry.h"

struct rt_slot;

/* Finished, failed and in-flight images by key. Images stay until the store is freed. */
struct rt_store {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rt_slot *first;
};

/* Makes an image. *lasting: set on failures that the same key will always give; they are remembered. */
typedef smla_status (*rt_store_make_fn)(void *user, const struct rt_key *key, struct rt_entry *out, bool *lasting);

enum rt_store_origin {
    RT_STORE_MADE,  /* by this call, or it failed in it */
    RT_STORE_HAD,   /* finished (or failed for good) before */
    RT_STORE_WAITED /* by another thread, for which this call waited */
};

smla_status rt_store_init(struct rt_store *store);
void rt_store_free(struct rt_store *store);

/* Finds an image or has `make` make it, without the lock held. max_nvrtc_major: an image by a newer major does not
 * count (0: any). *origin is set in every case. *out belongs to the store. A failure is the maker's, also for those
 * who waited: the thread's last error is set to it. */
smla_status rt_store_get(struct rt_store *store, const struct rt_key *key, int32_t max_nvrtc_major,
                         rt_store_make_fn make, void *user, const struct rt_entry **out, enum rt_store_origin *origin);

/* Lists the finished images, in no order: *out is a malloc'd array (NULL when there is none) of entries that belong to
 * the store. Returns SMLA_OK; OUT_OF_MEMORY. */
smla_status rt_store_list(struct rt_store *store, struct rt_entry **out, size_t *count);

#endif
