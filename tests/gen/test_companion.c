/* Companions of decode kernels: who has one, which calls take it, and a workspace that is enough for both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bundle.h"
#include "plan_companion.h"

/* A decode kernel for sm_90 and, where it has one, its companion. */
struct pair {
    struct gen_bundle kernel, companion;
    bool has;
};

static smla_kernel_desc decode_desc(int32_t h_q, int32_t d_qk, const char *kv, const char *extra)
{
    return (smla_kernel_desc){.struct_size = sizeof(smla_kernel_desc),
                              .op = SMLA_OP_DECODE,
                              .h_q = h_q,
                              .d_qk = d_qk,
                              .kv_format = kv,
                              .extra_kv_format = extra,
                              .target = "90"};
}

/* Returns false where there is no such kernel. */
static bool make_pair(const smla_kernel_desc *desc, struct pair *pair)
{
    struct gen_refusal refusal = {""};
    if (gen_bundle_make(desc, NULL, &pair->kernel, &refusal) != SMLA_OK)
        return false;
    pair->has = pair->kernel.plan.companion.tile_heads > 0;
    if (pair->has && gen_bundle_make_companion(&pair->kernel, &pair->companion, &refusal) != SMLA_OK)
        fail_msg("%d heads: %s", desc->h_q, refusal.text);
    return true;
}

static void free_pair(struct pair *pair)
{
    gen_bundle_free(&pair->kernel);
    if (pair->has)
        gen_bundle_free(&pair->companion);
}

static const char *const formats[] = {NULL,         "v32",     "v32_norope",     "v4",        "v41",
                                      "v41_planar", "v41_fp4", "v41_fp4_planar", "hopper_fp4"};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static void check_pair(const struct pair *pair, int32_t h_q)
{
    const struct gen_plan *kernel = &pair->kernel.plan, *companion = &pair->companion.plan;
    const struct gen_decode wide = gen_decode_of(&pair->kernel.spec, kernel);
    const int32_t tile = h_q <= 16 ? 8 : 16;
    char name[16];
    assert_int_equal(pair->has, wide.block_heads > tile);
    if (!pair->has)
        return;
    const struct gen_decode narrow = gen_decode_of(&pair->companion.spec, companion);
    assert_int_equal(narrow.block_heads, tile);
    assert_int_equal(narrow.head_blocks, (h_q + tile - 1) / tile);
    assert_int_equal(narrow.head_blocks, kernel->companion.head_blocks);
    assert_int_equal(companion->companion.tile_heads, 0);
    /* A call is checked once, for whichever it takes. */
    assert_true(companion->pointer_alignment_bytes <= kernel->pointer_alignment_bytes);
    assert_true(companion->stride_alignment_elems <= kernel->stride_alignment_elems);
    assert_int_equal(companion->param_bytes, kernel->param_bytes);
    assert_true(companion->launches <= kernel->launches);
    assert_true(companion->variants[0].shared_bytes <= pair->kernel.spec.target->shared_bytes);
    snprintf(name, sizeof(name), "_tile%d", tile);
    assert_non_null(strstr(companion->variants[0].name, name));
    assert_null(strstr(kernel->variants[0].name, name));
}

/* Counts of heads at the edges of tiles, every width and pair of formats. */
static void who_has_one(void **state)
{
    static const int32_t heads[] = {1, 8, 9, 16, 17, 24, 40, 41, 56, 64, 65, 100, 128};
    int pairs = 0;
    (void)state;
    for (size_t h = 0; h < sizeof(heads) / sizeof(heads[0]); h++)
        for (int i = 0; i < 2 * FORMATS * (FORMATS + 1); i++) {
            const int extra = i / 2 / FORMATS;
            smla_kernel_desc desc = decode_desc(heads[h], i % 2 ? 576 : 512, formats[i / 2 % FORMATS],
                                                extra == FORMATS ? NULL
                                                : extra == 0     ? "bf16"
                                                                 : formats[extra]);
            struct pair pair;
            if (!make_pair(&desc, &pair))
                continue;
            check_pair(&pair, heads[h]);
            pairs += pair.has;
            free_pair(&pair);
        }
    assert_true(pairs > 500);
}

