#include "bench_ceilings.h"

#include <stdio.h>

#include "bench_compile.h"
#include "cli.h"

/* As in bench_ceilings.cu. */
enum {
    GATHER_THREADS = 256,
    GATHER_SHARED_BYTES = 3 << 16,
    MATRIX_THREADS = 384,
    MATRIX_SHARED_BYTES = (3 << 16) + 2 * 8192,
    ROW_BYTES = 1024,
    TURN_ROWS = 128
};

enum { TURNS = 1600, WARM = 2, MEASURED = 5 };

static const double turn_flops = 2.0 * TURN_ROWS * 64 * (512 + 512); /* of a block of threads */

/* ---- What is known -----------------------------------------------------------------------------------------------
 * One NVIDIA H200, driver 580.159.04, 2026-11-29: CUDA events, median, random data, bursts of 3 to 5 ms. */

const double bench_known_matrix_tflops = 960;

static const struct {
    int64_t rows;
    double gather_tbs;
    double both_tflops; /* 0: not measured */
} known[] = {{192, 12.8, 0},  {2048, 9.7, 0},    {8192, 8.8, 815}, {32768, 8.5, 0},
             {49152, 8.3, 0}, {65536, 6.6, 741}, {131072, 5.1, 0}, {992383, 4.3, 555}};

double bench_known_gather_tbs(int64_t rows)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].rows == rows)
            return known[i].gather_tbs;
    return 0;
}

double bench_known_both_tflops(int64_t rows)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].rows == rows)
            return known[i].both_tflops;
    return 0;
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* A kernel with what it works on. */
struct ceiling_run {
    void *function;
    int threads, shared_bytes;
    void *pool;
    uint32_t rows;
    int turns;
};

static bool launch(struct bench_measure *measure, struct ceiling_run *run, int blocks)
{
    void *out = NULL;
    void *parameters[] = {&run->pool, &run->rows, &run->turns, &out};
    return device_launch(measure->device, run->function, blocks, run->threads, run->shared_bytes, measure->stream,
                         parameters);
}

/* Turns a second of the whole device, the median of several launches. False after a fault. */
static bool time_turns(struct bench_measure *measure, struct ceiling_run *run, double *turns_a_second, double *mhz)
{
    double samples[MEASURED], watts;
    float ms = 0;
    int blocks = 0;
    if (!device_attribute(measure->device, DEVICE_ATTRIBUTE_SM_COUNT, &blocks))
        return false;
    for (int i = -WARM; i < MEASURED; i++) {
        if (!device_event_record(measure->device, measure->begin, measure->stream) || !launch(measure, run, blocks) ||
            !device_event_record(measure->device, measure->end, measure->stream))
            return false;
        if (i == MEASURED - 1)
            bench_nvml_read(measure->nvml, mhz, &watts);
        if (!device_event_elapsed_ms(measure->device, measure->begin, measure->end, &ms))
            return false;
        if (i >= 0)
            samples[i] = ms * 1e-3;
    }
    *turns_a_second = (double)run->turns * blocks / bench_spread_of(samples, MEASURED).median;
    return true;
}

static struct ceiling_run matrix_run(void *function, void *pool, int64_t rows, int64_t turns)
{
    return (struct ceiling_run){function, MATRIX_THREADS, MATRIX_SHARED_BYTES, pool, (uint32_t)rows, (int)turns};
}

