#include "failures.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

struct failure {
    bool whole;
    struct rt_key key;
    struct rt_digest build_id;
    struct rt_error error;
};

/* Fixed, so that nothing is left to free when the library is unloaded; pages that nobody wrote to take no memory. */
static struct failure failures[RT_FAILURES_KEPT];
static unsigned next_failure;

/* ---- A lock that a forked child is not kept from ------------------------------------------------------------ */

static pid_t holder; /* the process whose thread has the lock; 0: nobody */

/* A thread that held it when its process forked does not run in the child, and will not give it back there. It was
 * writing one failure at most, which is not whole. */
static void lock_failures(void)
{
    const pid_t self = getpid();
    pid_t found = 0;

    while (!__atomic_compare_exchange_n(&holder, &found, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (found != self) /* the parent: it is taken from there, in the next round */
            continue;
        found = 0;
        sched_yield();
    }
}

static void unlock_failures(void)
{
    __atomic_store_n(&holder, 0, __ATOMIC_RELEASE);
}

/* ---- What is remembered -------------------------------------------------------------------------------------- */

static struct failure *find(const struct rt_key *key, const struct rt_builder *builder)
{
    for (size_t i = 0; i < RT_FAILURES_KEPT; i++) {
        struct failure *failure = &failures[i];

        if (failure->whole && failure->key.kind == key->kind &&
            memcmp(&failure->key.kernel_id, &key->kernel_id, sizeof key->kernel_id) == 0 &&
            memcmp(&failure->build_id, &builder->build_id, sizeof builder->build_id) == 0)
            return failure;
    }
    return NULL;
}

bool rt_failures_find(const struct rt_key *key, const struct rt_builder *builder)
{
    lock_failures();
    const struct failure *failure = find(key, builder);
    if (failure != NULL)
        rt_error_restore(&failure->error);
    unlock_failures();
    return failure != NULL;
}

void rt_failures_add(const struct rt_key *key, const struct rt_builder *builder)
{
    lock_failures();
    struct failure *failure = find(key, builder);
    if (failure == NULL)
        failure = &failures[next_failure++ % RT_FAILURES_KEPT];
    failure->whole = false;
    failure->key = *key;
    failure->build_id = builder->build_id;
    rt_error_save(&failure->error);
    failure->whole = true;
    unlock_failures();
}

void rt_failures_forget(void)
{
    lock_failures();
    for (size_t i = 0; i < RT_FAILURES_KEPT; i++)
        failures[i].whole = false;
    unlock_failures();
}
