#include "compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "cubin_check.h"
#include "describe.h"
#include "error.h"
#include "process.h"
#include "ptxas_report.h"

enum { OWN_OPTIONS = 5 };

/* One compilation. */
struct job {
    const struct rt_nvrtc *nvrtc;
    const struct gen_bundle *bundle;
    const struct rt_key *key;
    rt_nvrtc_program program;
    const char *options[GEN_MAX_OPTIONS + OWN_OPTIONS];
    int option_count;
    char *log;
    char *payload;
    size_t payload_size;
    uint32_t compile_ms;
};

/* The bundle's options change the code and are in the key; ours change nothing in it: they keep NVRTC from touching
 * the process's stack limit, its own cache below the home folder and files beside the working folder, and ask ptxas
 * for its report. */
static void gather_options(struct job *job)
{
    const char *lines = rt_line_option(job->bundle, job->key->kind);

    for (int32_t i = 0; i < job->bundle->option_count; i++)
        job->options[job->option_count++] = job->bundle->options[i];
    if (lines != NULL)
        job->options[job->option_count++] = lines;
    job->options[job->option_count++] = "-modify-stack-limit=false";
    job->options[job->option_count++] = "-no-source-include";
    job->options[job->option_count++] = "--ptxas-options=-v";
    if (rt_nvrtc_at_least(job->nvrtc, 12, 9))
        job->options[job->option_count++] = "--no-cache";
}

static rt_nvrtc_result create_program(struct job *job)
{
    const char *texts[GEN_MAX_FILES], *names[GEN_MAX_FILES];
    const struct gen_file *files = job->bundle->files;
    const int header_count = job->bundle->file_count - 1;
    char name[96];

    /* Absolute: line information puts the working folder before a relative name. */
    snprintf(name, sizeof name, "/smla/%s", files[0].name);
    for (int i = 0; i < header_count; i++) {
        texts[i] = files[i + 1].bytes;
        names[i] = files[i + 1].name;
    }
    return job->nvrtc->nvrtcCreateProgram(&job->program, files[0].bytes, name, header_count, texts, names);
}

static rt_nvrtc_result run_compiler(struct job *job)
{
    const uint64_t start = rt_now_ns();
    const rt_nvrtc_result result = rt_nvrtc_compile(job->nvrtc, job->program, job->option_count, job->options);
    job->compile_ms = (uint32_t)((rt_now_ns() - start) / 1000000);
    return result;
}

/* The log is wanted of failures above all, so that a failure to get it does not hide the other one. */
static void fetch_log(struct job *job)
{
    size_t size = 0;

    if (job->nvrtc->nvrtcGetProgramLogSize(job->program, &size) != RT_NVRTC_SUCCESS)
        return;
    job->log = calloc(size + 1, 1);
    if (job->log == NULL)
        return;
    if (job->nvrtc->nvrtcGetProgramLog(job->program, job->log) != RT_NVRTC_SUCCESS)
        job->log[0] = '\0';
    rt_ptxas_report_clean(job->log);
}

static void join_options(const struct job *job, char *text, size_t capacity)
{
    size_t size = 0;

    text[0] = '\0';
    for (int i = 0; i < job->option_count && size < capacity; i++)
        size += (size_t)snprintf(text + size, capacity - size, "%s%s", i ? " " : "", job->options[i]);
}

static smla_status status_of(rt_nvrtc_result result)
{
    switch (result) {
    case RT_NVRTC_ERROR_OUT_OF_MEMORY:
        return SMLA_ERROR_OUT_OF_MEMORY;
    case RT_NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
        return SMLA_ERROR_UNAVAILABLE;
    default:
        return SMLA_ERROR_COMPILE;
    }
}

static smla_status fail_nvrtc(const struct job *job, rt_nvrtc_result result, const char *doing)
{
    char options[320], what[RT_DESCRIPTION_BYTES];

    join_options(job, options, sizeof options);
    rt_describe(&job->bundle->spec, what);
    const smla_status status =
        rt_fail_native(status_of(result), result, "NVRTC %d.%d (%s) failed %s %s (%s): %s; options: %s",
                       job->nvrtc->major, job->nvrtc->minor, job->nvrtc->path, doing, job->bundle->files[0].name, what,
                       job->nvrtc->nvrtcGetErrorString(result), options);
    rt_fail_path(job->nvrtc->path);
    if (job->log)
        rt_fail_log(job->log, strlen(job->log));
    return status;
}

static rt_nvrtc_result payload_size(struct job *job)
{
    return job->key->kind == RT_KIND_PTX ? job->nvrtc->nvrtcGetPTXSize(job->program, &job->payload_size)
                                         : job->nvrtc->nvrtcGetCUBINSize(job->program, &job->payload_size);
}

static rt_nvrtc_result payload_bytes(struct job *job)
{
    return job->key->kind == RT_KIND_PTX ? job->nvrtc->nvrtcGetPTX(job->program, job->payload)
                                         : job->nvrtc->nvrtcGetCUBIN(job->program, job->payload);
}

