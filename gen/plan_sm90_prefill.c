/* Plan of the sm_90 prefill kernel (templates/sm90_prefill.cu).
 *
 * One block computes one query token for up to 64 heads. Three warpgroups: one multiplies query by key and does the
 * softmax, two multiply P by V, each for half of the output columns, and gather the same half of every key
 * (facts/prefill-experiment.md, "Design that won"; the query stays in shared memory here). */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"
#include "prefill_params.h"

enum {
    TILE_COLUMNS = 64, /* bf16 columns of a 128-byte swizzled line */
    BF16_BYTES = 2,
    WARPGROUP_THREADS = 128
};

static void add_number(struct gen_plan *plan, const char *name, int32_t value, const char *unit,
                       enum gen_decider decided_by, const char *reason)
{
    plan->numbers[plan->number_count++] = (struct gen_number){name, value, unit, decided_by, reason};
}

static int32_t number(const struct gen_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->number_count; i++)
        if (strcmp(plan->numbers[i].name, name) == 0)
            return plan->numbers[i].value;
    return 0;
}

static void add_region(struct gen_plan *plan, const char *name, int32_t size_bytes, const char *holds)
{
    int32_t offset = 0;
    if (plan->region_count) {
        const struct gen_region *last = &plan->regions[plan->region_count - 1];
        offset = last->offset_bytes + last->size_bytes;
    }
    plan->regions[plan->region_count++] = (struct gen_region){name, offset, size_bytes, holds};
}

/* Keys that are bf16 already are copied as they are; all others go through registers. */
static bool dequantises(const struct gen_spec *spec)
{
    return spec->kv.value_type != SMLA_VALUE_BF16 ||
           (spec->has_extra_kv && spec->extra_kv.value_type != SMLA_VALUE_BF16);
}

static void add_roles(const struct gen_spec *spec, struct gen_plan *plan)
{
    add_number(plan, "threads", 3 * WARPGROUP_THREADS, "threads", GEN_BY_PLAN, "softmax warpgroup and two of output");
    if (dequantises(spec)) {
        add_number(plan, "softmax_registers", 104, "registers", GEN_BY_PLAN, "32 logits and addresses; gives 64 away");
        add_number(plan, "output_registers", 200, "registers", GEN_BY_PLAN,
                   "128 accumulators, 40 of keys on their way; 104 + 2 x 200 = 3 x 168");
        return;
    }
    add_number(plan, "softmax_registers", 152, "registers", GEN_BY_PLAN, "32 logits and addresses; gives 16 away");
    add_number(plan, "output_registers", 176, "registers", GEN_BY_PLAN, "128 accumulators; 152 + 2 x 176 = 3 x 168");
}

/* The names of a format's numbers, for the first cache and the second. */
static const struct format_names {
    const char *value_bits, *value_elems, *scale_type, *scale_group, *scale_offset, *scale_bytes, *tail_offset,
        *by_page, *token_bytes;
} format_names[2] = {
    {"kv_value_bits", "kv_value_elems", "kv_scale_type", "kv_scale_group", "kv_scale_offset_bytes", "kv_scale_bytes",
     "kv_tail_offset_bytes", "kv_by_page", "kv_token_bytes"},
    {"extra_kv_value_bits", "extra_kv_value_elems", "extra_kv_scale_type", "extra_kv_scale_group",
     "extra_kv_scale_offset_bytes", "extra_kv_scale_bytes", "extra_kv_tail_offset_bytes", "extra_kv_by_page",
     "extra_kv_token_bytes"},
};

