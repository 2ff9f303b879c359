/* A decode call on the card with inputs made to hurt, and its check against the CPU reference, which takes the call's
 * tokens as those of one prefill.
 *
 * Whatever no valid entry refers to is spoiled: slots of the caches, what stands between tokens and pages, gaps between
 * rows, entries past a length. Buffers lie between guard zones; outputs and workspace are NaN before each run. */
#ifndef SMLA_TESTS_GPU_DECODE_PROBLEM_H
#define SMLA_TESTS_GPU_DECODE_PROBLEM_H

#include "problem.h"

enum decode_lengths {
    DECODE_LENGTHS_NONE,
    DECODE_LENGTHS_PER_REQUEST, /* outside [0, topk] too, as all below */
    DECODE_LENGTHS_PER_TOKEN,
    DECODE_LENGTHS_ONE_LONG, /* per request: the middle one all entries, the others at most 70 */
    DECODE_LENGTHS_RAMP      /* per token: of request i i + 1; of six: where blocks end, and 600 */
};

enum decode_strides {
    DECODE_TIGHT,
    DECODE_APART,     /* gaps behind every row, token and request */
    DECODE_TRANSPOSED /* lse is [b, h_q, s_q]; tokens outside, requests inside for query and out */
};

enum decode_sink { DECODE_NO_SINK, DECODE_SINK, DECODE_NAN_SINK };

/* A cache and the lists that select from it. */
struct decode_cache {
    struct problem_cache format;
    int64_t s_kv, topk;
    enum decode_lengths lengths;
};

/* What a problem is about. Zero is the plain thing. */
struct decode_spec {
    const char *name;
    int32_t h_q;  /* 0: 64 */
    int32_t d_qk; /* 0: 512 */
    int32_t batch_invariant;
    int64_t b, s_q;
    struct decode_cache caches[2];
    bool has_extra;
    double invalid;     /* share of entries that are out of range */
    double dead_tokens; /* share of tokens whose lists have no other */
    int64_t live_block; /* 1 up: valid entries are among these 64 of a list alone; 0: anywhere */
    enum decode_sink sink;
    enum decode_strides strides;
    bool no_lse;
    bool nan_selected; /* a NaN in one selected slot of the first cache */
    bool inf_selected; /* an infinity instead */
    uint32_t lse_flags;
    int32_t sm_limit;
    float sm_scale;  /* 0: 1/sqrt(512); for a scale of zero give -0.0f */
    float magnitude; /* of query elements; 0: 1 */
    uint8_t spoiled; /* what unselected bytes are; 0: 0xff */
    uint32_t seed;
};

enum decode_input {
    DECODE_QUERY,
    DECODE_SINKS,
    DECODE_KV,
    DECODE_INDICES,
    DECODE_LENGTHS,
    DECODE_EXTRA_KV,
    DECODE_EXTRA_INDICES,
    DECODE_EXTRA_LENGTHS,
    DECODE_INPUTS
};

enum { DECODE_OUT, DECODE_LSE, DECODE_WORKSPACE, DECODE_OUTPUTS };

struct decode_problem {
    struct decode_spec spec;
    smla_decode_args args; /* device pointers */
    struct guarded input[DECODE_INPUTS], output[DECODE_OUTPUTS];
    void *host[DECODE_INPUTS]; /* contents of the inputs, as they lie on the device */
    /* The same call as one of prefill: contiguous, a length for each token. */
    uint16_t *query;
    int32_t *lists[2], *lengths[2];
};

/* The card, the library and a kernel, for the description of the problem that was made last. */
struct decode_bench {
    struct device *device;
    smla_context *context;
    smla_kernel *kernel;
    smla_kernel_desc desc;
    bool emulated;
};

/* Opens the card. 0; 77 when there is none (why[] tells); 1 after a fault. */
int decode_bench_open(struct decode_bench *bench, char why[PROBLEM_WHY]);
void decode_bench_close(struct decode_bench *bench);

bool decode_make(struct decode_bench *bench, const struct decode_spec *spec, struct decode_problem *out,
                 char why[PROBLEM_WHY]);
void decode_free(struct decode_bench *bench, struct decode_problem *problem);

/* Gives the problem the contents of another of the same sizes and strides, at its own addresses. Both are for
 * decode_free still. */
bool decode_refill(struct decode_bench *bench, struct decode_problem *problem, struct decode_problem *from,
                   char why[PROBLEM_WHY]);

/* Poisons outputs and workspace. */
bool decode_poison(struct decode_bench *bench, const struct decode_problem *problem, char why[PROBLEM_WHY]);

/* Poisons, calls, waits. */
bool decode_run(struct decode_bench *bench, struct decode_problem *problem, char why[PROBLEM_WHY]);

/* out and lse on the host, gaps included. malloc'd. */
uint8_t *decode_snapshot(struct decode_bench *bench, const struct decode_problem *problem, size_t *size_bytes);

/* Compares the outputs as they stand with the CPU reference within interface.md's bounds, and checks that guard zones,
 * gaps and inputs are as they were. why[]: the figures when it is right, the fault when not. */
bool decode_check(struct decode_bench *bench, const struct decode_problem *problem, char why[PROBLEM_WHY]);

/* A token's out and lse out of a snapshot, [h_q, 512] and [h_q]. */
void decode_token(const struct decode_problem *problem, const uint8_t *snapshot, int64_t request, int64_t position,
                  uint16_t *out, float *lse);

#endif
