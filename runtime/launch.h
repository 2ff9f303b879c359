/* The one driver call of a call: a launch in the kernel's CUDA context, whatever the caller's is. */
#ifndef SMLA_RUNTIME_LAUNCH_H
#define SMLA_RUNTIME_LAUNCH_H

#include "kernel.h"

struct rt_launch {
    rt_cu_function function; /* of the kernel's */
    unsigned int grid_x;     /* blocks, of kernel->threads and kernel->shared_bytes */
    unsigned int grid_y;
    void *params; /* the one parameter's struct; read before the function returns */
};

/* Returns SMLA_OK; DRIVER. The current context is afterwards what it was. */
smla_status rt_launch_on(const smla_kernel *kernel, const struct rt_launch *launch, void *stream);

#endif
