/* Which way a prefill call goes. */
#ifndef SMLA_RUNTIME_PREFILL_H
#define SMLA_RUNTIME_PREFILL_H

#include "kernel.h"

/* Whether the call unpacks its cache into the workspace first, which the kernel's companion then reads. args: of full
 * size, and otherwise good. */
bool rt_prefill_unpacks(const smla_kernel *kernel, const smla_prefill_args *args);

#endif
