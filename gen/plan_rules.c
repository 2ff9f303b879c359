#include "plan_rules.h"

#include "plan_add.h"

void gen_choices_make(const struct gen_plan *plan, int32_t sm_count, const int32_t active_clusters[GEN_MAX_RULES],
                      struct gen_choice choices[GEN_MAX_RULES])
{
    for (int32_t i = 0; i < plan->rule_count; i++) {
        const struct gen_rule *rule = &plan->rules[i];
        const struct gen_variant *variant = &plan->variants[rule->variant];
        const int32_t fit = sm_count / rule->cluster_blocks;
        choices[i] = (struct gen_choice){
            .variant = rule->variant,
            .cluster_blocks = rule->cluster_blocks,
            .threads = variant->threads,
            .shared_bytes = variant->shared_bytes,
            .blocks_per_query = variant->blocks_per_query,
            .most_tokens = (fit < active_clusters[i] ? fit : active_clusters[i]) / variant->blocks_per_query,
            .least_topk = (int64_t)(rule->least_key_blocks - 1) * number(plan, "block_keys") + 1,
            .most_topk =
                rule->most_key_blocks > 0 ? (int64_t)rule->most_key_blocks * number(plan, "block_keys") : INT64_MAX,
            .takes_last_round = rule->takes_last_round,
        };
    }
}

bool gen_has_last_round(const struct gen_plan *plan)
{
    bool takes = false;
    for (int32_t i = 0; i < plan->rule_count; i++)
        takes |= plan->rules[i].takes_last_round;
    return takes && plan->variants[0].blocks_per_sm > 0;
}

const struct gen_choice *gen_choose(const struct gen_choice *choices, int32_t count, int64_t tokens, int64_t topk,
                                    int32_t sm_limit)
{
    for (int32_t i = 0; i < count; i++)
        if (tokens <= choices[i].most_tokens && topk >= choices[i].least_topk && topk <= choices[i].most_topk &&
            (sm_limit == 0 || tokens * choices[i].blocks_per_query * choices[i].cluster_blocks <= sm_limit))
            return &choices[i];
    return NULL;
}
