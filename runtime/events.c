#include "events.h"

#include <time.h>
#include <unistd.h>

#include "clock.h"

void rt_events_add(struct rt_events *events, smla_event *event)
{
    pthread_mutex_lock(&events->lock);
    event->number = events->count;
    events->ring[event->number % RT_EVENTS_KEPT] = *event;
    rt_count(&events->count, 1);
    pthread_mutex_unlock(&events->lock);
}

void rt_events_end_telling(struct rt_events *events)
{
    if (events != NULL)
        __atomic_sub_fetch(&events->telling, 1, __ATOMIC_SEQ_CST);
}

/* The number first: who mutes sees it, or it sees who mutes. */
bool rt_events_begin_telling(struct rt_events *events)
{
    if (events == NULL)
        return true;
    __atomic_add_fetch(&events->telling, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&events->muted, __ATOMIC_SEQ_CST))
        return true;
    rt_events_end_telling(events);
    return false;
}

void rt_events_mute(struct rt_events *events)
{
    const struct timespec moment = {.tv_nsec = 100000};

    __atomic_store_n(&events->muted, true, __ATOMIC_SEQ_CST);
    while (events->pid == getpid() && __atomic_load_n(&events->telling, __ATOMIC_SEQ_CST) > 0)
        nanosleep(&moment, NULL);
}

size_t rt_events_read(struct rt_events *events, uint64_t since, smla_event *out, size_t capacity)
{
    size_t copied = 0;

    pthread_mutex_lock(&events->lock);
    const uint64_t kept = events->count < RT_EVENTS_KEPT ? events->count : RT_EVENTS_KEPT;
    const uint64_t oldest = events->count - kept;
    for (uint64_t number = since > oldest ? since : oldest; number < events->count && copied < capacity; number++)
        out[copied++] = events->ring[number % RT_EVENTS_KEPT];
    pthread_mutex_unlock(&events->lock);
    return copied;
}
