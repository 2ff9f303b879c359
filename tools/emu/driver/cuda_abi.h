/* The types and numbers of the CUDA driver API that the emulated device needs, declared by itself so that building
 * needs no CUDA header. tests/emu/test_driver_header.c compares layouts and numbers with the real cuda.h. */
#ifndef EMU_DRIVER_CUDA_ABI_H
#define EMU_DRIVER_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Handles are our own objects (state.h). */
typedef struct drv_context *cu_context;
typedef struct drv_stream *cu_stream;
typedef struct drv_event *cu_event;
typedef struct drv_module *cu_module;
typedef struct drv_library *cu_library;
typedef struct drv_kernel *cu_kernel;
typedef struct drv_function *cu_function;
typedef struct drv_graph *cu_graph;
typedef struct drv_node *cu_graph_node;
typedef struct drv_exec *cu_graph_exec;
typedef struct drv_pool *cu_pool;
typedef struct drv_logs *cu_logs_handle;

typedef void (*cu_host_function)(void *user);
typedef void (*cu_stream_callback)(cu_stream stream, int status, void *user);
typedef size_t (*cu_block_to_shared)(int block_size);
typedef void (*cu_logs_callback)(void *user, int level, char *message, size_t length);

struct cu_uuid {
    char bytes[16];
};

/* CUctxCreateParams */
struct cu_context_params {
    void *affinities;
    int affinity_count;
    void *cig;
};

/* CUmemLocation */
struct cu_location {
    int type;
    int id;
};

/* CUDA_MEMCPY3D; CUDA_MEMCPY2D has one dimension less. */
struct cu_copy3d {
    size_t src_x, src_y, src_z, src_lod;
    int src_type;
    const void *src_host;
    uint64_t src_device;
    void *src_array, *reserved0;
    size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host;
    uint64_t dst_device;
    void *dst_array, *reserved1;
    size_t dst_pitch, dst_height;
    size_t width, height, depth;
};

struct cu_copy2d {
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    uint64_t src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    int dst_type;
    void *dst_host;
    uint64_t dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
};

/* CUDA_MEMSET_NODE_PARAMS */
struct cu_memset_params {
    uint64_t dst;
    size_t pitch;
    unsigned int value;
    unsigned int element_bytes;
    size_t width; /* in elements */
    size_t height;
};

/* CUDA_HOST_NODE_PARAMS */
struct cu_host_params {
    cu_host_function function;
    void *user;
};

/* CUDA_KERNEL_NODE_PARAMS, first form: without kernel and context. */
struct cu_kernel_node_params_v1 {
    cu_function function;
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    void **params;
    void **extra;
};

/* … second form. */
struct cu_kernel_node_params {
    cu_function function;
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    void **params;
    void **extra;
    cu_kernel kernel;
    cu_context context;
};

/* CUlaunchAttribute */
struct cu_launch_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int number; /* cooperative, priority, … */
        unsigned int dim[3];
        struct {
            cu_event event;
            int flags;
            int at_block_start;
        } event;
    } value;
};

/* CUlaunchConfig */
struct cu_launch_config {
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    cu_stream stream;
    struct cu_launch_attribute *attributes;
    unsigned int attribute_count;
};

/* CUDA_GRAPH_INSTANTIATE_PARAMS */
struct cu_instantiate_params {
    uint64_t flags;
    cu_stream upload_stream;
    cu_graph_node error_node;
    int result;
};

/* CUgraphExecUpdateResultInfo */
struct cu_update_result {
    int result;
    cu_graph_node error_node;
    cu_graph_node error_from_node;
};

/* CUgraphEdgeData */
struct cu_edge_data {
    unsigned char from_port, to_port, type, reserved[5];
};

#define CU_STREAM_LEGACY_HANDLE ((cu_stream)0x1)
#define CU_STREAM_PER_THREAD_HANDLE ((cu_stream)0x2)
#define CU_LAUNCH_PARAM_POINTER_ID ((void *)0x1)
#define CU_LAUNCH_PARAM_SIZE_ID ((void *)0x2)

/* CUresult: name, value, text. Texts are the driver's. */
#define CU_RESULTS(X)                                                                                                  \
    X(CUDA_SUCCESS, 0, "no error")                                                                                     \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                                    \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                                           \
    X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                                             \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                                 \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                        \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                                 \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                                       \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")                   \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture")                                \
    X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                                     \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain.")         \
    X(CUDA_ERROR_INVALID_SOURCE, 300, "device kernel image is invalid")                                                \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                                                                \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")                        \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                                       \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                         \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                             \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                                                   \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                                     \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                              \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                                       \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process")                     \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                                    \
    X(CUDA_ERROR_ASSERT, 710, "device-side assert triggered")                                                          \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the requested memory range is already mapped")   \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered memory region")         \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                                   \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                                        \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                                     \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")                           \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                                        \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                        \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")                  \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")           \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences")         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began")                \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream")             \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                                         \
      "operation would make the legacy stream depend on a capturing blocking stream")                                  \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream")       \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                                     \
      "attempt to terminate a thread-local capture sequence from another thread")                                      \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910,                                                                       \
      "the graph update was not performed because it included changes which violated constraints specific to "         \
      "instantiated graph update")                                                                                     \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912, "the launch configuration requires an invalid cluster size")               \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

