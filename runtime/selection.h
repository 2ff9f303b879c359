/* Which kernels of a description are chosen: its own, beside or instead of which there may be others. The kill switch
 * takes away what it names, and what is not verified is left out unless it is asked for. */
#ifndef SMLA_RUNTIME_SELECTION_H
#define SMLA_RUNTIME_SELECTION_H

#include "bundle.h"
#include "settings.h"
#include "trust.h"

struct rt_selection {
    struct gen_bundle made[2];
    int made_count;
    const struct gen_bundle *bundles; /* chosen, count of them: the kernel's, and its companion's */
    int count;
    const struct gen_trust *least_trusted; /* of what is chosen */
    char switched_off[256];                /* names with spaces between them; also when nothing is left */
};

/* Chooses. settings: NULL: no kill switch, and what is not verified is chosen too. target: as for gen_bundle_make. A
 * kernel that is not verified is no failure here (least_trusted); it has nothing beside it that is not.
 * Returns SMLA_OK, and the caller frees with rt_selection_free; the generator's refusals; UNSUPPORTED (the kill switch
 * leaves nothing). */
smla_status rt_selection_make(const struct rt_settings *settings, const smla_kernel_desc *desc,
                              const struct gen_target *target, struct rt_selection *out);
void rt_selection_free(struct rt_selection *selection);

/* Tells what the kill switch took away, if anything. status: of rt_selection_make; when it failed, the last error is
 * its own. */
void rt_selection_tell_off(const struct rt_settings *settings, const struct rt_selection *selection,
                           smla_status status);

/* Refuses a selection that is not verified and was not asked for, and tells it: UNSUPPORTED. */
smla_status rt_selection_check(const struct rt_settings *settings, const struct rt_selection *selection);

#endif
