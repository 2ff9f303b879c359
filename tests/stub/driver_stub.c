/* libcuda_stub.so: see stub.h. Handles are small numbers, so that a log can be compared with text. */
#include <elf.h>
#include <stdlib.h>

#include "call_log.h"
#include "cuda_types.h"
enum { FIRST_LIBRARY = 0x100, FIRST_KERNEL = 0x200, FIRST_FUNCTION = 0x300, PRIMARY_CONTEXT = 0xa0, STACK = 8 };
enum { FIRST_SIZED_KERNEL = 0x10000, MOST_KERNELS = 1024 };

#define HANDLE(type, number) ((type)(uintptr_t)(number))
#define NUMBER(handle) ((unsigned)(uintptr_t)(handle))

static struct stub_driver state;
static int next_library;
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    rt_cu_library library;
    char name[64];
} kernels[MOST_KERNELS]; /* that were asked for */
static int kernel_count;
static _Thread_local void *stack[STACK];
static _Thread_local int depth;
static _Thread_local int capture_mode;

static int add(int *counter, int amount)
{
    return __atomic_add_fetch(counter, amount, __ATOMIC_SEQ_CST);
}

static void set_current(void *context)
{
    depth = context ? 1 : 0;
    stack[0] = context;
}

static void *get_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static int stack_depth(void)
{
    return depth;
}

static void set_capture_mode(int mode)
{
    capture_mode = mode;
}

static int get_capture_mode(void)
{
    return capture_mode;
}

static void reset(void)
{
    const struct stub_driver fresh = {
        .version = 12080,
        .device_count = 1,
        .cc_major = 9,
        .cc_minor = 0,
        .max_threads = 1024,
        .max_shared_bytes = 232448,
        .max_grid_y = 65535,
        .sm_count = 132,
        .second = {.context = HANDLE(void *, 0xb1), .cc_major = 9, .cc_minor = 0, .sm_count = 132},
        .function_max_threads = 1024,
        .param_count = 1,
        .check_result = UINT64_MAX,
        .reset = reset,
        .set_current = set_current,
        .get_current = get_current,
        .stack_depth = stack_depth,
        .set_capture_mode = set_capture_mode,
        .get_capture_mode = get_capture_mode,
        .log = call_log_text,
        .clear_log = call_log_clear,
        .calls = call_count,
        .failed = failure_count,
    };

    state = fresh;
    next_library = 0;
    kernel_count = 0;
    capture_mode = 0;
    set_current(NULL);
    call_log_clear();
}

__attribute__((constructor)) static void start(void)
{
    reset();
}

struct stub_driver *stub_driver(void)
{
    return &state;
}

#define CALLED(...)                                                                                                    \
    do {                                                                                                               \
        const int scripted = called(&state.script, __VA_ARGS__);                                                       \
        if (scripted)                                                                                                  \
            return scripted;                                                                                           \
    } while (0)

static rt_cu_result get_error_name(rt_cu_result error, const char **text)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{1, "CUDA_ERROR_INVALID_VALUE"},   {3, "CUDA_ERROR_NOT_INITIALIZED"},
                 {4, "CUDA_ERROR_DEINITIALIZED"},   {100, "CUDA_ERROR_NO_DEVICE"},
                 {200, "CUDA_ERROR_INVALID_IMAGE"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                 {218, "CUDA_ERROR_INVALID_PTX"},   {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                 {500, "CUDA_ERROR_NOT_FOUND"},     {719, "CUDA_ERROR_LAUNCH_FAILED"}};

    if (called_unlogged(&state.script, "cuGetErrorName"))
        return RT_CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].code == error) {
            *text = names[i].name;
            return 0;
        }
    }
    return RT_CUDA_ERROR_INVALID_VALUE;
}

static rt_cu_result get_error_string(rt_cu_result error, const char **text)
{
    (void)error;
    if (called_unlogged(&state.script, "cuGetErrorString"))
        return RT_CUDA_ERROR_INVALID_VALUE;
    *text = "as scripted";
    return 0;
}

static rt_cu_result init(unsigned int flags)
{
    CALLED("cuInit", "%u", flags);
    return state.init_result;
}

static rt_cu_result driver_get_version(int *version)
{
    CALLED("cuDriverGetVersion", "%s", "");
    *version = state.version;
    return 0;
}

static rt_cu_result device_get_count(int *count)
{
    CALLED("cuDeviceGetCount", "%s", "");
    *count = state.device_count;
    return 0;
}

