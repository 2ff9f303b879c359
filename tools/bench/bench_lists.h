/* Index lists and their lengths, made or read. */
#ifndef SMLA_TOOLS_BENCH_LISTS_H
#define SMLA_TOOLS_BENCH_LISTS_H

#include "bench_shape.h"

/* Of one call: [b, s_q, topk], and as many lengths as bench_shape_lengths says. */
struct bench_lists {
    int32_t *indices;
    int32_t *lengths;   /* NULL: no lengths */
    int32_t *from_file; /* what the file holds, NULL where the lists are made */
};

/* Allocates, and reads the file where there is one. Returns CLI_FINE, or another code after a sentence. */
int bench_lists_open(const struct bench_shape *shape, struct bench_lists *lists);
void bench_lists_close(struct bench_lists *lists);

/* Makes the lists of the next call. Returns how many entries are valid. */
int64_t bench_lists_make(const struct bench_shape *shape, uint64_t *state, struct bench_lists *lists);

#endif
