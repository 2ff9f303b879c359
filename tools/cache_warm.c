/* smla-cache warm: what is missing of a list of kernels is compiled into the folder; a marker says that all are there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "cache_marker.h"
#include "clock.h"
#include "pool.h"
#include "smla_cache.h"

enum kernel_state {
    KERNEL_MISSING, /* to compile; or not compiled, after all */
    KERNEL_THERE,   /* in the folder before */
    KERNEL_COMPILED
};

struct warm_kernel {
    const struct shapes_job *job;
    smla_support support;
    char label[160];
    size_t bytes; /* of its code, without the companion's */
    enum kernel_state state;
    bool read_back, companion_read_back;
};

struct warm {
    const struct cache_options *options;
    char *folder;
    struct warm_kernel *kernels; /* each once */
    size_t count;
    size_t refused; /* descriptions that no kernel serves */
    size_t there;
    json_t *compilers; /* of the entries, "13.0" */
    uint64_t start_ns;
    /* While they are looked for, or compiled: */
    smla_context *context;
    size_t *missing; /* which to compile */
    size_t missing_count;
    size_t compiled; /* read and written with __atomic builtins, as are entries and stopped */
    size_t entries;  /* of those */
    bool stopped;    /* the folder took no entry: the rest would be compiled for nothing */
};

static double seconds_since(uint64_t start_ns)
{
    return (double)(rt_now_ns() - start_ns) * 1e-9;
}

/* ---- Which kernels ---- */

static bool is_known(const struct warm *warm, const smla_support *support)
{
    for (size_t i = 0; i < warm->count; i++)
        if (strcmp(warm->kernels[i].support.kernel_id, support->kernel_id) == 0)
            return true;
    return false;
}

/* Two descriptions of one kernel (90 and 90a, or in two files) are one kernel here. */
static int take_job(struct warm *warm, const struct shapes_job *job)
{
    struct warm_kernel kernel = {.job = job, .support = {.struct_size = sizeof kernel.support}};
    smla_kernel_desc desc;
    shapes_text(job, kernel.label);
    shapes_desc(job, &desc);
    const bool asked = smla_query_support(warm->context, &desc, &kernel.support) == SMLA_OK;
    if (asked && kernel.support.supported) {
        if (!is_known(warm, &kernel.support))
            warm->kernels[warm->count++] = kernel;
        return CLI_FINE;
    }
    warm->refused++;
    return asked ? cli_fail(CLI_UNAVAILABLE, "%s: %s", kernel.label, kernel.support.reason)
                 : cli_smla_error(kernel.label);
}

static bool has_companion(const struct warm_kernel *kernel)
{
    return kernel->support.companion[0] != '\0';
}

static int32_t count_bytes(void *user, const void *data, size_t size)
{
    struct warm_kernel *kernel = user;
    (void)data;
    kernel->bytes = size;
    return 0;
}

/* With a companion's entry too: smla_generate sees to it. */
static smla_status generate(struct warm *warm, struct warm_kernel *kernel)
{
    smla_kernel_desc desc;
    shapes_desc(kernel->job, &desc);
    return smla_generate(warm->context, &desc, SMLA_EMIT_CUBIN, count_bytes, kernel);
}

/* A job of pool_run; the context compiles nothing. */
static int look_for_one(void *user, size_t index, char label[160])
{
    struct warm *warm = user;
    struct warm_kernel *kernel = &warm->kernels[index];
    (void)label;
    const smla_status status = generate(warm, kernel);
    if (status == SMLA_OK)
        kernel->state = KERNEL_THERE;
    return status == SMLA_OK || status == SMLA_ERROR_NOT_CACHED ? CLI_FINE : cli_smla_error(kernel->label);
}

static int open_context(struct warm *warm, uint32_t cache_policy, uint32_t jit_policy)
{
    const smla_context_desc desc = {.struct_size = sizeof desc,
                                    .flags = SMLA_CONTEXT_OWN_CACHE,
                                    .cache_policy = cache_policy,
                                    .jit_policy = jit_policy,
                                    .nvrtc_path = warm->options->nvrtc,
                                    .cache_dir = warm->folder,
                                    .log = cache_log_line,
                                    .disable = ""}; /* a folder is for other machines too */
    return smla_context_create(&desc, &warm->context) == SMLA_OK ? CLI_FINE : cli_smla_error(warm->folder);
}

