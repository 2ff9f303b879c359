/* What few queries add to the plan of an sm_90 prefill kernel for one bf16 cache: a cluster of blocks shares a unit's
 * keys (templates/sm90_prefill_split.cu). */
#include <stdio.h>

#include "plan_add.h"
#include "prefill_params.h"

enum { BLOCK_KEYS = 64, BLOCK_HEADS = 64, KEY_SLOTS = 2, STATE_BYTES = 16 };

static void add_regions(const struct gen_spec *spec, int32_t p_slots, struct gen_plan *plan)
{
    add_region_of(plan, "split_", "split_query", BLOCK_HEADS * spec->d_qk * BF16_BYTES,
                  "query, tiles of 64 columns; at the end half of the part");
    add_region_of(plan, "split_", "split_key", KEY_SLOTS * BLOCK_KEYS * spec->d_qk * BF16_BYTES,
                  "key slots, tiles of 64 columns; at the end the other half of the part");
    add_region_of(plan, "split_", "split_probability", p_slots * BLOCK_HEADS * BLOCK_KEYS * BF16_BYTES, "P as bf16");
    add_region_of(plan, "split_", "split_rows", BLOCK_HEADS * STATE_BYTES,
                  "the rows' largest logits, references and sums");
    add_region_of(plan, "split_", "split_row_scale", p_slots * BLOCK_HEADS * 4, "factor for out before a block's P.V");
    add_region_of(plan, "split_", "split_barriers",
                  (KEY_SLOTS + 2 * p_slots + 1 + 1) / 2 * 2 * 8, /* the whole is a multiple of 16 */
                  "mbarriers: key_full for each key slot, p_ready and p_free for each slot of P, logits_done");
}

static int32_t add_numbers(struct gen_plan *plan, int32_t p_slots)
{
    enum { THREADS = 2 * WARPGROUP_THREADS };
    add_number(plan, "split_threads", THREADS, "threads", GEN_BY_PLAN,
               "of a block for few queries: two warpgroups, each the softmax of every other block and half of out");
    add_number(plan, "split_key_slots", KEY_SLOTS, "slots", GEN_BY_PLAN, "a block of keys of each warpgroup");
    add_number(plan, "split_probability_slots", p_slots, "slots", GEN_BY_PLAN,
               p_slots == 2 ? "P of a block beside that of the next"
                            : "a second does not fit beside two slots of such keys");
    const int32_t shared_bytes = regions_end(plan);
    add_number(plan, "split_shared_bytes", shared_bytes, "bytes", GEN_BY_PLAN, "of a block for few queries");
    return shared_bytes;
}

/* A shape that the kernel's own file has already is not made twice. */
static void add_wgmma(struct gen_plan *plan, struct gen_wgmma wanted)
{
    for (int32_t i = 0; i < plan->wgmma_count; i++) {
        const struct gen_wgmma *have = &plan->wgmmas[i];
        if (have->n == wanted.n && !have->n_varies && !have->a_is_mn_major && !have->a_in_registers &&
            have->b_is_mn_major == wanted.b_is_mn_major)
            return;
    }
    plan->wgmmas[plan->wgmma_count++] = wanted;
}

void gen_plan_add_sm90_prefill_split(const struct gen_spec *spec, struct gen_plan *plan)
{
    const int32_t p_slots = spec->d_qk == 512 ? 2 : 1;
    add_regions(spec, p_slots, plan);
    const int32_t shared_bytes = add_numbers(plan, p_slots);
    add_wgmma(plan, (struct gen_wgmma){.n = BLOCK_KEYS, .used_for = "few queries: logits = query . key^T"});
    add_wgmma(plan, (struct gen_wgmma){.n = 128, .b_is_mn_major = 1, .used_for = "few queries: out += P . V"});
    struct gen_variant *variant = &plan->variants[plan->variant_count];
    *variant = (struct gen_variant){.entry = "smla_sm90_prefill_split",
                                    .threads = number(plan, "split_threads"),
                                    .shared_bytes = shared_bytes,
                                    .param_bytes = (int32_t)sizeof(struct smla_prefill_params),
                                    .blocks_per_query = number(plan, "head_blocks"),
                                    .reason = "few queries: a cluster of blocks in place of each shares its keys"};
    snprintf(variant->name, sizeof(variant->name), "sm90_prefill_split_h%d_d%d", spec->h_q, spec->d_qk);
    plan->split_name = "sm90_prefill_split.cu";
    plan->split_variant = plan->variant_count++;
}
