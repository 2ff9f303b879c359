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

/* What else came of making an image. */
struct rt_store_made {
    bool lasting;         /* a failure that the same key will always give: it is remembered */
    uint64_t deadline_ns; /* with SMLA_PENDING: until when, by rt_now_ns, others wait for the image */
};

/* Makes an image. SMLA_PENDING: another thread makes it, and will call rt_store_finish with this slot. */
typedef smla_status (*rt_store_make_fn)(void *user, const struct rt_key *key, struct rt_slot *slot,
                                        struct rt_entry *out, struct rt_store_made *made);

enum rt_store_origin {
    RT_STORE_MADE,  /* by this call, or it failed in it */
    RT_STORE_HAD,   /* finished (or failed for good) before */
    RT_STORE_WAITED /* by another thread, for which this call waited */
};

smla_status rt_store_init(struct rt_store *store);
void rt_store_free(struct rt_store *store);

/* Finds an image or has `make` make it, without the lock held. max_nvrtc_major: an image by a newer major does not
 * count (0: any), nor does one that was refused. *origin is set in every case. *out belongs to the store. A failure is
 * the maker's, also for those who waited: the thread's last error is set to it. SMLA_PENDING, without an error: it is
 * being made, and the deadline is past. */
smla_status rt_store_get(struct rt_store *store, const struct rt_key *key, int32_t max_nvrtc_major,
                         const struct rt_refused *refused, rt_store_make_fn make, void *user,
                         const struct rt_entry **out, enum rt_store_origin *origin);

/* Ends what a make began that returned SMLA_PENDING: with an image, which is the store's from then on, or with a
 * failure, which is this thread's last error. */
void rt_store_finish(struct rt_store *store, struct rt_slot *slot, smla_status status, const struct rt_entry *image,
                     bool lasting);

/* Lists the finished images, in no order: *out is a malloc'd array (NULL when there is none) of entries that belong to
 * the store. Returns SMLA_OK; OUT_OF_MEMORY. */
smla_status rt_store_list(struct rt_store *store, struct rt_entry **out, size_t *count);

#endif