/* Bits of a batch-invariant kernel must not hang on the batch; and no other operator has any. */
static void who_has_none(void **state)
{
    smla_kernel_desc desc = decode_desc(64, 512, "v4", NULL);
    struct pair pair;
    (void)state;
    desc.batch_invariant = 1;
    assert_true(make_pair(&desc, &pair));
    assert_false(pair.has);
    free_pair(&pair);
    desc.batch_invariant = 0;
    for (uint32_t op = SMLA_OP_PREFILL; op <= SMLA_OP_PREFILL_REFERENCE; op++) {
        desc.op = op;
        desc.kv_format = op == SMLA_OP_PREFILL ? "v4" : NULL;
        assert_true(make_pair(&desc, &pair));
        assert_false(pair.has);
        free_pair(&pair);
    }
}

/* ---- Which calls take it ---- */

/* Calls that were measured (docs/performance.md), and the edges. Of 132 multiprocessors 125 % are 165, 250 % are 330.
 */
static void sizes_choose(void **state)
{
    static const struct {
        const char *kv, *extra;
        int32_t h_q;
        int64_t tokens, topk, extra_topk;
        int32_t sms;
        bool takes;
    } rows[] = {
        {"v4", "v4", 64, 2, 128, 512, 132, true}, /* 80 cells */
        {"v4", "v4", 64, 4, 128, 512, 132, true}, /* 160 */
        {"v4", "v4", 64, 16, 128, 512, 132, false},
        {"v4", NULL, 64, 1, 128, 0, 132, true},
        {"v4", NULL, 64, 16, 128, 0, 132, true}, /* 128 */
        {"v4", NULL, 64, 64, 128, 0, 132, false},
        {"v4", "v4", 16, 1, 128, 512, 132, true},
        {"v4", "v4", 16, 8, 128, 512, 132, true}, /* 160 */
        {"v4", "v4", 16, 9, 128, 512, 132, false},
        {NULL, NULL, 64, 1, 640, 0, 132, true},
        {NULL, NULL, 64, 7, 640, 0, 132, true}, /* 280 */
        {NULL, NULL, 64, 9, 640, 0, 132, false},
        {NULL, "v4", 64, 5, 640, 0, 132, false}, /* one is read */
        {NULL, NULL, 64, 1, 65, 65, 6, false},   /* each list ends in a block of its own: 16 cells of 15 */
        {NULL, NULL, 64, 1, 65, 65, 7, true},    /* of 17 */
        {NULL, NULL, 64, 82, 0, 0, 132, true},   /* no keys count as a block: 328 */
        {NULL, NULL, 64, 83, 0, 0, 132, false},
        {NULL, NULL, 64, 0, 640, 0, 132, true},
        {NULL, NULL, 8, 1, 64, 0, 132, false}, /* it has none */
        {NULL, NULL, 128, INT32_MAX, INT32_MAX, INT32_MAX, 132, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const smla_kernel_desc desc = decode_desc(rows[i].h_q, 512, rows[i].kv, rows[i].extra);
        const int64_t topk[2] = {rows[i].topk, rows[i].extra_topk};
        struct pair pair;
        assert_true(make_pair(&desc, &pair));
        if (gen_companion_takes(&pair.kernel.plan.companion, rows[i].tokens, topk, rows[i].sms) != rows[i].takes)
            fail_msg("row %zu", i);
        free_pair(&pair);
    }
}

/* ---- Workspace ---- */

static int64_t workspace(const struct pair *pair, int64_t tokens, const int64_t topk[2], int32_t sms)
{
    const struct gen_decode wide = gen_decode_of(&pair->kernel.spec, &pair->kernel.plan);
    const struct gen_decode narrow = gen_decode_of(&pair->companion.spec, &pair->companion.plan);
    struct gen_decode_share share;
    assert_true(gen_decode_make(&wide, tokens, topk, sms, &share));
    const int64_t own = gen_decode_workspace(&share);
    const int64_t other = gen_companion_workspace(&pair->kernel.plan.companion, &narrow, tokens, topk, sms);
    return own > other ? own : other;
}

/* What the one of the two needs that a call takes. */
static int64_t needed(const struct pair *pair, int64_t tokens, const int64_t topk[2], int32_t sms, bool *takes)
{
    const struct gen_bundle *of = &pair->kernel;
    struct gen_decode_share share;
    *takes = gen_companion_takes(&of->plan.companion, tokens, topk, sms);
    const struct gen_bundle *taken = *takes ? &pair->companion : of;
    const struct gen_decode decode = gen_decode_of(&taken->spec, &taken->plan);
    assert_true(gen_decode_make(&decode, tokens, topk, sms, &share));
    return gen_decode_workspace(&share);
}

/* Uniform in [0, below). */
static int64_t draw(uint64_t *random, int64_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(*random >> 33) % below;
}

/* Random sizes, and random ones that are no larger: what was asked for is enough, and grows with the sizes. */
static void the_workspace_is_enough(void **state)
{
    static const int32_t heads[] = {9, 16, 17, 20, 24, 40, 64, 65, 100, 128};
    uint64_t random = 7;
    int taken = 0;
    (void)state;
    for (size_t h = 0; h < sizeof(heads) / sizeof(heads[0]); h++)
        for (int reads = 0; reads < 2; reads++) {
            const smla_kernel_desc desc = decode_desc(heads[h], 512, reads ? "v4" : NULL, reads ? "v41" : "bf16");
            struct pair pair;
            assert_true(make_pair(&desc, &pair));
            for (int i = 0; i < 8000; i++) {
                const int64_t tokens = 1 + draw(&random, i % 4 ? 12 : 2000);
                const int64_t topk[2] = {draw(&random, i % 3 ? 300 : 20000), draw(&random, i % 5 ? 300 : 3000)};
                const int32_t sms = (int32_t)(1 + draw(&random, i % 2 ? 132 : 12));
                const int64_t most = workspace(&pair, tokens, topk, sms);
                const int64_t fewer = 1 + draw(&random, tokens);
                const int64_t shorter[2] = {draw(&random, topk[0] + 1), draw(&random, topk[1] + 1)};
                bool takes;
                const int64_t needs = needed(&pair, fewer, shorter, (int32_t)(1 + draw(&random, sms)), &takes);
                if (needs > most || workspace(&pair, fewer, shorter, sms) > most)
                    fail_msg("%d heads: %lld tokens of up to %lld, %lld and %lld keys: %lld bytes are not enough",
                             heads[h], (long long)fewer, (long long)tokens, (long long)shorter[0],
                             (long long)shorter[1], (long long)most);
                taken += takes;
            }
            free_pair(&pair);
        }
    assert_true(taken > 4000);
}

/* Lists that only the kernel itself can take: the companion's part is that of the longest that it takes. */
static void long_lists_do_not_matter(void **state)
{
    const smla_kernel_desc desc = decode_desc(20, 512, NULL, "bf16");
    const int64_t longest[2] = {INT32_MAX, INT32_MAX};
    struct pair pair;
    (void)state;
    assert_true(make_pair(&desc, &pair));
    const struct gen_decode narrow = gen_decode_of(&pair.companion.spec, &pair.companion.plan);
    const struct gen_companion *companion = &pair.kernel.plan.companion;
    const int64_t most = gen_companion_workspace(companion, &narrow, INT32_MAX, longest, 132);
    assert_true(most > 0 && most <= (int64_t)2 * 132 * 16 * 513 * 4 + 132 * 8 + 32);
    assert_int_equal(gen_companion_workspace(companion, &narrow, 0, longest, 132), 0);
    assert_int_equal(gen_companion_workspace(&(struct gen_companion){0}, &narrow, 5, longest, 132), 0);
    free_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_one),
        cmocka_unit_test(who_has_none),
        cmocka_unit_test(sizes_choose),
        cmocka_unit_test(the_workspace_is_enough),
        cmocka_unit_test(long_lists_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
