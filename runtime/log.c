#include "log.h"

#include <stdarg.h>
#include <stdio.h>

void rt_log_line(const struct rt_log *log, int32_t level, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    int length;

    if (log == NULL || log->fn == NULL)
        return;
    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= 0)
        log->fn(log->user, level, line);
}