static rt_cu_result device_get(rt_cu_device *device, int ordinal)
{
    CALLED("cuDeviceGet", "%d", ordinal);
    *device = ordinal;
    return ordinal < state.device_count ? 0 : 101;
}

static rt_cu_result device_get_name(char *name, int capacity, rt_cu_device device)
{
    CALLED("cuDeviceGetName", "%d", device);
    snprintf(name, (size_t)capacity, "Stub %d.%d", device == 1 ? state.second.cc_major : state.cc_major,
             device == 1 ? state.second.cc_minor : state.cc_minor);
    return 0;
}

static rt_cu_result device_get_attribute(int *value, int attribute, rt_cu_device device)
{
    CALLED("cuDeviceGetAttribute", "%d, %d", attribute, device);
    switch (attribute) {
    case RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = device == 1 ? state.second.cc_major : state.cc_major;
        return 0;
    case RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = device == 1 ? state.second.cc_minor : state.cc_minor;
        return 0;
    case RT_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = state.max_threads;
        return 0;
    case RT_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = state.max_shared_bytes;
        return 0;
    case RT_CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        *value = state.max_grid_y;
        return 0;
    case RT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = device == 1 ? state.second.sm_count : state.sm_count;
        return 0;
    default:
        return RT_CUDA_ERROR_INVALID_VALUE;
    }
}

static rt_cu_result primary_retain(rt_cu_context *context, rt_cu_device device)
{
    CALLED("cuDevicePrimaryCtxRetain", "%d", device);
    add(&state.retained_primaries, 1);
    *context = HANDLE(rt_cu_context, PRIMARY_CONTEXT + device);
    return 0;
}

static rt_cu_result primary_release(rt_cu_device device)
{
    CALLED("cuDevicePrimaryCtxRelease", "%d", device);
    add(&state.retained_primaries, -1);
    return 0;
}

static rt_cu_result ctx_get_current(rt_cu_context *context)
{
    CALLED("cuCtxGetCurrent", "%s", "");
    *context = get_current();
    return 0;
}

static bool is_second(const void *context)
{
    return context != NULL && (context == state.second.context || NUMBER(context) == PRIMARY_CONTEXT + 1);
}

static rt_cu_result ctx_get_device(rt_cu_device *device)
{
    CALLED("cuCtxGetDevice", "%s", "");
    *device = is_second(get_current()) ? 1 : 0;
    return depth ? 0 : 201;
}

static rt_cu_result ctx_get_id(rt_cu_context context, unsigned long long *id)
{
    CALLED("cuCtxGetId", "ctx %x", NUMBER(context));
    *id = 7000 + NUMBER(context);
    return 0;
}

static int sm_count_of(const void *context)
{
    if (is_second(context))
        return state.second.sm_count;
    return context && context == state.green_context ? state.green_sm_count : state.sm_count;
}

static rt_cu_result ctx_get_dev_resource(rt_cu_context context, struct rt_cu_multiprocessors *resource, int type)
{
    CALLED("cuCtxGetDevResource", "ctx %x, %d", NUMBER(context), type);
    resource->smCount = (unsigned int)sm_count_of(context);
    return 0;
}

static rt_cu_result ctx_push(rt_cu_context context)
{
    CALLED("cuCtxPushCurrent", "ctx %x", NUMBER(context));
    stack[depth++] = context;
    return 0;
}

static rt_cu_result ctx_pop(rt_cu_context *context)
{
    CALLED("cuCtxPopCurrent", "%s", "");
    if (depth == 0)
        return 201;
    *context = stack[--depth];
    return 0;
}

static bool is_refused(const void *code)
{
    Elf64_Ehdr header;

    if (state.refusal == 0 || memcmp(code, ELFMAG, SELFMAG) != 0)
        return false;
    memcpy(&header, code, sizeof header);
    return header.e_entry == (Elf64_Addr)state.refused_builder;
}

static rt_cu_result library_load(rt_cu_library *library, const void *code, void *jit_options, void **jit_values,
                                 unsigned int jit_count, void *options, void **values, unsigned int count)
{
    (void)jit_options;
    (void)jit_values;
    (void)options;
    (void)values;
    CALLED("cuLibraryLoadData", "%s, %u, %u", memcmp(code, "\177ELF", 4) == 0 ? "ELF" : "not ELF", jit_count, count);
    if (is_refused(code))
        return state.refusal;
    if (state.loading)
        state.loading(code);
    if (state.script.delay_us)
        usleep((unsigned)state.script.delay_us);
    add(&state.live_libraries, 1);
    add(&state.loads, 1);
    *library = HANDLE(rt_cu_library, FIRST_LIBRARY + add(&next_library, 1));
    return 0;
}

