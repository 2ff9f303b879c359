/* Ceilings: how fast this device multiplies, gathers, and does both at once, by kernels that do nothing else. */
#ifndef SMLA_TOOLS_BENCH_CEILINGS_H
#define SMLA_TOOLS_BENCH_CEILINGS_H

#include "bench_inputs.h"
#include "bench_measure.h"

enum { BENCH_MAX_POOLS = 64 };

/* What was measured with a pool of so many rows of 1 KiB; 0: not. Medians; the clock is read once, in the last of the
 * launches. */
struct bench_pool_ceiling {
    int64_t rows;
    double gather_tbs, gather_mhz;
    double both_tflops, both_mhz;
};

struct bench_ceilings {
    char not_run[BENCH_WHY]; /* "" when they were measured */
    double matrix_tflops, matrix_mhz;
    struct bench_pool_ceiling pools[BENCH_MAX_POOLS];
    size_t pool_count;
    void *module; /* of the kernels */
    void *matrix, *gather, *both;
};

/* Compiles and loads the kernels and measures the matrix alone. Returns CLI_FINE; CLI_UNAVAILABLE or CLI_DEVICE_FAULT
 * with a sentence in not_run. */
int bench_ceilings_open(const struct bench_options *options, struct bench_random_memory *memory,
                        struct bench_measure *measure, struct bench_ceilings *out);
void bench_ceilings_close(struct device *device, struct bench_ceilings *ceilings);

/* Measures for a pool of pool_bytes, unless that has been done. Returns as bench_ceilings_open. */
int bench_ceilings_of_pool(const struct bench_options *options, struct bench_random_memory *memory,
                           struct bench_measure *measure, int64_t pool_bytes, struct bench_ceilings *ceilings,
                           struct bench_pool_ceiling *out);

/* What an NVIDIA H200 gave before (docs/tools.md says where); 0: not known for that pool. */
extern const double bench_known_matrix_tflops;
double bench_known_gather_tbs(int64_t rows);
double bench_known_both_tflops(int64_t rows);

#endif
