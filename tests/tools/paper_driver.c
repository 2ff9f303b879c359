/* A CUDA driver on paper: device memory is host memory, and a launch of a prefill kernel computes the CPU reference.
 * It shows that smla-run's checks pass a right kernel and catch a wrong one, on a machine without a card.
 * SMLA_PAPER_FAULT names what is wrong with the kernel (see faults[]), or with the driver (init_never_ends);
 * SMLA_PAPER_VERSION is the driver's version. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bf16.h"
#include "cuda_types.h"
#include "prefill_tensor_params.h"
#include "reference.h"

#define EXPORT __attribute__((visibility("default")))

enum { CONTEXT = 0xa0, LAUNCH_FAILED = 719, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };

static _Thread_local rt_cu_context current;
static rt_cu_result pending; /* what the next synchronisation gives */
static bool hangs;           /* whoever synchronises */
static int launches;

/* ---- The kernel ---- */

static void write_outputs(const struct smla_prefill_params *p, const struct reference_result *result, int64_t h_q,
                          int64_t d_v)
{
    for (int64_t row = 0; row < p->s_q * h_q; row++) {
        uint16_t *out = (uint16_t *)p->out + row / h_q * p->out_stride_token + row % h_q * p->out_stride_head;
        for (int64_t d = 0; d < d_v; d++)
            out[d] = bf16_from_float((float)result->out[row * d_v + d]);
        p->lse[row / h_q * p->lse_stride_token + row % h_q] = (float)result->lse[row];
        p->max_logits[row / h_q * p->max_logits_stride_token + row % h_q] = (float)result->max_logits[row];
    }
}

static void lse_in_base_2(const struct smla_prefill_params *p, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++)
        p->lse[row] *= 1.44269504f;
}

static void past_the_end(const struct smla_prefill_params *p, int64_t rows)
{
    p->lse[rows] = 0;
}

static void before_the_begin(const struct smla_prefill_params *p, int64_t rows)
{
    (void)rows;
    ((uint16_t *)p->out)[-1] = 0;
}

static void an_input_changed(const struct smla_prefill_params *p, int64_t rows)
{
    (void)rows;
    *(int32_t *)(uintptr_t)p->cache[0].indices ^= 1;
}

static void not_written(const struct smla_prefill_params *p, int64_t rows)
{
    (void)rows;
    ((uint16_t *)p->out)[17] = 0xffff; /* as smla-run left it */
}

static void not_the_same_twice(const struct smla_prefill_params *p, int64_t rows)
{
    (void)rows;
    if (launches == 3)
        ((uint16_t *)p->out)[1000] ^= 1;
}

static void launch_failure(const struct smla_prefill_params *p, int64_t rows)
{
    (void)p;
    (void)rows;
    pending = LAUNCH_FAILED;
}

static void never_ends(const struct smla_prefill_params *p, int64_t rows)
{
    (void)p;
    (void)rows;
    hangs = true;
}

static const struct {
    const char *name;
    void (*spoil)(const struct smla_prefill_params *p, int64_t rows);
} faults[] = {
    {"lse_in_base_2", lse_in_base_2},       {"past_the_end", past_the_end}, {"before_the_begin", before_the_begin},
    {"an_input_changed", an_input_changed}, {"not_written", not_written},   {"not_the_same_twice", not_the_same_twice},
    {"launch_failure", launch_failure},     {"never_ends", never_ends},
};

static void spoil(const struct smla_prefill_params *p, int64_t rows)
{
    const char *fault = getenv("SMLA_PAPER_FAULT");
    for (size_t i = 0; fault != NULL && i < sizeof faults / sizeof faults[0]; i++)
        if (strcmp(fault, faults[i].name) == 0)
            faults[i].spoil(p, rows);
}

