#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

struct pool {
    pool_fn fn;
    void *user;
    size_t count;
    size_t next; /* taken with an atomic add */
    pthread_mutex_t lock;
    size_t done; /* under lock, as is worst */
    int worst;
};

static void *work(void *argument)
{
    struct pool *pool = argument;
    for (;;) {
        const size_t index = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (index >= pool->count)
            return NULL;
        char label[160] = "";
        const int code = pool->fn(pool->user, index, label);
        pthread_mutex_lock(&pool->lock);
        pool->worst = cli_worse(pool->worst, code);
        pool->done++;
        if (label[0] != 0)
            cli_progress(pool->done, pool->count, label);
        pthread_mutex_unlock(&pool->lock);
    }
}

static size_t thread_count(size_t wanted, size_t count)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t threads = wanted > 0 ? wanted : cores > 0 ? (size_t)cores : 1;
    return threads < count ? threads : count;
}

int pool_run(size_t count, size_t threads, pool_fn fn, void *user)
{
    struct pool pool = {.fn = fn, .user = user, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (count == 0)
        return CLI_FINE;
    const size_t others = thread_count(threads, count) - 1;
    pthread_t *handles = calloc(others + 1, sizeof *handles);
    size_t started = 0;
    while (handles != NULL && started < others && pthread_create(&handles[started], NULL, work, &pool) == 0)
        started++;
    work(&pool); /* this thread does its share, and all of it when no other could start */
    for (size_t i = 0; i < started; i++)
        pthread_join(handles[i], NULL);
    free(handles);
    return pool.worst;
}
