/* What the parts of smla-cache doctor share: each looks at one thing and gives an object of the JSON result, from which
 * the text is printed too. */
#ifndef SMLA_TOOLS_CACHE_DOCTOR_H
#define SMLA_TOOLS_CACHE_DOCTOR_H

#include <jansson.h>

#include "driver.h"
#include "nvrtc_table.h"
#include "settings.h"
#include "smla_cache.h"

struct doctor {
    const struct cache_options *options;
    struct rt_settings settings;
    json_t *warnings; /* sentences: it works, but … */
    json_t *helps;    /* sentences: what would help */
    struct rt_driver driver;
    bool has_driver;
    struct rt_nvrtc_set nvrtcs;
};

void doctor_warn(struct doctor *doctor, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_help(struct doctor *doctor, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The message of this thread's last failure; valid until the next call. */
const char *doctor_last_error(void);

/* {policy, path, from, exists, owner, mode, writable, trusted, file_system, network, free_bytes, files, why} */
json_t *doctor_folder(struct doctor *doctor);

/* Entries in a folder; 0 where it cannot be used. */
size_t doctor_count_files(const char *dir);

/* [{path, used, entries, bytes, why}] */
json_t *doctor_bundles(struct doctor *doctor);

/* {path, exists, owner, mode, trusted, files, why} */
json_t *doctor_system(struct doctor *doctor);

/* The first tier that has a sound entry which the driver could load on a target: "bundle", "system folder" or "cache
 * folder"; NULL: none. *too_new: the newest compiler whose entries were passed over, since the driver loads no code of
 * that major; of major 0 where there is none. */
const char *doctor_tier_of(const struct doctor *doctor, const struct gen_target *target, struct rt_builder *too_new);

/* {path, version, why, emulated}; opens the driver. */
json_t *doctor_driver(struct doctor *doctor);

/* {wins: [{path, version, targets}], tried: [{name, path, version, why}], from, why}: after the driver. */
json_t *doctor_nvrtc(struct doctor *doctor);

/* [{ordinal, name, capability, multiprocessors, target, compiles, cached, tier}] */
json_t *doctor_devices(struct doctor *doctor);

#endif