/* cuda.h's other enumerators, here with DRV_ before the name. */
#define CU_NUMBERS(X)                                                                                                  \
    X(CU_CTX_SCHED_MASK, 7)                                                                                            \
    X(CU_CTX_FLAGS_MASK, 0xff)                                                                                         \
    X(CU_LIMIT_STACK_SIZE, 0)                                                                                          \
    X(CU_LIMIT_PRINTF_FIFO_SIZE, 1)                                                                                    \
    X(CU_LIMIT_MALLOC_HEAP_SIZE, 2)                                                                                    \
    X(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 5)                                                                            \
    X(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 6)                                                                            \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                                       \
    X(CU_EVENT_DISABLE_TIMING, 2)                                                                                      \
    X(CU_EVENT_RECORD_EXTERNAL, 1)                                                                                     \
    X(CU_EVENT_WAIT_EXTERNAL, 1)                                                                                       \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                                                \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                                              \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                                                                         \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                                                \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                                          \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                                                               \
    X(CU_MEMORYTYPE_HOST, 1)                                                                                           \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                                         \
    X(CU_MEMORYTYPE_ARRAY, 3)                                                                                          \
    X(CU_MEMORYTYPE_UNIFIED, 4)                                                                                        \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                                     \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                                                                    \
    X(CU_MEMHOSTALLOC_WRITECOMBINED, 4)                                                                                \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                                                 \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                                             \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                                                          \
    X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                                                                            \
    X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                                                                             \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                                                               \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                                              \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                                          \
    X(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10)                                                             \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                                       \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                                             \
    X(CU_POINTER_ATTRIBUTE_MAPPED, 13)                                                                                 \
    X(CU_JIT_INFO_LOG_BUFFER, 3)                                                                                       \
    X(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                                                                            \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                                                                      \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                                                           \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                                      \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                                          \
    X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                                                                           \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                                                           \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                                                                   \
    X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                                                                                \
    X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                                                                             \
    X(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, 7)                                                                              \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                                              \
    X(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9)                                                           \
    X(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 10)                                                                  \
    X(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 11)                                                                    \
    X(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 12)                                                                   \
    X(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 13)                                                                    \
    X(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 14)                                                         \
    X(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 15)                                                      \
    X(CU_FUNCTION_LOADING_STATE_LOADED, 1)                                                                             \
    X(CU_MODULE_EAGER_LOADING, 1)                                                                                      \
    X(CU_MODULE_LAZY_LOADING, 2)                                                                                       \
    X(CU_LAUNCH_ATTRIBUTE_IGNORE, 0)                                                                                   \
    X(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, 1)                                                                     \
    X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)                                                                              \
    X(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 3)                                                                   \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                                                                        \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 5)                                                     \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)                                                        \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, 7)                                                                       \
    X(CU_LAUNCH_ATTRIBUTE_PRIORITY, 8)                                                                                 \
    X(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, 9)                                                                      \
    X(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 10)                                                                         \
    X(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, 11)                                                             \
    X(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, 12)                                                                 \
    X(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, 13)                                                            \
    X(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 14)                                                        \
    X(CU_GRAPH_NODE_TYPE_KERNEL, 0)                                                                                    \
    X(CU_GRAPH_NODE_TYPE_MEMCPY, 1)                                                                                    \
    X(CU_GRAPH_NODE_TYPE_MEMSET, 2)                                                                                    \
    X(CU_GRAPH_NODE_TYPE_HOST, 3)                                                                                      \
    X(CU_GRAPH_NODE_TYPE_GRAPH, 4)                                                                                     \
    X(CU_GRAPH_NODE_TYPE_EMPTY, 5)                                                                                     \
    X(CU_GRAPH_NODE_TYPE_WAIT_EVENT, 6)                                                                                \
    X(CU_GRAPH_NODE_TYPE_EVENT_RECORD, 7)                                                                              \
    X(CU_GRAPH_EXEC_UPDATE_SUCCESS, 0)                                                                                 \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 2)                                                                  \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, 3)                                                                 \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED, 4)                                                                  \
    X(CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1)                                                                            \
    X(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, 2)                                                                \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                                                                  \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                                                                         \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

enum {
#define CU_RESULT_ENUM(name, value, text) DRV_##name = (value),
    CU_RESULTS(CU_RESULT_ENUM)
#undef CU_RESULT_ENUM
#define CU_NUMBER_ENUM(name, value) DRV_##name = (value),
        CU_NUMBERS(CU_NUMBER_ENUM)
#undef CU_NUMBER_ENUM
};

#endif
