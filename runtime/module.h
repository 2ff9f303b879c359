/* Code handed to the driver, and its functions in one CUDA context. */
#ifndef SMLA_RUNTIME_MODULE_H
#define SMLA_RUNTIME_MODULE_H

#include <pthread.h>

#include "device.h"
#include "entry.h"
#include "log.h"
#include "plan.h"

struct rt_module {
    struct rt_module *next;
    const struct rt_entry *image;
    unsigned long long cuda_context_id; /* a context's address may come again, its id does not */
    rt_cu_library library;
    rt_cu_function functions[GEN_MAX_VARIANTS];
    bool ready;
    bool refused; /* the last attempt failed by what the image is */
};

struct rt_modules {
    pthread_mutex_t lock; /* also held while loading: one load of a kernel, and loads wait for the device anyway */
    struct rt_module *first;
    const struct rt_log *log;
    uint64_t loaded; /* counters */
    uint64_t load_ns;
};

/* log: outlives the modules. */
smla_status rt_modules_init(struct rt_modules *modules, const struct rt_log *log);

/* Finds or loads an image for the device's CUDA context, which must be current: library, kernels, functions, dynamic
 * shared memory, parameter layout. *out belongs to the modules. Returns SMLA_OK; DRIVER; INTERNAL (the parameter
 * layout is not this library's); OUT_OF_MEMORY. *refused: whether the driver failed by what the image is, so that
 * another may do. */
smla_status rt_modules_get(struct rt_modules *modules, const struct rt_device *device, const struct rt_entry *image,
                           const struct gen_plan *plan, const struct rt_module **out, bool *refused);

/* Unloads everything. False when the driver is on its way out, and is to be left alone. Unloading ends stream captures
 * and waits for kernels, so nothing is unloaded before (facts/jit.md §0.4). */
bool rt_modules_unload(struct rt_modules *modules, const struct rt_driver *driver);
void rt_modules_free(struct rt_modules *modules);

#endif
