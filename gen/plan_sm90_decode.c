/* Plan of the sm_90 decode kernels (templates/sm90_decode.cu, sm90_decode_turned.cu) and of what combines their parts
 * (templates/decode_combine.cu): the roles and tiles of prefill, for blocks of threads that share out all tokens' keys
 * among them. */
#include <stdio.h>

#include "decode_params.h"
#include "plan_add.h"
#include "plan_companion.h"
#include "plan_decode.h"
#include "plan_formats.h"

enum { COMBINE_THREADS = 256, MOST_COMBINE_RUNS = 4, ELEMS_IN_FLIGHT = 64 };

static void add_numbers(const struct gen_spec *spec, struct gen_plan *plan)
{
    add_number(plan, "batch_invariant", spec->batch_invariant, "", GEN_BY_DESCRIPTION,
               spec->batch_invariant ? "keys are shared in pieces that topk alone decides"
                                     : "keys are shared as the batch asks for");
    add_number(plan, "item_cost_blocks", 3, "blocks", GEN_BY_PLAN,
               "of keys, that beginning and ending a token's keys takes the time of: 3.4 measured with 64 heads of v4");
    add_number(plan, "cut_cost_blocks", 2, "blocks", GEN_BY_PLAN,
               "of keys, that a part's way through memory takes the time of; not measured");
    add_number(plan, "small_share_blocks", 2, "blocks", GEN_BY_PLAN,
               "of keys at most: what an item costs beside them is the same for every part then");
    add_number(plan, "small_item_cost_blocks", 1, "blocks", GEN_BY_PLAN, "that an item counts for in such shares");
    add_number(plan, "combine_threads", COMBINE_THREADS, "threads", GEN_BY_PLAN, "of a block that combines");
    add_number(plan, "most_combine_runs", MOST_COMBINE_RUNS, "runs", GEN_BY_PLAN,
               "of 16 bytes a part that a thread of it has; fewer where there is little and it is latency that counts");
    add_number(plan, "elems_in_flight", ELEMS_IN_FLIGHT, "elements", GEN_BY_PLAN,
               "a thread of it reads before it is known what they count: 8 KiB a warp");
}

static void add_variants(const struct gen_spec *spec, const char *entry, struct gen_plan *plan)
{
    struct gen_variant like = {.threads = number(plan, "threads"),
                               .shared_bytes = regions_end(plan),
                               .blocks_per_query = number(plan, "head_blocks"),
                               .blocks_per_sm = 1};
    snprintf(like.name, sizeof(like.name), "%s_h%d_d%d", plan->kernel, spec->h_q, spec->d_qk);
    if (spec->tile_heads > 0)
        snprintf(like.name, sizeof(like.name), "%s_h%d_d%d_tile%d", plan->kernel, spec->h_q, spec->d_qk,
                 spec->tile_heads);
    gen_plan_add_variant(spec, &like, entry, "", plan);
    plan->combine_variant = plan->variant_count;
    plan->variants[plan->variant_count++] =
        (struct gen_variant){.name = "decode_combine",
                             .entry = "smla_decode_combine",
                             .threads = COMBINE_THREADS,
                             .blocks_per_query = number(plan, "head_blocks"),
                             .reason = "combines the parts of what several blocks share; not launched where none can"};
}

smla_status gen_plan_sm90_decode(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    const bool turned = gen_sm90_prefill_turns(spec);
    smla_status status = gen_plan_check_formats(spec, refusal);
    if (status == SMLA_OK && turned)
        status = gen_plan_add_sm90_attention_turned(spec, plan, refusal);
    else if (status == SMLA_OK)
        gen_plan_add_sm90_attention(spec, plan);
    if (status != SMLA_OK)
        return status;
    plan->kernel = turned ? "sm90_decode_turned" : "sm90_decode";
    plan->template_name = turned ? "sm90_decode_turned.cu" : "sm90_decode.cu";
    plan->combine_name = "decode_combine.cu";
    plan->launches = 2;
    plan->param_bytes = (int32_t)sizeof(struct smla_decode_params);
    add_numbers(spec, plan);
    add_region(plan, "walk", GEN_DECODE_WALK_BYTES, "this block's range of the keys; mbarrier query_free");
    add_variants(spec, turned ? "smla_sm90_decode_turned" : "smla_sm90_decode", plan);
    gen_plan_add_companion(spec, plan);
    return SMLA_OK;
}
