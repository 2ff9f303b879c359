#include "process.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"

/* ---- Its end ------------------------------------------------------------------------------------------------ */

static bool ending;              /* atomic */
static uint64_t working;         /* atomic; the process in the upper half, how much work it is at in the lower */
static __thread uint32_t of_own; /* of this thread */

static uint64_t nothing(void)
{
    return (uint64_t)getpid() << 32;
}

/* A forked child has its parent's number, but not its threads. */
static void begin(void)
{
    const uint64_t own = nothing();
    uint64_t before = __atomic_load_n(&working, __ATOMIC_SEQ_CST), after;

    do
        after = (before >> 32 == own >> 32 ? before : own) + 1;
    while (!__atomic_compare_exchange_n(&working, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    of_own++;
}

/* The child of a fork in the middle of it, on the stack of the thread that forked, ends what it did not begin. */
void rt_process_end_work(void)
{
    if (__atomic_load_n(&working, __ATOMIC_SEQ_CST) >> 32 == nothing() >> 32)
        __atomic_fetch_sub(&working, 1, __ATOMIC_SEQ_CST);
    of_own--;
}

/* The number first: what exit() does not see there sees that the process is ending. */
smla_status rt_process_begin_work(void)
{
    begin();
    if (!__atomic_load_n(&ending, __ATOMIC_SEQ_CST))
        return SMLA_OK;
    rt_process_end_work();
    return rt_fail(SMLA_ERROR_UNAVAILABLE,
                   "the process is ending: exit() was called, and since then nothing is compiled "
                   "or loaded, because the compiler and the driver may be gone");
}

/* Without a lock, which a thread that was killed or cancelled might have. What this thread is at itself, where a log
 * callback calls exit(), is never over. */
static void wait_for_work(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    const uint64_t deadline_ns = rt_now_ns() + (uint64_t)RT_PROCESS_WAIT_MS * 1000000;

    __atomic_store_n(&ending, true, __ATOMIC_SEQ_CST);
    const uint64_t done = nothing() + of_own;
    for (;;) {
        const uint64_t now = __atomic_load_n(&working, __ATOMIC_SEQ_CST);
        if (now >> 32 != done >> 32 || now <= done || rt_now_ns() > deadline_ns)
            return;
        nanosleep(&moment, NULL);
    }
}

bool rt_process_wait_at_exit(void)
{
    return atexit(wait_for_work) == 0;
}

/* ---- The library in it -------------------------------------------------------------------------------------- */

bool rt_process_stay_mapped(void)
{
    bool (*const self)(void) = rt_process_stay_mapped;
    struct link_map *map = NULL;
    const void *address;
    Dl_info info;

    memcpy(&address, &self, sizeof address);
    if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL || map->l_name[0] == '\0')
        return true; /* in the program itself, which nobody closes */
    return dlopen(map->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}
