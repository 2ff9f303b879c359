#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sized.h"

static _Thread_local struct rt_error last_error;

static void copy_text(char *to, size_t capacity, const char *from, size_t size)
{
    const size_t length = size < capacity ? size : capacity - 1;

    memcpy(to, from, length);
    to[length] = '\0';
}

/* Through a buffer: the arguments may be strings of the last error itself. */
static smla_status record(smla_status status, int32_t native_code, const char *format, va_list arguments)
{
    char message[sizeof last_error.message];

    if (vsnprintf(message, sizeof message, format, arguments) < 0)
        message[0] = '\0';
    memcpy(last_error.message, message, sizeof message);
    last_error.status = status;
    last_error.native_code = native_code;
    last_error.path[0] = '\0';
    last_error.log[0] = '\0';
    return status;
}

smla_status rt_fail(smla_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(status, 0, format, arguments);
    va_end(arguments);
    return status;
}

smla_status rt_fail_native(smla_status status, int32_t native_code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(status, native_code, format, arguments);
    va_end(arguments);
    return status;
}

void rt_fail_path(const char *path)
{
    copy_text(last_error.path, sizeof last_error.path, path, strlen(path));
}

void rt_fail_log(const char *log, size_t size)
{
    copy_text(last_error.log, sizeof last_error.log, log, strnlen(log, size));
}

void rt_error_save(struct rt_error *copy)
{
    *copy = last_error;
}

smla_status rt_error_restore(const struct rt_error *copy)
{
    last_error = *copy;
    return copy->status;
}

smla_status smla_last_error(smla_error_info *info)
{
    const smla_error_info full = {
        .struct_size = sizeof full,
        .status = last_error.status,
        .native_code = last_error.native_code,
        .message = last_error.message,
        .path = last_error.path,
        .log = last_error.log,
    };

    return rt_sized_write(info, &full, sizeof full);
}

const char *smla_status_text(smla_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                                                 \
    case name:                                                                                                         \
        return text;
        SMLA_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "unknown status";
    }
}
