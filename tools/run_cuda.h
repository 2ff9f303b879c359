/* Runs a case's kernel on the card. */
#ifndef SMLA_TOOLS_RUN_CUDA_H
#define SMLA_TOOLS_RUN_CUDA_H

#include "case.h"
#include "cuda_device.h"
#include "smla/smla.h"

enum { RUN_WHY = 2048 };

/* The card and the library, for several cases. */
struct run_session {
    struct device *device;
    smla_context *context;
    uint32_t kernel_flags; /* SMLA_KERNEL_*, of the kernels that are run; set by the caller after opening */
    int32_t sm_limit;      /* of smla_prefill_args; likewise */
};

/* What a call gave, as it lay in device memory. */
struct run_result {
    smla_support support;
    uint16_t *out;         /* [s_q, h_q, d_v] bf16 */
    float *lse;            /* [s_q, h_q] */
    float *max_logits;     /* [s_q, h_q] */
    char unsound[RUN_WHY]; /* a guard zone, an input or a repeat that differs; "" when all is well */
};

/* context_flags: SMLA_CONTEXT_*. Both return CLI_FINE, or another exit code with a sentence in why[] and nothing held.
 * CLI_UNAVAILABLE means that there is no driver, device, compiler or kernel for this. */
int run_session_open(struct run_session *session, const char *driver_path, const char *nvrtc_path,
                     uint32_t context_flags, char why[RUN_WHY]);
void run_session_close(struct run_session *session);

/* Writes what the library counted and did (smla_stats_json) to a file. Returns CLI_FINE or an exit code, told. */
int run_session_write_stats(const struct run_session *session, const char *path);

/* Runs a case `repeat` times, outputs filled with NaN before each. target: NULL means the device's own. */
int run_cuda(struct run_session *session, const struct smla_case *loaded, const char *target, int64_t repeat,
             struct run_result *result, char why[RUN_WHY]);
void run_result_free(struct run_result *result);

#endif
