/* Plan of the sm_90 prefill kernels for few heads (templates/sm90_prefill_turned.cu, and for the fewest
 * templates/sm90_prefill_turned_persistent.cu), and of what decode's has in common with them
 * (templates/sm90_attention_turned.cuh).
 *
 * The roles are those of sm90_prefill, but the matrix tile is turned round: keys, and columns of V, are M of wgmma, and
 * heads are N, which comes in eights. So 1 to 56 heads compute no more than they are, and up to 80 are one block that
 * gathers each key once, where tiles of 64 heads make two. */
#include <stdio.h>

#include "plan_add.h"
#include "plan_decode.h"
#include "plan_formats.h"
#include "prefill_params.h"

enum {
    KEYS = 64,
    OUTPUT_WARPGROUPS = 2,
    SOFTMAX_WARPS = 4,
    FLOAT_BYTES = 4,
    MBARRIER_BYTES = 8,
    MOST_KEY_SLOTS = 3, /* a fourth has no room beside any query */
    /* With keys on their way there are fewer registers; two formats in turn need a few more. */
    MOST_HEADS_OF_ONE = 48,
    MOST_HEADS_OF_TWO = 40,
    MOST_DECODE_HEADS = 56, /* with what a walk through items keeps, ptxas spills accumulators of 72 */
    MOST_HEADS_APART = 24,  /* 32 gain nothing: beside their query a third key slot has no room */
    MOST_HEADS = 80         /* 88 would leave too few registers beside 176 accumulators, and shared memory */
};

/* Slots that fit the target's shared memory. */
struct slots {
    int32_t key; /* 0: fewer than two, with P, do */
    int32_t probability;
};

/* N of the matrix tile: heads up to a multiple of 8; of a companion fewer, a multiple of 8 too. */
static int32_t tile_heads(const struct gen_spec *spec)
{
    return spec->tile_heads > 0 ? spec->tile_heads : (spec->h_q + 7) / 8 * 8;
}

/* Whether blocks of threads share the queries, with a warpgroup that gathers for them
 * (templates/sm90_prefill_turned_persistent.cu). */
static bool gathers_apart(const struct gen_spec *spec)
{
    return spec->op == SMLA_OP_PREFILL && !spec->not_persistent && !gen_plan_dequantises(spec) &&
           tile_heads(spec) <= MOST_HEADS_APART;
}

static int32_t barrier_count(const struct gen_spec *spec, struct slots slots)
{
    if (gathers_apart(spec)) /* key_full and key_free of each slot, and rows_free */
        return slots.key * 2 + 2 * slots.probability + 2;
    return slots.key * OUTPUT_WARPGROUPS + 2 * slots.probability + 1;
}

static void add_regions(const struct gen_spec *spec, struct slots slots, struct gen_plan *plan)
{
    int32_t heads = tile_heads(spec), heads_bytes = heads * FLOAT_BYTES;
    add_region(plan, "query", heads * spec->d_qk * BF16_BYTES, "query, tiles of 64 columns; at the end out");
    add_region(plan, "key", slots.key * KEYS * spec->d_qk * BF16_BYTES, "key slots, tiles of 64 columns");
    add_region(plan, "probability", slots.probability * heads * KEYS * BF16_BYTES, "P as bf16, a row a head");
    add_region(plan, "row_scale", slots.probability * heads_bytes, "factor for out before a block's P.V");
    add_region(plan, "out_scale", heads_bytes, "factor for out at the end");
    add_region(plan, "reference", heads_bytes, "what each head's exponents are relative to");
    add_region(plan, "warp_max", SOFTMAX_WARPS * heads_bytes, "each softmax warp's largest logit so far");
    add_region(plan, "warp_sum", SOFTMAX_WARPS * heads_bytes, "each softmax warp's sum at the end");
    add_region(plan, "rescales", slots.probability * MBARRIER_BYTES, "whether row_scale counts");
    const int32_t walk_bytes = spec->op == SMLA_OP_DECODE ? GEN_DECODE_WALK_BYTES : 0;
    gen_plan_add_staging(
        spec, spec->target->shared_bytes - regions_end(plan) - barrier_count(spec, slots) * MBARRIER_BYTES - walk_bytes,
        plan);
    add_region(plan, "barriers", barrier_count(spec, slots) * MBARRIER_BYTES,
               gathers_apart(spec)
                   ? "mbarriers: key_full and key_free for each key slot, p_ready and p_free for each slot of P, "
                     "out_scale_ready, rows_free"
                   : "mbarriers: key_full for each half of each key slot, p_ready and p_free for each slot of "
                     "P, out_scale_ready");
    if (gathers_apart(spec))
        add_region(plan, "rows", (SOFTMAX_WARPS + 1) * heads_bytes,
                   "largest logits and references of a finished query");
}

