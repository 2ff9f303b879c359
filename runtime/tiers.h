/* The read-only tiers, asked in this order before the user's cache folder: bundle files, the system folder. Nothing in
 * them is needed for a right answer: what cannot be used is a miss, a counter and one log line. */
#ifndef SMLA_RUNTIME_TIERS_H
#define SMLA_RUNTIME_TIERS_H

#include "settings.h"
#include "smlab.h"

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

/* Looks for an entry for a target (wanted->arch is not NULL). True: *out is verified and owned by the caller, and says
 * which tier has it. */
bool rt_tiers_find(struct rt_tiers *tiers, const struct rt_wanted *wanted, struct rt_entry *out);

/* Takes the next path out of a list with colons between them; empty ones are passed over. path: at least as long as
 * the list. False at the end. */
bool rt_tiers_next_path(const char **list, char *path);

#endif
