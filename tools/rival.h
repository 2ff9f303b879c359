/* What a rival of smla-bench exports: a shared object for --rival, which wraps somebody else's kernel.
 *
 * It is called in the device's primary context, which is current (a user of the CUDA runtime finds it there), from one
 * thread. Its output goes to the buffers of the arguments, which are a rival's own. */
#ifndef SMLA_TOOLS_RIVAL_H
#define SMLA_TOOLS_RIVAL_H

#include "smla/smla.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names the rival in the results; "FlashMLA" is compared with what is known of it. Static storage. */
const char *smla_rival_name(void);

/* Computes what smla_prefill would with the same arguments.
 *
 * desc: the kernel's description; kv_format is a preset's name, target the device's. args: as of smla_prefill. stream:
 * a CUstream, which may be capturing: after the first call of a shape, which is not captured, a call must be as a
 * captured one is. why: receives a sentence when the result is not 0.
 * Returns 0: launched on the stream; 1: not a shape of this rival; 2: a fault. */
int smla_rival_prefill(const smla_kernel_desc *desc, const smla_prefill_args *args, void *stream, char *why,
                       size_t why_size);

#ifdef __cplusplus
}
#endif

#endif
