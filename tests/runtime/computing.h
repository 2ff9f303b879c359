/* What kernels would compute, for the stub's launches: by the CPU's reference. */
#ifndef SMLA_RUNTIME_COMPUTING_H
#define SMLA_RUNTIME_COMPUTING_H

#include <stdbool.h>
#include <stdint.h>

#include "combine_params.h"
#include "prefill_params.h"

/* Prefill of bf16 rows without pages. */
void compute_prefill(const struct smla_prefill_params *params, int32_t h_q, int32_t d);

/* The self-test's call of combine. entry: the kernel's, which tells the types of parts and out. */
void compute_combine(const char *entry, const struct smla_combine_params *params, int32_t h_q, int32_t d_v);
bool combine_writes_float(const char *entry);

#endif
