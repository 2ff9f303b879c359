#include "nvrtc_table.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "error.h"
#include "process.h"

enum { LOG_BYTES = 1024, BUILTINS_BYTES = 160 };

struct symbol {
    const char *name;
    size_t offset;
};

static const struct symbol symbols[] = {
#define SYMBOL_ROW(name, parameters) {#name, offsetof(struct rt_nvrtc, name)},
    RT_NVRTC_SYMBOLS(SYMBOL_ROW)
#undef SYMBOL_ROW
        {"nvrtcGetErrorString", offsetof(struct rt_nvrtc, nvrtcGetErrorString)},
};

bool rt_nvrtc_at_least(const struct rt_nvrtc *nvrtc, int major, int minor)
{
    return nvrtc->major > major || (nvrtc->major == major && nvrtc->minor >= minor);
}

static bool fill(struct rt_nvrtc *nvrtc, const char *name, char why[512])
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(nvrtc->library, symbols[i].name);
        if (address == NULL) {
            snprintf(why, 512, "%s has no %s", name, symbols[i].name);
            return false;
        }
        memcpy((char *)nvrtc + symbols[i].offset, &address, sizeof address);
    }
    return true;
}

static bool read_version(struct rt_nvrtc *nvrtc, const char *name, char why[512])
{
    const char *call = "nvrtcVersion";
    int count = 0;
    rt_nvrtc_result result = nvrtc->nvrtcVersion(&nvrtc->major, &nvrtc->minor);

    if (result == RT_NVRTC_SUCCESS) {
        call = "nvrtcGetNumSupportedArchs";
        result = nvrtc->nvrtcGetNumSupportedArchs(&count);
    }
    if (result == RT_NVRTC_SUCCESS && count >= 0 && count <= RT_NVRTC_MAX_ARCHS) {
        call = "nvrtcGetSupportedArchs";
        nvrtc->arch_count = count;
        result = nvrtc->nvrtcGetSupportedArchs(nvrtc->archs);
    }
    nvrtc->open_result = result;
    if (result == RT_NVRTC_SUCCESS)
        return true;
    snprintf(why, 512, "%s does not tell its version and targets, %s failed: %s", name, call,
             nvrtc->nvrtcGetErrorString(result));
    return false;
}

/* The file that the loader found, which is what a person has to know when it is the wrong one. */
static void read_path(struct rt_nvrtc *nvrtc, const char *name)
{
    void *address;
    Dl_info info;

    memcpy(&address, &nvrtc->nvrtcVersion, sizeof address);
    const bool known = dladdr(address, &info) != 0 && info.dli_fname != NULL;
    snprintf(nvrtc->path, sizeof nvrtc->path, "%s", known ? info.dli_fname : name);
}

bool rt_nvrtc_open(struct rt_nvrtc *nvrtc, const char *name, int dlopen_flags, char why[512])
{
    memset(nvrtc, 0, sizeof *nvrtc);
    nvrtc->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | dlopen_flags);
    if (nvrtc->library == NULL) {
        const char *reason = dlerror();
        snprintf(why, 512, "%s: %s", name, reason ? reason : "not loaded");
        return false;
    }
    if (fill(nvrtc, name, why) && read_version(nvrtc, name, why)) {
        read_path(nvrtc, name);
        return true;
    }
    dlclose(nvrtc->library);
    nvrtc->library = NULL;
    return false;
}

/* NVRTC opens its builtins by bare name when it compiles, which fails where its folder is not searched (facts/jit.md
 * #22). One that is loaded already is found. Failing here is for NVRTC to report. */