static rt_cu_result library_unload(rt_cu_library library)
{
    CALLED("cuLibraryUnload", "lib %x", NUMBER(library));
    add(&state.live_libraries, -1);
    return 0;
}

/* Which of a library's kernels it is, in the order in which they were first asked for; *place: which of all. */
static unsigned kernel_index(rt_cu_library library, const char *name, int *place)
{
    unsigned index = 0;
    int i;

    pthread_mutex_lock(&kernels_lock);
    for (i = 0; i < kernel_count; i++) {
        if (kernels[i].library == library && strcmp(kernels[i].name, name) == 0)
            break;
        index += kernels[i].library == library;
    }
    *place = i;
    if (i == kernel_count && kernel_count < MOST_KERNELS) {
        kernels[i].library = library;
        snprintf(kernels[i].name, sizeof kernels[i].name, "%s", name);
        kernel_count++;
    }
    pthread_mutex_unlock(&kernels_lock);
    return index;
}

static rt_cu_result library_get_kernel(rt_cu_kernel *kernel, rt_cu_library library, const char *name)
{
    int place;

    CALLED("cuLibraryGetKernel", "lib %x, %s", NUMBER(library), name);
    const unsigned index = kernel_index(library, name, &place);
    *kernel = HANDLE(rt_cu_kernel, state.kernels ? (unsigned)(FIRST_SIZED_KERNEL + place)
                                                 : NUMBER(library) - FIRST_LIBRARY + FIRST_KERNEL + 0x10 * index);
    return 0;
}

/* The name that a kernel was asked for by. */
static const char *entry_of(unsigned handle)
{
    const char *entry = "";
    int place;

    pthread_mutex_lock(&kernels_lock);
    const int count = kernel_count;
    pthread_mutex_unlock(&kernels_lock);
    for (int i = 0; i < count; i++) {
        const unsigned number = kernel_index(kernels[i].library, kernels[i].name, &place);
        if (handle == (state.kernels ? (unsigned)(FIRST_SIZED_KERNEL + i)
                                     : NUMBER(kernels[i].library) - FIRST_LIBRARY + FIRST_KERNEL + 0x10 * number))
            entry = kernels[i].name;
    }
    return entry;
}

/* Of one that state.kernels have; otherwise, of any, state.param_bytes. */
static size_t param_bytes_of(unsigned handle)
{
    const unsigned place = handle - FIRST_SIZED_KERNEL;

    if (state.kernels == NULL || place >= MOST_KERNELS)
        return state.param_bytes;
    const char *name = kernels[place].name;
    const size_t length = strlen(name);
    for (const struct stub_kernel *kernel = state.kernels; kernel->file; kernel++) {
        const char *found = strstr(kernel->entries, name);
        while (found && ((found != kernel->entries && found[-1] != ' ') || (found[length] && found[length] != ' ')))
            found = strstr(found + 1, name);
        if (found)
            return kernel->param_bytes;
    }
    return state.param_bytes;
}

static rt_cu_result kernel_get_function(rt_cu_function *function, rt_cu_kernel kernel)
{
    CALLED("cuKernelGetFunction", "kernel %x", NUMBER(kernel));
    *function = HANDLE(rt_cu_function, NUMBER(kernel) - FIRST_KERNEL + FIRST_FUNCTION);
    return 0;
}

static rt_cu_result kernel_get_param_info(rt_cu_kernel kernel, size_t index, size_t *offset, size_t *size)
{
    CALLED("cuKernelGetParamInfo", "kernel %x, %zu", NUMBER(kernel), index);
    if (index >= (size_t)state.param_count)
        return RT_CUDA_ERROR_INVALID_VALUE;
    *offset = state.param_offset;
    *size = param_bytes_of(NUMBER(kernel));
    return 0;
}

static rt_cu_result func_get_attribute(int *value, int attribute, rt_cu_function function)
{
    CALLED("cuFuncGetAttribute", "%d, function %x", attribute, NUMBER(function));
    *value = state.function_max_threads;
    return 0;
}

static rt_cu_result func_set_attribute(rt_cu_function function, int attribute, int value)
{
    CALLED("cuFuncSetAttribute", "function %x, %d, %d", NUMBER(function), attribute, value);
    return 0;
}

