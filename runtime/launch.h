/* The one driver call of a call: a launch in the kernel's CUDA context, whatever the caller's is. */
#ifndef SMLA_RUNTIME_LAUNCH_H
#define SMLA_RUNTIME_LAUNCH_H

#include "kernel.h"

/* A tensor map to encode: of [tokens, heads, columns] bf16, in boxes of some heads and columns of one token, with the
 * 128-byte swizzle; what a box has past the ends is zeros, and is not written. */
struct rt_tensor {
    const char *name; /* for messages */
    const void *data;
    uint64_t dims[3];    /* columns, heads, tokens */
    uint64_t strides[2]; /* bytes from a head, a token to the next */
    unsigned int box[3];
};

enum { RT_MAX_TENSOR_MAPS = 2 };
enum { RT_MAX_LAUNCH_ATTRIBUTES = 4 };

struct rt_launch {
    rt_cu_function function; /* of the kernel's */
    const char *name;        /* for messages */
    unsigned int grid_x;     /* blocks */
    unsigned int grid_y;
    int32_t threads; /* a block */
    int32_t shared_bytes;
    void *params; /* the one parameter's struct; read before the function returns */
    int map_count;
    struct rt_tensor tensors[RT_MAX_TENSOR_MAPS];
    void *maps[RT_MAX_TENSOR_MAPS]; /* where in params they are encoded, before the launch: it takes a context */
    struct rt_cu_launch_attribute attributes[RT_MAX_LAUNCH_ATTRIBUTES];
    unsigned int attribute_count;
};

/* Refuses flags that are none of SMLA_LAUNCH_*: INVALID_ARGUMENT. */
smla_status rt_check_launch_flags(uint32_t flags);

/* Adds the attributes that SMLA_LAUNCH_* ask for. */
void rt_add_launch_flags(struct rt_launch *launch, uint32_t flags);

/* In clusters of so many blocks along x, which grid_x is a multiple of. */
void rt_launch_in_clusters(struct rt_launch *launch, unsigned int blocks);

/* What the driver gets. It points into `launch`. */
struct rt_cu_launch_config rt_launch_config(const struct rt_launch *launch, void *stream);

/* In the current context, which is the kernel's. Returns SMLA_OK; DRIVER. */
smla_status rt_launch_here(const struct rt_driver *driver, const struct rt_launch *launch, void *stream);

/* One behind the other; what was launched stays launched when a later one fails. Returns SMLA_OK; DRIVER. The current
 * context is afterwards what it was. */
smla_status rt_launch_all_on(const smla_kernel *kernel, const struct rt_launch *launches, int count, void *stream);

/* The same of one. */
smla_status rt_launch_on(const smla_kernel *kernel, const struct rt_launch *launch, void *stream);

#endif
