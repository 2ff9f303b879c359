#include "describe.h"

#include <stdio.h>

void rt_describe(const struct gen_spec *spec, char text[RT_DESCRIPTION_BYTES])
{
    if (!spec->kv.name) {
        snprintf(text, RT_DESCRIPTION_BYTES, "%s h_q=%d d_v=%d%s target=%s", gen_op_name(spec->op), spec->h_q,
                 spec->d_v, spec->batch_invariant ? " batch_invariant" : "", spec->target->name);
        return;
    }
    snprintf(text, RT_DESCRIPTION_BYTES, "%s h_q=%d d_qk=%d d_v=%d kv=%s%s%s%s%s target=%s", gen_op_name(spec->op),
             spec->h_q, spec->d_qk, spec->d_v, spec->kv.name, spec->has_extra_kv ? " extra_kv=" : "",
             spec->has_extra_kv ? spec->extra_kv.name : "", spec->batch_invariant ? " batch_invariant" : "",
             spec->checked ? " checked" : "", spec->target->name);
}

void rt_describe_command(const struct gen_spec *spec, const char *cache_dir, char text[RT_COMMAND_BYTES])
{
    char width[24] = "", formats[96] = "";

    if (spec->kv.name) {
        snprintf(width, sizeof width, " --d-qk %d", spec->d_qk);
        snprintf(formats, sizeof formats, " --kv-format %s%s%s", spec->kv.name,
                 spec->has_extra_kv ? " --extra-kv-format " : "", spec->has_extra_kv ? spec->extra_kv.name : "");
    }
    snprintf(text, RT_COMMAND_BYTES,
             "%s%.400s%ssmla-gen --sm %s --op %s --h-q %d%s --d-v %d%s%s%s --emit cubin -o kernel.cubin",
             cache_dir ? "SMLA_CACHE_DIR='" : "", cache_dir ? cache_dir : "", cache_dir ? "' " : "", spec->target->name,
             gen_op_name(spec->op), spec->h_q, width, spec->d_v, formats,
             spec->batch_invariant ? " --batch-invariant" : "", spec->checked ? " --checked" : "");
}