static void add_format(const struct gen_kv_format *format, const struct format_names *names, struct gen_plan *plan)
{
    const int32_t value_bytes = gen_kv_value_bytes(format);
    const bool by_page = format->place == SMLA_PLACE_PAGE;
    add_number(plan, names->value_bits, value_bytes * 8 / format->value_elems, "bits", GEN_BY_DESCRIPTION,
               "bf16, e4m3 or e2m1");
    add_number(plan, names->value_elems, format->value_elems, "elements", GEN_BY_DESCRIPTION,
               "the rest of d_qk is a bf16 tail");
    add_number(plan, names->scale_type, (int32_t)format->scale_type, "", GEN_BY_DESCRIPTION,
               "0 none, 1 fp32, 2 ue8m0, 3 e4m3");
    add_number(plan, names->scale_group, format->scale_group, "elements", GEN_BY_DESCRIPTION,
               "values that share a scale");
    add_number(plan, names->by_page, by_page, "", GEN_BY_DESCRIPTION,
               by_page ? "scales stand behind the page's values" : "a token's bytes stand together");
    add_number(plan, names->token_bytes, format->bytes_per_token - (by_page ? format->scale_bytes : 0), "bytes",
               GEN_BY_DESCRIPTION, by_page ? "values and tail of a token" : "a token");
    add_number(plan, names->scale_offset, by_page ? 0 : value_bytes, "bytes", GEN_BY_DESCRIPTION,
               by_page ? "not used" : "scales behind a token's values");
    add_number(plan, names->scale_bytes, format->scale_bytes, "bytes", GEN_BY_DESCRIPTION,
               "scales of a token, padding too");
    add_number(plan, names->tail_offset, value_bytes + (by_page ? 0 : format->scale_bytes), "bytes", GEN_BY_DESCRIPTION,
               "tail in a token");
}

/* What the kernel's shape asks of a format, beyond what every format is. */
static smla_status check_format(const struct gen_spec *spec, const struct gen_kv_format *format,
                                struct gen_refusal *refusal)
{
    enum { HALF = 256, MOST_SCALE_BYTES = 16 };
    if (format->value_type == SMLA_VALUE_BF16)
        return SMLA_OK;
    if (format->value_elems > spec->d_v)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED,
                          "kv layout: %d values: sm_90 prefill reads at most d_v %d quantised; what is beyond must be "
                          "tail",
                          format->value_elems, spec->d_v);
    if (HALF / format->scale_group * (format->scale_type == SMLA_SCALE_FP32 ? 4 : 1) > MOST_SCALE_BYTES)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED,
                          "kv layout: scale_group %d with fp32 scales: sm_90 prefill holds %d bytes of scales for 256 "
                          "values; groups of 64 or more",
                          format->scale_group, MOST_SCALE_BYTES);
    return SMLA_OK;
}

static smla_status check_formats(const struct gen_spec *spec, struct gen_refusal *refusal)
{
    const smla_status status = check_format(spec, &spec->kv, refusal);
    return status == SMLA_OK && spec->has_extra_kv ? check_format(spec, &spec->extra_kv, refusal) : status;
}

static void add_numbers(const struct gen_spec *spec, struct gen_plan *plan)
{
    add_number(plan, "h_q", spec->h_q, "heads", GEN_BY_DESCRIPTION, "query heads");
    add_number(plan, "d_qk", spec->d_qk, "elements", GEN_BY_DESCRIPTION, "width of query and key");
    add_number(plan, "d_v", spec->d_v, "elements", GEN_BY_DESCRIPTION, "width of value: the key's first columns");
    add_number(plan, "block_heads", 64, "heads", GEN_BY_TARGET, "M of wgmma");
    add_number(plan, "head_blocks", (spec->h_q + 63) / 64, "blocks", GEN_BY_PLAN,
               "blocks a query: heads in groups of 64");
    add_number(plan, "block_keys", 64, "keys", GEN_BY_PLAN, "N of query.key; one bit of a 64-bit validity mask a key");
    add_number(plan, "key_slots", 2, "slots", GEN_BY_PLAN,
               "key blocks in flight; a third does not fit beside the query");
    add_number(plan, "probability_slots", spec->d_qk == 512 ? 2 : 1, "slots", GEN_BY_PLAN,
               spec->d_qk == 512 ? "softmax of a block runs beside P.V of the one before: 5 % over one slot"
                                 : "a second does not fit beside two slots of such keys");
    add_number(plan, "output_warpgroups", 2, "", GEN_BY_PLAN,
               "64 x 512 fp32 is 256 registers a thread of one: two halves");
    add_number(plan, "output_columns", spec->d_v / 2, "elements", GEN_BY_PLAN,
               "columns of out an output warpgroup holds");
    add_number(plan, "caches", spec->has_extra_kv ? 2 : 1, "caches", GEN_BY_DESCRIPTION,
               "lists of keys that share a softmax");
    add_roles(spec, plan);
    add_number(plan, "rescale_threshold_log2", 8, "log2", GEN_BY_PLAN,
               "out is rescaled only when the maximum grew by more: P stays below 2^8");
    add_format(&spec->kv, &format_names[0], plan);
    if (spec->has_extra_kv)
        add_format(&spec->extra_kv, &format_names[1], plan);
}

