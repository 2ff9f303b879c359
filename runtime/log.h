/* The caller's log callback. No callback, no log: the library prints nothing. */
#ifndef SMLA_RUNTIME_LOG_H
#define SMLA_RUNTIME_LOG_H

#include "smla/smla.h"

struct rt_log {
    smla_log_fn fn; /* NULL: none */
    void *user;
};

void rt_log_line(const struct rt_log *log, int32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
