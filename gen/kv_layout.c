/* A caller's own cache format, checked field by field. */
#include "spec.h"

static int32_t scale_elem_bytes(uint32_t scale_type)
{
    return scale_type == SMLA_SCALE_FP32 ? 4 : 1;
}

static smla_status check_types(const smla_kv_layout *layout, struct gen_refusal *refusal)
{
    if (layout->value_type < SMLA_VALUE_BF16 || layout->value_type > SMLA_VALUE_E2M1)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_layout: value_type %u: SMLA_VALUE_* are 1 (bf16), 2 (e4m3) and 3 (e2m1)",
                          layout->value_type);
    if (layout->scale_type > SMLA_SCALE_E4M3)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_layout: scale_type %u: SMLA_SCALE_* are 0 (none), 1 (fp32), 2 (ue8m0) and 3 (e4m3)",
                          layout->scale_type);
    if ((layout->value_type == SMLA_VALUE_BF16) != (layout->scale_type == SMLA_SCALE_NONE))
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_layout: bf16 values have no scales, e4m3 and e2m1 values have: value_type %u with "
                          "scale_type %u",
                          layout->value_type, layout->scale_type);
    if (layout->place != SMLA_PLACE_TOKEN && layout->place != SMLA_PLACE_PAGE)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_layout: place %u: SMLA_PLACE_* are 1 (token) and 2 (page)", layout->place);
    return SMLA_OK;
}

static smla_status check_elems(const smla_kv_layout *layout, int32_t d_qk, struct gen_refusal *refusal)
{
    const int32_t group = layout->scale_group;
    if (layout->value_elems < 64 || layout->value_elems % 64 || layout->tail_elems < 0 || layout->tail_elems % 64 ||
        layout->value_elems > d_qk || layout->tail_elems != d_qk - layout->value_elems)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_layout: %d values and a tail of %d for d_qk %d: multiples of 64 that add up to d_qk",
                          layout->value_elems, layout->tail_elems, d_qk);
    if (layout->scale_type == SMLA_SCALE_NONE ? group != 0 || layout->scale_bytes != 0
                                              : group < 16 || (group & (group - 1)) || layout->value_elems % group)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_layout: scale_group %d of %d values: a power of two from 16 that divides them (0, and 0 "
                          "scale_bytes, without scales)",
                          group, layout->value_elems);
    return SMLA_OK;
}

/* Values and tails are read 16 bytes at once, float32 scales 4. Values are multiples of 32 bytes, tails of 128. */
static smla_status check_bytes(const struct gen_kv_format *format, struct gen_refusal *refusal)
{
    const int32_t scales = format->scale_group ? format->value_elems / format->scale_group : 0;
    const int32_t step = format->place == SMLA_PLACE_TOKEN ? 16 : scale_elem_bytes(format->scale_type);
    if (format->scale_bytes < scales * scale_elem_bytes(format->scale_type) || format->scale_bytes > 4096)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_layout: scale_bytes %d a token: %d scales of %d bytes, and at most 4096",
                          format->scale_bytes, scales, scale_elem_bytes(format->scale_type));
    if (format->scale_bytes % step)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED,
                          "kv_layout: scale_bytes %d a token: a multiple of %d, by padding, so that what follows is "
                          "aligned",
                          format->scale_bytes, step);
    return SMLA_OK;
}

smla_status gen_kv_format_of_layout(const smla_kv_layout *layout, int32_t d_qk, struct gen_kv_format *out,
                                    struct gen_refusal *refusal)
{
    smla_status status = check_types(layout, refusal);
    if (status == SMLA_OK)
        status = check_elems(layout, d_qk, refusal);
    if (status != SMLA_OK)
        return status;
    struct gen_kv_format format = {.name = "custom",
                                   .d_qk = {d_qk, 0},
                                   .value_type = layout->value_type,
                                   .value_elems = layout->value_elems,
                                   .scale_type = layout->scale_type,
                                   .scale_group = layout->scale_group,
                                   .scale_bytes = layout->scale_bytes,
                                   .tail_elems = layout->tail_elems,
                                   .page_alignment = 1,
                                   .place = layout->place};
    if (format.scale_bytes == 0 && format.scale_group)
        format.scale_bytes = format.value_elems / format.scale_group * scale_elem_bytes(format.scale_type);
    if (format.scale_type == SMLA_SCALE_NONE)
        format.place = SMLA_PLACE_TOKEN; /* without scales the two places are one, and bf16 rows know strides alone */
    format.bytes_per_token = gen_kv_value_bytes(&format) + format.scale_bytes + 2 * format.tail_elems;
    status = check_bytes(&format, refusal);
    if (status == SMLA_OK)
        *out = format;
    return status;
}
