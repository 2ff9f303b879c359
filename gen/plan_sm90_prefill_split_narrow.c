/* What few queries add to the plan of an sm_90 prefill kernel for one bf16 cache, the fewest of them: narrow tiles of
 * heads (templates/sm90_prefill_split_narrow.cu). */
#include <stdio.h>

#include "plan_add.h"
#include "prefill_params.h"

enum {
    HEADS = 16,
    GROUP_KEYS = 16,
    KEY_SLOTS = 2,
    VALUE_WARPS = 8,
    MOST_RANKS = 8,
    CHUNK_BYTES = 16,
    FLOAT_BYTES = 4,
    MOST_GROUPS = 5 /* 80 keys: what a rank of a cluster of eight has of 640 */
};

static void add_regions(const struct gen_spec *spec, int32_t groups, struct gen_plan *plan)
{
    add_region_of(plan, "narrow_", "narrow_query", HEADS * spec->d_qk * BF16_BYTES, "query, tiles of 64 columns");
    add_region_of(plan, "narrow_", "narrow_key", KEY_SLOTS * groups * GROUP_KEYS * spec->d_qk * BF16_BYTES,
                  "key slots, groups of 16 keys, tiles of 64 columns");
    add_region_of(plan, "narrow_", "narrow_parts", HEADS * spec->d_v * FLOAT_BYTES,
                  "of every rank's part what this one finishes");
    add_region_of(plan, "narrow_", "narrow_probability",
                  KEY_SLOTS * HEADS * (groups * GROUP_KEYS * BF16_BYTES + CHUNK_BYTES), "P as bf16, rows apart");
    add_region_of(plan, "narrow_", "narrow_states", MOST_RANKS * HEADS * 16,
                  "every rank's largest logits, references and sums");
    add_region_of(plan, "narrow_", "narrow_rows",
                  HEADS * FLOAT_BYTES * (KEY_SLOTS * (2 * groups + 1) + 2 + MOST_RANKS + 1),
                  "maxima of groups, sums of warps, states; weights of ranks, factor for out");
    add_region_of(plan, "narrow_", "narrow_barriers", (3 * KEY_SLOTS + 2) * 8,
                  "mbarriers: max_ready, p_ready and key_free of each slot, states_full, parts_full");
}

static int32_t shared_bytes_with(const struct gen_spec *spec, int32_t groups)
{
    struct gen_plan plan = {.region_count = 0};
    add_regions(spec, groups, &plan);
    return regions_end(&plan);
}

static int32_t groups_that_fit(const struct gen_spec *spec)
{
    int32_t groups = MOST_GROUPS;
    while (shared_bytes_with(spec, groups) > spec->target->shared_bytes)
        groups--;
    return groups;
}

void gen_plan_add_sm90_prefill_split_narrow(const struct gen_spec *spec, struct gen_plan *plan)
{
    const int32_t groups = groups_that_fit(spec);
    add_regions(spec, groups, plan);
    add_number(plan, "narrow_heads", HEADS, "heads", GEN_BY_PLAN,
               "of a tile for the fewest queries, M of mma: four times the blocks of threads, a quarter of the part");
    add_number(plan, "narrow_head_blocks", (spec->h_q + HEADS - 1) / HEADS, "blocks", GEN_BY_PLAN,
               "a query of that, each of a tile of its heads");
    add_number(plan, "narrow_threads", (KEY_SLOTS * groups + VALUE_WARPS) * 32, "threads", GEN_BY_PLAN,
               "a warp a group of keys of each slot, and a warp 64 columns of V");
    add_number(plan, "narrow_key_slots", KEY_SLOTS, "slots", GEN_BY_PLAN, "one is filled while another is multiplied");
    add_number(plan, "narrow_slot_groups", groups, "groups", GEN_BY_PLAN, "of 16 keys in a slot");
    add_number(plan, "narrow_shared_bytes", regions_end(plan), "bytes", GEN_BY_PLAN,
               "of a block for the fewest queries");
    struct gen_variant *variant = &plan->variants[plan->variant_count];
    *variant = (struct gen_variant){.entry = "smla_sm90_prefill_split_narrow",
                                    .threads = number(plan, "narrow_threads"),
                                    .shared_bytes = number(plan, "narrow_shared_bytes"),
                                    .param_bytes = (int32_t)sizeof(struct smla_prefill_params),
                                    .blocks_per_query = number(plan, "narrow_head_blocks"),
                                    .reason = "fewest queries: a cluster of blocks shares the keys of 16 heads"};
    snprintf(variant->name, sizeof(variant->name), "sm90_prefill_split_narrow_h%d_d%d", spec->h_q, spec->d_qk);
    plan->narrow_name = "sm90_prefill_split_narrow.cu";
    plan->narrow_variant = plan->variant_count++;
}
