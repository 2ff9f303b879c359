/* What a context did last: a ring of events, each of which is also a line of its log. */
#ifndef SMLA_RUNTIME_EVENTS_H
#define SMLA_RUNTIME_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "smla/smla.h"

enum { RT_EVENTS_KEPT = 256 };

/* Zeroed, but for the lock and the process. */
struct rt_events {
    pthread_mutex_t lock;
    uint64_t count; /* since the context was made; atomic to those who do not hold the lock */
    int telling;    /* atomic; threads in the log callback */
    bool muted;     /* atomic; it is not called any more */
    pid_t pid;      /* of the process whose threads these are */
    smla_event ring[RT_EVENTS_KEPT];
};

/* Adds an event and gives it its number. */
void rt_events_add(struct rt_events *events, smla_event *event);

/* Around the context's log callback. Begin is false where it was muted. events: may be NULL. */
bool rt_events_begin_telling(struct rt_events *events);
void rt_events_end_telling(struct rt_events *events);

/* Mutes it, and waits until nobody is in it; in a forked child, which has no such threads, does not. */
void rt_events_mute(struct rt_events *events);

/* Copies those from number `since` on that are still kept, the oldest first. Returns how many. */
size_t rt_events_read(struct rt_events *events, uint64_t since, smla_event *out, size_t capacity);

#endif
