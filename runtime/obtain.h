/* From a bundle to compiled code: memory, bundles, system folder, cache folder, compiler. */
#ifndef SMLA_RUNTIME_OBTAIN_H
#define SMLA_RUNTIME_OBTAIN_H

#include "context.h"

/* Finds or makes the image of a bundle. max_nvrtc_major: the newest compiler major whose code the driver takes; 0: any.
 * *out belongs to the context. Returns SMLA_OK; UNAVAILABLE; NOT_CACHED; COMPILE; TIMEOUT;
 * OUT_OF_MEMORY. */
smla_status rt_obtain(smla_context *context, const struct gen_bundle *bundle, enum rt_kind kind,
                      int32_t max_nvrtc_major, const struct rt_entry **out);

#endif
