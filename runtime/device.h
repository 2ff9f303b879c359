/* The device and the CUDA context that a call is about. */
#ifndef SMLA_RUNTIME_DEVICE_H
#define SMLA_RUNTIME_DEVICE_H

#include <stdbool.h>

#include "driver.h"
#include "plan.h"

struct rt_device {
    const struct rt_driver *driver;
    rt_cu_context context;
    unsigned long long context_id;
    rt_cu_device ordinal;
    int cc_major;
    int cc_minor;
    int max_threads;      /* a block */
    int max_shared_bytes; /* a block, with opt-in */
    int max_grid_y;
    int sm_count; /* of the context: a green one has a part of the device */
    bool pushed;
    char name[96];
};

/* The context that is current in this thread. Returns SMLA_OK; UNAVAILABLE (none); DRIVER. */
smla_status rt_device_current(const struct rt_driver *driver, rt_cu_context *out);

/* The same failure where no driver is loaded. */
smla_status rt_device_fail_none_current(void);

/* Makes `primary` current (NULL: keeps the current one) and reads its device. After OK, and only then, the caller ends
 * with rt_device_leave. Returns SMLA_OK; UNAVAILABLE (no current context); DRIVER. */
smla_status rt_device_enter(struct rt_device *device, const struct rt_driver *driver, rt_cu_context primary);

/* Restores the context that was current. Keeps `status` and the error when it is a failure. */
smla_status rt_device_leave(struct rt_device *device, smla_status status);

/* Finds the target for the device. Returns SMLA_OK; UNSUPPORTED. */
smla_status rt_device_target(const struct rt_device *device, const struct gen_target **out);

/* Refuses code that the device cannot hold, with the numbers: UNSUPPORTED. */
smla_status rt_device_check(const struct rt_device *device, const struct gen_spec *spec, const struct gen_plan *plan);

#endif
