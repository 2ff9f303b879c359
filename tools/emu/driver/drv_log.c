/* Sentences about what went wrong, by the driver's own log functions; and the report of findings. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drv_extra.h"
#include "drv_state.h"

int drv_log(int result, const char *format, ...)
{
    char *line = drv.log[drv.log_count % DRV_LOG_LINES];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(line, DRV_LOG_BYTES, format, arguments) < 0)
        line[0] = '\0';
    va_end(arguments);
    drv.log_count++;
    if (drv.logs.callback != NULL)
        drv.logs.callback(drv.logs.user, 0, line, strlen(line));
    return result;
}

const char *drv_last_message(void)
{
    return drv.log_count == 0 ? "" : drv.log[(drv.log_count - 1) % DRV_LOG_LINES];
}

void drv_write_report(bool last)
{
    /* Standard error gets it once. */
    if (!last && strcmp(drv.settings.report, "-") == 0)
        return;
    if (drv.settings.report[0] != '\0' && !emu_report_write(drv.report, drv.settings.report))
        drv_log(0, "the report cannot be written to %s", drv.settings.report);
}

static unsigned int oldest(void)
{
    return drv.log_count < DRV_LOG_LINES ? 0 : drv.log_count - DRV_LOG_LINES;
}

int cuLogsRegisterCallback(cu_logs_callback callback, void *user, cu_logs_handle *out)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(callback != NULL, CUDA_ERROR_INVALID_VALUE);
    if (drv.logs.callback != NULL)
        return drv_log(DRV_CUDA_ERROR_NOT_SUPPORTED, "the emulated device keeps one log callback");
    drv.logs.callback = callback;
    drv.logs.user = user;
    if (out != NULL)
        *out = &drv.logs;
    return DRV_CUDA_SUCCESS;
}

int cuLogsUnregisterCallback(cu_logs_handle callback)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(callback == &drv.logs && drv.logs.callback != NULL, CUDA_ERROR_INVALID_VALUE);
    drv.logs.callback = NULL;
    return DRV_CUDA_SUCCESS;
}

int cuLogsCurrent(unsigned int *iterator, unsigned int flags)
{
    DRV_CHECK(iterator != NULL && flags == 0, CUDA_ERROR_INVALID_VALUE);
    pthread_mutex_lock(&drv.lock);
    *iterator = drv.log_count;
    pthread_mutex_unlock(&drv.lock);
    return DRV_CUDA_SUCCESS;
}

/* Lines from *iterator (NULL: all that are kept) as one text; the newest ones when not all fit. */
static size_t collect(unsigned int first, char *buffer, size_t capacity)
{
    size_t length = 0;
    unsigned int from = drv.log_count;
    while (from > first) {
        const size_t line = strlen(drv.log[(from - 1) % DRV_LOG_LINES]) + 1;
        if (length + line + 1 > capacity)
            break;
        length += line;
        from--;
    }
    char *end = buffer;
    for (; from < drv.log_count; from++)
        end += sprintf(end, "%s\n", drv.log[from % DRV_LOG_LINES]);
    return length;
}

static unsigned int first_line(const unsigned int *iterator)
{
    return iterator == NULL || *iterator < oldest() || *iterator > drv.log_count ? oldest() : *iterator;
}

int cuLogsDumpToMemory(unsigned int *iterator, char *buffer, size_t *size, unsigned int flags)
{
    DRV_CHECK(buffer != NULL && size != NULL && flags == 0, CUDA_ERROR_INVALID_VALUE);
    if (drv.forked)
        return DRV_CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&drv.lock);
    const unsigned int first = first_line(iterator);
    *size = collect(first, buffer, *size);
    const bool cut = *size == 0 && first < drv.log_count;
    if (iterator != NULL && !cut)
        *iterator = drv.log_count;
    pthread_mutex_unlock(&drv.lock);
    return cut ? DRV_CUDA_ERROR_INVALID_VALUE : DRV_CUDA_SUCCESS;
}

int cuLogsDumpToFile(unsigned int *iterator, const char *path, unsigned int flags)
{
    DRV_CHECK(path != NULL && flags == 0, CUDA_ERROR_INVALID_VALUE);
    DRV_ENTER(DRV_NEED_INIT);
    FILE *file = fopen(path, "w");
    DRV_CHECK(file != NULL, CUDA_ERROR_INVALID_VALUE);
    for (unsigned int i = first_line(iterator); i < drv.log_count; i++)
        fprintf(file, "%s\n", drv.log[i % DRV_LOG_LINES]);
    if (iterator != NULL)
        *iterator = drv.log_count;
    return fclose(file) == 0 ? DRV_CUDA_SUCCESS : DRV_CUDA_ERROR_OPERATING_SYSTEM;
}

/* ---- The emulated device's own ---- */

int smla_emu_version(void)
{
    return 1;
}

size_t smla_emu_message(char *buffer, size_t capacity)
{
    if (drv.forked)
        return 0;
    pthread_mutex_lock(&drv.lock);
    const int length = snprintf(buffer, capacity, "%s", drv_last_message());
    pthread_mutex_unlock(&drv.lock);
    return length < 0 ? 0 : (size_t)length;
}

uint64_t smla_emu_finding_count(void)
{
    uint64_t count = 0;
    if (drv.forked)
        return 0;
    pthread_mutex_lock(&drv.lock);
    if (drv.report != NULL) {
        pthread_mutex_lock(&drv.report->lock);
        count = (uint64_t)drv.report->count;
        pthread_mutex_unlock(&drv.report->lock);
    }
    pthread_mutex_unlock(&drv.lock);
    return count;
}

bool smla_emu_write_report(const char *path)
{
    if (drv.forked)
        return false;
    pthread_mutex_lock(&drv.lock);
    const bool ok = drv.report != NULL && emu_report_write(drv.report, path);
    pthread_mutex_unlock(&drv.lock);
    return ok;
}
