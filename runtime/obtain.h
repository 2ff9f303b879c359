/* From a bundle to compiled code: memory, bundles, system folder, cache folder, compiler. */
#ifndef SMLA_RUNTIME_OBTAIN_H
#define SMLA_RUNTIME_OBTAIN_H

#include "context.h"

/* Finds or makes the image of a bundle. max_nvrtc_major: the newest compiler major whose code the driver takes; 0: any.
 * *out belongs to the context. Returns SMLA_OK; UNAVAILABLE; NOT_CACHED; COMPILE; TIMEOUT;
 * OUT_OF_MEMORY. */
smla_status rt_obtain(smla_context *context, const struct gen_bundle *bundle, enum rt_kind kind,
                      int32_t max_nvrtc_major, const struct rt_entry **out);

/* The same for an image that was found and that the driver does not load, which is this thread's last error: told,
 * counted, and from here on among the refused. The kernel is looked for once more, in what the tiers have besides, and
 * is made where they have no other; what replaces an entry of the cache folder stands there instead of it.
 * *image: the refused one; receives the other. On failure the last error says both. Returns as rt_obtain; the driver's
 * failure itself where the image was made here, so that making it again is in vain. */
smla_status rt_obtain_instead(smla_context *context, const struct gen_bundle *bundle, int32_t max_nvrtc_major,
                              struct rt_refused *refused, const struct rt_entry **image);

#endif
