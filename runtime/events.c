#include "events.h"

#include "clock.h"

void rt_events_add(struct rt_events *events, smla_event *event)
{
    pthread_mutex_lock(&events->lock);
    event->number = events->count;
    events->ring[event->number % RT_EVENTS_KEPT] = *event;
    rt_count(&events->count, 1);
    pthread_mutex_unlock(&events->lock);
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
