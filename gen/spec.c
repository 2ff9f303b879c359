#include "spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

smla_status gen_refuse(struct gen_refusal *refusal, smla_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(refusal->text, sizeof(refusal->text), format, arguments);
    va_end(arguments);
    return status;
}

smla_status gen_refuse_extra(struct gen_refusal *refusal, smla_status status)
{
    static const char prefix[] = "extra_";
    const size_t size = sizeof(prefix) - 1;
    if (status != SMLA_OK) {
        memmove(refusal->text + size, refusal->text, sizeof(refusal->text) - size);
        memcpy(refusal->text, prefix, size);
        refusal->text[sizeof(refusal->text) - 1] = '\0';
    }
    return status;
}

const char *gen_op_name(uint32_t op)
{
    switch (op) {
    case SMLA_OP_PREFILL:
        return "prefill";
    case SMLA_OP_PREFILL_REFERENCE:
        return "prefill_reference";
    case SMLA_OP_COMBINE:
        return "combine";
    case SMLA_OP_DECODE:
        return "decode";
    default:
        return NULL;
    }
}

static smla_status refuse_kv_format(struct gen_refusal *refusal, const char *name)
{
    char known[256] = "";
    size_t count;
    const struct gen_kv_format *table = gen_kv_format_table(&count);
    for (size_t i = 0, used = 0; i < count && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", table[i].name);
    return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT, "kv_format \"%.40s\" is not a preset; the presets are %s",
                      name, known);
}

smla_status gen_spec_kv_format(const char *name, const smla_kv_layout *layout, int32_t d_qk, struct gen_kv_format *out,
                               struct gen_refusal *refusal)
{
    if (name && layout)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "kv_format \"%.40s\" and a layout: give one of them and leave the other NULL", name);
    if (layout)
        return gen_kv_format_of_layout(layout, d_qk, out, refusal);
    const struct gen_kv_format *format = gen_kv_format_find(name);
    if (!format)
        return refuse_kv_format(refusal, name);
    if (d_qk != format->d_qk[0] && (format->d_qk[1] == 0 || d_qk != format->d_qk[1]))
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "kv_format %s holds keys of d_qk %d%s, not %d", format->name,
                          format->d_qk[0], format->d_qk[1] ? " or 576" : "", d_qk);
    *out = *format;
    if (format->value_type == SMLA_VALUE_BF16) {
        out->value_elems = d_qk;
        out->bytes_per_token = 2 * d_qk;
    }
    return SMLA_OK;
}

static smla_status find_target(const smla_kernel_desc *desc, const struct gen_target **out, struct gen_refusal *refusal)
{
    if (!desc->target)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "no target: name one (90, 90a, 100, 100a, 100f, 103, 103a, 103f) or call with a device");
    *out = gen_target_find(desc->target);
    if (!*out)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT,
                          "target \"%.20s\" is not known; the targets are 90, 90a, 100, 100a, 100f, 103, 103a, 103f",
                          desc->target);
    return SMLA_OK;
}

/* What an operator without keys has no use for must be left out, so that it can get a meaning later. */
static smla_status check_no_keys(const smla_kernel_desc *desc, struct gen_refusal *refusal)
{
    if (desc->d_qk != 0)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT, "d_qk %d: combine reads no keys, leave it 0",
                          desc->d_qk);
    if (desc->kv_format || desc->extra_kv_format)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT, "%s \"%.40s\": combine reads no cache, leave it NULL",
                          desc->kv_format ? "kv_format" : "extra_kv_format",
                          desc->kv_format ? desc->kv_format : desc->extra_kv_format);
    if (desc->kv_layout || desc->extra_kv_layout)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT, "%s is given: combine reads no cache, leave it NULL",
                          desc->kv_layout ? "kv_layout" : "extra_kv_layout");
    return SMLA_OK;
}

