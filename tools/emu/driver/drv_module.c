/* Code: modules and libraries from PTX text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drv_state.h"

/* ---- What an image is ---- */

/* Images come without a length, so no more is read than each step allows. */
static int check_image(const void *image)
{
    static const unsigned char fat_magic[4] = {0x50, 0xed, 0x55, 0xba};
    const char *text = image;
    if (memcmp(image,
               "\x7f"
               "ELF",
               4) == 0)
        return drv_log(DRV_CUDA_ERROR_NO_BINARY_FOR_GPU,
                       "the emulated device runs PTX: a cubin was given (--emit ptx, or the PTX that it was made of)");
    if (memcmp(image, fat_magic, sizeof fat_magic) == 0)
        return drv_log(DRV_CUDA_ERROR_NO_BINARY_FOR_GPU,
                       "the emulated device runs PTX: a fat binary was given (compile with nvcc -ptx)");
    text += strspn(text, " \t\r\n");
    if (*text != '.' && *text != '/')
        return drv_log(DRV_CUDA_ERROR_INVALID_IMAGE, "the image is no PTX: its first byte is 0x%02x",
                       (unsigned int)(unsigned char)*text);
    return DRV_CUDA_SUCCESS;
}

/* PTX of an older architecture runs on a newer one, PTX of "sm_90a" on that one alone. */
static int check_target(const char *target)
{
    char *suffix;
    const long number = strncmp(target, "sm_", 3) == 0 ? strtol(target + 3, &suffix, 10) : 0;
    if (number > 0 && number <= drv.settings.sm && (*suffix == '\0' || number == drv.settings.sm))
        return DRV_CUDA_SUCCESS;
    return drv_log(DRV_CUDA_ERROR_NO_BINARY_FOR_GPU, "the PTX is for %s, the emulated device is sm_%d", target,
                   drv.settings.sm);
}

/* ---- Modules ---- */

static struct drv_module *new_module(struct emu_module *code, struct drv_context *context)
{
    struct drv_module *module = drv_new(DRV_MODULE, sizeof *module);
    if (module == NULL)
        return NULL;
    module->code = code;
    module->context = context;
    if (code->global_bytes > 0) {
        const uint64_t address = drv_handle(code->global_memory);
        emu_memory_add(drv.memory, address, code->global_bytes, "module variables");
        emu_memory_mark(drv.memory, address, code->global_bytes);
    }
    return module;
}

