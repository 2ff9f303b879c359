/* Which variant a call takes: a plan's rules, worked out once for a device and compared with each call's sizes. */
#ifndef SMLA_GEN_PLAN_RULES_H
#define SMLA_GEN_PLAN_RULES_H

#include "plan.h"

/* A rule on a device. */
struct gen_choice {
    int32_t variant;
    int32_t cluster_blocks;
    int32_t threads;
    int32_t shared_bytes;
    int32_t blocks_per_query; /* clusters a query token */
    int64_t most_tokens;      /* of a call */
    int64_t least_topk;
    int64_t most_topk;
    bool takes_last_round;
};

/* Works out a plan's rules, in their order, for a device with so many multiprocessors. active_clusters: of each rule,
 * how many of its clusters run at once, as the device's driver says: there may be fewer than its multiprocessors have
 * room for, or none. */
void gen_choices_make(const struct gen_plan *plan, int32_t sm_count, const int32_t active_clusters[GEN_MAX_RULES],
                      struct gen_choice choices[GEN_MAX_RULES]);

/* Whether a call's last tokens may be a launch of their own, behind a persistent kernel's. */
bool gen_has_last_round(const struct gen_plan *plan);

/* The first that holds for a call of so many query tokens; NULL: the kernel's own variant. sm_limit: the
 * multiprocessors that the call may take, 0 for all. */
const struct gen_choice *gen_choose(const struct gen_choice *choices, int32_t count, int64_t tokens, int64_t topk,
                                    int32_t sm_limit);

#endif
