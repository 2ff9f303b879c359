/* Plan of the float64 reference kernel (templates/prefill_reference.cu): one block a query token and head. */
#include "plan.h"
#include "prefill_params.h"

smla_status gen_plan_prefill_reference(const struct gen_spec *spec, struct gen_plan *plan, struct gen_refusal *refusal)
{
    if (spec->kv.value_type != SMLA_VALUE_BF16 || spec->has_extra_kv)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "kv_format %s%s%s: the reference reads one bf16 cache",
                          spec->kv.name, spec->has_extra_kv ? " + " : "",
                          spec->has_extra_kv ? spec->extra_kv.name : "");
    enum { THREADS = 128 };
    plan->family = spec->target->family;
    plan->kernel = "prefill_reference";
    plan->template_name = "prefill_reference.cu";
    plan->launches = 1;
    plan->pointer_alignment_bytes = 4;
    plan->stride_alignment_elems = 1;
    plan->param_bytes = (int32_t)sizeof(struct smla_prefill_params);
    plan->numbers[0] = (struct gen_number){"h_q", spec->h_q, "heads", GEN_BY_DESCRIPTION, "query heads"};
    plan->numbers[1] =
        (struct gen_number){"d_qk", spec->d_qk, "elements", GEN_BY_DESCRIPTION, "width of query and key"};
    plan->numbers[2] = (struct gen_number){"d_v", spec->d_v, "elements", GEN_BY_DESCRIPTION, "width of value"};
    plan->numbers[3] = (struct gen_number){"threads", THREADS, "threads", GEN_BY_PLAN, "each has d_v / 128 columns"};
    plan->number_count = 4;
    plan->variants[0] = (struct gen_variant){.name = "prefill_reference",
                                             .entry = "smla_prefill_reference",
                                             .threads = THREADS,
                                             .shared_bytes = 0,
                                             .blocks_per_query = 1};
    plan->variant_count = 1;
    return SMLA_OK;
}
