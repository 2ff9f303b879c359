/* smla's own kernels on the engine, without a driver: PTX by NVRTC, a call's arguments, a launch, a comparison with the
 * CPU reference. */
#ifndef EMU_TESTS_KERNEL_HARNESS_H
#define EMU_TESTS_KERNEL_HARNESS_H

#include "engine.h"
#include "plan_decode.h"
#include "reference.h"
#include "smla/smla.h"

enum { HARNESS_WHY = 512 };

/* A prefill call: host arrays, and what the reference makes of them. Small, with everything awkward in it: invalid
 * entries, a length inside a block, a dead row, sinks of both infinities, keys behind invalid entries that are NaN. */
struct harness_call {
    int32_t h_q, d_qk;
    int64_t s_q, s_kv, topk;
    uint16_t *query, *kv;
    int32_t *indices, *topk_length;
    float *attn_sink;
    smla_prefill_args args; /* host pointers */
    struct reference_result expected;
};

struct harness {
    struct emu_module *module;
    const struct emu_kernel *kernel;
    smla_support support;
    uint32_t op;
    int32_t h_q, d_qk;
    int32_t blocks_per_query;
    int32_t blocks_per_sm;
    int32_t threads;
    int32_t shared_bytes;
    float sm_scale;         /* of calls; 0: 1 / sqrt(512) */
    int32_t cluster_blocks; /* a unit's; 1: no cluster */
    bool narrow;            /* in clusters: the variant for the fewest queries */
    /* Of decode: `kernel` is the main one, or the one that combines; both are launched. */
    const struct emu_kernel *main, *combine;
    int32_t combine_threads;
    struct gen_decode decode;
};

/* Generates the kernel's PTX through smla (NVRTC: SMLA_NVRTC, else the one found) and loads it. */
bool harness_open(struct harness *harness, uint32_t op, uint32_t flags, int32_t h_q, int32_t d_qk,
                  char why[HARNESS_WHY]);
/* The variant for few queries, or for the fewest, in clusters of so many blocks. */
bool harness_open_split(struct harness *harness, bool narrow, int32_t cluster_blocks, int32_t h_q, int32_t d_qk,
                        char why[HARNESS_WHY]);
/* Decode's two kernels. A call's queries are then as many requests. */
bool harness_open_decode(struct harness *harness, bool batch_invariant, int32_t h_q, int32_t d_qk,
                         char why[HARNESS_WHY]);
void harness_close(struct harness *harness);

/* A call for that kernel's heads and width. */
bool harness_call_make(const struct harness *harness, struct harness_call *call, int64_t s_q, int64_t s_kv,
                       int64_t topk);
void harness_call_free(struct harness_call *call);

/* Runs the call; outputs start as NaN. *wrong: the values are not within interface.md's bounds. The report is the
 * caller's. */
enum emu_result harness_run(const struct harness *harness, const struct harness_call *call,
                            const struct emu_options *options, struct emu_report *report, bool *wrong);

#endif