static void load_builtins(const struct rt_nvrtc *nvrtc)
{
    char path[sizeof nvrtc->path + 64];
    const char *slash = strrchr(nvrtc->path, '/');
    const int folder = slash ? (int)(slash - nvrtc->path) + 1 : 0;

    if (folder == 0)
        return;
    snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", folder, nvrtc->path, nvrtc->major, nvrtc->minor);
    (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* NVRTC 13.5 lifts the process's CPU limit in every compilation, and no option stops it (seen by interposing setrlimit:
 * RLIMIT_CPU becomes unlimited; 12.8, 12.9 and 13.0 do not). A limit that was there is put back. Of compilations that
 * overlap, the first that began with the limit restores it.
 *
 * NVRTC has some 3300 destructors from when it is loaded, and 1 to 12 more from its first compilations (12.8 to 13.5,
 * by interposing __cxa_atexit): exit() waits in front of all that there are by now. */
rt_nvrtc_result rt_nvrtc_compile(const struct rt_nvrtc *nvrtc, rt_nvrtc_program program, int option_count,
                                 const char *const *options)
{
    struct rlimit before, after;

    if (!rt_process_wait_at_exit())
        return RT_NVRTC_ERROR_OUT_OF_MEMORY;
    const bool limited = getrlimit(RLIMIT_CPU, &before) == 0 && before.rlim_cur != RLIM_INFINITY;
    const rt_nvrtc_result result = nvrtc->nvrtcCompileProgram(program, option_count, options);

    if (limited && getrlimit(RLIMIT_CPU, &after) == 0 && after.rlim_cur == RLIM_INFINITY)
        (void)setrlimit(RLIMIT_CPU, &before);
    return result;
}

/* The log, cut to fit; empty where there is none. */
static void read_log(const struct rt_nvrtc *nvrtc, rt_nvrtc_program program, char log[LOG_BYTES])
{
    size_t size = 0;

    log[0] = '\0';
    if (nvrtc->nvrtcGetProgramLogSize(program, &size) != RT_NVRTC_SUCCESS || size == 0)
        return;
    char *all = calloc(size + 1, 1);
    if (all && nvrtc->nvrtcGetProgramLog(program, all) == RT_NVRTC_SUCCESS)
        snprintf(log, LOG_BYTES, "%s", all);
    free(all);
}

static rt_nvrtc_result compile_nothing(const struct rt_nvrtc *nvrtc, char **ptx, size_t *size, char log[LOG_BYTES])
{
    const char *const options[] = {"-modify-stack-limit=false", "--no-cache"};
    rt_nvrtc_program program = NULL;
    rt_nvrtc_result result = nvrtc->nvrtcCreateProgram(&program, "", "smla_nothing.cu", 0, NULL, NULL);

    if (result != RT_NVRTC_SUCCESS)
        return result;
    result = rt_nvrtc_compile(nvrtc, program, rt_nvrtc_at_least(nvrtc, 12, 9) ? 2 : 1, options);
    if (result != RT_NVRTC_SUCCESS)
        read_log(nvrtc, program, log);
    if (result == RT_NVRTC_SUCCESS)
        result = nvrtc->nvrtcGetPTXSize(program, size);
    if (result == RT_NVRTC_SUCCESS) {
        *ptx = calloc(*size + 1, 1);
        result = *ptx ? nvrtc->nvrtcGetPTX(program, *ptx) : RT_NVRTC_ERROR_OUT_OF_MEMORY;
    }
    nvrtc->nvrtcDestroyProgram(&program);
    return result;
}

/* The banner names the build (Compiler Build ID), which nvrtcVersion does not. */
static size_t banner_size(const char *ptx)
{
    const char *end = ptx;

    while (end[0] == '/' && end[1] == '/') {
        const char *line_end = strchr(end, '\n');
        end = line_end ? line_end + 1 : end + strlen(end);
    }
    return (size_t)(end - ptx);
}

static smla_status fail_nothing(const struct rt_nvrtc *nvrtc, rt_nvrtc_result result, const char *log)
{
    char builtins[BUILTINS_BYTES] = "";

    if (result == RT_NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
        snprintf(builtins, sizeof builtins,
                 "; it needs its libnvrtc-builtins.so.%d.%d beside it, or where the loader looks (LD_LIBRARY_PATH)",
                 nvrtc->major, nvrtc->minor);
    const smla_status status =
        rt_fail_native(result == RT_NVRTC_ERROR_OUT_OF_MEMORY ? SMLA_ERROR_OUT_OF_MEMORY : SMLA_ERROR_UNAVAILABLE,
                       result, "NVRTC %d.%d (%s) cannot compile an empty program: %s%s", nvrtc->major, nvrtc->minor,
                       nvrtc->path, nvrtc->nvrtcGetErrorString(result), builtins);
    rt_fail_path(nvrtc->path);
    rt_fail_log(log, strlen(log));
    return status;
}

smla_status rt_nvrtc_identify(struct rt_nvrtc *nvrtc)
{
    char *ptx = NULL, log[LOG_BYTES] = "";
    size_t size = 0;

    const smla_status status = rt_process_begin_work();
    if (status != SMLA_OK)
        return status;
    load_builtins(nvrtc);
    const rt_nvrtc_result result = compile_nothing(nvrtc, &ptx, &size, log);
    rt_process_end_work();
    if (result == RT_NVRTC_SUCCESS) {
        nvrtc->builder.nvrtc_major = nvrtc->major;
        nvrtc->builder.nvrtc_minor = nvrtc->minor;
        rt_digest_of(ptx, banner_size(ptx), &nvrtc->builder.build_id);
    }
    free(ptx);
    return result == RT_NVRTC_SUCCESS ? SMLA_OK : fail_nothing(nvrtc, result, log);
}
