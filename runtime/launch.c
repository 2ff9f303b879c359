#include "launch.h"

#include "error.h"

static smla_status encode_map(const struct rt_driver *driver, const struct rt_tensor *tensor, void *map)
{
    static const unsigned int steps[3] = {1, 1, 1};
    const rt_cu_result result = driver->cuTensorMapEncodeTiled(
        map, RT_CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, (void *)(uintptr_t)tensor->data, tensor->dims, tensor->strides,
        tensor->box, steps, RT_CU_TENSOR_MAP_INTERLEAVE_NONE, RT_CU_TENSOR_MAP_SWIZZLE_128B,
        RT_CU_TENSOR_MAP_L2_PROMOTION_L2_256B, RT_CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuTensorMapEncodeTiled of %s (strides of %llu and %llu bytes)",
                              tensor->name, (unsigned long long)tensor->strides[1],
                              (unsigned long long)tensor->strides[0]);
    return SMLA_OK;
}

smla_status rt_check_launch_flags(uint32_t flags)
{
    if (flags & ~(uint32_t)SMLA_LAUNCH_AFTER_PREVIOUS)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                       "launch_flags 0x%x: SMLA_LAUNCH_AFTER_PREVIOUS (0x1) is all there is", (unsigned)flags);
    return SMLA_OK;
}

void rt_add_launch_flags(struct rt_launch *launch, uint32_t flags)
{
    if (flags & SMLA_LAUNCH_AFTER_PREVIOUS)
        launch->attributes[launch->attribute_count++] =
            (struct rt_cu_launch_attribute){.id = RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                            .value.programmaticStreamSerializationAllowed = 1};
}

void rt_launch_in_clusters(struct rt_launch *launch, unsigned int blocks)
{
    struct rt_cu_launch_attribute *attribute = &launch->attributes[launch->attribute_count++];

    *attribute = (struct rt_cu_launch_attribute){.id = RT_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attribute->value.clusterDim.x = blocks;
    attribute->value.clusterDim.y = 1;
    attribute->value.clusterDim.z = 1;
}

struct rt_cu_launch_config rt_launch_config(const struct rt_launch *launch, void *stream)
{
    return (struct rt_cu_launch_config){
        .gridDimX = launch->grid_x,
        .gridDimY = launch->grid_y,
        .gridDimZ = 1,
        .blockDimX = (unsigned int)launch->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned int)launch->shared_bytes,
        .hStream = stream,
        .attrs = launch->attribute_count ? launch->attributes : NULL,
        .numAttrs = launch->attribute_count,
    };
}

smla_status rt_launch_here(const struct rt_driver *driver, const struct rt_launch *launch, void *stream)
{
    const struct rt_cu_launch_config config = rt_launch_config(launch, stream);
    void *parameters[] = {launch->params};

    for (int i = 0; i < launch->map_count; i++) {
        const smla_status status = encode_map(driver, &launch->tensors[i], launch->maps[i]);
        if (status != SMLA_OK)
            return status;
    }
    const rt_cu_result result = driver->cuLaunchKernelEx(&config, launch->function, parameters, NULL);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "the launch of %s (%u x %u blocks of %d threads, %d bytes shared)",
                              launch->name, config.gridDimX, config.gridDimY, launch->threads, launch->shared_bytes);
    return SMLA_OK;
}

static smla_status launch_all_here(const struct rt_driver *driver, const struct rt_launch *launches, int count,
                                   void *stream)
{
    smla_status status = SMLA_OK;

    for (int i = 0; status == SMLA_OK && i < count; i++)
        status = rt_launch_here(driver, &launches[i], stream);
    return status;
}

static smla_status launch_pushed(const smla_kernel *kernel, const struct rt_launch *launches, int count, void *stream)
{
    const struct rt_driver *driver = kernel->driver;
    rt_cu_context popped;
    rt_cu_result result = driver->cuCtxPushCurrent(kernel->cuda_context);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(driver, result, "cuCtxPushCurrent of the kernel's context");
    const smla_status status = launch_all_here(driver, launches, count, stream);
    result = driver->cuCtxPopCurrent(&popped);
    if (result != RT_CUDA_SUCCESS && status == SMLA_OK)
        return rt_driver_fail(driver, result, "%s was launched, but cuCtxPopCurrent afterwards", kernel->name);
    return status;
}

smla_status rt_launch_all_on(const smla_kernel *kernel, const struct rt_launch *launches, int count, void *stream)
{
    rt_cu_context current = NULL;
    const rt_cu_result result = kernel->driver->cuCtxGetCurrent(&current);

    if (result != RT_CUDA_SUCCESS)
        return rt_driver_fail(kernel->driver, result, "cuCtxGetCurrent");
    return current == kernel->cuda_context ? launch_all_here(kernel->driver, launches, count, stream)
                                           : launch_pushed(kernel, launches, count, stream);
}

smla_status rt_launch_on(const smla_kernel *kernel, const struct rt_launch *launch, void *stream)
{
    return rt_launch_all_on(kernel, launch, 1, stream);
}
