/* Counters and the clock that feeds some of them. */
#ifndef SMLA_RUNTIME_CLOCK_H
#define SMLA_RUNTIME_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Counters are for people: relaxed, and read at any time. */
static inline void rt_count(uint64_t *counter, uint64_t amount)
{
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static inline uint64_t rt_counted(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline uint64_t rt_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
