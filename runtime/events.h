/* What a context did last: a ring of events, each of which is also a line of its log. */
#ifndef SMLA_RUNTIME_EVENTS_H
#define SMLA_RUNTIME_EVENTS_H

#include <pthread.h>
#include <stddef.h>

#include "smla/smla.h"

enum { RT_EVENTS_KEPT = 256 };

/* Zeroed, but for the lock. */
struct rt_events {
    pthread_mutex_t lock;
    uint64_t count; /* since the context was made; atomic to those who do not hold the lock */
    smla_event ring[RT_EVENTS_KEPT];
};

/* Adds an event and gives it its number. */
void rt_events_add(struct rt_events *events, smla_event *event);

/* Copies those from number `since` on that are still kept, the oldest first. Returns how many. */
size_t rt_events_read(struct rt_events *events, uint64_t since, smla_event *out, size_t capacity);

#endif