static bool fits(const struct gen_spec *spec, struct slots slots)
{
    struct gen_plan plan = {.region_count = 0};
    add_regions(spec, slots, &plan);
    return regions_end(&plan) + (spec->op == SMLA_OP_DECODE ? GEN_DECODE_WALK_BYTES : 0) <= spec->target->shared_bytes;
}

/* As many slots of keys as fit, since keys are gathered into them; then as many of P. Of quantised keys two: what is on
 * its way to be dequantised needs the room more (docs/performance.md). */
static struct slots choose_slots(const struct gen_spec *spec)
{
    const int32_t most = gen_plan_dequantises(spec) ? MOST_KEY_SLOTS - 1 : MOST_KEY_SLOTS;
    for (struct slots slots = {most, 1}; slots.key >= 2; slots.key--) {
        if (!fits(spec, slots))
            continue;
        while (slots.probability < slots.key && fits(spec, (struct slots){slots.key, slots.probability + 1}))
            slots.probability++;
        return slots;
    }
    return (struct slots){0, 0};
}

bool gen_sm90_prefill_turns(const struct gen_spec *spec)
{
    const int32_t heads = tile_heads(spec);
    const int32_t most_read = spec->has_extra_kv ? MOST_HEADS_OF_TWO : MOST_HEADS_OF_ONE;
    const int32_t most_copied = spec->op == SMLA_OP_DECODE ? MOST_DECODE_HEADS : MOST_HEADS;
    const int32_t most = gen_plan_dequantises(spec) ? most_read : most_copied;
    return heads != 64 && heads <= most && choose_slots(spec).key > 0;
}

static const char *key_slots_reason(const struct gen_spec *spec, int32_t slots)
{
    if (gen_plan_dequantises(spec))
        return "key blocks in flight; a third would take the room of quantised keys on their way";
    return slots == MOST_KEY_SLOTS ? "key blocks in flight; a fourth does not fit"
                                   : "key blocks in flight; a third does not fit beside the query";
}

static const char *probability_slots_reason(struct slots slots)
{
    return slots.probability == slots.key ? "one for each key slot: a free key slot says that P's is free too"
                                          : "another does not fit beside the keys";
}

/* Each output thread accumulates 2 x heads, and needs some 40 registers more; three times 168 are there. */
static void add_registers(const struct gen_spec *spec, struct gen_plan *plan)
{
    int32_t heads = tile_heads(spec);
    bool few = heads <= 56;
    add_number(plan, "gather_warpgroups", gathers_apart(spec), "", GEN_BY_PLAN,
               gathers_apart(spec) ? "gathers all keys, so that nobody who multiplies waits until copies are taken in"
                                   : "the output warpgroups gather");
    if (gathers_apart(spec)) {
        add_number(plan, "softmax_registers", 104, "registers", GEN_BY_PLAN,
                   "logits of two blocks and state: up to 48");
        add_number(plan, "output_registers", 160, "registers", GEN_BY_PLAN,
                   "up to 48 accumulators; 104 + 2 x 160 + 88 = 4 x 128");
        add_number(plan, "gather_registers", 88, "registers", GEN_BY_PLAN, "entries, rows and two queries' places");
        return;
    }
    if (gen_plan_dequantises(spec)) {
        add_number(plan, "softmax_registers", 104, "registers", GEN_BY_PLAN,
                   "up to 48 of logits and state; gives 64 away");
        add_number(plan, "output_registers", 200, "registers", GEN_BY_PLAN,
                   "up to 96 accumulators, 40 of keys on their way; 104 + 2 x 200 = 3 x 168");
        return;
    }
    add_number(plan, "softmax_registers", few ? 152 : 104, "registers", GEN_BY_PLAN,
               few ? "up to 56 of logits and state; gives 16 away" : "72 or 80 of logits and state; gives 64 away");
    add_number(plan, "output_registers", few ? 176 : 200, "registers", GEN_BY_PLAN,
               few ? "up to 112 accumulators; 152 + 2 x 176 = 3 x 168"
                   : "144 or 160 accumulators; 104 + 2 x 200 = 3 x 168; ptxas spills with 192 and serialises with 184");
}

static const char *block_heads_reason(const struct gen_spec *spec)
{
    if (spec->tile_heads > 0)
        return "N of wgmma: fewer than all heads, so that few tokens make more blocks";
    return spec->h_q <= 64 ? "N of wgmma: heads up to a multiple of 8; as M they would be computed as 64"
                           : "N of wgmma: heads up to a multiple of 8; as M they would be two blocks that gather each "
                             "key twice";
}