/* The shape is read off the strides: the callers' tensors are contiguous. */
static rt_cu_result compute(const struct smla_prefill_params *p)
{
    struct reference_result result;
    const smla_kernel_desc shape = {.h_q = (int32_t)(p->query_stride_token / p->query_stride_head),
                                    .d_qk = (int32_t)p->query_stride_head,
                                    .d_v = (int32_t)p->out_stride_head};
    const smla_prefill_args args = {.lse_flags = p->lse_flags,
                                    .s_q = p->s_q,
                                    .s_kv = p->cache[0].s_kv,
                                    .topk = p->cache[0].topk,
                                    .sm_scale = p->sm_scale,
                                    .query = p->query,
                                    .kv = p->cache[0].kv,
                                    .indices = p->cache[0].indices,
                                    .topk_length = p->cache[0].topk_length,
                                    .attn_sink = p->attn_sink};
    launches++;
    if (p->lse == NULL || p->max_logits == NULL) /* smla-bench: only the host's part counts */
        return RT_CUDA_SUCCESS;
    if (!reference_prefill(&shape, &args, &result))
        return OUT_OF_MEMORY;
    write_outputs(p, &result, shape.h_q, shape.d_v);
    spoil(p, p->s_q * shape.h_q);
    reference_free(&result);
    return RT_CUDA_SUCCESS;
}

/* ---- What smla calls, found through cuGetProcAddress ---- */

