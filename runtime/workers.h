/* A few threads that take work from a queue. */
#ifndef SMLA_RUNTIME_WORKERS_H
#define SMLA_RUNTIME_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "smla/smla.h"

enum { RT_MOST_WORKERS = 4 };

/* Begins a struct that its maker knows. Exactly one of the two is called, once: run by a worker, or drop by
 * rt_workers_stop for what no worker has begun. Either may free it. */
struct rt_work {
    struct rt_work *next;
    void (*run)(struct rt_work *work);
    void (*drop)(struct rt_work *work);
};

struct rt_workers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rt_work *first;
    struct rt_work **last; /* where the next is put */
    int queued;
    int idle;
    int count; /* threads, started when there is work and nobody idle; they stay */
    bool stopping;
    pid_t pid; /* atomic; of the process that has the threads; 0: none yet */
    pthread_t threads[RT_MOST_WORKERS];
};

/* Returns SMLA_OK; OUT_OF_MEMORY. */
smla_status rt_workers_init(struct rt_workers *workers);

/* Puts work into the queue, which is as long as it has to be; does not wait. Returns SMLA_OK; UNAVAILABLE (in a child
 * that was forked after threads were started: it has none of them); OUT_OF_MEMORY (not one thread is to be had). On
 * failure the work is still the caller's. */
smla_status rt_workers_add(struct rt_workers *workers, struct rt_work *work);

/* Drops what is queued, waits for what is running, frees. In a forked child: neither, since another process' threads
 * have the lock and the work. */
void rt_workers_stop(struct rt_workers *workers);

#endif
