/* smla-bench startup: compiling, loading from disk, and the host side of a call. */
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "bench_numbers.h"
#include "cli.h"
#include "cuda_device.h"
#include "shapes.h"

enum { CALLS_A_RUN = 100 };

/* One benchmark's samples, or why there are none. */
struct series {
    const char *name;
    const char *unit;
    double *samples;
    size_t count;
    char not_run[BENCH_WHY];
};

enum { COLD_COMPILE, DISK_HIT, DISK_HIT_DRIVER, DISK_HIT_OWN, CALL_COST, SERIES };

struct bench {
    const struct bench_options *options;
    struct series series[SERIES];
    struct device *device; /* NULL: no driver */
    char no_device[DEVICE_WHY];
    smla_kernel_desc desc;
    smla_support support;
    char folder[64]; /* of a cache of our own; "" when the user's holds the kernel */
};

static int not_run(struct series *series, int code, const char *why)
{
    snprintf(series->not_run, sizeof series->not_run, "%s", why);
    series->count = 0;
    return code;
}

static int not_run_smla(struct series *series)
{
    smla_error_info info = {.struct_size = sizeof info};
    smla_last_error(&info);
    return not_run(series, cli_exit_of(info.status), info.message);
}

static int32_t drop_bytes(void *user, const void *data, size_t size)
{
    (void)user;
    (void)data;
    (void)size;
    return 0;
}

static smla_status open_context(const struct bench *bench, uint32_t cache_policy, uint32_t jit_policy,
                                smla_context **out)
{
    const smla_context_desc desc = {.struct_size = sizeof desc,
                                    .flags = SMLA_CONTEXT_OWN_CACHE,
                                    .cache_policy = cache_policy,
                                    .jit_policy = jit_policy,
                                    .driver_path = bench->options->driver,
                                    .nvrtc_path = bench->options->nvrtc,
                                    .cache_dir = bench->folder[0] == 0 ? NULL : bench->folder};
    return smla_context_create(&desc, out);
}

/* ---- Cold compile ---- */

static bool compile_once(const struct bench *bench, double *ms)
{
    smla_context *context;
    if (open_context(bench, SMLA_CACHE_OFF, SMLA_JIT_ON, &context) != SMLA_OK)
        return false;
    const double begin = bench_now_ns();
    const bool ok = smla_generate(context, &bench->desc, SMLA_EMIT_CUBIN, drop_bytes, NULL) == SMLA_OK;
    *ms = (bench_now_ns() - begin) / 1e6;
    smla_context_destroy(context);
    return ok;
}

static int bench_compile(struct bench *bench)
{
    struct series *series = &bench->series[COLD_COMPILE];
    for (int64_t run = 0; run < bench->options->runs; run++) {
        if (!compile_once(bench, &series->samples[run]))
            return not_run_smla(series);
        series->count++;
        cli_progress(series->count, (size_t)bench->options->runs, series->name);
    }
    return CLI_FINE;
}

/* ---- Disk hit to ready ---- */

/* Sees to it that a disk cache holds the kernel: the user's, or one of our own that is filled now. */
static int fill_cache(struct bench *bench)
{
    smla_context *context;
    struct series *series = &bench->series[DISK_HIT];
    if (open_context(bench, SMLA_CACHE_RO, SMLA_JIT_OFF, &context) == SMLA_OK) {
        const bool held = smla_generate(context, &bench->desc, SMLA_EMIT_CUBIN, drop_bytes, NULL) == SMLA_OK;
        smla_context_destroy(context);
        if (held)
            return CLI_FINE;
    }
    snprintf(bench->folder, sizeof bench->folder, "/tmp/smla-bench-XXXXXX");
    if (mkdtemp(bench->folder) == NULL) {
        bench->folder[0] = 0;
        return not_run(series, CLI_USAGE, "no folder can be made in /tmp");
    }
    if (open_context(bench, SMLA_CACHE_RW, SMLA_JIT_ON, &context) != SMLA_OK)
        return not_run_smla(series);
    const smla_status status = smla_generate(context, &bench->desc, SMLA_EMIT_CUBIN, drop_bytes, NULL);
    const int code = status == SMLA_OK ? CLI_FINE : not_run_smla(series);
    smla_context_destroy(context);
    return code;
}

static bool load_once(const struct bench *bench, double *ms, double *driver_ms)
{
    smla_stats_counters stats = {.struct_size = sizeof stats};
    smla_context *context;
    smla_kernel *kernel = NULL;
    if (open_context(bench, SMLA_CACHE_RO, SMLA_JIT_OFF, &context) != SMLA_OK)
        return false;
    const double begin = bench_now_ns();
    const bool ok = smla_prepare(context, &bench->desc, &kernel) == SMLA_OK;
    *ms = (bench_now_ns() - begin) / 1e6;
    smla_stats(context, &stats);
    *driver_ms = (double)stats.driver_ns / 1e6;
    smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    return ok;
}

