/* The companion of a decode kernel (struct gen_companion): which kernels have one, and which calls take it. That is
 * told by a call's sizes alone, never by lengths: a captured call is replayed with others. */
#ifndef SMLA_GEN_PLAN_COMPANION_H
#define SMLA_GEN_PLAN_COMPANION_H

#include "plan_decode.h"

/* Adds it to a plan that is otherwise made, where there is one. */
void gen_plan_add_companion(const struct gen_spec *spec, struct gen_plan *plan);

/* Of a decode kernel, or of a prefill kernel that unpacks (plan_unpack.h). */
bool gen_has_companion(const struct gen_plan *plan);

/* What the companion of a plan that has one is planned from. */
void gen_companion_spec(const struct gen_spec *spec, const struct gen_plan *plan, struct gen_spec *out);

/* Tells whether a call takes it; arguments as of gen_decode_make. False without one. */
bool gen_companion_takes(const struct gen_companion *companion, int64_t tokens, const int64_t topk[2],
                         int32_t sm_count);

/* Bytes of workspace that any call needs which takes it and has no more tokens, keys and multiprocessors.
 * decode: the companion's. */
int64_t gen_companion_workspace(const struct gen_companion *companion, const struct gen_decode *decode, int64_t tokens,
                                const int64_t topk[2], int32_t sm_count);

#endif
