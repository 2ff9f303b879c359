#include "workers.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "process.h"
#include "thread.h"

smla_status rt_workers_init(struct rt_workers *workers)
{
    *workers = (struct rt_workers){.first = NULL};
    workers->last = &workers->first;
    if (pthread_mutex_init(&workers->lock, NULL) != 0)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a lock");
    if (rt_condition_init(&workers->changed))
        return SMLA_OK;
    pthread_mutex_destroy(&workers->lock);
    return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a condition");
}

/* ---- A thread ----------------------------------------------------------------------------------------------- */

static struct rt_work *take(struct rt_workers *workers)
{
    struct rt_work *work = workers->first;

    workers->first = work->next;
    if (workers->first == NULL)
        workers->last = &workers->first;
    workers->queued--;
    return work;
}

static void *work_on(void *user)
{
    struct rt_workers *workers = user;

    pthread_mutex_lock(&workers->lock);
    for (;;) {
        while (workers->first == NULL && !workers->stopping) {
            workers->idle++;
            pthread_cond_wait(&workers->changed, &workers->lock);
            workers->idle--;
        }
        if (workers->first == NULL)
            break;
        struct rt_work *work = take(workers);
        pthread_mutex_unlock(&workers->lock);
        work->run(work);
        pthread_mutex_lock(&workers->lock);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* ---- Who gives work ----------------------------------------------------------------------------------------- */

static bool is_forked(const struct rt_workers *workers)
{
    const pid_t pid = __atomic_load_n(&workers->pid, __ATOMIC_RELAXED);

    return pid != 0 && pid != getpid();
}

/* Its code must not go while it runs, nor what it works with. Returns 0 or an errno. */
static int start_thread(struct rt_workers *workers)
{
    if (workers->count == 0 && !(rt_process_stay_mapped() && rt_process_wait_at_exit()))
        return ENOMEM;
    return rt_thread_start(&workers->threads[workers->count], work_on, workers);
}

/* One more thread where all have work and more may be had. False when there is none at all. */
static bool see_to_threads(struct rt_workers *workers, int *error)
{
    *error = 0;
    if (workers->queued < workers->idle || workers->count == RT_MOST_WORKERS)
        return true;
    *error = start_thread(workers);
    if (*error != 0)
        return workers->count > 0;
    workers->count++;
    __atomic_store_n(&workers->pid, getpid(), __ATOMIC_RELAXED);
    return true;
}

smla_status rt_workers_add(struct rt_workers *workers, struct rt_work *work)
{
    int error;

    if (is_forked(workers))
        return rt_fail(SMLA_ERROR_UNAVAILABLE,
                       "process %ld was forked from %ld after this context had started threads there, and a child has "
                       "none of them: create a context in the child",
                       (long)getpid(), (long)workers->pid);
    pthread_mutex_lock(&workers->lock);
    const bool can = see_to_threads(workers, &error);
    if (can) {
        work->next = NULL;
        *workers->last = work;
        workers->last = &work->next;
        workers->queued++;
        pthread_cond_signal(&workers->changed);
    }
    pthread_mutex_unlock(&workers->lock);
    if (can)
        return SMLA_OK;
    return rt_fail_native(SMLA_ERROR_OUT_OF_MEMORY, error, "no thread to work in the background: %s", strerror(error));
}

/* ---- The end ------------------------------------------------------------------------------------------------ */

static struct rt_work *take_all(struct rt_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    struct rt_work *queue = workers->first;
    workers->first = NULL;
    workers->last = &workers->first;
    workers->stopping = true;
    pthread_cond_broadcast(&workers->changed);
    pthread_mutex_unlock(&workers->lock);
    return queue;
}

void rt_workers_stop(struct rt_workers *workers)
{
    if (is_forked(workers))
        return;
    for (struct rt_work *work = take_all(workers), *next; work; work = next) {
        next = work->next;
        work->drop(work);
    }
    for (int i = 0; i < workers->count; i++)
        pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->changed);
    pthread_mutex_destroy(&workers->lock);
}