static void close_context(struct warm *warm)
{
    smla_context_destroy(warm->context);
    warm->context = NULL;
}

/* A folder that was made just now has a path only now. */
static void settle_folder(struct warm *warm)
{
    char *path = realpath(warm->folder, NULL);
    if (path == NULL)
        return;
    free(warm->folder);
    warm->folder = path;
}

/* Fills in which kernels there are and which of them are in the folder. */
static int look(struct warm *warm, const struct shapes_job *jobs, size_t job_count)
{
    if (warm->options->check && access(warm->folder, F_OK) != 0)
        return cli_fail(CLI_CHECK_FAILED, "'%s': %s", warm->folder, strerror(errno));
    const uint32_t policy = warm->options->check ? SMLA_CACHE_RO : SMLA_CACHE_RW;
    int code = open_context(warm, policy, SMLA_JIT_OFF);
    if (code != CLI_FINE)
        return code;
    settle_folder(warm);
    for (size_t i = 0; i < job_count; i++)
        code = cli_worse(code, take_job(warm, &jobs[i]));
    code = cli_worse(code, pool_run(warm->count, warm->options->threads, look_for_one, warm));
    close_context(warm);
    for (size_t i = 0; i < warm->count; i++) {
        if (warm->kernels[i].state == KERNEL_THERE)
            warm->there++;
        else
            warm->missing[warm->missing_count++] = i;
    }
    return code;
}

/* ---- Compiling ---- */

static void show(const struct warm *warm, const char *doing, const char *label)
{
    char text[200];
    const size_t done = warm->there + __atomic_load_n(&warm->compiled, __ATOMIC_RELAXED);
    snprintf(text, sizeof text, "%.0f s%s%s", seconds_since(warm->start_ns), doing, label);
    cli_progress(done, warm->count, text);
}

/* Whether all that was compiled so far was written, or found written by somebody else. */
static bool all_written(const struct warm *warm, size_t entries)
{
    smla_stats_counters stats = {.struct_size = sizeof stats};
    smla_stats(warm->context, &stats);
    return stats.entries_written + stats.disk_hits + stats.memory_hits >= entries;
}

/* A job of pool_run. */
static int compile_one(void *user, size_t index, char label[160])
{
    struct warm *warm = user;
    struct warm_kernel *kernel = &warm->kernels[warm->missing[index]];
    (void)label;
    if (__atomic_load_n(&warm->stopped, __ATOMIC_RELAXED))
        return CLI_FINE;
    show(warm, ", compiling ", kernel->label);
    if (generate(warm, kernel) != SMLA_OK)
        return cli_smla_error(kernel->label);
    kernel->state = KERNEL_COMPILED;
    __atomic_add_fetch(&warm->compiled, 1, __ATOMIC_RELAXED);
    const size_t entries = has_companion(kernel) ? 2 : 1;
    if (!all_written(warm, __atomic_add_fetch(&warm->entries, entries, __ATOMIC_SEQ_CST)))
        __atomic_store_n(&warm->stopped, true, __ATOMIC_RELAXED);
    return CLI_FINE;
}

/* Before minutes of work that nobody could keep. */
static int check_writable(const struct warm *warm)
{
    if (access(warm->folder, W_OK) == 0)
        return CLI_FINE;
    return cli_fail(CLI_USAGE, "the folder '%s' cannot be written to: %s; %zu of %zu kernels are in it", warm->folder,
                    strerror(errno), warm->there, warm->count);
}

static int compile_missing(struct warm *warm, smla_stats_counters *stats)
{
    int code = check_writable(warm);
    if (code == CLI_FINE)
        code = open_context(warm, SMLA_CACHE_RW, SMLA_JIT_ON);
    if (code != CLI_FINE)
        return code;
    code = pool_run(warm->missing_count, warm->options->threads, compile_one, warm);
    smla_stats(warm->context, stats);
    close_context(warm);
    if (warm->stopped)
        code = cli_worse(code, cli_fail(CLI_USAGE,
                                        "stopped: the folder '%s' takes no more. Make room and call again: what is "
                                        "there stays",
                                        warm->folder));
    return code;
}

