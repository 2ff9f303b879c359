#include "describe.h"

#include <stdio.h>

void rt_describe(const struct gen_spec *spec, char text[RT_DESCRIPTION_BYTES])
{
    snprintf(text, RT_DESCRIPTION_BYTES, "%s h_q=%d d_qk=%d d_v=%d kv=%s%s%s%s target=%s", gen_op_name(spec->op),
             spec->h_q, spec->d_qk, spec->d_v, spec->kv.name, spec->has_extra_kv ? " extra_kv=" : "",
             spec->has_extra_kv ? spec->extra_kv.name : "", spec->batch_invariant ? " batch_invariant" : "",
             spec->target->name);
}

void rt_describe_command(const struct gen_spec *spec, const char *cache_dir, char text[RT_COMMAND_BYTES])
{
    snprintf(text, RT_COMMAND_BYTES,
             "%s%.400s%ssmla-gen --sm %s --op %s --h-q %d --d-qk %d --d-v %d --kv-format %s%s%s%s --emit cubin -o "
             "kernel.cubin",
             cache_dir ? "SMLA_CACHE_DIR='" : "", cache_dir ? cache_dir : "", cache_dir ? "' " : "", spec->target->name,
             gen_op_name(spec->op), spec->h_q, spec->d_qk, spec->d_v, spec->kv.name,
             spec->has_extra_kv ? " --extra-kv-format " : "", spec->has_extra_kv ? spec->extra_kv.name : "",
             spec->batch_invariant ? " --batch-invariant" : "");
}
