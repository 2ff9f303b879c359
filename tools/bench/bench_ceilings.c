#include "bench_ceilings.h"
#include <stdio.h>
const double bench_known_matrix_tflops = 960;
double bench_known_gather_tbs(int64_t rows)
{
    (void)rows;
    return 0;
}
double bench_known_both_tflops(int64_t rows)
{
    (void)rows;
    return 0;
}
void bench_ceilings_open(const struct bench_options *options, struct bench_random_memory *memory,
                         struct bench_measure *measure, struct bench_ceilings *out)
{
    (void)options;
    (void)memory;
    (void)measure;
    snprintf(out->not_run, sizeof out->not_run, "there are none yet");
}
void bench_ceilings_close(struct device *device, struct bench_ceilings *ceilings)
{
    (void)device;
    (void)ceilings;
}
const struct bench_pool_ceiling *bench_ceilings_of_pool(const struct bench_options *options,
                                                        struct bench_random_memory *memory,
                                                        struct bench_measure *measure, int64_t pool_bytes,
                                                        struct bench_ceilings *ceilings)
{
    (void)options;
    (void)memory;
    (void)measure;
    (void)pool_bytes;
    (void)ceilings;
    return NULL;
}
