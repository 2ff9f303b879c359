/* The one device and what it says about itself: an H200's numbers where a program could depend on them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drv_device.h"
#include "drv_state.h"

/* Attribute, value. What is not here is 0: textures, managed memory on demand, IPC, peers. */
static const struct {
    int attribute, value;
} attributes[] = {
    {1, DRV_MAX_THREADS},        /* MAX_THREADS_PER_BLOCK */
    {2, 1024},                   /* MAX_BLOCK_DIM_X */
    {3, 1024},                   /* MAX_BLOCK_DIM_Y */
    {4, 64},                     /* MAX_BLOCK_DIM_Z */
    {5, 2147483647},             /* MAX_GRID_DIM_X */
    {6, 65535},                  /* MAX_GRID_DIM_Y */
    {7, 65535},                  /* MAX_GRID_DIM_Z */
    {8, DRV_MAX_SHARED_DEFAULT}, /* MAX_SHARED_MEMORY_PER_BLOCK */
    {9, 65536},                  /* TOTAL_CONSTANT_MEMORY */
    {10, 32},                    /* WARP_SIZE */
    {11, 2147483647},            /* MAX_PITCH */
    {12, DRV_REGISTERS_PER_SM},  /* MAX_REGISTERS_PER_BLOCK */
    {13, 1000000},               /* CLOCK_RATE, kHz: virtual time has one warp instruction a nanosecond */
    {14, 512},                   /* TEXTURE_ALIGNMENT */
    {15, 1},                     /* GPU_OVERLAP */
    {19, 1},                     /* CAN_MAP_HOST_MEMORY */
    {31, 1},                     /* CONCURRENT_KERNELS */
    {36, 1000000},               /* MEMORY_CLOCK_RATE */
    {37, 6144},                  /* GLOBAL_MEMORY_BUS_WIDTH */
    {38, 62914560},              /* L2_CACHE_SIZE */
    {39, DRV_THREADS_PER_SM},    /* MAX_THREADS_PER_MULTIPROCESSOR */
    {40, 3},                     /* ASYNC_ENGINE_COUNT */
    {41, 1},                     /* UNIFIED_ADDRESSING */
    {51, 32},                    /* TEXTURE_PITCH_ALIGNMENT */
    {78, 1},                     /* STREAM_PRIORITIES_SUPPORTED */
    {79, 1},                     /* GLOBAL_L1_CACHE_SUPPORTED */
    {80, 1},                     /* LOCAL_L1_CACHE_SUPPORTED */
    {81, DRV_SHARED_PER_SM},     /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
    {82, DRV_REGISTERS_PER_SM},  /* MAX_REGISTERS_PER_MULTIPROCESSOR */
    {83, 1},                     /* MANAGED_MEMORY */
    {87, 2},                     /* SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO */
    {89, 1},                     /* CONCURRENT_MANAGED_ACCESS */
    {90, 1},                     /* COMPUTE_PREEMPTION_SUPPORTED */
    {91, 1},                     /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
    {95, 1},                     /* COOPERATIVE_LAUNCH */
    {97, DRV_MAX_SHARED_OPTIN},  /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    {99, 1},                     /* HOST_REGISTER_SUPPORTED */
    {106, DRV_BLOCKS_PER_SM},    /* MAX_BLOCKS_PER_MULTIPROCESSOR */
    {111, EMU_SHARED_RESERVED},  /* RESERVED_SHARED_MEMORY_PER_BLOCK */
    {115, 1},                    /* MEMORY_POOLS_SUPPORTED */
    {120, 1},                    /* CLUSTER_LAUNCH */
    {126, 4},                    /* MEM_SYNC_DOMAIN_COUNT */
    {127, 1},                    /* TENSOR_MAP_ACCESS_SUPPORTED */
    {129, 1},                    /* UNIFIED_FUNCTION_POINTERS */
    {134, -1},                   /* HOST_NUMA_ID */
};

enum { ATTRIBUTE_SM_COUNT = 16, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76, ATTRIBUTE_LAST = 147 };

size_t drv_total_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    return pages < 1 || page < 1 ? (size_t)1 << 30 : (size_t)pages * (size_t)page;
}

int cuDeviceGetCount(int *count)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(count != NULL, CUDA_ERROR_INVALID_VALUE);
    *count = 1;
    return DRV_CUDA_SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(device != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(ordinal == 0, CUDA_ERROR_INVALID_DEVICE);
    *device = 0;
    return DRV_CUDA_SUCCESS;
}

int cuDeviceGetName(char *name, int capacity, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(name != NULL && capacity > 0, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    snprintf(name, (size_t)capacity, "smla emulated sm_%d", drv.settings.sm);
    return DRV_CUDA_SUCCESS;
}

int cuDeviceGetUuid(struct cu_uuid *uuid, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(uuid != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    memcpy(uuid->bytes, "smla-emulated-90", sizeof uuid->bytes);
    return DRV_CUDA_SUCCESS;
}

int cuDeviceGetUuid_v2(struct cu_uuid *uuid, int device)
{
    return cuDeviceGetUuid(uuid, device);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(bytes != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    *bytes = drv_total_memory();
    return DRV_CUDA_SUCCESS;
}

static int find_attribute(int attribute)
{
    if (attribute == ATTRIBUTE_SM_COUNT)
        return drv.settings.sm_count;
    if (attribute == ATTRIBUTE_MAJOR)
        return drv.settings.sm / 10;
    if (attribute == ATTRIBUTE_MINOR)
        return drv.settings.sm % 10;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (attributes[i].attribute == attribute)
            return attributes[i].value;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(value != NULL && attribute >= 1 && attribute <= ATTRIBUTE_LAST, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    *value = find_attribute(attribute);
    return DRV_CUDA_SUCCESS;
}

int cuDeviceComputeCapability(int *major, int *minor, int device)
{
    DRV_TRY(cuDeviceGetAttribute(major, ATTRIBUTE_MAJOR, device));
    return cuDeviceGetAttribute(minor, ATTRIBUTE_MINOR, device);
}

static const char bus_id[] = "0000:00:00.0";

int cuDeviceGetPCIBusId(char *text, int capacity, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(text != NULL && capacity > 0, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    snprintf(text, (size_t)capacity, "%s", bus_id);
    return DRV_CUDA_SUCCESS;
}

int cuDeviceGetByPCIBusId(int *device, const char *text)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(device != NULL && text != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(strcmp(text, bus_id) == 0, CUDA_ERROR_INVALID_DEVICE);
    *device = 0;
    return DRV_CUDA_SUCCESS;
}

int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(can != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(device == 0 && peer == 0, CUDA_ERROR_INVALID_DEVICE);
    *can = 0;
    return DRV_CUDA_SUCCESS;
}
