/* Rivals: shared objects that export what smla_rival.h declares. */
#ifndef SMLA_TOOLS_BENCH_RIVAL_H
#define SMLA_TOOLS_BENCH_RIVAL_H

#include <stddef.h>

#include "smla/smla.h"

struct bench_rival {
    char name[256];
    int (*prefill)(const smla_prefill_args *args, void *stream);
    int (*describe)(const smla_kernel_desc *desc, char *why, size_t why_size); /* NULL: it has none */
};

/* Opens a rival; it stays open for the life of the process. Returns CLI_FINE, or CLI_USAGE after a sentence. */
int bench_rival_open(const char *path, struct bench_rival *out);

#endif
