#include "plan_unpack.h"

#include <stdio.h>

#include "plan_add.h"
#include "plan_formats.h"
#include "prefill_params.h"

enum {
    CHUNK_ELEMS = 8, /* 16 bytes of a row, which a thread writes */
    ROWS = 4,        /* side by side in a block of threads */
    LEAST_READS = 10,
    LEAST_READS_WIDE = 32 /* keys of 576: from before a persistent kernel read them, not measured since */
};

#define REASON                                                                                                         \
    "H200, 2026-12-01, v4, 64 heads: with 40 entries 712 us instead of 833, with 10 863 instead of 888, with 5 118 "   \
    "instead of 107"
#define WIDE_REASON                                                                                                    \
    "H200, 2026-12-01, 64 heads: over bf16 855 us instead of 898 over v32, for which some 17 unpack 32,768 tokens"

/* The kernel that has a bf16 cache and no variant for few queries, which are not worth unpacking for: a batch-invariant
 * one is that. */
void gen_unpack_spec(struct gen_spec *spec)
{
    struct gen_refusal refusal;
    gen_spec_kv_format("bf16", NULL, spec->d_qk, &spec->kv, &refusal); /* there is one for every d_qk */
    spec->batch_invariant = true;
    spec->checked = false;
}

/* The kernel of a bf16 cache adds in another order than one that dequantises (lse differs in its last bits), and which
 * way a call goes depends on s_q: not where bits must not. */
static bool unpacks(const struct gen_spec *spec)
{
    return spec->kv.value_type != SMLA_VALUE_BF16 && !spec->has_extra_kv && !spec->batch_invariant &&
           !spec->not_persistent;
}

void gen_plan_add_unpack(const struct gen_spec *spec, struct gen_plan *plan)
{
    if (!unpacks(spec))
        return;
    const bool wide = spec->d_qk > 512;
    const int32_t threads = spec->d_qk / CHUNK_ELEMS * ROWS;
    struct gen_variant *variant = &plan->variants[plan->variant_count];
    add_number(plan, "unpack_threads", threads, "threads", GEN_BY_PLAN,
               "of what unpacks: 16 bytes of a row each, four rows side by side");
    *variant = (struct gen_variant){.entry = "smla_sm90_unpack",
                                    .threads = threads,
                                    .param_bytes = (int32_t)sizeof(struct smla_prefill_params),
                                    .blocks_per_query = 1,
                                    .reason = "launched first where the call unpacks its cache"};
    snprintf(variant->name, sizeof(variant->name), "sm90_unpack_d%d_%s", spec->d_qk, spec->kv.name);
    plan->unpack_name = "sm90_unpack.cu";
    plan->unpack = (struct gen_unpack){.variant = plan->variant_count++,
                                       .rows = ROWS,
                                       .blocks_per_sm = 2048 / threads,
                                       .least_reads = wide ? LEAST_READS_WIDE : LEAST_READS,
                                       .reason = wide ? WIDE_REASON : REASON};
    plan->launches++;
}

bool gen_unpack_takes(const struct gen_unpack *unpack, int64_t s_q, int64_t topk, int64_t s_kv)
{
    return unpack->variant > 0 && s_kv > 0 && s_q * topk >= unpack->least_reads * s_kv;
}

int64_t gen_unpack_most_rows(const struct gen_unpack *unpack, int64_t s_q, int64_t topk, int64_t s_kv)
{
    if (unpack->variant == 0)
        return 0;
    const int64_t most = unpack->least_reads > 0 ? s_q * topk / unpack->least_reads : s_kv;
    return most < s_kv ? most : s_kv;
}
