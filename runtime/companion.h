/* The companion of a decode kernel (gen/plan_companion.h): its bundle, and both kernels' code. */
#ifndef SMLA_RUNTIME_COMPANION_H
#define SMLA_RUNTIME_COMPANION_H

#include "context.h"

bool rt_has_companion(const struct gen_bundle *bundle);

/* Makes the companion's bundle, of a kernel that has one; the caller frees it. Returns SMLA_OK; the generator's
 * refusals.
 */
smla_status rt_companion_bundle(const struct gen_bundle *of, struct gen_bundle *bundle);

/* rt_obtain of a kernel (count 1), or of it and its companion (2). Where they may have to be compiled both at once: the
 * second in a thread of its own, or behind the first where none can be had. The first's failure before the second's. */
smla_status rt_obtain_with_companion(smla_context *context, const struct gen_bundle *bundles, int count,
                                     enum rt_kind kind, int32_t max_nvrtc_major, const struct rt_entry *images[2]);

#endif
