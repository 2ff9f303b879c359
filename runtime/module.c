#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"

enum {
    LOG_BYTES = 4096,
    TENSOR_MAP_ALIGNMENT =
        64, /* a parameter that holds tensor maps begins at a multiple of it, in the driver's count */
};

smla_status rt_modules_init(struct rt_modules *modules, const struct rt_log *log)
{
    modules->first = NULL;
    modules->log = log;
    if (pthread_mutex_init(&modules->lock, NULL) != 0)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a lock");
    return SMLA_OK;
}

static struct rt_module *find_module(const struct rt_modules *modules, const struct rt_device *device,
                                     const struct rt_entry *image)
{
    for (struct rt_module *module = modules->first; module; module = module->next)
        if (module->image == image && module->cuda_context_id == device->context_id)
            return module;
    return NULL;
}

static struct rt_module *add_module(struct rt_modules *modules, const struct rt_device *device,
                                    const struct rt_entry *image)
{
    struct rt_module *module = calloc(1, sizeof *module);

    if (module == NULL) {
        rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a module's record");
        return NULL;
    }
    module->image = image;
    module->cuda_context_id = device->context_id;
    module->next = modules->first;
    modules->first = module;
    return module;
}

/* By what the image is, and not by what the driver lacks at the time. Of a function that is not there, too: the driver
 * looks into an image when the first is asked for (facts/jit.md §0.2), and only the first one's name was checked. */
static bool refuses_image(rt_cu_result result)
{
    return result == RT_CUDA_ERROR_INVALID_IMAGE || result == RT_CUDA_ERROR_NO_BINARY_FOR_GPU ||
           result == RT_CUDA_ERROR_INVALID_PTX || result == RT_CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
           result == RT_CUDA_ERROR_NOT_FOUND;
}

/* What "invalid image" and "no binary for this GPU" do not tell by themselves. */
static smla_status fail_load(const struct rt_device *device, struct rt_module *module, rt_cu_result result,
                             const char *call)
{
    const struct rt_entry_info *info = &module->image->info;

    module->refused = refuses_image(result);
    return rt_driver_fail(device->driver, result,
                          "%s of %s (%s, built by NVRTC %d.%d) on device %d (%s, compute capability %d.%d, driver API "
                          "%d.%d)",
                          call, info->entry_symbol, info->arch, info->builder.nvrtc_major, info->builder.nvrtc_minor,
                          device->ordinal, device->name, device->cc_major, device->cc_minor,
                          device->driver->version / 1000, device->driver->version % 1000 / 10);
}

/* PTX is compiled by the driver, which tells in a log what it did not like. */
static rt_cu_result load_data(const struct rt_device *device, const struct rt_module *module, rt_cu_library *library,
                              char log[LOG_BYTES])
{
    int options[] = {RT_CU_JIT_ERROR_LOG_BUFFER, RT_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)LOG_BYTES};
    const bool ptx = module->image->info.key.kind == RT_KIND_PTX;

    return device->driver->cuLibraryLoadData(library, module->image->payload, ptx ? options : NULL, ptx ? values : NULL,
                                             ptx ? 2 : 0, NULL, NULL, 0);
}

static smla_status load_library(struct rt_modules *modules, const struct rt_device *device, struct rt_module *module)
{
    rt_cu_library library = NULL;
    char log[LOG_BYTES] = "";

    if (module->library)
        return SMLA_OK;
    const rt_cu_result result = load_data(device, module, &library, log);
    if (result != RT_CUDA_SUCCESS) {
        const smla_status status = fail_load(device, module, result, "cuLibraryLoadData");
        rt_fail_log(log, strlen(log));
        return status;
    }
    module->library = library;
    rt_count(&modules->loaded, 1);
    return SMLA_OK;
}

static smla_status fail_layout(const struct rt_module *module, const char *what, size_t found, size_t wanted)
{
    return rt_fail(SMLA_ERROR_INTERNAL,
                   "the compiled %s takes %s %zu, this smla passes %zu: the cubin is not of this version",
                   module->image->info.entry_symbol, what, found, wanted);
}

/* The struct that this library passes. A second parameter is not asked for: asking past the last is an API error, which
 * compute-sanitizer reports, and the kernel's source is part of the key. */
static smla_status check_parameters(const struct rt_device *device, struct rt_module *module, rt_cu_kernel kernel,
                                    const struct gen_plan *plan, const struct gen_variant *variant)
{
    const int32_t wanted = variant->param_bytes ? variant->param_bytes : plan->param_bytes;
    size_t offset = 0, size = 0;
    const rt_cu_result result = device->driver->cuKernelGetParamInfo(kernel, 0, &offset, &size);

    if (result != RT_CUDA_SUCCESS)
        return fail_load(device, module, result, "cuKernelGetParamInfo(0)");
    if (offset != 0 && !(plan->tensor_maps && offset < TENSOR_MAP_ALIGNMENT))
        return fail_layout(module, "its parameter at offset", offset, 0);
    if (size != (size_t)wanted)
        return fail_layout(module, "a parameter of bytes", size, (size_t)wanted);
    return SMLA_OK;
}

