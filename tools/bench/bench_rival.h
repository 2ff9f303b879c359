/* Rivals: shared objects that export what smla_rival.h declares. */
#ifndef SMLA_TOOLS_BENCH_RIVAL_H
#define SMLA_TOOLS_BENCH_RIVAL_H

#include <stddef.h>

#include "smla/smla.h"

struct bench_rival {
    char name[256];
    int (*prefill)(const smla_prefill_args *args, void *stream); /* of the two the one that was asked for is there */
    int (*decode)(const smla_decode_args *args, void *stream);
    int (*describe)(const smla_kernel_desc *desc, char *why, size_t why_size); /* NULL: it has none */
};

/* Opens a rival of an operator; it stays open for the life of the process. Returns CLI_FINE, or CLI_USAGE after a
 * sentence. */
int bench_rival_open(const char *path, uint32_t op, struct bench_rival *out);

#endif