static int64_t turns_of(const struct bench_options *options)
{
    return options->ceiling_turns == 0 ? TURNS : options->ceiling_turns;
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */

static bool load_functions(struct device *device, struct bench_ceilings *out)
{
    return device_module_function(device, out->module, "ceiling_matrix", MATRIX_SHARED_BYTES, &out->matrix) &&
           device_module_function(device, out->module, "ceiling_gather", GATHER_SHARED_BYTES, &out->gather) &&
           device_module_function(device, out->module, "ceiling_both", MATRIX_SHARED_BYTES, &out->both);
}

/* The emulated device takes PTX and no cubin. */
static bool load(struct device *device, const struct bench_images *images, struct bench_ceilings *out)
{
    return (device_module_load(device, images->cubin, &out->module) ||
            device_module_load(device, images->ptx, &out->module)) &&
           load_functions(device, out);
}

static int not_run(struct bench_ceilings *ceilings, int code, const char *why)
{
    snprintf(ceilings->not_run, sizeof ceilings->not_run, "%s", why);
    return code;
}

static int fault(const struct device *device, struct bench_ceilings *ceilings)
{
    return not_run(ceilings, CLI_DEVICE_FAULT, device_why(device));
}

static int can_run(const struct bench_options *options, const struct device *device, struct bench_ceilings *out)
{
    if (options->no_ceilings)
        return not_run(out, CLI_UNAVAILABLE, "--no-ceilings");
    if (device_capability(device) != 90)
        return not_run(out, CLI_UNAVAILABLE, "their kernels are for sm_90");
    if (device_is_emulated(device) && options->ceiling_turns == 0)
        return not_run(out, CLI_UNAVAILABLE,
                       "the emulated device has no speed; --ceiling-turns N runs them all the same");
    return CLI_FINE;
}

int bench_ceilings_open(const struct bench_options *options, struct bench_random_memory *memory,
                        struct bench_measure *measure, struct bench_ceilings *out)
{
    struct device *device = measure->device;
    struct bench_images images;
    double turns;
    int version = 0;
    *out = (struct bench_ceilings){0};
    if (can_run(options, device, out) != CLI_FINE)
        return CLI_UNAVAILABLE;
    if (!device_driver_version(device, &version))
        return fault(device, out);
    if (!bench_compile(options, "bench_ceilings.cu", version / 1000, &images, out->not_run))
        return CLI_UNAVAILABLE;
    const bool loaded = load(device, &images, out);
    bench_images_free(&images);
    struct ceiling_run run = matrix_run(out->matrix, memory->memory, BENCH_RANDOM_BYTES / ROW_BYTES, turns_of(options));
    if (!loaded || !time_turns(measure, &run, &turns, &out->matrix_mhz))
        return fault(device, out);
    out->matrix_tflops = turns * turn_flops / 1e12;
    return CLI_FINE;
}

void bench_ceilings_close(struct device *device, struct bench_ceilings *ceilings)
{
    if (ceilings->module != NULL)
        device_module_unload(device, ceilings->module);
    ceilings->module = NULL;
}

static bool measure_pool(const struct bench_options *options, struct bench_random_memory *memory,
                         struct bench_measure *measure, const struct bench_ceilings *ceilings,
                         struct bench_pool_ceiling *out)
{
    struct device *device = memory->device;
    void *pool = NULL;
    double gathered = 0, both = 0;
    const size_t bytes = (size_t)out->rows * ROW_BYTES;
    if (!device_alloc(device, bytes, &pool))
        return false;
    struct ceiling_run gather = {ceilings->gather,    GATHER_THREADS,        GATHER_SHARED_BYTES, pool,
                                 (uint32_t)out->rows, (int)turns_of(options)};
    struct ceiling_run together = matrix_run(ceilings->both, pool, out->rows, turns_of(options));
    const bool ok = bench_random_memory_copy(memory, 0, pool, bytes) && device_synchronize(device) &&
                    time_turns(measure, &gather, &gathered, &out->gather_mhz) &&
                    time_turns(measure, &together, &both, &out->both_mhz);
    out->gather_tbs = gathered * TURN_ROWS * ROW_BYTES / 1e12;
    out->both_tflops = both * turn_flops / 1e12;
    return device_free(device, pool) && ok;
}

int bench_ceilings_of_pool(const struct bench_options *options, struct bench_random_memory *memory,
                           struct bench_measure *measure, int64_t pool_bytes, struct bench_ceilings *ceilings,
                           struct bench_pool_ceiling *out)
{
    struct bench_pool_ceiling *pool = ceilings->pools, *const end = pool + ceilings->pool_count;
    const int64_t rows = (pool_bytes + ROW_BYTES - 1) / ROW_BYTES;
    while (pool < end && pool->rows != rows)
        pool++;
    if (pool == ceilings->pools + BENCH_MAX_POOLS)
        return CLI_FINE; /* as if it had not been measured */
    if (pool == end) {
        *pool = (struct bench_pool_ceiling){.rows = rows};
        if (!measure_pool(options, memory, measure, ceilings, pool))
            return fault(memory->device, ceilings);
        ceilings->pool_count++;
    }
    *out = *pool;
    return CLI_FINE;
}
