/* Threads of the library's own, and waiting with a limit. */
#ifndef SMLA_RUNTIME_THREAD_H
#define SMLA_RUNTIME_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread with the stack that a compiler is used to, whatever the process' limit, and with the process' signals
 * blocked: they are for its own threads. Returns 0 or an errno. */
int rt_thread_start(pthread_t *thread, void *(*run)(void *user), void *user);

/* A condition that rt_wait_until can wait for. False when there is no memory for it. */
bool rt_condition_init(pthread_cond_t *condition);

/* pthread_cond_wait until a time of rt_now_ns; UINT64_MAX: without a limit. False when the time is past. */
bool rt_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns);

#endif
