/* What smla uses of the CUDA driver API, declared by itself so that building needs no CUDA header.
 * tests/runtime/cuda_header_test.c compares every row with the real cuda.h. */
#ifndef SMLA_RUNTIME_CUDA_TYPES_H
#define SMLA_RUNTIME_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int rt_cu_result;
typedef int rt_cu_device;
typedef struct rt_cu_context_opaque *rt_cu_context;
typedef struct rt_cu_library_opaque *rt_cu_library;
typedef struct rt_cu_kernel_opaque *rt_cu_kernel;
typedef struct rt_cu_function_opaque *rt_cu_function;
typedef struct rt_cu_stream_opaque *rt_cu_stream;
typedef unsigned long long rt_cu_deviceptr;
typedef unsigned long long rt_cu_allocation_handle; /* of the virtual memory API */

/* CUlaunchAttribute; of its value, the members that smla sets. */
struct rt_cu_launch_attribute {
    int id;
    char pad[4];
    union {
        char pad[64];
        int programmaticStreamSerializationAllowed;
        struct {
            unsigned int x;
            unsigned int y;
            unsigned int z;
        } clusterDim;
    } value;
};

/* CUlaunchConfig. */
struct rt_cu_launch_config {
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    rt_cu_stream hStream;
    const struct rt_cu_launch_attribute *attrs;
    unsigned int numAttrs;
};

/* CUdevResource of multiprocessors, as the driver API 12.4 has it. */
struct rt_cu_multiprocessors {
    int type;
    unsigned char pad[92];
    unsigned int smCount;
    unsigned char rest[44];
};

/* cuda.h's enumerators, here with RT_ before the name. */
#define RT_CUDA_NUMBERS(X)                                                                                             \
    X(CUDA_SUCCESS, 0)                                                                                                 \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                                     \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                                                   \
    X(CUDA_ERROR_DEINITIALIZED, 4)                                                                                     \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                                                                                   \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                                                 \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                                               \
    X(CUDA_ERROR_INVALID_PTX, 218)                                                                                     \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                                                         \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                                       \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                                                 \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                                                                  \
    X(CUDA_ERROR_ASSERT, 710)                                                                                          \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                                                                            \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                                                                             \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                                                              \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                                                                           \
    X(CUDA_ERROR_INVALID_PC, 718)                                                                                      \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                                                   \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                                                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                                                         \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                                       \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                                                               \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                                                                    \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6)                                                                           \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                                    \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                                                \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                                                \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                                                       \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                                      \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                                          \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                                              \
    X(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 9)                                                                             \
    X(CU_TENSOR_MAP_INTERLEAVE_NONE, 0)                                                                                \
    X(CU_TENSOR_MAP_SWIZZLE_128B, 3)                                                                                   \
    X(CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 3)                                                                           \
    X(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, 0)                                                                            \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                                                                        \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                                                                      \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                                                           \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)                                                        \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                                             \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                                                          \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                                       \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                                             \
    X(CU_DEV_RESOURCE_TYPE_SM, 1)                                                                                      \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                                                \
    X(CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1)                                                                            \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                                                                  \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                                                                         \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

enum {
#define RT_CUDA_ENUM(name, value) RT_##name = (value),
    RT_CUDA_NUMBERS(RT_CUDA_ENUM)
#undef RT_CUDA_ENUM
};

/* Every driver symbol: name, version asked of cuGetProcAddress (the first with this signature, by cudaTypedefs.h),
 * parameters. All return rt_cu_result. */
