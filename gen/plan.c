#include "plan.h"

#include <stdio.h>
#include <string.h>

static gen_plan_fn plan_function(const struct gen_target *target, uint32_t op)
{
    switch (op) {
    case SMLA_OP_PREFILL:
        return target->prefill;
    case SMLA_OP_PREFILL_REFERENCE:
        return target->prefill_reference;
    case SMLA_OP_DECODE:
        return target->decode;
    default:
        return target->combine;
    }
}

/* Names the targets that have a plan for the operator, so that a refusal says what would work. */
static smla_status refuse_target(const struct gen_spec *spec, struct gen_refusal *refusal)
{
    char list[128] = "";
    size_t count;
    const struct gen_target *table = gen_target_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (!plan_function(&table[i], spec->op))
            continue;
        strncat(list, list[0] ? ", " : "", sizeof(list) - strlen(list) - 1);
        strncat(list, table[i].name, sizeof(list) - strlen(list) - 1);
    }
    return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "target %s has no %s kernel yet; there is one for %s",
                      spec->target->name, gen_op_name(spec->op), list);
}

smla_status gen_plan_make(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    gen_plan_fn make = plan_function(spec->target, spec->op);
    if (!make)
        return refuse_target(spec, refusal);
    memset(plan, 0, sizeof(*plan));
    const smla_status status = make(spec, plan, refusal);
    if (status == SMLA_OK && spec->op == SMLA_OP_PREFILL)
        gen_plan_add_unpack(spec, plan);
    if (status == SMLA_OK && spec->checked)
        gen_plan_add_prefill_check(plan);
    return status;
}

static const char *decider_name(enum gen_decider decider)
{
    static const char *const names[] = {"description", "target", "plan"};
    return names[decider];
}

static void print_shape(const struct gen_spec *spec, const struct gen_plan *plan, struct gen_text *text)
{
    gen_text_add(text, "%s for %s%s: h_q %d, ", plan->kernel, spec->target->arch, spec->checked ? ", checked" : "",
                 spec->h_q);
    if (spec->tile_heads > 0)
        gen_text_add(text, "in tiles of %d, ", spec->tile_heads);
    if (spec->kv.name)
        gen_text_add(text, "d_qk %d, d_v %d, kv %s%s%s\n", spec->d_qk, spec->d_v, spec->kv.name,
                     spec->has_extra_kv ? ", extra kv " : "", spec->has_extra_kv ? spec->extra_kv.name : "");
    else
        gen_text_add(text, "d_v %d\n", spec->d_v);
}

static void print_rules(const struct gen_plan *plan, struct gen_text *text)
{
    for (int32_t i = 0; i < plan->rule_count; i++) {
        const struct gen_rule *rule = &plan->rules[i];
        char most[32] = "";
        if (rule->most_key_blocks > 0)
            snprintf(most, sizeof(most), ", at most %d", rule->most_key_blocks);
        gen_text_add(text,
                     "rule: %s in clusters of %d, where %d a unit (%d a query) are no more than multiprocessors, and "
                     "topk has %d blocks of keys or more%s%s: %s\n",
                     plan->variants[rule->variant].name, rule->cluster_blocks, rule->cluster_blocks,
                     plan->variants[rule->variant].blocks_per_query, rule->least_key_blocks, most,
                     rule->takes_last_round ? "; and for what a persistent kernel's last round is left with" : "",
                     rule->reason);
    }
}

static void print_companion(const struct gen_companion *companion, struct gen_text *text)
{
    if (companion->tile_heads > 0)
        gen_text_add(text,
                     "companion: a kernel in tiles of %d heads, %d a query, for calls of few tokens: whose blocks of "
                     "keys, counted for each tile, are at most %d %% of the multiprocessors: %s\n",
                     companion->tile_heads, companion->head_blocks, companion->most_cells_percent, companion->reason);
}

static void print_unpack(const struct gen_unpack *unpack, struct gen_text *text)
{
    if (unpack->variant > 0)
        gen_text_add(text,
                     "companion: the kernel over a bf16 cache, for calls with a workspace whose lists have %d entries "
                     "or more for each token of the cache, which is unpacked first: %s\n",
                     unpack->least_reads, unpack->reason);
}

void gen_plan_print(const struct gen_spec *spec, const struct gen_plan *plan, struct gen_text *text)
{
    print_shape(spec, plan, text);
    gen_text_add(text, "\nlaunches a call: %d\n", plan->launches);
    for (int32_t i = 0; i < plan->variant_count; i++) {
        const struct gen_variant *variant = &plan->variants[i];
        gen_text_add(text, "variant %s: entry %s, %d threads, %d bytes of shared memory, %d block%s a query",
                     variant->name, variant->entry, variant->threads, variant->shared_bytes, variant->blocks_per_query,
                     variant->blocks_per_query == 1 ? "" : "s");
        if (variant->blocks_per_sm > 0)
            gen_text_add(text, ", at most %d a multiprocessor", variant->blocks_per_sm);
        gen_text_add(text, "%s%s\n", variant->reason ? "; " : "", variant->reason ? variant->reason : "");
    }
    print_rules(plan, text);
    print_companion(&plan->companion, text);
    print_unpack(&plan->unpack, text);
    gen_text_add(text, "alignment: %s and out at %d bytes, their strides multiples of %d elements\n",
                 spec->kv.name ? "query, kv" : "partial_out", plan->pointer_alignment_bytes,
                 plan->stride_alignment_elems);
    gen_text_add(text, "\nnumbers\n");
    for (int32_t i = 0; i < plan->number_count; i++) {
        const struct gen_number *number = &plan->numbers[i];
        gen_text_add(text, "  %-24s %7d %-9s %-11s %s\n", number->name, number->value, number->unit,
                     decider_name(number->decided_by), number->reason);
    }
    if (plan->region_count)
        gen_text_add(text, "\nshared memory\n");
    for (int32_t i = 0; i < plan->region_count; i++) {
        const struct gen_region *region = &plan->regions[i];
        gen_text_add(text, "  %7d %7d  %-12s %s\n", region->offset_bytes, region->size_bytes, region->name,
                     region->holds);
    }
    if (plan->wgmma_count)
        gen_text_add(text, "\nmatrix instructions\n");
    for (int32_t i = 0; i < plan->wgmma_count; i++) {
        const struct gen_wgmma *wgmma = &plan->wgmmas[i];
        gen_text_add(text, "  wgmma m64n%dk16 bf16, A in %s%s, B along %s: %s\n", wgmma->n,
                     wgmma->a_in_registers ? "registers" : "shared memory", wgmma->a_is_mn_major ? " along M" : "",
                     wgmma->b_is_mn_major ? "N" : "K", wgmma->used_for);
    }
}