static void add_numbers(const struct gen_spec *spec, struct slots slots, struct gen_plan *plan)
{
    int32_t heads = tile_heads(spec);
    add_number(plan, "h_q", spec->h_q, "heads", GEN_BY_DESCRIPTION, "query heads");
    add_number(plan, "d_qk", spec->d_qk, "elements", GEN_BY_DESCRIPTION, "width of query and key");
    add_number(plan, "d_v", spec->d_v, "elements", GEN_BY_DESCRIPTION, "width of value: the key's first columns");
    add_number(plan, "block_heads", heads, "heads", GEN_BY_PLAN, block_heads_reason(spec));
    add_number(plan, "head_blocks", (spec->h_q + heads - 1) / heads, "blocks", GEN_BY_PLAN,
               spec->tile_heads > 0 ? "blocks a query, each of a tile of its heads"
                                    : "blocks a query: N has room for all heads");
    add_number(plan, "heads_are_columns", 1, "", GEN_BY_PLAN, "heads are columns of the matrix tile");
    add_number(plan, "block_keys", KEYS, "keys", GEN_BY_TARGET, "M of wgmma; one bit of a 64-bit validity mask a key");
    add_number(plan, "key_slots", slots.key, "slots", GEN_BY_PLAN, key_slots_reason(spec, slots.key));
    add_number(plan, "probability_slots", slots.probability, "slots", GEN_BY_PLAN, probability_slots_reason(slots));
    add_number(plan, "output_warpgroups", OUTPUT_WARPGROUPS, "", GEN_BY_PLAN,
               "each gathers, and multiplies by, half of the columns of V");
    add_number(plan, "output_columns", spec->d_v / OUTPUT_WARPGROUPS, "elements", GEN_BY_PLAN,
               "columns of out an output warpgroup holds, 64 a wgmma");
    add_registers(spec, plan);
    add_number(plan, "threads", (1 + OUTPUT_WARPGROUPS + number(plan, "gather_warpgroups")) * WARPGROUP_THREADS,
               "threads", GEN_BY_PLAN, "a softmax warpgroup, two of output, one that gathers where there is one");
    add_number(plan, "rescale_threshold_log2", 8, "log2", GEN_BY_PLAN,
               "out is rescaled only when the maximum grew by more: P stays below 2^8");
    gen_plan_add_formats(spec, plan);
}

static void add_variants(const struct gen_spec *spec, struct gen_plan *plan)
{
    struct gen_variant like = {.threads = number(plan, "threads"),
                               .shared_bytes = regions_end(plan),
                               .blocks_per_query = number(plan, "head_blocks")};
    if (gathers_apart(spec)) {
        like.blocks_per_sm = 1;
        snprintf(like.name, sizeof(like.name), "sm90_prefill_turned_persistent_h%d_d%d", spec->h_q, spec->d_qk);
        gen_plan_add_variants(spec, &like, "smla_sm90_prefill_turned_persistent",
                              "smla_sm90_prefill_turned_persistent_paged", plan);
        return;
    }
    snprintf(like.name, sizeof(like.name), "sm90_prefill_turned_h%d_d%d", spec->h_q, spec->d_qk);
    gen_plan_add_variants(spec, &like, "smla_sm90_prefill_turned", "smla_sm90_prefill_turned_paged", plan);
}

smla_status gen_plan_add_sm90_attention_turned(const struct gen_spec *spec, struct gen_plan *plan,
                                               struct gen_refusal *refusal)
{
    struct slots slots = choose_slots(spec);
    if (slots.key == 0)
        return gen_refuse(refusal, SMLA_ERROR_UNSUPPORTED, "h_q %d, d_qk %d: two key slots do not fit in %d bytes",
                          spec->h_q, spec->d_qk, spec->target->shared_bytes);
    plan->family = spec->target->family;
    plan->pointer_alignment_bytes = 16;
    plan->stride_alignment_elems = 16 / BF16_BYTES;
    add_numbers(spec, slots, plan);
    add_regions(spec, slots, plan);
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = tile_heads(spec), .n_varies = 1, .used_for = "logits^T = key . query^T"};
    plan->wgmmas[plan->wgmma_count++] =
        (struct gen_wgmma){.n = tile_heads(spec), .n_varies = 1, .a_is_mn_major = 1, .used_for = "out^T += V^T . P^T"};
    return SMLA_OK;
}

smla_status gen_plan_sm90_prefill_turned(const struct gen_spec *spec, struct gen_plan *plan,
                                         struct gen_refusal *refusal)
{
    const smla_status status = gen_plan_add_sm90_attention_turned(spec, plan, refusal);
    if (status != SMLA_OK)
        return status;
    plan->kernel = gathers_apart(spec) ? "sm90_prefill_turned_persistent" : "sm90_prefill_turned";
    plan->template_name = gathers_apart(spec) ? "sm90_prefill_turned_persistent.cu" : "sm90_prefill_turned.cu";
    plan->launches = 1;
    plan->param_bytes = (int32_t)sizeof(struct smla_prefill_params);
    add_variants(spec, plan);
    return SMLA_OK;
}
