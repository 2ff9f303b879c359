/* A prepare in the background, as those see it who ask for it and the worker that does it. */
#ifndef SMLA_RUNTIME_PREPARATION_H
#define SMLA_RUNTIME_PREPARATION_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cuda_types.h"
#include "error.h"
#include "workers.h"

/* What the preparations of a context share. Outlives the context until the last of them is gone. */
struct rt_preparations {
    pthread_mutex_t lock; /* over all of them, held for moments */
    pthread_cond_t changed;
    int users;  /* the context, and each preparation */
    bool ended; /* the context is being destroyed, or is gone */
    pid_t pid;  /* atomic; of the process that has the workers; 0: none was begun */
};

enum rt_preparation_state { RT_PREPARATION_PENDING, RT_PREPARATION_READY, RT_PREPARATION_FAILED, RT_PREPARATION_TAKEN };

enum { RT_NAME_BYTES = 64 }; /* longer than any format's or target's */

struct smla_preparation {
    struct rt_work work; /* first */
    struct rt_preparations *all;
    pid_t pid;
    int users; /* the caller and the worker */
    enum rt_preparation_state state;
    smla_kernel *kernel;
    struct rt_error error;
    /* What is to be done. */
    smla_context *context;
    rt_cu_context cuda_context;
    smla_kernel_desc desc; /* points to what follows */
    char names[3][RT_NAME_BYTES];
    smla_kv_layout layouts[2];
};

/* Returns SMLA_OK; OUT_OF_MEMORY. */
smla_status rt_preparations_begin(struct rt_preparations **out);

/* The context is going: no kernel is handed over from now on. all: may be NULL. In a forked child that has no part in
 * it: nothing. */
void rt_preparations_end(struct rt_preparations *all);

/* Copies a full-size description. Two users: the caller and the worker. Returns SMLA_OK; UNAVAILABLE (in a child that
 * was forked after a preparation was begun); OUT_OF_MEMORY. */
smla_status rt_preparation_make(struct rt_preparations *all, const smla_kernel_desc *desc, smla_preparation **out);

/* True when its caller has destroyed it, so that nobody wants it. */
bool rt_preparation_is_abandoned(smla_preparation *preparation);

/* The worker's last act: ready with a kernel, or failed with this thread's last error. */
void rt_preparation_finish(smla_preparation *preparation, smla_status status, smla_kernel *kernel);

/* One user less; the last one frees it. */
void rt_preparation_leave(smla_preparation *preparation);

/* Waits until a time of rt_now_ns (0: not at all) and tells as smla_prepare_poll. */
smla_status rt_preparation_ask(smla_preparation *preparation, uint64_t deadline_ns, smla_kernel **out);

#endif