static smla_status check_dims(const smla_kernel_desc *desc, struct gen_refusal *refusal)
{
    const bool has_keys = desc->op != SMLA_OP_COMBINE;
    if (desc->h_q < 1 || desc->h_q > 128)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT, "h_q %d: query heads are 1 to 128", desc->h_q);
    if (has_keys && desc->d_qk != 512 && desc->d_qk != 576)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "d_qk %d: the operator has 512 or 576", desc->d_qk);
    if (desc->d_v != 0 && desc->d_v != 512)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "d_v %d: the operator has 512", desc->d_v);
    return has_keys ? SMLA_OK : check_no_keys(desc, refusal);
}

static smla_status find_kv_formats(const smla_kernel_desc *desc, struct gen_spec *made, struct gen_refusal *refusal)
{
    made->has_extra_kv = desc->extra_kv_format || desc->extra_kv_layout;
    smla_status status = gen_spec_kv_format(desc->kv_format || desc->kv_layout ? desc->kv_format : "bf16",
                                            desc->kv_layout, desc->d_qk, &made->kv, refusal);
    if (status == SMLA_OK && made->has_extra_kv)
        status = gen_refuse_extra(refusal, gen_spec_kv_format(desc->extra_kv_format, desc->extra_kv_layout, desc->d_qk,
                                                              &made->extra_kv, refusal));
    return status;
}

static smla_status check_flags(const smla_kernel_desc *desc, struct gen_refusal *refusal)
{
    if (desc->reserved)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "reserved %u: zero the description first", desc->reserved);
    const uint32_t of_prefill = SMLA_KERNEL_CHECKED | SMLA_KERNEL_NOT_PERSISTENT;
    if (desc->flags & ~(of_prefill | SMLA_KERNEL_LINE_INFO))
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED,
                          "flags 0x%x: there are SMLA_KERNEL_CHECKED (0x%x), SMLA_KERNEL_NOT_PERSISTENT (0x%x) and "
                          "SMLA_KERNEL_LINE_INFO (0x%x)",
                          desc->flags, SMLA_KERNEL_CHECKED, SMLA_KERNEL_NOT_PERSISTENT, SMLA_KERNEL_LINE_INFO);
    if ((desc->flags & of_prefill) && desc->op != SMLA_OP_PREFILL)
        return gen_refuse(
            refusal, SMLA_ERROR_UNSUPPORTED,
            "flags 0x%x: of a %s kernel there is SMLA_KERNEL_LINE_INFO (0x%x), the others are of prefill's",
            desc->flags, gen_op_name(desc->op), SMLA_KERNEL_LINE_INFO);
    return SMLA_OK;
}

smla_status gen_spec_make(const smla_kernel_desc *desc, const struct gen_target *target, struct gen_spec *spec,
                          struct gen_refusal *refusal)
{
    struct gen_spec made = {.op = desc->op, .h_q = desc->h_q, .d_qk = desc->d_qk, .target = target};
    if (!gen_op_name(desc->op))
        return gen_refuse(
            refusal, SMLA_ERROR_INVALID_ARGUMENT,
            "op %u is not known; there are prefill (%d), prefill_reference (%d), combine (%d) and decode (%d)",
            desc->op, SMLA_OP_PREFILL, SMLA_OP_PREFILL_REFERENCE, SMLA_OP_COMBINE, SMLA_OP_DECODE);
    smla_status status = check_dims(desc, refusal);
    if (status != SMLA_OK)
        return status;
    status = check_flags(desc, refusal);
    if (status != SMLA_OK)
        return status;
    if (desc->batch_invariant > 1)
        return gen_refuse(refusal, SMLA_ERROR_INVALID_ARGUMENT, "batch_invariant %u: 0 or 1", desc->batch_invariant);
    made.d_v = 512;
    made.batch_invariant = desc->batch_invariant == 1;
    made.checked = (desc->flags & SMLA_KERNEL_CHECKED) != 0;
    made.not_persistent = (desc->flags & SMLA_KERNEL_NOT_PERSISTENT) != 0;
    made.line_info = (desc->flags & SMLA_KERNEL_LINE_INFO) != 0;
    if (desc->op != SMLA_OP_COMBINE)
        status = find_kv_formats(desc, &made, refusal);
    if (status == SMLA_OK && !target)
        status = find_target(desc, &made.target, refusal);
    if (status == SMLA_OK)
        *spec = made;
    return status;
}
