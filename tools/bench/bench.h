/* smla-bench: what its parts share. */
#ifndef SMLA_TOOLS_BENCH_H
#define SMLA_TOOLS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench_shape.h"
#include "cuda_device.h"
#include "shapes.h"

enum { BENCH_WHY = 1024, BENCH_MAX_RIVALS = 8 };

enum bench_device { BENCH_DEVICE_AUTO, BENCH_DEVICE_CUDA, BENCH_DEVICE_CPU };

/* What the command line said. */
struct bench_options {
    enum bench_device device;
    const char *driver;
    const char *nvrtc;
    int64_t runs;
    bool json;
    char command[BENCH_WHY];      /* itself; cut where it is longer */
    struct shapes_options shapes; /* startup's; --sm is of all */
    /* The rest is of prefill and decode. */
    struct bench_shape shape; /* its op says which of them */
    bool has_shape;
    const char *shapes_path;
    const char *rivals[BENCH_MAX_RIVALS];
    size_t rival_count;
    bool list_shapes; /* and measure nothing */
    int64_t launches; /* in a replay; 0: chosen */
    bool no_ceilings;
    int64_t ceiling_turns; /* of a ceiling's loop; 0: as many as take a few milliseconds on an H200 */
};

/* The benchmarks. Return exit codes. */
int bench_startup(const struct bench_options *options);
int bench_calls(const struct bench_options *options);

/* Prints results of bench_calls, files of JSON, as tables of Markdown. variants: a line for each shape, with which of
 * its kernels was fastest and whether the plan chose it; else one for each result. Returns an exit code. */
int bench_markdown(char *const *paths, size_t count, bool variants);

/* Opens the device that the options ask for. *device stays NULL, with a sentence in why[], where there is none and none
 * must be. Returns CLI_FINE, or another code after a sentence. */
int bench_open_device(const struct bench_options *options, struct device **device, char why[DEVICE_WHY]);

#endif
