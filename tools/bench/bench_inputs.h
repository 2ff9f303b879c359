/* Device memory of a run: pools of keys, and copies of everything else that consecutive launches use in turn. */
#ifndef SMLA_TOOLS_BENCH_INPUTS_H
#define SMLA_TOOLS_BENCH_INPUTS_H

#include "bench.h"
#include "bench_args.h"

enum { BENCH_RANDOM_BYTES = 64 << 20 };

/* Random bytes on the device that inputs are copied from: one for all shapes. */
struct bench_random_memory {
    struct device *device;
    uint64_t state;
    uint16_t *host; /* normal bf16, variance 1 */
    void *memory;   /* the same */
    int l2_bytes;   /* of the device */
};

/* One call's arguments, and what a rival gets for them: the same inputs, outputs of its own. */
struct bench_copy {
    union bench_args args, rival_args;
    struct bench_tensors tensors;
    void *rival_out;    /* NULL: no rivals */
    int64_t keys;       /* valid entries of the first lists */
    int64_t extra_keys; /* of the second ones */
};

struct bench_inputs {
    struct device *device;
    struct bench_pool pools[2];
    void *workspace; /* one for all calls, which run one after the other */
    uint64_t workspace_bytes;
    void *arena;
    struct bench_copy *copies;
    size_t count;
    size_t copy_bytes; /* query, indices, lengths and out of a copy */
    int64_t tokens;
    size_t out_bytes;
};

/* Returns CLI_FINE, or another code after a sentence. */
int bench_random_memory_make(struct device *device, struct bench_random_memory *out);
void bench_random_memory_free(struct bench_random_memory *memory);

/* Fills device memory with the random bytes, over and over; `offset` tells where they begin. False after a fault. */
bool bench_random_memory_copy(const struct bench_random_memory *memory, size_t offset, void *to, size_t size_bytes);

/* Makes a shape's inputs: as many copies as take more than twice the L2 cache, but from 2 to max_copies, and no more
 * than the memory holds. Returns CLI_FINE, or another code after a sentence. */
int bench_inputs_make(struct bench_random_memory *memory, const struct bench_shape *shape,
                      const smla_kv_layout layouts[2], uint64_t workspace_bytes, size_t max_copies, bool rivals,
                      struct bench_inputs *out);
void bench_inputs_free(struct bench_inputs *inputs);

/* Compares a rival's `out` of copy 0 with ours at up to 512 query tokens, evenly spread, the last one among them.
 * *largest: of ours. A NaN on one side alone makes *difference infinite. False after a fault. */
bool bench_inputs_compare(const struct bench_inputs *inputs, double *difference, double *largest);

/* Fills both outs of copy 0 with NaN. False after a fault. */
bool bench_inputs_poison(const struct bench_inputs *inputs);

#endif
