/* What few queries add to the plan of an sm_90 prefill kernel for one bf16 cache: variants in which a cluster of blocks
 * of threads shares a unit's keys, and when a call takes which.
 *
 * Below half as many units of work as multiprocessors, a query token and up to 64 heads each, most of the device would
 * stand idle. */
#include "plan_add.h"
#include "plan_formats.h"

/* The bits of a query would depend on how many there are. */
static bool can_split(const struct gen_spec *spec)
{
    return !spec->batch_invariant && !spec->has_extra_kv && !gen_plan_dequantises(spec) && spec->d_v == 512;
}

enum { SPLIT, NARROW };

/* Narrow tiles first: a cluster has less to gather, to multiply and to bring together. But they go through keys at a
 * quarter of the heads, so where a rank has many of them tiles of 64 heads are faster. Larger clusters first. Measured
 * on an H200, 2026-12-01, d_qk 512, topk 640; most_key_blocks reckoned from what 80 keys more a rank take, 1.8 us.
 *
 * A long call's last tokens, which the persistent kernel would have a whole round for, 19 us of 640 keys, take the
 * narrow tiles too, behind it: 4096 queries on 132 multiprocessors leave 4. */
static void add_rules(struct gen_plan *plan)
{
    static const struct {
        int variant;
        int32_t cluster_blocks, most_key_blocks;
        const char *reason;
    } rules[] = {
        {NARROW, 8, 0, "1 query took 6.3 us, and 13.7 in tiles of 64 heads"},
        {NARROW, 4, 24, "7 queries took 9.0 us, and 13.8 in tiles of 64 heads"},
        {NARROW, 2, 12, "8 queries took 12.5 us and 16 took 13.6, and 13.8 and 15.9 in tiles of 64 heads"},
        {SPLIT, 8, 0, "a block of threads has an eighth of the keys"},
        {SPLIT, 4, 0, "a quarter of the keys"},
        {SPLIT, 2, 0, "half of the keys; one block a unit takes 21 us"},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        plan->rules[plan->rule_count++] = (struct gen_rule){
            .variant = rules[i].variant == NARROW ? plan->narrow_variant : plan->split_variant,
            .cluster_blocks = rules[i].cluster_blocks,
            .least_key_blocks = rules[i].cluster_blocks,
            .most_key_blocks = rules[i].most_key_blocks,
            .takes_last_round = rules[i].variant == NARROW,
            .reason = rules[i].reason,
        };
}

void gen_plan_add_sm90_few_queries(const struct gen_spec *spec, struct gen_plan *plan)
{
    if (!can_split(spec))
        return;
    gen_plan_add_sm90_prefill_split(spec, plan);
    gen_plan_add_sm90_prefill_split_narrow(spec, plan);
    add_rules(plan);
}
