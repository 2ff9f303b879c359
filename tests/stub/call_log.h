/* The call log of a stub: included by each, so that each has its own. */
#ifndef SMLA_STUB_CALL_LOG_H
#define SMLA_STUB_CALL_LOG_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stub.h"

static pthread_mutex_t call_lock = PTHREAD_MUTEX_INITIALIZER;
static char call_text[STUB_LOG_BYTES];
static size_t call_size;
static int failure_countdown;
static int failures;

static void call_log_clear(void)
{
    pthread_mutex_lock(&call_lock);
    call_size = 0;
    call_text[0] = '\0';
    failure_countdown = 0;
    failures = 0;
    pthread_mutex_unlock(&call_lock);
}

/* Counts this call towards the scripted failure. */
static int scripted_result(const struct stub_script *script, const char *name)
{
    if (script->fail_call == 0 || (script->fail_name && strcmp(script->fail_name, name) != 0))
        return 0;
    failure_countdown++;
    const int later = failure_countdown - script->fail_call;
    if (later < 0 || (later > 0 && (script->again == 0 || later % script->again != 0)))
        return 0;
    failures++;
    return script->fail_code;
}

/* Of a call that no log tells of: the scripted failure, where the script names it, or 0. */
static int called_unlogged(const struct stub_script *script, const char *name)
{
    pthread_mutex_lock(&call_lock);
    const int result = script->fail_name ? scripted_result(script, name) : 0;
    pthread_mutex_unlock(&call_lock);
    return result;
}

/* Logs "name(arguments)", and returns the scripted failure or 0. */
static int called(const struct stub_script *script, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int called(const struct stub_script *script, const char *name, const char *format, ...)
{
    const size_t left_at_least = 2048;
    va_list arguments;

    pthread_mutex_lock(&call_lock);
    const int result = scripted_result(script, name);
    if (call_size + left_at_least < sizeof call_text) {
        call_size += (size_t)sprintf(call_text + call_size, "%s(", name);
        va_start(arguments, format);
        const int written = vsnprintf(call_text + call_size, left_at_least / 2, format, arguments);
        va_end(arguments);
        call_size += written > 0 ? (size_t)written : 0;
        call_size += (size_t)sprintf(call_text + call_size, result ? ") = %d\n" : ")\n", result);
    }
    pthread_mutex_unlock(&call_lock);
    return result;
}

static int call_count(const char *name)
{
    const size_t length = name ? strlen(name) : 0;
    int count = 0;

    pthread_mutex_lock(&call_lock);
    for (const char *line = call_text; *line; line = strchr(line, '\n') + 1)
        count += name == NULL || (strncmp(line, name, length) == 0 && line[length] == '(');
    pthread_mutex_unlock(&call_lock);
    return count;
}

static int failure_count(void)
{
    pthread_mutex_lock(&call_lock);
    const int count = failures;
    pthread_mutex_unlock(&call_lock);
    return count;
}

static const char *call_log_text(void)
{
    return call_text;
}

#endif
