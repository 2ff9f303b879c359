#include "target.h"

#include <string.h>

#include "plan.h"

/* A bare number is the widest target that loads on that card, so each family's widest row stands first.
 * Limits: CUDA C programming guide, "Technical specifications per compute capability"; first NVRTC: the PTX ISA's
 * target notes (sm_90a 12.0; sm_100a 12.8; sm_103a and the family targets 12.9). */
static const struct gen_target table[] = {
    {.name = "90a",
     .family = "sm_90",
     .arch = "sm_90a",
     .cc_major = 9,
     .cc_minor = 0,
     .exact = true,
     .nvrtc_major = 12,
     .nvrtc_minor = 0,
     .shared_bytes = 232448,
     .registers = 65536,
     .prefill = gen_plan_sm90_prefill,
     .prefill_reference = gen_plan_prefill_reference,
     .combine = gen_plan_combine,
     .decode = gen_plan_sm90_decode},
    {.name = "100f",
     .family = "sm_100",
     .arch = "sm_100f",
     .cc_major = 10,
     .cc_minor = 0,
     .exact = false,
     .nvrtc_major = 12,
     .nvrtc_minor = 9,
     .shared_bytes = 232448,
     .registers = 65536,
     .prefill = NULL,
     .prefill_reference = gen_plan_prefill_reference,
     .combine = gen_plan_combine,
     .decode = NULL},
    {.name = "100a",
     .family = "sm_100",
     .arch = "sm_100a",
     .cc_major = 10,
     .cc_minor = 0,
     .exact = true,
     .nvrtc_major = 12,
     .nvrtc_minor = 8,
     .shared_bytes = 232448,
     .registers = 65536,
     .prefill = NULL,
     .prefill_reference = gen_plan_prefill_reference,
     .combine = gen_plan_combine,
     .decode = NULL},
    {.name = "103f",
     .family = "sm_100",
     .arch = "sm_103f",
     .cc_major = 10,
     .cc_minor = 3,
     .exact = false,
     .nvrtc_major = 12,
     .nvrtc_minor = 9,
     .shared_bytes = 232448,
     .registers = 65536,
     .prefill = NULL,
     .prefill_reference = gen_plan_prefill_reference,
     .combine = gen_plan_combine,
     .decode = NULL},
    {.name = "103a",
     .family = "sm_100",
     .arch = "sm_103a",
     .cc_major = 10,
     .cc_minor = 3,
     .exact = true,
     .nvrtc_major = 12,
     .nvrtc_minor = 9,
     .shared_bytes = 232448,
     .registers = 65536,
     .prefill = NULL,
     .prefill_reference = gen_plan_prefill_reference,
     .combine = gen_plan_combine,
     .decode = NULL},
};

static const size_t table_count = sizeof(table) / sizeof(table[0]);

const struct gen_target *gen_target_table(size_t *count)
{
    *count = table_count;
    return table;
}

const struct gen_target *gen_target_find(const char *name)
{
    for (size_t i = 0; i < table_count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    size_t digits = strlen(name);
    for (size_t i = 0; i < table_count; i++)
        if (strncmp(table[i].name, name, digits) == 0 && strlen(table[i].name) == digits + 1)
            return &table[i];
    return NULL;
}

bool gen_target_loads_on(const struct gen_target *target, int32_t cc_major, int32_t cc_minor)
{
    if (target->cc_major != cc_major)
        return false;
    return target->exact ? target->cc_minor == cc_minor : target->cc_minor <= cc_minor;
}

const struct gen_target *gen_target_for_device(int32_t cc_major, int32_t cc_minor)
{
    const struct gen_target *family = NULL;
    for (size_t i = 0; i < table_count; i++) {
        if (!gen_target_loads_on(&table[i], cc_major, cc_minor))
            continue;
        if (table[i].exact)
            return &table[i];
        if (!family || table[i].cc_minor > family->cc_minor)
            family = &table[i];
    }
    return family;
}