static rt_cu_result max_active_clusters(int *clusters, rt_cu_function function,
                                        const struct rt_cu_launch_config *config)
{
    CALLED("cuOccupancyMaxActiveClusters", "grid %u, block %u, shared %u, cluster %u, function %x", config->gridDimX,
           config->blockDimX, config->sharedMemBytes, config->attrs[0].value.clusterDim.x, NUMBER(function));
    const int own = sm_count_of(get_current());
    const int all = is_second(get_current()) ? state.second.sm_count : state.sm_count;
    const int present = own > 0 && own < all ? own : all;
    *clusters = (int)((unsigned int)present / config->attrs[0].value.clusterDim.x);
    return 0;
}

/* " (id: value, …)" of a launch's attributes, or "". */
static const char *attribute_text(const struct rt_cu_launch_config *config, char *text, size_t room)
{
    text[0] = '\0';
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const size_t length = strlen(text);
        snprintf(text + length, room - length, "%s%d: %d%s", i == 0 ? " (" : ", ", config->attrs[i].id,
                 config->attrs[i].value.programmaticStreamSerializationAllowed, i + 1 == config->numAttrs ? ")" : "");
    }
    return text;
}

static rt_cu_result launch_kernel(const struct rt_cu_launch_config *config, rt_cu_function function, void **parameters,
                                  void **extra)
{
    char attributes[128];

    CALLED("cuLaunchKernelEx",
           "grid %u %u %u, block %u %u %u, shared %u, stream %x, attrs %u%s, function %x, extra %s, ctx %x",
           config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
           config->blockDimZ, config->sharedMemBytes, NUMBER(config->hStream), config->numAttrs,
           attribute_text(config, attributes, sizeof attributes), NUMBER(function), extra ? "given" : "none",
           NUMBER(get_current()));
    pthread_mutex_lock(&call_lock);
    memcpy(state.params, parameters[0], param_bytes_of(NUMBER(function) - FIRST_FUNCTION + FIRST_KERNEL));
    pthread_mutex_unlock(&call_lock);
    if (state.launching)
        state.launching(entry_of(NUMBER(function) - FIRST_FUNCTION + FIRST_KERNEL), parameters[0]);
    return 0;
}

/* The address and the box's heads are what a test can tell two maps by. */
static rt_cu_result encode_tiled(void *map, int type, unsigned int rank, void *address, const uint64_t *dims,
                                 const uint64_t *strides, const unsigned int *box, const unsigned int *element_strides,
                                 int interleave, int swizzle, int l2_promotion, int fill)
{
    CALLED("cuTensorMapEncodeTiled",
           "type %d, rank %u, at %x, dims %u %u %u, strides %u %u, box %u %u %u, steps %u %u %u, %d %d %d %d, ctx %x",
           type, rank, NUMBER(address), (unsigned)dims[0], (unsigned)dims[1], (unsigned)dims[2], (unsigned)strides[0],
           (unsigned)strides[1], box[0], box[1], box[2], element_strides[0], element_strides[1], element_strides[2],
           interleave, swizzle, l2_promotion, fill, NUMBER(get_current()));
    memset(map, (int)box[1], 128);
    return 0;
}

static rt_cu_result stream_is_capturing(rt_cu_stream stream, int *status)
{
    CALLED("cuStreamIsCapturing", "stream %x", NUMBER(stream));
    *status = state.capture_status;
    return 0;
}

static rt_cu_result stream_synchronize(rt_cu_stream stream)
{
    CALLED("cuStreamSynchronize", "stream %x", NUMBER(stream));
    return 0;
}

static rt_cu_result memset_d32(rt_cu_deviceptr to, unsigned int value, size_t count, rt_cu_stream stream)
{
    CALLED("cuMemsetD32Async", "%llx, %x, %zu, stream %x", to, value, count, NUMBER(stream));
    return 0;
}

/* Memory of the device is the host's. */
enum { MOST_ALLOCATIONS = 64 };
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    unsigned char *memory; /* NULL: none */
    size_t bytes;
} allocations[MOST_ALLOCATIONS];

static bool is_allocated(rt_cu_deviceptr address)
{
    bool found = false;

    pthread_mutex_lock(&memory_lock);
    for (int i = 0; i < MOST_ALLOCATIONS && !found; i++)
        found = allocations[i].memory != NULL &&
                address - (rt_cu_deviceptr)(uintptr_t)allocations[i].memory < allocations[i].bytes;
    pthread_mutex_unlock(&memory_lock);
    return found;
}

