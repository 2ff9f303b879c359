/* The generator, for calls that may or may not have a device to ask. */
#ifndef SMLA_RUNTIME_PLANNING_H
#define SMLA_RUNTIME_PLANNING_H

#include "context.h"

/* A caller's description with all that it points to, of this library's size. It points into itself: not to be copied.
 */
struct rt_description {
    smla_kernel_desc desc;
    smla_kv_layout layout;
    smla_kv_layout extra_layout;
};

/* Reads a caller's description (sized.h). Statuses as of rt_sized_read. */
smla_status rt_description_read(struct rt_description *full, const smla_kernel_desc *given);

/* What a description is for: NULL where it names a target itself, else the device's. context: as below. Returns
 * SMLA_OK; INVALID_ARGUMENT; UNSUPPORTED; UNAVAILABLE; DRIVER. */
smla_status rt_target_for(smla_context *context, const smla_kernel_desc *desc, const struct gen_target **target);

/* Makes the bundle of a full-size description: for its target, or for the device's when it names none.
 * context: may be NULL when desc names a target. On OK the caller frees the bundle.
 * Returns SMLA_OK; the generator's refusals (INVALID_ARGUMENT, UNSUPPORTED, …); UNAVAILABLE; DRIVER. */
smla_status rt_bundle_for(smla_context *context, const smla_kernel_desc *desc, struct gen_bundle *bundle);

#endif
