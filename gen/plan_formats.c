#include "plan_formats.h"

#include <stdio.h>
#include <string.h>

#include "plan_add.h"

bool gen_plan_dequantises(const struct gen_spec *spec)
{
    return spec->kv.value_type != SMLA_VALUE_BF16 ||
           (spec->has_extra_kv && spec->extra_kv.value_type != SMLA_VALUE_BF16);
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

void gen_plan_add_staging(const struct gen_spec *spec, int32_t room, struct gen_plan *plan)
{
    int32_t turns = 0;
    while (gen_plan_dequantises(spec) && turns < GEN_MOST_STAGED_TURNS && (turns + 1) * GEN_STAGED_TURN_BYTES <= room)
        turns++;
    add_number(plan, "staged_turns", turns, "turns", GEN_BY_PLAN,
               "of four in which a thread reads a key half: by way of shared memory, not registers and L1");
    if (turns > 0)
        add_region(plan, "staged", turns * GEN_STAGED_TURN_BYTES, "quantised keys on their way");
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
                          "kv_layout: %d values: sm_90 prefill reads at most d_v %d quantised; what is beyond must be "
                          "tail",
                          format->value_elems, spec->d_v);
    if (HALF / format->scale_group * (format->scale_type == SMLA_SCALE_FP32 ? 4 : 1) > MOST_SCALE_BYTES)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED,
                          "kv_layout: scale_group %d with fp32 scales: sm_90 prefill holds %d bytes of scales for 256 "
                          "values; groups of 64 or more",
                          format->scale_group, MOST_SCALE_BYTES);
    return SMLA_OK;
}

smla_status gen_plan_check_formats(const struct gen_spec *spec, struct gen_refusal *refusal)
{
    const smla_status status = check_format(spec, &spec->kv, refusal);
    if (status != SMLA_OK || !spec->has_extra_kv)
        return status;
    return gen_refuse_extra(refusal, check_format(spec, &spec->extra_kv, refusal));
}

static bool placed_by_page(const struct gen_spec *spec)
{
    return spec->kv.place == SMLA_PLACE_PAGE || (spec->has_extra_kv && spec->extra_kv.place == SMLA_PLACE_PAGE);
}

void gen_plan_add_formats(const struct gen_spec *spec, struct gen_plan *plan)
{
    add_number(plan, "caches", spec->has_extra_kv ? 2 : 1, "caches", GEN_BY_DESCRIPTION,
               "lists of keys that share a softmax");
    add_number(plan, "flat", !placed_by_page(spec), "", GEN_BY_PLAN,
               placed_by_page(spec) ? "a format placed by page has no entry point without pages"
                                    : "an entry point without the division by the size of a page: 3 %");
    add_format(&spec->kv, &format_names[0], plan);
    if (spec->has_extra_kv)
        add_format(&spec->extra_kv, &format_names[1], plan);
}

static void name_formats(const struct gen_spec *spec, char *name, size_t size)
{
    const size_t used = strlen(name);
    if (gen_plan_dequantises(spec) || spec->has_extra_kv)
        snprintf(name + used, size - used, "_%s%s%s", spec->kv.name, spec->has_extra_kv ? "_" : "",
                 spec->has_extra_kv ? spec->extra_kv.name : "");
}

static void add_variant(const struct gen_spec *spec, const struct gen_variant *like, const char *entry,
                        const char *ending, struct gen_plan *plan)
{
    struct gen_variant *variant = &plan->variants[plan->variant_count++];
    *variant = *like;
    variant->entry = entry;
    name_formats(spec, variant->name, sizeof(variant->name));
    strncat(variant->name, ending, sizeof(variant->name) - strlen(variant->name) - 1);
}

void gen_plan_add_variants(const struct gen_spec *spec, const struct gen_variant *like, const char *entry,
                           const char *paged_entry, struct gen_plan *plan)
{
    if (!placed_by_page(spec))
        add_variant(spec, like, entry, "", plan);
    plan->paged_variant = plan->variant_count;
    add_variant(spec, like, paged_entry, "_paged", plan);
}

void gen_plan_add_variant(const struct gen_spec *spec, const struct gen_variant *like, const char *entry,
                          const char *ending, struct gen_plan *plan)
{
    add_variant(spec, like, entry, ending, plan);
}