/* The whole, and whose it is. */
static int time_loads(struct bench *bench)
{
    struct series *const whole = &bench->series[DISK_HIT], *const driver = &bench->series[DISK_HIT_DRIVER];
    struct series *const own = &bench->series[DISK_HIT_OWN];
    for (int64_t run = 0; run < bench->options->runs; run++) {
        if (!load_once(bench, &whole->samples[run], &driver->samples[run]))
            return not_run_smla(whole);
        own->samples[run] = whole->samples[run] - driver->samples[run];
        whole->count++;
    }
    driver->count = own->count = whole->count;
    return CLI_FINE;
}

static int bench_load(struct bench *bench)
{
    struct series *const whole = &bench->series[DISK_HIT];
    int code = bench->device == NULL ? not_run(whole, CLI_UNAVAILABLE, bench->no_device) : fill_cache(bench);
    if (bench->device != NULL && code == CLI_FINE)
        code = time_loads(bench);
    for (int i = DISK_HIT_DRIVER; i <= DISK_HIT_OWN; i++)
        if (bench->series[i].count == 0)
            not_run(&bench->series[i], code, whole->not_run);
    return code;
}

/* ---- Host cost of a call ---- */

/* One query, one key: the device's part is as short as it can be. */
static void fill_arguments(const struct bench *bench, uint8_t *memory, smla_prefill_args *args)
{
    const size_t row = (size_t)bench->desc.h_q * (size_t)bench->desc.d_qk * 2;
    *args = (smla_prefill_args){.struct_size = sizeof *args,
                                .s_q = 1,
                                .s_kv = 1,
                                .topk = 1,
                                .sm_scale = 0.04f,
                                .query = memory,
                                .kv = memory,
                                .out = memory + row,
                                .indices = (const int32_t *)(const void *)(memory + 2 * row)};
}

static int time_calls(struct bench *bench, smla_kernel *kernel, const smla_prefill_args *args)
{
    struct series *series = &bench->series[CALL_COST];
    for (int64_t call = 0; call < bench->options->runs * CALLS_A_RUN; call++) {
        const double begin = bench_now_ns();
        const smla_status status = smla_prefill(kernel, args, NULL);
        series->samples[series->count++] = bench_now_ns() - begin;
        if (status != SMLA_OK)
            return not_run_smla(series);
        if (!device_synchronize(bench->device))
            return not_run(series, CLI_DEVICE_FAULT, device_why(bench->device));
    }
    return CLI_FINE;
}

static int call_kernel(struct bench *bench, smla_kernel *kernel)
{
    struct series *series = &bench->series[CALL_COST];
    const size_t size_bytes = 3 * (size_t)bench->desc.h_q * (size_t)bench->desc.d_qk * 2;
    smla_prefill_args args;
    void *memory = NULL;
    if (!device_alloc(bench->device, size_bytes, &memory))
        return not_run(series, CLI_DEVICE_FAULT, device_why(bench->device));
    int code;
    if (!device_fill(bench->device, memory, 0, size_bytes) || !device_synchronize(bench->device)) {
        code = not_run(series, CLI_DEVICE_FAULT, device_why(bench->device));
    } else {
        fill_arguments(bench, memory, &args);
        code = time_calls(bench, kernel, &args);
    }
    device_free(bench->device, memory);
    return code;
}

static int bench_call(struct bench *bench)
{
    struct series *series = &bench->series[CALL_COST];
    smla_context *context;
    smla_kernel *kernel;
    if (bench->device == NULL)
        return not_run(series, CLI_UNAVAILABLE, bench->no_device);
    if (open_context(bench, SMLA_CACHE_RO, SMLA_JIT_ON, &context) != SMLA_OK)
        return not_run_smla(series);
    const smla_status status = smla_prepare(context, &bench->desc, &kernel);
    const int code = status == SMLA_OK ? call_kernel(bench, kernel) : not_run_smla(series);
    if (status == SMLA_OK)
        smla_kernel_destroy(kernel);
    smla_context_destroy(context);
    return code;
}

/* ---- Reporting ---- */

static void print_series(struct series *series)
{
    if (series->count == 0) {
        printf("%-16s not run: %s\n", series->name, series->not_run);
        return;
    }
    printf("%-16s median %10.3f %s  (least %.3f, most %.3f, of %zu)\n", series->name,
           series->samples[series->count / 2], series->unit, series->samples[0], series->samples[series->count - 1],
           series->count);
}