static rt_cu_result get_current(rt_cu_context *context)
{
    *context = current;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result get_current_device(rt_cu_device *device)
{
    *device = 0;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result get_id(rt_cu_context context, unsigned long long *id)
{
    (void)context;
    *id = 1;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result push(rt_cu_context context)
{
    current = context;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result pop(rt_cu_context *context)
{
    *context = current;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result load(rt_cu_library *library, const void *code, void *jit_options, void **jit_values,
                         unsigned int jit_count, void *options, void **values, unsigned int count)
{
    (void)code, (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    *library = (rt_cu_library)(uintptr_t)1;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result unload(rt_cu_library library)
{
    (void)library;
    return RT_CUDA_SUCCESS;
}

enum { TAKES_NO_MAPS = 1, TAKES_MAPS = 2 };

static rt_cu_result get_kernel(rt_cu_kernel *kernel, rt_cu_library library, const char *name)
{
    (void)library;
    *kernel = (rt_cu_kernel)(uintptr_t)(strstr(name, "prefill_persistent") ? TAKES_MAPS : TAKES_NO_MAPS);
    return RT_CUDA_SUCCESS;
}

static rt_cu_result get_function(rt_cu_function *function, rt_cu_kernel kernel)
{
    (void)kernel;
    *function = (rt_cu_function)(uintptr_t)1;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result get_param_info(rt_cu_kernel kernel, size_t index, size_t *offset, size_t *size)
{
    *offset = 0;
    *size = (uintptr_t)kernel == TAKES_MAPS ? sizeof(struct smla_prefill_tensor_params)
                                            : sizeof(struct smla_prefill_params);
    return index == 0 ? RT_CUDA_SUCCESS : RT_CUDA_ERROR_INVALID_VALUE;
}

static rt_cu_result get_function_attribute(int *value, int attribute, rt_cu_function function)
{
    (void)attribute, (void)function;
    *value = 1024;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result set_function_attribute(rt_cu_function function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result max_active_clusters(int *clusters, rt_cu_function function,
                                        const struct rt_cu_launch_config *config)
{
    (void)function, (void)config;
    *clusters = 0;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result launch(const struct rt_cu_launch_config *config, rt_cu_function function, void **parameters,
                           void **extra)
{
    (void)config, (void)function, (void)extra;
    return compute(parameters[0]);
}

static rt_cu_result encode_tiled(void *map, int type, unsigned int rank, void *address, const uint64_t *dims,
                                 const uint64_t *strides, const unsigned int *box, const unsigned int *element_strides,
                                 int interleave, int swizzle, int l2_promotion, int fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)dims, (void)strides, (void)box, (void)element_strides;
    (void)interleave, (void)swizzle, (void)l2_promotion, (void)fill;
    return RT_CUDA_SUCCESS;
}

/* For the library's self-test. */
static rt_cu_result stream_create(rt_cu_stream *stream, unsigned int flags)
{
    (void)flags;
    *stream = (rt_cu_stream)(uintptr_t)1;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result stream_destroy(rt_cu_stream stream)
{
    (void)stream;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result stream_synchronize(rt_cu_stream stream)
{
    (void)stream;
    while (hangs)
        pause();
    return pending;
}

static rt_cu_result stream_is_capturing(rt_cu_stream stream, int *status)
{
    (void)stream;
    *status = 0;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result exchange_capture_mode(int *mode)
{
    (void)mode;
    return RT_CUDA_SUCCESS;
}

static rt_cu_result copy_async(uintptr_t to, uintptr_t from, size_t size, rt_cu_stream stream)
{
    (void)stream;
    memcpy((void *)to, (const void *)from, size);
    return RT_CUDA_SUCCESS;
}

static rt_cu_result set_words(uintptr_t memory, unsigned int value, size_t count, rt_cu_stream stream)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        ((unsigned int *)memory)[i] = value;
    return RT_CUDA_SUCCESS;
}

/* ---- What the tools call by name, too ---- */

EXPORT rt_cu_result cuGetErrorName(rt_cu_result error, const char **text);
EXPORT rt_cu_result cuGetErrorString(rt_cu_result error, const char **text);
EXPORT rt_cu_result cuInit(unsigned int flags);
EXPORT rt_cu_result cuDriverGetVersion(int *version);
EXPORT rt_cu_result cuDeviceGetCount(int *count);
EXPORT rt_cu_result cuDeviceGet(rt_cu_device *device, int ordinal);
EXPORT rt_cu_result cuDeviceGetName(char *name, int capacity, rt_cu_device device);
EXPORT rt_cu_result cuDeviceGetAttribute(int *value, int attribute, rt_cu_device device);
EXPORT rt_cu_result cuDevicePrimaryCtxRetain(rt_cu_context *context, rt_cu_device device);
EXPORT rt_cu_result cuDevicePrimaryCtxRelease_v2(rt_cu_device device);
EXPORT rt_cu_result cuCtxSetCurrent(rt_cu_context context);
EXPORT rt_cu_result cuCtxSynchronize(void);
EXPORT rt_cu_result cuMemAlloc_v2(uintptr_t *memory, size_t size);
EXPORT rt_cu_result cuMemFree_v2(uintptr_t memory);
EXPORT rt_cu_result cuMemcpyHtoD_v2(uintptr_t memory, const void *host, size_t size);
EXPORT rt_cu_result cuMemcpyDtoH_v2(void *host, uintptr_t memory, size_t size);
EXPORT rt_cu_result cuMemsetD8_v2(uintptr_t memory, unsigned char byte, size_t size);
EXPORT rt_cu_result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *why);

rt_cu_result cuGetErrorName(rt_cu_result error, const char **text)
{
    *text = error == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "an error";
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuGetErrorString(rt_cu_result error, const char **text)
{
    (void)error;
    *text = "on paper";
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuInit(unsigned int flags)
{
    const char *fault = getenv("SMLA_PAPER_FAULT");
    (void)flags;
    while (fault != NULL && strcmp(fault, "init_never_ends") == 0)
        pause();
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuDriverGetVersion(int *version)
{
    const char *asked = getenv("SMLA_PAPER_VERSION");
    *version = asked != NULL ? atoi(asked) : 13000;
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuDeviceGetCount(int *count)
{
    *count = 1;
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuDeviceGet(rt_cu_device *device, int ordinal)
{
    *device = ordinal;
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuDeviceGetName(char *name, int capacity, rt_cu_device device)
{
    (void)device;
    snprintf(name, (size_t)capacity, "Paper");
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuDeviceGetAttribute(int *value, int attribute, rt_cu_device device)
{
    (void)device;
    *value = attribute == RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
             : attribute == RT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                            : 1 << 20;
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuDevicePrimaryCtxRetain(rt_cu_context *context, rt_cu_device device)
{
    (void)device;
    *context = (rt_cu_context)(uintptr_t)CONTEXT;
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuDevicePrimaryCtxRelease_v2(rt_cu_device device)
{
    (void)device;
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuCtxSetCurrent(rt_cu_context context)
{
    current = context;
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuCtxSynchronize(void)
{
    while (hangs)
        pause();
    return pending;
}

rt_cu_result cuMemAlloc_v2(uintptr_t *memory, size_t size)
{
    void *block = aligned_alloc(256, (size + 255) / 256 * 256);
    *memory = (uintptr_t)block;
    return block == NULL ? OUT_OF_MEMORY : RT_CUDA_SUCCESS;
}

rt_cu_result cuMemFree_v2(uintptr_t memory)
{
    free((void *)memory);
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuMemcpyHtoD_v2(uintptr_t memory, const void *host, size_t size)
{
    memcpy((void *)memory, host, size);
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuMemcpyDtoH_v2(void *host, uintptr_t memory, size_t size)
{
    memcpy(host, (const void *)memory, size);
    return RT_CUDA_SUCCESS;
}

rt_cu_result cuMemsetD8_v2(uintptr_t memory, unsigned char byte, size_t size)
{
    memset((void *)memory, byte, size);
    return RT_CUDA_SUCCESS;
}

#define ROW(name, function)                                                                                            \
    {                                                                                                                  \
        name, (void (*)(void))function                                                                                 \
    }

static const struct {
    const char *name;
    void (*address)(void);
} symbols[] = {
    ROW("cuGetErrorName", cuGetErrorName),
    ROW("cuGetErrorString", cuGetErrorString),
    ROW("cuInit", cuInit),
    ROW("cuDriverGetVersion", cuDriverGetVersion),
    ROW("cuDeviceGetCount", cuDeviceGetCount),
    ROW("cuDeviceGet", cuDeviceGet),
    ROW("cuDeviceGetName", cuDeviceGetName),
    ROW("cuDeviceGetAttribute", cuDeviceGetAttribute),
    ROW("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain),
    ROW("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2),
    ROW("cuCtxGetCurrent", get_current),
    ROW("cuCtxGetDevice", get_current_device),
    ROW("cuCtxGetId", get_id),
    ROW("cuCtxPushCurrent", push),
    ROW("cuCtxPopCurrent", pop),
    ROW("cuLibraryLoadData", load),
    ROW("cuLibraryUnload", unload),
    ROW("cuLibraryGetKernel", get_kernel),
    ROW("cuKernelGetFunction", get_function),
    ROW("cuKernelGetParamInfo", get_param_info),
    ROW("cuFuncGetAttribute", get_function_attribute),
    ROW("cuFuncSetAttribute", set_function_attribute),
    ROW("cuOccupancyMaxActiveClusters", max_active_clusters),
    ROW("cuLaunchKernelEx", launch),
    ROW("cuTensorMapEncodeTiled", encode_tiled),
    ROW("cuStreamCreate", stream_create),
    ROW("cuStreamDestroy", stream_destroy),
    ROW("cuStreamSynchronize", stream_synchronize),
    ROW("cuStreamIsCapturing", stream_is_capturing),
    ROW("cuThreadExchangeStreamCaptureMode", exchange_capture_mode),
    ROW("cuMemAlloc", cuMemAlloc_v2),
    ROW("cuMemFree", cuMemFree_v2),
    ROW("cuMemcpyAsync", copy_async),
    ROW("cuMemsetD32Async", set_words),
};

rt_cu_result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *why)
{
    (void)version, (void)flags;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (strcmp(symbols[i].name, name) == 0) {
            memcpy(address, &symbols[i].address, sizeof *address);
            *why = RT_CU_GET_PROC_ADDRESS_SUCCESS;
            return RT_CUDA_SUCCESS;
        }
    }
    *why = RT_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return NOT_FOUND;
}