/* ---- The marker ---- */

static bool see_entry(void *user, const char *path, uint64_t size_bytes, bool valid, const struct rt_entry_info *info,
                      const char *why)
{
    struct warm *warm = user;
    char id[RT_DIGEST_HEX], version[32];
    (void)path, (void)size_bytes, (void)why;
    if (!valid || info->key.kind != RT_KIND_CUBIN)
        return true;
    rt_digest_hex(&info->key.kernel_id, id);
    snprintf(version, sizeof version, "%d.%d", (int)info->builder.nvrtc_major, (int)info->builder.nvrtc_minor);
    for (size_t i = 0; i < warm->count; i++) {
        struct warm_kernel *kernel = &warm->kernels[i];
        const bool is_companion = strcmp(kernel->support.companion_id, id) == 0;
        if (!is_companion && strcmp(kernel->support.kernel_id, id) != 0)
            continue;
        *(is_companion ? &kernel->companion_read_back : &kernel->read_back) = true;
        json_array_append_new(warm->compilers, json_string(version));
    }
    return true;
}

static bool all_read_back(const struct warm_kernel *kernel)
{
    return kernel->read_back && (kernel->companion_read_back || !has_companion(kernel));
}

static int visit_folder(struct warm *warm)
{
    const struct rt_log log = {.fn = cache_log_line};
    struct rt_cache *cache;
    if (rt_cache_open(warm->folder, false, true, &log, &cache) != SMLA_OK)
        return cli_smla_error(warm->folder);
    const bool ok = rt_cache_visit(cache, see_entry, warm);
    rt_cache_close(cache);
    return ok ? CLI_FINE : cli_fail(CLI_USAGE, "the folder '%s' cannot be read", warm->folder);
}

/* Nothing is said to be there that was not read from the folder, whole, after the last was written. */
static int read_back(struct warm *warm)
{
    int code = visit_folder(warm);
    for (size_t i = 0; i < warm->count; i++) {
        struct warm_kernel *kernel = &warm->kernels[i];
        if (kernel->state == KERNEL_MISSING || all_read_back(kernel))
            continue;
        kernel->state = KERNEL_MISSING;
        if (!warm->stopped)
            code = cli_worse(code, cli_fail(CLI_CHECK_FAILED, "%s: there is no sound entry of it in '%s'",
                                            kernel->label, warm->folder));
    }
    return code;
}

/* NULL after a sentence. */
static json_t *marker_of(const struct warm *warm)
{
    json_t *targets = json_array();
    json_t *ids = json_array();
    for (size_t i = 0; i < warm->count; i++) {
        json_array_append_new(targets, json_string(warm->kernels[i].support.target));
        json_array_append_new(ids, json_string(warm->kernels[i].support.kernel_id));
        if (has_companion(&warm->kernels[i]))
            json_array_append_new(ids, json_string(warm->kernels[i].support.companion_id));
    }
    json_t *marker = cache_marker_make(&warm->options->shapes, targets, ids);
    json_decref(targets);
    json_decref(ids);
    return marker;
}

/* ---- The command ---- */

static json_t *json_of(const struct warm_kernel *kernel)
{
    if (kernel->state == KERNEL_MISSING)
        return json_pack("{s:s, s:s, s:s}", "target", kernel->support.target, "kernel_id", kernel->support.kernel_id,
                         "variant", kernel->support.variant);
    return json_pack("{s:s, s:s, s:s, s:I, s:b}", "target", kernel->support.target, "kernel_id",
                     kernel->support.kernel_id, "variant", kernel->support.variant, "bytes", (json_int_t)kernel->bytes,
                     "cached", (int)(kernel->state == KERNEL_THERE));
}

/* {path, complete, seconds, compiles, hits, written, kernels: [{target, kernel_id, variant, bytes, cached}],
 *  missing: [{target, kernel_id, variant}]} */
