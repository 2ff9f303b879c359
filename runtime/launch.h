/* The one driver call of a call: a launch in the kernel's CUDA context, whatever the caller's is. */
#ifndef SMLA_RUNTIME_LAUNCH_H
#define SMLA_RUNTIME_LAUNCH_H

#include "kernel.h"

enum { RT_MAX_LAUNCH_ATTRIBUTES = 4 };

struct rt_launch {
    rt_cu_function function; /* of the kernel's */
    const char *name;        /* for messages */
    unsigned int grid_x;     /* blocks */
    unsigned int grid_y;
    int32_t threads; /* a block */
    int32_t shared_bytes;
    void *params; /* the one parameter's struct; read before the function returns */
    struct rt_cu_launch_attribute attributes[RT_MAX_LAUNCH_ATTRIBUTES];
    unsigned int attribute_count;
};

/* Refuses flags that are none of SMLA_LAUNCH_*: INVALID_ARGUMENT. */
smla_status rt_check_launch_flags(uint32_t flags);

/* Adds the attributes that SMLA_LAUNCH_* ask for. */
void rt_add_launch_flags(struct rt_launch *launch, uint32_t flags);

/* In the current context, which is the kernel's. Returns SMLA_OK; DRIVER. */
smla_status rt_launch_here(const struct rt_driver *driver, const struct rt_launch *launch, void *stream);

/* Returns SMLA_OK; DRIVER. The current context is afterwards what it was. */
smla_status rt_launch_on(const smla_kernel *kernel, const struct rt_launch *launch, void *stream);

#endif
