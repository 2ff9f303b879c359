#include "error.h"
#include "sized.h"
#include "spec.h"

smla_status smla_kv_layout_preset(const char *name, int32_t d_qk, smla_kv_layout *out)
{
    struct gen_refusal refusal;
    struct gen_kv_format format;

    if (name == NULL || out == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_kv_layout_preset: %s is NULL", name ? "out" : "name");
    const smla_status status = gen_spec_kv_format(name, NULL, d_qk, &format, &refusal);
    if (status != SMLA_OK)
        return rt_fail(status, "%s", refusal.text);
    const smla_kv_layout layout = {.struct_size = sizeof layout,
                                   .value_type = format.value_type,
                                   .value_elems = format.value_elems,
                                   .scale_type = format.scale_type,
                                   .scale_group = format.scale_group,
                                   .scale_bytes = format.scale_bytes,
                                   .tail_elems = format.tail_elems,
                                   .place = format.place};
    return rt_sized_write(out, &layout, sizeof layout);
}
