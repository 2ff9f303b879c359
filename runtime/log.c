#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "events.h"

/* The clock that people and other hosts have. */
static uint64_t now_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void keep(struct rt_events *events, const struct rt_event *event, const char *line)
{
    smla_event kept = {.struct_size = sizeof kept,
                       .kind = event->kind,
                       .time_ns = now_ns(),
                       .duration_ns = event->duration_ns,
                       .status = event->status,
                       .tier = event->tier};

    if (event->key != NULL)
        rt_digest_hex(&event->key->kernel_id, kept.kernel_id);
    if (event->kernel != NULL)
        snprintf(kept.kernel, sizeof kept.kernel, "%s", event->kernel);
    snprintf(kept.message, sizeof kept.message, "%s", line);
    rt_events_add(events, &kept);
}

void rt_tell(const struct rt_log *log, const struct rt_event *event, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    int length;

    if (log == NULL || (log->fn == NULL && log->events == NULL))
        return;
    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (log->events != NULL)
        keep(log->events, event, line);
    if (log->fn == NULL || !rt_events_begin_telling(log->events))
        return;
    log->fn(log->user, event->level, line);
    rt_events_end_telling(log->events);
}
