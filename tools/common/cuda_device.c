#include "cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_types.h"

enum { STREAM_NON_BLOCKING = 1, CAPTURE_MODE_RELAXED = 2 }; /* CU_STREAM_…, CU_STREAM_CAPTURE_MODE_… */

/* What is called: name here, the driver's exported name (its ABI version as a suffix), parameters. */
#define DEVICE_REQUIRED(X)                                                                                             \
    X(init, "cuInit", (unsigned int flags))                                                                            \
    X(get_count, "cuDeviceGetCount", (int *count))                                                                     \
    X(get_device, "cuDeviceGet", (rt_cu_device * device, int ordinal))                                                 \
    X(get_name, "cuDeviceGetName", (char *name, int capacity, rt_cu_device device))                                    \
    X(get_attribute, "cuDeviceGetAttribute", (int *value, int attribute, rt_cu_device device))                         \
    X(retain, "cuDevicePrimaryCtxRetain", (rt_cu_context * context, rt_cu_device device))                              \
    X(release, "cuDevicePrimaryCtxRelease_v2", (rt_cu_device device))                                                  \
    X(set_current, "cuCtxSetCurrent", (rt_cu_context context))                                                         \
    X(synchronize, "cuCtxSynchronize", (void))                                                                         \
    X(alloc, "cuMemAlloc_v2", (uintptr_t * memory, size_t size))                                                       \
    X(free, "cuMemFree_v2", (uintptr_t memory))                                                                        \
    X(upload, "cuMemcpyHtoD_v2", (uintptr_t memory, const void *host, size_t size))                                    \
    X(download, "cuMemcpyDtoH_v2", (void *host, uintptr_t memory, size_t size))                                        \
    X(fill, "cuMemsetD8_v2", (uintptr_t memory, unsigned char byte, size_t size))

