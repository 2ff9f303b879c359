#include "bench_compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "nvrtc_table.h"

enum { HEADERS = 3 };

/* Generated from tools/bench (cmake/embed.cmake). */
const struct gen_file *bench_file_find(const char *name);

static bool fail_smla(char why[BENCH_WHY])
{
    smla_error_info info = {.struct_size = sizeof info};
    smla_last_error(&info);
    snprintf(why, BENCH_WHY, "%s", info.message);
    return false;
}

static bool fail_nvrtc(const struct rt_nvrtc *nvrtc, rt_nvrtc_program program, rt_nvrtc_result result, const char *name,
                       char why[BENCH_WHY])
{
    size_t size = 0;
    char *log = NULL;
    if (program != NULL && nvrtc->nvrtcGetProgramLogSize(program, &size) == RT_NVRTC_SUCCESS)
        log = calloc(size + 1, 1);
    if (log != NULL && nvrtc->nvrtcGetProgramLog(program, log) != RT_NVRTC_SUCCESS)
        log[0] = 0;
    snprintf(why, BENCH_WHY, "NVRTC %d.%d does not compile %s: %s %.600s", nvrtc->major, nvrtc->minor, name,
             nvrtc->nvrtcGetErrorString(result), log == NULL ? "" : log);
    free(log);
    return false;
}

static rt_nvrtc_result create(const struct rt_nvrtc *nvrtc, const struct gen_file *file, rt_nvrtc_program *program)
{
    static const char *const names[HEADERS] = {"types.cuh", "ptx_sm90.cuh", "sm90_tile.cuh"};
    const char *texts[HEADERS];
    char path[96];
    for (int i = 0; i < HEADERS; i++)
        texts[i] = gen_template_find(names[i])->bytes;
    snprintf(path, sizeof path, "/smla/%s", file->name);
    return nvrtc->nvrtcCreateProgram(program, file->bytes, path, HEADERS, texts, names);
}

static rt_nvrtc_result fetch(const struct rt_nvrtc *nvrtc, rt_nvrtc_program program, struct bench_images *out)
{
    size_t cubin = 0, ptx = 0;
    rt_nvrtc_result result = nvrtc->nvrtcGetCUBINSize(program, &cubin);
    if (result == RT_NVRTC_SUCCESS)
        result = nvrtc->nvrtcGetPTXSize(program, &ptx);
    if (result != RT_NVRTC_SUCCESS)
        return result;
    out->cubin = calloc(cubin + 1, 1);
    out->ptx = calloc(ptx + 1, 1);
    if (out->cubin == NULL || out->ptx == NULL)
        return RT_NVRTC_ERROR_OUT_OF_MEMORY;
    result = nvrtc->nvrtcGetCUBIN(program, out->cubin);
    return result == RT_NVRTC_SUCCESS ? nvrtc->nvrtcGetPTX(program, out->ptx) : result;
}

static bool compile(const struct rt_nvrtc *nvrtc, const char *name, struct bench_images *out, char why[BENCH_WHY])
{
    static const char *const flags[] = {"--gpu-architecture=sm_90a", "--std=c++17",        "-default-device",
                                        "-modify-stack-limit=false", "-no-source-include", "--no-cache"};
    const int count = rt_nvrtc_at_least(nvrtc, 12, 9) ? 6 : 5;
    rt_nvrtc_program program = NULL;
    rt_nvrtc_result result = create(nvrtc, bench_file_find(name), &program);
    if (result == RT_NVRTC_SUCCESS)
        result = rt_nvrtc_compile(nvrtc, program, count, flags);
    if (result == RT_NVRTC_SUCCESS)
        result = fetch(nvrtc, program, out);
    const bool ok = result == RT_NVRTC_SUCCESS || fail_nvrtc(nvrtc, program, result, name, why);
    if (program != NULL)
        nvrtc->nvrtcDestroyProgram(&program);
    return ok;
}

bool bench_compile(const struct bench_options *options, const char *name, int driver_major, struct bench_images *out,
                   char why[BENCH_WHY])
{
    const char *path = options->nvrtc != NULL ? options->nvrtc : secure_getenv("SMLA_NVRTC");
    struct rt_nvrtc_set set = {.path = path != NULL && path[0] != 0 ? path : NULL, .places = &rt_nvrtc_default_places};
    const struct rt_nvrtc *nvrtc;
    *out = (struct bench_images){0};
    const bool ok = rt_nvrtc_find(&set, gen_target_find("90a"), driver_major, &nvrtc) == SMLA_OK
                        ? compile(nvrtc, name, out, why)
                        : fail_smla(why);
    rt_nvrtc_set_free(&set);
    if (!ok)
        bench_images_free(out);
    return ok;
}

void bench_images_free(struct bench_images *images)
{
    free(images->cubin);
    free(images->ptx);
    *images = (struct bench_images){0};
}
