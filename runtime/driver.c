#include "driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

/* A symbol's place in the table. */
struct symbol {
    const char *name;
    int version;
    size_t offset;
};

static const struct symbol symbols[] = {
#define SYMBOL_ROW(name, version, parameters) {#name, version, offsetof(struct rt_driver, name)},
    RT_DRIVER_SYMBOLS(SYMBOL_ROW)
#undef SYMBOL_ROW
};

static const struct symbol optional_symbols[] = {
#define SYMBOL_ROW(name, version, parameters) {#name, version, offsetof(struct rt_driver, name)},
    RT_DRIVER_CHECK_SYMBOLS(SYMBOL_ROW) RT_DRIVER_TEST_SYMBOLS(SYMBOL_ROW) RT_DRIVER_RANGE_SYMBOLS(SYMBOL_ROW)
        RT_DRIVER_PART_SYMBOLS(SYMBOL_ROW)
#undef SYMBOL_ROW
};

static smla_status fail_symbol(const struct symbol *symbol, const char *path, int why)
{
    if (why == RT_CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
        return rt_fail(SMLA_ERROR_UNAVAILABLE,
                       "the CUDA driver %s has %s, but not with the signature of API %d.%d: update the driver", path,
                       symbol->name, symbol->version / 1000, symbol->version % 1000 / 10);
    return rt_fail(SMLA_ERROR_UNAVAILABLE,
                   "the CUDA driver %s does not have %s (API %d.%d): is it a driver of API %d.%d or newer?", path,
                   symbol->name, symbol->version / 1000, symbol->version % 1000 / 10, RT_DRIVER_FLOOR / 1000,
                   RT_DRIVER_FLOOR % 1000 / 10);
}

/* OK with *address NULL, and the reason in *why, where the driver does not have the symbol. Another failure is told: it
 * may pass, and a lack stays for as long as the table. */
static smla_status find_symbol(const struct rt_driver *driver, const struct symbol *symbol, rt_driver_load_fn load,
                               void *user, void **address, int *why)
{
    *address = NULL;
    *why = RT_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const rt_cu_result result = load(user, symbol->name, symbol->version, address, why);
    if (result == RT_CUDA_SUCCESS)
        return SMLA_OK;
    *address = NULL;
    if (result == RT_CUDA_ERROR_NOT_FOUND || result == RT_CUDA_ERROR_NOT_SUPPORTED)
        return SMLA_OK;
    return rt_fail_native(SMLA_ERROR_UNAVAILABLE, result, "cuGetProcAddress of %s in %s failed with CUresult %d",
                          symbol->name, driver->path, result);
}

static smla_status fill_symbol(struct rt_driver *driver, const struct symbol *symbol, rt_driver_load_fn load,
                               void *user)
{
    void *address;
    int why;
    const smla_status status = find_symbol(driver, symbol, load, user, &address, &why);

    if (status != SMLA_OK)
        return status;
    if (address == NULL)
        return fail_symbol(symbol, driver->path, why);
    memcpy((char *)driver + symbol->offset, &address, sizeof address);
    return SMLA_OK;
}

static smla_status fill_optional(struct rt_driver *driver, rt_driver_load_fn load, void *user)
{
    smla_status status = SMLA_OK;

    for (size_t i = 0; status == SMLA_OK && i < sizeof optional_symbols / sizeof optional_symbols[0]; i++) {
        void *address;
        int why;
        status = find_symbol(driver, &optional_symbols[i], load, user, &address, &why);
        memcpy((char *)driver + optional_symbols[i].offset, &address, sizeof address);
    }
    return status;
}

/* Ahead of the other symbols: an old driver is to be told that it is old, not which symbol it lacks. */
static smla_status check_version(struct rt_driver *driver, rt_driver_load_fn load, void *user)
{
    static const struct symbol version_symbol = {"cuDriverGetVersion", 2020,
                                                 offsetof(struct rt_driver, cuDriverGetVersion)};
    const smla_status status = fill_symbol(driver, &version_symbol, load, user);

    if (status != SMLA_OK)
        return status;
    const rt_cu_result result = driver->cuDriverGetVersion(&driver->version);
    if (result != RT_CUDA_SUCCESS)
        return rt_fail_native(SMLA_ERROR_UNAVAILABLE, result, "cuDriverGetVersion of %s failed with CUresult %d",
                              driver->path, result);
    if (driver->version < RT_DRIVER_FLOOR)
        return rt_fail(SMLA_ERROR_UNAVAILABLE,
                       "the CUDA driver %s has API %d.%d, smla needs %d.%d or newer: update the driver", driver->path,
                       driver->version / 1000, driver->version % 1000 / 10, RT_DRIVER_FLOOR / 1000,
                       RT_DRIVER_FLOOR % 1000 / 10);
    return SMLA_OK;
}

/* The number where the driver has no name for it. */
static const char *error_name(const struct rt_driver *driver, rt_cu_result result, char number[32])
{
    const char *name = NULL;

    if (driver->cuGetErrorName(result, &name) == RT_CUDA_SUCCESS && name != NULL)
        return name;
    snprintf(number, 32, "CUresult %d", result);
    return number;
}

static const char *error_text(const struct rt_driver *driver, rt_cu_result result)
{
    const char *text = NULL;

    return driver->cuGetErrorString(result, &text) == RT_CUDA_SUCCESS && text != NULL ? text : "no text";
}

/* What a number does not tell by itself. */
static const char *advice(rt_cu_result result)
{
    switch (result) {
    case RT_CUDA_ERROR_INVALID_IMAGE:
    case RT_CUDA_ERROR_NO_BINARY_FOR_GPU:
        return "; the code is what its compiler made (the digest was checked): update the driver, or compile it for "
               "this device with an NVRTC that is no newer than the driver";
    case RT_CUDA_ERROR_ILLEGAL_ADDRESS:
    case RT_CUDA_ERROR_LAUNCH_TIMEOUT:
    case RT_CUDA_ERROR_ASSERT:
    case RT_CUDA_ERROR_HARDWARE_STACK_ERROR:
    case RT_CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case RT_CUDA_ERROR_MISALIGNED_ADDRESS:
    case RT_CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case RT_CUDA_ERROR_INVALID_PC:
    case RT_CUDA_ERROR_LAUNCH_FAILED:
        return "; from earlier work: a kernel that was launched before failed, smla's or another's, and every call in "
               "this CUDA context fails since";
    case RT_CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return "; the driver is older than the compiler: update the driver, or name an older NVRTC";
    case RT_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case RT_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return "; a stream is being captured, and this driver does not allow it meanwhile: do it before the capture";
    case RT_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
        return "; an earlier call has made the stream's capture invalid";
    default:
        return "";
    }
}

static smla_status initialise(struct rt_driver *driver)
{
    char number[32];
    const rt_cu_result result = driver->cuInit(0);

    if (result != RT_CUDA_SUCCESS)
        return rt_fail_native(SMLA_ERROR_UNAVAILABLE, result, "cuInit of the CUDA driver %s failed: %s (%s)",
                              driver->path, error_name(driver, result, number), error_text(driver, result));
    driver->pid = getpid();
    return SMLA_OK;
}

smla_status rt_driver_fill(struct rt_driver *driver, const char *path, rt_driver_load_fn load, void *user)
{
    memset(driver, 0, sizeof *driver);
    snprintf(driver->path, sizeof driver->path, "%s", path);
    smla_status status = check_version(driver, load, user);
    for (size_t i = 0; status == SMLA_OK && i < sizeof symbols / sizeof symbols[0]; i++)
        status = fill_symbol(driver, &symbols[i], load, user);
    if (status == SMLA_OK)
        status = fill_optional(driver, load, user);
    if (status == SMLA_OK)
        status = initialise(driver);
    if (status != SMLA_OK)
        rt_fail_path(path);
    return status;
}

typedef rt_cu_result (*get_proc_address_fn)(const char *symbol, void **address, int version, uint64_t flags, int *why);

static rt_cu_result load_from_library(void *user, const char *symbol, int version, void **address, int *why)
{
    const get_proc_address_fn *get = user;

    /* smla hands on the caller's stream as it is, so NULL must mean what it means to the caller: the legacy stream. */
    return (*get)(symbol, address, version, RT_CU_GET_PROC_ADDRESS_LEGACY_STREAM, why);
}

static const char *library_name(const char *path)
{
    return path ? path : "libcuda.so.1";
}

bool rt_driver_is_loaded(const char *path)
{
    void *library = dlopen(library_name(path), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

    if (library != NULL)
        dlclose(library);
    return library != NULL;
}

smla_status rt_driver_open(struct rt_driver *driver, const char *path)
{
    const char *name = library_name(path);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        const char *why = dlerror();
        const smla_status status = rt_fail(SMLA_ERROR_UNAVAILABLE,
                                           "no CUDA driver: %s cannot be opened (%s); install one, or name its libcuda "
                                           "with SMLA_DRIVER or driver_path",
                                           name, why ? why : "no reason given");
        rt_fail_path(name);
        return status;
    }
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    if (symbol == NULL) {
        rt_fail(SMLA_ERROR_UNAVAILABLE,
                "%s has no cuGetProcAddress_v2, so it is older than API 12.0 or no CUDA driver; smla needs %d.%d", name,
                RT_DRIVER_FLOOR / 1000, RT_DRIVER_FLOOR % 1000 / 10);
        rt_fail_path(name);
        return SMLA_ERROR_UNAVAILABLE;
    }
    get_proc_address_fn get;
    memcpy(&get, &symbol, sizeof get);
    const smla_status status = rt_driver_fill(driver, name, load_from_library, &get);
    driver->takes_ptx = dlsym(library, "smla_emu_version") != NULL;
    return status;
}

static smla_status refuse_missing(const struct rt_driver *driver, const char *missing, const char *who)
{
    if (missing == NULL)
        return SMLA_OK;
    return rt_fail(SMLA_ERROR_UNAVAILABLE, "the CUDA driver %s does not have %s, which %s calls", driver->path, missing,
                   who);
}

#define LOOK_FOR(name, version, parameters)                                                                            \
    if (driver->name == NULL)                                                                                          \
        missing = #name;

smla_status rt_driver_check_for_checks(const struct rt_driver *driver)
{
    const char *missing = NULL;

    RT_DRIVER_CHECK_SYMBOLS(LOOK_FOR)
    return refuse_missing(driver, missing, "a checked kernel");
}

smla_status rt_driver_check_for_test(const struct rt_driver *driver)
{
    const char *missing = NULL;

    RT_DRIVER_CHECK_SYMBOLS(LOOK_FOR)
    RT_DRIVER_TEST_SYMBOLS(LOOK_FOR)
    return refuse_missing(driver, missing, "the self-test");
}

#undef LOOK_FOR

smla_status rt_driver_check_process(const struct rt_driver *driver)
{
    const pid_t now = getpid();

    if (now == driver->pid)
        return SMLA_OK;
    return rt_fail(
        SMLA_ERROR_UNAVAILABLE,
        "process %ld was forked from %ld after CUDA was initialised there, and CUDA does not work in a forked "
        "child: fork before the first CUDA call, or exec",
        (long)now, (long)driver->pid);
}

smla_status rt_driver_fail(const struct rt_driver *driver, rt_cu_result result, const char *format, ...)
{
    char what[512], number[32];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(what, sizeof what, format, arguments) < 0)
        what[0] = '\0';
    va_end(arguments);
    return rt_fail_native(SMLA_ERROR_DRIVER, result, "%s failed: %s (%s)%s%s", what, error_name(driver, result, number),
                          error_text(driver, result), advice(result),
                          getpid() == driver->pid ? "" : "; this process was forked after CUDA was initialised");
}
