/* How a plan function fills its plan: numbers by name, regions of shared memory one behind the other. */
#ifndef SMLA_GEN_PLAN_ADD_H
#define SMLA_GEN_PLAN_ADD_H

#include <string.h>

#include "plan.h"

enum { BF16_BYTES = 2, WARPGROUP_THREADS = 128 };

static inline void add_number(struct gen_plan *plan, const char *name, int32_t value, const char *unit,
                              enum gen_decider decided_by, const char *reason)
{
    plan->numbers[plan->number_count++] = (struct gen_number){name, value, unit, decided_by, reason};
}

static inline int32_t number(const struct gen_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->number_count; i++)
        if (strcmp(plan->numbers[i].name, name) == 0)
            return plan->numbers[i].value;
    return 0;
}

/* Bytes of shared memory that the regions so far take. */
static inline int32_t regions_end(const struct gen_plan *plan)
{
    if (plan->region_count == 0)
        return 0;
    const struct gen_region *last = &plan->regions[plan->region_count - 1];
    return last->offset_bytes + last->size_bytes;
}

static inline void add_region(struct gen_plan *plan, const char *name, int32_t size_bytes, const char *holds)
{
    int32_t offset = regions_end(plan);
    plan->regions[plan->region_count++] = (struct gen_region){name, offset, size_bytes, holds};
}

/* A region of another entry point, whose names have this prefix: it begins at 0, wherever the one before ends. */
static inline void add_region_of(struct gen_plan *plan, const char *prefix, const char *name, int32_t size_bytes,
                                 const char *holds)
{
    const int32_t count = plan->region_count;
    const bool first = count == 0 || strncmp(plan->regions[count - 1].name, prefix, strlen(prefix)) != 0;
    add_region(plan, name, size_bytes, holds);
    if (first)
        plan->regions[count].offset_bytes = 0;
}

#endif
