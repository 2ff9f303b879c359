/* Plan of the sm_90 prefill kernel (templates/sm90_prefill.cu), and of what decode's has in common with it
 * (templates/sm90_attention.cuh).
 *
 * One block computes one query token for up to 64 heads. Three warpgroups: one multiplies query by key and does the
 * softmax, two multiply P by V, each for half of the output columns, and gather the same half of every key
 * (facts/prefill-experiment.md, "Design that won"; the query stays in shared memory here, but for a few tiles where
 * keys are dequantised and shared memory is wanted for them). Where few heads would leave most of a tile of 64 empty,
 * another kernel is planned (plan_sm90_prefill_turned.c), and another where queries can share blocks
 * (plan_sm90_prefill_persistent.c). */
#include <stdio.h>

#include "plan_add.h"
#include "plan_decode.h"
#include "plan_formats.h"
#include "prefill_params.h"

/* Whether a second slot of P fits beside two slots of wide keys: in the place of a tile of the query. Where prefill
 * dequantises such keys ptxas has no register left for it. */
static bool has_two_probability_slots(const struct gen_spec *spec)
{
    return spec->d_qk == 512 || spec->op == SMLA_OP_DECODE || !gen_plan_dequantises(spec);
}

/* Tiles of 64 columns of the query that lie in registers: beside quantised keys as many as the softmax warpgroup has
 * room for, and with wide keys one for the second slot of P. */
static int32_t register_tiles(const struct gen_spec *spec)
{
    const int32_t dequantised = gen_plan_dequantises(spec) ? 4 : 0;
    return dequantised + (spec->d_qk > 512 && has_two_probability_slots(spec));
}

/* Three times 168 are there, of which two output warpgroups have what the softmax warpgroup leaves: with less for them
 * ptxas spills in decode over bf16, which stores parts. */
static int32_t softmax_registers(const struct gen_spec *spec, int32_t tiles)
{
    if (gen_plan_dequantises(spec))
        return tiles > 4 ? 168 : 152;
    if (tiles > 0)
        return 136;
    return spec->op == SMLA_OP_DECODE ? 120 : 152;
}

static void add_roles(const struct gen_spec *spec, struct gen_plan *plan)
{
    const int32_t tiles = register_tiles(spec);
    const int32_t softmax = softmax_registers(spec, tiles);
    add_number(plan, "threads", 3 * WARPGROUP_THREADS, "threads", GEN_BY_PLAN, "softmax warpgroup and two of output");
    add_number(plan, "query_register_tiles", tiles, "tiles", GEN_BY_PLAN,
               tiles > 1    ? "of 64 columns of the query, 16 registers each: quantised keys are staged in their place"
               : tiles == 1 ? "of 64 columns of the query, 16 registers: a second slot of P is in its place"
                            : "the query is in shared memory");
    add_number(plan, "softmax_registers", softmax, "registers", GEN_BY_PLAN,
               tiles > 0 ? "32 logits, 16 for each tile of the query, addresses" : "32 logits and addresses");
    add_number(plan, "output_registers", (3 * 168 - softmax) / 2, "registers", GEN_BY_PLAN,
               "128 accumulators, keys on their way; twice these and the others are 3 x 168");
}

static void add_numbers(const struct gen_spec *spec, struct gen_plan *plan)
{
    add_number(plan, "h_q", spec->h_q, "heads", GEN_BY_DESCRIPTION, "query heads");
    add_number(plan, "d_qk", spec->d_qk, "elements", GEN_BY_DESCRIPTION, "width of query and key");
    add_number(plan, "d_v", spec->d_v, "elements", GEN_BY_DESCRIPTION, "width of value: the key's first columns");
    add_number(plan, "block_heads", 64, "heads", GEN_BY_TARGET, "M of wgmma");
    add_number(plan, "head_blocks", (spec->h_q + 63) / 64, "blocks", GEN_BY_PLAN,
               "blocks a query: heads in groups of 64");
    add_number(plan, "heads_are_columns", 0, "", GEN_BY_PLAN, "heads are rows of the matrix tile");
    add_number(plan, "block_keys", 64, "keys", GEN_BY_PLAN, "N of query.key; one bit of a 64-bit validity mask a key");
    add_number(plan, "key_slots", 2, "slots", GEN_BY_PLAN,
               "key blocks in flight; a third does not fit beside the query");
    const bool two = has_two_probability_slots(spec);
    add_number(plan, "probability_slots", two ? 2 : 1, "slots", GEN_BY_PLAN,
               two ? "softmax of a block runs beside P.V of the one before: 5 % over one slot"
                   : "a second takes a fifth tile of the query in registers, and ptxas has none left for it here");
    add_number(plan, "output_warpgroups", 2, "", GEN_BY_PLAN,
               "64 x 512 fp32 is 256 registers a thread of one: two halves");
    add_number(plan, "output_columns", spec->d_v / 2, "elements", GEN_BY_PLAN,
               "columns of out an output warpgroup holds");
    add_roles(spec, plan);
    add_number(plan, "rescale_threshold_log2", 8, "log2", GEN_BY_PLAN,
               "out is rescaled only when the maximum grew by more: P stays below 2^8");
    gen_plan_add_formats(spec, plan);
}