/* These may be missing: who calls one then gets a sentence. */
#define DEVICE_OPTIONAL(X)                                                                                             \
    X(error_name, "cuGetErrorName", (rt_cu_result error, const char **text))                                           \
    X(error_string, "cuGetErrorString", (rt_cu_result error, const char **text))                                       \
    X(stream_create, "cuStreamCreate", (void **stream, unsigned int flags))                                            \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                                            \
    X(stream_synchronize, "cuStreamSynchronize", (void *stream))                                                       \
    X(event_create, "cuEventCreate", (void **event, unsigned int flags))                                               \
    X(event_destroy, "cuEventDestroy_v2", (void *event))                                                               \
    X(event_record, "cuEventRecord", (void *event, void *stream))                                                      \
    X(event_synchronize, "cuEventSynchronize", (void *event))                                                          \
    X(event_elapsed, "cuEventElapsedTime", (float *ms, void *begin, void *end))                                        \
    X(capture_begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                                              \
    X(capture_end, "cuStreamEndCapture", (void *stream, void **graph))                                                 \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", (void **exec, void *graph, unsigned long long flags))          \
    X(graph_destroy, "cuGraphDestroy", (void *graph))                                                                  \
    X(graph_launch, "cuGraphLaunch", (void *exec, void *stream))                                                       \
    X(exec_destroy, "cuGraphExecDestroy", (void *exec))                                                                \
    X(get_version, "cuDriverGetVersion", (int *version))                                                               \
    X(get_bus_id, "cuDeviceGetPCIBusId", (char *text, int capacity, rt_cu_device device))                              \
    X(copy, "cuMemcpyDtoD_v2", (uintptr_t to, uintptr_t from, size_t size))                                            \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                                     \
    X(module_load, "cuModuleLoadData", (void **module, const void *image))                                             \
    X(module_unload, "cuModuleUnload", (void *module))                                                                 \
    X(module_function, "cuModuleGetFunction", (void **function, void *module, const char *name))                       \
    X(function_set, "cuFuncSetAttribute", (void *function, int attribute, int value))                                  \
    X(launch, "cuLaunchKernel",                                                                                        \
      (void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,            \
       unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, void *stream, void **parameters,         \
       void **extra))                                                                                                  \
    X(launch_ex, "cuLaunchKernelEx",                                                                                   \
      (const struct rt_cu_launch_config *config, void *function, void **parameters, void **extra))

struct table {
#define DEVICE_MEMBER(member, name, parameters) rt_cu_result(*member) parameters;
    DEVICE_REQUIRED(DEVICE_MEMBER) DEVICE_OPTIONAL(DEVICE_MEMBER)
#undef DEVICE_MEMBER
};

/* The driver's names, for sentences. */
static const struct {
#define DEVICE_NAME_MEMBER(member, name, parameters) const char *member;
    DEVICE_REQUIRED(DEVICE_NAME_MEMBER) DEVICE_OPTIONAL(DEVICE_NAME_MEMBER)
#undef DEVICE_NAME_MEMBER
} names = {
#define DEVICE_NAME(member, name, parameters) .member = name,
    DEVICE_REQUIRED(DEVICE_NAME) DEVICE_OPTIONAL(DEVICE_NAME)
#undef DEVICE_NAME
};

struct device {
    void *library;
    struct table cu;
    rt_cu_device ordinal;
    rt_cu_context context;
    int32_t capability;
    char name[128];
    char why[DEVICE_WHY];
};

/* dlsym gives an object pointer; POSIX guarantees that it holds a function's. */
static bool resolve(struct device *device, const char *name, void *member, bool required)
{
    void *symbol = dlsym(device->library, name);
    memcpy(member, &symbol, sizeof symbol);
    if (symbol == NULL && required)
        snprintf(device->why, DEVICE_WHY, "the driver has no %s", name);
    return symbol != NULL || !required;
}

static bool resolve_all(struct device *device)
{
    bool ok = true;
#define DEVICE_RESOLVE_REQUIRED(member, name, parameters) ok = ok && resolve(device, name, &device->cu.member, true);
#define DEVICE_RESOLVE_OPTIONAL(member, name, parameters) ok = ok && resolve(device, name, &device->cu.member, false);
    DEVICE_REQUIRED(DEVICE_RESOLVE_REQUIRED)
    DEVICE_OPTIONAL(DEVICE_RESOLVE_OPTIONAL)
    return ok;
}

/* True when a call went well; otherwise keeps a sentence. */
static bool done(struct device *device, rt_cu_result result, const char *name)
{
    if (result == RT_CUDA_SUCCESS)
        return true;
    const char *code = NULL;
    const char *text = NULL;
    if (device->cu.error_name != NULL && device->cu.error_string != NULL) {
        device->cu.error_name(result, &code);
        device->cu.error_string(result, &text);
    }
    snprintf(device->why, DEVICE_WHY, "%s gave %d (%s: %s)", name, result, code == NULL ? "no name" : code,
             text == NULL ? "no text" : text);
    return false;
}

#define CALL(device, member, ...) done(device, (device)->cu.member(__VA_ARGS__), names.member)
#define CALL_OPTIONAL(device, member, ...)                                                                             \
    ((device)->cu.member != NULL ? CALL(device, member, __VA_ARGS__) : missing(device, names.member))

static bool missing(struct device *device, const char *name)
{
    snprintf(device->why, DEVICE_WHY, "the driver lacks %s", name);
    return false;
}

static bool load_library(struct device *device, const char *path)
{
    if (path == NULL)
        path = secure_getenv("SMLA_DRIVER");
    if (path == NULL || path[0] == 0)
        path = "libcuda.so.1";
    device->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (device->library == NULL)
        snprintf(device->why, DEVICE_WHY, "no CUDA driver: %s", dlerror());
    return device->library != NULL && resolve_all(device);
}

static bool find_device(struct device *device, int32_t ordinal)
{
    int count = 0;
    if (!CALL(device, init, 0) || !CALL(device, get_count, &count))
        return false;
    if (ordinal < count)
        return CALL(device, get_device, &device->ordinal, ordinal);
    snprintf(device->why, DEVICE_WHY, "no CUDA device %d: the driver shows %d", ordinal, count);
    return false;
}

static bool take_context(struct device *device)
{
    int major = 0;
    int minor = 0;
    if (!CALL(device, get_name, device->name, (int)sizeof device->name, device->ordinal) ||
        !CALL(device, get_attribute, &major, RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device->ordinal) ||
        !CALL(device, get_attribute, &minor, RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device->ordinal) ||
        !CALL(device, retain, &device->context, device->ordinal))
        return false;
    device->capability = major * 10 + minor;
    return CALL(device, set_current, device->context);
}

enum device_status device_open(const char *driver_path, int32_t ordinal, struct device **out, char why[DEVICE_WHY])
{
    struct device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        snprintf(why, DEVICE_WHY, "out of memory");
        return DEVICE_FAULT;
    }
    enum device_status status = DEVICE_OK;
    if (!load_library(device, driver_path) || !find_device(device, ordinal))
        status = DEVICE_UNAVAILABLE;
    else if (!take_context(device))
        status = DEVICE_FAULT;
    if (status == DEVICE_OK) {
        *out = device;
    } else {
        memcpy(why, device->why, DEVICE_WHY);
        device_close(device);
    }
    return status;
}

/* The library stays open: smla may use the same one, and drivers do not like to be unloaded. */
void device_close(struct device *device)
{
    if (device != NULL && device->context != NULL)
        device->cu.release(device->ordinal);
    free(device);
}

const char *device_name(const struct device *device)
{
    return device->name;
}

int32_t device_capability(const struct device *device)
{
    return device->capability;
}

const char *device_why(const struct device *device)
{
    return device->why;
}

bool device_is_emulated(const struct device *device)
{
    return dlsym(device->library, "smla_emu_version") != NULL;
}

bool device_attribute(struct device *device, int attribute, int *out)
{
    return CALL(device, get_attribute, out, attribute, device->ordinal);
}

bool device_driver_version(struct device *device, int *out)
{
    return CALL_OPTIONAL(device, get_version, out);
}

bool device_pci_bus_id(struct device *device, char *text, int capacity)
{
    return CALL_OPTIONAL(device, get_bus_id, text, capacity, device->ordinal);
}