static int read_module(const char *text, struct drv_context *context, struct drv_module **out)
{
    char why[512] = "";
    DRV_TRY(check_image(text));
    struct emu_module *code = emu_module_load(text, strlen(text), why);
    if (code == NULL)
        return drv_log(DRV_CUDA_ERROR_INVALID_PTX, "%s", why);
    int result = check_target(code->target);
    struct drv_module *module = result == DRV_CUDA_SUCCESS ? new_module(code, context) : NULL;
    if (module == NULL) {
        emu_module_free(code);
        return result != DRV_CUDA_SUCCESS ? result : DRV_CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = module;
    return DRV_CUDA_SUCCESS;
}

/* A finding names instructions and kernels: they stay for the report. */
static bool is_reported(const struct emu_module *code)
{
    bool found = false;
    pthread_mutex_lock(&drv.report->lock);
    for (int i = 0; i < drv.report->count; i++)
        found = found || (drv.report->findings[i].kernel != NULL && drv.report->findings[i].kernel->module == code);
    pthread_mutex_unlock(&drv.report->lock);
    return found;
}

static void free_module(struct drv_module *module)
{
    while (module->functions != NULL) {
        struct drv_function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    while (module->kernels != NULL) {
        struct drv_kernel *next = module->kernels->next;
        free(module->kernels);
        module->kernels = next;
    }
    if (module->code->global_bytes > 0)
        emu_memory_remove(drv.memory, drv_handle(module->code->global_memory));
    if (!is_reported(module->code))
        emu_module_free(module->code);
    free(module);
}

void drv_module_use(struct drv_module *module)
{
    module->uses++;
}

void drv_module_unuse(struct drv_module *module)
{
    module->uses--;
    if (module->unloaded && module->uses == 0)
        free_module(module);
}

void drv_module_unload(struct drv_module *module)
{
    for (struct drv_function *function = module->functions; function != NULL; function = function->next)
        drv_remove(DRV_FUNCTION, drv_handle(function));
    for (struct drv_kernel *kernel = module->kernels; kernel != NULL; kernel = kernel->next)
        drv_remove(DRV_KERNEL, drv_handle(kernel));
    drv_remove(DRV_MODULE, drv_handle(module));
    module->unloaded = true;
    if (module->uses == 0)
        free_module(module);
}

static bool is_of_context(void *object, const void *context)
{
    const struct drv_module *module = object;
    return module->library == NULL && module->context == context;
}

/* Libraries belong to no context: they stay. */
void drv_modules_destroy(struct drv_context *context)
{
    struct drv_module *module;
    while ((module = drv_search(DRV_MODULE, is_of_context, context)) != NULL)
        drv_module_unload(module);
}

/* ---- JIT options ---- */

struct jit_log {
    char *buffer;
    size_t capacity;
    void **written; /* where the used size goes: the option's own value */
};

struct jit_logs {
    struct jit_log info, error;
};

static void read_options(struct jit_logs *logs, unsigned int count, const int *options, void **values)
{
    *logs = (struct jit_logs){0};
    for (unsigned int i = 0; options != NULL && values != NULL && i < count; i++) {
        struct jit_log *log = options[i] <= DRV_CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ? &logs->info : &logs->error;
        if (options[i] == DRV_CU_JIT_INFO_LOG_BUFFER || options[i] == DRV_CU_JIT_ERROR_LOG_BUFFER)
            log->buffer = values[i];
        if (options[i] == DRV_CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
            options[i] == DRV_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            log->capacity = (unsigned int)(uintptr_t)values[i];
            log->written = &values[i];
        }
    }
}

static void write_log(const struct jit_log *log, const char *text)
{
    size_t length = 0;
    if (log->buffer != NULL && log->capacity > 0) {
        length = strlen(text);
        length = length < log->capacity ? length : log->capacity - 1;
        memcpy(log->buffer, text, length);
        log->buffer[length] = '\0';
    }
    if (log->written != NULL)
        *log->written = (void *)(uintptr_t)length;
}

static void write_logs(const struct jit_logs *logs, int result)
{
    write_log(&logs->info, "");
    write_log(&logs->error, result == DRV_CUDA_SUCCESS ? "" : drv_last_message());
}

/* ---- cuModule… ---- */

int cuModuleLoadDataEx(cu_module *out, const void *image, unsigned int count, int *options, void **values)
{
    struct jit_logs logs;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && image != NULL, CUDA_ERROR_INVALID_VALUE);
    read_options(&logs, count, options, values);
    const int result = read_module(image, call.context, out);
    write_logs(&logs, result);
    return result;
}

int cuModuleLoadData(cu_module *out, const void *image)
{
    return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

int cuModuleLoadFatBinary(cu_module *out, const void *image)
{
    return cuModuleLoadData(out, image);
}

/* The whole file and a NUL; NULL when it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    char *text = NULL;
    if (file == NULL)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long size = ftell(file);
        text = size < 0 ? NULL : calloc((size_t)size + 8, 1);
        rewind(file);
        if (text != NULL && fread(text, 1, (size_t)size, file) != (size_t)size) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

int cuModuleLoad(cu_module *out, const char *path)
{
    DRV_CHECK(path != NULL, CUDA_ERROR_INVALID_VALUE);
    char *text = read_file(path);
    if (text == NULL)
        return DRV_CUDA_ERROR_FILE_NOT_FOUND;
    const int result = cuModuleLoadData(out, text);
    free(text);
    return result;
}

static bool is_module(cu_module module)
{
    return drv_find(DRV_MODULE, drv_handle(module)) != NULL;
}

int cuModuleUnload(cu_module module)
{
    DRV_ENTER(DRV_NEED_CURRENT);
    DRV_CHECK(is_module(module) && module->library == NULL, CUDA_ERROR_INVALID_HANDLE);
    DRV_TRY(drv_forbid_in_capture(true));
    drv_module_unload(module);
    return DRV_CUDA_SUCCESS;
}

static struct drv_function *find_function(const struct drv_module *module, const struct emu_kernel *code)
{
    struct drv_function *function = module->functions;
    while (function != NULL && (function->code != code || function->kernel != NULL))
        function = function->next;
    return function;
}

static void default_attributes(const struct emu_kernel *code, struct drv_attributes *attributes)
{
    const uint64_t fixed = code->static_shared_bytes;
    attributes->max_dynamic_bytes = fixed < DRV_MAX_SHARED_DEFAULT ? (int)(DRV_MAX_SHARED_DEFAULT - fixed) : 0;
    attributes->carveout = -1;
    memcpy(attributes->required_cluster, code->required_cluster, sizeof attributes->required_cluster);
}

static struct drv_function *new_function(struct drv_module *module, struct drv_context *context,
                                         const struct emu_kernel *code)
{
    struct drv_function *function = drv_new(DRV_FUNCTION, sizeof *function);
    if (function == NULL)
        return NULL;
    function->module = module;
    function->context = context;
    function->code = code;
    default_attributes(code, &function->own);
    function->attributes = &function->own;
    function->next = module->functions;
    module->functions = function;
    return function;
}

static int module_function(struct drv_module *module, const struct emu_kernel *code, cu_function *out)
{
    struct drv_function *function = find_function(module, code);
    if (function == NULL)
        function = new_function(module, module->context, code);
    DRV_CHECK(function != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *out = function;
    return DRV_CUDA_SUCCESS;
}

int cuModuleGetFunction(cu_function *out, cu_module module, const char *name)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL && name != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_module(module), CUDA_ERROR_INVALID_HANDLE);
    const struct emu_kernel *code = emu_module_find(module->code, name);
    DRV_CHECK(code != NULL, CUDA_ERROR_NOT_FOUND);
    return module_function(module, code, out);
}

int cuModuleGetFunctionCount(unsigned int *count, cu_module module)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(count != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_module(module), CUDA_ERROR_INVALID_HANDLE);
    *count = module->code->kernel_count;
    return DRV_CUDA_SUCCESS;
}

int cuModuleEnumerateFunctions(cu_function *out, unsigned int count, cu_module module)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_CHECK(is_module(module), CUDA_ERROR_INVALID_HANDLE);
    for (uint32_t i = 0; i < count && i < module->code->kernel_count; i++)
        DRV_TRY(module_function(module, &module->code->kernels[i], &out[i]));
    return DRV_CUDA_SUCCESS;
}

static int find_global(const struct emu_module *code, const char *name, uint64_t *address, size_t *size)
{
    DRV_CHECK(name != NULL, CUDA_ERROR_INVALID_VALUE);
    for (uint32_t i = 0; i < code->global_count; i++) {
        const struct emu_variable *variable = &code->globals[i];
        if (strcmp(variable->name, name) != 0)
            continue;
        if (address != NULL)
            *address = drv_handle(code->global_memory) + variable->offset;
        if (size != NULL)
            *size = variable->size;
        return DRV_CUDA_SUCCESS;
    }
    return DRV_CUDA_ERROR_NOT_FOUND;
}

int cuModuleGetGlobal_v2(uint64_t *address, size_t *size, cu_module module, const char *name)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(is_module(module), CUDA_ERROR_INVALID_HANDLE);
    return find_global(module->code, name, address, size);
}

int cuModuleGetLoadingMode(int *mode)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(mode != NULL, CUDA_ERROR_INVALID_VALUE);
    *mode = drv.settings.eager_loading ? DRV_CU_MODULE_EAGER_LOADING : DRV_CU_MODULE_LAZY_LOADING;
    return DRV_CUDA_SUCCESS;
}

/* ---- cuLibrary… ---- */

static bool is_library(cu_library library)
{
    return drv_find(DRV_LIBRARY, drv_handle(library)) != NULL;
}

/* Reads the text at first use, as a lazily loading driver does. */
static int library_module(struct drv_library *library, struct drv_module **out)
{
    DRV_CHECK(is_library(library), CUDA_ERROR_INVALID_HANDLE);
    DRV_TRY(library->refusal);
    if (library->module == NULL) {
        DRV_TRY(read_module(library->text, NULL, &library->module));
        library->module->library = library;
    }
    *out = library->module;
    return DRV_CUDA_SUCCESS;
}

static void free_library(struct drv_library *library)
{
    if (library->module != NULL)
        drv_module_unload(library->module);
    free(library->text);
    drv_delete(DRV_LIBRARY, library);
}

static int new_library(const void *image, struct drv_library **out)
{
    struct drv_library *library = drv_new(DRV_LIBRARY, sizeof *library);
    DRV_CHECK(library != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    library->refusal = check_image(image);
    if (library->refusal == DRV_CUDA_SUCCESS) {
        library->text = strdup(image);
        if (library->text == NULL) {
            drv_delete(DRV_LIBRARY, library);
            return DRV_CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    *out = library;
    return DRV_CUDA_SUCCESS;
}

/* Errors come at the first use (facts/jit.md §0.2), unless log buffers ask for an answer now. */
int cuLibraryLoadData(cu_library *out, const void *image, int *jit_options, void **jit_values, unsigned int jit_count,
                      int *options, void **values, unsigned int count)
{
    struct drv_library *library = NULL;
    struct drv_module *module = NULL;
    struct jit_logs logs;
    (void)options;
    (void)values;
    (void)count;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL && image != NULL, CUDA_ERROR_INVALID_VALUE);
    read_options(&logs, jit_count, jit_options, jit_values);
    DRV_TRY(new_library(image, &library));
    int result = DRV_CUDA_SUCCESS;
    if (drv.settings.eager_loading || logs.error.buffer != NULL)
        result = library_module(library, &module);
    write_logs(&logs, result);
    if (result == DRV_CUDA_SUCCESS)
        *out = library;
    else
        free_library(library);
    return result;
}

int cuLibraryLoadFromFile(cu_library *out, const char *path, int *jit_options, void **jit_values,
                          unsigned int jit_count, int *options, void **values, unsigned int count)
{
    DRV_CHECK(path != NULL, CUDA_ERROR_INVALID_VALUE);
    char *text = read_file(path);
    if (text == NULL)
        return DRV_CUDA_ERROR_FILE_NOT_FOUND;
    const int result = cuLibraryLoadData(out, text, jit_options, jit_values, jit_count, options, values, count);
    free(text);
    return result;
}

int cuLibraryUnload(cu_library library)
{
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(is_library(library), CUDA_ERROR_INVALID_HANDLE);
    DRV_TRY(drv_forbid_in_capture(true));
    free_library(library);
    return DRV_CUDA_SUCCESS;
}

static int library_kernel(struct drv_module *module, const struct emu_kernel *code, cu_kernel *out)
{
    struct drv_kernel *kernel = module->kernels;
    while (kernel != NULL && kernel->code != code)
        kernel = kernel->next;
    if (kernel == NULL) {
        kernel = drv_new(DRV_KERNEL, sizeof *kernel);
        DRV_CHECK(kernel != NULL, CUDA_ERROR_OUT_OF_MEMORY);
        kernel->module = module;
        kernel->code = code;
        default_attributes(code, &kernel->attributes);
        kernel->next = module->kernels;
        module->kernels = kernel;
    }
    *out = kernel;
    return DRV_CUDA_SUCCESS;
}

int cuLibraryGetKernel(cu_kernel *out, cu_library library, const char *name)
{
    struct drv_module *module = NULL;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL && name != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(library_module(library, &module));
    const struct emu_kernel *code = emu_module_find(module->code, name);
    DRV_CHECK(code != NULL, CUDA_ERROR_NOT_FOUND);
    return library_kernel(module, code, out);
}

int cuLibraryGetKernelCount(unsigned int *count, cu_library library)
{
    struct drv_module *module = NULL;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(count != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(library_module(library, &module));
    *count = module->code->kernel_count;
    return DRV_CUDA_SUCCESS;
}

int cuLibraryEnumerateKernels(cu_kernel *out, unsigned int count, cu_library library)
{
    struct drv_module *module = NULL;
    DRV_ENTER(DRV_NEED_INIT);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(library_module(library, &module));
    for (uint32_t i = 0; i < count && i < module->code->kernel_count; i++)
        DRV_TRY(library_kernel(module, &module->code->kernels[i], &out[i]));
    return DRV_CUDA_SUCCESS;
}

int cuLibraryGetModule(cu_module *out, cu_library library)
{
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(out != NULL, CUDA_ERROR_INVALID_VALUE);
    DRV_TRY(library_module(library, out));
    if ((*out)->context == NULL)
        (*out)->context = call.context;
    return DRV_CUDA_SUCCESS;
}

int cuLibraryGetGlobal(uint64_t *address, size_t *size, cu_library library, const char *name)
{
    struct drv_module *module = NULL;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_TRY(library_module(library, &module));
    return find_global(module->code, name, address, size);
}

/* PTX knows no managed variables of its own (.attribute(.managed) is refused by the reader). */
int cuLibraryGetManaged(uint64_t *address, size_t *size, cu_library library, const char *name)
{
    (void)address;
    (void)size;
    DRV_ENTER(DRV_NEED_HEALTHY);
    DRV_CHECK(is_library(library), CUDA_ERROR_INVALID_HANDLE);
    DRV_CHECK(name != NULL, CUDA_ERROR_INVALID_VALUE);
    return DRV_CUDA_ERROR_NOT_FOUND;
}

/* ---- From kernels to functions ---- */

int drv_kernel_function(struct drv_kernel *kernel, struct drv_context *context, struct drv_function **out)
{
    for (struct drv_function *function = kernel->module->functions; function != NULL; function = function->next) {
        if (function->kernel == kernel && function->context == context) {
            *out = function;
            return DRV_CUDA_SUCCESS;
        }
    }
    struct drv_function *function = new_function(kernel->module, context, kernel->code);
    DRV_CHECK(function != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    function->kernel = kernel;
    function->attributes = &kernel->attributes;
    *out = function;
    return DRV_CUDA_SUCCESS;
}

int drv_resolve_function(struct drv_context *context, cu_function handle, struct drv_function **out,
                         struct drv_kernel **kernel)
{
    *kernel = drv_find(DRV_KERNEL, drv_handle(handle));
    if (*kernel != NULL)
        return drv_kernel_function(*kernel, context, out);
    *out = drv_find(DRV_FUNCTION, drv_handle(handle));
    DRV_CHECK(*out != NULL && (*out)->context == context, CUDA_ERROR_INVALID_HANDLE);
    return DRV_CUDA_SUCCESS;
}