static void add_regions(const struct gen_spec *spec, struct gen_plan *plan)
{
    int32_t heads = number(plan, "block_heads"), keys = number(plan, "block_keys");
    add_region(plan, "query", heads * (spec->d_qk - 64 * number(plan, "query_register_tiles")) * BF16_BYTES,
               "query, tiles of 64 columns; at the end out");
    add_region(plan, "key", number(plan, "key_slots") * keys * spec->d_qk * BF16_BYTES,
               "key slots, tiles of 64 columns");
    add_region(plan, "probability", number(plan, "probability_slots") * heads * keys * BF16_BYTES, "P as bf16");
    add_region(plan, "row_scale", number(plan, "probability_slots") * heads * 4, "factor for out before a block's P.V");
    add_region(plan, "out_scale", heads * 4, "factor for out at the end");
    const int32_t barriers_bytes =
        (number(plan, "key_slots") * number(plan, "output_warpgroups") + 2 * number(plan, "probability_slots") + 1) * 8;
    const int32_t walk_bytes = spec->op == SMLA_OP_DECODE ? GEN_DECODE_WALK_BYTES : 0;
    gen_plan_add_staging(spec, spec->target->shared_bytes - regions_end(plan) - barriers_bytes - walk_bytes, plan);
    add_region(
        plan, "barriers", barriers_bytes,
        "mbarriers: key_full for each half of each key slot, p_ready and p_free for each slot of P, out_scale_ready");
}

void gen_plan_add_sm90_attention(const struct gen_spec *spec, struct gen_plan *plan)
{
    plan->family = spec->target->family;
    plan->pointer_alignment_bytes = 16;
    plan->stride_alignment_elems = 16 / BF16_BYTES;
    add_numbers(spec, plan);
    add_regions(spec, plan);
    if (number(plan, "query_register_tiles") > 0)
        plan->wgmmas[plan->wgmma_count++] = (struct gen_wgmma){.n = number(plan, "block_keys"),
                                                               .a_in_registers = 1,
                                                               .used_for = "logits = query . key^T, its first tiles"};
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = number(plan, "block_keys"), .b_is_mn_major = 0, .used_for = "logits = query . key^T"};
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = number(plan, "output_columns"), .b_is_mn_major = 1, .used_for = "out += P . V"};
}

static smla_status add_variants(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    int32_t shared_bytes = regions_end(plan);
    if (shared_bytes > spec->target->shared_bytes)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "d_qk %d needs %d bytes of shared memory, %s has %d",
                          spec->d_qk, shared_bytes, spec->target->name, spec->target->shared_bytes);
    struct gen_variant like = {.threads = number(plan, "threads"),
                               .shared_bytes = shared_bytes,
                               .blocks_per_query = number(plan, "head_blocks")};
    snprintf(like.name, sizeof(like.name), "sm90_prefill_h%d_d%d", spec->h_q, spec->d_qk);
    gen_plan_add_variants(spec, &like, "smla_sm90_prefill", "smla_sm90_prefill_paged", plan);
    return SMLA_OK;
}

smla_status gen_plan_sm90_prefill(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    const smla_status status = gen_plan_check_formats(spec, refusal);
    if (status != SMLA_OK)
        return status;
    if (gen_sm90_prefill_turns(spec))
        return gen_plan_sm90_prefill_turned(spec, plan, refusal);
    if (gen_sm90_prefill_persists(spec))
        return gen_plan_sm90_prefill_persistent(spec, plan);
    plan->kernel = "sm90_prefill";
    plan->template_name = "sm90_prefill.cu";
    plan->launches = 1;
    plan->param_bytes = (int32_t)sizeof(struct smla_prefill_params);
    gen_plan_add_sm90_attention(spec, plan);
    const smla_status added = add_variants(spec, plan, refusal);
    if (added == SMLA_OK)
        gen_plan_add_sm90_few_queries(spec, plan);
    return added;
}
