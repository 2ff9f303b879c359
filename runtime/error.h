/* The thread's last error: what smla_last_error() returns. Fixed storage, so that reporting cannot fail. */
#ifndef SMLA_RUNTIME_ERROR_H
#define SMLA_RUNTIME_ERROR_H

#include <stddef.h>
#include <stdint.h>

#include "smla/smla.h"

/* Records a failure and returns `status`, so that a check is one line. Clears path, log and native code. */
smla_status rt_fail(smla_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As rt_fail, with the number that the driver, NVRTC or the system gave. */
smla_status rt_fail_native(smla_status status, int32_t native_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Add to the failure just recorded; both cut what does not fit. */
void rt_fail_path(const char *path);
void rt_fail_log(const char *log, size_t size);

/* A copy of the last error, to hand a failure from the thread that had it to threads that waited for it. */
struct rt_error {
    smla_status status;
    int32_t native_code;
    char message[3072];
    char path[512];
    char log[8192];
};
void rt_error_save(struct rt_error *copy);
smla_status rt_error_restore(const struct rt_error *copy);

#endif
