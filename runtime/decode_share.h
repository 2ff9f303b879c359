/* How a decode call shares its work out: which of a kernel and its companion it takes, and what of that. */
#ifndef SMLA_RUNTIME_DECODE_SHARE_H
#define SMLA_RUNTIME_DECODE_SHARE_H

#include "kernel.h"

/* b, s_q: up to 2^31. topk: of both caches. *taken: the kernel, or its companion. Returns SMLA_OK; INVALID_ARGUMENT. */
smla_status rt_decode_share(const smla_kernel *kernel, int64_t b, int64_t s_q, const int64_t topk[2], int32_t sm_limit,
                            const smla_kernel **taken, struct gen_decode_share *share);

/* The variant's name of the one that a call takes. */
const char *rt_decode_variant(const smla_kernel *kernel, int64_t b, int64_t s_q, const int64_t topk[2],
                              int32_t sm_limit);

/* Bytes that any call needs which is no larger, whichever kernel it takes. Returns SMLA_OK; INVALID_ARGUMENT. */
smla_status rt_decode_workspace(const smla_kernel *kernel, int64_t b, int64_t s_q, const int64_t topk[2],
                                uint64_t *bytes);

#endif
