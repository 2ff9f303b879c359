/* What kernels and functions say about themselves, and what may be set. */
#include <string.h>

#include "drv_state.h"

enum { MAX_REGISTERS = 255 }; /* a thread */

/* PTX does not tell how many registers ptxas will give. Without bounds of the kernel's own: as many as let the largest
 * block run. */
int drv_registers(const struct emu_kernel *code)
{
    const bool bounded = code->max_threads != 0 || code->required_ntid[0] != 0;
    const int most = DRV_REGISTERS_PER_SM / DRV_MAX_THREADS;
    if (code->launch_registers == 0 || (!bounded && code->launch_registers == MAX_REGISTERS))
        return most;
    return (int)code->launch_registers;
}

int drv_kernel_max_threads(const struct emu_kernel *code)
{
    const int by_registers = DRV_REGISTERS_PER_SM / drv_registers(code) / 32 * 32;
    int threads = by_registers < DRV_MAX_THREADS ? by_registers : DRV_MAX_THREADS;
    if (code->max_threads != 0 && (int)code->max_threads < threads)
        threads = (int)code->max_threads;
    if (code->required_ntid[0] != 0)
        threads = (int)(code->required_ntid[0] * code->required_ntid[1] * code->required_ntid[2]);
    return threads;
}

static int get(int *value, int attribute, const struct emu_kernel *code, const struct drv_attributes *attributes)
{
    DRV_CHECK(value != NULL, CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case DRV_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = drv_kernel_max_threads(code);
        break;
    case DRV_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)code->static_shared_bytes;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)code->local_bytes;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = drv_registers(code);
        break;
    case DRV_CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case DRV_CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = drv.settings.sm;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case DRV_CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = attributes->max_dynamic_bytes;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = attributes->carveout;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = code->explicit_cluster && attributes->required_cluster[0] == 0;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = (int)attributes->required_cluster[attribute - DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        break;
    case DRV_CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = attributes->non_portable;
        break;
    case DRV_CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = attributes->policy;
        break;
    default:
        return DRV_CUDA_ERROR_INVALID_VALUE;
    }
    return DRV_CUDA_SUCCESS;
}

static int set_cluster(struct drv_attributes *attributes, const struct emu_kernel *code, int axis, int value)
{
    DRV_CHECK(code->required_cluster[0] == 0 && value >= 0, CUDA_ERROR_INVALID_VALUE);
    attributes->required_cluster[axis] = (unsigned int)value;
    return DRV_CUDA_SUCCESS;
}

static int set(int attribute, int value, const struct emu_kernel *code, struct drv_attributes *attributes)
{
    switch (attribute) {
    case DRV_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        DRV_CHECK(value >= 0 && (uint64_t)value + code->static_shared_bytes <= DRV_MAX_SHARED_OPTIN,
                  CUDA_ERROR_INVALID_VALUE);
        attributes->max_dynamic_bytes = value;
        return DRV_CUDA_SUCCESS;
    case DRV_CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        DRV_CHECK(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
        attributes->carveout = value;
        return DRV_CUDA_SUCCESS;
    case DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        return set_cluster(attributes, code, attribute - DRV_CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, value);
    case DRV_CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        DRV_CHECK(value == 0 || value == 1, CUDA_ERROR_INVALID_VALUE);
        attributes->non_portable = value;
        return DRV_CUDA_SUCCESS;
    case DRV_CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        DRV_CHECK(value >= 0 && value <= 2, CUDA_ERROR_INVALID_VALUE);
        attributes->policy = value;
        return DRV_CUDA_SUCCESS;
    default:
        return DRV_CUDA_ERROR_INVALID_VALUE;
    }
}

static int param_info(const struct emu_kernel *code, size_t index, size_t *offset, size_t *size)
{
    DRV_CHECK(offset != NULL && index < code->param_count, CUDA_ERROR_INVALID_VALUE);
    *offset = code->params[index].offset;
    if (size != NULL)
        *size = code->params[index].size;
    return DRV_CUDA_SUCCESS;
}

/* ---- Kernels ---- */

static bool is_kernel(cu_kernel kernel)
{
    return drv_find(DRV_KERNEL, drv_handle(kernel)) != NULL;
}

int cuKernelGetFunction(cu_function *out, cu_kernel kernel)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_kernel(kernel), CUDA_ERROR_INVALID_HANDLE);
    return drv_kernel_function(kernel, call.context, out);
}

int cuKernelGetLibrary(cu_library *out, cu_kernel kernel)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_kernel(kernel), CUDA_ERROR_INVALID_HANDLE);
    *out = kernel->module->library;
    return DRV_CUDA_SUCCESS;
}

int cuKernelGetName(const char **name, cu_kernel kernel)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(name != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_kernel(kernel), CUDA_ERROR_INVALID_HANDLE);
    *name = kernel->code->name;
    return DRV_CUDA_SUCCESS;
}

int cuKernelGetAttribute(int *value, int attribute, cu_kernel kernel, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_kernel(kernel), CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    return get(value, attribute, kernel->code, &kernel->attributes);
}

int cuKernelSetAttribute(int attribute, int value, cu_kernel kernel, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_kernel(kernel), CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    return set(attribute, value, kernel->code, &kernel->attributes);
}

int cuKernelSetCacheConfig(cu_kernel kernel, int config, int device)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_kernel(kernel), CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(device == 0, CUDA_ERROR_INVALID_DEVICE);
    DRV_CHECK(config >= 0 && config <= 3, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_SUCCESS;
}

int cuKernelGetParamInfo(cu_kernel kernel, size_t index, size_t *offset, size_t *size)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_kernel(kernel), CUDA_ERROR_INVALID_HANDLE);
    return param_info(kernel->code, index, offset, size);
}

/* ---- Functions: a CUkernel will do, in the current context ---- */

int cuFuncGetAttribute(int *value, int attribute, cu_function handle)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    return get(value, attribute, function->code, function->attributes);
}

int cuFuncSetAttribute(cu_function handle, int attribute, int value)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    return set(attribute, value, function->code, function->attributes);
}

int cuFuncSetCacheConfig(cu_function handle, int config)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(config >= 0 && config <= 3, CUDA_ERROR_INVALID_VALUE);
    return drv_resolve_function(call.context, handle, &function, &kernel);
}

int cuFuncGetModule(cu_module *out, cu_function handle)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    *out = function->module;
    return DRV_CUDA_SUCCESS;
}

int cuFuncGetName(const char **name, cu_function handle)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(name != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    *name = function->code->name;
    return DRV_CUDA_SUCCESS;
}

int cuFuncGetParamInfo(cu_function handle, size_t index, size_t *offset, size_t *size)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    return param_info(function->code, index, offset, size);
}

int cuFuncIsLoaded(int *state, cu_function handle)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(state != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(drv_resolve_function(call.context, handle, &function, &kernel));
    *state = DRV_CU_FUNCTION_LOADING_STATE_LOADED;
    return DRV_CUDA_SUCCESS;
}

int cuFuncLoad(cu_function handle)
{
    struct drv_function *function = NULL;
    struct drv_kernel *kernel = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    return drv_resolve_function(call.context, handle, &function, &kernel);
}