static rt_cu_result mem_alloc(rt_cu_deviceptr *memory, size_t bytes)
{
    int i = 0;

    CALLED("cuMemAlloc", "%zu", bytes);
    pthread_mutex_lock(&memory_lock);
    while (i < MOST_ALLOCATIONS && allocations[i].memory != NULL)
        i++;
    if (i < MOST_ALLOCATIONS) {
        allocations[i].memory = malloc(bytes);
        allocations[i].bytes = bytes;
        *memory = (rt_cu_deviceptr)(uintptr_t)allocations[i].memory;
        add(&state.live_allocations, 1);
    }
    pthread_mutex_unlock(&memory_lock);
    return i < MOST_ALLOCATIONS ? 0 : 2;
}

/* Freed when the call is to fail, too: nobody calls it again. */
static rt_cu_result mem_free(rt_cu_deviceptr memory)
{
    bool ours = false;

    pthread_mutex_lock(&memory_lock);
    for (int i = 0; i < MOST_ALLOCATIONS && !ours; i++) {
        ours = allocations[i].memory != NULL && (rt_cu_deviceptr)(uintptr_t)allocations[i].memory == memory;
        if (!ours)
            continue;
        free(allocations[i].memory);
        allocations[i].memory = NULL;
        add(&state.live_allocations, -1);
    }
    pthread_mutex_unlock(&memory_lock);
    CALLED("cuMemFree", "%s", ours ? "allocated" : "not allocated");
    return ours ? 0 : RT_CUDA_ERROR_INVALID_VALUE;
}

static rt_cu_result stream_create(rt_cu_stream *stream, unsigned int flags)
{
    CALLED("cuStreamCreate", "%u", flags);
    *stream = HANDLE(rt_cu_stream, 0x5e);
    add(&state.live_streams, 1);
    return 0;
}

static rt_cu_result stream_destroy(rt_cu_stream stream)
{
    add(&state.live_streams, -1);
    CALLED("cuStreamDestroy", "stream %x", NUMBER(stream));
    return 0;
}

static rt_cu_result exchange_capture_mode(int *mode)
{
    const int before = capture_mode;

    CALLED("cuThreadExchangeStreamCaptureMode", "%d", *mode);
    capture_mode = *mode;
    *mode = before;
    return 0;
}

/* To the host, whose addresses are left out of the log. */
static rt_cu_result memcpy_async(rt_cu_deviceptr to, rt_cu_deviceptr from, size_t bytes, rt_cu_stream stream)
{
    if (is_allocated(to) || is_allocated(from)) {
        CALLED("cuMemcpyAsync", "%s, %zu, stream %x", is_allocated(to) ? "up" : "down", bytes, NUMBER(stream));
        memcpy(HANDLE(void *, to), HANDLE(const void *, from), bytes);
        return 0;
    }
    CALLED("cuMemcpyAsync", "from %llx, %zu, stream %x", from, bytes, NUMBER(stream));
    memcpy(HANDLE(void *, to), bytes == 8 ? (const void *)&state.check_result : &state.check_value, bytes);
    return 0;
}

static const struct stub_range *range_of(rt_cu_deviceptr pointer)
{
    static const struct stub_range unknown;

    for (size_t i = 0; i < STUB_MAX_RANGES; i++)
        if (pointer >= state.ranges[i].start && pointer - state.ranges[i].start < state.ranges[i].size)
            return &state.ranges[i];
    return &unknown;
}

static rt_cu_result pointer_get_attributes(unsigned int count, int *attributes, void **values, rt_cu_deviceptr pointer)
{
    const struct stub_range *range = range_of(pointer);
    const rt_cu_deviceptr device_pointer = range->memory_type && !range->not_accessible ? pointer : 0;

    CALLED("cuPointerGetAttributes", "%u, %llx", count, pointer);
    for (unsigned int i = 0; i < count; i++) {
        switch (attributes[i]) {
        case RT_CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            memcpy(values[i], &range->memory_type, sizeof(int));
            break;
        case RT_CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            memcpy(values[i], &device_pointer, 8);
            break;
        case RT_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            memcpy(values[i], &range->start, 8);
            break;
        case RT_CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            memcpy(values[i], &range->size, 8);
            break;
        default:
            return RT_CUDA_ERROR_INVALID_VALUE;
        }
    }
    return 0;
}