static json_t *series_json(const struct series *series)
{
    if (series->count == 0)
        return json_pack("{s:s, s:s, s:s}", "name", series->name, "unit", series->unit, "not_run", series->not_run);
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:I}", "name", series->name, "unit", series->unit, "median",
                     series->samples[series->count / 2], "min", series->samples[0], "max",
                     series->samples[series->count - 1], "count", (json_int_t)series->count);
}

static void print_human(struct bench *bench)
{
    printf("startup: target %s, variant %s%s%s\n", bench->support.target, bench->support.variant,
           bench->device == NULL ? "" : ", ", bench->device == NULL ? "" : device_name(bench->device));
    for (int i = 0; i < SERIES; i++)
        print_series(&bench->series[i]);
}

static int print_json(const struct bench *bench)
{
    json_t *rows = json_array();
    for (int i = 0; i < SERIES; i++)
        json_array_append_new(rows, series_json(&bench->series[i]));
    json_t *device = bench->device == NULL ? json_null() : json_string(device_name(bench->device));
    json_t *root = json_pack("{s:s, s:o, s:s, s:s, s:o}", "bench", "startup", "device", device, "target",
                             bench->support.target, "variant", bench->support.variant, "results", rows);
    const bool ok = root != NULL && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    putchar('\n');
    json_decref(root);
    return ok ? CLI_FINE : cli_fail(CLI_CHECK_FAILED, "cannot print the JSON result");
}

/* ---- All of it ---- */

/* Which kernel: the one described, for the device's own target unless another was named. */
static int choose_kernel(struct bench *bench)
{
    smla_context *context;
    const struct shapes_options *shapes = &bench->options->shapes;
    const char *sm = shapes->sm != NULL ? shapes->sm : bench->device == NULL ? "90" : NULL;
    bench->desc = (smla_kernel_desc){.struct_size = sizeof bench->desc,
                                     .op = SMLA_OP_PREFILL,
                                     .h_q = shapes->shape.h_q == 0 ? 64 : shapes->shape.h_q,
                                     .d_qk = shapes->shape.d_qk == 0 ? 512 : shapes->shape.d_qk,
                                     .target = sm};
    bench->support.struct_size = sizeof bench->support;
    if (open_context(bench, SMLA_CACHE_OFF, SMLA_JIT_ON, &context) != SMLA_OK)
        return cli_smla_error("smla_context_create");
    const smla_status status = smla_query_support(context, &bench->desc, &bench->support);
    const int code = status == SMLA_OK ? CLI_FINE : cli_smla_error("smla_query_support");
    smla_context_destroy(context);
    if (code == CLI_FINE && !bench->support.supported)
        return cli_fail(CLI_UNAVAILABLE, "%s", bench->support.reason);
    bench->desc.target = bench->support.target;
    return code;
}

static bool allocate(struct bench *bench)
{
    static const char *const names[SERIES] = {"cold compile", "disk hit", "disk hit, driver", "disk hit, smla",
                                              "prefill call"};
    static const char *const units[SERIES] = {"ms", "ms", "ms", "ms", "ns"};
    bool ok = true;
    for (int i = 0; i < SERIES; i++) {
        bench->series[i].name = names[i];
        bench->series[i].unit = units[i];
        bench->series[i].samples = calloc((size_t)bench->options->runs * CALLS_A_RUN, sizeof(double));
        ok = ok && bench->series[i].samples != NULL;
    }
    return ok;
}

/* Benchmarks that cannot run here are told, not failed: the worst code is that of the others. */
static int measure(struct bench *bench)
{
    static int (*const all[])(struct bench *) = {bench_compile, bench_load, bench_call};
    int worst = CLI_FINE;
    size_t ran = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const int code = all[i](bench);
        worst = code == CLI_UNAVAILABLE ? worst : cli_worse(worst, code);
    }
    for (int i = 0; i < SERIES; i++) {
        ran += bench->series[i].count > 0;
        qsort(bench->series[i].samples, bench->series[i].count, sizeof(double), bench_by_value);
    }
    return ran == 0 ? cli_worse(worst, CLI_UNAVAILABLE) : worst;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_folder(const char *folder)
{
    if (folder[0] != 0 && nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0)
        cli_fail(0, "could not remove %s", folder);
}

int bench_startup(const struct bench_options *options)
{
    struct bench bench = {.options = options};
    int code = allocate(&bench) ? bench_open_device(options, &bench.device, bench.no_device)
                                : cli_fail(CLI_CHECK_FAILED, "out of memory");
    if (code == CLI_FINE)
        code = choose_kernel(&bench);
    if (code == CLI_FINE) {
        code = measure(&bench);
        if (options->json)
            code = cli_worse(code, print_json(&bench));
        else
            print_human(&bench);
    }
    remove_folder(bench.folder);
    device_close(bench.device);
    for (int i = 0; i < SERIES; i++)
        free(bench.series[i].samples);
    return code;
}