static smla_status fail_payload(const struct job *job, const char *why)
{
    const smla_status status =
        rt_fail(SMLA_ERROR_COMPILE, "NVRTC %d.%d (%s) reported success, but its result cannot be used: %s",
                job->nvrtc->major, job->nvrtc->minor, job->nvrtc->path, why);
    rt_fail_path(job->nvrtc->path);
    if (job->log)
        rt_fail_log(job->log, strlen(job->log));
    return status;
}

static smla_status check_payload(const struct job *job)
{
    const struct gen_plan *plan = &job->bundle->plan;
    char why[256];

    for (int32_t i = 0; i < plan->variant_count; i++) {
        const bool good = job->key->kind == RT_KIND_PTX
                              ? rt_ptx_check(job->payload, job->payload_size, job->bundle->spec.target->arch,
                                             plan->variants[i].entry, why)
                              : rt_cubin_check(job->payload, job->payload_size, job->bundle->spec.target->arch,
                                               plan->variants[i].entry, why);
        if (!good)
            return fail_payload(job, why);
    }
    return SMLA_OK;
}

/* A failed compile leaves a size of 0 with NVRTC_SUCCESS, so both count (facts/jit.md §0.10). */
static smla_status fetch_payload(struct job *job)
{
    rt_nvrtc_result result = payload_size(job);

    if (result != RT_NVRTC_SUCCESS)
        return fail_nvrtc(job, result, "sizing the result of");
    if (job->payload_size == 0)
        return fail_payload(job, "it is empty");
    job->payload = malloc(job->payload_size);
    if (job->payload == NULL)
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of compiled kernel", job->payload_size);
    result = payload_bytes(job);
    if (result != RT_NVRTC_SUCCESS)
        return fail_nvrtc(job, result, "handing out the result of");
    return check_payload(job);
}

static smla_status compile_program(struct job *job, bool *lasting)
{
    rt_nvrtc_result result = create_program(job);

    if (result != RT_NVRTC_SUCCESS)
        return fail_nvrtc(job, result, "reading");
    result = run_compiler(job);
    fetch_log(job);
    if (result != RT_NVRTC_SUCCESS) {
        *lasting = result == RT_NVRTC_ERROR_COMPILATION;
        return fail_nvrtc(job, result, "compiling");
    }
    return fetch_payload(job);
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* The most of each over the variants, so that a spill in any of them shows. */
static void fill_report(const struct job *job, struct rt_entry_info *info)
{
    info->registers = info->spill_bytes = info->local_bytes = info->static_shared_bytes = -1;
    for (int32_t i = 0; i < job->bundle->plan.variant_count; i++) {
        const struct rt_ptxas_report report =
            rt_ptxas_report_read(job->log ? job->log : "", job->bundle->plan.variants[i].entry);
        info->registers = larger(info->registers, report.registers);
        if (report.spill_store_bytes >= 0)
            info->spill_bytes = larger(info->spill_bytes, report.spill_store_bytes + report.spill_load_bytes);
        info->local_bytes = larger(info->local_bytes, report.stack_bytes);
        info->static_shared_bytes = larger(info->static_shared_bytes, report.static_shared_bytes);
    }
}

static smla_status write_entry(const struct job *job, struct rt_entry *out)
{
    const struct gen_plan *plan = &job->bundle->plan;
    struct rt_entry_info info = {
        .key = *job->key,
        .builder = job->nvrtc->builder,
        .param_bytes = plan->param_bytes,
        .compile_ms = job->compile_ms,
    };

    snprintf(info.arch, sizeof info.arch, "%s", job->bundle->spec.target->arch);
    snprintf(info.entry_symbol, sizeof info.entry_symbol, "%s", plan->variants[0].entry);
    rt_describe(&job->bundle->spec, info.description);
    fill_report(job, &info);
    return rt_entry_write(&info, job->payload, job->payload_size, job->log, out);
}

static smla_status compile(const struct rt_nvrtc *nvrtc, const struct gen_bundle *bundle, const struct rt_key *key,
                           struct rt_entry *out, bool *lasting)
{
    struct job job = {.nvrtc = nvrtc, .bundle = bundle, .key = key};

    gather_options(&job);
    smla_status status = compile_program(&job, lasting);
    if (status == SMLA_OK)
        status = write_entry(&job, out);
    if (job.program)
        nvrtc->nvrtcDestroyProgram(&job.program);
    free(job.payload);
    free(job.log);
    return status;
}

smla_status rt_compile(const struct rt_nvrtc *nvrtc, const struct gen_bundle *bundle, const struct rt_key *key,
                       struct rt_entry *out, bool *lasting)
{
    smla_status status = rt_process_begin_work();

    *lasting = false;
    if (status != SMLA_OK)
        return status;
    status = compile(nvrtc, bundle, key, out, lasting);
    rt_process_end_work();
    return status;
}
