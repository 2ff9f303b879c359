/* The two levels of a cache key (facts/jit.md 3.3): kernel_id, what is wanted; build_id, who built it. */
#ifndef SMLA_RUNTIME_KEY_H
#define SMLA_RUNTIME_KEY_H

#include <stdbool.h>

#include "bundle.h"
#include "digest.h"

enum rt_kind { RT_KIND_CUBIN = 1, RT_KIND_PTX = 2 };

struct rt_key {
    struct rt_digest kernel_id;
    enum rt_kind kind;
};

/* The option that has the compiler write line tables, or NULL: where the description asks for them, and always into
 * PTX, which the emulated device alone runs, and tells lines of. */
const char *rt_line_option(const struct gen_bundle *bundle, enum rt_kind kind);

/* Digests, length-prefixed and in order: schema version, kind, target, options, then name and bytes of every file.
 * No path, time, host or environment: the same description gives the same id anywhere. */
smla_status rt_key_make(const struct gen_bundle *bundle, enum rt_kind kind, struct rt_key *key);

/* Who built an entry: the compiler's version, and a digest of its identity. */
struct rt_builder {
    int32_t nvrtc_major;
    int32_t nvrtc_minor;
    struct rt_digest build_id;
};

/* By version; the digest decides between builds of one version, so that a choice depends on nothing else. */
bool rt_builder_is_newer(const struct rt_builder *a, const struct rt_builder *b);

#endif
