/* Targets are rows: limits, the NVRTC spelling, the plan function of each operator. */
#ifndef SMLA_GEN_TARGET_H
#define SMLA_GEN_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "smla/smla.h"

struct gen_spec;
struct gen_plan;
struct gen_refusal;

/* Computes a plan; refuses with a sentence. */
typedef smla_status (*gen_plan_fn)(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal);

struct gen_target {
    const char *name;   /* "90a" */
    const char *family; /* "sm_90": the family of kernels */
    const char *arch;   /* "sm_90a": what NVRTC's --gpu-architecture gets */
    int32_t cc_major;   /* lowest compute capability that it loads on … */
    int32_t cc_minor;
    bool exact;          /* … and the only one ('a'), or later minors of the major too ('f') */
    int32_t nvrtc_major; /* first NVRTC that knows it */
    int32_t nvrtc_minor;
    int32_t shared_bytes; /* most dynamic shared memory a block may ask for */
    int32_t registers;    /* 32-bit registers a multiprocessor */
    gen_plan_fn prefill;  /* NULL: no such kernel yet */
    gen_plan_fn prefill_reference;
    gen_plan_fn combine;
    gen_plan_fn decode;
};

/* Finds a target by its own name or by a bare number (the widest that loads on that card: interface.md, "Targets").
 * NULL when there is none. */
const struct gen_target *gen_target_find(const char *name);

/* Finds the target for a device: an exact one if smla has it, else the family's. NULL when there is none. */
const struct gen_target *gen_target_for_device(int32_t cc_major, int32_t cc_minor);

/* Tells whether code built for `target` loads on a device. */
bool gen_target_loads_on(const struct gen_target *target, int32_t cc_major, int32_t cc_minor);

/* The table, for listings; *count receives its length. */
const struct gen_target *gen_target_table(size_t *count);

#endif
