#include "tiers.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "why.h"

bool rt_tiers_next_path(const char **list, char *path)
{
    const size_t skip = *list != NULL ? strspn(*list, ":") : 0;
    const size_t length = *list != NULL ? strcspn(*list + skip, ":") : 0;

    if (length == 0)
        return false;
    memcpy(path, *list + skip, length);
    path[length] = '\0';
    *list += skip + length;
    return true;
}

/* ---- Opening ----------------------------------------------------------------------------------------------- */

static void open_bundle(struct rt_tiers *tiers, const char *path)
{
    struct rt_smlab *smlab;
    char why[RT_WHY_BYTES];
    const enum rt_read_result result = rt_smlab_open(path, false, &smlab, why);
    const bool whole = result == RT_READ_OK && why[0] == '\0';

    if (result == RT_READ_OK)
        tiers->bundles[tiers->bundle_count++] = smlab;
    if (whole)
        return;
    const bool damaged = result == RT_READ_OK || result == RT_READ_DAMAGED;
    const struct rt_event event = {.kind = damaged ? SMLA_EVENT_DAMAGE : SMLA_EVENT_UNUSED,
                                   .level = SMLA_LOG_WARNING,
                                   .status = SMLA_ERROR_IO,
                                   .tier = SMLA_TIER_BUNDLE};

    __atomic_fetch_add(damaged ? &tiers->counters.damaged : &tiers->counters.errors, 1, __ATOMIC_RELAXED);
    rt_tell(&tiers->log, &event, "the bundle %s is %s: %s", path,
            result == RT_READ_OK        ? "damaged"
            : result == RT_READ_DAMAGED ? "damaged and not used"
                                        : "not used",
            why);
}

static smla_status open_bundles(struct rt_tiers *tiers, const char *list)
{
    const size_t length = list != NULL ? strlen(list) : 0;
    char *path = malloc(length + 1);

    tiers->bundles = calloc(length / 2 + 1, sizeof(struct rt_smlab *)); /* a letter and a colon each */
    if (path == NULL || tiers->bundles == NULL) {
        free(path);
        return rt_fail(SMLA_ERROR_OUT_OF_MEMORY, "no memory for a list of bundles");
    }
    while (rt_tiers_next_path(&list, path))
        open_bundle(tiers, path);
    free(path);
    return SMLA_OK;
}

smla_status rt_tiers_open(struct rt_tiers *tiers, const struct rt_settings *settings)
{
    *tiers = (struct rt_tiers){.log = settings->log};
    const smla_status status = open_bundles(tiers, settings->bundles);

    return status == SMLA_OK ? rt_cache_open_system(settings->system_dir, &settings->log, &tiers->system) : status;
}

void rt_tiers_close(struct rt_tiers *tiers)
{
    for (size_t i = 0; i < tiers->bundle_count; i++)
        rt_smlab_close(tiers->bundles[i]);
    free(tiers->bundles);
    rt_cache_close(tiers->system);
    *tiers = (struct rt_tiers){.bundle_count = 0};
}

/* ---- Finding ----------------------------------------------------------------------------------------------- */

bool rt_tiers_find(struct rt_tiers *tiers, const struct rt_wanted *wanted, struct rt_entry *out)
{
    for (size_t i = 0; i < tiers->bundle_count; i++)
        if (rt_smlab_find(tiers->bundles[i], wanted, &tiers->log, &tiers->counters, out))
            return true;
    return rt_cache_find(tiers->system, wanted, out);
}
