/* Unpacking a quantised cache before prefill (struct gen_unpack): which kernels can, and which calls take it. That is
 * told by a call's sizes alone, never by lengths: a captured call is replayed with others. */
#ifndef SMLA_GEN_PLAN_UNPACK_H
#define SMLA_GEN_PLAN_UNPACK_H

#include "plan.h"

/* Makes of the spec of a kernel that unpacks that of its companion. */
void gen_unpack_spec(struct gen_spec *spec);

/* Tells whether a call is faster so, if it has the workspace. False where there is nothing to unpack with.
 * s_q, topk, s_kv: up to 2^31. */
bool gen_unpack_takes(const struct gen_unpack *unpack, int64_t s_q, int64_t topk, int64_t s_kv);

/* The most tokens of a cache that a call unpacks which is no larger in any of the sizes. */
int64_t gen_unpack_most_rows(const struct gen_unpack *unpack, int64_t s_q, int64_t topk, int64_t s_kv);

#endif