bool device_make_current(struct device *device)
{
    return CALL(device, set_current, device->context);
}

bool device_alloc(struct device *device, size_t size_bytes, void **out)
{
    uintptr_t memory = 0;
    if (!CALL(device, alloc, &memory, size_bytes))
        return false;
    *out = (void *)memory;
    return true;
}

bool device_free(struct device *device, void *memory)
{
    return memory == NULL || CALL(device, free, (uintptr_t)memory);
}

bool device_upload(struct device *device, void *memory, const void *host, size_t size_bytes)
{
    return size_bytes == 0 || CALL(device, upload, (uintptr_t)memory, host, size_bytes);
}

bool device_download(struct device *device, void *host, const void *memory, size_t size_bytes)
{
    return size_bytes == 0 || CALL(device, download, host, (uintptr_t)memory, size_bytes);
}

bool device_fill(struct device *device, void *memory, uint8_t byte, size_t size_bytes)
{
    return size_bytes == 0 || CALL(device, fill, (uintptr_t)memory, byte, size_bytes);
}

bool device_copy(struct device *device, void *to, const void *from, size_t size_bytes)
{
    return size_bytes == 0 || CALL_OPTIONAL(device, copy, (uintptr_t)to, (uintptr_t)from, size_bytes);
}

bool device_memory_info(struct device *device, size_t *free_bytes, size_t *total_bytes)
{
    return CALL_OPTIONAL(device, memory_info, free_bytes, total_bytes);
}

bool device_synchronize(struct device *device)
{
    return done(device, device->cu.synchronize(), names.synchronize);
}

bool device_stream_create(struct device *device, bool non_blocking, void **out)
{
    return CALL_OPTIONAL(device, stream_create, out, non_blocking ? STREAM_NON_BLOCKING : 0);
}

bool device_stream_destroy(struct device *device, void *stream)
{
    return CALL_OPTIONAL(device, stream_destroy, stream);
}

bool device_stream_synchronize(struct device *device, void *stream)
{
    return CALL_OPTIONAL(device, stream_synchronize, stream);
}

bool device_event_create(struct device *device, void **out)
{
    return CALL_OPTIONAL(device, event_create, out, 0);
}

bool device_event_destroy(struct device *device, void *event)
{
    return CALL_OPTIONAL(device, event_destroy, event);
}

bool device_event_record(struct device *device, void *event, void *stream)
{
    return CALL_OPTIONAL(device, event_record, event, stream);
}

bool device_event_elapsed_ms(struct device *device, void *begin, void *end, float *out)
{
    return CALL_OPTIONAL(device, event_synchronize, end) && CALL_OPTIONAL(device, event_elapsed, out, begin, end);
}

bool device_capture_begin(struct device *device, void *stream)
{
    return CALL_OPTIONAL(device, capture_begin, stream, CAPTURE_MODE_RELAXED);
}

bool device_capture_end(struct device *device, void *stream, void **graph)
{
    void *captured = NULL;
    if (!CALL_OPTIONAL(device, capture_end, stream, &captured))
        return false;
    const bool ok = CALL_OPTIONAL(device, graph_instantiate, graph, captured, 0);
    return CALL_OPTIONAL(device, graph_destroy, captured) && ok;
}

bool device_graph_launch(struct device *device, void *graph, void *stream)
{
    return CALL_OPTIONAL(device, graph_launch, graph, stream);
}

bool device_graph_destroy(struct device *device, void *graph)
{
    return CALL_OPTIONAL(device, exec_destroy, graph);
}

bool device_module_load(struct device *device, const void *image, void **module)
{
    return CALL_OPTIONAL(device, module_load, module, image);
}

bool device_module_unload(struct device *device, void *module)
{
    return CALL_OPTIONAL(device, module_unload, module);
}

bool device_module_function(struct device *device, void *module, const char *name, int32_t shared_bytes,
                            void **function)
{
    return CALL_OPTIONAL(device, module_function, function, module, name) &&
           CALL_OPTIONAL(device, function_set, *function, RT_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                         shared_bytes);
}

bool device_launch(struct device *device, void *function, int32_t blocks, int32_t threads, int32_t shared_bytes,
                   void *stream, void **parameters)
{
    return CALL_OPTIONAL(device, launch, function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1,
                         (unsigned)shared_bytes, stream, parameters, NULL);
}

bool device_launch_dependent(struct device *device, void *function, int32_t blocks, int32_t threads, void *stream,
                             void **parameters)
{
    const struct rt_cu_launch_attribute dependent = {.id = RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                                     .value.programmaticStreamSerializationAllowed = 1};
    const struct rt_cu_launch_config config = {.gridDimX = (unsigned)blocks,
                                               .gridDimY = 1,
                                               .gridDimZ = 1,
                                               .blockDimX = (unsigned)threads,
                                               .blockDimY = 1,
                                               .blockDimZ = 1,
                                               .hStream = stream,
                                               .attrs = &dependent,
                                               .numAttrs = 1};
    return CALL_OPTIONAL(device, launch_ex, &config, function, parameters, NULL);
}