/* ptxas may have given a kernel fewer threads than planned, by its registers: better told now than at a launch. */
static smla_status check_threads(const struct rt_device *device, struct rt_module *module, rt_cu_function function,
                                 const struct gen_variant *variant)
{
    int threads = 0;
    const rt_cu_result result =
        device->driver->cuFuncGetAttribute(&threads, RT_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);

    if (result != RT_CUDA_SUCCESS)
        return fail_load(device, module, result, "cuFuncGetAttribute(MAX_THREADS_PER_BLOCK)");
    if (variant->threads > threads)
        return rt_fail(SMLA_ERROR_INTERNAL, "%s was planned with blocks of %d threads, its registers allow %d",
                       variant->name, variant->threads, threads);
    return SMLA_OK;
}

static smla_status set_shared_memory(const struct rt_device *device, struct rt_module *module, rt_cu_function function,
                                     const struct gen_variant *variant)
{
    const rt_cu_result result = device->driver->cuFuncSetAttribute(
        function, RT_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, variant->shared_bytes);

    if (result != RT_CUDA_SUCCESS)
        return fail_load(device, module, result, "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
    return SMLA_OK;
}

static smla_status resolve_variant(const struct rt_device *device, struct rt_module *module,
                                   const struct gen_plan *plan, int32_t index)
{
    const struct gen_variant *variant = &plan->variants[index];
    rt_cu_kernel kernel = NULL;
    rt_cu_result result = device->driver->cuLibraryGetKernel(&kernel, module->library, variant->entry);

    if (result != RT_CUDA_SUCCESS)
        return fail_load(device, module, result, "cuLibraryGetKernel");
    smla_status status = check_parameters(device, module, kernel, plan, variant);
    if (status != SMLA_OK)
        return status;
    result = device->driver->cuKernelGetFunction(&module->functions[index], kernel);
    if (result != RT_CUDA_SUCCESS)
        return fail_load(device, module, result, "cuKernelGetFunction");
    status = check_threads(device, module, module->functions[index], variant);
    if (status == SMLA_OK)
        status = set_shared_memory(device, module, module->functions[index], variant);
    return status;
}

static void tell_loaded(const struct rt_modules *modules, const struct rt_device *device,
                        const struct rt_module *module, smla_status status, uint64_t duration_ns)
{
    const struct rt_entry_info *info = &module->image->info;
    const struct rt_event event = {.kind = SMLA_EVENT_LOAD,
                                   .level = status == SMLA_OK ? SMLA_LOG_DEBUG : SMLA_LOG_INFO,
                                   .status = status,
                                   .duration_ns = duration_ns,
                                   .key = &info->key,
                                   .kernel = info->description};

    rt_tell(modules->log, &event, "%s on device %d (%s): %s", status == SMLA_OK ? "loaded" : "not loaded",
            device->ordinal, device->name, info->description);
}

/* A library whose resolving failed is kept, and the next attempt goes on from there: unloading it could end somebody's
 * stream capture. */
static smla_status make_ready(struct rt_modules *modules, const struct rt_device *device, struct rt_module *module,
                              const struct gen_plan *plan)
{
    const uint64_t start = rt_now_ns();

    module->refused = false;
    smla_status status = load_library(modules, device, module);

    for (int32_t i = 0; status == SMLA_OK && i < plan->variant_count; i++)
        status = resolve_variant(device, module, plan, i);
    const uint64_t duration = rt_now_ns() - start;
    rt_count(&modules->load_ns, duration);
    tell_loaded(modules, device, module, status, duration);
    module->ready = status == SMLA_OK;
    return status;
}

smla_status rt_modules_get(struct rt_modules *modules, const struct rt_device *device, const struct rt_entry *image,
                           const struct gen_plan *plan, const struct rt_module **out, bool *refused)
{
    smla_status status = SMLA_OK;

    *refused = false;
    pthread_mutex_lock(&modules->lock);
    struct rt_module *module = find_module(modules, device, image);
    if (module == NULL)
        module = add_module(modules, device, image);
    if (module == NULL)
        status = SMLA_ERROR_OUT_OF_MEMORY;
    else if (!module->ready)
        status = make_ready(modules, device, module, plan);
    if (status != SMLA_OK && module != NULL)
        *refused = module->refused;
    pthread_mutex_unlock(&modules->lock);
    if (status == SMLA_OK)
        *out = module;
    return status;
}

bool rt_modules_unload(struct rt_modules *modules, const struct rt_driver *driver)
{
    for (struct rt_module *module = modules->first; module; module = module->next) {
        if (module->library && driver->cuLibraryUnload(module->library) == RT_CUDA_ERROR_DEINITIALIZED)
            return false;
        module->library = NULL;
    }
    return true;
}

void rt_modules_free(struct rt_modules *modules)
{
    while (modules->first) {
        struct rt_module *next = modules->first->next;
        free(modules->first);
        modules->first = next;
    }
    pthread_mutex_destroy(&modules->lock);
}
