/* Plan of combine (templates/combine.cu): one warp a row, a few heads of a query token a block; any architecture. */
#include <stdio.h>

#include "combine_params.h"
#include "plan.h"

enum { LANES = 32, MOST_BLOCK_HEADS = 4, RUN_ELEMS = 8, PARTS_IN_FLIGHT = 2 };

static void add_number(struct gen_plan *plan, const char *name, int32_t value, const char *unit,
                       enum gen_decider decider, const char *reason)
{
    plan->numbers[plan->number_count++] = (struct gen_number){name, value, unit, decider, reason};
}

/* The types are the call's to say, so every pair is compiled, and a call selects: two bits make the variant. */
static void add_variants(struct gen_plan *plan, int32_t threads, int32_t blocks_per_query)
{
    static const struct {
        const char *types, *entry;
    } rows[] = {
        [SMLA_COMBINE_VARIANT(0, 0)] = {"bf16_to_bf16", "smla_combine_bf16_to_bf16"},
        [SMLA_COMBINE_VARIANT(0, 1)] = {"bf16_to_float32", "smla_combine_bf16_to_float32"},
        [SMLA_COMBINE_VARIANT(1, 0)] = {"float32_to_bf16", "smla_combine_float32_to_bf16"},
        [SMLA_COMBINE_VARIANT(1, 1)] = {"float32_to_float32", "smla_combine_float32_to_float32"},
    };
    plan->variant_count = (int32_t)(sizeof(rows) / sizeof(rows[0]));
    for (int32_t i = 0; i < plan->variant_count; i++) {
        struct gen_variant *variant = &plan->variants[i];
        snprintf(variant->name, sizeof(variant->name), "combine_%s", rows[i].types);
        variant->entry = rows[i].entry;
        variant->threads = threads;
        variant->blocks_per_query = blocks_per_query;
    }
}

smla_status gen_plan_combine(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    (void)refusal; /* whatever the spec lets through can be served */
    const int32_t block_heads = spec->h_q < MOST_BLOCK_HEADS ? spec->h_q : MOST_BLOCK_HEADS;
    const int32_t head_blocks = (spec->h_q + block_heads - 1) / block_heads;
    const int32_t threads = block_heads * LANES;
    plan->family = spec->target->family;
    plan->kernel = "combine";
    plan->template_name = "combine.cu";
    plan->launches = 1;
    plan->pointer_alignment_bytes = 16;
    plan->stride_alignment_elems = RUN_ELEMS;
    plan->param_bytes = (int32_t)sizeof(struct smla_combine_params);
    add_number(plan, "h_q", spec->h_q, "heads", GEN_BY_DESCRIPTION, "query heads");
    add_number(plan, "d_v", spec->d_v, "elements", GEN_BY_DESCRIPTION, "width of a row");
    add_number(plan, "block_heads", block_heads, "heads", GEN_BY_PLAN,
               "a warp each; several, because a multiprocessor holds 32 blocks at most and 64 warps");
    add_number(plan, "head_blocks", head_blocks, "blocks", GEN_BY_PLAN,
               "blocks a query: heads in groups of block_heads");
    add_number(plan, "threads", threads, "threads", GEN_BY_PLAN, "32 a head");
    add_number(plan, "run_elems", RUN_ELEMS, "elements", GEN_BY_PLAN,
               "a lane reads at once: 16 bytes of bf16, two times 16 of float32");
    add_number(plan, "parts_in_flight", PARTS_IN_FLIGHT, "parts", GEN_BY_PLAN,
               "read before the first is added: 2 KiB of bf16 or 4 of float32 a warp");
    add_variants(plan, threads, head_blocks);
    return SMLA_OK;
}