static rt_cu_result mem_retain(rt_cu_allocation_handle *handle, void *address)
{
    CALLED("cuMemRetainAllocationHandle", "%x", NUMBER(address));
    *handle = 0x600;
    return range_of((rt_cu_deviceptr)(uintptr_t)address)->is_virtual ? 0 : RT_CUDA_ERROR_INVALID_VALUE;
}

static rt_cu_result mem_release(rt_cu_allocation_handle handle)
{
    CALLED("cuMemRelease", "%llx", handle);
    return 0;
}

struct symbol {
    const char *name;
    int version;
    void (*address)(void);
};

#define ROW(name, version, function)                                                                                   \
    {                                                                                                                  \
        name, version, (void (*)(void))function                                                                        \
    }
static const struct symbol symbols[] = {
    ROW("cuGetErrorName", 6000, get_error_name),
    ROW("cuGetErrorString", 6000, get_error_string),
    ROW("cuInit", 2000, init),
    ROW("cuDriverGetVersion", 2020, driver_get_version),
    ROW("cuDeviceGetCount", 2000, device_get_count),
    ROW("cuDeviceGet", 2000, device_get),
    ROW("cuDeviceGetName", 2000, device_get_name),
    ROW("cuDeviceGetAttribute", 2000, device_get_attribute),
    ROW("cuDevicePrimaryCtxRetain", 7000, primary_retain),
    ROW("cuDevicePrimaryCtxRelease", 11000, primary_release),
    ROW("cuCtxGetCurrent", 4000, ctx_get_current),
    ROW("cuCtxGetDevice", 2000, ctx_get_device),
    ROW("cuCtxGetId", 12000, ctx_get_id),
    ROW("cuCtxPushCurrent", 4000, ctx_push),
    ROW("cuCtxPopCurrent", 4000, ctx_pop),
    ROW("cuLibraryLoadData", 12000, library_load),
    ROW("cuLibraryUnload", 12000, library_unload),
    ROW("cuLibraryGetKernel", 12000, library_get_kernel),
    ROW("cuKernelGetFunction", 12000, kernel_get_function),
    ROW("cuKernelGetParamInfo", 12040, kernel_get_param_info),
    ROW("cuFuncGetAttribute", 2020, func_get_attribute),
    ROW("cuFuncSetAttribute", 9000, func_set_attribute),
    ROW("cuOccupancyMaxActiveClusters", 11070, max_active_clusters),
    ROW("cuLaunchKernelEx", 11060, launch_kernel),
    ROW("cuTensorMapEncodeTiled", 12000, encode_tiled),
    ROW("cuStreamIsCapturing", 10000, stream_is_capturing),
    ROW("cuStreamSynchronize", 2000, stream_synchronize),
    ROW("cuMemsetD32Async", 3020, memset_d32),
    ROW("cuMemcpyAsync", 4000, memcpy_async),
    ROW("cuMemAlloc", 3020, mem_alloc),
    ROW("cuMemFree", 3020, mem_free),
    ROW("cuStreamCreate", 2000, stream_create),
    ROW("cuStreamDestroy", 4000, stream_destroy),
    ROW("cuThreadExchangeStreamCaptureMode", 10010, exchange_capture_mode),
    ROW("cuPointerGetAttributes", 7000, pointer_get_attributes),
    ROW("cuMemRetainAllocationHandle", 11000, mem_retain),
    ROW("cuMemRelease", 10020, mem_release),
    ROW("cuCtxGetDevResource", 12040, ctx_get_dev_resource),
};

static const struct symbol *find_symbol(const char *name)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return &symbols[i];
    return NULL;
}

static int why_not(const struct symbol *symbol, int version)
{
    if (symbol == NULL)
        return RT_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (state.missing && strcmp(state.missing, symbol->name) == 0)
        return state.missing_why;
    if (symbol->version > state.version)
        return RT_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return version < symbol->version ? RT_CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : RT_CU_GET_PROC_ADDRESS_SUCCESS;
}

rt_cu_result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *why);

rt_cu_result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *why)
{
    const struct symbol *symbol = find_symbol(name);

    CALLED("cuGetProcAddress_v2", "%s, %d, %llu", name, version, (unsigned long long)flags);
    *why = why_not(symbol, version);
    *address = NULL;
    if (*why != RT_CU_GET_PROC_ADDRESS_SUCCESS || symbol == NULL)
        return 500;
    memcpy(address, &symbol->address, sizeof *address);
    return 0;
}
