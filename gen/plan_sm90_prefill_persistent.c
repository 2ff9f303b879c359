/* Plan of the persistent sm_90 prefill kernel for one bf16 cache (templates/sm90_prefill_persistent.cu).
 *
 * As many blocks as there are multiprocessors share the units of work, a query token and up to 64 heads each. The query
 * is in registers of the softmax warpgroup, which leaves room for three slots that queries and blocks of keys go
 * through (facts/prefill-experiment.md, "Design that won"). */
#include <stdio.h>

#include "plan_add.h"
#include "plan_formats.h"
#include "plan_rules.h"
#include "prefill_tensor_params.h"

/* Whether a key is wider than its value: by one tile of 64 columns. */
static bool has_tail(const struct gen_spec *spec)
{
    return spec->d_qk > spec->d_v;
}

static void add_numbers(const struct gen_spec *spec, struct gen_plan *plan)
{
    add_number(plan, "h_q", spec->h_q, "heads", GEN_BY_DESCRIPTION, "query heads");
    add_number(plan, "d_qk", spec->d_qk, "elements", GEN_BY_DESCRIPTION, "width of query and key");
    add_number(plan, "d_v", spec->d_v, "elements", GEN_BY_DESCRIPTION, "width of value: the key's first columns");
    add_number(plan, "block_heads", 64, "heads", GEN_BY_TARGET, "M of wgmma");
    add_number(plan, "head_blocks", (spec->h_q + 63) / 64, "units", GEN_BY_PLAN,
               "units of work a query: heads in groups of 64");
    add_number(plan, "block_keys", 64, "keys", GEN_BY_PLAN, "N of query.key; one bit of a 64-bit validity mask a key");
    add_number(plan, "item_slots", 3, "slots", GEN_BY_PLAN,
               "a query or a block of keys each; what fits beside P and the rest of the query");
    add_number(plan, "probability_slots", 2, "slots", GEN_BY_PLAN,
               has_tail(spec) ? "P of a block and the tail of another"
                              : "softmax of a block runs beside P.V of the one before");
    add_number(plan, "query_register_tiles", has_tail(spec) ? 7 : 6, "tiles", GEN_BY_PLAN,
               "of 64 columns, 16 registers each; the rest of the query is in shared memory");
    add_number(plan, "unheld_blocks", 2, "blocks", GEN_BY_PLAN,
               "at a unit's end, whose P.V does not wait for the next block's logits");
    add_number(plan, "told_steps", has_tail(spec) ? 35 : 28, "steps", GEN_BY_PLAN,
               "of the next block's logits, 16 columns each, before P.V of a held block may start");
    add_number(plan, "output_warpgroups", 2, "", GEN_BY_PLAN,
               "64 x 512 fp32 is 256 registers a thread of one: two halves");
    add_number(plan, "output_columns", spec->d_v / 2, "elements", GEN_BY_PLAN,
               "columns of out an output warpgroup holds");
    add_number(plan, "threads", 3 * WARPGROUP_THREADS, "threads", GEN_BY_PLAN, "softmax warpgroup and two of output");
    add_number(plan, "unit_cost_quarters", 9, "quarters", GEN_BY_PLAN,
               "of a block of keys' time, of a unit's beginning and end: 6000 of 2650 cycles (H200, 2026-11-30)");
    add_number(plan, "softmax_registers", has_tail(spec) ? 184 : 168, "registers", GEN_BY_PLAN,
               "32 logits, 16 for each tile of the query, addresses");
    add_number(plan, "output_registers", has_tail(spec) ? 160 : 168, "registers", GEN_BY_PLAN,
               "128 accumulators, keys on their way");
    add_number(plan, "rescale_threshold_log2", 8, "log2", GEN_BY_PLAN,
               "out is rescaled only when the maximum grew by more: P stays below 2^8");
    gen_plan_add_formats(spec, plan);
}

static void add_regions(const struct gen_spec *spec, struct gen_plan *plan)
{
    const int32_t heads = number(plan, "block_heads"), keys = number(plan, "block_keys");
    const int32_t slots = number(plan, "item_slots"), p_slots = number(plan, "probability_slots");
    add_region(plan, "item", slots * keys * spec->d_v * BF16_BYTES, "queries and blocks of keys, tiles of 64 columns");
    add_region(plan, "probability", p_slots * heads * keys * BF16_BYTES, "P as bf16");
    add_region(plan, "query_rest", heads * (spec->d_qk - 64 * number(plan, "query_register_tiles")) * BF16_BYTES,
               "the query's tiles that are not in registers");
    add_region(plan, "row_scale", p_slots * heads * 4, "factor for out before a block's P.V");
    add_region(plan, "rows", heads * (4 + 4 + 1) * 4, "sums, largest logits and references of a unit");
    add_region(plan, "barriers", (slots + p_slots + (has_tail(spec) ? keys / 16 + 1 : p_slots) + 2) * 8,
               has_tail(spec)
                   ? "mbarriers: key_full for each slot, p_ready twice, p_free for 16 columns of P each, query_full, "
                     "query_rest_full, tail_full"
                   : "mbarriers: key_full for each slot, p_ready and p_free for each slot of P, query_full, "
                     "query_rest_full");
    const int32_t range_bytes = (number(plan, "threads") / 32 + 2) * 4, end = regions_end(plan) + range_bytes;
    add_region(plan, "range", range_bytes + (16 - end % 16) % 16, /* the whole is a multiple of 16 bytes */
               "costs of units, and which are the block's");
}

bool gen_sm90_prefill_persists(const struct gen_spec *spec)
{
    return !spec->not_persistent && !gen_plan_dequantises(spec) && !spec->has_extra_kv && spec->h_q >= 57;
}

smla_status gen_plan_sm90_prefill_persistent(const struct gen_spec *spec, struct gen_plan *plan)
{
    plan->family = spec->target->family;
    plan->kernel = "sm90_prefill_persistent";
    plan->template_name = "sm90_prefill_persistent.cu";
    plan->pointer_alignment_bytes = 16;
    plan->stride_alignment_elems = 16 / BF16_BYTES;
    plan->param_bytes = (int32_t)sizeof(struct smla_prefill_tensor_params);
    plan->tensor_maps = true;
    add_numbers(spec, plan);
    add_regions(spec, plan);
    plan->wgmmas[plan->wgmma_count++] = (struct gen_wgmma){
        .n = number(plan, "block_keys"), .a_in_registers = 1, .used_for = "logits = query . key^T, most of the query"};
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = number(plan, "block_keys"), .used_for = "logits += query . key^T, the rest of it"};
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = number(plan, "output_columns"), .b_is_mn_major = 1, .used_for = "out += P . V"};
    struct gen_variant like = {.threads = number(plan, "threads"),
                               .shared_bytes = regions_end(plan),
                               .blocks_per_query = number(plan, "head_blocks"),
                               .blocks_per_sm = 1};
    snprintf(like.name, sizeof(like.name), "sm90_prefill_persistent_h%d_d%d", spec->h_q, spec->d_qk);
    gen_plan_add_variants(spec, &like, "smla_sm90_prefill_persistent", "smla_sm90_prefill_persistent_paged", plan);
    plan->lengths_variant = plan->variant_count;
    gen_plan_add_variant(spec, &like, "smla_sm90_prefill_persistent_lengths", "_lengths", plan);
    gen_plan_add_sm90_few_queries(spec, plan);
    plan->launches = gen_has_last_round(plan) ? 2 : 1;
    return SMLA_OK;
}
