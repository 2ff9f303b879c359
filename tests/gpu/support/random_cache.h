/* The bytes of a random call's caches. */
#ifndef SMLA_TESTS_GPU_RANDOM_CACHE_H
#define SMLA_TESTS_GPU_RANDOM_CACHE_H

#include "kv_codec.h"
#include "random_call.h"

/* Of the first cache (0) or the second (1), in host memory. */
struct kv_view random_cache_view(const struct random_call *call, int c);

/* A token that was written gets other scales and other codes, as the call's axes say. */
void random_cache_alter(struct random_call *call, const struct kv_view *view, int64_t slot);

/* How much larger than what is written that can make keys. */
float random_cache_growth(const struct random_call *call);

/* All but the tokens that a list selects becomes something else: size bytes, of which the tensor begins at the call's
 * base. False when out of memory. */
bool random_cache_spoil(struct random_call *call, int c, uint8_t *bytes, size_t size);

#endif
