/* What the plans of sm_90 prefill kernels say about cache formats. */
#ifndef SMLA_GEN_PLAN_FORMATS_H
#define SMLA_GEN_PLAN_FORMATS_H

#include <stdbool.h>

#include "plan.h"

/* Whether keys pass through registers: all that are not bf16 in every cache. */
bool gen_plan_dequantises(const struct gen_spec *spec);

enum { GEN_MOST_STAGED_TURNS = 4, GEN_STAGED_TURN_BYTES = 8192 };

/* Adds how many of the four pieces that a thread has of a key half pass through shared memory: as many as `room` bytes
 * are for, of none where keys are not dequantised; and the region for them. */
void gen_plan_add_staging(const struct gen_spec *spec, int32_t room, struct gen_plan *plan);

/* Refuses what sm_90 kernels cannot read, beyond what every format must keep. */
smla_status gen_plan_check_formats(const struct gen_spec *spec, struct gen_refusal *refusal);

/* Adds the numbers of the formats of one cache or two. */
void gen_plan_add_formats(const struct gen_spec *spec, struct gen_plan *plan);

/* Adds the entry points of a kernel: `entry` for caches without pages, unless a format is placed by page, and
 * `paged_entry` for those with. The variant's other fields are taken from `like`; its name is completed. */
void gen_plan_add_variants(const struct gen_spec *spec, const struct gen_variant *like, const char *entry,
                           const char *paged_entry, struct gen_plan *plan);

/* Adds one entry point; `ending` of the name of its variant. */
void gen_plan_add_variant(const struct gen_spec *spec, const struct gen_variant *like, const char *entry,
                          const char *ending, struct gen_plan *plan);

#endif
