/* What happened, for the caller's log callback and the context's events. No callback, no log: the library prints
 * nothing. */
#ifndef SMLA_RUNTIME_LOG_H
#define SMLA_RUNTIME_LOG_H

#include "key.h"
#include "smla/smla.h"

struct rt_events;

struct rt_log {
    smla_log_fn fn; /* NULL: none */
    void *user;
    struct rt_events *events; /* NULL: none */
};

/* An event, but for its text. */
struct rt_event {
    uint32_t kind;            /* SMLA_EVENT_* */
    int32_t level;            /* SMLA_LOG_* */
    smla_status status;       /* of what failed */
    uint32_t tier;            /* SMLA_TIER_* */
    uint64_t duration_ns;     /* 0: it took none, or nobody knows */
    const struct rt_key *key; /* of the kernel; NULL: it is about none, or several */
    const char *kernel;       /* its description; NULL: not known */
};

/* Keeps an event and hands its line to the callback. log: may be NULL. */
void rt_tell(const struct rt_log *log, const struct rt_event *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
