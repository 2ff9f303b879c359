#include <stdio.h>

#include "error.h"
#include "planning.h"
#include "selection.h"
#include "sized.h"

/* "Unsupported" is an answer here, not a failure: the sentence goes to the caller, and the thread's last failure stays
 * what it was. */
static void answer_no(const char *reason, smla_support *answer)
{
    snprintf(answer->reason, sizeof answer->reason, "%.*s", (int)sizeof answer->reason - 1, reason);
}

static smla_status answer_companion(const struct gen_bundle *companion, smla_support *answer)
{
    struct rt_key key;
    const smla_status status = rt_key_make(companion, RT_KIND_CUBIN, &key);

    if (status != SMLA_OK)
        return status;
    snprintf(answer->companion, sizeof answer->companion, "%s", companion->plan.variants[0].name);
    rt_digest_hex(&key.kernel_id, answer->companion_id);
    return SMLA_OK;
}

static smla_status answer_yes(const struct rt_selection *selection, smla_support *answer)
{
    const struct gen_bundle *bundle = &selection->bundles[0];
    const struct gen_plan *plan = &bundle->plan;
    struct rt_key key;
    const smla_status status = rt_key_make(bundle, RT_KIND_CUBIN, &key);

    if (status != SMLA_OK)
        return status;
    answer->supported = 1;
    answer->launches = (uint32_t)plan->launches;
    answer->variants = (uint32_t)plan->variant_count;
    answer->threads = (uint32_t)plan->variants[0].threads;
    answer->shared_bytes = (uint32_t)plan->variants[0].shared_bytes;
    answer->blocks_per_sm = (uint32_t)plan->variants[0].blocks_per_sm;
    answer->pointer_alignment = (uint32_t)plan->pointer_alignment_bytes;
    answer->stride_alignment = (uint32_t)plan->stride_alignment_elems;
    snprintf(answer->target, sizeof answer->target, "%s", bundle->spec.target->name);
    snprintf(answer->variant, sizeof answer->variant, "%s", plan->variants[0].name);
    rt_digest_hex(&key.kernel_id, answer->kernel_id);
    answer->trust = selection->least_trusted->level;
    snprintf(answer->status, sizeof answer->status, "%s",
             gen_trust_find(plan->family, bundle->spec.op, answer->variant)->status);
    snprintf(answer->switched_off, sizeof answer->switched_off, "%s", selection->switched_off);
    return selection->count > 1 ? answer_companion(&selection->bundles[1], answer) : SMLA_OK;
}

_Static_assert(sizeof((smla_support *)0)->kernel_id >= RT_DIGEST_HEX, "kernel_id holds a digest in hex");
_Static_assert(sizeof((smla_support *)0)->companion_id >= RT_DIGEST_HEX, "companion_id holds a digest in hex");

smla_status smla_query_support(smla_context *context, const smla_kernel_desc *desc, smla_support *out)
{
    smla_support answer = {.struct_size = sizeof answer};
    const struct gen_target *target;
    struct rt_selection selection;
    struct rt_error before, failure;
    struct rt_description full;

    if (out == NULL)
        return rt_fail(SMLA_ERROR_INVALID_ARGUMENT, "smla_query_support: out is NULL");
    smla_status status = rt_description_read(&full, desc);
    if (status != SMLA_OK)
        return status;
    rt_error_save(&before);
    status = rt_target_for(context, &full.desc, &target);
    if (status == SMLA_OK)
        status = rt_selection_make(context ? &context->settings : NULL, &full.desc, target, &selection);
    if (status == SMLA_ERROR_UNSUPPORTED) {
        rt_error_save(&failure);
        rt_error_restore(&before);
        answer_no(failure.message, &answer);
        snprintf(answer.target, sizeof answer.target, "%s", target ? target->name : "");
        return rt_sized_write(out, &answer, sizeof answer);
    }
    if (status != SMLA_OK)
        return status;
    status = answer_yes(&selection, &answer);
    rt_selection_free(&selection);
    return status == SMLA_OK ? rt_sized_write(out, &answer, sizeof answer) : status;
}
