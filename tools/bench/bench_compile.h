/* Compiles smla-bench's own kernels with NVRTC. */
#ifndef SMLA_TOOLS_BENCH_COMPILE_H
#define SMLA_TOOLS_BENCH_COMPILE_H

#include "bench.h"

/* Images of a compiled file, malloc'd, each with a NUL at its end. */
struct bench_images {
    char *cubin;
    char *ptx;
};

/* Compiles an embedded file for sm_90a with the newest NVRTC whose results a driver of this CUDA major version takes.
 * False with a sentence in why[]. */
bool bench_compile(const struct bench_options *options, const char *name, int driver_major, struct bench_images *out,
                   char why[BENCH_WHY]);
void bench_images_free(struct bench_images *images);

#endif
