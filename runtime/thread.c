#include "thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum { STACK_BYTES = 8 << 20 };

/* But a fault is for who is at fault. */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t blocked;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

int rt_thread_start(pthread_t *thread, void *(*run)(void *user), void *user)
{
    pthread_attr_t attributes;
    sigset_t before;
    int error = pthread_attr_init(&attributes);

    if (error != 0)
        return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (error == 0) {
        block_signals(&before);
        error = pthread_create(thread, &attributes, run, user);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

/* By the clock of rt_now_ns, which nobody sets. */
bool rt_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    if (pthread_condattr_init(&attributes) != 0)
        return false;
    const bool made =
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 && pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return made;
}

bool rt_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                      .tv_nsec = (long)(deadline_ns % 1000000000u)};

    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(condition, lock) == 0;
    return pthread_cond_timedwait(condition, lock, &deadline) != ETIMEDOUT;
}