static void add_regions(const struct gen_spec *spec, struct gen_plan *plan)
{
    int32_t heads = number(plan, "block_heads"), keys = number(plan, "block_keys");
    add_region(plan, "query", heads * spec->d_qk * BF16_BYTES, "query, tiles of 64 columns; at the end out");
    add_region(plan, "key", number(plan, "key_slots") * keys * spec->d_qk * BF16_BYTES,
               "key slots, tiles of 64 columns");
    add_region(plan, "probability", number(plan, "probability_slots") * heads * keys * BF16_BYTES, "P as bf16");
    add_region(plan, "row_scale", number(plan, "probability_slots") * heads * 4, "factor for out before a block's P.V");
    add_region(plan, "out_scale", heads * 4, "factor for out at the end");
    add_region(
        plan, "barriers",
        (number(plan, "key_slots") * number(plan, "output_warpgroups") + 2 * number(plan, "probability_slots") + 1) * 8,
        "mbarriers: key_full for each half of each key slot, p_ready and p_free for each slot of P, out_scale_ready");
}

static void name_variant(const struct gen_spec *spec, struct gen_variant *variant)
{
    const bool plain = !dequantises(spec) && !spec->has_extra_kv;
    snprintf(variant->name, sizeof(variant->name), "sm90_prefill_h%d_d%d%s%s%s%s", spec->h_q, spec->d_qk,
             plain ? "" : "_", plain ? "" : spec->kv.name, spec->has_extra_kv ? "_" : "",
             spec->has_extra_kv ? spec->extra_kv.name : "");
}

static smla_status add_variant(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    const struct gen_region *last = &plan->regions[plan->region_count - 1];
    int32_t shared_bytes = last->offset_bytes + last->size_bytes;
    if (shared_bytes > spec->target->shared_bytes)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "d_qk %d needs %d bytes of shared memory, %s has %d",
                          spec->d_qk, shared_bytes, spec->target->name, spec->target->shared_bytes);
    struct gen_variant *variant = &plan->variants[plan->variant_count++];
    *variant = (struct gen_variant){.entry = "smla_sm90_prefill",
                                    .threads = number(plan, "threads"),
                                    .shared_bytes = shared_bytes,
                                    .blocks_per_query = number(plan, "head_blocks")};
    name_variant(spec, variant);
    return SMLA_OK;
}

smla_status gen_plan_sm90_prefill(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    const smla_status status = check_formats(spec, refusal);
    if (status != SMLA_OK)
        return status;
    plan->family = spec->target->family;
    plan->kernel = "sm90_prefill";
    plan->template_name = "sm90_prefill.cu";
    plan->launches = 1;
    plan->pointer_alignment_bytes = 16;
    plan->stride_alignment_elems = 16 / BF16_BYTES;
    plan->param_bytes = (int32_t)sizeof(struct smla_prefill_params);
    add_numbers(spec, plan);
    add_regions(spec, plan);
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = number(plan, "block_keys"), .b_is_mn_major = 0, .used_for = "logits = query . key^T"};
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = number(plan, "output_columns"), .b_is_mn_major = 1, .used_for = "out += P . V"};
    return add_variant(spec, plan, refusal);
}
