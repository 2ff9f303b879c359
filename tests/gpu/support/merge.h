/* A combine call on the card with inputs made to hurt, and its check against the float64 reference.
 *
 * What an empty part holds is NaN, infinite or huge, and so is what lies between the rows of views. Buffers lie between
 * guard zones, outputs are NaN before each run. */
#ifndef SMLA_TESTS_GPU_MERGE_H
#define SMLA_TESTS_GPU_MERGE_H

#include "problem.h"

/* What a call is about. Zero is the plain thing: bf16 to bf16, natural logarithms. */
struct merge_spec {
    const char *name;
    int32_t h_q; /* 0: 64 */
    int64_t s_q;
    int64_t parts;
    bool partial_float32;
    bool out_float32;
    double empty;     /* share of a row's parts that are, +inf and -inf in turn */
    double dead_rows; /* share of rows whose parts all are */
    bool sink;        /* finite, huge, +inf, -inf over the heads */
    bool nan_sink;    /* and NaN at one head */
    bool nan_parts;   /* in some rows a NaN lse, in others a NaN or an infinity in an element */
    bool strided;     /* every tensor is a view with odd strides, lse with its heads outside */
    bool base_2;      /* of partial_lse */
    float spread;     /* of partial_lse; 0: 3 */
    float center;     /* partial_lse is about it, and finite sinks are */
    float magnitude;  /* of elements; 0: 1 */
    uint32_t lse_flags;
    uint32_t seed;
};

struct merge {
    struct merge_spec spec;
    smla_combine_args args; /* device pointers, every stride filled in */
    struct guarded partial_out, partial_lse, attn_sink, out, lse;
    void *host[3]; /* contents of the inputs */
};

/* The bench with a combine kernel, for the heads of the call that was made last. */
struct merger {
    struct bench *bench;
    smla_kernel *kernel;
    int32_t h_q;
};

/* Makes the kernel ready for h_q heads. */
bool merger_prepare(struct merger *merger, int32_t h_q, char why[PROBLEM_WHY]);

bool merge_make(struct merger *merger, const struct merge_spec *spec, struct merge *out, char why[PROBLEM_WHY]);
void merge_free(struct merger *merger, struct merge *merge);

/* Poisons the outputs, runs on the stream, waits. */
bool merge_run(struct merger *merger, struct merge *merge, void *stream, char why[PROBLEM_WHY]);

/* Copies out and lse to the host, gaps included, so that runs can be compared byte for byte. malloc'd. */
uint8_t *merge_snapshot(struct merger *merger, const struct merge *merge, size_t *size_bytes);

/* Compares the outputs as they stand with the float64 reference within interface.md's bounds, float32 much closer, and
 * checks that guard zones, gaps and inputs are as they were. why[]: the figures when it is right, the fault when not.
 */
bool merge_check(struct merger *merger, const struct merge *merge, char why[PROBLEM_WHY]);

#endif
