/* The read-only tiers, asked in this order before the user's cache folder: bundle files, the system folder. Nothing in
 * them is needed for a right answer: what cannot be used is a miss, a counter and one log line. */
#ifndef SMLA_RUNTIME_TIERS_H
#define SMLA_RUNTIME_TIERS_H

#include "settings.h"
#include "smlab.h"

enum rt_tier { RT_TIER_NONE, RT_TIER_BUNDLE, RT_TIER_SYSTEM };

struct rt_tiers {
    struct rt_smlab **bundles; /* in the order of the list; those that could be opened */
    size_t bundle_count;
    struct rt_cache *system; /* one that always misses where there is none */
    struct rt_log log;
    struct rt_cache_counters counters; /* of the bundles */
};

/* Opens what the settings name. Returns SMLA_OK; OUT_OF_MEMORY. On failure too rt_tiers_close is called. */
smla_status rt_tiers_open(struct rt_tiers *tiers, const struct rt_settings *settings);

/* Also of zeros. */
void rt_tiers_close(struct rt_tiers *tiers);

/* Looks for an entry for a target (arch "sm_90a"), by the rules of rt_cache_find. Another result than RT_TIER_NONE:
 * *out is verified and owned by the caller. */
enum rt_tier rt_tiers_find(struct rt_tiers *tiers, const struct rt_key *key, const char *arch,
                           const struct rt_builder *builder, int32_t max_nvrtc_major, struct rt_entry *out);

/* Takes the next path out of a list with colons between them; empty ones are passed over. path: at least as long as
 * the list. False at the end. */
bool rt_tiers_next_path(const char **list, char *path);

#endif