static int print_summary(const struct warm *warm, const smla_stats_counters *stats, bool complete)
{
    json_t *kernels = json_array();
    json_t *missing = json_array();
    for (size_t i = 0; i < warm->count; i++)
        json_array_append_new(warm->kernels[i].state == KERNEL_MISSING ? missing : kernels, json_of(&warm->kernels[i]));
    const size_t ready = json_array_size(kernels);
    if (warm->options->json)
        return cache_print_json(json_pack("{s:s, s:b, s:f, s:I, s:I, s:I, s:o, s:o}", "path", warm->folder, "complete",
                                          (int)complete, "seconds", seconds_since(warm->start_ns), "compiles",
                                          (json_int_t)stats->compiles, "hits", (json_int_t)warm->there, "written",
                                          (json_int_t)stats->entries_written, "kernels", kernels, "missing", missing));
    json_decref(kernels);
    json_decref(missing);
    printf("%zu of %zu kernels ready in %s: %" PRIu64 " compiled, %zu were there, %" PRIu64 " written; %.1f s; %s\n",
           ready, warm->count + warm->refused, warm->folder, stats->compiles, warm->there, stats->entries_written,
           seconds_since(warm->start_ns), complete ? "complete" : "not complete");
    return CLI_FINE;
}

/* Looks only. */
static int check(const struct warm *warm, const json_t *marker, bool *complete)
{
    *complete = warm->missing_count == 0 && cache_marker_is(warm->folder, marker);
    if (warm->missing_count > 0)
        return cli_fail(CLI_CHECK_FAILED, "%zu of %zu kernels are not in '%s', such as %s", warm->missing_count,
                        warm->count, warm->folder, warm->kernels[warm->missing[0]].label);
    if (!*complete)
        return cli_fail(CLI_CHECK_FAILED, "'%s' has every kernel, but no %s that says so", warm->folder,
                        CACHE_MARKER_NAME);
    return CLI_FINE;
}

static int write_marker(struct warm *warm, json_t *marker)
{
    if (!cache_marker_add_compilers(marker, warm->compilers))
        return cli_fail(CLI_CHECK_FAILED, "out of memory");
    return cache_marker_write(warm->folder, marker);
}

static int fill(struct warm *warm, json_t *marker, smla_stats_counters *stats, bool *complete)
{
    int code = CLI_FINE;
    if (warm->missing_count > 0 || warm->refused > 0 || !cache_marker_is(warm->folder, marker))
        code = cache_marker_remove(warm->folder);
    if (code == CLI_FINE && warm->missing_count > 0)
        code = compile_missing(warm, stats);
    code = cli_worse(code, read_back(warm));
    if (code != CLI_FINE || warm->refused > 0)
        return code;
    code = write_marker(warm, marker);
    *complete = code == CLI_FINE;
    if (*complete)
        show(warm, "", "");
    return code;
}

static int run(struct warm *warm, const struct shapes_job *jobs, size_t job_count)
{
    smla_stats_counters stats = {.struct_size = sizeof stats};
    bool complete = false;
    int code = look(warm, jobs, job_count);
    if (warm->count == 0)
        return code;
    json_t *marker = marker_of(warm);
    if (marker == NULL)
        return cli_worse(code, CLI_CHECK_FAILED);
    code =
        cli_worse(code, warm->options->check ? check(warm, marker, &complete) : fill(warm, marker, &stats, &complete));
    json_decref(marker);
    return cli_worse(code, print_summary(warm, &stats, complete));
}

int cache_warm(const struct cache_options *options)
{
    struct shapes_job *jobs;
    size_t job_count;
    int code = shapes_jobs(&options->shapes, &jobs, &job_count);
    if (code != CLI_FINE)
        return code;
    struct warm warm = {.options = options,
                        .folder = cache_folder_of(options),
                        .kernels = calloc(job_count, sizeof *warm.kernels),
                        .missing = calloc(job_count, sizeof *warm.missing),
                        .compilers = json_array(),
                        .start_ns = rt_now_ns()};
    if (warm.folder == NULL)
        code = CLI_UNAVAILABLE;
    else if (warm.kernels == NULL || warm.missing == NULL || warm.compilers == NULL)
        code = cli_fail(CLI_CHECK_FAILED, "out of memory");
    else
        code = run(&warm, jobs, job_count);
    json_decref(warm.compilers);
    free(warm.missing);
    free(warm.kernels);
    free(warm.folder);
    free(jobs);
    return code;
}