#define RT_DRIVER_SYMBOLS(X)                                                                                           \
    X(cuGetErrorName, 6000, (rt_cu_result error, const char **text))                                                   \
    X(cuGetErrorString, 6000, (rt_cu_result error, const char **text))                                                 \
    X(cuInit, 2000, (unsigned int flags))                                                                              \
    X(cuDriverGetVersion, 2020, (int *version))                                                                        \
    X(cuDeviceGetCount, 2000, (int *count))                                                                            \
    X(cuDeviceGet, 2000, (rt_cu_device * device, int ordinal))                                                         \
    X(cuDeviceGetName, 2000, (char *name, int capacity, rt_cu_device device))                                          \
    X(cuDeviceGetAttribute, 2000, (int *value, int attribute, rt_cu_device device))                                    \
    X(cuDevicePrimaryCtxRetain, 7000, (rt_cu_context * context, rt_cu_device device))                                  \
    X(cuDevicePrimaryCtxRelease, 11000, (rt_cu_device device))                                                         \
    X(cuCtxGetCurrent, 4000, (rt_cu_context * context))                                                                \
    X(cuCtxGetDevice, 2000, (rt_cu_device * device))                                                                   \
    X(cuCtxGetId, 12000, (rt_cu_context context, unsigned long long *id))                                              \
    X(cuCtxPushCurrent, 4000, (rt_cu_context context))                                                                 \
    X(cuCtxPopCurrent, 4000, (rt_cu_context * context))                                                                \
    X(cuLibraryLoadData, 12000,                                                                                        \
      (rt_cu_library * library, const void *code, void *jit_options, void **jit_values, unsigned int jit_count,        \
       void *options, void **values, unsigned int count))                                                              \
    X(cuLibraryUnload, 12000, (rt_cu_library library))                                                                 \
    X(cuLibraryGetKernel, 12000, (rt_cu_kernel * kernel, rt_cu_library library, const char *name))                     \
    X(cuKernelGetFunction, 12000, (rt_cu_function * function, rt_cu_kernel kernel))                                    \
    X(cuKernelGetParamInfo, 12040, (rt_cu_kernel kernel, size_t index, size_t * offset, size_t * size))                \
    X(cuFuncGetAttribute, 2020, (int *value, int attribute, rt_cu_function function))                                  \
    X(cuFuncSetAttribute, 9000, (rt_cu_function function, int attribute, int value))                                   \
    X(cuOccupancyMaxActiveClusters, 11070,                                                                             \
      (int *clusters, rt_cu_function function, const struct rt_cu_launch_config *config))                              \
    X(cuLaunchKernelEx, 11060,                                                                                         \
      (const struct rt_cu_launch_config *config, rt_cu_function function, void **parameters, void **extra))            \
    X(cuTensorMapEncodeTiled, 12000,                                                                                   \
      (void *map, int type, unsigned int rank, void *address, const uint64_t *dims, const uint64_t *strides,           \
       const unsigned int *box, const unsigned int *element_strides, int interleave, int swizzle, int l2_promotion,    \
       int fill))

/* The same of symbols that not every kernel needs: checked kernels call the first list and the third, the self-test the
 * first and the second. They may be missing: smla_prepare says so, or, of the last two lists, what they tell is done
 * without.
 */
#define RT_DRIVER_CHECK_SYMBOLS(X)                                                                                     \
    X(cuStreamIsCapturing, 10000, (rt_cu_stream stream, int *status))                                                  \
    X(cuStreamSynchronize, 2000, (rt_cu_stream stream))                                                                \
    X(cuMemsetD32Async, 3020, (rt_cu_deviceptr to, unsigned int value, size_t count, rt_cu_stream stream))             \
    X(cuMemcpyAsync, 4000, (rt_cu_deviceptr to, rt_cu_deviceptr from, size_t bytes, rt_cu_stream stream))
#define RT_DRIVER_TEST_SYMBOLS(X)                                                                                      \
    X(cuThreadExchangeStreamCaptureMode, 10010, (int *mode))                                                           \
    X(cuStreamCreate, 2000, (rt_cu_stream * stream, unsigned int flags))                                               \
    X(cuStreamDestroy, 4000, (rt_cu_stream stream))                                                                    \
    X(cuMemAlloc, 3020, (rt_cu_deviceptr * memory, size_t bytes))                                                      \
    X(cuMemFree, 3020, (rt_cu_deviceptr memory))
#define RT_DRIVER_RANGE_SYMBOLS(X)                                                                                     \
    X(cuPointerGetAttributes, 7000, (unsigned int count, int *attributes, void **values, rt_cu_deviceptr pointer))     \
    X(cuMemRetainAllocationHandle, 11000, (rt_cu_allocation_handle * handle, void *address))                           \
    X(cuMemRelease, 10020, (rt_cu_allocation_handle handle))
#define RT_DRIVER_PART_SYMBOLS(X)                                                                                      \
    X(cuCtxGetDevResource, 12040, (rt_cu_context context, struct rt_cu_multiprocessors * resource, int type))

#endif
