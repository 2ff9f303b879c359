/* What SMLA_KERNEL_CHECKED adds to the plan of a prefill kernel, whichever it is (templates/prefill_check.cu). */
#include <stdio.h>

#include "plan_add.h"
#include "prefill_params.h"

void gen_plan_add_prefill_check(struct gen_plan *plan)
{
    enum { THREADS = 256 };
    struct gen_variant *variant = &plan->variants[plan->variant_count];
    add_number(plan, "check_threads", THREADS, "threads", GEN_BY_PLAN,
               "of the check: a block reads one query's lists, 1 KiB at once");
    *variant = (struct gen_variant){.entry = "smla_prefill_check",
                                    .threads = THREADS,
                                    .param_bytes = (int32_t)sizeof(struct smla_prefill_params),
                                    .blocks_per_query = 1,
                                    .reason = "launched first: finds the first index or length that cannot be meant"};
    snprintf(variant->name, sizeof(variant->name), "prefill_check");
    plan->check_name = "prefill_check.cu";
    plan->check_variant = plan->variant_count++;
    plan->launches++;
}
